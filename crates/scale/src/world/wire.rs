//! The way from the SDK's clients to the services: without a socket, so that simulated time passes for both sides.

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use bytes::Bytes;
use emulator::limits::{Limits, aws};
use function::Aws;
use function::http::decode;
use ichido::Clock as _;
use serde_json::{Value, json};

use super::lambda::{ACCOUNT, Lambda};
use super::{Parameters, assumed};
use crate::clock::Simulated;

/// An address that nothing is sent to.
const ENDPOINT: &str = "http://aws.invalid";

/// SSM and the Invoke API of Lambda.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) clock: Simulated,
    pub(super) limits: Limits,
    pub(super) lambda: Lambda,
    pub(super) parameters: Parameters,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Services {
    /// The clients of one instance, without DynamoDB's.
    pub(super) fn aws(&self) -> Aws {
        let connector = SharedHttpConnector::new(self.clone());
        let client = http_client_fn(move |_, _| connector.clone());
        let config = Aws::at(ENDPOINT).config().clone().into_builder().http_client(client).build();
        Aws::new(config)
    }

    async fn answer(self, target: String, path: String, kind: String, body: Bytes) -> Reply {
        if let Some(operation) = target.strip_prefix("AmazonSSM.") {
            return self.ssm(operation, &body).await;
        }
        let name = path.strip_prefix("/2015-03-31/functions/").and_then(|rest| rest.strip_suffix("/invocations"));
        match name {
            Some(name) => self.invoke(&decode(name, false), &kind, &body).await,
            None => Reply::error(400, "UnknownOperationException", &format!("{target}{path} is not simulated")),
        }
    }

    async fn ssm(&self, operation: &str, body: &[u8]) -> Reply {
        self.clock.sleep(assumed::SSM).await;
        if let Err(exceeded) = self.limits.take(&aws::SSM_PARAMETERS, ACCOUNT, 1.0) {
            let answer = exceeded.answer();
            return Reply::error(answer.status, answer.code, answer.message);
        }
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        if operation != "GetParameters" {
            return Reply::error(400, "UnknownOperationException", &format!("AmazonSSM.{operation} is not simulated"));
        }
        let parameters = telemetry::lock(&self.parameters);
        let names = request["Names"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let (found, missing): (Vec<&str>, Vec<&str>) = names.partition(|name| parameters.contains_key(*name));
        let shown = |name: &str| json!({"Name": name, "Type": "SecureString", "Value": parameters[name], "Version": 1});
        let found: Vec<Value> = found.into_iter().map(shown).collect();
        Reply::ok(200, &json!({"Parameters": found, "InvalidParameters": missing}))
    }

    async fn invoke(&self, name: &str, kind: &str, body: &[u8]) -> Reply {
        self.clock.sleep(assumed::INVOKE).await;
        let size = if kind == "Event" { &aws::LAMBDA_EVENT_PAYLOAD } else { &aws::LAMBDA_SYNC_PAYLOAD };
        if let Err(exceeded) = self.limits.fits(size, name, body.len()) {
            let answer = exceeded.answer();
            return Reply::error(answer.status, answer.code, answer.message);
        }
        let payload: Value = serde_json::from_slice(body).unwrap_or_default();
        if kind == "Event" {
            return match self.lambda.accept(name, payload) {
                Ok(()) => Reply::ok(202, &Value::Null),
                Err(failure) => Reply::error(404, &failure.kind, &failure.message),
            };
        }
        match self.lambda.invoke(name, payload).await {
            Ok(answer) => Reply::ok(200, &answer),
            Err(failure) if failure.throttled => Reply::error(429, &failure.kind, &failure.message),
            Err(failure) => {
                let mut reply = Reply::ok(200, &failure.body());
                reply.headers.push(("x-amz-function-error", "Unhandled".to_owned()));
                reply
            }
        }
    }
}

impl Reply {
    fn ok(status: u16, body: &Value) -> Self {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Self { status, headers: Vec::new(), body }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        let body = json!({"__type": code, "message": message, "Message": message}).to_string();
        Self { status, headers: vec![("x-amzn-errortype", code.to_owned())], body }
    }
}

impl HttpConnector for Services {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let header = |name: &str| request.headers().get(name).unwrap_or_default().to_owned();
        let (target, kind) = (header("x-amz-target"), header("x-amz-invocation-type"));
        let uri = request.uri().to_owned();
        let path = uri.strip_prefix(ENDPOINT).unwrap_or(&uri).split('?').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().map(Bytes::copy_from_slice).unwrap_or_default();
        let services = self.clone();
        HttpConnectorFuture::new(async move {
            let reply = services.answer(target, path, kind, body).await;
            let status = StatusCode::try_from(reply.status).map_err(|error| ConnectorError::user(error.into()))?;
            let mut response = HttpResponse::new(status, Bytes::from(reply.body).into());
            response.headers_mut().insert("content-type", "application/x-amz-json-1.1");
            for (name, value) in reply.headers {
                response.headers_mut().insert(name, value);
            }
            Ok(response)
        })
    }
}
