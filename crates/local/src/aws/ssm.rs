//! The calls of SSM by which functions read secrets, and by which the operator's tool asks whether they are there.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::protocol;
use crate::platform::Platform;

/// One operation.
pub(super) fn call(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    let request = match protocol::request(body) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    match operation {
        "GetParameter" => {
            let name = request["Name"].as_str().unwrap_or_default();
            match shown(platform, name, &request) {
                Some(parameter) => protocol::answer(&json!({ "Parameter": parameter })),
                None => protocol::error(StatusCode::BAD_REQUEST, "ParameterNotFound", ""),
            }
        }
        "GetParameters" => {
            let names: Vec<&str> =
                request["Names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let missing: Vec<&str> = names.iter().copied().filter(|name| platform.parameter(name).is_none()).collect();
            let found: Vec<Value> = names.iter().filter_map(|name| shown(platform, name, &request)).collect();
            protocol::answer(&json!({"Parameters": found, "InvalidParameters": missing}))
        }
        "DescribeParameters" => describe(platform, &request),
        _ => protocol::refuse(&format!("AmazonSSM.{operation}")),
    }
}

/// Descriptions, which hold no value, of the parameters with the names of the filter.
fn describe(platform: &Platform, request: &Value) -> Response {
    let filters = request["ParameterFilters"].as_array().map_or(&[][..], Vec::as_slice);
    let by_name =
        |filter: &Value| filter["Key"] == "Name" && matches!(filter["Option"].as_str(), None | Some("Equals"));
    let [filter] = filters else { return protocol::refuse("AmazonSSM.DescribeParameters without a filter by name") };
    if !by_name(filter) {
        return protocol::refuse(&format!("AmazonSSM.DescribeParameters with the filter {filter}"));
    }
    let names = filter["Values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let found = names.filter(|name| platform.parameter(name).is_some()).map(|name| {
        json!({
            "Name": name, "Type": "SecureString", "Version": 1, "DataType": "text", "Tier": "Standard",
            "ARN": template::arn("ssm", &format!("parameter{name}")), "LastModifiedDate": 0,
        })
    });
    protocol::answer(&json!({"Parameters": found.collect::<Vec<_>>()}))
}

fn shown(platform: &Platform, name: &str, request: &Value) -> Option<Value> {
    let value = platform.parameter(name)?;
    // Without decryption SSM returns the ciphertext; here it is a placeholder.
    let value = if request["WithDecryption"] == true { value } else { "(encrypted)" };
    Some(json!({
        "Name": name, "Type": "SecureString", "Value": value, "Version": 1, "DataType": "text",
        "ARN": template::arn("ssm", &format!("parameter{name}")), "LastModifiedDate": 0,
    }))
}
