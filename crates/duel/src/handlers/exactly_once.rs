//! The handler with ichido: `run` with a probe. It fails closed, and its claim lasts until the worker's time limit.

use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Namespace, Once, Probed};

use super::{BoxError, Outside, PostError};

pub(super) struct ExactlyOnce {
    once: Once,
    posts: Namespace,
    outside: Outside,
}

impl ExactlyOnce {
    pub(super) fn new(outside: &Outside) -> Self {
        let store = DynamoDb::new(outside.store(), Table::new("ichido", "id"));
        Self { once: Once::new(store), posts: Namespace::new("post").fail_closed(), outside: outside.clone() }
    }

    pub(super) async fn handle(&self, event: &str, limit: Duration) -> Result<(), BoxError> {
        let key = self.posts.key([event])?;
        self.once
            .run(&key)
            .lease_until(self.once.now() + limit)
            // Asked only if an earlier worker may have posted without recording it.
            .probe(|_claim| async { Ok(self.outside.find(event).await?.map_or(Probed::NotDone, Probed::Done)) })
            .work(|_claim| async {
                self.outside.post(event).await.map_err(|error| match error {
                    PostError::Refused(_) => Failure::Retry(error),
                    PostError::NoAnswer(_) => Failure::Uncertain(error),
                })
            })
            .await?;
        Ok(())
    }
}
