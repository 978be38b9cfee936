//! Sample feeds that grow by one entry every few minutes: GitHub's in Atom, Hatena Bookmark's in RDF, news in RSS 2.0, and notes in JSON Feed.
//!
//! The entries of a feed follow from the time alone, so they are the same after a restart: entry `n` is published at `n` times
//! the interval of the feed. Entries that a person adds (from the console) come on top, until the platform stops. With
//! `--no-demo` the feeds do not grow by themselves.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::escape;
use crate::platform::clock::{now_ms, rfc3339};

/// How many entries a feed shows, like the real ones.
const SHOWN: u64 = 30;
/// The most added entries that are remembered.
const MAX_ADDED: usize = 200;
/// How often GitHub's feed grows.
const GITHUB_EVERY_MS: u64 = 2 * 60_000;
/// How often the feeds of the sample list grow.
const NEWS_EVERY_MS: u64 = 5 * 60_000;
/// How often Hatena's feed grows.
const HATEBU_EVERY_MS: u64 = 5 * 60_000;

const PEOPLE: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
const REPOSITORIES: [&str; 5] =
    ["ichido/ichido", "alice/dotfiles", "bob/feed-reader", "carol/compiler", "rust-lang/rust"];
const PAGES: [&str; 6] = [
    "べき等性キーの設計と運用",
    "Exactly-once delivery, explained without hand-waving",
    "DynamoDBの条件付き書き込みを使いこなす",
    "The history of RSS 1.0 & RDF",
    "Rustで書くLambda関数: コールドスタート <10ms",
    "サーバーレスにおける二重実行の防ぎ方",
];
const COMMENTS: [&str; 5] = [
    "あとで読む",
    "",
    "これは良い記事。a < b > c の例がわかりやすい",
    "@everyone #serverless 参考になる",
    "条件式だけで十分だった",
];

/// Which feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Github,
    Hatebu,
    News,
    Notes,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Github, Self::Hatebu, Self::News, Self::Notes];

    /// The name to add an entry by, the file, and how often the feed grows.
    fn described(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::Github => ("github", "github.atom", GITHUB_EVERY_MS),
            Self::Hatebu => ("hatebu", "hatebu.rdf", HATEBU_EVERY_MS),
            Self::News => ("news", "news.rss", NEWS_EVERY_MS),
            Self::Notes => ("notes", "notes.json", NEWS_EVERY_MS),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    id: String,
    title: String,
    link: String,
    author: String,
    comment: String,
    at_ms: u64,
}

/// An entry that a person adds; missing members are invented.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Added {
    id: Option<String>,
    title: Option<String>,
    link: Option<String>,
    author: Option<String>,
    comment: Option<String>,
}

/// Both feeds.
#[derive(Clone, Debug)]
pub(crate) struct SampleFeeds {
    /// With `--no-demo`, the time at which they stopped growing.
    stopped_at: Option<u64>,
    /// Newest last.
    added: Arc<Mutex<Vec<(Kind, Entry)>>>,
}

impl SampleFeeds {
    /// Feeds that grow, or that stay as they are now.
    pub(crate) fn new(grow: bool) -> Self {
        Self { stopped_at: (!grow).then(now_ms), added: Arc::default() }
    }

    /// `GET /feeds/sample/github.atom` and the others, and `POST /feeds/sample/{github,hatebu,news,notes}` to add an entry.
    pub(crate) fn router(self) -> Router {
        Kind::ALL
            .into_iter()
            .fold(Router::new(), |router, kind| {
                let path = format!("/feeds/sample/{}", kind.described().1);
                let serve =
                    move |State(feeds): State<Self>, headers: HeaderMap| async move { feeds.serve(kind, &headers) };
                router.route(&path, get(serve))
            })
            .route("/feeds/sample/{feed}", post(add))
            .with_state(self)
    }

    fn now(&self) -> u64 {
        self.stopped_at.unwrap_or_else(now_ms)
    }

    /// Newest first.
    fn entries(&self, kind: Kind) -> Vec<Entry> {
        let every = kind.described().2;
        let newest = self.now() / every;
        let made = (newest.saturating_sub(SHOWN)..=newest).map(|n| make(kind, n, n * every));
        let added = telemetry::lock(&self.added);
        let added = added.iter().filter(|(of, _)| *of == kind).map(|(_, entry)| entry.clone());
        let mut entries: Vec<Entry> = made.chain(added).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at_ms));
        entries
    }

    fn serve(&self, kind: Kind, headers: &HeaderMap) -> Response {
        let entries = self.entries(kind);
        let (content_type, body) = match kind {
            Kind::Github => ("application/atom+xml; charset=utf-8", atom(&entries)),
            Kind::Hatebu => ("application/xml; charset=utf-8", rdf(&entries)),
            Kind::News => ("application/rss+xml", rss(&entries)),
            Kind::Notes => ("application/feed+json", json_feed(&entries)),
        };
        let etag = format!("W/\"{}\"", hex::encode(&Sha256::digest(body.as_bytes())[..8]));
        if headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()) == Some(etag.as_str()) {
            return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
        }
        ([(header::CONTENT_TYPE, content_type.to_owned()), (header::ETAG, etag)], body).into_response()
    }

    fn add(&self, kind: Kind, wanted: Added) -> Entry {
        let at_ms = now_ms();
        let mut entry = make(kind, at_ms, at_ms);
        let set = |slot: &mut String, value: Option<String>| {
            if let Some(value) = value {
                *slot = value;
            }
        };
        set(&mut entry.id, wanted.id);
        set(&mut entry.title, wanted.title);
        set(&mut entry.link, wanted.link);
        set(&mut entry.author, wanted.author);
        set(&mut entry.comment, wanted.comment);
        let mut added = telemetry::lock(&self.added);
        if added.len() >= MAX_ADDED {
            added.remove(0);
        }
        added.push((kind, entry.clone()));
        entry
    }
}

