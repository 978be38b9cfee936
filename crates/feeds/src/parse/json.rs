//! A JSON Feed (version 1.1, and 1.0) to entries. Its items become the same drafts as the elements of the other formats.
//!
//! A feed in the wild breaks the specification in places: an id is a number, an author is a list or not. What cannot be read costs only itself. A
//! document that ends too early is not JSON, and is refused as a whole: nothing is lost, because the next read shows the same entries.

use serde_json::Value;
use url::Url;

use super::{
    Error, Feed, Format, Parser,
    content::{Markup, Raw},
    item::Draft,
    problem::Problem,
    vocabulary::Field,
};
use crate::entry::Source;

/// What the version of every JSON Feed contains.
const VERSION: &str = "jsonfeed.org/version/1";

pub(super) fn read(source: Source, text: &str, url: &Url) -> Result<Feed, Error> {
    let document: Value = serde_json::from_str(text.trim()).map_err(|error| Error::Json(error.to_string()))?;
    let version = document["version"].as_str().unwrap_or_default();
    let Some(items) = document["items"].as_array().filter(|_| version.contains(VERSION)) else {
        return Err(Error::NotAFeed);
    };
    let mut parser = Parser::new(source, url);
    parser.format = Some(Format::Json);
    if let Some(home) = document["home_page_url"].as_str() {
        parser.set_site(home);
    }
    for item in items {
        parser.position += 1;
        if item.is_object() {
            parser.item(draft(item));
        } else {
            let position = parser.position;
            parser.problems.push(Problem::NotAnItem { position });
        }
    }
    parser.finish()
}

fn draft(item: &Value) -> Draft {
    let mut draft = Draft::new(None);
    let mut set = |field, value: &Value, markup| {
        if let Some(text) = text_of(value) {
            draft.set(field, Raw::of_text(&text, markup));
        }
    };
    set(Field::Id, &item["id"], Markup::None);
    for url in ["url", "external_url"] {
        set(Field::Link, &item[url], Markup::None);
    }
    set(Field::Title, &item["title"], Markup::None);
    set(Field::Date, &item["date_published"], Markup::None);
    set(Field::Updated, &item["date_modified"], Markup::None);
    // The first that is there is the content.
    for (member, markup) in [("content_text", Markup::None), ("content_html", Markup::Html), ("summary", Markup::None)]
    {
        if text_of(&item[member]).is_some_and(|text| !text.trim().is_empty()) {
            set(Field::Content, &item[member], markup);
            break;
        }
    }
    for author in [&item["authors"][0], &item["author"]] {
        set(Field::Author, &author["name"], Markup::None);
    }
    for tag in item["tags"].as_array().into_iter().flatten() {
        set(Field::Category, tag, Markup::None);
    }
    if let Some(href) = item["attachments"].as_array().into_iter().flatten().find_map(|it| it["url"].as_str()) {
        draft.set_enclosure(href.to_owned());
    }
    draft
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
