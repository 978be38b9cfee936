//! What the SDK's errors say to a person.

use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_types::error::display::DisplayErrorContext;

use crate::context::{Error, failed, unclear};
use crate::show;

/// How much of an answer that nobody understands is shown.
const SHOWN_CHARS: usize = 160;

/// What is said when there was nothing to ask AWS with.
pub(crate) const NO_CREDENTIALS: &str = "there are no AWS credentials: sign in first (aws sso login, AWS_PROFILE=…), or name a local endpoint (--endpoint-url)";

/// How the SDK calls an answer that it does not understand.
const RESPONSE_ERROR: &str = "response error";

/// What the line about an answer of AWS begins with that leaves open what it did.
const NO_CLEAR_ANSWER: &str = "no clear answer";

/// From this status on, AWS says that something is wrong with itself. It may have done what it was asked.
const SERVER_ERROR: u16 = 500;

/// The error of a call that changes something. Whether it may have been carried out is in its type.
pub(crate) fn not_changed<E>(what: impl Into<String>, error: SdkError<E>) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    if leaves_open(&error) { unclear(what, error) } else { failed(what, error) }
}

/// Whether AWS may have done what it was asked.
fn leaves_open<E>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(answer) => answer.raw().status().as_u16() >= SERVER_ERROR,
        // No answer, half an answer, or one that cannot be read.
        _ => true,
    }
}

/// Whether an error leaves open if AWS did what it was asked. Calls that change something say so by the type of their error
/// ([`not_changed`]). If one does not, a lost answer is known by its words: alone, or with their cause in one line ([`message`]).
pub(crate) fn is_unclear(error: &Error) -> bool {
    if matches!(error, Error::Unclear { .. }) {
        return true;
    }
    let error: &(dyn std::error::Error + 'static) = error;
    let unclear = |error: &(dyn std::error::Error + 'static)| {
        let words = error.to_string();
        let begins = |with: &str| words.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        ["dispatch failure", "request has timed out", RESPONSE_ERROR].into_iter().any(begins)
            || words.contains(NO_CLEAR_ANSWER)
    };
    std::iter::successors(Some(error), |error| error.source()).any(unclear)
}

/// An error of the SDK in one line: its code and its message, or the beginning of an answer that is neither.
pub(crate) fn message<E>(error: &SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let said = said(error);
    match error {
        SdkError::ServiceError(_) if leaves_open(error) => format!("{NO_CLEAR_ANSWER}: {said}"),
        _ => said,
    }
}

fn said<E>(error: &SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let service = error.as_service_error();
    match (service.and_then(|service| service.code()), service.and_then(|service| service.message())) {
        (Some(code), Some(message)) => return format!("{code}: {message}"),
        (Some(code), None) => return code.to_owned(),
        _ => {}
    }
    match error.raw_response() {
        Some(answer) => {
            let body = String::from_utf8_lossy(answer.body().bytes().unwrap_or_default());
            let said = format!("HTTP {}: {}", answer.status().as_u16(), show::one_line(&body, SHOWN_CHARS));
            if matches!(error, SdkError::ResponseError(_)) { format!("{RESPONSE_ERROR}: {said}") } else { said }
        }
        None => {
            let text = DisplayErrorContext(error).to_string();
            if text.contains("no credentials") { NO_CREDENTIALS.to_owned() } else { show::one_line(&text, SHOWN_CHARS) }
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::error::{ConnectorError, ErrorMetadata, SdkError};
    use aws_sdk_lambda::operation::invoke::InvokeError;
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    #[test]
    fn an_answer_that_was_lost_leaves_open_what_happened_and_a_refusal_does_not() {
        type Sdk = SdkError<InvokeError, ()>;
        let lost = || ConnectorError::io("the connection was closed".into());
        assert!(is_unclear(&failed("could not invoke it", Sdk::dispatch_failure(lost()))));
        assert!(is_unclear(&failed("could not invoke it", Sdk::timeout_error("too long"))));
        assert!(is_unclear(&Error::Refused("the store gave no clear answer".to_owned())));
        let refused = Sdk::service_error(InvokeError::unhandled("AccessDenied"), ());
        assert!(!is_unclear(&failed("could not invoke it", refused)));
        assert!(!is_unclear(&Error::Refused("it is released".to_owned())));
    }

    #[test]
    fn an_answer_of_500_leaves_open_what_happened_whatever_its_code_is() {
        type Sdk = SdkError<InvokeError>;
        let error = |status: u16| {
            let code = ErrorMetadata::builder().code("ServiceException").message("it broke").build();
            let answer = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::from("{}"));
            Sdk::service_error(InvokeError::generic(code), answer)
        };
        for (status, open) in [(500, true), (502, true), (503, true), (400, false), (403, false), (429, false)] {
            assert_eq!(is_unclear(&not_changed("could not change it", error(status))), open, "{status}");
            let said = message(&error(status));
            assert!(said.ends_with("ServiceException: it broke"), "{said}");
            assert_eq!(is_unclear(&Error::Refused(said)), open, "{status} in one line");
        }
        assert!(!is_unclear(&not_changed("could not change it", Sdk::construction_failure("no region"))), "not sent");
    }

    #[test]
    fn a_lost_answer_is_still_one_after_it_was_put_into_one_line() {
        type Sdk = SdkError<InvokeError>;
        let answer = || HttpResponse::new(StatusCode::try_from(200).unwrap(), SdkBody::from("not what was expected"));
        let lost = ConnectorError::io("the connection was closed".into());
        for error in [Sdk::dispatch_failure(lost), Sdk::timeout_error("too long"), Sdk::response_error("cut", answer())]
        {
            assert!(is_unclear(&Error::Refused(message(&error))), "{}", message(&error));
        }
        let refused = Sdk::service_error(InvokeError::unhandled("AccessDenied"), answer());
        assert!(!is_unclear(&Error::Refused(message(&refused))), "{}", message(&refused));
        assert!(!is_unclear(&Error::Refused("could not read it: dispatch failure: io error".to_owned())));
    }
}
