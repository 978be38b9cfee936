//! The interface as clients see it, compared with its own description.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::*;
use function::http::Response;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::faults::{Fault, Rule};
use tokens::amount::Amount;
use tokens::api::input::{MAX_BODY_BYTES, MAX_MESSAGE_CHARS, MAX_PAGE, PAGE};
use tokens::api::problem::Code;
use tokens::api::{OPENAPI, idempotency};
use tokens::identity::did;
use tokens::settings::Rules;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Compares an answer with the description: the status is described, headers and body are as promised.
fn conforms(document: &Value, method: &str, template: &str, response: &Response) {
    let pointer = format!("/paths/{}/{}", template.replace('~', "~0").replace('/', "~1"), method.to_lowercase());
    let operation = document.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}"));
    let described = &operation["responses"][response.status.to_string()];
    assert!(
        !described.is_null(),
        "{method} {template} answered {}: {:?}",
        response.status,
        String::from_utf8_lossy(&response.body)
    );
    let described = schema::resolve(document, described);
    let (content_type, content) = described["content"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(response.headers.get("content-type"), Some(content_type));
    schema::check(document, &content["schema"], &json(response))
        .unwrap_or_else(|error| panic!("{method} {template}: {error}"));
    for (name, header) in described["headers"].as_object().into_iter().flatten() {
        let there = response.headers.get(&name.to_lowercase());
        assert!(
            there.is_some() || header["required"] != true,
            "{method} {template} {} without {name}",
            response.status
        );
    }
}

fn code(response: &Response) -> (u16, String) {
    (response.status, json(response)["code"].as_str().unwrap_or_default().to_owned())
}

fn expected(code: Code) -> (u16, String) {
    (code.status(), code.as_str().to_owned())
}

async fn transfer_as(world: &World, name: &str, body: Value) -> Response {
    let response = world.call("POST", "/tokens/transfer", &world.token(name), Some(body)).await;
    conforms(&document(), "POST", "/tokens/transfer", &response);
    response
}

#[tokio::test]
async fn every_operation_answers_as_it_is_described() {
    let world = world().await;
    let document = document();
    let (alice, bob, operator) = (world.token("alice"), world.token("bob"), world.operator());
    for token in [&alice, &bob, &alice] {
        conforms(&document, "POST", "/tokens/accounts", &world.call("POST", "/tokens/accounts", token, None).await);
    }
    let body = json!({ "recipientDid": "did:key:bob", "amount": "1.5", "message": "hi", "idempotencyKey": "k" });
    let made = transfer_as(&world, "alice", body.clone()).await;
    assert_eq!((made.status, json(&made)["amount"].as_str()), (200, Some("1.5")));
    assert_eq!(transfer_as(&world, "alice", body).await.headers["idempotency-replayed"], "true");
    let id = json(&made)["transactionId"].as_str().unwrap().to_owned();

    let reversal = json!({ "senderDid": "did:key:alice", "transactionId": id, "reason": "a mistake" });
    for (method, path, template, token, body) in [
        ("GET", "/tokens/balance/did:key:alice", "/tokens/balance/{did}", &alice, None),
        ("GET", "/tokens/balance/did%3Akey%3Aalice", "/tokens/balance/{did}", &alice, None),
        ("GET", "/tokens/transactions/did:key:alice?limit=1", "/tokens/transactions/{did}", &alice, None),
        ("GET", "/tokens/transactions/received/did:key:bob?limit=1", "/tokens/transactions/received/{did}", &bob, None),
        ("GET", "/tokens/transactions/received/did:key:bob", "/tokens/transactions/received/{did}", &operator, None),
        ("GET", "/tokens/statement/did:key:alice?limit=1", "/tokens/statement/{did}", &alice, None),
        ("GET", "/tokens/statement/did:key:bob", "/tokens/statement/{did}", &operator, None),
        ("POST", "/tokens/accounts/did:key:bob/freeze", "/tokens/accounts/{did}/freeze", &operator, None),
        ("POST", "/tokens/reversals", "/tokens/reversals", &operator, Some(reversal.clone())),
        ("POST", "/tokens/reversals", "/tokens/reversals", &operator, Some(reversal)),
        ("POST", "/tokens/accounts/did:key:bob/unfreeze", "/tokens/accounts/{did}/unfreeze", &operator, None),
        ("GET", "/tokens/openapi.json", "/tokens/openapi.json", &String::new(), None),
    ] {
        let response = world.call(method, path, token, body).await;
        assert_eq!(response.status, 200, "{method} {path}: {response:?}");
        conforms(&document, method, template, &response);
    }
    let balance = world.call("GET", "/tokens/balance/did:key:alice", &alice, None).await;
    assert_eq!(json(&balance), json!({ "did": "did:key:alice", "balance": "1000", "status": "open" }));
}

