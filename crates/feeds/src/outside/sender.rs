//! Sends HTTP requests: over the network, or to a stand-in in the same process.
//!
//! A test that decides what becomes of each request, and in which order, cannot do so if sockets and their threads are in between.

use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::{Client, IntoUrl, RequestBuilder, Response};

/// Answers requests in place of everybody outside.
pub trait StandIn: Send + Sync {
    fn answer(&self, request: reqwest::Request) -> BoxFuture<'static, Result<Response, reqwest::Error>>;
}

/// An HTTP client, or a stand-in for whomever it would reach.
#[derive(Clone)]
pub struct Sender {
    client: Client,
    stand_in: Option<Arc<dyn StandIn>>,
}

impl Sender {
    /// `client` makes the requests, and `stand_in` answers them.
    pub fn to_stand_in(client: Client, stand_in: Arc<dyn StandIn>) -> Self {
        Sender { client, stand_in: Some(stand_in) }
    }

    pub(crate) fn get(&self, url: impl IntoUrl) -> RequestBuilder {
        self.client.get(url)
    }

    pub(crate) fn post(&self, url: impl IntoUrl) -> RequestBuilder {
        self.client.post(url)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        match &self.stand_in {
            Some(stand_in) => stand_in.answer(request.build()?).await,
            None => request.send().await,
        }
    }
}

impl From<Client> for Sender {
    fn from(client: Client) -> Self {
        Sender { client, stand_in: None }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("stand_in", &self.stand_in.is_some()).finish_non_exhaustive()
    }
}
