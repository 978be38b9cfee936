//! What sessync calls: BigQuery's HTTP API ([`bigquery`]) over the network ([`transport`]) with Google's credentials
//! (`auth`), and the log on DynamoDB that several machines can share ([`shared`]).

pub(crate) mod auth;
pub mod bigquery;
pub mod shared;
pub mod transport;

pub(crate) use auth::Places;
