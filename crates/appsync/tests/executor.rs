//! The executor, with data sources that need no store.
mod support;

use appsync::{Caller, IamCaller, LambdaError};
use serde_json::{Value, json};
use support::{api, builder, caller, code, none};

const SDL: &str = "
  type Query { echo(text: String, count: Int = 3, tags: [String!]): Echo  fail: Echo  strict: Strict!  maybe: Strict  any: [Item]  pair: Pair!
    bad: Int  node(id: ID!): Node  self: Deep  headers: AWSJSON }
  type Echo { text: String  count: Int  env: String  tags: [String!]  at: AWSDateTime  nested: Echo }
  type Strict { id: ID!  name: String  child: Strict! }
  type Pair { a: Strict!  b: Strict }
  interface Node { id: ID! }
  type A implements Node { id: ID!  a: Int }
  type B implements Node { id: ID!  b: Int }
  union Item = A | B
  type Deep { self: Deep  value: Int }
";

fn payload(expression: &str) -> String {
    code(&format!("return {{ payload: {expression} }}"))
}

#[tokio::test]
async fn a_unit_resolver_gets_its_arguments_and_answers() {
    let code = payload("{ text: ctx.args.text, count: ctx.arguments.count, env: ctx.env.STAGE, tags: ctx.args.tags }");
    let api = api(SDL, &[none("Query.echo", &code)]);
    let response = api
        .execute(
            "query Q($t: String) { first: echo(text: $t, tags: \"one\") { text count env tags } }",
            json!({"t": "hi"}),
            &caller(),
        )
        .await;
    assert_eq!(
        response.to_json(),
        json!({"data": {"first": {"text": "hi", "count": 3, "env": "test", "tags": ["one"]}}})
    );
}

