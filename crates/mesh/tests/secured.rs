//! Secured groups: who is who. Each test failed before groups could be secured.

mod support;

use std::time::Duration;

use appsync::{Caller, Subscription};
use serde_json::{Value, json};
use support::*;
use testkit::faults::{Fault, Rule};

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
async fn the_ids_of_a_secured_group_are_free_as_soon_as_it_is_over() {
    let create =
        |host: &str| json!({"hostId": host, "domain": DOMAIN, "secured": true, "secret": "the secret of a successor"});
    // The host comes again without its secret, somebody else hosts under its id or a pupil's, and somebody joins under them.
    for (who, as_host) in [("host-1", true), ("node-1", true), ("host-1", false), ("node-1", false)] {
        for is_deleted in [false, true] {
            let mesh = Mesh::start().await;
            let group = class(&mesh).await;
            mesh.clock.advance(Duration::from_secs(74));
            // It keeps its place for as long as the group does.
            mesh.ok(&secured(BEAT), with(node(&group, "node-1"), json!(PUPIL))).await;
            let open = mesh.create_group("host-2").await;
            let take = |open: &str| match as_host {
                true => (CREATE_SECURED, create(who)),
                false => (JOIN_SECURED, with(node(open, who), json!("the secret of a successor"))),
            };
            let (query, variables) = take(&open);
            assert_eq!(mesh.refused(query, variables.clone()).await.0, "Unauthorized", "{who} is in a living group");
            mesh.clock.advance(Duration::from_secs(1));
            assert_eq!(mesh.refused(GET_GROUP, of(&group)).await.0, "GroupNotFound", "its host is silent");
            if is_deleted {
                mesh.db.must(
                    "DeleteItem",
                    &json!({"TableName": mesh.db.table("MeshTable"), "Key": {
                        "pk": {"S": format!("DOMAIN#{DOMAIN}")}, "sk": {"S": format!("GROUP#{group}#METADATA")},
                    }}),
                );
            }
            mesh.ok(query, variables).await;
            let left = mesh.items_of(&format!("GROUP#{group}@"));
            assert!(left.iter().all(|item| item["sk"]["S"] != format!("NODE#{who}")), "{who} is in one group");
        }
    }
}

#[tokio::test]
async fn the_status_of_a_node_in_a_secured_group_is_not_found_without_a_domain() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    let asked = mesh.ok("{ getNodeStatus(nodeId: \"node-1\") { groupId } }", json!({})).await;
    assert_eq!(asked, Value::Null);
}

