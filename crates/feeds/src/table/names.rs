//! The item `#feeds`: the names of all feeds that share the table, so that an operator can ask for what all of them left.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Error, Table};
use crate::list::FeedName;

const FEEDS: &str = "#feeds";

impl Table {
    /// Notes that this feed is in the table. A table with one feed needs no list.
    pub(crate) async fn note_feed(&self) -> Result<(), Error> {
        let Some(feed) = self.feed_name() else { return Ok(()) };
        let update = self
            .shared()
            .update(FEEDS)
            .update_expression("ADD feeds :feed")
            .expression_attribute_values(":feed", AttributeValue::Ss(vec![feed.to_string()]));
        update.send().await.map_err(Error::sdk(&self.name, "UpdateItem"))?;
        Ok(())
    }

    /// All feeds that were ever in the table, by name.
    pub async fn feeds(&self) -> Result<Vec<FeedName>, Error> {
        let item = self.shared().get(FEEDS).await?.unwrap_or_default();
        let names = item.get("feeds").and_then(|value| value.as_ss().ok()).into_iter().flatten();
        let mut names: Vec<FeedName> = names.filter_map(|name| FeedName::listed(name)).collect();
        names.sort();
        Ok(names)
    }
}
