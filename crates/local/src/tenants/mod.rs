//! The applications that live here, a file each. To move in, write the file and add it to [`all`].

use std::sync::Arc;

use crate::tenant::Tenant;

mod feeds;
mod mesh;
mod sessync;
mod slack;
mod tokens;

/// Everybody, in the order of the console's tabs.
pub fn all() -> Vec<Arc<dyn Tenant>> {
    vec![
        Arc::new(slack::Slack),
        Arc::new(feeds::Feeds),
        Arc::new(tokens::Tokens),
        Arc::new(sessync::Sessync),
        Arc::new(mesh::Mesh),
    ]
}
