//! What AppSync refuses when a resolver is saved is refused when an API is built, in AppSync's words where they are known.
//!
//! `refusals.json` has the code and the messages of each case. A case with a `rule` is one of AWS's own linter, and `infra/lint` compares it with
//! that linter: the messages are its messages, and every rule of it has a case.
mod support;

use std::path::Path;

use appsync::engine::{Error, ScriptError};
use appsync::evaluate::{self, evaluate_code};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{builder, none};

#[derive(Deserialize)]
struct Case {
    code: String,
    messages: Vec<String>,
}

/// The answer of EvaluateCode to a handler.
fn evaluated(code: &str, function: &str, context: &Value) -> Value {
    let runtime = json!({"name": "APPSYNC_JS", "runtimeVersion": "1.0.0"});
    let request = json!({"code": code, "context": context.to_string(), "function": function, "runtime": runtime});
    evaluate_code(&request).expect("an answer")
}

/// What an API with this code is refused for.
fn refused(code: &str) -> Vec<String> {
    match builder("type Query { a: Int }", &[none("Query.a", code)]).build() {
        Err(appsync::Error::Engine(Error::Script(ScriptError::Code { errors, .. }))) => {
            errors.into_iter().map(|error| error.value).collect()
        }
        Err(other) => vec![other.to_string()],
        Ok(_) => Vec::new(),
    }
}

const HANDLERS: &str =
    "\nexport function request(ctx) { return {} }\nexport function response(ctx) { return ctx.result }\n";

#[test]
fn what_appsync_refuses_when_it_is_saved_is_refused_when_it_is_built() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("refusals.json")).expect("cases");
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| refused(&case.code) != case.messages)
        .map(|case| format!("{}\n  is {:?}\n  not {:?}", case.code, refused(&case.code), case.messages))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for Case { code, messages } in cases {
        let answer = evaluated(&code, "request", &json!({}));
        assert_eq!(answer["error"]["message"], "The code contains one or more errors.", "{code}");
        let values: Vec<&str> = answer["error"]["codeErrors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|error| error["value"].as_str())
            .collect();
        assert_eq!(values, messages, "{code}");
    }
}

#[test]
fn what_appsync_has_is_accepted() {
    for code in [
        "const twice = (n) => n * 2\nconst list = [1, 2].map(twice).filter((n) => n > 2).reduce((sum, n) => sum + n, 0)",
        "const all = [[2], [1]].flatMap((a) => a).sort().reverse().concat([3]).includes(3)",
        "const names = Object.keys({ a: 1 }).concat(Object.values({ b: 'c' }))",
        "const { a, b: [c, d = 2], ...rest } = { a: 1, b: [1] }; const e = a + c + d + (rest ? 1 : 0), f = e",
        "const text = `a ${[1, 2].map((n) => `${n}`).join(', ')} b`; const g = text.slice(1, 2)",
        "for (const key in { a: 1 }) { console.log(key) }\nfor (const [a, b] of [[1, 2]]) { console.log(a, b) }",
        "function outer(n) { const inner = (m) => m + n; return inner(1) }\nconst three = outer(2)",
        "const o = { keys: 1, valueOf: 2, sort: 3 }; const p = o.keys + o.valueOf + o.sort",
        "function first(list) { for (const one of list) { if (one) { return one } } return null }\nconst a = first([1])",
        "import { util as u } from '@aws-appsync/utils'\nconst id = u.autoId(), max = Math.max(1, Math.floor(1.5))",
        "const a = typeof util === 'object' && void 0 === undefined ? NaN : Infinity",
        "const handle = ({ id, name = 'n' }, ...more) => ({ id, name, more })\nconst h = handle({ id: 1 }, 2)",
        "const call = 1, f = (apply) => apply + call; const g = f(1)",
        "const sums = { add(a, b) { return a + b }, zero() { return 0 } }; const three = sums.add(1, 2)",
        "const f = function inner(n) { return n + 1 }; const two = f(1)",
        "/*////////////////*/ const a = 1 /*/ not yet over /*/ + 2 /***/",
        "// one\rconst a = 1\rconst b = a\r\n// two\u{2028}const c = b\u{2029}const d = c",
        "const a = 0.5.toFixed(1) + 1..toFixed(2) + 0xff + 1e-3 + 1_000.5; const half = (a) / 2 / [4][0] / { b: 1 }.b / a",
        "const m = Math; const o = Object; const a = m.max(1, 2) + Math['min'](1, 2) + o.keys({}).length",
        "const a = 1; switch (a) { case a: { console.log(1); break } case a ? 1 : 2: { break } default: { break } }",
        "const a = 1, of = util ? { if: a } : { for: a }; const b = of.if / 2, c = { if(a) { return a } }",
    ] {
        assert_eq!(refused(&format!("{code}{HANDLERS}")), [""; 0], "{code}");
    }
}

