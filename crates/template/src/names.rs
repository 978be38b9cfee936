//! ARNs and the names in them.
//!
//! A template that is read here is deployed nowhere, so it gets a region and an account that stand for the real ones.

use serde_json::Value;

use crate::json::plain;

/// The region in every ARN and in `AWS::Region`.
pub const REGION: &str = "ap-northeast-1";
/// The account in every ARN and in `AWS::AccountId`.
pub const ACCOUNT: &str = "000000000000";

/// An ARN in [`REGION`] and [`ACCOUNT`].
#[must_use]
pub fn arn(service: &str, resource: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}")
}

/// The name of the function that a name, an ARN, an ARN with an alias or an API Gateway integration refers to.
#[must_use]
pub fn function_name(reference: &Value) -> String {
    let text = plain(reference);
    // API Gateway wraps the ARN: arn:aws:apigateway:…:path/2015-03-31/functions/ARN/invocations
    let text = match text.split_once("/functions/") {
        Some((_, rest)) => rest.trim_end_matches("/invocations").to_owned(),
        None => text,
    };
    let name = match text.split_once(":function:") {
        Some((_, name)) => name,
        None => &text,
    };
    name.split(':').next().unwrap_or_default().to_owned()
}
