//! Lambda functions: invoked at an Invoke API, or refused by name.

use std::future::Future;
use std::time::Duration;

use appsync::LambdaError;
use serde_json::Value;

use crate::load::no_function;

/// AppSync gives a whole request 30 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the functions of a template are.
#[derive(Clone)]
pub(crate) struct Functions {
    client: reqwest::Client,
    /// The Invoke API, if there is one.
    url: Option<String>,
}

impl Functions {
    pub(crate) fn new(url: Option<String>) -> Result<Self, reqwest::Error> {
        // An error means that somebody has chosen a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build()?;
        Ok(Self { client, url: url.map(|url| url.trim_end_matches('/').to_owned()) })
    }

    /// A function for [`Builder::lambda`](appsync::Builder::lambda).
    pub(crate) fn function(
        &self,
        name: &str,
    ) -> impl Fn(Value) -> std::pin::Pin<Box<dyn Future<Output = Result<Value, LambdaError>> + Send>> + use<> {
        let (functions, name) = (self.clone(), name.to_owned());
        move |payload| {
            let (functions, name) = (functions.clone(), name.clone());
            Box::pin(async move { functions.invoke(&name, payload).await })
        }
    }

    async fn invoke(&self, name: &str, payload: Value) -> Result<Value, LambdaError> {
        let Some(url) = &self.url else { return Err(no_function(name)) };
        let failed = |why: String| LambdaError::new(format!("could not invoke {name} at {url}: {why}"));
        let address = format!("{url}/2015-03-31/functions/{name}/invocations");
        let sent = self.client.post(address).body(payload.to_string()).send().await;
        let response = sent.map_err(|error| failed(error.without_url().to_string()))?;
        let (status, raised) = (response.status(), response.headers().contains_key("x-amz-function-error"));
        let body = response.text().await.map_err(|error| failed(error.without_url().to_string()))?;
        if raised {
            return Err(LambdaError::new(body));
        }
        if !status.is_success() {
            return Err(failed(format!("{status} {body}")));
        }
        serde_json::from_str(&body).map_err(|error| failed(format!("its answer is not JSON: {error}")))
    }
}
