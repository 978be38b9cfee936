use proptest::test_runner::Config;

use super::*;

/// How many cases a property test tries: a few in `make test`, as many as `PROPTEST_CASES` says in `make soak`.
pub(crate) fn cases(few: u32) -> Config {
    let default = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { Config { cases: few, ..default } }
}

fn url() -> Url {
    "https://github.com/masutaka.private.atom?token=NOTREAL".parse().unwrap()
}

fn atom(inside: &str) -> Result<Feed, Error> {
    let body = format!(
        r#"<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="alternate" href="https://github.com/masutaka"/>{inside}</feed>"#
    );
    parse(Source::Github, body.as_bytes(), None, &url())
}

fn rdf(inside: &str) -> Result<Feed, Error> {
    let body = format!(
        r#"<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel rdf:about="x"><link>https://b.hatena.ne.jp/masutaka/</link></channel>{inside}</rdf:RDF>"#
    );
    parse(Source::Hatebu, body.as_bytes(), None, &url())
}

fn only(feed: Feed) -> Entry {
    assert_eq!(feed.entries.len(), 1, "{:?}", feed.problems);
    feed.entries.into_iter().next().unwrap()
}

#[test]
fn github_fields_are_mapped_as_documented() {
    let entry = only(
        atom(
            r#"<entry><id>tag:github.com,2008:PushEvent/1</id><published>2024-01-01T00:00:00Z</published><updated>2024-02-01T00:00:00Z</updated>
            <link type="text/html" rel="alternate" href="https://github.com/masutaka/repo/compare/a...b"/>
            <title type="html">masutaka pushed to main &amp;amp; more</title><author><name>masutaka</name><uri>x</uri></author>
            <content type="html">&lt;p&gt;1 commit&lt;/p&gt;</content></entry>"#,
        )
        .unwrap(),
    );
    assert_eq!(entry.id.as_str(), "tag:github.com,2008:PushEvent/1");
    assert_eq!(entry.title, "masutaka pushed to main & more");
    assert_eq!(entry.link, "https://github.com/masutaka/repo/compare/a...b");
    assert_eq!(entry.published.unwrap().to_string(), "2024-01-01T00:00:00Z");
    assert_eq!((entry.author.as_str(), &*entry.content.text()), ("masutaka", "1 commit"));
}

