//! What the SDK's errors say to a person.

use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_types::error::display::DisplayErrorContext;

use crate::show;

/// How much of an answer that nobody understands is shown.
const SHOWN_CHARS: usize = 160;

/// What is said when there was nothing to ask AWS with.
pub(crate) const NO_CREDENTIALS: &str = "there are no AWS credentials: sign in first (aws sso login, AWS_PROFILE=…), or name a local endpoint (--endpoint-url)";

/// An error of the SDK in one line: its code and its message, or the beginning of an answer that is neither.
pub(crate) fn message<E>(error: &SdkError<E>) -> String
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
            format!("HTTP {}: {}", answer.status().as_u16(), show::one_line(&body, SHOWN_CHARS))
        }
        None => {
            let text = DisplayErrorContext(error).to_string();
            if text.contains("no credentials") { NO_CREDENTIALS.to_owned() } else { show::one_line(&text, SHOWN_CHARS) }
        }
    }
}