/// Whether AppSync has ended the subscription. Nobody waits for ever for one that it has not.
async fn is_over(subscription: &mut Subscription) -> bool {
    matches!(tokio::time::timeout(Duration::from_secs(10), subscription.next()).await, Ok(None))
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
async fn nobody_subscribes_to_a_secured_group_that_is_over_or_absent() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let plain = |field: &str| {
        format!(
            "subscription ($groupId: ID!, $domain: String!) {{ {field}(groupId: $groupId, domain: $domain) {{ sequence }} }}"
        )
    };
    mesh.clock.advance(Duration::from_secs(75));
    for field in ON {
        for (group, query, secret) in [
            (group.as_str(), on(field), json!(HOST)),
            (&group, on(field), json!(PUPIL)),
            (&group, on(field), json!("another secret")),
            (&group, plain(field), Value::Null),
            ("never there", on(field), json!(HOST)),
        ] {
            let variables = with(of(group), secret);
            let refused = mesh.api.subscribe(&query, variables.clone(), &caller).await;
            let refused = refused.expect_err("there is nothing to hear").errors;
            assert_eq!(refused[0].error_type(), Some("GroupNotFound"), "{query} {variables}");
            assert!(
                refused[0].message.starts_with(&format!("Group not found: {group}@{DOMAIN}")),
                "{}",
                refused[0].message
            );
        }
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
    assert!(is_over(&mut again).await, "it joined again");
    let mut leaves = subscribe(PUPIL).await;
    mesh.ok(&secured(LEAVE), with(node(&group, "node-1"), json!(PUPIL))).await;
    assert!(is_over(&mut leaves).await, "it left");
    let refused = mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect_err("it left");
    assert_eq!(refused.errors[0].error_type(), Some("Unauthorized"));
    mesh.ok(JOIN_SECURED, with(node(&group, "node-1"), json!(PUPIL))).await;
    let mut moves = subscribe(PUPIL).await;
    let open = mesh.create_group("host-2").await;
    mesh.ok(JOIN_SECURED, with(node(&open, "node-1"), json!(PUPIL))).await;
    assert!(is_over(&mut moves).await, "it went to another group");
    mesh.ok(&secured(DISSOLVE), with(host(&group, "host-1"), json!(HOST))).await;
    let last = stays.next().await.expect("the notice");
    assert!(last["data"][ON[3]]["message"].is_string(), "{last}");
    assert!(is_over(&mut stays).await, "it was dissolved");
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
async fn a_request_with_several_fields_does_nothing() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    mesh.ok(JOIN_SECURED, with(node(&group, "node-2"), json!("the secret of another"))).await;
    let mut spies = Vec::new();
    for secret in [PUPIL, "the secret of another"] {
        let where_ = with(of(&group), json!(secret));
        spies.push((secret, mesh.api.subscribe(&on(ON[3]), where_, &caller).await.expect("a member")));
    }
    let here = format!("groupId: \"{group}\", domain: \"{DOMAIN}\"");
    let leave = |node: &str, secret: &str| {
        format!("leaveGroup({here}, nodeId: \"{node}\", secret: \"{secret}\") {{ message }}")
    };
    let join = format!("joinGroup({here}, nodeId: \"node-1\", secret: \"{PUPIL}\") {{ id }}");
    let create = format!(
        "createGroup(name: \"n\", hostId: \"node-1\", domain: \"{DOMAIN}\", secured: true, secret: \"{PUPIL}\") {{ id }}"
    );
    let dissolve = format!("dissolveGroup({here}, hostId: \"host-1\", secret: \"{HOST}\") {{ sequence }}");
    let first = leave("node-1", PUPIL);
    for second in [leave("node-2", "the secret of another"), join, create, dissolve] {
        let both = format!("mutation {{ a: {first} b: {second} }}");
        assert_eq!(mesh.refused(&both, json!({})).await.0, "ResolverCountLimitReached", "{both}");
        let split = format!(
            "mutation {{ ...a ...b }} fragment a on Mutation {{ a: {first} }} fragment b on Mutation {{ b: {second} }}"
        );
        assert_eq!(mesh.refused(&split, json!({})).await.0, "ResolverCountLimitReached", "{split}");
    }
    // Nobody has left, so everybody still hears. Whoever leaves does not.
    let reports = secured(REPORT);
    mesh.ok(&reports, with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    for ((secret, spy), name) in spies.iter_mut().zip(["node-1", "node-2"]) {
        assert_eq!(spy.next().await.expect("a message")["data"][ON[3]]["sequence"], 1);
        mesh.ok(&secured(LEAVE), with(node(&group, name), json!(secret))).await;
        assert!(is_over(spy).await, "{name} left");
    }
}

#[tokio::test]
async fn one_caller_fills_neither_a_domain_nor_a_group() {
    let mesh = Mesh::start().await;
    let from = |address: &str| Caller::api_key(KEY).header("x-forwarded-for", format!("{address}, 10.0.0.1"));
    for n in 0..51 {
        let create = json!({"name": "n", "hostId": format!("h{n}"), "domain": DOMAIN});
        let made = mesh.api.execute(CREATE, create, &from("203.0.113.9")).await.to_json();
        let kind = made["errors"][0]["errorType"].as_str();
        assert_eq!(kind, if n < 50 { None } else { Some("QuotaExceeded") }, "{n}: {made}");
    }
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

#[tokio::test]
async fn ipv6_addresses_of_one_network_are_one_caller() {
    let mesh = Mesh::start().await;
    let from = |address: String| Caller::api_key(KEY).header("x-forwarded-for", format!("{address}, 10.0.0.1"));
    let kind = |response: &appsync::Response| response.to_json()["errors"][0]["errorType"].clone();
    let create = |n: u32| json!({"name": "n", "hostId": format!("h{n}"), "domain": DOMAIN});
    for n in 0..51 {
        let made = mesh.api.execute(CREATE, create(n), &from(format!("2001:db8:0:7::{n:x}"))).await;
        assert_eq!(kind(&made), if n < 50 { Value::Null } else { json!("QuotaExceeded") }, "{n}");
    }
    let made = mesh.api.execute(CREATE, create(51), &from("2001:db8:0:8::1".to_owned())).await;
    let group = made.data()["createGroup"]["id"].as_str().expect("another network still can").to_owned();
    for n in 0..81 {
        // Written in several ways.
        let address = if n % 2 == 0 { format!("2001:DB8::7:0:0:0:{n:x}") } else { format!("2001:db8:0:7:{n:x}::") };
        let joined = mesh.api.execute(JOIN, node(&group, &format!("n{n}")), &from(address)).await;
        assert_eq!(kind(&joined), if n < 80 { Value::Null } else { json!("QuotaExceeded") }, "{n}");
    }
    let other = mesh.api.execute(JOIN, node(&group, "n81"), &from("2001:db8:0:8::1".to_owned())).await;
    assert!(other.is_ok(), "{}", other.to_json());
}

#[tokio::test]
async fn the_function_and_the_resolvers_make_the_same_caller_of_an_address() {
    let addresses = [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("::FFFF:cb00:7109", "203.0.113.9"),
        ("0:0:0:0:0:ffff:cb00:7109", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002::/64"),
        ("2001:db8::1", "2001:0db8:0000:0000::/64"),
        ("2001:db8:1:2::", "2001:0db8:0001:0002::/64"),
        ("::1", "0000:0000:0000:0000::/64"),
        ("::", "0000:0000:0000:0000::/64"),
        ("64:ff9b::192.0.2.33", "0064:ff9b:0000:0000::/64"),
        // No addresses: as they are.
        ("", ""),
        ("unknown", "unknown"),
        ("203.0.113.9:443", "203.0.113.9:443"),
        ("1:2:3:4:5:6:7", "1:2:3:4:5:6:7"),
        ("1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:9"),
        ("1::2::3", "1::2::3"),
        ("1:2:3:4::5:6:7:8", "1:2:3:4::5:6:7:8"),
        ("2001:db8::g", "2001:db8::g"),
        ("2001:db8::12345", "2001:db8::12345"),
        (":::", ":::"),
    ];
    for (address, expected) in addresses {
        let mesh = Mesh::start().await;
        let caller = Caller::api_key(KEY).header("x-forwarded-for", format!("{address}, 10.0.0.1"));
        let made = mesh.api.execute(CREATE, json!({"name": "n", "hostId": "h", "domain": DOMAIN}), &caller).await;
        let group = made.data()["createGroup"]["id"].as_str().expect("a group").to_owned();
        let joined = mesh.api.execute(JOIN, node(&group, "n"), &caller).await;
        assert!(joined.is_ok(), "{}", joined.to_json());
        for (who, sort_key) in [("the function", "NODE#h"), ("the resolvers", "NODE#n")] {
            let items = mesh.items_of(&format!("GROUP#{group}@"));
            let node = items.iter().find(|item| item["sk"]["S"] == sort_key).expect("a node");
            assert_eq!(node["caller"]["S"], expected, "{who}: {address}");
        }
    }
}

#[tokio::test]
async fn an_identity_is_a_caller_whatever_its_address() {
    let mesh = Mesh::start().await;
    let as_role = |role: &str, address: u32| {
        Caller::iam(appsync::IamCaller::role("123456789012", role))
            .header("x-forwarded-for", format!("198.51.100.{address}, 10.0.0.1"))
    };
    let group = mesh.create_group("host-1").await;
    for n in 0..81 {
        let joined = mesh.api.execute(JOIN, node(&group, &format!("n{n}")), &as_role("one", n)).await.to_json();
        let kind = joined["errors"][0]["errorType"].as_str();
        assert_eq!(kind, if n < 80 { None } else { Some("QuotaExceeded") }, "{n}: {joined}");
    }
    assert!(mesh.api.execute(JOIN, node(&group, "n81"), &as_role("another", 1)).await.is_ok());
    for n in 0..51 {
        let create = json!({"name": "n", "hostId": format!("h{n}"), "domain": "elsewhere"});
        let made = mesh.api.execute(CREATE, create, &as_role("one", n)).await.to_json();
        let kind = made["errors"][0]["errorType"].as_str();
        assert_eq!(kind, if n < 50 { None } else { Some("QuotaExceeded") }, "{n}: {made}");
    }
}

#[tokio::test]
async fn secrets_are_counted_in_characters_of_any_script() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    // Two units of UTF-16 each.
    for (characters, is_taken) in [(8, false), (15, false), (16, true), (128, true), (129, false)] {
        let secret = "🔑".repeat(characters);
        let host = format!("host with {characters}");
        let create = json!({"hostId": host, "domain": "elsewhere", "secured": true, "secret": secret});
        let join = with(node(&group, &format!("node with {characters}")), json!(secret));
        for (query, variables) in [(CREATE_SECURED, create), (JOIN_SECURED, join)] {
            let answer = mesh.execute(query, variables).await.to_json();
            let kind = answer["errors"][0]["errorType"].as_str();
            assert_eq!(kind, if is_taken { None } else { Some("ValidationError") }, "{characters}: {answer}");
        }
    }
    let long = with(node(&group, "new"), json!("🔑".repeat(129)));
    assert_eq!(mesh.refused(JOIN_SECURED, long).await.1, "secret must have 1 to 128 characters; it has 129.");
}

/// Nodes that expired before `node-1` in the order of the table, and have not been deleted yet.
fn expired(mesh: &Mesh, group: &str, count: usize) {
    for n in 0..count {
        mesh.db.must(
            "PutItem",
            &json!({"TableName": mesh.db.table("MeshTable"), "Item": {
                "pk": {"S": format!("GROUP#{group}@{DOMAIN}")}, "sk": {"S": format!("NODE#gone-{n:05}")},
                "nodeId": {"S": format!("gone-{n:05}")}, "name": {"S": "gone"}, "groupId": {"S": group}, "domain": {"S": DOMAIN},
                "memberSecret": {"S": format!("the secret of one that has gone {n}")}, "ttl": {"N": "1"},
            }}),
        );
    }
}

#[tokio::test]
async fn members_are_found_behind_a_thousand_that_have_expired() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    expired(&mesh, &group, 1_500);
    mesh.ok(&secured(MESSAGES_SINCE), with(messages(&group), json!(PUPIL))).await;
    let caller = Caller::api_key(KEY);
    mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a member");
    let nodes = mesh.ok(LIST_NODES, of(&group)).await;
    assert_eq!(nodes[0]["id"], "node-1", "{nodes}");
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    let statuses = mesh.ok(&secured(LIST_STATUSES), with(of(&group), json!(PUPIL))).await;
    assert_eq!(statuses[0]["nodeId"], "node-1", "{statuses}");
    for wrong in ["another secret", "the secret of one that has gone 7"] {
        let (kind, _) = mesh.refused(&secured(MESSAGES_SINCE), with(messages(&group), json!(wrong))).await;
        assert_eq!(kind, "Unauthorized", "{wrong}");
    }
    expired(&mesh, &group, 2_100);
    for (query, variables) in [
        (secured(MESSAGES_SINCE), with(messages(&group), json!(PUPIL))),
        (LIST_NODES.to_owned(), of(&group)),
        (JOIN_SECURED.to_owned(), node(&group, "node-2")),
    ] {
        assert_eq!(mesh.refused(&query, variables).await.0, "Unavailable", "{query}: it does not pretend to know");
    }
}

#[tokio::test]
async fn a_dissolution_whose_answer_was_lost_notifies_and_ends_subscriptions_when_it_is_repeated() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
    let mut end = with(host(&group, "host-1"), json!(HOST));
    end["messageId"] = json!("the end");
    // The function does its work, and AppSync never hears of it.
    mesh.invoke("dissolveGroup", end.clone()).await.expect("an answer");
    for wrong in [Value::Null, json!("another secret")] {
        let refused = mesh.refused(&secured(DISSOLVE), with(end.clone(), wrong)).await;
        assert_eq!(refused.0, "Unauthorized", "also a repeat demands the secret");
    }
    mesh.ok(&secured(DISSOLVE), end).await;
    let last = hears.next().await.expect("the notice");
    assert_eq!(last["data"][ON[3]]["message"], "The host has dissolved the group.");
    assert!(is_over(&mut hears).await, "it was dissolved");
}

#[tokio::test]
async fn a_departure_whose_answer_was_lost_ends_subscriptions_when_it_is_repeated() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
    let leave = with(node(&group, "node-1"), json!(PUPIL));
    mesh.invoke("leaveGroup", leave.clone()).await.expect("an answer");
    assert_eq!(mesh.refused(LEAVE, node(&group, "node-1")).await.0, "NodeNotFound", "older clients are told");
    mesh.ok(&secured(LEAVE), leave).await;
    assert!(is_over(&mut hears).await, "it left");
    // An expired node leaves too, with its own secret.
    mesh.ok(JOIN_SECURED, with(node(&group, "node-1"), json!(PUPIL))).await;
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
    mesh.clock.advance(Duration::from_secs(60));
    mesh.ok(&secured(RENEW), with(host(&group, "host-1"), json!(HOST))).await;
    mesh.clock.advance(Duration::from_secs(15));
    let wrong = with(node(&group, "node-1"), json!("another secret"));
    assert_eq!(mesh.refused(&secured(LEAVE), wrong).await.0, "Unauthorized");
    mesh.ok(&secured(LEAVE), with(node(&group, "node-1"), json!(PUPIL))).await;
    assert!(is_over(&mut hears).await, "it left");
}