#[tokio::test]
async fn the_description_names_every_route_and_every_code_and_no_other() {
    let document = document();
    let world = world().await;
    for (template, operations) in document["paths"].as_object().unwrap() {
        let path = template.replace("{did}", "did:key:alice");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let response = world.call(method, &path, "", None).await;
            let described = operations.get(method.to_lowercase()).is_some();
            assert_eq!(response.status != 405, described, "{method} {path}");
            if !described {
                assert_eq!(code(&response), expected(Code::MethodNotAllowed));
                assert!(response.headers.contains_key("allow"));
            }
        }
    }
    let mut named = BTreeSet::new();
    collect_codes(&document, &mut named);
    let mut all: BTreeSet<String> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    // about paths and methods that are not described
    all.remove("NOT_FOUND");
    all.remove("METHOD_NOT_ALLOWED");
    assert_eq!(named, all);
    for path in
        ["/", "/tokens", "/tokens/", "/tokens/nothing", "/tokens/balance", "/tokens/balance/a/b", "/slack/events"]
    {
        assert_eq!(code(&world.call("GET", path, "", None).await), expected(Code::NotFound), "{path}");
    }
}

fn collect_codes(value: &Value, codes: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(listed) = value["properties"]["code"]["enum"].as_array() {
                codes.extend(listed.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            members.values().for_each(|member| collect_codes(member, codes));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_codes(item, codes)),
        _ => {}
    }
}

#[test]
fn the_descriptions_limits_are_the_codes() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let parameters = &document["components"]["parameters"];
    assert_eq!(schemas["Did"]["maxLength"], did::MAX_LENGTH);
    assert_eq!(schemas["IdempotencyKey"]["maxLength"], idempotency::MAX_LENGTH);
    assert_eq!(schemas["Message"]["maxLength"], MAX_MESSAGE_CHARS);
    assert_eq!(parameters["Limit"]["schema"]["maximum"], MAX_PAGE);
    assert_eq!(parameters["Limit"]["schema"]["default"], PAGE);
    assert_eq!(schemas["Page"]["properties"]["transactions"]["maxItems"], MAX_PAGE);
}

#[tokio::test]
async fn amounts_that_are_none_are_refused_with_a_sentence_each() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let mut sentences = BTreeSet::new();
    let amounts = [
        json!("0"),
        json!("-1"),
        json!("1e3"),
        json!("100abc"),
        json!("0.123456789"),
        json!("99999999999"),
        json!("٣"),
        json!(""),
        json!("1."),
        json!("01"),
        json!(1),
        json!(null),
        json!(true),
        json!(["1"]),
        json!({}),
    ];
    for amount in &amounts {
        let response = transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob", "amount": amount })).await;
        assert_eq!(code(&response), expected(Code::InvalidAmount), "{amount}");
        sentences.insert(json(&response)["detail"].as_str().unwrap().to_owned());
    }
    assert!(sentences.len() >= amounts.len() - 1, "{sentences:#?}");
    assert_eq!(
        code(&transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob" })).await),
        expected(Code::InvalidAmount)
    );
    assert_eq!(world.items("SENT#").len(), 0);
}

