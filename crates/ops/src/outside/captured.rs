//! For tests: a service that notes what it is asked, and answers what it was told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use aws_config::{Region, SdkConfig};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::StatusCode;
use function::Aws;

/// A request that was made.
#[derive(Debug)]
pub(super) struct Sent {
    pub address: String,
    headers: BTreeMap<String, String>,
    pub body: String,
}

impl Sent {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The region and the service that the request is signed for.
    pub(super) fn signed_for(&self) -> (&str, &str) {
        let mut scope = self.header("authorization").split('/').skip(2);
        (scope.next().unwrap_or_default(), scope.next().unwrap_or_default())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Service {
    sent: Arc<Mutex<Vec<Sent>>>,
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
}

impl Service {
    /// With these answers, in this order.
    pub(super) fn answering(answers: &[(u16, &str)]) -> Self {
        let answers = answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        Self { sent: Arc::default(), answers: Arc::new(Mutex::new(answers)) }
    }

    /// A configuration that reaches this service at AWS's own addresses.
    pub(super) fn config(&self, region: &'static str) -> SdkConfig {
        let connector = SharedHttpConnector::new(self.clone());
        let local = Aws::at("http://127.0.0.1").config().clone().into_builder();
        let mut config = local.region(Region::new(region)).http_client(http_client_fn(move |_, _| connector.clone()));
        config.set_endpoint_url(None);
        config.build()
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

impl HttpConnector for Service {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.sent.lock().unwrap().push(Sent {
            address: request.uri().to_owned(),
            headers: request.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: String::from_utf8(request.body().bytes().unwrap_or_default().to_vec()).unwrap(),
        });
        let (status, body) = self.answers.lock().unwrap().pop_front().expect("no further request");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(StatusCode::try_from(status).unwrap(), body.into())))
    }
}
