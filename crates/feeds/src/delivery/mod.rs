//! From *owed* to *delivered*: the subscriber has every owed entry delivered ([`owed`]), and the notifier delivers it to each
//! destination under a claim ([`notify`]). What is given up becomes a dead letter ([`letters`]).

pub mod github;
pub mod letters;
pub mod message;
pub mod notify;
pub mod owed;
pub mod preview;
pub mod shadow;
pub mod text;