#[tokio::test]
async fn nobody_ends_the_subscriptions_of_a_member_by_leaving_another_group_for_it() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
    let own = json!({"hostId": "stranger", "domain": DOMAIN, "secured": true, "secret": "the secret of a stranger"});
    let other = mesh.ok(CREATE_SECURED, own).await["id"].as_str().expect("an id").to_owned();
    mesh.ok(&secured(LEAVE), with(node(&other, "node-1"), json!("the secret of a stranger"))).await;
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    assert_eq!(hears.next().await.expect("a message")["data"][ON[3]]["sequence"], 1, "it goes on");
}

#[tokio::test]
async fn nobody_ends_the_subscriptions_of_a_host_that_is_no_node() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(HOST)), &caller).await.expect("a subscription");
    let leave = |secret: &str| with(node(&group, "host-1"), json!(secret));
    assert_eq!(mesh.refused(&secured(LEAVE), leave("the secret of a stranger")).await.0, "Unauthorized");
    mesh.ok(&secured(REPORT), with(report(&group, "node-1", "20"), json!(PUPIL))).await;
    assert_eq!(hears.next().await.expect("a message")["data"][ON[3]]["sequence"], 1, "it goes on");
    mesh.ok(&secured(LEAVE), leave(HOST)).await;
    assert!(is_over(&mut hears).await, "it left");
}