#[tokio::test]
async fn a_request_that_is_not_valid_touches_no_store() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.reset_calls();
    let fine = json!({ "recipientDid": "did:key:bob", "amount": "1" });
    let with = |name: &str, value: Value| {
        let mut body = fine.clone();
        body[name] = value;
        body
    };
    for (body, problem) in [
        (with("recipientDid", json!("bob")), Code::InvalidDid),
        (with("recipientDid", json!("did:key:bob#1")), Code::InvalidDid),
        (with("recipientDid", json!(7)), Code::InvalidRequest),
        (with("recipientDid", json!("did:key:alice")), Code::SelfTransfer),
        (with("message", json!("é".repeat(MAX_MESSAGE_CHARS + 1))), Code::InvalidRequest),
        (with("message", json!(null)), Code::InvalidRequest),
        (with("idempotencyKey", json!("")), Code::InvalidIdempotencyKey),
        (with("idempotencyKey", json!("a b")), Code::InvalidIdempotencyKey),
        (with("idempotencyKey", json!("k".repeat(256))), Code::InvalidIdempotencyKey),
        (with("idempotencyKey", json!(null)), Code::InvalidRequest),
        (with("idempotencykey", json!("misspelt")), Code::InvalidRequest),
        (json!({ "amount": "1" }), Code::InvalidRequest),
    ] {
        assert_eq!(code(&transfer_as(&world, "alice", body.clone()).await), expected(problem), "{body}");
    }
    let raw = async |bytes: &[u8], content_type: Option<&str>| {
        let mut request = request("POST", "/tokens/transfer", &world.token("alice"));
        request.body = bytes.to_vec();
        if let Some(content_type) = content_type {
            request.headers.insert("content-type".into(), content_type.into());
        }
        let response = world.api.handle(&request, None).await;
        conforms(&document(), "POST", "/tokens/transfer", &response);
        code(&response)
    };
    for body in ["", "[]", "null", "\"x\"", "{", "{}x", "{\"amount\":\"1\",\"amount\":\"2\"}", "\u{feff}{}"] {
        let answer = raw(body.as_bytes(), Some("application/json")).await;
        assert!(answer.0 == 400, "{body}: {answer:?}");
    }
    assert_eq!(raw(b"{\"amount\":\"\xff\"}", Some("application/json")).await, expected(Code::InvalidRequest));
    assert_eq!(raw(&vec![b' '; MAX_BODY_BYTES + 1], Some("application/json")).await, expected(Code::PayloadTooLarge));
    let mut large = request("POST", "/tokens/transfer", "");
    large.body = vec![b' '; MAX_BODY_BYTES + 1];
    let refused = world.api.handle(&large, None).await;
    assert_eq!(code(&refused), expected(Code::PayloadTooLarge), "before anybody looks for a token");
    assert_eq!(raw(b"amount=1", Some("application/x-www-form-urlencoded")).await, expected(Code::UnsupportedMediaType));
    assert_eq!(world.db.calls().total(), 0);
}

#[tokio::test]
async fn the_key_may_come_as_a_header_or_is_made_and_returned() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let send = async |header: Option<&str>, body: Value| {
        let mut request = request("POST", "/tokens/transfer", &world.token("alice"));
        request.headers.insert("content-type".into(), "application/json; charset=utf-8".into());
        if let Some(header) = header {
            request.headers.insert("idempotency-key".into(), header.into());
        }
        request.body = body.to_string().into_bytes();
        world.api.handle(&request, None).await
    };
    let plain = json!({ "recipientDid": "did:key:bob", "amount": "1" });
    let mut named = plain.clone();
    named["idempotencyKey"] = json!("k1");
    let first = send(Some("k1"), plain.clone()).await;
    assert_eq!(json(&first)["idempotencyKey"], "k1");
    for again in [send(None, named.clone()).await, send(Some("k1"), named.clone()).await] {
        assert_eq!((again.status, &again.body), (200, &first.body));
    }
    assert_eq!(code(&send(Some("k2"), named).await), expected(Code::InvalidIdempotencyKey));

    let made = send(None, plain.clone()).await;
    let key = json(&made)["idempotencyKey"].as_str().unwrap().to_owned();
    assert_eq!(made.headers["idempotency-key"], key);
    let again = send(Some(&key), plain.clone()).await;
    assert_eq!((again.body, again.headers["idempotency-replayed"].as_str()), (made.body, "true"));
    assert_ne!(json(&send(None, plain).await)["idempotencyKey"], key.as_str());
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let rules = Rules { transfer_limit: Amount::whole(5_000).unwrap(), ..Rules::default() };
    let world = World::new(rules, 1).await;
    world.open(&["alice", "bob", "ice"]).await;
    world.call("POST", "/tokens/accounts/did:key:ice/freeze", &world.operator(), None).await;
    for (from, to, amount, problem) in [
        ("alice", "bob", "1000.00000001", Code::InsufficientBalance),
        ("alice", "nobody", "1", Code::RecipientNotFound),
        ("nobody", "bob", "1", Code::AccountNotFound),
        ("ice", "bob", "1", Code::AccountFrozen),
        ("alice", "ice", "1", Code::RecipientFrozen),
        ("alice", "bob", "5001", Code::LimitExceeded),
    ] {
        let body = json!({ "recipientDid": format!("did:key:{to}"), "amount": amount });
        let response = transfer_as(&world, from, body).await;
        assert_eq!(code(&response), expected(problem));
        // the key that was made comes back with the refusal
        assert_eq!(
            json(&response)["idempotencyKey"].as_str(),
            response.headers.get("idempotency-key").map(String::as_str)
        );
    }
    transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob", "amount": "1", "idempotencyKey": "k" })).await;
    let other =
        transfer_as(&world, "alice", json!({ "recipientDid": "did:key:ice", "amount": "2", "idempotencyKey": "k" }))
            .await;
    assert_eq!(code(&other), expected(Code::IdempotencyMismatch));
    assert_eq!(json(&other)["fields"], json!(["amount", "recipientDid"]));
}

