//! What `createDomain` asks of the table.

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use function::item::{get_text, text};
use ichido::dynamodb::classify;
use ichido::store;

use super::{Table, key};

const KEY: &str = "key";

impl Table {
    /// The key with which addresses become the names of domains. The first call makes it, from `fresh`; it stays as long as the table.
    pub(crate) async fn domain_key(&self, fresh: String) -> Result<String, store::Error> {
        let place = || key("DOMAIN-KEY".to_owned(), "METADATA");
        // The second time it is there: somebody else was faster.
        for _ in 0..2 {
            if let Some(item) = self.get(place()).await?
                && let Some(found) = get_text(&item, KEY)
            {
                return Ok(found.to_owned());
            }
            let mut item = place();
            item.insert(KEY.to_owned(), text(&fresh));
            let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
            match put.condition_expression("attribute_not_exists(pk)").send().await {
                Ok(_) => return Ok(fresh),
                Err(error) if error.code() == Some("ConditionalCheckFailedException") => {}
                Err(error) => return Err(classify(error)),
            }
        }
        Err(store::Error::Transient("the key of the domains could not be read after it was written".into()))
    }
}
