//! Hostile input: it ends in an error within the bounds, and the API works as before.
mod support;

use std::time::Duration;

use appsync::{Api, Limits};
use serde_json::{Value, json};
use support::{KEY, api, builder, caller, code, none, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SDL: &str =
    "type Query { run: AWSJSON  deep: Deep  fine: Int  big(n: Int!): [String]  json(in: AWSJSON, nested: In): String }
                   type Deep { deep: Deep  list: [Deep]  n: Int  resolved: Deep } input In { in: In  n: Int }";

fn hostile(body: &str) -> Api {
    let (bad, fine) = (code(body), code("return { payload: 1 }"));
    // Bounds small enough that hitting them takes no time.
    let limits =
        Limits { script_time: Duration::from_millis(300), script_memory: 8 * 1024 * 1024, ..Limits::default() };
    builder(SDL, &[none("Query.run", &bad), none("Query.fine", &fine)]).limits(limits).build().expect("builds")
}

/// The error that a body gives, after which the API still answers.
async fn refused(body: &str) -> (String, Value) {
    let api = hostile(body);
    let response = api.execute("{ run }", Value::Null, &caller()).await;
    let error = response.errors.first().unwrap_or_else(|| panic!("{body} is an error, not {}", response.data()));
    let answer = (error.message.clone(), error.raised.as_ref().map_or(Value::Null, |raised| raised.error_info.clone()));
    assert_eq!(api.execute("{ fine }", Value::Null, &caller()).await.data(), json!({"fine": 1}), "after {body}");
    answer
}

#[tokio::test]
async fn a_resolver_that_loops_for_ever_is_an_error() {
    for body in [
        "const a = [1]; for (const x of a) { a.push(x) } return a",
        "const f = (n) => { let t = 0; for (const x of Array(1000000).fill(0)) { t += x } return t }; \
         let s = 0; [1,2,3,4,5,6,7,8,9].forEach(() => [1,2,3,4,5,6,7,8,9].forEach(() => [1,2,3,4,5,6,7,8,9].forEach(() => { s += f(1) }))); return s",
    ] {
        let (message, _) = refused(body).await;
        assert!(message.contains("timed out") || message.contains("memory"), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_resolver_that_allocates_for_ever_is_an_error() {
    for body in [
        "const a = [Array(1000000).fill('x').join('')]; for (const x of a) { a.push(x + a.length) } return a",
        "return Array(30000000).fill('xxxxxxxxxx').join('')",
        "return Array(100000000).fill('x')",
    ] {
        let (message, info) = refused(body).await;
        assert!(
            message.contains("memory") || message.contains("timed out") || info.to_string().contains("RangeError"),
            "{body}: {message} {info}"
        );
    }
}

#[tokio::test]
async fn a_resolver_that_recurses_for_ever_is_an_error() {
    assert!(builder(SDL, &[none("Query.run", &code("const f = (n) => f(n + 1) + 1; return f(0)"))]).build().is_err());
    // Recursion through a property is seen by nobody before it runs.
    let (message, info) = refused("const o = { f: (n) => o.f(n + 1) + 1 }; return o.f(0)").await;
    assert_eq!(message, "Runtime Error");
    assert!(info.to_string().contains("stack"), "{info}");
}

#[tokio::test]
async fn huge_output_is_an_error() {
    let (message, _) = refused("return { payload: Array(3000000).fill('xx').join('') }").await;
    assert!(message.contains("too large") || message.contains("memory"), "{message}");
    let big = code("return { payload: Array(2000).fill(Array(1000).fill('x').join('')) }");
    let limits = Limits { response_bytes: 100_000, ..Limits::default() };
    let api = builder(SDL, &[none("Query.big", &big)]).limits(limits).build().expect("builds");
    let response = api.execute("{ big(n: 1) }", Value::Null, &caller()).await;
    assert_eq!((response.data(), response.errors[0].error_type()), (Value::Null, Some("ResponseSizeLimitReached")));
}

#[tokio::test]
async fn code_cannot_be_made_from_text() {
    for body in [
        "return eval('1')",
        "return Object.constructor('return 1')()",
        "const o = Object; return o.constructor('return 1')()",
        "return Function('return 1')()",
        "return setTimeout('1')",
    ] {
        assert!(builder(SDL, &[none("Query.run", &code(body))]).build().is_err(), "{body}");
    }
    for body in [
        "return (() => 1).constructor('return 1')()",
        "const [o] = [Object]; return o.constructor('return 1')()",
        "return [].map.constructor('return 1')()",
        "const f = ({}).constructor.constructor; return f('return 1')()",
    ] {
        let (message, info) = refused(body).await;
        assert_eq!(message, "Runtime Error", "{body}: {info}");
    }
}

#[test]
fn code_of_any_shape_is_refused() {
    let chain: String = (0..1_000).map(|n| format!("function f{n}(){{f{}()}}", (n + 1) % 1_000)).collect();
    let nested = format!("{}{}{}", "const a=()=>{".repeat(1_000), "a()".repeat(1_000), "}".repeat(1_000));
    for code in [
        "a=>".repeat(10_000),
        "a=a\n".repeat(8_000),
        "a in ".repeat(6_000),
        "f(".repeat(10_000) + &")".repeat(10_000),
        "`${".repeat(5_000) + &"}`".repeat(5_000),
        "{".repeat(16_000) + &"}".repeat(16_000),
        format!("f({})", "()=>1,".repeat(5_000)),
        chain,
        nested,
    ] {
        let refused = builder(SDL, &[none("Query.run", &code)]).build().expect_err("is refused").to_string();
        assert!(refused.lines().count() <= 101, "{} lines for {}", refused.lines().count(), &code[..20]);
    }
}

#[tokio::test]
async fn prototype_games_change_nothing_for_anybody() {
    for body in [
        "Object.prototype.polluted = 1; return { payload: 1 }",
        "const p = ({}).__proto__; p.polluted = 1; return { payload: 1 }",
        "Array.prototype.map = () => [666]; return { payload: 1 }",
        "util.error = () => 1; return { payload: 1 }",
        "util.time.nowISO8601 = () => 'never'; return { payload: 1 }",
        "JSON.stringify = () => '{}'; return { payload: 1 }",
        "ddb.operations.add = 1; return { payload: 1 }",
        "ctx.env.constructor.prototype.polluted = 1; return { payload: 1 }",
    ] {
        let (message, info) = refused(body).await;
        assert_eq!(message, "Runtime Error", "{body}: {info}");
    }
    // A `toJSON` runs within the bounds and harms only its own answer.
    let api = hostile("return { payload: 1, toJSON: () => ({ kind: 'early', payload: 2 }) }");
    assert_eq!(api.execute("{ run }", Value::Null, &caller()).await.data(), json!({"run": "2"}));
    let api = hostile("return { payload: { ['__proto__']: { polluted: 1 }, a: 1 } }");
    assert_eq!(api.execute("{ run fine }", Value::Null, &caller()).await.data()["fine"], 1);
}

#[tokio::test]
async fn ten_thousand_aliases_are_refused() {
    let api = hostile("return { payload: 1 }");
    let aliases: String = (0..10_000).map(|n| format!("a{n}: fine ")).collect();
    let response = api.execute(&format!("{{ {aliases} }}"), Value::Null, &caller()).await;
    assert!(response.errors[0].message.contains("token"), "{:?}", response.errors[0]);
    // Fewer tokens, too many resolvers.
    let limits = Limits { resolvers: 100, ..Limits::default() };
    let fine = code("return { payload: 1 }");
    let api = builder(SDL, &[none("Query.fine", &fine)]).limits(limits).build().expect("builds");
    let aliases: String = (0..500).map(|n| format!("a{n}: fine ")).collect();
    let response = api.execute(&format!("{{ {aliases} }}"), Value::Null, &caller()).await;
    assert_eq!(response.errors.len(), 1);
    assert_eq!(response.errors[0].error_type(), Some("ResolverCountLimitReached"));
}

#[tokio::test]
async fn deep_queries_and_bombs_of_fragments_are_refused() {
    let step = code("return { payload: { n: 1 } }");
    let units = [none("Query.deep", &step), none("Deep.resolved", &step), none("Deep.deep", &step)];
    let limits = Limits { resolvers: 1_000, ..Limits::default() };
    let api = builder(SDL, &units).limits(limits).build().expect("builds");
    let nested = |depth: usize| format!("{{ {}n{} }}", "deep { ".repeat(depth), " }".repeat(depth));
    assert!(api.execute(&nested(50), Value::Null, &caller()).await.is_ok());
    assert_eq!(
        api.execute(&nested(76), Value::Null, &caller()).await.errors[0].error_type(),
        Some("QueryDepthLimitReached")
    );
    for depth in [1_000, 3_000] {
        let response = api.execute(&nested(depth), Value::Null, &caller()).await;
        assert!(!response.errors.is_empty(), "{depth}");
    }
    // Each fragment spreads the next one twice. Expanded, these would be 2^30 fields.
    let mut bomb = "{ deep { ...f0 } }".to_owned();
    for n in 0..30 {
        bomb.push_str(&format!(" fragment f{n} on Deep {{ a: deep {{ ...f{} }} b: deep {{ ...f{} }} }}", n + 1, n + 1));
    }
    bomb.push_str(" fragment f30 on Deep { n }");
    let response =
        tokio::time::timeout(Duration::from_secs(60), api.execute(&bomb, Value::Null, &caller())).await.expect("ends");
    assert!(
        response.errors.iter().any(|error| error.error_type() == Some("ResolverCountLimitReached")),
        "{:?}",
        response.errors.first()
    );
    let cyclic = "{ deep { ...a } } fragment a on Deep { ...b } fragment b on Deep { ...a }";
    assert!(!api.execute(cyclic, Value::Null, &caller()).await.errors.is_empty());
    let introspection =
        "{ __schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } } }";
    assert!(!api.execute(introspection, Value::Null, &caller()).await.errors.is_empty());
}

#[tokio::test]
async fn deep_input_is_refused() {
    let echo = code("return { payload: 'ok' }");
    let api = api(SDL, &[none("Query.json", &echo)]);
    let mut nested = json!({"n": 1});
    for _ in 0..100 {
        nested = json!({ "in": nested });
    }
    let response = api.execute("query ($v: In) { json(nested: $v) }", json!({"v": nested}), &caller()).await;
    assert!(response.errors[0].message.contains("nested deeper"), "{:?}", response.errors);
    let text = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let response = api.execute("query ($v: AWSJSON) { json(in: $v) }", json!({"v": text}), &caller()).await;
    assert_eq!(response.data(), Value::Null);
}

async fn raw(address: std::net::SocketAddr, request: &[u8]) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    stream.write_all(request).await.expect("writes");
    let mut answer = vec![0; 4096];
    let length =
        tokio::time::timeout(support::PATIENCE, stream.read(&mut answer)).await.expect("answers").expect("reads");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn bodies_that_are_no_request_are_refused() {
    let api = hostile("return { payload: 1 }");
    let address = serve(&api).await;
    for (body, status) in [
        ("", "400"),
        ("{", "400"),
        ("[]", "400"),
        ("{}", "400"),
        ("null", "400"),
        ("{\"query\": 1}", "400"),
        ("{\"query\": \"{ fine }\", \"variables\": 3}", "400"),
        ("{\"query\": \"\\ud800\"}", "400"),
        ("{\"query\": \"{ fine }\"}", "200"),
        ("{\"query\": \"}{\"}", "200"),
    ] {
        let request = format!(
            "POST /graphql HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = raw(address, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {answer}");
    }
    let request = format!(
        "POST /graphql HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: 2000000\r\n\r\n{}",
        "x".repeat(1_100_000)
    );
    assert!(raw(address, request.as_bytes()).await.starts_with("HTTP/1.1 413"));
    let answer = raw(address, b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("UnauthorizedException"), "{answer}");
}

#[test]
fn the_longest_cycle_of_calls_is_refused_without_a_deep_stack() {
    let count = 1_500;
    let code: String = (0..count).map(|n| format!("let f{n}=()=>f{}()\n", (n + 1) % count)).collect();
    // A small stack, so that a search which calls itself for each function would end the process.
    let check =
        move || builder("type Query { a: Int }", &[none("Query.a", &code)]).build().err().map(|e| e.to_string());
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(check).expect("a thread");
    let refusal = thread.join().expect("ends").expect("is refused");
    assert!(refusal.contains("Detected cycle in f0 <-f1 <-f2"), "{}", &refusal[..200]);
}
