//! GraphQL documents and their variables.
//!
//! The input is a document and, after a line `---`, the variables as JSON.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use appsync::{Api, Caller, LambdaError, Limits};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::halves;

const KEY: &str = "a key";
/// Small bounds, so that the fuzzer reaches them.
const MAX_RESOLVERS: usize = 50;
const MAX_RESPONSE_BYTES: usize = 20_000;
/// What an error may be longer than the answer that it replaces.
const ERRORS_BYTES: usize = 200_000;

const SCHEMA: &str = r#"
enum Colour { RED GREEN @deprecated }
input Point { x: Int!  y: String = "d"  next: Point  many: [Point!] }
interface Named { name(in: AWSJSON): String }
type T implements Named { id: ID!  name(in: AWSJSON): String  again(in: Point): T  list(in: [Int!]): [T!]!  colour: Colour  at: AWSDateTime  mail: AWSEmail }
type U { id: ID!  url: AWSURL  ip: AWSIPAddress  number: AWSPhone }
union Either = T | U
type Query { root(in: Point, c: Colour = RED, n: Float, flag: Boolean, text: String): T  either(in: AWSJSON): [Either]  named: Named }
type Mutation { change(id: ID!, in: Point): T }
type Subscription {
  changed(id: ID, name: String): T @aws_subscribe(mutations: ["change"])
}
"#;

/// How many resolvers the request has called so far.
static CALLS: AtomicUsize = AtomicUsize::new(0);

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

static THE_API: LazyLock<Api> = LazyLock::new(|| {
    let mut resources = json!({
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"Name": "fuzz", "AuthenticationType": "API_KEY"}},
        "Function": {"Type": "AWS::AppSync::DataSource", "Properties": {
            "Name": "function", "Type": "AWS_LAMBDA",
            "LambdaConfig": {"LambdaFunctionArn": "arn:aws:lambda:local:000000000000:function:worker"},
        }},
    });
    for (on, field) in [
        ("Query", "root"),
        ("Query", "either"),
        ("Query", "named"),
        ("Mutation", "change"),
        ("T", "again"),
        ("T", "list"),
        ("T", "name"),
    ] {
        let properties = json!({"TypeName": on, "FieldName": field, "DataSourceName": "function"});
        resources[format!("{on}{field}")] = json!({"Type": "AWS::AppSync::Resolver", "Properties": properties});
    }
    let limits =
        Limits { resolvers: MAX_RESOLVERS, response_bytes: MAX_RESPONSE_BYTES, subscriptions: 3, ..Limits::default() };
    Api::builder()
        .schema(SCHEMA)
        .template(json!({"Resources": resources}).to_string(), &[])
        .api_keys([KEY])
        .lambda("worker", |context: Value| async move { Ok::<_, LambdaError>(answer(&context)) })
        .limits(limits)
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
});

/// The caller chooses what some fields return, so that results of the wrong type are tried, too.
fn answer(context: &Value) -> Value {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let arguments = &context["arguments"];
    let thing =
        json!({"__typename": "T", "id": "1", "colour": "RED", "at": "2026-01-01T00:00:00Z", "mail": "a@b.example"});
    match context["info"]["fieldName"].as_str() {
        Some("name" | "either") => arguments["in"].clone(),
        Some("list") => arguments["in"].as_array().into_iter().flatten().map(|_| thing.clone()).collect(),
        _ => thing,
    }
}

pub(super) fn api() -> &'static Api {
    &THE_API
}

pub(super) fn caller() -> Caller {
    Caller::api_key(KEY)
}

pub(super) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (query, variables) = halves(&text);
    let variables: Value = serde_json::from_str(variables).unwrap_or_default();
    CALLS.store(0, Ordering::Relaxed);
    let response = run(api().execute(query, variables, &caller()));
    let calls = CALLS.load(Ordering::Relaxed);
    assert!(calls <= MAX_RESOLVERS, "{calls} resolvers were called");
    let whole = response.to_json();
    assert!(whole.is_object() && whole.get("data").is_some(), "{whole}");
    let data = response.data();
    assert!(data.is_object() || data.is_null(), "{data}");
    assert!(data.is_object() || !response.errors.is_empty(), "neither data nor an error");
    assert!(data.to_string().len() <= MAX_RESPONSE_BYTES, "the answer is larger than its bound");
    assert!(whole.to_string().len() <= MAX_RESPONSE_BYTES + ERRORS_BYTES + 4 * query.len(), "the errors are too many");
    for error in &response.errors {
        assert!(!error.message.is_empty(), "{whole}");
    }
}
