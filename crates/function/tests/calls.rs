//! The calls that this crate makes without a crate of the SDK for the service (`src/aws/call.rs`) are those that the SDK would make.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use function::Aws;

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

#[tokio::test]
async fn secrets_are_asked_for_as_the_sdk_asks() {
    let found = r#"{"Parameters": [{"Name": "/a", "Value": "1"}, {"Name": "/b", "Value": "2"}]}"#;
    let service = Service::answering(&[(200, found), (200, found)]);
    let config = service.config(credentials());
    let sdk = aws_sdk_ssm::Client::new(&config);
    sdk.get_parameters().names("/a").names("/b").with_decryption(true).send().await.expect("an answer");
    let secrets = Aws::new(config).secrets(&["/b", "/a"]).await.expect("two secrets");
    assert_eq!(secrets.iter().map(|secret| secret.expose()).collect::<Vec<_>>(), ["2", "1"]);
    let [sdk, ours] = &service.sent()[..] else { panic!("two requests") };
    assert_same(ours, sdk);
    let body = |sent: &Sent| serde_json::from_slice::<serde_json::Value>(&sent.2).expect("JSON");
    assert_eq!(body(ours)["WithDecryption"], body(sdk)["WithDecryption"]);
    assert_eq!(body(ours)["Names"], serde_json::json!(["/b", "/a"]));
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
