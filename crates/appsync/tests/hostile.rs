//! Hostile input: it ends in an error within the bounds, and the API works as before.
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use appsync::{Api, Limits};
use serde_json::{Value, json};
use support::{KEY, Unit, api, builder, caller, code, none, serve};
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

/// An API whose only data source is a function. Returns it with how often the function was called, and how many bytes of context it got.
fn counted(limits: Limits, answer: Value) -> (Api, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (calls, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let direct = |field| Unit { field, source: "function", code: "" };
    let units = [direct("Query.deep"), direct("Query.big"), direct("Deep.resolved"), direct("Deep.list")];
    let (counted, given) = (Arc::clone(&calls), Arc::clone(&bytes));
    let worker = move |context: Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        given.fetch_add(context.to_string().len(), Ordering::Relaxed);
        let answer = match context["info"]["fieldName"].as_str() {
            Some("list") => json!([answer, answer, answer, answer]),
            _ => answer.clone(),
        };
        async move {
            // As a data source that takes its time: all calls that may be under way at once are.
            tokio::task::yield_now().await;
            Ok(answer)
        }
    };
    let api = builder(SDL, &units).lambda("worker", worker).limits(limits).build().expect("builds");
    (api, calls, bytes)
}

/// A query of some kilobytes whose fragments multiply: each spreads the next one twice.
fn bomb(aliases: usize, field: &str, levels: usize) -> String {
    let fields: String = (0..aliases).map(|n| format!("a{n}: deep {{ ...f0 }} ")).collect();
    let mut bomb = format!("{{ {fields} }}");
    for n in 0..levels {
        let next = n + 1;
        bomb.push_str(&format!(" fragment f{n} on Deep {{ a: {field} {{ ...f{next} }} b: {field} {{ ...f{next} }} }}"));
    }
    bomb.push_str(&format!(" fragment f{levels} on Deep {{ n }}"));
    bomb
}

#[tokio::test]
async fn a_query_that_needs_too_many_resolvers_is_refused_before_the_first_is_called() {
    let (api, calls, _) = counted(Limits::default(), json!({"n": 1}));
    let response = api.execute(&bomb(50, "resolved", 12), Value::Null, &caller()).await;
    assert_eq!(response.errors.len(), 1);
    assert_eq!(response.errors[0].error_type(), Some("ResolverCountLimitReached"));
    assert_eq!((response.data(), calls.load(Ordering::Relaxed)), (Value::Null, 0));
    // Within the bound it is answered: 2 + 4 + 8 below each of two.
    let response = api.execute(&bomb(2, "resolved", 3), Value::Null, &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors);
    assert_eq!(calls.load(Ordering::Relaxed), 2 * (1 + 2 + 4 + 8));
}

