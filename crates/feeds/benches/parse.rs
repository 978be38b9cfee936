//! Measures how long it takes to parse a feed and find what is new. `bench/feeds/run` compares it with other languages.
//!
//! `parse fixtures DIR` writes an 80 KB Atom, a 100 KB RDF and a 100 KB RSS 2.0 document; `parse measure FILE SOURCE` prints the median time
//! in microseconds that it takes to read the file's text, find its entries, and tell which are new.

use std::{
    collections::HashSet,
    error::Error,
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    time::Instant,
};

use feeds::{entry::Source, parse};

const WARM_UP: usize = 200;
const ROUNDS: usize = 2_000;

/// What GitHub writes about a push.
const PUSH: &str = "&lt;div class=&quot;push&quot;&gt;&lt;div class=&quot;body&quot;&gt;\n&lt;div class=&quot;d-flex flex-items-baseline border-bottom color-border-muted py-3&quot;&gt;\n  &lt;span class=&quot;mr-2&quot;&gt;&lt;a class=&quot;d-inline-block&quot; href=&quot;/masutaka&quot; rel=&quot;noreferrer&quot;&gt;&lt;img class=&quot;avatar avatar-user&quot; src=&quot;https://avatars.githubusercontent.com/u/170014?s=64&amp;amp;v=4&quot; width=&quot;32&quot; height=&quot;32&quot; alt=&quot;@masutaka&quot;&gt;&lt;/a&gt;&lt;/span&gt;\n  &lt;div class=&quot;d-flex flex-column width-full&quot;&gt;\n    &lt;div class=&quot;&quot;&gt;\n      &lt;a class=&quot;Link--primary no-underline wb-break-all text-bold d-inline-block&quot; href=&quot;/masutaka&quot; rel=&quot;noreferrer&quot;&gt;masutaka&lt;/a&gt; pushed to &lt;a class=&quot;branch-name&quot; href=&quot;/masutaka/repo/tree/main&quot; rel=&quot;noreferrer&quot;&gt;main&lt;/a&gt; in &lt;a class=&quot;Link--primary no-underline wb-break-all text-bold d-inline-block&quot; href=&quot;/masutaka/repo&quot; rel=&quot;noreferrer&quot;&gt;masutaka/repo&lt;/a&gt;\n &lt;span class=&quot;f6 color-fg-muted no-wrap ml-1&quot;&gt;&lt;relative-time tense=&quot;past&quot; datetime=&quot;2026-01-01T00:00:00-08:00&quot;&gt;Jan 1, 2026&lt;/relative-time&gt;&lt;/span&gt;&lt;/div&gt;&lt;/div&gt;&lt;/div&gt;&lt;/div&gt;&lt;/div&gt;";

fn main() -> Result<(), Box<dyn Error>> {
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["fixtures", directory] => {
            std::fs::create_dir_all(directory)?;
            std::fs::write(Path::new(directory).join("github.atom"), atom(80_000))?;
            std::fs::write(Path::new(directory).join("hatebu.rdf"), rdf(100_000))?;
            std::fs::write(Path::new(directory).join("blog.rss"), rss(100_000))?;
        }
        ["measure", file, source] => {
            let source = match *source {
                "hatebu" => Source::Hatebu,
                "github" => Source::Github,
                _ => Source::Listed,
            };
            let body = std::fs::read(file)?;
            let (median, entries, new) = measure(&body, source)?;
            writeln!(io::stdout(), "{median} {entries} {new}")?;
        }
        _ => writeln!(io::stderr(), "parse fixtures DIR | parse measure FILE github|hatebu|blog")?,
    }
    Ok(())
}

fn measure(body: &[u8], source: Source) -> Result<(f64, usize, usize), Box<dyn Error>> {
    let url = "https://example.com/feed".parse()?;
    let feed = parse::parse(source, body, None, &url)?;
    // All but the newest are known.
    let known: HashSet<String> = feed.entries.iter().skip(1).map(|entry| entry.id.as_str().to_owned()).collect();
    let mut times = Vec::with_capacity(ROUNDS);
    let (mut entries, mut new) = (0, 0);
    for round in 0..WARM_UP + ROUNDS {
        let started = Instant::now();
        let feed = parse::parse(source, body, None, &url)?;
        entries = feed.entries.len();
        let unknown = feed.entries.iter().filter(|entry| !known.contains(entry.id.as_str()));
        // The content of a new entry is wanted, too.
        new = unknown.inspect(|entry| drop(std::hint::black_box(entry.content.text()))).count();
        if round >= WARM_UP {
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], entries, new))
}

/// A document like GitHub's, with much HTML.
fn atom(bytes: usize) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\" xmlns:media=\"http://search.yahoo.com/mrss/\" xml:lang=\"en-US\">\n  <id>tag:github.com,2008:/masutaka.private</id>\n  <link type=\"text/html\" rel=\"alternate\" href=\"https://github.com/masutaka\"/>\n  <title>Private Feed for masutaka</title>\n  <updated>2026-01-01T00:00:00Z</updated>\n",
    );
    let mut n = 0;
    while xml.len() < bytes - 20 {
        let _ = write!(
            xml,
            "  <entry>\n    <id>tag:github.com,2008:PushEvent/{id}</id>\n    <published>2026-01-01T00:{m:02}:00Z</published>\n    <updated>2026-01-01T00:{m:02}:00Z</updated>\n    <link type=\"text/html\" rel=\"alternate\" href=\"https://github.com/masutaka/repo/compare/{id:x}...{next:x}\"/>\n    <title type=\"html\">masutaka pushed to main in masutaka/repo &amp;amp; more</title>\n    <author>\n      <name>masutaka</name>\n      <email>masutaka@users.noreply.github.com</email>\n      <uri>https://github.com/masutaka</uri>\n    </author>\n    <media:thumbnail height=\"30\" width=\"30\" url=\"https://avatars.githubusercontent.com/u/170014?s=30&amp;v=4\"/>\n    <content type=\"html\">{content}</content>\n  </entry>\n",
            id = 40_000_000_000_u64 - n,
            next = 40_000_000_001_u64 - n,
            m = 59 - n % 60,
            content = PUSH,
        );
        n += 1;
    }
    xml.push_str("</feed>\n");
    xml
}