#[test]
fn no_disguise_hides_a_statement() {
    let hidden = "While statements are not supported.";
    for code in [
        "/*/ while (util) { } /* */ while (util) { } /**/",
        "// a\rwhile (util) { }",
        "// a\u{2028}while (util) { }",
        "// a\u{2029}while (util) { }",
        "{ while (util) { } }",
        "{ { while (util) { } } }",
        "function f() { while (util) { } }",
        "const f = () => { while (util) { } }",
        "if (util) { while (util) { } } else { util }",
        "switch (1) { case 1: { while (util) { } } }",
        "switch (1) { case util ? 1 : 2: { while (util) { } } }",
        "const f = () => { return\n{ while (util) { } } }",
    ] {
        assert_eq!(refused(&format!("{code}{HANDLERS}")), [hidden], "{code}");
    }
    for (code, message) in [
        ("{ for (let i = 0; i < 2; i += 1) { } }", "For statements are not supported."),
        ("{ try { util } catch (e) { util } }", "Try statements are not supported."),
        ("{ with (util) { } }", "With statements are not supported."),
        ("{ outer: { break outer } }", "Labeled statements are not supported."),
        ("const a = 1\nouter: { break outer }", "Labeled statements are not supported."),
        ("if (util) /'/.test('a') // '", "Regex literals are not supported."),
        ("for (const a of []) /`/.test('a') // `", "Regex literals are not supported."),
        ("{ } /`/.test('a') // `", "Regex literals are not supported."),
        ("const a = 1..padStart(2)", "Method String.padStart is not implemented"),
        ("const a = 1.5.padStart(2)", "Method String.padStart is not implemented"),
        ("<!-- `\nwhile (util) { }\n<!-- `", "Parsing error: HTML comments are not allowed"),
        ("const m = Math; const a = m.abs(1)", "Method Math.abs is not implemented"),
        ("const a = Math['abs'](1)", "Method Math.abs is not implemented"),
        ("const a = [2, 1].sort((((a, b) => a - b)))", "Functions can not be passed as an argument"),
        ("const a = [2, 1].sort(util ? undefined : (a, b) => a - b)", "Functions can not be passed as an argument"),
        ("const a = [2, 1].sort(...[(a, b) => a - b])", "Functions can not be passed as an argument"),
        ("const f = function g(n) { return g(n) }", "Recursive function calls not supported. Detected cycle in g <-g"),
    ] {
        assert_eq!(refused(&format!("{code}{HANDLERS}")), [message], "{code}");
    }
    let code = "export const request = ctx => { ctx.foo = 1 }\nexport function response(ctx) { return 1 }";
    assert_eq!(refused(code), ["ctx is readonly. Adding/Updating foo is not supported."]);
}

#[test]
fn brackets_that_do_not_match_are_a_parsing_error() {
    for (code, message) in [
        ("const a = (1", "')' expected"),
        ("const a = [1", "']' expected"),
        ("if (util) { while (util) { }", "'}' expected"),
        ("} while (util) { ", "Declaration or statement expected"),
        ("const a = [1)", "Declaration or statement expected"),
    ] {
        assert_eq!(refused(code)[0], format!("Parsing error: {message}"), "{code}");
        let answer = evaluated(code, "request", &json!({}));
        assert_eq!(answer["error"]["codeErrors"][0]["errorType"], "PARSER_ERROR", "{code}");
    }
}

