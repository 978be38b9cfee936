//! The item `#limit`: how long a post may be on the Mastodon instance, and when the instance said so.

use function::item::{get_number, number};
use ichido::Timestamp;

use super::{Error, Table};
use crate::delivery::text::Limit;

const LIMIT: &str = "#limit";

impl Table {
    /// The limit that was read last, and when.
    pub(crate) async fn limit(&self) -> Result<Option<(Limit, Timestamp)>, Error> {
        let Some(item) = self.shared().get(LIMIT).await? else { return Ok(None) };
        let at = get_number(&item, "read_at").map(Timestamp::from_millis);
        let size = get_number(&item, "characters").zip(get_number(&item, "url"));
        Ok(size.zip(at).map(|((characters, url), at)| (Limit { characters, url }, at)))
    }

    pub(crate) async fn save_limit(&self, limit: Limit, now: Timestamp) -> Result<(), Error> {
        let mut item = self.shared().key(LIMIT);
        item.insert("characters".into(), number(limit.characters));
        item.insert("url".into(), number(limit.url));
        item.insert("read_at".into(), number(now.as_millis()));
        self.put(item).await
    }
}
