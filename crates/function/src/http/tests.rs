use proptest::prelude::*;

use super::*;

/// As AWS documents it, shortened to what is read.
fn event() -> Value {
    json!({
        "version": "2.0",
        "routeKey": "POST /slack/events",
        "rawPath": "/slack/events",
        "rawQueryString": "a=1&a=2&name=J%C3%BCrgen+K",
        "cookies": ["one=1", "two=2"],
        "headers": {"Content-Type": "application/json", "x-slack-signature": "v0=abc"},
        "requestContext": {
            "http": {"method": "POST", "path": "/slack/events", "sourceIp": "192.0.2.1", "userAgent": "Slackbot"},
            "requestId": "JKJaXmPLvHcESHA=",
            "stage": "$default",
            "timeEpoch": 1_583_348_638_390_u64,
        },
        "pathParameters": {"proxy": "events"},
        "body": "{\"ok\":true}",
        "isBase64Encoded": false,
    })
}

#[test]
fn an_event_is_read_whole() {
    let request = Request::from_event(&event()).expect("an HTTP event");
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/slack/events"));
    assert_eq!(request.header("Content-Type"), Some("application/json"));
    assert_eq!(request.header("cookie"), Some("one=1; two=2"));
    assert_eq!(request.query("name").as_deref(), Some("Jürgen K"));
    assert_eq!(request.query_pairs().len(), 3);
    assert_eq!(request.body, br#"{"ok":true}"#);
    assert_eq!(request.time_epoch, 1_583_348_638_390);
}

#[test]
fn the_name_of_a_stage_is_not_part_of_the_path() {
    let mut event = event();
    event["requestContext"]["stage"] = Value::from("edge-1a2b");
    event["rawPath"] = Value::from("/edge-1a2b/slack/events");
    let request = Request::from_event(&event).expect("an HTTP event");
    assert_eq!((request.path.as_str(), request.stage.as_str()), ("/slack/events", "edge-1a2b"));
    let made = request.to_event();
    assert_eq!((&made["rawPath"], &made["requestContext"]["http"]["path"]), (&event["rawPath"], &event["rawPath"]));
}

#[test]
fn a_base64_body_arrives_as_the_bytes_that_were_sent() {
    let mut event = event();
    event["body"] = Value::from(BASE64_STANDARD.encode([0, 159, 146, 150]));
    event["isBase64Encoded"] = Value::from(true);
    assert_eq!(Request::from_event(&event).expect("an HTTP event").body, [0, 159, 146, 150]);
    event["body"] = Value::from("%%%");
    assert!(matches!(Request::from_event(&event), Err(Error::Base64)));
}

#[test]
fn what_is_not_an_http_event_says_what_is_missing() {
    let error = Request::from_event(&json!({"rawPath": "/"})).expect_err("no method");
    assert_eq!(
        error.to_string(),
        "the event is not an HTTP API event (payload 2.0): requestContext.http.method is missing"
    );
}

#[test]
fn a_request_of_a_binary_type_travels_as_base64() {
    let mut request = Request::from_event(&event()).expect("an HTTP event");
    assert_eq!(request.to_event()["isBase64Encoded"], false);
    request.headers.insert("content-type".into(), "application/octet-stream".into());
    assert_eq!(request.to_event()["isBase64Encoded"], true);
    assert_eq!(request.to_event()["body"], BASE64_STANDARD.encode(br#"{"ok":true}"#));
}

#[test]
fn repeated_query_parameters_are_joined_as_api_gateway_does() {
    let request = Request::from_event(&event()).expect("an HTTP event");
    let made = request.to_event();
    assert_eq!(made["queryStringParameters"], json!({"a": "1,2", "name": "Jürgen K"}));
    assert_eq!(made["requestContext"]["time"], "04/Mar/2020:19:03:58 +0000");
    assert_eq!(made["cookies"], json!(["one=1", "two=2"]));
    assert_eq!(made["headers"].get("cookie"), None);
}

#[test]
fn an_answer_is_read_as_api_gateway_reads_it() {
    let answer = Response::json(201, &json!({"ok": true})).header("Retry-After", "3");
    assert_eq!(Response::from_value(&answer.clone().into_value()).expect("an answer"), answer);
    let bare = Response::from_value(&json!({"hello": 1})).expect("an answer");
    assert_eq!((bare.status, bare.body.as_slice()), (200, br#"{"hello":1}"#.as_slice()));
    assert!(Response::from_value(&json!({"statusCode": 9000})).is_err());
    assert!(Response::from_value(&json!({"statusCode": 200, "body": {"an": "object"}})).is_err());
}

#[test]
fn percent_encoding_is_decoded_and_other_text_stays() {
    assert_eq!(decode("%7B%22a%22%3A%20%22%C3%A9%22%7D 100%", false), "{\"a\": \"é\"} 100%");
}

proptest! {
    #[test]
    fn whatever_the_bytes_the_handler_gets_them_unchanged(body: Vec<u8>, kind in "(application/json|image/png|text/plain; charset=utf-8)") {
        let mut request = Request::from_event(&event()).expect("an HTTP event");
        request.body = body;
        request.headers.insert("content-type".into(), kind);
        let read = Request::from_event(&request.to_event()).expect("an HTTP event");
        prop_assert_eq!(read, request);
    }

    #[test]
    fn whatever_the_bytes_of_an_answer_the_client_gets_them_unchanged(body: Vec<u8>) {
        let answer = Response { body, ..Response::empty(200) };
        prop_assert_eq!(Response::from_value(&answer.clone().into_value()).expect("an answer"), answer);
    }

    #[test]
    fn decoding_never_fails(text: String) {
        decode(&text, true);
        decode(&text, false);
    }
}
