//! Clients of the platform for tests: plain HTTP and the AWS SDK.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::process::Local;

/// How long a test waits between two looks, and how often it looks at most. Together far longer than needed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: u32 = 1_200;

/// An HTTP client. Making one is slow in a debug build, so a test with many requests should keep it.
pub(crate) fn http() -> Client {
    // Everything here is plain HTTP, so the root certificates need not be read.
    http_client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(60)).build().expect("a client")
}

/// The AWS clients of a person who set `AWS_ENDPOINT_URL`.
pub(crate) fn aws(url: &str) -> function::Aws {
    function::Aws::at(url)
}

impl Local {
    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = http().get(format!("{}{path}", self.url)).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.expect("JSON")
    }

    pub(crate) async fn put_faults(&self, faults: Value) -> (StatusCode, Value) {
        let request = http().put(format!("{}/_local/faults", self.url)).body(faults.to_string());
        answer(request).await
    }

    /// Invokes a function over HTTP, and returns the status, the function error if any, and the body.
    pub(crate) async fn invoke(
        &self,
        function: &str,
        kind: &str,
        payload: Value,
    ) -> (StatusCode, Option<String>, Value) {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", self.url);
        let request = http().post(url).header("x-amz-invocation-type", kind).body(payload.to_string());
        let response = request.send().await.expect("an answer");
        let status = response.status();
        let error =
            response.headers().get("x-amz-function-error").map(|error| error.to_str().expect("text").to_owned());
        let text = response.text().await.expect("a body");
        (status, error, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The answer of the workshop's note function: `new` or `duplicate`.
    pub(crate) async fn note(&self, id: &str) -> Value {
        self.invoke("workshop-note", "RequestResponse", json!({ "id": id })).await.2
    }
}

pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status();
    let text = response.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Looks until `look` returns something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    panic!("never seen: {what}");
}