#[tokio::test]
async fn a_join_whose_answer_was_lost_ends_what_the_node_heard_elsewhere_when_it_is_repeated() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let open = mesh.create_group("host-2").await;
    let own = json!({"hostId": "host-3", "domain": DOMAIN, "secured": true});
    let closed = mesh.ok(CREATE_SECURED, own).await["id"].as_str().expect("an id").to_owned();
    for to in [open, closed] {
        let mut hears =
            mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
        let join = with(node(&to, "node-1"), json!(PUPIL));
        mesh.db.faults().only(Rule::new(Fault::LoseAnswer).on("TransactWriteItems"));
        assert_eq!(mesh.refused(JOIN_SECURED, join.clone()).await.0, "Unavailable");
        mesh.db.faults().heal();
        mesh.ok(JOIN_SECURED, join).await;
        assert!(is_over(&mut hears).await, "it went to another group");
        mesh.ok(JOIN_SECURED, with(node(&group, "node-1"), json!(PUPIL))).await;
    }
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_ends_what_its_host_heard_elsewhere_when_it_is_repeated() {
    let mesh = Mesh::start().await;
    let group = class(&mesh).await;
    let caller = Caller::api_key(KEY);
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&group), json!(PUPIL)), &caller).await.expect("a subscription");
    let own = json!({"name": "n", "hostId": "node-1", "domain": DOMAIN, "secured": true, "secret": PUPIL});
    mesh.invoke("createGroup", own).await.expect("an answer");
    let own = json!({"hostId": "node-1", "domain": DOMAIN, "secured": true, "secret": PUPIL});
    let made = mesh.ok(CREATE_SECURED, own.clone()).await["id"].as_str().expect("an id").to_owned();
    assert!(is_over(&mut hears).await, "it has a group of its own");
    let mut hears =
        mesh.api.subscribe(&on(ON[3]), with(of(&made), json!(PUPIL)), &caller).await.expect("a subscription");
    mesh.ok(CREATE_SECURED, own).await;
    mesh.ok(&secured(REPORT), with(report(&made, "node-1", "20"), json!(PUPIL))).await;
    assert!(hears.next().await.is_some(), "what it hears in its own group goes on");
}
