//! Secured groups: who is who. Each test failed before groups could be secured.

mod support;

use std::time::Duration;

use appsync::Caller;
use serde_json::{Value, json};
use support::*;

/// The secrets that the tests bring along.
const HOST: &str = "the secret of the host";
const PUPIL: &str = "the secret of a pupil";

const CREATE_SECURED: &str = "mutation ($hostId: ID!, $domain: String!, $secured: Boolean, $secret: String) {
  createGroup(name: \"class\", hostId: $hostId, domain: $domain, secured: $secured, secret: $secret) { id secured hostSecret } }";
const JOIN_SECURED: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $secret: String) {
  joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, secret: $secret) { id memberSecret } }";

/// The operation with one more argument, `secret`.
fn secured(query: &str) -> String {
    let (head, tail) = query.split_once(") {").expect("variables");
    let (field, rest) = tail.split_once(')').expect("arguments");
    format!("{head}, $secret: String) {{{field}, secret: $secret){rest}")
}

fn with(mut base: Value, secret: Value) -> Value {
    base["secret"] = secret;
    base
}

/// A secured group of `host-1` with the node `node-1`.
async fn class(mesh: &Mesh) -> String {
    let create = json!({"hostId": "host-1", "domain": DOMAIN, "secured": true, "secret": HOST});
    let group = mesh.ok(CREATE_SECURED, create).await;
    assert_eq!((&group["secured"], &group["hostSecret"]), (&json!(true), &json!(HOST)));
    let id = group["id"].as_str().expect("an id").to_owned();
    let joined = mesh.ok(JOIN_SECURED, with(node(&id, "node-1"), json!(PUPIL))).await;
    assert_eq!(joined["memberSecret"], PUPIL);
    id
}

fn since(group: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "since": "2025-12-31T23:59:59Z"})
}

fn messages(group: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "sequence": 0})
}

#[tokio::test]
async fn every_operation_of_a_secured_group_demands_its_secret() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let status = json!({"nodeId": "node-1", "domain": DOMAIN, "groupId": group});
    for (query, variables, right) in [
        (RENEW, host(&group, "host-1"), HOST),
        (BEAT, node(&group, "node-1"), PUPIL),
        (REPORT, report(&group, "node-1", "20"), PUPIL),
        (FIRE, events(&group, "node-1", &["a"]), PUPIL),
        (RECORD, events(&group, "node-1", &["b"]), PUPIL),
        (REPORT, report(&group, "host-1", "21"), HOST),
        (MESSAGES_SINCE, messages(&group), PUPIL),
        (EVENTS_SINCE, since(&group), HOST),
        (LIST_STATUSES, of(&group), PUPIL),
        (GET_STATUS, status, HOST),
        (LEAVE, node(&group, "node-1"), PUPIL),
        (DISSOLVE, host(&group, "host-1"), HOST),
    ] {
        let asked = secured(query);
        for wrong in [Value::Null, json!(""), json!("another secret")] {
            let (kind, message) = mesh.refused(&asked, with(variables.clone(), wrong.clone())).await;
            assert_eq!(kind, "Unauthorized", "{query} with {wrong}: {message}");
        }
        assert_eq!(mesh.refused(query, variables.clone()).await.0, "Unauthorized", "{query}, as older clients ask");
        // The secret of another node is no secret of this one. Reading takes that of any member.
        let others = if right == PUPIL { HOST } else { PUPIL };
        if query.starts_with("mutation") {
            assert_eq!(mesh.refused(&asked, with(variables.clone(), json!(others))).await.0, "Unauthorized", "{query}");
        }
        mesh.ok(&asked, with(variables, json!(right))).await;
    }
}

