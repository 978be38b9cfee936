//! What real feeds look like, by what people report to the authors of feed readers: one minimal input for each, written for this test.
//! Every entry is read once, with a link that works; what cannot be read is an error that says why.

use feeds::{
    entry::{Entry, Source},
    parse::{self, Error, Feed, Format, Problem},
};
use proptest::prelude::*;

fn read(body: &[u8], charset: Option<&str>) -> Result<Feed, Error> {
    parse::parse(Source::Listed, body, charset, &"https://site.example/feeds/all.xml".parse().unwrap())
}

fn feed(body: &str) -> Feed {
    read(body.as_bytes(), None).unwrap()
}

fn rss(items: &str) -> Feed {
    feed(&format!(
        r#"<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><link>https://site.example/</link>{items}</channel></rss>"#
    ))
}

fn atom(inside: &str) -> Feed {
    feed(&format!(r#"<feed xmlns="http://www.w3.org/2005/Atom">{inside}</feed>"#))
}

fn json(items: &str) -> Feed {
    feed(&format!(
        r#"{{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "https://site.example/", "items": [{items}]}}"#
    ))
}

fn only(feed: Feed) -> Entry {
    assert_eq!(feed.entries.len(), 1, "{:?}", feed.problems);
    feed.entries.into_iter().next().unwrap()
}

fn ids(feed: &Feed) -> Vec<&str> {
    feed.entries.iter().map(|entry| entry.id.as_str()).collect()
}

#[test]
fn the_format_is_found_by_content_whatever_the_header_says() {
    let xml = "<?xml version='1.0'?>";
    for (body, format) in [
        (format!("\u{feff}\n {xml}<feed xmlns='http://www.w3.org/2005/Atom'/>"), Format::Atom),
        (format!("{xml}<rss version='0.91'><channel/></rss>"), Format::Rss),
        (
            "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'/>"
                .into(),
            Format::Rdf,
        ),
        ("\u{feff} {\"version\": \"https://jsonfeed.org/version/1\", \"items\": []}".into(), Format::Json),
    ] {
        assert_eq!(feed(&body).format, format, "{body}");
    }
}

#[test]
fn entries_that_all_have_the_same_guid_are_told_apart_by_their_links() {
    let one = "<item><guid isPermaLink='false'>http://site.example/blog/</guid><title>One</title><link>https://site.example/1</link></item>";
    let two = one.replace("One", "Two").replace("example/1<", "example/2<");
    let both = rss(&format!("{two}{one}"));
    assert_eq!(ids(&both), ["https://site.example/2", "https://site.example/1"]);
    // A new entry on top does not change who is who.
    let three = one.replace("One", "Three").replace("example/1<", "example/3<");
    assert_eq!(ids(&rss(&format!("{three}{two}{one}")))[1..], ids(&both));
}

#[test]
fn entries_with_the_same_guid_and_the_same_link_are_told_apart_by_what_they_say() {
    let item = |title: &str| {
        format!("<item><guid>N/A</guid><link>https://site.example/all</link><title>{title}</title></item>")
    };
    let read = rss(&format!("{}{}{}", item("3.1"), item("3.0"), item("3.0")));
    assert_eq!(read.entries.iter().map(|entry| entry.title.as_str()).collect::<Vec<_>>(), ["3.1", "3.0"]);
    assert_eq!(read.problems, [Problem::Repeated { position: 3 }], "the same thing twice is one entry");
    let again = rss(&format!("{}{}{}", item("3.2"), item("3.1"), item("3.0")));
    assert_eq!(ids(&again)[1..], ids(&read), "the ids last");
}

#[test]
fn two_versions_of_an_entry_of_atom_are_one_entry() {
    let read = atom("<entry><id>a</id><title>new</title></entry><entry><id>a</id><title>old</title></entry>");
    assert_eq!(only(read).title, "new");
}

#[test]
fn an_empty_guid_is_no_guid() {
    let entry =
        only(rss("<item><guid isPermaLink='false'></guid><title>T</title><link>https://site.example/1</link></item>"));
    assert_eq!(entry.id.as_str(), "https://site.example/1");
}

#[test]
fn an_entry_with_neither_guid_nor_link_has_an_id_that_lasts() {
    let status = "<item><title>All systems operational</title><pubDate>Mon, 01 Jan 2024 00:00:00 GMT</pubDate></item>";
    let (once, again) = (rss(status), rss(&format!("<item><title>Down</title></item>{status}")));
    assert_eq!(once.entries[0].id, again.entries[1].id);
    assert!(once.entries[0].id.as_str().starts_with("text:"), "{}", once.entries[0].id);
    assert!(matches!(read(b"<rss><channel><item/></channel></rss>", None), Err(Error::NothingReadable(_))));
}

#[test]
fn a_guid_that_is_a_link_is_the_link_and_one_that_says_it_is_not_is_not() {
    let guid = |attribute: &str| {
        only(rss(&format!("<item><guid {attribute}>https://site.example/g</guid><title>T</title></item>"))).link
    };
    assert_eq!(
        (guid("").as_str(), guid("isPermaLink='true'").as_str()),
        ("https://site.example/g", "https://site.example/g")
    );
    assert_eq!(guid("isPermaLink='false'"), "");
}

#[test]
fn relative_links_follow_xml_base_of_the_feed_and_of_the_entry() {
    let read = feed(
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://site.example/ongoing/'><entry xml:base='When/2013/08/14/'><id>1</id>\
         <link href='Single-Point'/></entry><entry><id>2</id><link href='Other'/></entry></feed>",
    );
    let links: Vec<_> = read.entries.iter().map(|entry| entry.link.as_str()).collect();
    assert_eq!(
        links,
        ["https://site.example/ongoing/When/2013/08/14/Single-Point", "https://site.example/ongoing/Other"]
    );
}

#[test]
fn an_atom_entry_links_to_its_page_and_not_to_its_comments_or_its_recording() {
    let entry = only(atom(
        "<entry><id>1</id><link rel='replies' href='https://x.example/1#comments'/><link rel='enclosure' href='https://x.example/1.mp3'/>\
         <link rel='alternate' href='https://x.example/1'/><category term='t' label='Label'/><category term='other'/></entry>",
    ));
    assert_eq!((entry.link.as_str(), entry.enclosure.as_str()), ("https://x.example/1", "https://x.example/1.mp3"));
    assert_eq!(entry.categories, ["Label", "other"]);
}

#[test]
fn enclosures_and_categories_of_rss_are_read_from_wherever_they_are() {
    let entry = only(rss(
        "<item><link>/1</link><category><![CDATA[News & more]]></category><category> </category><category>News &amp; more</category>\
         <enclosure url='/a.mp3?x=1&amp;y=2' length='1' type='audio/mpeg'/><media:content url='https://x.example/b.jpg'/></item>",
    ));
    assert_eq!(
        (entry.link.as_str(), entry.enclosure.as_str()),
        ("https://site.example/1", "https://site.example/a.mp3?x=1&y=2")
    );
    assert_eq!(entry.categories, ["News & more"]);
    let picture = only(rss("<item><link>/1</link><media:content url='https://x.example/b.jpg'/></item>"));
    assert_eq!(picture.enclosure, "https://x.example/b.jpg");
    let bookmark = "<rdf:RDF xmlns='http://purl.org/rss/1.0/' xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
                    xmlns:dc='http://purl.org/dc/elements/1.1/'><item rdf:about='https://x.example/1'><dc:subject>rust</dc:subject></item></rdf:RDF>";
    assert_eq!(only(feed(bookmark)).categories, ["rust"]);
}

#[test]
fn titles_of_rss_that_are_html_are_read_as_html_and_code_stays() {
    let title = |title: &str| only(rss(&format!("<item><link>/1</link><title>{title}</title></item>"))).title;
    assert_eq!(title("AT&amp;amp;T &amp;#8217;n&amp;#8217; more"), "AT&T ’n’ more");
    assert_eq!(title("<![CDATA[<b>Bold</b> &amp; plain]]>"), "Bold & plain");
    assert_eq!(title("Vec&lt;String&gt; in Rust"), "Vec<String> in Rust");
    assert_eq!(
        title("caf&#233; &#146;quoted&#146;"),
        "café ’quoted’",
        "numbers of Windows-1252 mean what browsers take them for"
    );
}

#[test]
fn what_only_looks_like_cdata_takes_nothing_with_it() {
    let items = |before: &str| {
        rss(&format!(
            "{before}<item><title>caf&#233; &amp; bar</title><link>/1?a&amp;b</link></item>\
             <item><title><![CDATA[a & b <i>c</i> \u{1}amp; d]]></title><link>/2</link></item>"
        ))
    };
    for before in ["", "<!-- <![CDATA[ -->", "<generator uri='<![CDATA[x'/>", "<!-- a --><!-- <!-- -->"] {
        let feed = items(before);
        let entries: Vec<_> = feed.entries.iter().map(|entry| (entry.title.as_str(), entry.link.as_str())).collect();
        let first = ("café & bar", "https://site.example/1?a&b");
        assert_eq!(entries, [first, ("a & b c amp; d", "https://site.example/2")], "{before}");
    }
}

#[test]
fn cdata_is_a_part_of_the_text_around_it() {
    let title = |title: &str| only(rss(&format!("<item><title>{title}</title><link>/1</link></item>"))).title;
    assert_eq!(title("a &amp; <![CDATA[b & c]]> d<![CDATA[]]><![CDATA[ &lt;e\r\n]]>f;"), "a & b & c d <e f;");
}

#[test]
fn a_document_that_ends_too_early_says_where_also_after_cdata() {
    let head = "<rss version='2.0'><channel><item><guid>1</guid><title><![CDATA[a long title]]></title></item>";
    let feed = feed(&format!("{head}<item><title>b"));
    assert_eq!(feed.problems, [Problem::Truncated { at: (head.len() + "<item><title>b".len()) as u64 }]);
}

#[test]
fn a_lone_less_than_is_a_character() {
    let entry = only(rss(
        "<item><title>I <3 Rust, a < b <![CDATA[ <4 ]]></title><link>https://e.example/1</link><guid>1</guid></item>",
    ));
    assert_eq!((entry.title.as_str(), entry.link.as_str()), ("I <3 Rust, a < b <4", "https://e.example/1"));
    let entry =
        only(atom("<entry><id>1</id><title>1 <2</title><content type='xhtml'><div>x <3 y</div></content></entry>"));
    assert_eq!((entry.title.as_str(), &*entry.content.text()), ("1 <2", "x <3 y"));
}

#[test]
fn a_doctype_that_only_names_a_file_is_harmless_and_one_with_declarations_is_refused() {
    let doctype = r#"<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd">"#;
    let rss =
        "<rss version='0.91'><channel><item><title>T</title><link>https://x.example/</link></item></channel></rss>";
    assert_eq!(only(feed(&format!("<?xml version='1.0'?>{doctype}{rss}"))).title, "T");
    let bomb = format!("<!DOCTYPE rss [<!ENTITY a 'aaaa'>]>{rss}");
    assert_eq!(read(bomb.as_bytes(), None).unwrap_err(), Error::Dtd);
}

#[test]
fn old_encodings_are_read_by_declaration_or_header() {
    let body = |declared: &str| {
        format!(
            "<?xml version='1.0' encoding='{declared}'?><rss><channel><item><title>Привет</title><link>/1</link></item></channel></rss>"
        )
    };
    for (label, encoding) in [("windows-1251", encoding_rs::WINDOWS_1251), ("KOI8-R", encoding_rs::KOI8_R)] {
        let bytes = body(label);
        let bytes = encoding.encode(&bytes).0;
        assert_eq!(only(read(&bytes, None).unwrap()).title, "Привет", "{label}");
        // The header counts more than the declaration, and one that names nothing counts nothing.
        let wrong = body("utf-8");
        assert_eq!(only(read(&encoding.encode(&wrong).0, Some(label)).unwrap()).title, "Привет", "{label}");
        assert_eq!(only(read(&bytes, Some("binary")).unwrap()).title, "Привет", "{label}");
    }
    let latin2 = "<?xml version='1.0' encoding='iso-8859-2'?><rss><channel><item><title>műsora</title><link>/1</link></item></channel></rss>";
    assert_eq!(only(read(&encoding_rs::ISO_8859_2.encode(latin2).0, None).unwrap()).title, "műsora");
    assert!(matches!(read(body("klingon").as_bytes(), None), Err(Error::Encoding { name }) if name == "klingon"));
}

#[test]
fn characters_that_xml_forbids_cost_themselves() {
    let entry = only(rss("<item><title>a\u{b}b & c &nbsp; d &undefined; &#0;</title><link>/1?a=1&b=2</link></item>"));
    assert_eq!(
        (entry.title.as_str(), entry.link.as_str()),
        ("a b & c d &undefined;", "https://site.example/1?a=1&b=2")
    );
}

#[test]
fn json_feeds_are_read_although_they_break_the_specification() {
    let entry = only(json(
        r#"{"id": 123, "url": "/1", "title": "T &amp; <b>", "content_html": "<p>Hello &amp; bye</p>", "date_published": "2024-01-01T00:00:00Z",
            "authors": [{"name": "Ann"}], "tags": ["rust", 7, null], "attachments": [{"url": "https://x.example/1.mp3"}], "_ext": {"a": 1}}"#,
    ));
    assert_eq!(
        (entry.id.as_str(), entry.link.as_str(), entry.title.as_str()),
        ("123", "https://site.example/1", "T &amp; <b>")
    );
    assert_eq!(
        (&*entry.content.text(), entry.author.as_str(), entry.enclosure.as_str()),
        ("Hello & bye", "Ann", "https://x.example/1.mp3")
    );
    assert_eq!((entry.categories, entry.published.is_some()), (vec!["rust".to_owned(), "7".to_owned()], true));
    // Without an id, with the author of version 1, with a title that is null.
    let entry = only(json(
        r#"{"external_url": "https://x.example/", "author": {"name": "Bo"}, "title": null, "content_text": "a < b"}"#,
    ));
    assert_eq!(
        (entry.id.as_str(), entry.author.as_str(), &*entry.content.text()),
        ("https://x.example/", "Bo", "a < b")
    );
    let some = json(r#"{"id": "1", "url": "javascript:alert(1)"}, 5, {"id": "1"}, {}"#);
    assert_eq!((some.entries.len(), some.entries[0].link.as_str(), some.problems.len()), (1, "", 4));
}

#[test]
fn what_is_not_a_feed_is_an_error_that_says_so_and_loses_nothing() {
    let cut = r#"{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1"}, {"id"#;
    assert!(matches!(read(cut.as_bytes(), None), Err(Error::Json(_))));
    let deep = format!(r#"{{"version": "https://jsonfeed.org/version/1", "items": {}"#, "[".repeat(100_000));
    assert!(matches!(read(deep.as_bytes(), None), Err(Error::Json(_))));
    for body in [
        "{}",
        r#"{"items": []}"#,
        r#"{"version": "https://jsonfeed.org/version/1", "items": {}}"#,
        "<html><head/></html>",
        "",
        "[1]",
        "Not Found",
    ] {
        assert_eq!(read(body.as_bytes(), None).unwrap_err(), Error::NotAFeed, "{body}");
    }
    let cut = feed("<rss><channel><item><link>/1</link></item><item><link>/2</li");
    assert_eq!((cut.entries.len(), cut.truncated), (1, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 128 }))]

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), json in any::<bool>()) {
        let start: &[u8] = if json { b"{\"version\": \"https://jsonfeed.org/version/1\", \"items\": [" } else { b"" };
        let _ = read(&[start, &bytes].concat(), None);
    }

    #[test]
    fn no_json_makes_the_parser_panic_or_break_its_bounds(
        members in proptest::collection::vec(("(id|url|title|tags|authors|attachments|content_html|date_published)", "(\"\\PC{0,20}\"|[0-9]{1,9}|null|\\[\"x\",1\\]|\\{\"name\":\"n\"\\})"), 0..8)
    ) {
        let item: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\": {}", value.replace('\\', ""))).collect();
        let body = format!(r#"{{"version": "https://jsonfeed.org/version/1", "items": [{{{}}}]}}"#, item.join(", "));
        if let Ok(feed) = read(body.as_bytes(), None) {
            for entry in &feed.entries {
                prop_assert!(!entry.id.as_str().trim().is_empty());
                prop_assert!(entry.link.is_empty() || entry.link.starts_with("http"));
                prop_assert!(!entry.title.contains(['\n', '\r']) && entry.categories.len() <= 20);
            }
        }
    }
}
