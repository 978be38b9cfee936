//! APPSYNC_JS: `util`, `runtime` and the helpers, one handler at a time, and pipelines.
mod support;

use appsync::engine::{Ending, Error};
use appsync::{Api, Evaluation};
use serde_json::{Value, json};
use support::{KEY, builder, caller, code, none};

const NOW: i64 = 1_767_225_600_123; // 2026-01-01T00:00:00.123Z

/// An API whose only file is `handler.js` with this `request`.
fn file(body: &str) -> (tempfile::TempDir, Api) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("handler.js"), code(body)).expect("writes");
    let api = builder("type Query { a: Int }", &[]).code_dir(dir.path()).clock(|| NOW).seed(7).build().expect("builds");
    (dir, api)
}

fn evaluate(body: &str, ctx: Value) -> Result<Evaluation, Error> {
    let (_dir, api) = file(body);
    api.evaluate("handler.js", "request", ctx)
}

/// The value of an expression.
fn value(expression: &str) -> Value {
    let evaluation =
        evaluate(&format!("return {expression}"), json!({})).unwrap_or_else(|error| panic!("{expression}: {error}"));
    evaluation.returned().cloned().unwrap_or_else(|| panic!("{expression}: {:?}", evaluation.ending))
}

/// All expressions in one handler: an engine is made once.
fn check(cases: &[(&str, Value)]) {
    let expressions: Vec<&str> = cases.iter().map(|(expression, _)| *expression).collect();
    let values = value(&format!("[{}]", expressions.join(",\n")));
    for (index, (expression, expected)) in cases.iter().enumerate() {
        assert_eq!(values[index], *expected, "{expression}");
    }
}

#[test]
fn ids_have_their_form() {
    let text = |expression: &str| value(expression).as_str().expect("a text").to_owned();
    let id = text("util.autoId()");
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
    let ulid = text("util.autoUlid()");
    assert!(ulid.len() == 26 && ulid.starts_with("01KDVD"), "{ulid}");
    let ksuid = text("util.autoKsuid()");
    assert!(ksuid.len() == 27 && ksuid.chars().all(|c| c.is_ascii_alphanumeric()), "{ksuid}");
    assert_eq!(value("util.autoId() === util.autoId()"), json!(false));
    assert_eq!(text("util.autoId()"), text("util.autoId()"), "a seed makes runs repeat");
}

#[test]
fn time_is_the_clocks() {
    check(&[
        ("util.time.nowISO8601()", json!("2026-01-01T00:00:00.123Z")),
        ("util.time.nowEpochSeconds()", json!(1_767_225_600)),
        ("util.time.nowEpochMilliSeconds()", json!(NOW)),
        ("util.time.nowFormatted('yyyy-MM-dd HH:mm:ssZ')", json!("2026-01-01 00:00:00+0000")),
        ("util.time.nowFormatted('yyyy-MM-dd HH:mm:ssXXX', '+09:00')", json!("2026-01-01 09:00:00+09:00")),
        ("util.time.epochMilliSecondsToSeconds(1517943695750)", json!(1_517_943_695)),
        ("util.time.epochMilliSecondsToISO8601(1517943695750)", json!("2018-02-06T19:01:35.750Z")),
        (
            "util.time.epochMilliSecondsToFormatted(1517943695750, 'yyyy-MM-dd HH:mm:ssZ')",
            json!("2018-02-06 19:01:35+0000"),
        ),
        ("util.time.parseISO8601ToEpochMilliSeconds('2018-02-01T17:21:05.180+08:00')", json!(1_517_476_865_180_i64)),
        (
            "util.time.parseFormattedToEpochMilliSeconds('2018-02-06 01:19:49+0800', 'yyyy-MM-dd HH:mm:ssZ')",
            json!(1_517_851_189_000_i64),
        ),
        (
            "util.time.parseFormattedToEpochMilliSeconds('2018-02-06 01:19:49', 'yyyy-MM-dd HH:mm:ss', '+0800')",
            json!(1_517_851_189_000_i64),
        ),
    ]);
}

#[test]
fn texts_are_encoded_and_matched() {
    check(&[
        ("util.base64Encode('héllo')", json!("aMOpbGxv")),
        ("util.base64Decode('aMOpbGxv')", json!("héllo")),
        ("util.urlEncode('a b&c=d/é~')", json!("a+b%26c%3Dd%2F%C3%A9%7E")),
        ("util.urlDecode('a+b%26c%3Dd%2F%C3%A9')", json!("a b&c=d/é")),
        ("util.escapeJavaScript(\"it's \\\"x\\\"\")", json!("it\\'s \\\"x\\\"")),
        ("util.matches('a*b', 'aaaaab')", json!(true)),
        ("util.matches('a*b', 'aaaaabc')", json!(false)),
        ("util.str.normalize('e\\u0301', 'nfc').length", json!(1)),
        ("util.math.roundNum(1.5)", json!(2)),
        ("util.math.minVal(3, 1)", json!(1)),
        ("util.authType()", json!("API Key Authorization")),
    ]);
}