#[test]
fn hatena_fields_are_mapped_as_documented() {
    let entry = only(
        rdf(r#"<item rdf:about="https://b.hatena.ne.jp/masutaka/20240101#bookmark-1"><title>題名 &lt;tag&gt; &amp;amp;</title>
            <link>https://example.com/</link><description>コメント</description><dc:creator>masutaka</dc:creator>
            <dc:date>2024-01-01T09:00:00+09:00</dc:date><content:encoded>&lt;p&gt;本文&lt;br/&gt;続き&lt;/p&gt;</content:encoded></item>"#)
        .unwrap(),
    );
    assert_eq!(entry.id.as_str(), "https://b.hatena.ne.jp/masutaka/20240101#bookmark-1");
    // A title in RSS is text: it is decoded once, and what looks like markup in it is not markup.
    assert_eq!(entry.title, "題名 <tag> &amp;");
    assert_eq!(entry.published.unwrap().to_string(), "2024-01-01T00:00:00Z");
    assert_eq!((entry.author.as_str(), &*entry.content.text()), ("masutaka", "本文 続き"));
}

#[test]
fn without_content_the_description_is_the_content() {
    let entry =
        only(rdf(r#"<item rdf:about="a"><link>/x</link><description>a &lt; b &gt; c</description></item>"#).unwrap());
    assert_eq!(entry.content.text(), "a < b > c");
}

#[test]
fn ids_fall_back_to_guid_and_then_to_the_link() {
    let feed =
        rdf(r"<item><guid>g</guid><link>https://x/1</link></item><item><link>https://x/2</link></item>").unwrap();
    assert_eq!(feed.entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["g", "https://x/2"]);
}

#[test]
fn an_id_of_white_space_is_skipped_with_a_warning() {
    let feed = atom("<entry><id> \n </id><title>T</title></entry><entry><id>1</id></entry>").unwrap();
    assert_eq!(feed.entries.len(), 1);
    assert!(feed.problems.contains(&Problem::NoId { position: 1 }));
    let feed = atom(r#"<entry><id> </id><link href="https://x/"/></entry>"#).unwrap();
    assert_eq!(feed.problems, [Problem::BlankId { position: 1 }]);
    assert_eq!(only(feed).id.as_str(), "https://x/");
}

#[test]
fn a_broken_date_costs_the_date() {
    let feed = atom("<entry><id>1</id><published>yesterday</published></entry><entry><id>2</id></entry>").unwrap();
    assert_eq!(feed.entries.len(), 2);
    assert_eq!(feed.entries[0].published, None);
    assert_eq!(feed.problems, [Problem::Date { position: 1, text: "yesterday".into() }]);
}

#[test]
fn tags_that_do_not_match_cost_nothing() {
    let feed =
        atom("<entry><id>1</id><title>a <b>c</title></x></entry><entry><id>2</id><title>d</title></entry>").unwrap();
    assert_eq!(feed.entries.iter().map(|entry| entry.title.as_str()).collect::<Vec<_>>(), ["a c", "d"]);
    assert!(!feed.truncated);
}

#[test]
fn a_document_that_ends_too_early_gives_what_it_has_and_says_so() {
    let body = r#"<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id></entry><entry><id>2</id><title>cut"#;
    let feed = parse(Source::Github, body.as_bytes(), None, &url()).unwrap();
    assert_eq!(feed.entries.len(), 1);
    assert!(feed.truncated);
}

#[test]
fn document_types_are_refused_and_unknown_entities_are_text() {
    let bomb = r#"<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><feed xmlns="http://www.w3.org/2005/Atom"/>"#;
    assert_eq!(parse(Source::Github, bomb.as_bytes(), None, &url()).unwrap_err(), Error::Dtd);
    assert_eq!(
        only(atom("<entry><id>1</id><title>&lol; &nbsp;x &#x3042;</title></entry>").unwrap()).title,
        "&lol; x あ"
    );
}

#[test]
fn what_is_not_a_feed_is_an_error_and_an_empty_feed_is_not() {
    for body in ["", "   ", "hello", "<html><body>Sign in</body></html>", "{\"json\": true}"] {
        assert_eq!(parse(Source::Github, body.as_bytes(), None, &url()).unwrap_err(), Error::NotAFeed, "{body}");
    }
    assert!(atom("").unwrap().entries.is_empty());
    assert!(matches!(atom("<entry><title>no id</title></entry>"), Err(Error::NothingReadable(_))));
}

#[test]
fn relative_links_are_made_absolute_against_the_feeds_site_and_bad_ones_left_out() {
    let feed = atom(
        r#"<entry><id>1</id><link href="/masutaka/repo"/></entry><entry><id>2</id><link href="javascript:alert(1)"/></entry><entry><id>3</id><link rel="self" href="https://x/self"/><link href="https://x/page"/></entry>"#,
    )
    .unwrap();
    let links: Vec<_> = feed.entries.iter().map(|entry| entry.link.as_str()).collect();
    assert_eq!(links, ["https://github.com/masutaka/repo", "", "https://x/page"]);
}

#[test]
fn a_link_never_carries_the_token_of_the_feed() {
    let body = r#"<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><link href="repo"/></entry></feed>"#;
    let feed = parse(Source::Github, body.as_bytes(), None, &url()).unwrap();
    assert!(!feed.entries[0].link.contains("NOTREAL"));
}

#[test]
fn encodings_are_read_by_mark_header_and_declaration() {
    let text = r#"<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title>日本語</title></entry></feed>"#;
    let title = |body: &[u8], charset: Option<&str>| only(parse(Source::Github, body, charset, &url()).unwrap()).title;
    let sjis = encoding_rs::SHIFT_JIS.encode(text).0;
    let euc = format!("<?xml version='1.0' encoding='EUC-JP'?>{text}");
    let euc = encoding_rs::EUC_JP.encode(&euc).0;
    assert_eq!(title(&sjis, Some("Shift_JIS")), "日本語");
    assert_eq!(title(&euc, None), "日本語");
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_eq!(title(&utf16, None), "日本語");
    let unmarked: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(title(&unmarked, None), "日本語");
    let bom: Vec<u8> = [0xef, 0xbb, 0xbf].into_iter().chain(text.bytes()).collect();
    assert_eq!(title(&bom, Some("iso-8859-1")), "日本語");
    assert_eq!(
        parse(Source::Github, text.as_bytes(), Some("klingon"), &url()).unwrap_err(),
        Error::Encoding { name: "klingon".into() }
    );
}

#[test]
fn bytes_that_are_not_text_cost_a_character() {
    let body = b"<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id><title>a\xffb</title></entry></feed>";
    assert_eq!(only(parse(Source::Github, body, None, &url()).unwrap()).title, "a\u{fffd}b");
}

#[test]
fn prefixes_mean_what_they_are_bound_to_and_unbound_ones_what_everybody_means() {
    let body = r#"<a:feed xmlns:a="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/"><a:entry><a:id>1</a:id><media:title>no</media:title><a:title>yes</a:title><dc:creator>who</dc:creator></a:entry></a:feed>"#;
    let entry = only(parse(Source::Github, body.as_bytes(), None, &url()).unwrap());
    assert_eq!((entry.title.as_str(), entry.author.as_str()), ("yes", "who"));
}

#[test]
fn the_source_of_an_entry_is_not_the_entry() {
    let entry = only(
        atom("<entry><source><id>other</id><title>other</title></source><id>1</id><title>mine</title></entry>")
            .unwrap(),
    );
    assert_eq!((entry.id.as_str(), entry.title.as_str()), ("1", "mine"));
}

#[test]
fn xhtml_content_is_read_through_its_elements() {
    let entry = only(
        atom(r#"<entry><id>1</id><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>a &lt;b&gt;</p><p>c</p></div></content></entry>"#)
            .unwrap(),
    );
    assert_eq!(entry.content.text(), "a <b> c");
}

#[test]
fn rss_2_is_read_too() {
    let body = r#"<rss version="2.0"><channel><title>C</title><link>https://x.example/</link><ttl>60</ttl><image><link>https://no/</link></image><item><title>T</title><link>/a</link><guid isPermaLink="false">g1</guid><pubDate>Mon, 01 Jan 2024 00:00:00 GMT</pubDate><description>&lt;b&gt;D&lt;/b&gt;</description></item></channel></rss>"#;
    let feed = parse(Source::Hatebu, body.as_bytes(), None, &url()).unwrap();
    assert_eq!(feed.period, Some(Duration::from_secs(3_600)));
    let entry = only(feed);
    assert_eq!((entry.id.as_str(), entry.link.as_str(), &*entry.content.text()), ("g1", "https://x.example/a", "D"));
    assert!(entry.published.is_some());
}

#[test]
fn a_repeated_id_is_one_entry() {
    let feed =
        atom("<entry><id>1</id><title>first</title></entry><entry><id>1</id><title>again</title></entry>").unwrap();
    assert_eq!(feed.problems, [Problem::Repeated { position: 2 }]);
    assert_eq!(only(feed).title, "first");
}

#[test]
fn endless_nesting_and_endless_text_are_bounded() {
    assert_eq!(atom(&"<x>".repeat(100_000)).unwrap_err(), Error::TooDeep);
    let entry = only(atom(&format!("<entry><id>1</id><title>{}</title></entry>", "題".repeat(1_000_000))).unwrap());
    assert!(entry.title.len() <= MAX_TITLE);
}

#[test]
fn thousands_of_entries_are_all_read() {
    let many: String = (0..5_000).map(|n| format!("<entry><id>{n}</id><title>t{n}</title></entry>")).collect();
    assert_eq!(atom(&many).unwrap().entries.len(), 5_000);
}

mod fuzz {
    use super::*;
    use proptest::prelude::*;

    /// Pieces that feeds are made of, in any order: more telling than random bytes.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("<feed xmlns='http://www.w3.org/2005/Atom'>".to_owned()),
            Just("<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>".to_owned()),
            "</?(entry|item|title|id|link|guid|content|source|author|name|channel|feed|rdf:RDF|dc:date)>"
                .prop_map(|s| s),
            "<(link|item|entry|content) (href|rdf:about|type|rel)=[\"'][a-z:/&;?<>]{0,12}[\"']/?>".prop_map(|s| s),
            "(&[a-z#x0-9]{0,8};?|<!\\[CDATA\\[|\\]\\]>|<!--|-->|<\\?|\\?>|<!DOCTYPE)".prop_map(|s| s),
            "\\PC{0,12}",
        ]
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn no_document_makes_the_parser_panic_or_break_its_bounds(pieces in proptest::collection::vec(piece(), 0..40)) {
            let body = pieces.concat();
            if let Ok(feed) = parse(Source::Hatebu, body.as_bytes(), None, &url()) {
                for entry in &feed.entries {
                    prop_assert!(!entry.id.as_str().trim().is_empty());
                    prop_assert!(entry.link.is_empty() || entry.link.starts_with("http"));
                    prop_assert!(entry.title.len() <= MAX_TITLE && entry.content.text().len() <= MAX_CONTENT);
                    prop_assert!(!entry.title.contains(['\n', '\r']));
                }
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(Source::Github, &bytes, None, &url());
        }
    }
}