#[tokio::test]
async fn what_is_not_known_is_503_with_a_time_to_come_again_and_the_key() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().down();
    let body = json!({ "recipientDid": "did:key:bob", "amount": "1" });
    let response = transfer_as(&world, "alice", body.clone()).await;
    assert_eq!(code(&response), expected(Code::Unavailable));
    assert_eq!(response.headers["retry-after"], "1");
    let key = json(&response)["idempotencyKey"].as_str().unwrap().to_owned();
    world.db.faults().heal();
    let mut again = body;
    again["idempotencyKey"] = json!(key);
    assert_eq!(transfer_as(&world, "alice", again).await.status, 200);

    world.db.faults().only(Rule::new(Fault::Missing));
    let response = transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob", "amount": "1" })).await;
    assert_eq!(code(&response), expected(Code::Internal));
    assert!(!String::from_utf8_lossy(&response.body).contains("ResourceNotFound"), "our inside stays inside");
}

#[tokio::test]
async fn the_functions_own_deadline_shortens_the_budget() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().error();
    let mut request = request("POST", "/tokens/transfer", &world.token("alice"));
    request.body = json!({ "recipientDid": "did:key:bob", "amount": "1" }).to_string().into_bytes();
    let began = ichido::Clock::now(&world.clock);
    let deadline = began + Duration::from_secs(3);
    let response = world.api.handle(&request, Some(deadline)).await;
    assert_eq!(response.status, 503);
    assert!(ichido::Clock::now(&world.clock) < deadline, "answered before it is stopped");
}

#[tokio::test]
async fn with_a_store_that_hangs_the_treasurys_payments_too_are_answered_before_the_function_is_stopped() {
    let world = world().await;
    world.open(&["bob"]).await;
    let treasury = "did:ichido:treasury";
    assert_eq!(transfer_as(&world, "bob", json!({ "recipientDid": treasury, "amount": "100" })).await.status, 200);
    let mut request = request("POST", "/tokens/transfer", &world.operator_token(treasury));
    request.body = json!({ "recipientDid": "did:key:bob", "amount": "1" }).to_string().into_bytes();
    // it may begin to hang at any call, and the deadline may be anywhere
    for (first, seconds) in (1..=4).flat_map(|first| [4, 5, 6, 10, 15].map(|seconds| (first, seconds))) {
        world.db.faults().only(Rule::new(Fault::Hang).calls(first..=u64::MAX));
        let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(seconds);
        let response = world.api.handle(&request, Some(deadline)).await;
        assert_eq!(response.status, if first > 2 { 200 } else { 503 }, "call {first}");
        assert!(
            ichido::Clock::now(&world.clock) < deadline,
            "call {first}, {seconds} s: answered before it is stopped"
        );
    }
}

#[tokio::test]
async fn a_caller_sees_only_its_own_unless_it_is_an_operator() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    for path in ["balance", "transactions", "transactions/received"] {
        let path = format!("/tokens/{path}/did:key:bob");
        assert_eq!(
            code(&world.call("GET", &path, &world.token("alice"), None).await),
            expected(Code::Forbidden),
            "{path}"
        );
        assert_eq!(world.call("GET", &path, &world.token("bob"), None).await.status, 200);
        assert_eq!(world.call("GET", &path, &world.operator(), None).await.status, 200);
    }
    for (path, body) in [
        ("/tokens/accounts/did:key:bob/freeze", None),
        ("/tokens/accounts/did:key:alice/unfreeze", None),
        ("/tokens/reversals", Some(json!({ "senderDid": "did:key:bob", "transactionId": "x" }))),
    ] {
        assert_eq!(
            code(&world.call("POST", path, &world.token("alice"), body).await),
            expected(Code::Forbidden),
            "{path}"
        );
    }
    // A caller with the DID of the treasury needs the operator's scope to spend it
    let treasury = world.token("did:ichido:treasury");
    let body = json!({ "recipientDid": "did:key:bob", "amount": "1" });
    assert_eq!(code(&world.call("POST", "/tokens/transfer", &treasury, Some(body)).await), expected(Code::Forbidden));
    assert_eq!(code(&world.call("POST", "/tokens/accounts", &treasury, None).await), expected(Code::Forbidden));
}

