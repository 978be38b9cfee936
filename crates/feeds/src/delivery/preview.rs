//! What would be posted of an entry, without posting: for a person who is about to add a feed to the list.

use super::{
    notify::listed_parts,
    text::{self, Limit, Template},
};
use crate::{
    entry::Entry,
    list::Destination,
    outside::{pushover, slack, webhook},
};

/// The text that a destination would get of an entry. An instance of Mastodon may allow more or less than is assumed here.
pub fn text(entry: &Entry, template: &Template, destination: Destination) -> Result<String, text::Error> {
    let (title, content) = (&entry.title, entry.content.text());
    let parts = listed_parts(title, &entry.link, &entry.author, &content, &entry.categories, &entry.enclosure);
    match destination {
        Destination::Mastodon => template.render(&parts, Limit::MASTODON),
        Destination::Pushover => {
            let text = template.render_plain(&parts, pushover::LIMIT)?;
            Ok(pushover::shown(&pushover::Message::new(&text, &entry.link)))
        }
        Destination::Slack => template.render_plain(&parts, slack::LIMIT),
        Destination::Webhook => template.render_plain(&parts, webhook::LIMIT),
    }
}
