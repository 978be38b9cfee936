//! STS's `GetCallerIdentity`, by which the operator's tool learns who uses it. No signature is verified here, so the caller is
//! who it says it is: a user with the name of its access key.

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::protocol;

/// A call of the Query protocol, signed with this access key.
pub(super) fn call(action: &str, access_key: &str) -> Response {
    if action != "GetCallerIdentity" {
        return protocol::refuse(&format!("sts: {action}"));
    }
    // It becomes a part of XML and of an ARN.
    let name: String = access_key.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.@+".contains(*c)).collect();
    let (account, id) = (template::ACCOUNT, uuid::Uuid::new_v4());
    let body = format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
         <Arn>arn:aws:iam::{account}:user/{name}</Arn><UserId>{name}</UserId><Account>{account}</Account>\
         </GetCallerIdentityResult><ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata>\
         </GetCallerIdentityResponse>"
    );
    (StatusCode::OK, [("content-type", "text/xml")], body).into_response()
}
