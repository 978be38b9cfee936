//! Calls to AWS services of which a function, or the operator's tool, needs few operations.
//!
//! Why not the SDK's crate of the service: SSM's alone has a third of a million lines, all of which every build
//! compiles for one request. A call here runs in the SDK's own machinery (`aws-smithy-runtime`, `aws-runtime`): credentials,
//! signature, retries, time limits, connections. Ours is only what the request and the answer look like.
//!
//! Failure: [`SdkError`], as every client of the SDK has it. A refusal of the service is a [`Refusal`] with AWS's code and message.

use std::fmt;

use aws_config::SdkConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::auth::{SigV4OperationSigningConfig, SigningOptions};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::recursion_detection::RecursionDetectionInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{ServiceClockSkewClassifier, ServiceClockSkewInterceptor};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError, SensitiveOutput};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SigningName;
use aws_types::region::SigningRegion;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Who calls, for CloudTrail. The SDK's own user agent is put together anew for each call.
const USER_AGENT: &str = concat!("ichido/", env!("CARGO_PKG_VERSION"));

/// A POST to a service.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path with its query, encoded.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A request of AWS's JSON protocol, version 1.1. `target` is the service's prefix and the operation: `AmazonSSM.GetParameters`.
    pub fn json(target: &str, body: &Value) -> Self {
        let headers =
            vec![("content-type", "application/x-amz-json-1.1".to_owned()), ("x-amz-target", target.to_owned())];
        Request { path: "/".to_owned(), headers, body: body.to_string().into_bytes() }
    }
}

/// An answer with a status of success.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The error of an answer that is not what the service promises.
    pub fn unreadable(self, why: impl Into<BoxError>) -> Error {
        SdkError::response_error(why, HttpResponse::new(self.status, SdkBody::from(self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What the service said when it refused.
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    meta: ErrorMetadata,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.meta.code().unwrap_or("no error code");
        match self.meta.message() {
            Some(message) => write!(f, "{code}: {message} (HTTP {})", self.status),
            None => write!(f, "{code} (HTTP {})", self.status),
        }
    }
}

impl std::error::Error for Refusal {}

impl ProvideErrorMetadata for Refusal {
    fn meta(&self) -> &ErrorMetadata {
        &self.meta
    }
}

/// Why a call did not succeed.
pub type Error = SdkError<Refusal, HttpResponse>;

/// Reads AWS's code and message from the header `x-amzn-errortype` and the body of a refusal.
pub type ReadRefusal = fn(Option<&str>, &[u8]) -> ErrorMetadata;

/// One operation of one service.
#[derive(Debug, Clone)]
pub struct Call(Operation<Request, Answer, Refusal>);

/// Names an operation: what its signature and its address are made of.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// As in the service's address and in signatures: `ssm`.
    pub service: &'static str,
    pub operation: &'static str,
}

impl Call {
    /// With credentials, region, endpoint and HTTP client of `config`. Retries and time limits are the SDK's unless they are given.
    pub(crate) fn new(
        config: &SdkConfig,
        name: Name,
        retries: Option<RetryConfig>,
        limits: Option<TimeoutConfig>,
    ) -> Self {
        Self::build(config, name, retries, limits, refusal)
    }

    /// The same for a service whose refusals are not JSON. They must be read here, because some of them are retried.
    pub fn refused_as(config: &SdkConfig, name: Name, read: ReadRefusal) -> Self {
        Self::build(config, name, None, None, read)
    }

    fn build(
        config: &SdkConfig,
        name: Name,
        retries: Option<RetryConfig>,
        limits: Option<TimeoutConfig>,
        read: ReadRefusal,
    ) -> Self {
        let region = config.region().cloned();
        let address = match (config.endpoint_url(), &region) {
            (Some(endpoint), _) => endpoint.trim_end_matches('/').to_owned(),
            (None, Some(region)) => address(name.service, region.as_ref()),
            // Signing fails without a region and says so; no request is sent.
            (None, None) => address(name.service, "no-region"),
        };

        let mut layer = Layer::new("Call");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SensitiveOutput);
        layer.store_put(SigningName::from_static(name.service));
        layer.store_put(own_retries(name.service));
        if let Some(region) = region {
            layer.store_put(SigningRegion::from(region));
        }
        let mut signing_options = SigningOptions::default();
        signing_options.double_uri_encode = true;
        signing_options.normalize_uri_path = true;
        layer.store_put(SigV4OperationSigningConfig { signing_options, ..Default::default() });

        let mut components = RuntimeComponentsBuilder::new("Call")
            .with_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()))
            .with_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
                StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
            )))
            .with_retry_classifier(HttpStatusCodeClassifier::default())
            .with_retry_classifier(TransientErrorClassifier::<Refusal>::new())
            .with_retry_classifier(AwsErrorCodeClassifier::<Refusal>::new())
            .with_retry_classifier(ServiceClockSkewClassifier::<Refusal>::new())
            .with_interceptor(ServiceClockSkewInterceptor::new())
            .with_interceptor(RequestInfoInterceptor::new())
            .with_interceptor(InvocationIdInterceptor::new())
            // Lambda ends loops of functions that invoke each other by this header.
            .with_interceptor(RecursionDetectionInterceptor::new());
        if let Some(credentials) = config.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
        }
        // Shared with the SDK's clients: a person's credentials may take a call to another service.
        if let Some(cache) = config.identity_cache() {
            components.set_identity_cache(Some(cache));
        }

        let retries = retries.or_else(|| config.retry_config().cloned()).unwrap_or_else(RetryConfig::standard);
        let limits = limits.or_else(|| config.timeout_config().cloned()).unwrap_or_else(TimeoutConfig::disabled);
        let mut operation = Operation::builder()
            .service_name(name.service)
            .operation_name(name.operation)
            .endpoint_url(&address)
            .standard_retry(&retries)
            .timeout_config(limits)
            .with_connection_poisoning()
            .runtime_plugin(StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(components));
        if let Some(client) = config.http_client() {
            operation = operation.http_client(client);
        }
        if let Some(time) = config.time_source() {
            operation = operation.time_source(time);
        }
        if let Some(sleep) = config.sleep_impl() {
            operation = operation.sleep_impl(sleep);
        }
        let deserialize = move |response: &HttpResponse| deserialize(response, read);
        Self(operation.serializer(serialize).deserializer(deserialize).build())
    }

    pub async fn send(&self, request: Request) -> Result<Answer, Error> {
        self.0.invoke(request).await
    }
}