/// A document like Hatena's.
fn rdf(bytes: usize) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rdf:RDF xmlns=\"http://purl.org/rss/1.0/\" xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" xmlns:taxo=\"http://purl.org/rss/1.0/modules/taxonomy/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:hatena=\"http://www.hatena.ne.jp/info/xmlns#\">\n<channel rdf:about=\"https://b.hatena.ne.jp/masutaka/bookmark.rss\">\n<title>masutakaのブックマーク</title>\n<link>https://b.hatena.ne.jp/masutaka/bookmark</link>\n</channel>\n",
    );
    let mut n = 0;
    while xml.len() < bytes - 20 {
        let _ = write!(
            xml,
            "<item rdf:about=\"https://b.hatena.ne.jp/masutaka/20260101#bookmark-{id}\">\n<title>べき等性キーの設計と運用 — 第{n}回</title>\n<link>https://example.com/articles/{id}</link>\n<description>これは良い記事。a &lt; b の例がわかりやすい。</description>\n<content:encoded>&lt;blockquote cite=&quot;https://example.com/articles/{id}&quot; title=&quot;べき等性キーの設計と運用&quot;&gt;&lt;cite&gt;&lt;img src=&quot;https://cdn-ak2.favicon.st-hatena.com/?url=https%3A%2F%2Fexample.com%2F&quot; alt=&quot;&quot; /&gt; &lt;a href=&quot;https://example.com/articles/{id}&quot;&gt;べき等性キーの設計と運用&lt;/a&gt;&lt;/cite&gt;&lt;p&gt;{words}&lt;/p&gt;&lt;p&gt;&lt;a href=&quot;https://b.hatena.ne.jp/entry/s/example.com/articles/{id}&quot;&gt;&lt;img src=&quot;https://b.hatena.ne.jp/entry/image/https://example.com/articles/{id}&quot; alt=&quot;はてなブックマーク&quot; /&gt;&lt;/a&gt;&lt;/p&gt;&lt;/blockquote&gt;&lt;p&gt;&lt;img src=&quot;https://cdn.profile-image.st-hatena.com/users/masutaka/profile.gif&quot; alt=&quot;masutaka&quot; /&gt; &lt;a href=&quot;https://b.hatena.ne.jp/masutaka/&quot;&gt;masutaka&lt;/a&gt; これは良い記事。a &amp;lt; b の例がわかりやすい。&lt;/p&gt;</content:encoded>\n<dc:creator>masutaka</dc:creator>\n<dc:date>2026-01-01T00:{m:02}:00Z</dc:date>\n<dc:subject>テクノロジー</dc:subject>\n<hatena:bookmarkcount>{n}</hatena:bookmarkcount>\n<taxo:topics>\n<rdf:Bag>\n<rdf:li rdf:resource=\"https://b.hatena.ne.jp/q/serverless\" />\n</rdf:Bag>\n</taxo:topics>\n</item>\n",
            id = 4_700_000_000_u64 - n,
            m = 59 - n % 60,
            words = "サーバーレスにおける二重実行の防ぎ方を、条件付き書き込みとリースの観点から説明します。".repeat(4),
        );
        n += 1;
    }
    xml.push_str("</rdf:RDF>\n");
    xml
}

/// A document as a blog's software writes it, with the article in each item.
fn rss(bytes: usize) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:atom=\"http://www.w3.org/2005/Atom\">\n<channel>\n<title>A blog</title>\n<atom:link href=\"https://blog.example.com/feed/\" rel=\"self\" type=\"application/rss+xml\" />\n<link>https://blog.example.com</link>\n<description>Words</description>\n",
    );
    let mut n = 0;
    while xml.len() < bytes - 20 {
        let _ = write!(
            xml,
            "<item>\n<title>On doing things once &#8211; part {n}</title>\n<link>https://blog.example.com/{id}/</link>\n<dc:creator><![CDATA[Ann]]></dc:creator>\n<pubDate>Thu, 01 Jan 2026 00:{m:02}:00 +0000</pubDate>\n<category><![CDATA[Serverless]]></category>\n<category><![CDATA[Rust]]></category>\n<guid isPermaLink=\"false\">https://blog.example.com/?p={id}</guid>\n<description><![CDATA[<p>Effects are lost or repeated when two machines act without coordination. [&#8230;]</p>]]></description>\n<content:encoded><![CDATA[{words}]]></content:encoded>\n</item>\n",
            id = 470_000_u64 - n,
            m = 59 - n % 60,
            words = "<p>Effects are lost or repeated when two machines act <em>without</em> coordination &amp; without a <a href=\"https://blog.example.com/keys\">key</a>.</p>\n".repeat(12),
        );
        n += 1;
    }
    xml.push_str("</channel>\n</rss>\n");
    xml
}