async fn add(State(feeds): State<SampleFeeds>, Path(feed): Path<String>, wanted: Option<Json<Added>>) -> Response {
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.described().0 == feed) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Entry { id, title, link, .. } = feeds.add(kind, wanted.map(|Json(wanted)| wanted).unwrap_or_default());
    (StatusCode::CREATED, Json(serde_json::json!({"id": id, "title": title, "link": link}))).into_response()
}

/// Entry `n`; it is always the same.
fn make(kind: Kind, n: u64, at_ms: u64) -> Entry {
    let pick =
        |list: &[&'static str], salt: u64| list[(n.wrapping_mul(31).wrapping_add(salt) % list.len() as u64) as usize];
    match kind {
        Kind::Github => {
            let (who, repository) = (pick(&PEOPLE, 1), pick(&REPOSITORIES, 2));
            let (event, title, link) = match n % 5 {
                0 => (
                    "PushEvent",
                    format!("{who} pushed to main in {repository}"),
                    format!("https://github.com/{repository}/compare/{n:x}...{:x}", n + 1),
                ),
                1 => ("WatchEvent", format!("{who} starred {repository}"), format!("https://github.com/{repository}")),
                2 => (
                    "FollowEvent",
                    format!("{who} started following masutaka"),
                    "https://github.com/masutaka".to_owned(),
                ),
                3 => (
                    "IssuesEvent",
                    format!("{who} opened an issue in {repository}: \"<T> & friends\""),
                    format!("https://github.com/{repository}/issues/{n}"),
                ),
                _ => (
                    "ReleaseEvent",
                    format!("{who} released v{n} of {repository}"),
                    format!("https://github.com/{repository}/releases/tag/v{n}"),
                ),
            };
            Entry {
                id: format!("tag:github.com,2008:{event}/{n}"),
                title,
                link,
                author: who.to_owned(),
                comment: String::new(),
                at_ms,
            }
        }
        Kind::Hatebu => Entry {
            id: format!("https://b.hatena.ne.jp/masutaka/20260101#bookmark-{n}"),
            title: pick(&PAGES, 3).to_owned(),
            link: format!("https://example.com/articles/{n}"),
            author: "masutaka".to_owned(),
            comment: pick(&COMMENTS, 4).to_owned(),
            at_ms,
        },
        Kind::News => Entry {
            id: format!("news-{n}"),
            title: pick(&PAGES, 5).to_owned(),
            link: format!("https://news.example.com/{n}"),
            author: pick(&PEOPLE, 6).to_owned(),
            comment: "serverless".to_owned(),
            at_ms,
        },
        Kind::Notes => Entry {
            id: n.to_string(),
            title: format!("Note {n} by {}", pick(&PEOPLE, 7)),
            link: format!("https://notes.example.com/{n}"),
            author: pick(&PEOPLE, 7).to_owned(),
            comment: format!("https://notes.example.com/{n}.mp3"),
            at_ms,
        },
    }
}

fn atom(entries: &[Entry]) -> String {
    let updated = rfc3339(entries.first().map_or(0, |entry| entry.at_ms));
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\" xml:lang=\"en-US\">\n<id>tag:github.com,2008:/masutaka.private</id>\n<link type=\"text/html\" rel=\"alternate\" href=\"https://github.com/masutaka\"/>\n<title>Private Feed for masutaka</title>\n<updated>{updated}</updated>\n"
    );
    for entry in entries {
        let at = rfc3339(entry.at_ms);
        // GitHub's titles are HTML, so their text is escaped twice.
        let title = escape(&escape(&entry.title));
        let _ = writeln!(
            xml,
            "<entry><id>{}</id><published>{at}</published><updated>{at}</updated><link type=\"text/html\" rel=\"alternate\" href=\"{}\"/><title type=\"html\">{title}</title><author><name>{}</name></author><content type=\"html\">&lt;p&gt;{title}&lt;/p&gt;</content></entry>",
            escape(&entry.id),
            escape(&entry.link),
            escape(&entry.author),
        );
    }
    xml.push_str("</feed>\n");
    xml
}

