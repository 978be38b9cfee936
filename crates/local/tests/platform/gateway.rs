//! The HTTP API: the event that a handler gets for a request, and the response that the caller gets.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, http};
use crate::support::process::Local;

async fn echoed(request: reqwest::RequestBuilder) -> Value {
    let (status, body) = answer(request).await;
    assert_eq!(status, StatusCode::OK);
    body["event"].clone()
}

#[tokio::test]
async fn a_request_becomes_an_event_of_payload_2_0() {
    let local = Local::start();
    let request = http()
        .post(format!("{}/echo/a/b%20c?x=1&x=2&y=%C3%BC", local.url))
        .header("content-type", "application/json")
        .header("x-twice", "one")
        .header("x-twice", "two")
        .header("cookie", "a=1; b=2")
        .body(r#"{"ok":true}"#);
    let event = echoed(request).await;
    assert_eq!((&event["version"], &event["routeKey"]), (&json!("2.0"), &json!("ANY /echo/{proxy+}")));
    assert_eq!((&event["rawPath"], &event["rawQueryString"]), (&json!("/echo/a/b%20c"), &json!("x=1&x=2&y=%C3%BC")));
    assert_eq!(event["queryStringParameters"], json!({"x": "1,2", "y": "ü"}));
    assert_eq!(event["pathParameters"], json!({"proxy": "a/b c"}));
    assert_eq!(event["cookies"], json!(["a=1", "b=2"]));
    assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!(r#"{"ok":true}"#), &json!(false)));
    assert_eq!(event["headers"]["x-twice"], "one,two");
    assert_eq!(event["headers"]["x-forwarded-for"], "127.0.0.1");
    let context = &event["requestContext"];
    assert_eq!((&context["http"]["method"], &context["http"]["sourceIp"]), (&json!("POST"), &json!("127.0.0.1")));
    assert_eq!(context["stage"], "$default");
    assert!(context["timeEpoch"].is_u64() && context["requestId"].is_string());
    let trace = event["headers"]["x-amzn-trace-id"].as_str().expect("a trace");
    assert!(trace.starts_with("Root=1-"), "{trace}");
}

#[tokio::test]
async fn bytes_arrive_as_base64_where_api_gateway_would_send_base64() {
    let local = Local::start();
    let url = format!("{}/echo/x", local.url);
    let binary = http().post(&url).header("content-type", "application/octet-stream").body(vec![0_u8, 159, 146, 150]);
    let event = echoed(binary).await;
    assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("AJ+Slg=="), &json!(true)));
    let form = http().post(&url).header("content-type", "application/x-www-form-urlencoded").body("a=1");
    assert_eq!(echoed(form).await["isBase64Encoded"], false);
    let event = echoed(http().get(&url)).await;
    assert_eq!(event.get("body"), None);
}

#[tokio::test]
async fn answers_of_api_gateway_itself_have_its_words() {
    let local = Local::start();
    let post = |path: &str, body: Vec<u8>| http().post(format!("{}{path}", local.url)).body(body);
    for (request, status, message) in [
        (post("/nowhere", vec![]), StatusCode::NOT_FOUND, "Not Found"),
        (http().get(format!("{}/mischief", local.url)), StatusCode::NOT_FOUND, "Not Found"),
        (post("/echo/x", vec![b'x'; 10 * 1024 * 1024 + 1]), StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"),
        (post("/nap", vec![]), StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
    ] {
        assert_eq!(answer(request).await, (status, json!({"message": message})));
    }
}

#[tokio::test]
async fn requests_are_measured_as_api_gateway_measures_them() {
    let local = Local::start();
    answer(http().get(format!("{}/echo/x", local.url))).await;
    let metrics = local.get("/_local/metrics").await;
    let of = |namespace: &str, name: &str| {
        let found = metrics
            .as_array()
            .expect("metrics")
            .iter()
            .find(|metric| metric["namespace"] == namespace && metric["name"] == name);
        found.unwrap_or_else(|| panic!("{namespace} {name}"))["sum"].clone()
    };
    assert_eq!(of("AWS/ApiGateway", "Count"), 1.0);
    assert_eq!(of("AWS/ApiGateway", "5xx"), 0.0);
    assert_eq!(of("AWS/Lambda", "Invocations"), 1.0);
}
