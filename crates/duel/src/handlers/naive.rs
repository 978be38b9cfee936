//! The handler that most of us would write: look whether it is done, act, record it.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{BoxError, Outside};

pub(super) struct Naive {
    store: Client,
    outside: Outside,
}

impl Naive {
    pub(super) fn new(outside: &Outside) -> Self {
        Self { store: outside.store(), outside: outside.clone() }
    }

    pub(super) async fn handle(&self, event: &str) -> Result<(), BoxError> {
        let id = AttributeValue::S(event.to_owned());
        let found =
            self.store.get_item().table_name("naive").key("id", id.clone()).consistent_read(true).send().await?;
        if found.item.is_none() {
            self.outside.post(event).await?;
            self.store.put_item().table_name("naive").item("id", id).send().await?;
        }
        Ok(())
    }
}