#[tokio::test]
async fn what_an_operator_asks_for_is_kept_and_does_not_happen_otherwise() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let made = transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob", "amount": "1" })).await;
    let reversal =
        json!({ "senderDid": "did:key:alice", "transactionId": json(&made)["transactionId"], "reason": "a mistake" });
    let freeze = "/tokens/accounts/did:key:bob/freeze";
    world.db.faults().only(Rule::new(Fault::Denied).on("PutItem"));
    for (path, body) in [(freeze, None), ("/tokens/reversals", Some(reversal.clone()))] {
        assert_eq!(world.call("POST", path, &world.operator(), body).await.status, 500, "{path}");
    }
    world.db.faults().heal();
    assert_eq!((world.balance("alice").await.as_str(), world.items("OPERATION#").len()), ("999", 0));
    let bob = world.call("GET", "/tokens/balance/did:key:bob", &world.token("bob"), None).await;
    assert_eq!(json(&bob)["status"], "open");

    for (path, body) in [(freeze, None), ("/tokens/reversals", Some(reversal))] {
        assert_eq!(world.call("POST", path, &world.operator(), body).await.status, 200, "{path}");
    }
    let mut kept: Vec<[String; 4]> = world
        .items("OPERATION#")
        .iter()
        .map(|item| ["operation", "by", "reason", "outcome"].map(|name| item[name]["S"].as_str().unwrap().to_owned()))
        .collect();
    kept.sort();
    assert_eq!(kept[0], ["freeze", "did:key:operator", "no reason given", "the account is frozen"]);
    assert_eq!(kept[1], ["reverse", "did:key:operator", "a mistake", "reversed"]);
    world.assert_sound().await;
}

#[tokio::test]
async fn a_reversal_of_which_nobody_knows_is_kept_as_one_that_may_have_happened() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let made = transfer_as(&world, "alice", json!({ "recipientDid": "did:key:bob", "amount": "1" })).await;
    let reversal = json!({ "senderDid": "did:key:alice", "transactionId": json(&made)["transactionId"] });
    world.db.faults().only(Rule::new(Fault::Hang).on("TransactWriteItems"));
    let answer = world.call("POST", "/tokens/reversals", &world.operator(), Some(reversal)).await;
    assert_eq!(code(&answer), expected(Code::Unavailable));
    let [kept] = &world.items("OPERATION#")[..] else { panic!("one operation is kept") };
    let outcome = kept["outcome"]["S"].as_str().unwrap();
    assert!(outcome.starts_with("may have happened: "), "{outcome}");
}