#[tokio::test]
async fn nobody_without_a_secret_takes_a_number() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    assert_eq!(mesh.refused(REPORT, report(&group, "node-1", "20")).await.0, "Unauthorized");
    let page = mesh.ok(&secured(MESSAGES_SINCE), with(messages(&group), json!(HOST))).await;
    assert_eq!(page["head"], 0);
    let wrong = with(report(&group, "node-1", "20"), json!("another secret"));
    assert_eq!(mesh.refused(&secured(REPORT), wrong).await.0, "Unauthorized");
    let page = mesh.ok(&secured(MESSAGES_SINCE), with(messages(&group), json!(HOST))).await;
    assert_eq!((&page["head"], &page["voids"]), (&json!(1), &json!([1])), "a wrong secret leaves a void number");
}

#[tokio::test]
async fn a_repeated_publish_is_answered_only_to_its_publisher() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let mut once = report(&group, "node-1", "20");
    once["messageId"] = json!("m-1");
    let first = mesh.ok(&secured(REPORT), with(once.clone(), json!(PUPIL))).await;
    assert_eq!(mesh.refused(REPORT, once.clone()).await.0, "Unauthorized");
    assert_eq!(mesh.refused(&secured(REPORT), with(once.clone(), json!(HOST))).await.0, "Unauthorized");
    assert_eq!(mesh.ok(&secured(REPORT), with(once, json!(PUPIL))).await["sequence"], first["sequence"]);
}

#[tokio::test]
async fn a_repeat_with_the_same_secret_gets_the_same_group_and_one_without_gets_nothing() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let create = |secured: Value, secret: Value| json!({"hostId": "host-1", "domain": DOMAIN, "secured": secured, "secret": secret});
    let again = mesh.ok(CREATE_SECURED, create(json!(true), json!(HOST))).await;
    assert_eq!((&again["id"], &again["hostSecret"]), (&json!(group), &json!(HOST)));
    assert_eq!(mesh.ok(CREATE_SECURED, create(Value::Null, json!(HOST))).await["id"], group.as_str());
    for (secured, secret) in
        [(json!(true), Value::Null), (Value::Null, Value::Null), (json!(true), json!("another secret!!"))]
    {
        assert_eq!(mesh.refused(CREATE_SECURED, create(secured, secret)).await.0, "Unauthorized");
    }
    let join = |secret: Value| with(node(&group, "node-1"), secret);
    assert_eq!(mesh.ok(JOIN_SECURED, join(json!(PUPIL))).await["memberSecret"], PUPIL);
    for secret in [Value::Null, json!("another secret!!"), json!(HOST)] {
        assert_eq!(mesh.refused(JOIN_SECURED, join(secret)).await.0, "Unauthorized");
    }
    for secret in ["short", &"x".repeat(129)] {
        let short = json!({"hostId": "host-2", "domain": DOMAIN, "secured": true, "secret": secret});
        assert_eq!(mesh.refused(CREATE_SECURED, short).await.0, "ValidationError");
        assert_eq!(mesh.refused(JOIN_SECURED, with(node(&group, "new"), json!(secret))).await.0, "ValidationError");
    }
}

#[tokio::test]
async fn secrets_are_random_and_only_in_the_answers_that_give_them() {
    let mesh = Mesh::start().await;
    let create = |host: &str| json!({"hostId": host, "domain": DOMAIN, "secured": true});
    let first = mesh.ok(CREATE_SECURED, create("host-1")).await;
    let second = mesh.ok(CREATE_SECURED, create("host-2")).await;
    let secret = first["hostSecret"].as_str().expect("a secret").to_owned();
    assert!(secret.len() >= 32 && secret != second["hostSecret"].as_str().unwrap_or_default(), "{secret}");
    let group = first["id"].as_str().unwrap_or_default();
    let member = mesh.ok(JOIN_SECURED, node(group, "node-1")).await["memberSecret"].as_str().map(str::to_owned);
    let member = member.expect("a secret");
    assert!(member.len() >= 32, "{member}");
    mesh.ok(&secured(REPORT), with(report(group, "node-1", "20"), json!(member))).await;
    let queries = [
        (
            "query ($groupId: ID!, $domain: String!) { getGroup(groupId: $groupId, domain: $domain) { id secured hostSecret } }",
            of(group),
        ),
        (
            "query ($domain: String!) { listGroupsByDomain(domain: $domain) { id secured hostSecret } }",
            json!({"domain": DOMAIN}),
        ),
        (
            "query ($groupId: ID!, $domain: String!) { listNodesInGroup(groupId: $groupId, domain: $domain) { id memberSecret } }",
            of(group),
        ),
    ];
    for (query, variables) in queries {
        let answer = mesh.ok(query, variables).await.to_string();
        assert!(!answer.contains(&secret) && !answer.contains(&member), "{query}: {answer}");
        assert!(answer.contains(":null"), "{query}: {answer}");
    }
    assert!(mesh.ok(GET_GROUP, of(group)).await["id"].is_string(), "anybody sees that there is a group");
    let log = mesh.log.lock().expect("not poisoned").join("\n");
    assert!(!log.contains(&secret) && !log.contains(&member), "{log}");
}

