//! `POST /graphql` as a client sees it.
mod support;

use appsync::IamCaller;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{KEY, api, builder, code, none};
use tower::ServiceExt as _;

const SDL: &str = "type Query { hello(name: String): String  address: String  who: String @aws_api_key @aws_iam }";

async fn post(api: &appsync::Api, headers: &[(&str, &str)], body: Value) -> (StatusCode, http::HeaderMap, Value) {
    let mut request = Request::post("/graphql").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response =
        api.router().oneshot(request.body(Body::from(body.to_string())).expect("a request")).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (parts.status, parts.headers, serde_json::from_slice(&bytes).expect("JSON"))
}

fn hello() -> appsync::Api {
    let hello = code("return { payload: `hello ${ctx.args.name}` }");
    let address = code("return { payload: ctx.request.headers['x-forwarded-for'].split(',')[0] }");
    let who = code("return { payload: ctx.identity ? ctx.identity.userArn : 'a key' }");
    let units = [none("Query.hello", &hello), none("Query.address", &address), none("Query.who", &who)];
    builder(SDL, &units).access_key("AKIDEXAMPLE", IamCaller::role("123456789012", "ops")).build().expect("builds")
}

#[tokio::test]
async fn a_request_with_variables_and_an_operation_name() {
    let query = "query A($n: String) { hello(name: $n) } query B { address }";
    let body = json!({"query": query, "variables": {"n": "you"}, "operationName": "A"});
    let (status, headers, answer) = post(&hello(), &[("x-api-key", KEY)], body).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"data": {"hello": "hello you"}})));
    assert_eq!(headers["content-type"], "application/json;charset=UTF-8");
    assert_eq!(headers["access-control-allow-origin"], "*");
}

#[tokio::test]
async fn a_caller_without_a_good_credential_is_refused() {
    for (headers, status, error_type) in [
        (vec![], 401, "UnauthorizedException"),
        (vec![("x-api-key", "wrong")], 401, "UnauthorizedException"),
        (vec![("authorization", "AWS4-HMAC-SHA256 Credential=AKIDOTHER/x")], 403, "UnrecognizedClientException"),
    ] {
        let (found, headers, answer) = post(&hello(), &headers, json!({"query": "{ hello }"})).await;
        assert_eq!((found.as_u16(), &answer["errors"][0]["errorType"]), (status, &json!(error_type)));
        assert_eq!(headers["x-amzn-errortype"], error_type);
    }
}

#[tokio::test]
async fn iam_is_the_configured_caller() {
    let headers =
        [("authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/local/appsync/aws4_request, Signature=x")];
    let (_, _, answer) = post(&hello(), &headers, json!({"query": "{ who }"})).await;
    assert_eq!(answer["data"]["who"], "arn:aws:sts::123456789012:assumed-role/ops/local");
}

#[tokio::test]
async fn resolvers_see_where_a_request_comes_from() {
    let (_, _, answer) = post(
        &hello(),
        &[("x-api-key", KEY), ("X-Forwarded-For", "203.0.113.7, 10.0.0.1")],
        json!({"query": "{ address }"}),
    )
    .await;
    assert_eq!(answer["data"]["address"], "203.0.113.7");
    // Over a real connection the peer's address is there without any header.
    let api = hello();
    let address = support::serve(&api).await;
    let body = json!({"query": "{ address }"}).to_string();
    let request = format!(
        "POST /graphql HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {KEY}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("writes");
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.expect("reads");
    assert!(answer.contains("{\"data\":{\"address\":\"127.0.0.1\"}}"), "{answer}");
}

#[tokio::test]
async fn browsers_may_ask_first() {
    let request =
        Request::options("/graphql").header("origin", "https://example.com").body(Body::empty()).expect("a request");
    let response = api("type Query { a: Int }", &[]).router().oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers()["access-control-allow-headers"].to_str().expect("text").contains("x-api-key"));
}