#[test]
fn dynamodb_values_are_typed() {
    check(&[
        (
            "util.dynamodb.toDynamoDB({ a: 'x', b: [1, true, null], c: { d: 1.5 } })",
            json!({"M": {"a": {"S": "x"}, "b": {"L": [{"N": 1}, {"BOOL": true}, {"NULL": null}]}, "c": {"M": {"d": {"N": 1.5}}}}}),
        ),
        (
            "util.dynamodb.toMapValues({ id: '1', constructor: 2, toString: 3 })",
            json!({"id": {"S": "1"}, "constructor": {"N": 2}, "toString": {"N": 3}}),
        ),
        ("util.dynamodb.toStringSet(['a', 'b'])", json!({"SS": ["a", "b"]})),
        ("util.dynamodb.toNumberSet([1, 2])", json!({"NS": ["1", "2"]})),
        ("util.dynamodb.toString(null)", json!(null)),
        ("util.dynamodb.toNull()", json!({"NULL": null})),
    ]);
}

#[test]
fn filters_become_expressions() {
    check(&[
        (
            "JSON.parse(util.transform.toDynamoDBFilterExpression({ title: { contains: 'Hello World' } }))",
            json!({"expression": "contains(#title, :title_contains)", "expressionNames": {"#title": "title"},
                   "expressionValues": {":title_contains": {"S": "Hello World"}}}),
        ),
        (
            "ddb.remove({ key: { id: '1' }, condition: { owner: { eq: 'me' }, age: { between: [1, 2] }, or: [{ a: { in: [1] } }, { not: { b: { attributeExists: true } } }] } })",
            json!({"operation": "DeleteItem", "key": {"id": {"S": "1"}}, "condition": {
                "expression": "(#owner = :owner_eq) AND (#age BETWEEN :age_between_0 AND :age_between_1) AND ((#a IN (:a_in_0)) OR (NOT (attribute_exists(#b))))",
                "expressionNames": {"#owner": "owner", "#age": "age", "#a": "a", "#b": "b"},
                "expressionValues": {":owner_eq": {"S": "me"}, ":age_between_0": {"N": 1}, ":age_between_1": {"N": 2}, ":a_in_0": {"N": 1}}}}),
        ),
        (
            "util.transform.toSubscriptionFilter({ or: [{ a: { eq: 1 } }, { b: { gt: 2 } }], c: { eq: 3 }, x: { eq: 0 } }, ['x'])",
            json!({"filterGroup": [
                {"filters": [{"fieldName": "a", "operator": "eq", "value": 1}, {"fieldName": "c", "operator": "eq", "value": 3}]},
                {"filters": [{"fieldName": "b", "operator": "gt", "value": 2}, {"fieldName": "c", "operator": "eq", "value": 3}]}]}),
        ),
    ]);
}

#[test]
fn handlers_end_as_they_say() {
    let ended = |body: &str| evaluate(body, json!({})).expect("runs").ending;
    let Ending::Error(raised) = ended("util.error('m', 'T', { d: 1 }, { i: 2 }); return 1") else { panic!("an error") };
    assert_eq!((raised.message.as_str(), raised.error_type.as_deref()), ("m", Some("T")));
    assert_eq!((raised.data, raised.error_info), (json!({"d": 1}), json!({"i": 2})));
    assert_eq!(ended("util.unauthorized()"), Ending::Unauthorized);
    assert_eq!(ended("runtime.earlyReturn({ a: 1 })"), Ending::Early { value: json!({"a": 1}), to_end: false });
    assert_eq!(
        ended("runtime.earlyReturn(null, { skipTo: 'END' })"),
        Ending::Early { value: Value::Null, to_end: true }
    );
    assert_eq!(ended("return"), Ending::Returned(Value::Null));
    let appended = evaluate("util.appendError('a'); util.appendError('b', 'B'); return 1", json!({})).expect("runs");
    assert_eq!(appended.errors.len(), 2);
    let stash = evaluate("ctx.stash.seen = ctx.args.n; return null", json!({"args": {"n": 5}})).expect("runs").stash;
    assert_eq!(stash, json!({"seen": 5}));
}

