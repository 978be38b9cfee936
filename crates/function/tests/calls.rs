//! The calls that this crate makes without a crate of the SDK for the service (`src/aws/call.rs`) are those that the SDK would make.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::identity::{
    IdentityFuture, ResolveCachedIdentity, ResolveIdentity as _, SharedIdentityResolver,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use function::Aws;
use function::aws::call;
use serde_json::json;

const ARN: &str = "arn:aws:lambda:ap-northeast-1:123456789012:function:slack-files:live";

/// What was sent: the address, the headers, the body.
type Sent = (String, BTreeMap<String, String>, Vec<u8>);

/// A service that answers each request with the next of its answers, and notes the request.
#[derive(Debug, Clone)]
struct Service {
    sent: Arc<Mutex<Vec<Sent>>>,
    answers: Arc<Mutex<Vec<(u16, String)>>>,
}

impl Service {
    /// The answers in reverse order.
    fn answering(answers: &[(u16, &str)]) -> Self {
        let answers = answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        Self { sent: Arc::default(), answers: Arc::new(Mutex::new(answers)) }
    }

    fn config(&self, credentials: Credentials) -> SdkConfig {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-northeast-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.clone())
            .build()
    }

    fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().expect("no panic"))
    }
}

impl HttpConnector for Service {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let headers = request.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = request.body().bytes().unwrap_or_default().to_vec();
        self.sent.lock().expect("no panic").push((request.uri().to_owned(), headers, body));
        let (status, body) = self.answers.lock().expect("no panic").pop().unwrap_or((200, "{}".to_owned()));
        let status = StatusCode::try_from(status).expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(body))))
    }
}

impl HttpClient for Service {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

fn credentials() -> Credentials {
    Credentials::new("AKID", "not-a-secret", Some("a-session".to_owned()), None, "test")
}

/// Everything of a signature but its value and its day: who signs, for which service, and which headers. The header that only
/// describes the SDK is left out.
fn signature(headers: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let authorization = &headers["authorization"];
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(name).unwrap_or_else(|| panic!("no {name} in {authorization}"));
        rest.split(',').next().unwrap_or_default().to_owned()
    };
    let mut scope: Vec<_> = part("Credential=").split('/').map(ToOwned::to_owned).collect();
    scope.remove(1);
    let headers =
        part("SignedHeaders=").split(';').filter(|name| *name != "x-amz-user-agent").map(ToOwned::to_owned).collect();
    (scope.join("/"), headers)
}

/// That both requests are the same to AWS.
fn assert_same(ours: &Sent, sdk: &Sent) {
    assert_eq!(ours.0, sdk.0, "the address");
    assert_eq!(signature(&ours.1), signature(&sdk.1), "the signature");
    for name in ["x-amz-target", "x-amz-invocation-type", "content-type", "x-amz-security-token", "content-length"] {
        assert_eq!(ours.1.get(name), sdk.1.get(name), "{name}");
    }
}