#[test]
fn every_resolver_of_the_mesh_is_accepted() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/appsync");
    let mut files = 0;
    for folder in ["functions", "resolvers"] {
        for entry in std::fs::read_dir(directory.join(folder)).expect("a folder") {
            let path = entry.expect("a file").path();
            let code = std::fs::read_to_string(&path).expect("reads");
            assert_eq!(refused(&code), [""; 0], "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 29, "only {files} files");
}

#[test]
fn an_error_says_where_it_is() {
    let answer = evaluated(&format!("const one = 1\n  class A {{ }}{HANDLERS}"), "request", &json!({}));
    let expected = json!([{"errorType": "LINT_ERROR", "value": "Class declarations are not supported.",
                           "location": {"line": 2, "column": 3, "span": 5}}]);
    assert_eq!(answer["error"]["codeErrors"], expected);
    let answer = evaluated(&format!("const a = 'b\n{HANDLERS}"), "request", &json!({}));
    assert_eq!(answer["error"]["codeErrors"][0]["errorType"], "PARSER_ERROR");
    let answer = evaluated(&format!("const a = 1\nconst b = = 2\n{HANDLERS}"), "request", &json!({}));
    let error = &answer["error"]["codeErrors"][0];
    assert_eq!(
        (&error["errorType"], &error["location"]),
        (&json!("PARSER_ERROR"), &json!({"line": 2, "column": 0, "span": -1}))
    );
}

#[test]
fn code_has_at_most_32768_characters_and_both_handlers() {
    let padded = |size: usize| format!("{HANDLERS}//{}", "é".repeat(size - HANDLERS.len() - 2));
    assert_eq!(refused(&padded(32_768)), [""; 0]);
    assert_eq!(refused(&padded(32_769)), ["Query.a has 32769 characters; AppSync allows 32768"]);
    let half = "export function request(ctx) { return {} }";
    assert_eq!(refused(half), ["Query.a exports no function `response`"]);
    let answer = evaluated(half, "request", &json!({}));
    assert_eq!(answer["error"]["codeErrors"][0]["value"], "code.js exports no function `response`");
}

#[test]
fn a_handler_is_evaluated_with_a_context() {
    let code = "import { util } from '@aws-appsync/utils'
export function request(ctx) {
  console.log('id', ctx.args.id, { a: undefined })
  ctx.stash.seen = true
  util.appendError('careful', 'Warning')
  return { operation: 'GetItem', key: util.dynamodb.toMapValues({ id: ctx.args.id }) }
}
export function response(ctx) {
  console.error(ctx.result)
  if (!ctx.result) util.error('not there', 'NotFound')
  return ctx.result.name
}";
    let answer = evaluated(code, "request", &json!({"arguments": {"id": "1"}}));
    let parsed = |name: &str| -> Value { serde_json::from_str(answer[name].as_str().expect("a text")).expect("JSON") };
    assert_eq!(parsed("evaluationResult"), json!({"operation": "GetItem", "key": {"id": {"S": "1"}}}));
    assert_eq!(parsed("stash"), json!({"seen": true}));
    assert_eq!(parsed("outErrors")[0]["message"], "careful");
    assert_eq!(answer["logs"], json!([r#"INFO - code.js:3:3: "id" "1" {}"#]));
    assert!(answer.get("error").is_none(), "{answer}");

    let answer = evaluated(code, "response", &json!({"result": {"name": "n"}}));
    assert_eq!(answer["evaluationResult"], "\"n\"");
    let answer = evaluated(code, "response", &json!({"result": null}));
    assert_eq!(answer["error"], json!({"message": "not there"}));
    assert_eq!(answer["logs"], json!(["ERROR - code.js:9:3: null"]));
    assert!(answer.get("evaluationResult").is_none(), "{answer}");
}

#[test]
fn a_handler_that_is_evaluated_has_the_bounds_of_a_resolver() {
    let looping = "export function request(ctx) { const a = [1]; for (const x of a) { a.push(x) } return a }
                   export function response(ctx) { return Array(1000000000).fill('x') }";
    for function in ["request", "response"] {
        let message = evaluated(looping, function, &json!({}))["error"]["message"].to_string();
        assert!(
            message.contains("time limit") || message.contains("memory limit") || message.contains("RangeError"),
            "{message}"
        );
    }
}

#[test]
fn a_malformed_request_is_a_bad_request() {
    let good = json!({"code": HANDLERS, "context": "{}", "runtime": {"name": "APPSYNC_JS", "runtimeVersion": "1.0.0"}});
    assert_eq!(evaluate_code(&good).expect("an answer")["evaluationResult"], "{}", "request is the default");
    for (name, value, message) in [
        (
            "code",
            json!(""),
            "Value at 'code' failed to satisfy constraint: Member must have length greater than or equal to 1",
        ),
        ("code", json!("a".repeat(32_769)), "Member must have length less than or equal to 32768"),
        ("code", Value::Null, "Value at 'code' failed to satisfy constraint: Member must not be null"),
        ("context", json!("{"), "Member must have length greater than or equal to 2"),
        ("context", json!("{\"a\""), "The context must be a JSON object."),
        ("context", json!("[1]"), "The context must be a JSON object."),
        (
            "context",
            json!(format!("{{\"a\":\"{}\"}}", "b".repeat(28_000))),
            "Member must have length less than or equal to 28000",
        ),
        ("function", json!("before"), "The function must be request or response."),
        (
            "runtime",
            json!({"name": "VTL", "runtimeVersion": "1.0.0"}),
            "Member must satisfy enum value set: [APPSYNC_JS]",
        ),
        ("runtime", json!({"name": "APPSYNC_JS", "runtimeVersion": "2.0.0"}), "The only version"),
    ] {
        let mut request = good.clone();
        request[name] = value;
        let evaluate::Error::BadRequest(refusal) = evaluate_code(&request).expect_err("is refused") else {
            panic!("{name}")
        };
        assert!(refusal.contains(message), "{name}: {refusal}");
    }
}
