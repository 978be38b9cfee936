//! Every call of the AWS SDK goes through an [`Outside`].
//!
//! The kit wraps the HTTP client of the SDK. This is the one place that all services share (`aws_config::ConfigLoader::http_client`
//! hands it to each of them), and through which every attempt goes, also those that the SDK repeats by itself. An interceptor
//! would have to be added to the configuration of each service, and cannot let a handler die: its hooks must return.
//!
//! ```
//! # use ichido_testkit::Outside;
//! # use aws_smithy_runtime_api::client::http::SharedHttpClient;
//! fn clients(outside: &Outside, real: SharedHttpClient) -> aws_sdk_dynamodb::Client {
//!     let config = aws_sdk_dynamodb::Config::builder()
//!         .http_client(ichido_testkit::aws::http_client(outside, real));
//!     // … region, credentials and endpoint as always
//!     # let config = config.behavior_version_latest();
//!     aws_sdk_dynamodb::Client::from_conf(config.build())
//! }
//! # clients(&Outside::new(), aws_smithy_runtime_api::client::http::http_client_fn(|_, _| unreachable!()));
//! ```

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_types::config_bag::ConfigBag;

use crate::outside::{Cut, Kind, Outside};

/// The same HTTP client, but each of its requests is a call to `outside`, and can be stopped there.
///
/// A request is named after its operation (`PutItem`), and after its path where the protocol of the service has no other
/// name. What the SDK repeats by itself says so (`PutItem (attempt 2)`).
pub fn http_client(outside: &Outside, client: impl HttpClient + 'static) -> SharedHttpClient {
    SharedHttpClient::new(Counted { outside: outside.clone(), client })
}

#[derive(Debug)]
struct Counted<C> {
    outside: Outside,
    client: C,
}

impl<C: HttpClient> HttpClient for Counted<C> {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(CountedConnector { outside: self.outside.clone(), connector })
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        cfg: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.client.validate_base_client_config(components, cfg)
    }

    fn validate_final_config(&self, components: &RuntimeComponents, cfg: &ConfigBag) -> Result<(), BoxError> {
        self.client.validate_final_config(components, cfg)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.client.connector_metadata()
    }
}

#[derive(Debug)]
struct CountedConnector {
    outside: Outside,
    connector: SharedHttpConnector,
}

impl HttpConnector for CountedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (outside, connector) = (self.outside.clone(), self.connector.clone());
        HttpConnectorFuture::new(async move {
            let name = name(&request);
            // The request is handed on only when it is its turn: a connector may send it as soon as it is called.
            let work = async { connector.call(request).await };
            match outside.pass(&name, Kind::Request, work, outcome).await {
                Ok(answer) => answer,
                Err(cut @ Cut::NotSent) => Err(ConnectorError::io(cut.into()).never_connected()),
                Err(cut @ Cut::AnswerLost) => Err(ConnectorError::io(cut.into())),
            }
        })
    }
}

fn outcome(answer: &Result<HttpResponse, ConnectorError>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(error) => format!("failed: {error}"),
    }
}

/// What a request is called in the history.
fn name(request: &HttpRequest) -> String {
    let operation = operation(request);
    match attempt(request) {
        Some(attempt) if attempt > 1 => format!("{operation} (attempt {attempt})"),
        _ => operation,
    }
}

fn operation(request: &HttpRequest) -> String {
    // DynamoDB, SQS, EventBridge and others: `DynamoDB_20120810.PutItem`.
    if let Some(target) = request.headers().get("x-amz-target") {
        return target.rsplit('.').next().unwrap_or(target).to_owned();
    }
    let uri = request.uri();
    let path = uri.split_once("://").map_or(uri, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    let path = path.split('?').next().unwrap_or(path);
    // CloudWatch and others: `/service/GraniteServiceVersion20100801/operation/PutMetricData`.
    if let Some((_, operation)) = path.split_once("/operation/") {
        return operation.to_owned();
    }
    // IAM, STS, SNS and others: the body begins with `Action=GetUser&`.
    let form = request.body().bytes().and_then(|body| std::str::from_utf8(body).ok());
    if let Some(action) = form.and_then(|form| form.strip_prefix("Action=")) {
        return action.split('&').next().unwrap_or(action).to_owned();
    }
    // S3, Lambda and others have only a path.
    format!("{} {path}", request.method())
}

/// The SDK says in a header which attempt this is: `attempt=2; max=3`.
fn attempt(request: &HttpRequest) -> Option<u32> {
    let header = request.headers().get("amz-sdk-request")?;
    header.split(';').find_map(|part| part.trim().strip_prefix("attempt="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_smithy_types::body::SdkBody;

    fn request(method: &str, uri: &str, headers: &[(&'static str, &'static str)], body: &'static str) -> HttpRequest {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method(method).unwrap();
        request.set_uri(uri).unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, *value);
        }
        request
    }

    #[test]
    fn a_request_of_any_protocol_has_a_name() {
        let put = [("x-amz-target", "DynamoDB_20120810.PutItem"), ("amz-sdk-request", "attempt=1; max=3")];
        let again = [("x-amz-target", "DynamoDB_20120810.PutItem"), ("amz-sdk-request", "attempt=2; max=3")];
        let cases = [
            (request("POST", "https://dynamodb.eu-west-1.amazonaws.com/", &put, "{}"), "PutItem"),
            (request("POST", "https://dynamodb.eu-west-1.amazonaws.com/", &again, "{}"), "PutItem (attempt 2)"),
            (request("POST", "https://m.example/service/Granite/operation/PutMetricData", &[], "x"), "PutMetricData"),
            (request("POST", "https://iam.amazonaws.com/", &[], "Action=GetUser&Version=2010-05-08"), "GetUser"),
            (request("PUT", "https://s3.example/bucket/a/b?x-id=PutObject", &[], ""), "PUT /bucket/a/b"),
            (request("GET", "https://s3.example", &[], ""), "GET /"),
        ];
        for (request, expected) in cases {
            assert_eq!(name(&request), expected);
        }
    }
}
