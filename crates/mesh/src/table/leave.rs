//! What `leaveGroup` asks of the table.

use function::item::{Item, text};
use ichido::dynamodb::classify;

use super::{Table, membership_key, node_key, reasons, status_key};
use crate::group::Error;

impl Table {
    /// Deletes the node, its membership and its status in one transaction. If its membership is in another group by now,
    /// deletes only the node.
    pub(crate) async fn leave_group(&self, domain: &str, group_id: &str, node_id: &str) -> Result<(), Error> {
        let node = node_key(domain, group_id, node_id);
        let here = Item::from([(":group".to_owned(), text(group_id))]);
        let items = vec![
            self.delete(membership_key(domain, node_id), Some("groupId = :group"), Some(here)),
            self.delete(node.clone(), None, None),
            self.delete(status_key(domain, node_id), None, None),
        ];
        let answer = self.client.transact_write_items().set_transact_items(Some(items)).send().await;
        let Err(error) = answer else { return Ok(()) };
        match reasons(&error).as_slice() {
            [Some("ConditionalCheckFailed"), ..] => {
                let delete = self.client.delete_item().table_name(&self.name).set_key(Some(node));
                delete.send().await.map_err(classify)?;
                Ok(())
            }
            reasons if reasons.contains(&Some("TransactionConflict")) => Err(Error::Conflict),
            _ => Err(classify(error).into()),
        }
    }
}