#[test]
fn mistakes_are_errors_with_their_place() {
    let message = |body: &str| evaluate(body, json!({})).expect_err("a mistake").to_string();
    assert!(message("return ctx.nothing.at.all").contains("handler.js"), "{}", message("return ctx.nothing.at.all"));
    for (body, name) in [
        ("return util.rds.toJsonObject('')", "util.rds is not supported"),
        ("return util.http.copyHeaders({})", "util.http is not supported"),
        ("extensions.evictFromApiCache('a', 'b', {})", "evictFromApiCache"),
        ("return util.time.nowFormatted('yyyy', 'Asia/Tokyo')", "Asia/Tokyo"),
        ("return util.time.nowFormatted('GGGG')", "GGGG"),
        ("return util.transform.toDynamoDBFilterExpression({ a: { like: 1 } })", "like"),
        ("return util.matches('(', 'a')", "util.matches"),
        ("return Date.now()", "Cannot find name 'Date'"),
        ("return new Map()", "The operator new is not supported"),
        ("return Promise.resolve(1)", "Cannot find name 'Promise'"),
        ("return globalThis", "Cannot find name 'globalThis'"),
    ] {
        assert!(message(body).contains(name), "{body}: {}", message(body));
    }
}

#[test]
fn a_file_or_function_that_is_not_there_is_named() {
    let (_dir, api) = file("return 1");
    assert!(matches!(api.evaluate("other.js", "request", json!({})), Err(Error::NoFile { .. })));
    assert!(matches!(api.evaluate("handler.js", "before", json!({})), Err(Error::NoHandler { .. })));
    assert!(matches!(api.evaluate("../../etc/passwd", "request", json!({})), Err(Error::NoFile { .. })));
}

#[tokio::test]
async fn no_call_sees_another_calls_state() {
    // Module variables, and everything shared that a handler might write to.
    let counting = "let count = 0\nconst seen = []\nexport function request(ctx) { count += 1; seen.push(1); ctx.stash.x = 1; return { payload: count * 10 + seen.length } }\nexport function response(ctx) { return ctx.result }";
    let api = builder("type Query { n: Int }", &[none("Query.n", counting)]).build().expect("builds");
    for _ in 0..3 {
        let response = api.execute("{ a: n b: n c: n }", Value::Null, &caller()).await;
        assert_eq!(response.data(), json!({"a": 11, "b": 11, "c": 11}));
    }
}

const PIPELINE_SDL: &str = "type Query { run(mode: String): AWSJSON }";

fn pipeline() -> Api {
    let step = |name: &str, request: &str, response: &str| {
        json!({"Type": "AWS::AppSync::FunctionConfiguration", "Properties": {"Name": name, "DataSourceName": "none",
            "Code": format!("export function request(ctx) {{ {request} }}\nexport function response(ctx) {{ {response} }}")}})
    };
    let template = json!({"Resources": {
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"AuthenticationType": "API_KEY"}},
        "None": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "none", "Type": "NONE"}},
        "First": step(
            "first",
            "if (ctx.args.mode === 'next') runtime.earlyReturn('skipped'); if (ctx.args.mode === 'end') runtime.earlyReturn('ended', { skipTo: 'END' }); \
             ctx.stash.steps.push('first'); return { payload: ctx.prev.result }",
            "if (ctx.args.mode === 'error') util.error('stopped', 'First'); return ctx.result + 1",
        ),
        "Second": step("second", "ctx.stash.steps.push('second'); return { payload: ctx.prev.result }", "return [ctx.result, 'second']"),
        "Run": {"Type": "AWS::AppSync::Resolver", "Properties": {"TypeName": "Query", "FieldName": "run", "Kind": "PIPELINE",
            "PipelineConfig": {"Functions": ["First", "Second"]},
            "Code": "export function request(ctx) { if (ctx.args.mode === 'before') runtime.earlyReturn('at once'); ctx.stash.steps = []; return 1 }\n\
                     export function response(ctx) { return { result: ctx.prev.result, same: ctx.result === ctx.prev.result, steps: ctx.stash.steps } }"}},
    }});
    Api::builder()
        .schema(PIPELINE_SDL)
        .template(template.to_string(), &[])
        .api_keys([KEY])
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn a_pipeline_hands_results_and_the_stash_on() {
    let api = pipeline();
    let run = async |mode: &str| {
        let response = api.execute("query ($m: String) { run(mode: $m) }", json!({"m": mode}), &caller()).await;
        let data: Value =
            response.data()["run"].as_str().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
        (data["result"].clone(), data["steps"].clone(), response.errors)
    };
    assert_eq!(run("all").await.0, json!([2, "second"]));
    assert_eq!(run("all").await.1, json!(["first", "second"]));
    let (result, steps, _) = run("next").await;
    assert_eq!(
        (result, steps),
        (json!(["skipped", "second"]), json!(["second"])),
        "only the function's own source is skipped"
    );
    let (result, steps, _) = run("end").await;
    assert_eq!((result, steps), (json!("ended"), json!([])));
    assert_eq!(run("before").await.0, json!("at once"));
    let (result, _, errors) = run("error").await;
    assert_eq!((result, errors[0].error_type()), (Value::Null, Some("First")));
}