#[tokio::test]
async fn groups_that_are_not_secured_have_no_secrets_and_ask_for_none() {
    let mesh = Mesh::start().await;
    let group = mesh.ok(CREATE_SECURED, json!({"hostId": "host-1", "domain": DOMAIN})).await;
    assert_eq!((&group["secured"], &group["hostSecret"]), (&json!(false), &Value::Null));
    let id = group["id"].as_str().unwrap_or_default();
    let joined = mesh.ok(JOIN_SECURED, with(node(id, "node-1"), json!("brought although it is of no use"))).await;
    assert_eq!(joined["memberSecret"], Value::Null);
    mesh.report(id, "node-1", "20").await;
    mesh.ok(&secured(REPORT), with(report(id, "node-1", "21"), json!("of no use"))).await;
    mesh.ok(LEAVE, node(id, "node-1")).await;
    let secured_now = json!({"hostId": "host-1", "domain": DOMAIN, "secured": true});
    assert_eq!(mesh.refused(CREATE_SECURED, secured_now).await.0, "ValidationError", "it stays what it is");
}

#[tokio::test]
async fn nobody_takes_a_node_out_of_a_secured_group() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let open = mesh.create_group("host-2").await;
    // By joining another group of the domain under its id, as an older client would.
    assert_eq!(mesh.refused(JOIN, node(&open, "node-1")).await.0, "Unauthorized");
    // By creating a group under its id.
    let create = json!({"name": "mine", "hostId": "node-1", "domain": DOMAIN});
    assert_eq!(mesh.refused(CREATE, create).await.0, "Unauthorized");
    // By joining as the host, also after the host has left.
    mesh.ok(&secured(LEAVE), with(node(&group, "host-1"), json!(HOST))).await;
    assert_eq!(mesh.refused(JOIN, node(&group, "host-1")).await.0, "Unauthorized");
    assert_eq!(
        mesh.refused(CREATE, json!({"name": "n", "hostId": "host-1", "domain": DOMAIN})).await.0,
        "Unauthorized"
    );
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "still here"), json!(PUPIL))).await;
    // The node itself may go where it wants.
    mesh.ok(JOIN_SECURED, with(node(&open, "node-1"), json!(PUPIL))).await;
    assert_eq!(
        mesh.refused(&secured(REPORT), with(report(&group, "node-1", "1"), json!(PUPIL))).await.0,
        "NodeNotFound"
    );
    // A node that has expired is nobody's any more.
    mesh.ok(JOIN_SECURED, with(node(&group, "node-2"), json!(PUPIL))).await;
    mesh.clock.advance(Duration::from_secs(60));
    mesh.ok(&secured(RENEW), with(host(&group, "host-1"), json!(HOST))).await;
    mesh.clock.advance(Duration::from_secs(15));
    mesh.ok(JOIN_SECURED, with(node(&group, "node-2"), json!("the secret of a successor"))).await;
}