#[tokio::test]
async fn a_query_that_selects_fields_without_end_is_refused_before_a_resolver_is_called() {
    let (api, calls, _) = counted(Limits::default(), json!({"n": 1}));
    let response = api.execute(&bomb(50, "deep", 30), Value::Null, &caller()).await;
    assert_eq!(response.errors[0].error_type(), Some("QueryComplexityLimitReached"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn fields_that_several_fragments_select_count_once_as_they_are_called_once() {
    let limits = Limits { resolvers: 3, ..Limits::default() };
    let (api, calls, _) = counted(limits, json!({"n": 1}));
    let twice = "{ deep { ...a ...b ...a } } fragment a on Deep { resolved { ...c } } \
                 fragment b on Deep { resolved { ...c n } } fragment c on Deep { resolved { n } }";
    let response = api.execute(twice, Value::Null, &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn once_the_answer_is_too_large_no_further_resolver_is_called() {
    let (api, calls, _) = counted(Limits::default(), json!(["x".repeat(3 * 1024 * 1024)]));
    let aliases: String = (0..500).map(|n| format!("a{n}: big(n: 1) ")).collect();
    let response = api.execute(&format!("{{ {aliases} }}"), Value::Null, &caller()).await;
    assert_eq!(response.errors[0].error_type(), Some("ResponseSizeLimitReached"));
    // Those that were under way when the second answer came, and no others.
    assert_eq!(calls.load(Ordering::Relaxed), 32);
}

#[tokio::test]
async fn a_key_that_is_selected_again_and_again_counts_each_time() {
    let (api, calls, _) = counted(Limits::default(), json!({"n": 1}));
    // Four hundred fields in the answer, but two hundred thousand selections to look at.
    let aliases: String = (0..200).map(|n| format!("a{n}: deep {{ ...f }} ")).collect();
    let query = format!("{{ {aliases} }} fragment f on Deep {{ {} }}", "n ".repeat(1_000));
    let response = api.execute(&query, Value::Null, &caller()).await;
    assert_eq!(response.errors[0].error_type(), Some("QueryComplexityLimitReached"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    // Once is within the bound.
    let query = format!("{{ deep {{ ...f }} }} fragment f on Deep {{ {} }}", "n ".repeat(1_000));
    assert_eq!(api.execute(&query, Value::Null, &caller()).await.data(), json!({"deep": {"n": 1}}));
}

#[tokio::test]
async fn selections_are_not_looked_at_without_end_for_a_long_list() {
    let elements = json!({"list": vec![json!({"n": 1}); 11_000]});
    let answer = move |_: Value| {
        let elements = elements.clone();
        async move { Ok(elements) }
    };
    let unit = Unit { field: "Query.deep", source: "function", code: "" };
    let api = builder(SDL, &[unit]).lambda("worker", answer).build().expect("builds");
    let query = |repeats| format!("{{ deep {{ list {{ {} }} }} }}", "n ".repeat(repeats));
    let response = api.execute(&query(1_000), Value::Null, &caller()).await;
    assert_eq!(response.errors.len(), 1);
    assert_eq!(response.errors[0].error_type(), Some("QueryComplexityLimitReached"));
    let response = api.execute(&query(2), Value::Null, &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors);
}

#[tokio::test]
async fn questions_about_the_schema_that_multiply_are_refused_before_they_are_answered() {
    let api = hostile("return { payload: 1 }");
    let aliases = |field: &str| (0..20).map(|n| format!("{}{n}: {field} ", &field[..1])).collect::<String>();
    let types = aliases("enumValues { name }") + &aliases("fields { name }");
    let fragments = [
        ("__schema { ...s }", format!("fragment s on __Schema {{ {} }}", aliases("types { ...t }"))),
        (
            "__schema { ...s }",
            format!("fragment s on __Schema {{ {} }}", aliases("types { fields { args { name } type { ...t } } }")),
        ),
        (
            "__type(name: \"Deep\") { ...s }",
            format!("fragment s on __Type {{ {} }}", aliases("fields { args { name } type { ofType { ...t } ...t } }")),
        ),
        (
            "__schema { ...s }",
            format!(
                "fragment s on __Schema {{ {} directives {{ args {{ name }} }} }}",
                aliases("queryType { fields { type { ...t } } }")
            ),
        ),
    ];
    for (root, fragment) in fragments {
        let query = format!("{{ {} }} {fragment} fragment t on __Type {{ {types} }}", aliases(root));
        let response = api.execute(&query, Value::Null, &caller()).await;
        assert_eq!(response.errors.len(), 1, "{root} {fragment}");
        assert_eq!(response.errors[0].error_type(), Some("QueryComplexityLimitReached"), "{root} {fragment}");
    }
}

/// What tools ask a schema.
const INTROSPECTION: &str = "{ __schema { queryType { name } mutationType { name } subscriptionType { name }
    types { kind name description fields(includeDeprecated: true) { name description args { ...Input } type { ...Ref } isDeprecated deprecationReason }
      inputFields { ...Input } interfaces { ...Ref } enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
      possibleTypes { ...Ref } }
    directives { name description locations args { ...Input } } } }
  fragment Input on __InputValue { name description type { ...Ref } defaultValue }
  fragment Ref on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
    ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } } }";

#[tokio::test]
async fn a_large_schema_may_be_asked_for_as_a_whole() {
    let types: String = (0..400)
        .map(|n| {
            let fields: String = (0..10).map(|m| format!("f{m}(a: Int!): [T{}!]! ", (n + m) % 400)).collect();
            format!("type T{n} {{ {fields} }} ")
        })
        .collect();
    let api = builder(&format!("type Query {{ t: T0 }} {types}"), &[]).build().expect("builds");
    let response = api.execute(INTROSPECTION, Value::Null, &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors);
    let types = response.data()["__schema"]["types"].as_array().map_or(0, Vec::len);
    assert!(types > 400, "{types} types");
}

/// An API with a mutation whose answer goes to subscribers.
fn published(answer: Value) -> Api {
    let sdl = format!(
        "{SDL} type Mutation {{ publish: Deep }} type Subscription {{ onPublish: Deep @aws_subscribe(mutations: [\"publish\"]) }}"
    );
    let answering = move |_: Value| {
        let answer = answer.clone();
        async move { Ok(answer) }
    };
    let unit = Unit { field: "Mutation.publish", source: "function", code: "" };
    builder(&sdl, &[unit]).lambda("worker", answering).build().expect("builds")
}

#[tokio::test]
async fn a_subscription_that_selects_fields_without_end_is_refused() {
    let api = published(json!({"n": 1}));
    let mut query = "subscription { onPublish { ...f0 } }".to_owned();
    for n in 0..30 {
        let next = n + 1;
        query.push_str(&format!(" fragment f{n} on Deep {{ a: deep {{ ...f{next} }} b: deep {{ ...f{next} }} }}"));
    }
    query.push_str(" fragment f30 on Deep { n }");
    let Err(refused) = api.subscribe(&query, Value::Null, &caller()).await else { panic!("it is accepted") };
    assert_eq!(refused.errors[0].error_type(), Some("QueryComplexityLimitReached"));
    assert_eq!(api.subscriptions(), 0);
}

#[tokio::test]
async fn a_message_is_not_made_further_than_it_may_be_large() {
    let api = published(json!({"list": vec![json!({"n": 1}); 500]}));
    let publish = "mutation { publish { list { n } } }";
    let address = serve(&api).await;
    let mut socket = support::Socket::greeted(address).await;
    // The message would have four kilobytes, after half a million selections.
    let query = format!("subscription {{ onPublish {{ list {{ {} }} }} }}", "n ".repeat(1_000));
    socket.start("repeated", &query, json!({})).await;
    assert!(api.execute(publish, Value::Null, &caller()).await.is_ok());
    assert_eq!(socket.next().await["payload"]["errors"][0]["errorType"], "PayloadSizeLimitExceeded");
    socket.send(json!({"id": "repeated", "type": "stop"})).await;
    assert_eq!(socket.next().await["type"], "complete");
    // One with a few repetitions arrives.
    socket.start("once", "subscription { onPublish { list { n n a: n } } }", json!({})).await;
    assert!(api.execute(publish, Value::Null, &caller()).await.is_ok());
    let arrived = socket.next().await;
    assert_eq!(arrived["payload"]["data"]["onPublish"]["list"][499], json!({"n": 1, "a": 1}), "{}", arrived["type"]);
}

#[tokio::test]
async fn what_handlers_are_given_is_bounded_for_the_whole_request() {
    let limits = Limits { context_bytes: 1_000_000, ..Limits::default() };
    let (api, calls, bytes) = counted(limits, json!({"n": 1, "unused": "x".repeat(100_000)}));
    // Four calls per element of a list, each with the whole element as its source.
    let query =
        "{ deep { list { a: resolved { n } b: resolved { n } c: resolved { n } d: list { e: resolved { n } } } } }";
    let response = api.execute(query, Value::Null, &caller()).await;
    assert!(
        response.errors.iter().any(|error| error.error_type() == Some("ContextSizeLimitReached")),
        "{:?}",
        response.errors.first()
    );
    let (calls, bytes) = (calls.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
    assert!(bytes <= 1_000_000 + 200_000, "{calls} calls with {bytes} bytes");
    // Many variables are given to every resolver.
    let limits = Limits { context_bytes: 1_000_000, ..Limits::default() };
    let (api, _, bytes) = counted(limits, json!(["x"]));
    let aliases: String = (0..500).map(|n| format!("a{n}: big(n: $n) ")).collect();
    let query = format!("query ($n: Int!, $large: AWSJSON) {{ {aliases} json(in: $large) }}");
    let large = json!({"n": 1, "large": json!("x".repeat(100_000)).to_string()});
    let response = api.execute(&query, large, &caller()).await;
    assert_eq!(response.errors[0].error_type(), Some("ContextSizeLimitReached"));
    assert!(bytes.load(Ordering::Relaxed) <= 1_200_000);
}

#[tokio::test]
async fn a_selection_with_long_names_is_described_within_its_bound() {
    let (api, calls, bytes) = counted(Limits::default(), json!({"n": 1}));
    // Below each of fifty fields, three chains of seventy. The paths of a chain have 150,000 characters in all.
    let chain = |name: &str| format!("{} n {}", format!("{}: deep {{ ", name.repeat(60)).repeat(70), "}".repeat(70));
    let aliases: String = (0..50).map(|n| format!("a{n}: deep {{ ...f }} ")).collect();
    let query = format!("{{ {aliases} }} fragment f on Deep {{ {} {} {} }}", chain("a"), chain("b"), chain("c"));
    let response = api.execute(&query, Value::Null, &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors.first());
    assert_eq!(calls.load(Ordering::Relaxed), 50);
    assert!(bytes.load(Ordering::Relaxed) < 50 * 200_000, "{} bytes", bytes.load(Ordering::Relaxed));
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
