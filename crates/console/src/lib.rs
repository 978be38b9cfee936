//! The console: one front end for the system on one machine and for a deployed environment.
//!
//! Promise: the front end knows nothing but the contract under `/_console/` (`docs/console.md`). Whoever implements [`Backend`] gets the
//! same pages. What a back end lacks, it does not list among its [capabilities](contract::Frame::capabilities), and the pages leave
//! it out. A console that has no `changes` only reads.
//!
//! | file | holds |
//! |---|---|
//! | [`contract`] | what each address answers |
//! | [`backend`] | the trait that a back end implements |
//! | [`life`] | the life of a key, made from log lines of the library's events and from the record |
//! | [`record`] | a record as the contract shows it |
//! | [`search`] | the search for keys in the applications' tables |
//! | [`serve`] | the router: pages, files, contract |
//! | [`guard`] | lets in only who knows the address: a token in the path, loopback alone |
//! | [`pages`] | the list of pages; a page is one file in `web/pages/` and one line there |
//! | [`runbooks`] | the texts of `docs/runbooks/`, which alarms link to |
//! | `web/` | HTML, CSS and ES modules, compiled into the binary; no build step, nothing is loaded from elsewhere |
//!
//! A page that needs more than the contract belongs to a back end ([`Backend::pages`]): the applications' pages of the local
//! platform do.

pub mod backend;
pub mod contract;
pub mod guard;
pub mod life;
pub mod pages;
pub mod record;
pub mod runbooks;
pub mod search;
pub mod serve;

pub use backend::{Backend, Failure};
pub use pages::{Asset, Page};
pub use serve::routes;
