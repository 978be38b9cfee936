//! What `leaveGroup` asks of the table.

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use function::item::{Item, text};
use ichido::dynamodb::classify;

use super::{OWN, Table, membership_key, node_key, own, reasons, status_key};
use crate::group::{Error, Secret};
use crate::leave::NOT_THE_NODE;

impl Table {
    /// Deletes the node, its membership and its status in one transaction. If its membership is in another group by now,
    /// deletes only the node. A node of a secured group is deleted only with its secret.
    pub(crate) async fn leave_group(
        &self,
        domain: &str,
        group_id: &str,
        node_id: &str,
        secret: Option<&Secret>,
    ) -> Result<(), Error> {
        let node = node_key(domain, group_id, node_id);
        let here = Item::from([(":group".to_owned(), text(group_id))]);
        let items = vec![
            self.delete(membership_key(domain, node_id), Some("groupId = :group"), Some(here)),
            self.delete(node.clone(), Some(OWN), Some(own(secret))),
            self.delete(status_key(domain, node_id), None, None),
        ];
        let answer = self.client.transact_write_items().set_transact_items(Some(items)).send().await;
        let Err(error) = answer else { return Ok(()) };
        match reasons(&error).as_slice() {
            [Some("ConditionalCheckFailed"), ..] => {
                let delete = self.client.delete_item().table_name(&self.name).set_key(Some(node));
                let delete = delete.condition_expression(OWN).set_expression_attribute_values(Some(own(secret)));
                match delete.send().await {
                    Err(error) if error.code() == Some("ConditionalCheckFailedException") => {
                        Err(Error::Unauthorized(NOT_THE_NODE))
                    }
                    answer => answer.map(|_| ()).map_err(|error| classify(error).into()),
                }
            }
            [_, Some("ConditionalCheckFailed"), ..] => Err(Error::Unauthorized(NOT_THE_NODE)),
            reasons if reasons.contains(&Some("TransactionConflict")) => Err(Error::Conflict),
            _ => Err(classify(error).into()),
        }
    }
}