#[tokio::test]
async fn a_freeze_whose_first_answer_was_lost_is_not_kept_as_refused_because_the_second_was_denied() {
    let world = world().await;
    world.open(&["alice"]).await;
    let freeze = "/tokens/accounts/did:key:alice/freeze";
    world.db.faults().only(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").call(1));
    world.db.faults().put(Rule::new(Fault::Denied).on("TransactWriteItems"));
    let answer = world.call("POST", freeze, &world.operator(), None).await;
    assert_eq!(code(&answer), expected(Code::Unavailable));
    world.db.faults().heal();
    let alice = world.call("GET", "/tokens/balance/did:key:alice", &world.token("alice"), None).await;
    assert_eq!(json(&alice)["status"], "frozen", "it happened");
    let [kept] = &world.items("OPERATION#")[..] else { panic!("one operation is kept") };
    let outcome = kept["outcome"]["S"].as_str().unwrap();
    assert!(outcome.starts_with("may have happened: "), "{outcome}");
}

#[tokio::test]
async fn what_was_refused_over_the_api_is_kept_as_the_command_line_keeps_it() {
    let world = world().await;
    let nobody = "/tokens/accounts/did:key:nobody/freeze";
    assert_eq!(code(&world.call("POST", nobody, &world.operator(), None).await), expected(Code::AccountNotFound));
    let [kept] = &world.items("OPERATION#")[..] else { panic!("one operation is kept") };
    assert_eq!(kept["outcome"]["S"], "failed: there is no account of this DID");
}

#[tokio::test]
async fn without_a_good_token_nothing_is_done() {
    let world = world().await;
    world.db.reset_calls();
    let expired = world.issuer.token(did("alice"), ichido::Timestamp::from_secs(1_000)).unwrap();
    for (token, challenge) in
        [("", "Bearer"), ("a.b.c", "Bearer error=\"invalid_token\""), (&expired, "Bearer error=\"invalid_token\"")]
    {
        for (method, path) in
            [("POST", "/tokens/transfer"), ("POST", "/tokens/accounts"), ("GET", "/tokens/balance/did:key:alice")]
        {
            let response = world.call(method, path, token, None).await;
            assert_eq!(code(&response), expected(Code::Unauthorized));
            assert_eq!(response.headers["www-authenticate"], challenge);
        }
    }
    assert_eq!(world.db.calls().total(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_on_every_route_before_anybody_looks_for_a_token() {
    let world = world().await;
    let document = document();
    world.db.reset_calls();
    for (template, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            for length in [MAX_BODY_BYTES, MAX_BODY_BYTES + 1] {
                let mut request = request(&method, &template.replace("{did}", "did:key:alice"), "");
                request.body = vec![b' '; length];
                let response = world.api.handle(&request, None).await;
                conforms(&document, &method, template, &response);
                let is_public = template == "/tokens/openapi.json";
                match (is_public, length > MAX_BODY_BYTES) {
                    (true, _) => assert_eq!(response.status, 200),
                    (false, true) => {
                        assert_eq!(code(&response), expected(Code::PayloadTooLarge), "{method} {template}")
                    }
                    (false, false) => assert_eq!(code(&response), expected(Code::Unauthorized), "{method} {template}"),
                }
            }
        }
    }
    assert_eq!(world.db.calls().total(), 0);
}

#[tokio::test]
async fn pages_are_asked_for_with_valid_parameters_only() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    for n in 0..25 {
        world.send("alice", "bob", "1", &format!("k{n}")).await.unwrap();
    }
    let get = async |query: &str| {
        let path = format!("/tokens/transactions/did:key:alice?{query}");
        let response = world.call("GET", &path, &world.token("alice"), None).await;
        conforms(&document(), "GET", "/tokens/transactions/{did}", &response);
        response
    };
    let page = json(&get("").await);
    assert_eq!((page["transactions"].as_array().unwrap().len(), page["hasMore"].as_bool()), (PAGE, Some(true)));
    let rest = json(&get(&format!("limit=100&cursor={}", page["cursor"].as_str().unwrap())).await);
    assert_eq!(
        (rest["transactions"].as_array().unwrap().len(), rest["hasMore"].as_bool(), &rest["cursor"]),
        (5, Some(false), &Value::Null)
    );

    for query in [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=%2B5",
        "limit=ten",
        "limit=",
        "limit=1.0",
        "limit=1&limit=2",
        "limit=99999999999999999999",
        "startDate=2026-01-01",
        "endDate=yesterday",
        "startDate=",
        "startDate=2026-01-01T00:00:00",
    ] {
        assert_eq!(code(&get(query).await), expected(Code::InvalidRequest), "{query}");
    }
    let received =
        world.call("GET", "/tokens/transactions/received/did:key:bob?limit=1", &world.token("bob"), None).await;
    let foreign = json(&received)["cursor"].as_str().unwrap().to_owned();
    for cursor in ["", "x", "AAAA", &foreign, "%00", "😀"] {
        assert_eq!(code(&get(&format!("cursor={cursor}")).await), expected(Code::InvalidCursor), "{cursor}");
    }
    let none = json(&get("startDate=2030-01-01T00:00:00Z").await);
    assert_eq!((none["transactions"].as_array().unwrap().len(), none["hasMore"].as_bool()), (0, Some(false)));
    let all = json(&get("limit=100&startDate=2026-01-01T09:00:00%2B09:00&endDate=2026-01-01T00:00:01Z").await);
    assert_eq!(all["transactions"].as_array().unwrap().len(), 25);
}

#[tokio::test]
async fn a_gateway_may_hand_over_the_did_decoded() {
    let world = world().await;
    let did = "did:web:localhost%3A8443";
    world.open(&[did]).await;
    // as the path has it: encoded once
    let encoded = world.call("GET", "/tokens/balance/did%3Aweb%3Alocalhost%253A8443", &world.token(did), None).await;
    assert_eq!(encoded.status, 200);
    // as API Gateway matches it
    let mut request = request("GET", "/tokens/balance/did:web:localhost%3A8443", &world.token(did));
    request.path_parameters.insert("did".into(), did.into());
    assert_eq!(world.api.handle(&request, None).await.status, 200);
}

#[tokio::test]
async fn the_log_names_the_record_of_a_transfer_as_the_table_does() {
    // Separators inside a DID (here: of its port) and inside a key are escaped in the table.
    const SENDER: &str = "did:web:localhost%3A8443";
    const KEY: &str = "order#7";
    let world = world().await;
    world.open(&[SENDER, "bob"]).await;
    let lines = lines(async {
        for amount in ["1", "1", "5000"] {
            transfer_as(
                &world,
                SENDER,
                json!({ "recipientDid": "did:key:bob", "amount": amount, "idempotencyKey": KEY }),
            )
            .await;
        }
    })
    .await;
    let records = world.items("IDEMPOTENCY#");
    assert_eq!(records.len(), 1);
    let logged: Vec<&Value> = lines.iter().filter(|line| line.get("FunctionName").is_none()).collect();
    assert_eq!(logged.len(), 3, "made, replayed, refused: {logged:#?}");
    for line in logged {
        assert_eq!(line["eventKey"], records[0]["PK"]["S"], "{line:#}");
        // A search for what the client knows finds the line too.
        assert_eq!((&line["idempotencyKey"], &line["senderDid"]), (&json!(KEY), &json!(SENDER)), "{line:#}");
    }
}

// Fuzzing, bounded

fn json_value() -> impl Strategy<Value = Value> {
    let known = prop::sample::select(vec!["did:key:bob", "did:key:alice", "1", "0.5", "k"]).prop_map(str::to_owned);
    testkit::any_json(prop_oneof![".{0,20}", "[0-9.eE+-]{0,12}", known], "[a-z]{0,5}")
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let field = prop::sample::select(vec![
        "recipientDid",
        "amount",
        "message",
        "idempotencyKey",
        "senderDid",
        "transactionId",
        "reason",
        "x",
    ]);
    prop_oneof![
        prop::collection::btree_map(field, json_value(), 0..6).prop_map(|map| json!(map).to_string().into_bytes()),
        json_value().prop_map(|value| value.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..64),
    ]
}

#[test]
fn fuzz_whatever_is_sent_the_answer_is_a_described_one_and_never_a_500() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(async {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        world
    });
    let document = document();
    let target = prop::sample::select(vec![
        ("POST", "/tokens/transfer", "/tokens/transfer"),
        ("POST", "/tokens/reversals", "/tokens/reversals"),
        ("GET", "/tokens/transactions/did:key:alice", "/tokens/transactions/{did}"),
        ("GET", "/tokens/transactions/received/did:key:alice", "/tokens/transactions/received/{did}"),
        ("GET", "/tokens/statement/did:key:alice", "/tokens/statement/{did}"),
    ]);
    let query = prop_oneof![
        "(limit|cursor|startDate|endDate)=[ -~]{0,40}(&(limit|cursor|startDate|endDate)=[0-9A-Za-z%+:._-]{0,40})?",
        "\\PC{0,40}"
    ];
    let (alice, operator) = (world.token("alice"), world.operator());
    // `make soak` asks for more.
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { 400 };
    let mut runner = TestRunner::new_with_rng(
        Config { cases, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let result = runner.run(
        &(target, query, any_body(), any::<bool>()),
        |((method, path, template), query, body, by_operator)| {
            let mut request = request(method, &format!("{path}?{query}"), if by_operator { &operator } else { &alice });
            request.headers.insert("content-type".into(), "application/json".into());
            request.body = body;
            let response = runtime.block_on(world.api.handle(&request, None));
            prop_assert!(response.status < 500, "{:?}", response);
            conforms(&document, method, template, &response);
            Ok(())
        },
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(world.assert_sound());
}