fn rdf(entries: &[Entry]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rdf:RDF xmlns=\"http://purl.org/rss/1.0/\" xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\">\n<channel rdf:about=\"https://b.hatena.ne.jp/masutaka/bookmark.rss\"><title>masutakaのブックマーク</title><link>https://b.hatena.ne.jp/masutaka/bookmark</link></channel>\n",
    );
    for entry in entries {
        let comment = escape(&entry.comment);
        let (link, title) = (escape(&entry.link), escape(&entry.title));
        let content = format!(
            "<blockquote cite=\"{link}\" title=\"{title}\"><cite><a href=\"{link}\">{title}</a></cite><p><a href=\"https://b.hatena.ne.jp/entry/{link}\"><img src=\"https://b.hatena.ne.jp/entry/image/{link}\" alt=\"\" /></a></p></blockquote><p><a href=\"https://b.hatena.ne.jp/{author}/\">{author}</a> {comment}</p>",
            author = escape(&entry.author),
        );
        let _ = writeln!(
            xml,
            "<item rdf:about=\"{}\"><title>{title}</title><link>{link}</link><description>{comment}</description><dc:creator>{}</dc:creator><dc:date>{}</dc:date><content:encoded>{}</content:encoded></item>",
            escape(&entry.id),
            escape(&entry.author),
            rfc3339(entry.at_ms),
            escape(&content),
        );
    }
    xml.push_str("</rdf:RDF>\n");
    xml
}

/// The comment is the category.
fn rss(entries: &[Entry]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\"><channel><title>News</title><link>https://news.example.com/</link>\n",
    );
    for entry in entries {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(entry.at_ms).unwrap_or_default()).unwrap_or_default();
        let _ = writeln!(
            xml,
            "<item><guid isPermaLink=\"false\">{}</guid><title>{}</title><link>{}</link><author>{}</author><category>{}</category><pubDate>{}</pubDate></item>",
            escape(&entry.id),
            escape(&escape(&entry.title)),
            escape(&entry.link),
            escape(&entry.author),
            escape(&entry.comment),
            at.strftime("%a, %d %b %Y %H:%M:%S +0000"),
        );
    }
    xml.push_str("</channel></rss>\n");
    xml
}

/// The comment is the address of a recording.
fn json_feed(entries: &[Entry]) -> String {
    let items: Vec<serde_json::Value> = entries
        .iter()
        .map(|entry| {
            serde_json::json!({
                "id": entry.id, "url": entry.link, "title": entry.title, "date_published": rfc3339(entry.at_ms),
                "authors": [{"name": entry.author}], "content_text": entry.title,
                "attachments": [{"url": entry.comment, "mime_type": "audio/mpeg"}],
            })
        })
        .collect();
    let home = "https://notes.example.com/";
    serde_json::json!({
        "version": "https://jsonfeed.org/version/1.1", "title": "Notes", "home_page_url": home, "items": items,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use feeds::{entry::Source, parse};

    use super::*;

    #[test]
    fn all_feeds_are_read_by_the_real_parser_entry_by_entry() {
        let feeds = SampleFeeds::new(false);
        let url = "http://127.0.0.1/feed".parse().expect("a URL");
        for (kind, source) in [
            (Kind::Github, Source::Github),
            (Kind::Hatebu, Source::Hatebu),
            (Kind::News, Source::Listed),
            (Kind::Notes, Source::Listed),
        ] {
            let entries = feeds.entries(kind);
            let body = match kind {
                Kind::Github => atom(&entries),
                Kind::Hatebu => rdf(&entries),
                Kind::News => rss(&entries),
                Kind::Notes => json_feed(&entries),
            };
            let feed = parse::parse(source, body.as_bytes(), None, &url).expect("a feed");
            assert!(feed.problems.is_empty(), "{:?}", feed.problems);
            assert_eq!(feed.entries.len(), entries.len());
            for (read, shown) in feed.entries.iter().zip(&entries) {
                assert_eq!((read.id.as_str(), &read.title, &read.link), (shown.id.as_str(), &shown.title, &shown.link));
                match kind {
                    Kind::Hatebu => assert_eq!(read.content.text(), shown.comment),
                    Kind::News => assert_eq!(read.categories, [shown.comment.as_str()]),
                    Kind::Notes => assert_eq!(read.enclosure, shown.comment),
                    Kind::Github => {}
                }
                assert_eq!(read.published.map(|at| at.as_second()), i64::try_from(shown.at_ms / 1_000).ok());
            }
        }
    }

    #[test]
    fn an_added_entry_stands_in_front() {
        let feeds = SampleFeeds::new(false);
        feeds.add(Kind::Github, Added { title: Some("mine".into()), ..Added::default() });
        assert_eq!(feeds.entries(Kind::Github)[0].title, "mine");
    }
}
