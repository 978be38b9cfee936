//! Why a request gave no plain result.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId;
use serde_json::Value;

/// Why a request gave no plain result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    /// The resolver's request is wrong.
    #[error("{0}")]
    Request(String),
    /// DynamoDB refused the request, or did not answer.
    #[error("{message}")]
    Store { error_type: String, message: String, result: Value },
}

impl Failure {
    pub(super) fn request<T>(message: impl Into<String>) -> Result<T, Self> {
        Err(Self::Request(message.into()))
    }

    pub(super) fn sdk<E, R>(error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata,
        SdkError<E, R>: RequestId,
    {
        let (code, message) = match error.as_service_error() {
            Some(service) => (
                service.code().unwrap_or("AmazonDynamoDBException").to_owned(),
                service.message().unwrap_or("DynamoDB refused the request").to_owned(),
            ),
            // There was no answer. The SDK's own message may contain host names, which callers must not see.
            None => {
                ("SdkClientException".to_owned(), "Unable to execute the request: no answer from DynamoDB".to_owned())
            }
        };
        let request_id = error.request_id().unwrap_or("local");
        Self::Store {
            message: format!("{message} (Service: DynamoDb, Status Code: 400, Request ID: {request_id})"),
            error_type: format!("DynamoDB:{code}"),
            result: Value::Null,
        }
    }

    pub(super) fn with_result(self, result: Value) -> Self {
        match self {
            Self::Store { error_type, message, .. } => Self::Store { error_type, message, result },
            other => other,
        }
    }

    pub(super) fn is_failed_condition(&self) -> bool {
        matches!(self, Self::Store { error_type, .. } if error_type == "DynamoDB:ConditionalCheckFailedException")
    }
}