#[tokio::test]
async fn an_invocation_is_the_request_that_the_sdk_makes() {
    let service = Service::answering(&[]);
    let config = service.config(credentials());
    let sdk = aws_sdk_lambda::Client::new(&config);
    let invoker = Aws::new(config).invoker();
    for function in [ARN, "slack-files", "slack-files:live"] {
        let call = sdk.invoke().function_name(function).invocation_type(InvocationType::Event);
        call.payload(Blob::new(r#"{"a": 1}"#)).send().await.expect("an answer");
        invoker.queue(function, br#"{"a": 1}"#.to_vec()).await.expect("an answer");
        let [sdk, ours] = &service.sent()[..] else { panic!("two requests") };
        assert_same(ours, sdk);
        assert_eq!(ours.2, sdk.2);
        assert!(ours.1["user-agent"].starts_with("ichido/"), "{:?}", ours.1);
    }
}

/// Secrets Manager speaks the same protocol as SSM, so only the names of service and operation, and the body, may differ.
#[tokio::test]
async fn secrets_are_asked_for_as_the_sdk_asks() {
    let found = r#"{"Parameters": [{"Name": "/a", "Value": "1"}, {"Name": "/b", "Value": "2"}]}"#;
    let service = Service::answering(&[(200, found), (200, "{}")]);
    let config = service.config(credentials());
    let sdk = aws_sdk_secretsmanager::Client::new(&config);
    // A body of the same length.
    sdk.describe_secret().secret_id("a".repeat(28)).send().await.expect("an answer");
    let secrets = Aws::new(config).secrets(&["/b", "/a"]).await.expect("two secrets");
    assert_eq!(secrets.iter().map(|secret| secret.expose()).collect::<Vec<_>>(), ["2", "1"]);
    let [sdk, ours] = &service.sent()[..] else { panic!("two requests") };
    assert_eq!(ours.1["x-amz-target"], "AmazonSSM.GetParameters");
    assert_eq!(ours.2, br#"{"Names":["/b","/a"],"WithDecryption":true}"#);
    let renamed = |text: &String| {
        text.replace("secretsmanager.DescribeSecret", "AmazonSSM.GetParameters").replace("secretsmanager", "ssm")
    };
    let headers = sdk.1.iter().map(|(name, value)| (name.clone(), renamed(value))).collect();
    assert_same(ours, &(renamed(&sdk.0), headers, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn one_call_of_the_json_protocol_is_repeated_refused_and_read_as_the_sdk_does() {
    let name = call::Name { service: "logs", operation: "DescribeLogGroups" };
    let throttled = (400, r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#);
    let denied = (400, r#"{"__type": "com.amazonaws.logs#AccessDeniedException", "Message": "not yours"}"#);
    let service = Service::answering(&[(200, "{"), denied, (200, ""), (200, r#"{"a": 1}"#), throttled]);
    let config = service.config(credentials());
    let ask = async || call::json::<serde_json::Value>(&config, name, "Logs_20140328", &json!({"limit": 1})).await;
    assert_eq!(ask().await.expect("the second answer"), json!({"a": 1}));
    let sent = service.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].0, "https://logs.ap-northeast-1.amazonaws.com/");
    assert_eq!(
        (sent[1].1["x-amz-target"].as_str(), &sent[1].2[..]),
        ("Logs_20140328.DescribeLogGroups", &br#"{"limit":1}"#[..])
    );
    assert_eq!(ask().await.expect("an empty answer"), json!({}));
    let refused = ask().await.expect_err("refused");
    assert_eq!((refused.code(), refused.message()), (Some("AccessDeniedException"), Some("not yours")));
    assert!(matches!(ask().await, Err(SdkError::ResponseError(_))), "half an answer");
}

/// A cache of credentials that counts how often it is asked.
#[derive(Debug, Clone, Default)]
struct Cache(Arc<AtomicUsize>);

impl ResolveCachedIdentity for Cache {
    fn resolve_cached_identity<'a>(
        &'a self,
        resolver: SharedIdentityResolver,
        components: &'a RuntimeComponents,
        config: &'a ConfigBag,
    ) -> IdentityFuture<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        IdentityFuture::new(async move { resolver.resolve_identity(components, config).await })
    }
}

#[tokio::test]
async fn calls_share_the_credentials_that_the_configuration_caches() {
    let service = Service::answering(&[]);
    let cache = Cache::default();
    let config = service.config(credentials()).into_builder().identity_cache(cache.clone()).build();
    let name = call::Name { service: "logs", operation: "DescribeLogGroups" };
    for _ in 0..3 {
        call::json::<serde_json::Value>(&config, name, "Logs_20140328", &json!({})).await.expect("an answer");
    }
    assert_eq!((service.sent().len(), cache.0.load(Ordering::Relaxed)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_call_is_repeated_and_a_refused_one_is_not() {
    let throttled = (400, r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#);
    let service = Service::answering(&[(200, r#"{"Parameters": [{"Name": "/a", "Value": "1"}]}"#), throttled]);
    let aws = Aws::new(service.config(credentials()));
    assert_eq!(aws.secret("/a").await.expect("the second answer").expose(), "1");
    assert_eq!(service.sent().len(), 2);

    let service = Service::answering(&[(400, r#"{"__type": "AccessDeniedException", "message": "not yours"}"#)]);
    let refused = Aws::new(service.config(credentials())).secret("/a").await.expect_err("refused");
    assert!(refused.to_string().contains("AccessDeniedException: not yours (HTTP 400)"), "{refused}");
    assert_eq!(service.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_invoker_keeps_to_its_own_number_of_attempts() {
    let busy = (503, "{}");
    let service = Service::answering(&[busy; 9]);
    let invoker = Aws::new(service.config(credentials())).invoker();
    let twice = RetryConfig::standard().with_max_attempts(2).with_initial_backoff(Duration::from_millis(25));
    for (retries, attempts) in [(twice, 2), (RetryConfig::disabled(), 1)] {
        let refused = invoker.with(retries, None).queue("slack-files", Vec::new()).await.expect_err("busy");
        assert!(matches!(&refused, SdkError::ServiceError(_)), "{refused:?}");
        assert_eq!(refused.code(), None);
        assert_eq!(service.sent().len(), attempts);
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_does_not_show_what_was_in_it() {
    let service = Service::answering(&[(200, r#"{"Parameters": [{"Name": "/a", "Value": 12345}]}"#)]);
    let error = Aws::new(service.config(credentials())).secret("/a").await.expect_err("a number is no text");
    assert!(error.to_string().contains("SSM's answer cannot be read at line 1"), "{error}");
    assert!(!error.to_string().contains("12345"), "{error}");
}

#[tokio::test]
async fn without_a_region_no_request_is_sent() {
    let service = Service::answering(&[]);
    let config = service.config(credentials()).into_builder().region(None).build();
    Aws::new(config).invoker().queue("slack-files", Vec::new()).await.expect_err("nowhere to send it");
    assert!(service.sent().is_empty());
}
