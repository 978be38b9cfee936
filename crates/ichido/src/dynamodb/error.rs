//! Tells the kind of an error of the DynamoDB client.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::store::Error;

/// The store is throttled, in conflict, or failing inside. It may pass.
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

/// No request works until somebody mends it.
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
        // The request was never sent: no credentials, no region, or it could not be built.
        SdkError::ConstructionFailure(_) => Error::Configuration(Box::new(error)),
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            let code = context.err().code().unwrap_or_default();
            // An error code may have its namespace in front.
            let code = code.rsplit('#').next().unwrap_or(code);
            if TRANSIENT.contains(&code) || status >= 500 || status == 429 {
                Error::Transient(Box::new(error))
            } else if CONFIGURATION.contains(&code) || status == 401 || status == 403 {
                Error::Configuration(Box::new(error))
            } else {
                Error::Request(Box::new(error))
            }
        }
        // It may have been sent, but there is no answer, or none that can be read.
        _ => Error::Transient(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;
    use crate::store::Kind::{self, Configuration, Request, Transient};

    type PutError = SdkError<PutItemError, HttpResponse>;

    fn response(status: u16) -> HttpResponse {
        HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty())
    }

    fn refused(code: &str, status: u16) -> Kind {
        let error = PutItemError::generic(ErrorMetadata::builder().code(code).build());
        classify(SdkError::service_error(error, response(status))).kind()
    }

    #[test]
    fn what_the_store_says_tells_the_kind_by_its_code_or_its_status() {
        for (code, status, kind) in [
            ("ThrottlingException", 400, Transient),
            ("com.amazonaws.dynamodb.v20120810#ThrottlingException", 400, Transient),
            ("SomethingNew", 500, Transient),
            ("SomethingNew", 503, Transient),
            ("SomethingNew", 429, Transient),
            ("AccessDeniedException", 400, Configuration),
            ("SomethingNew", 401, Configuration),
            ("SomethingNew", 403, Configuration),
            ("ValidationException", 400, Request),
            ("SomethingNew", 400, Request),
            ("SomethingNew", 499, Request),
        ] {
            assert_eq!(refused(code, status), kind, "{code} with {status}");
        }
    }

    #[test]
    fn what_was_never_sent_is_a_fault_of_the_configuration_and_what_was_not_answered_is_transient() {
        assert_eq!(classify(PutError::construction_failure("no region")).kind(), Configuration);
        assert_eq!(classify(PutError::timeout_error("too long")).kind(), Transient);
        assert_eq!(classify(PutError::response_error("no JSON", response(200))).kind(), Transient);
    }
}
