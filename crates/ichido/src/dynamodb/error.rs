//! Which kind of error is it?

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use crate::store::Error;

/// The store is there, but not now: throttled, in conflict, or failing inside.
const TRANSIENT: &[&str] = &[
    "InternalServerError",
    "InternalServerErrorException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TransactionConflictException",
    "TransactionInProgressException",
];

/// Nothing will work until somebody mends it.
const CONFIGURATION: &[&str] = &[
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "KMSAccessDeniedException",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "ResourceNotFoundException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// The kind of an error of the DynamoDB client.
pub fn classify<E>(error: SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match &error {
        // Never sent: credentials, region, a request that cannot be built.
        SdkError::ConstructionFailure(_) => Error::Configuration(Box::new(error)),
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => {
            Error::Transient(Box::new(error))
        }
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            let code = context.err().code().unwrap_or_default();
            // Error codes may come with their namespace in front.
            let code = code.rsplit('#').next().unwrap_or(code);
            if TRANSIENT.contains(&code) || status >= 500 || status == 429 {
                Error::Transient(Box::new(error))
            } else if CONFIGURATION.contains(&code) || status == 401 || status == 403 {
                Error::Configuration(Box::new(error))
            } else {
                Error::Request(Box::new(error))
            }
        }
        _ => Error::Transient(Box::new(error)),
    }
}