#[tokio::test]
async fn the_status_of_a_node_in_a_secured_group_is_not_found_without_a_domain() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    let asked = mesh.ok("{ getNodeStatus(nodeId: \"node-1\") { groupId } }", json!({})).await;
    assert_eq!(asked, Value::Null);
}

const ON: [&str; 4] = ["onDataUpdateInGroup", "onBatchEventInGroup", "onGroupDissolve", "onMessageInGroup"];

fn on(field: &str) -> String {
    format!(
        "subscription ($groupId: ID!, $domain: String!, $secret: String) {{
           {field}(groupId: $groupId, domain: $domain, secret: $secret) {{ groupId domain sequence message }} }}"
    )
}

#[tokio::test]
async fn only_who_has_a_secret_hears_a_secured_group() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    for field in ON {
        let plain = format!(
            "subscription ($groupId: ID!, $domain: String!) {{ {field}(groupId: $groupId, domain: $domain) {{ sequence }} }}"
        );
        let refused = mesh.api.subscribe(&plain, of(&group), &caller).await.expect_err("no secret");
        assert_eq!(refused.errors[0].error_type(), Some("Unauthorized"), "{field}");
        let wrong = with(of(&group), json!("another secret"));
        let refused = mesh.api.subscribe(&on(field), wrong, &caller).await.expect_err("a wrong secret");
        assert_eq!(refused.errors[0].error_type(), Some("Unauthorized"), "{field}");
    }
    let mut pupil = mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a member");
    let mut teacher = mesh.api.subscribe(&on(ON[0]), with(of(&group), json!(HOST)), &caller).await.expect("the host");
    let other = mesh.create_group("host-2").await;
    mesh.report(&other, "host-2", "not for them").await;
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    for (subscription, field) in [(&mut pupil, ON[3]), (&mut teacher, ON[0])] {
        let heard = subscription.next().await.expect("a message");
        assert_eq!((&heard["data"][field]["groupId"], &heard["data"][field]["sequence"]), (&json!(group), &json!(1)));
    }
}

#[tokio::test]
async fn a_subscription_ends_when_its_node_leaves_or_joins_again_and_when_the_group_is_dissolved() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let subscribe = |secret: &'static str| {
        let variables = with(of(&group), json!(secret));
        let (mesh, caller) = (&mesh, &caller);
        async move { mesh.api.subscribe(&on(ON[3]), variables, caller).await.expect("a subscription") }
    };
    mesh.ok(JOIN_SECURED, with(node(&group, "node-2"), json!("the secret of another"))).await;
    let mut stays = subscribe("the secret of another").await;
    let mut again = subscribe(PUPIL).await;
    mesh.ok(JOIN_SECURED, with(node(&group, "node-1"), json!(PUPIL))).await;
    assert_eq!(again.next().await, None, "it joined again");
    let mut leaves = subscribe(PUPIL).await;
    mesh.ok(&secured(LEAVE), with(node(&group, "node-1"), json!(PUPIL))).await;
    assert_eq!(leaves.next().await, None, "it left");
    let refused = mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect_err("it left");
    assert_eq!(refused.errors[0].error_type(), Some("Unauthorized"));
    mesh.ok(JOIN_SECURED, with(node(&group, "node-1"), json!(PUPIL))).await;
    let mut moves = subscribe(PUPIL).await;
    let open = mesh.create_group("host-2").await;
    mesh.ok(JOIN_SECURED, with(node(&open, "node-1"), json!(PUPIL))).await;
    assert_eq!(moves.next().await, None, "it went to another group");
    mesh.ok(&secured(DISSOLVE), with(host(&group, "host-1"), json!(HOST))).await;
    let last = stays.next().await.expect("the notice");
    assert!(last["data"][ON[3]]["message"].is_string(), "{last}");
    assert_eq!(stays.next().await, None, "it was dissolved");
}