#[tokio::test]
async fn answers_keep_the_order_of_the_query() {
    let code = payload("{ text: 'a', count: 1, env: 'b' }");
    let api = api(SDL, &[none("Query.echo", &code)]);
    let response = api.execute("{ echo { env text z: count __typename a: text } }", Value::Null, &caller()).await;
    let text = serde_json::to_string(&response).expect("serialises");
    assert_eq!(text, r#"{"data":{"echo":{"env":"b","text":"a","z":1,"__typename":"Echo","a":"a"}}}"#);
}

#[tokio::test]
async fn an_error_of_a_resolver_has_appsyncs_shape_and_leaves_the_rest() {
    let fail = code("util.error('no such group', 'GroupNotFound', { text: 'kept', count: 1 }, { hint: 'join again' })");
    let echo = payload("{ text: 'fine' }");
    let api = api(SDL, &[none("Query.fail", &fail), none("Query.echo", &echo)]);
    let response = api.execute("{\n  fail { text }\n  echo { text }\n}", Value::Null, &caller()).await;
    assert_eq!(
        response.to_json(),
        json!({
            "data": {"fail": null, "echo": {"text": "fine"}},
            "errors": [{
                "path": ["fail"],
                "data": {"text": "kept"},
                "errorType": "GroupNotFound",
                "errorInfo": {"hint": "join again"},
                "locations": [{"line": 2, "column": 3, "sourceName": null}],
                "message": "no such group",
            }],
        })
    );
}

#[tokio::test]
async fn appended_errors_stand_beside_the_data() {
    let code = code("util.appendError('careful', 'Warning'); return { payload: { text: 'still here' } }");
    let api = api(SDL, &[none("Query.echo", &code)]);
    let response = api.execute("{ echo { text } }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"echo": {"text": "still here"}}));
    assert_eq!(response.errors[0].error_type(), Some("Warning"));
}

#[tokio::test]
async fn null_moves_up_to_where_it_may_stand() {
    let inner = payload("{ id: '1', child: { id: null, child: { id: '3', child: null } } }");
    let pair = payload("{ a: { id: '1', name: 'x' }, b: { id: null } }");
    let api = api(SDL, &[none("Query.maybe", &inner), none("Query.strict", &inner), none("Query.pair", &pair)]);
    let response = api.execute("{ maybe { id child { id } } }", Value::Null, &caller()).await;
    assert_eq!(
        response.to_json(),
        json!({"data": {"maybe": null}, "errors": [{
            "path": ["maybe", "child", "id"], "locations": null,
            "message": "Cannot return null for non-nullable type: 'ID' within parent 'Strict' (/maybe/child/id)",
        }]})
    );
    let response = api.execute("{ strict { child { id } } }", Value::Null, &caller()).await;
    assert_eq!(response.data(), Value::Null, "nothing above may be null");
    let response = api.execute("{ pair { a { name } b { id } } }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"pair": {"a": {"name": "x"}, "b": null}}));
}

#[tokio::test]
async fn abstract_types_are_what_their_typename_says() {
    let any = payload("[{ __typename: 'A', id: 'a', a: 1 }, { __typename: 'B', id: 'b', b: 2 }, { id: 'c' }]");
    let node = payload("{ __typename: 'B', id: ctx.args.id, b: 7 }");
    let api = api(SDL, &[none("Query.any", &any), none("Query.node", &node)]);
    let response = api
        .execute(
            "query ($id: ID!) { any { __typename ... on A { a } ...b } node(id: $id) { id __typename ...b } } fragment b on B { b }",
            json!({"id": 5}),
            &caller(),
        )
        .await;
    assert_eq!(
        response.data(),
        json!({"any": [{"__typename": "A", "a": 1}, {"__typename": "B", "b": 2}, null], "node": {"id": "5", "__typename": "B", "b": 7}})
    );
    assert!(response.errors[0].message.contains("__typename"));
}

#[tokio::test]
async fn skip_and_include_and_operation_names() {
    let api = api(SDL, &[none("Query.echo", &payload("{ text: 'a', count: 1 }"))]);
    let query =
        "query A($yes: Boolean!) { echo { text @skip(if: $yes) count @include(if: $yes) } } query B { __typename }";
    let response = api.execute(query, json!({"yes": true}), &caller()).await;
    assert!(response.errors[0].message.contains("operation"), "{:?}", response.errors);
    let one = query.split(" query B").next().expect("the first");
    let response = api.execute(one, json!({"yes": true}), &caller()).await;
    assert_eq!(response.data(), json!({"echo": {"count": 1}}));
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_type_is_an_error() {
    let api = api(
        SDL,
        &[none("Query.bad", &payload("'many'")), none("Query.echo", &payload("{ at: 'yesterday', tags: 'one' }"))],
    );
    let response = api.execute("{ bad echo { at tags } }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"bad": null, "echo": {"at": null, "tags": null}}));
    assert_eq!(response.errors.len(), 3);
}

#[tokio::test]
async fn what_is_not_in_the_schema_is_refused_before_anything_runs() {
    let api = api(SDL, &[]);
    for (query, message) in [
        ("{ nothing }", "FieldUndefined"),
        ("{ echo(count: \"x\") { text } }", "Validation error"),
        ("{ echo { text }", "Validation error"),
        ("query ($a: Int!) { echo(count: $a) { text } }", "Variable 'a'"),
        ("{ node { id } }", "Validation error"),
        ("subscription { x }", "Validation error"),
    ] {
        let response = api.execute(query, Value::Null, &caller()).await;
        assert_eq!(response.data(), Value::Null, "{query}");
        assert!(response.errors[0].message.contains(message), "{query}: {:?}", response.errors);
    }
}

#[tokio::test]
async fn introspection_shows_the_schema() {
    let api = api(SDL, &[]);
    let response = api
        .execute(
            "{ __schema { queryType { name } } __type(name: \"Pair\") { fields { name type { kind } } } }",
            Value::Null,
            &caller(),
        )
        .await;
    assert_eq!(
        response.data(),
        json!({"__schema": {"queryType": {"name": "Query"}},
               "__type": {"fields": [{"name": "a", "type": {"kind": "NON_NULL"}}, {"name": "b", "type": {"kind": "OBJECT"}}]}})
    );
}

#[tokio::test]
async fn nested_fields_have_resolvers_and_a_source() {
    let root = payload("{ value: 1 }");
    let nested = payload("{ value: ctx.source.value + 1 }");
    let api = api(SDL, &[none("Query.self", &root), none("Deep.self", &nested)]);
    let response = api.execute("{ self { self { self { value } value } } }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"self": {"self": {"self": {"value": 3}, "value": 2}}}));
}

#[tokio::test]
async fn the_context_has_headers_identity_and_info() {
    let show = code(
        "return { payload: { headers: ctx.request.headers, identity: ctx.identity, list: ctx.info.selectionSetList, \
         field: ctx.info.fieldName, parent: ctx.info.parentTypeName, auth: util.authType() } }",
    );
    let api = api(SDL, &[none("Query.headers", &show)]);
    let response =
        api.execute("{ headers }", Value::Null, &caller().header("X-Forwarded-For", "203.0.113.9, 10.0.0.1")).await;
    let shown: Value = serde_json::from_str(response.data()["headers"].as_str().expect("JSON text")).expect("JSON");
    assert_eq!(shown["headers"]["x-forwarded-for"], "203.0.113.9, 10.0.0.1");
    assert_eq!(shown["identity"], Value::Null);
    assert_eq!(shown["field"], "headers");
    assert_eq!(shown["parent"], "Query");
    assert_eq!(shown["auth"], "API Key Authorization");
}

#[tokio::test]
async fn directives_decide_who_may_read_a_field() {
    let sdl = "type Query { open: String  both: String @aws_api_key @aws_iam  signed: String @aws_iam  thing: Thing @aws_api_key @aws_iam }
               type Thing @aws_api_key @aws_iam { id: ID  secret: String @aws_iam }";
    let text = payload("'x'");
    let thing = payload("{ id: '1', secret: ctx.identity ? ctx.identity.username : null }");
    let units = [
        none("Query.open", &text),
        none("Query.both", &text),
        none("Query.signed", &text),
        none("Query.thing", &thing),
    ];
    let api =
        builder(sdl, &units).access_key("AKIDEXAMPLE", IamCaller::role("123456789012", "ops")).build().expect("builds");
    let query = "{ open both signed thing { id secret } }";
    let response = api.execute(query, Value::Null, &caller()).await;
    assert_eq!(
        response.data(),
        json!({"open": "x", "both": "x", "signed": null, "thing": {"id": "1", "secret": null}})
    );
    let messages: Vec<&str> = response.errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(
        messages,
        ["Not Authorized to access signed on type Query", "Not Authorized to access secret on type Thing"]
    );
    assert!(response.errors.iter().all(|error| error.error_type() == Some("Unauthorized")));
    let response = api.execute(query, Value::Null, &Caller::iam(IamCaller::role("123456789012", "ops"))).await;
    assert_eq!(
        response.data(),
        json!({"open": null, "both": "x", "signed": "x", "thing": {"id": "1", "secret": "ops:local"}})
    );
    let response = api.execute(query, Value::Null, &Caller::api_key("wrong")).await;
    assert_eq!(response.errors[0].error_type(), Some("UnauthorizedException"));
}

#[tokio::test]
async fn lambda_functions_answer_with_code_around_them_or_without() {
    let sdl = "type Query { direct(a: Int): Int  wrapped: Int  failing: Int  caught: Int }";
    let invoke = "export function request(ctx) { return { operation: 'Invoke', payload: { n: 20 } } }
                  export function response(ctx) { if (ctx.error) util.error('wrapped: ' + ctx.error.message, 'Mine'); return ctx.result }";
    let fail = invoke.replace("n: 20", "n: -1");
    let unit = |field, code| support::Unit { field, source: "function", code };
    let units = [
        unit("Query.direct", ""),
        unit("Query.wrapped", invoke),
        unit("Query.caught", &fail),
        unit("Query.failing", ""),
    ];
    let api = builder(sdl, &units)
        .lambda("worker", |payload: Value| async move {
            let n =
                payload.get("n").and_then(Value::as_i64).or_else(|| payload["arguments"]["a"].as_i64()).unwrap_or(-1);
            if n < 0 { Err(LambdaError::new("it broke")) } else { Ok(json!(n + 1)) }
        })
        .build()
        .expect("builds");
    let response = api.execute("{ direct(a: 4) wrapped failing caught }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"direct": 5, "wrapped": 21, "failing": null, "caught": null}));
    let mut types: Vec<_> =
        response.errors.iter().map(|error| (error.error_type().unwrap_or(""), error.message.as_str())).collect();
    types.sort_unstable();
    assert_eq!(types, [("Lambda:Unhandled", "it broke"), ("Mine", "wrapped: it broke")]);
}

#[test]
fn an_api_that_does_not_fit_together_is_refused_by_name() {
    let refusal =
        |sdl: &str, units: &[support::Unit<'_>]| builder(sdl, units).build().expect_err("is refused").to_string();
    let good = payload("1");
    assert!(refusal(SDL, &[none("Query.nothing", &good)]).contains("Query.nothing"));
    assert!(refusal(SDL, &[none("Query.bad", "export function request() { return {} }")]).contains("`response`"));
    assert!(refusal(SDL, &[none("Query.bad", "export function request( { }")]).contains("Query.bad"));
    assert!(refusal(SDL, &[none("Query.bad", "")]).contains("code"));
    assert!(refusal(SDL, &[support::stored("Query.bad", &good)]).contains("DynamoDB client"));
    assert!(refusal(SDL, &[support::Unit { field: "Query.bad", source: "function", code: &good }]).contains("worker"));
    assert!(refusal("type Query { a: Missing }", &[]).contains("Missing"));
}

#[tokio::test]
async fn code_is_in_the_template_or_in_a_file_that_it_names() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("resolvers")).expect("a directory");
    std::fs::write(dir.path().join("resolvers/one.js"), payload("1")).expect("writes");
    std::fs::write(dir.path().join("schema.graphql"), "type Query { a: Int  b: Int }").expect("writes");
    let resolver = |field: &str, key: &str, value: Value| json!({"Type": "AWS::AppSync::Resolver", "Properties": {"TypeName": "Query", "FieldName": field, "DataSourceName": "none", key: value}});
    let template = json!({
        "Parameters": {"File": {"Type": "String", "Default": "resolvers/one.js"}, "Schema": {"Type": "String", "Default": "schema.graphql"}},
        "Resources": {
            "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"AuthenticationType": "API_KEY"}},
            "Schema": {"Type": "AWS::AppSync::GraphQLSchema", "Properties": {"Definition": {"Ref": "Schema"}}},
            "None": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "none", "Type": "NONE"}},
            "A": resolver("a", "Code", json!({"Ref": "File"})),
            "B": resolver("b", "CodeS3Location", json!("s3://bucket/prefix/resolvers/one.js")),
        }
    })
    .to_string();
    let build = |parameters: &[(&str, &str)]| {
        appsync::Api::builder()
            .template(template.as_str(), parameters)
            .code_dir(dir.path())
            .api_keys([support::KEY])
            .build()
    };
    let response = build(&[]).expect("builds").execute("{ a b }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"a": 1, "b": 1}));
    // A deployment's value is the text itself.
    let two = payload("2");
    let response = build(&[("File", &two)]).expect("builds").execute("{ a b }", Value::Null, &caller()).await;
    assert_eq!(response.data(), json!({"a": 2, "b": 1}));
    let missing = template.replace("prefix/resolvers/one.js", "two.js");
    let refusal =
        appsync::Api::builder().template(missing, &[]).code_dir(dir.path()).build().expect_err("no such file");
    assert!(refusal.to_string().contains("two.js"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_ended() {
    let sdl = "type Query { slow: Int }";
    let unit = support::Unit { field: "Query.slow", source: "function", code: "" };
    let api = builder(sdl, &[unit])
        .lambda("worker", |_: Value| async { std::future::pending::<Result<Value, LambdaError>>().await })
        .build()
        .expect("builds");
    let response = api.execute("{ slow }", Value::Null, &caller()).await;
    assert_eq!((response.data(), response.errors[0].error_type()), (Value::Null, Some("ExecutionTimeout")));
}
