//! Secrets while SSM answers too many instances at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::StatusCode;
use function::Aws;
use function::aws::SECRET_KEPT;

/// An SSM that throttles its next calls.
#[derive(Debug, Clone, Default)]
struct Busy {
    throttles: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Busy {
    fn throttle(&self, calls: usize) {
        self.throttles.store(calls, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn aws(&self) -> Aws {
        let connector = SharedHttpConnector::new(self.clone());
        let client = http_client_fn(move |_, _| connector.clone());
        Aws::new(Aws::at("http://ssm.invalid").config().clone().into_builder().http_client(client).build())
    }
}

impl HttpConnector for Busy {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = if self.calls.fetch_add(1, Ordering::Relaxed) < self.throttles.load(Ordering::Relaxed) {
            (400, r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#)
        } else {
            (200, r#"{"Parameters": [{"Name": "/token", "Value": "hush", "Type": "SecureString"}]}"#)
        };
        let status = StatusCode::try_from(status).expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, body.into())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_read_outlasts_a_crowd_of_instances() {
    let ssm = Busy::default();
    ssm.throttle(13);
    let began = tokio::time::Instant::now();
    assert_eq!(ssm.aws().secret("/token").await.expect("the secret").expose(), "hush");
    assert_eq!(ssm.calls(), 14);
    assert!(began.elapsed().as_secs() < 12, "the pauses are at most 11.75 s together");
}

#[tokio::test(start_paused = true)]
async fn instances_do_not_use_up_each_others_retries() {
    // The SDK's quota per service and process is 500, and a retry takes five of them.
    for instance in 0..10 {
        let ssm = Busy::default();
        ssm.throttle(13);
        let secret = ssm.aws().secret("/token").await;
        assert_eq!(secret.expect("the secret").expose(), "hush", "instance {instance}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_gives_up_sooner_and_the_cached_secret_is_used() {
    let ssm = Busy::default();
    let aws = ssm.aws();
    aws.secret("/token").await.expect("the secret");
    ssm.throttle(usize::MAX);
    tokio::time::advance(SECRET_KEPT * 2).await;
    assert_eq!(aws.secret("/token").await.expect("the cached secret").expose(), "hush");
    assert_eq!(ssm.calls(), 3, "the SDK's own tries");
    aws.secret("/token").await.expect("the cached secret");
    assert_eq!(ssm.calls(), 3, "SSM has a pause");
    ssm.throttle(0);
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    aws.secret("/token").await.expect("the secret");
    assert_eq!(ssm.calls(), 1, "then it is asked again");
}
