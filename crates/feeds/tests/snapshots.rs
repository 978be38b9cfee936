//! Documents as real sites write them, and the entries, problems and posts that they become.

use feeds::{
    delivery::{
        github,
        text::{Limit, Parts, Template},
    },
    entry::Source,
    parse,
};
use serde_json::{Value, json};

fn read(source: Source, name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let body = std::fs::read(path).unwrap();
    let url = "https://feeds.example/feed?token=NOTREAL".parse().unwrap();
    let feed = match parse::parse(source, &body, None, &url) {
        Ok(feed) => feed,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let template = match source {
        Source::Github => "[GH] {title} {link}",
        Source::Hatebu => "[B!] id:{author} {comment} > {title} {link}",
        Source::Listed => "{title} {link}",
    };
    let template = Template::parse(template).unwrap();
    let entries = feed.entries.iter().map(|entry| {
        let follower = (source == Source::Github).then(|| github::follower(&entry.title, &entry.link)).flatten();
        let parts = Parts {
            title: entry.title.clone(),
            link: follower.unwrap_or_else(|| entry.link.clone()),
            author: entry.author.clone(),
            content: entry.content.text().into_owned(),
            ..Parts::default()
        };
        json!({
            "id": entry.id,
            "title": entry.title,
            "link": entry.link,
            "published": entry.published.map(|at| at.to_string()),
            "author": entry.author,
            "content": entry.content.text(),
            "post": template.render(&parts, Limit::MASTODON).unwrap_or_else(|error| error.to_string()),
        })
    });
    json!({
        "format": format!("{:?}", feed.format),
        "site": feed.site,
        "period": feed.period.map(|period| period.as_secs()),
        "truncated": feed.truncated,
        "entries": entries.collect::<Vec<_>>(),
        "problems": feed.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

#[test]
fn github_feed_with_its_oddities() {
    insta::assert_json_snapshot!(read(Source::Github, "github.atom"));
}

#[test]
fn hatena_feed_with_its_oddities() {
    insta::assert_json_snapshot!(read(Source::Hatebu, "hatebu.rdf"));
}

#[test]
fn a_broken_document() {
    insta::assert_json_snapshot!(read(Source::Github, "broken.atom"));
}

#[test]
fn one_document_in_four_encodings_is_one_document() {
    let euc = read(Source::Hatebu, "euc-jp.rdf");
    assert_eq!(
        euc["entries"][0]["post"],
        "[B!] id:太郎 今年もよろしく。 > 明けましておめでとう https://example.jp/20060101"
    );
    for name in ["shift-jis.rdf", "utf-16.rdf"] {
        assert_eq!(read(Source::Hatebu, name), euc, "{name}");
    }
}