#[tokio::test]
async fn subscriptions_of_groups_that_are_not_secured_are_as_before() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let caller = Caller::api_key(KEY);
    let plain = "subscription ($groupId: ID!, $domain: String!) { onMessageInGroup(groupId: $groupId, domain: $domain) { sequence } }";
    let mut before =
        mesh.api.subscribe(plain, of("not there yet"), &caller).await.expect("nobody asks whether it exists");
    let mut heard = mesh.api.subscribe(plain, of(&group), &caller).await.expect("a subscription");
    mesh.join(&group, "node-1").await;
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "20").await;
    mesh.ok(LEAVE, node(&group, "node-1")).await;
    mesh.ok(DISSOLVE, host(&group, "host-1")).await;
    for sequence in [1, 2] {
        assert_eq!(heard.next().await.expect("a message")["data"]["onMessageInGroup"]["sequence"], sequence);
    }
    let nothing = tokio::time::timeout(Duration::from_millis(50), before.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    mesh.db.faults().down();
    let refused = mesh.api.subscribe(plain, of(&group), &caller).await.expect_err("nobody knows whether it is secured");
    assert_eq!(refused.errors[0].error_type(), Some("Unavailable"));
}

#[tokio::test]
async fn one_caller_fills_neither_a_domain_nor_a_group() {
    let mesh = Mesh::start().await;
    let from = |address: &str| Caller::api_key(KEY).header("x-forwarded-for", format!("{address}, 10.0.0.1"));
    let aliases = |fields: Vec<String>| format!("mutation {{ {} }}", fields.join(" "));
    let create = |from: usize| {
        let fields = (from..from + 50)
            .map(|n| format!("g{n}: createGroup(name: \"n\", hostId: \"h{n}\", domain: \"{DOMAIN}\") {{ id }}"));
        aliases(fields.collect())
    };
    let made = |response: &Value| {
        response["data"].as_object().map_or(0, |data| data.values().filter(|v| !v.is_null()).count())
    };
    let mut all = 0;
    for (n, expected) in [(0, 50), (50, 0)] {
        let response = mesh.api.execute(&create(n), json!({}), &from("203.0.113.9")).await.to_json();
        // `Group!` is not nullable, so the first refusal takes the whole answer with it.
        all += made(&response);
        assert_eq!(made(&response), expected, "{response}");
    }
    assert_eq!(all, 50);
    let group = mesh
        .api
        .execute(CREATE, json!({"name": "n", "hostId": "elsewhere", "domain": DOMAIN}), &from("203.0.113.8"))
        .await;
    let group = group.data()["createGroup"]["id"].as_str().expect("others still can").to_owned();
    let refused = mesh
        .api
        .execute(CREATE, json!({"name": "n", "hostId": "one more", "domain": DOMAIN}), &from("203.0.113.9"))
        .await;
    assert_eq!(refused.to_json()["errors"][0]["errorType"], "QuotaExceeded");
    for n in 0..100 {
        let joined = mesh.api.execute(JOIN, node(&group, &format!("n{n}")), &from("203.0.113.9")).await.to_json();
        let kind = joined["errors"][0]["errorType"].as_str();
        assert_eq!(kind, if n < 80 { None } else { Some("QuotaExceeded") }, "{n}: {joined}");
    }
    let again = mesh.api.execute(JOIN, node(&group, "n0"), &from("203.0.113.9")).await;
    assert!(again.is_ok(), "a member may join again: {}", again.to_json());
    let claimed = Caller::api_key(KEY).header("x-forwarded-for", "198.51.100.1, 203.0.113.9, 10.0.0.1");
    let refused = mesh.api.execute(JOIN, node(&group, "n100"), &claimed).await.to_json();
    assert_eq!(refused["errors"][0]["errorType"], "QuotaExceeded", "what it claims is not believed");
    let other = mesh.api.execute(JOIN, node(&group, "n100"), &from("203.0.113.8")).await;
    assert!(other.is_ok(), "{}", other.to_json());
}
