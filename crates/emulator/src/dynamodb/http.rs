//! Replaces the SDK's HTTP client, so that requests go directly to the engine.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use bytes::Bytes;

use super::faults::{Broken, Call, Faulty};
use crate::Outside;

/// An HTTP client for the SDK that sends every request to `faulty`, and reports each call to `outside`.
#[must_use]
pub fn http_client(faulty: Faulty, outside: Outside) -> SharedHttpClient {
    let connector = SharedHttpConnector::new(Connector { faulty });
    ichido_testkit::aws::http_client(&outside, http_client_fn(move |_, _| connector.clone()))
}

#[derive(Debug)]
struct Connector {
    faulty: Faulty,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().map(Bytes::copy_from_slice).unwrap_or_default();
        let faulty = self.faulty.clone();
        HttpConnectorFuture::new(async move {
            let answer = faulty.call(Call { operation, body }).await.map_err(connector_error)?;
            let status = StatusCode::try_from(answer.status).map_err(|e| ConnectorError::user(e.into()))?;
            let mut response = HttpResponse::new(status, answer.body.into());
            response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
            Ok(response)
        })
    }
}

fn connector_error(broken: Broken) -> ConnectorError {
    match broken {
        Broken::Refused => ConnectorError::io(broken.into()).never_connected(),
        Broken::Reset => ConnectorError::io(broken.into()),
    }
}