/// One call to a service that speaks AWS's JSON protocol, version 1.1. `prefix` is what stands before the operation in its target.
/// The error of an answer that cannot be read holds all of it, so this is not for secrets.
pub async fn json<T: DeserializeOwned>(config: &SdkConfig, name: Name, prefix: &str, body: &Value) -> Result<T, Error> {
    let request = Request::json(&format!("{prefix}.{}", name.operation), body);
    let answer = Call::new(config, name, None, None).send(request).await?;
    // An operation that returns nothing may send nothing.
    let body = if answer.body.is_empty() { b"{}" } else { answer.body.as_slice() };
    match serde_json::from_slice(body) {
        Ok(read) => Ok(read),
        Err(error) => Err(answer.unreadable(error)),
    }
}

/// A quota of retries that nobody else uses up. By default the SDK has one per service and process. On Lambda a process is one instance,
/// but the simulation of many instances is one process too.
pub(crate) fn own_retries(service: &'static str) -> RetryPartition {
    RetryPartition::custom(service).build()
}

/// The address of a service in a region.
fn address(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://{service}.{region}.{suffix}")
}

fn serialize(request: Request) -> Result<HttpRequest, BoxError> {
    let length = request.body.len();
    let mut http = HttpRequest::new(SdkBody::from(request.body));
    http.set_method("POST")?;
    http.headers_mut().try_insert("content-length", length.to_string())?;
    http.set_uri(request.path)?;
    http.headers_mut().try_insert("user-agent", USER_AGENT)?;
    for (name, value) in request.headers {
        http.headers_mut().try_insert(name, value)?;
    }
    Ok(http)
}

fn deserialize(response: &HttpResponse, read: ReadRefusal) -> Result<Answer, OrchestratorError<Refusal>> {
    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        let headers = response.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        return Ok(Answer { status: response.status(), headers, body: body.to_vec() });
    }
    let code = response.headers().get("x-amzn-errortype");
    Err(OrchestratorError::operation(Refusal { status: response.status().as_u16(), meta: read(code, body) }))
}

/// AWS's code and message. The code is in a header or in the body, where a namespace may stand before it (`aws#Code`) and an
/// address after it (`Code:https://…`).
fn refusal(header: Option<&str>, body: &[u8]) -> ErrorMetadata {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Body {
        #[serde(rename = "__type", alias = "code")]
        code: Option<String>,
        #[serde(alias = "Message", alias = "errorMessage")]
        message: Option<String>,
    }
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let code = header.or(body.code.as_deref()).map(|code| {
        let code = code.split(':').next().unwrap_or(code);
        code.rsplit('#').next().unwrap_or(code).to_owned()
    });
    let mut meta = ErrorMetadata::builder();
    if let Some(code) = code {
        meta = meta.code(code);
    }
    if let Some(message) = body.message {
        meta = meta.message(message);
    }
    meta.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_refusal_is_found_in_each_of_its_places() {
        for (header, body) in [
            (Some("TooManyRequestsException:http://internal.amazon.com/coral/"), r#"{"message": "slow down"}"#),
            (None, r#"{"__type": "com.amazon.coral#TooManyRequestsException", "Message": "slow down"}"#),
            (None, r#"{"code": "TooManyRequestsException", "message": "slow down"}"#),
        ] {
            let meta = refusal(header, body.as_bytes());
            assert_eq!((meta.code(), meta.message()), (Some("TooManyRequestsException"), Some("slow down")), "{body}");
        }
        let meta = refusal(None, b"<html>");
        assert_eq!((meta.code(), meta.message()), (None, None));
        assert_eq!(Refusal { status: 502, meta }.to_string(), "no error code (HTTP 502)");
    }

    #[test]
    fn a_service_has_an_address_in_every_partition() {
        assert_eq!(address("ssm", "ap-northeast-1"), "https://ssm.ap-northeast-1.amazonaws.com");
        assert_eq!(address("lambda", "us-gov-west-1"), "https://lambda.us-gov-west-1.amazonaws.com");
        assert_eq!(address("ssm", "cn-north-1"), "https://ssm.cn-north-1.amazonaws.com.cn");
    }
}
