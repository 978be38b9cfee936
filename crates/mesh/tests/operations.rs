//! Every operation, its success and each of its refusals, with the files that are deployed.

mod support;

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use support::*;

#[tokio::test]
async fn a_group_is_created_found_and_listed() {
    let mesh = Mesh::start().await;
    let created = mesh.ok(CREATE, json!({"name": "3年1組", "hostId": "host-1", "domain": DOMAIN})).await;
    let id = created["id"].as_str().unwrap();
    assert_eq!(created["fullId"], format!("{id}@{DOMAIN}"));
    assert_eq!(created["createdAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(created["expiresAt"], "2026-01-01T00:10:00.000Z");
    assert_eq!(created["heartbeatIntervalSeconds"], 15);
    assert_eq!(created["useWebSocket"], true);
    assert_eq!(created["pollingIntervalSeconds"], 2);
    assert_eq!(mesh.ok(GET_GROUP, of(id)).await["hostId"], "host-1");
    let listed = mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await;
    assert_eq!(listed, json!([{"id": id, "name": "3年1組", "hostId": "host-1"}]));
    assert_eq!(mesh.ok(LIST_GROUPS, json!({"domain": "elsewhere"})).await, json!([]));
}

#[tokio::test]
async fn creating_a_group_is_idempotent_for_host_and_domain() {
    let mesh = Mesh::start().await;
    let first = mesh.create_group("host-1").await;
    assert_eq!(mesh.create_group("host-1").await, first);
    assert_ne!(mesh.create_group("host-2").await, first);
    let elsewhere = mesh.ok(CREATE, json!({"name": "class", "hostId": "host-1", "domain": "elsewhere"})).await;
    assert_ne!(elsewhere["id"], first.as_str());
}

#[tokio::test]
async fn fifty_simultaneous_creations_make_one_group() {
    let mesh = Mesh::start().await;
    let groups = join_all((0..50).map(|_| mesh.create_group("host-1"))).await;
    assert!(groups.iter().all(|group| *group == groups[0]), "{groups:?}");
    assert_eq!(mesh.items_of("#METADATA").len(), 1);
}

#[tokio::test]
async fn a_new_group_is_made_after_the_old_one_has_ended() {
    let mesh = Mesh::start().await;
    let first = mesh.create_group("host-1").await;
    mesh.clock.advance(Duration::from_secs(75)); // five heartbeats missed
    let second = mesh.create_group("host-1").await;
    assert_ne!(second, first, "the host had gone silent");
    mesh.ok(DISSOLVE, host(&second, "host-1")).await;
    let third = mesh.create_group("host-1").await;
    assert_ne!(third, second, "it was dissolved");
    for _ in 0..9 {
        mesh.clock.advance(Duration::from_secs(60));
        mesh.ok(RENEW, host(&third, "host-1")).await;
    }
    mesh.clock.advance(Duration::from_secs(60));
    assert_ne!(mesh.create_group("host-1").await, third, "its time was over");
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let mesh = Mesh::start().await;
    let create = |name: &str, host: &str, domain: &str, seconds: Value| json!({"name": name, "hostId": host, "domain": domain, "seconds": seconds});
    let long = "x".repeat(257);
    for (arguments, says) in [
        (create("", "h", "d", Value::Null), "name must have 1 to 128 characters; it has 0."),
        (create("n", "", "d", Value::Null), "hostId must have 1 to 128 characters; it has 0."),
        (create("n", "h", "", Value::Null), "domain must have 1 to 256 characters; it has 0."),
        (create("n", "h", &long, Value::Null), "domain must have 1 to 256 characters; it has 257."),
        (create("n", "h", "d", json!(0)), "maxConnectionTimeSeconds must be 1 to 600; it is 0."),
        (create("n", "h", "d", json!(601)), "maxConnectionTimeSeconds must be 1 to 600; it is 601."),
    ] {
        assert_eq!(mesh.refused(CREATE, arguments).await, ("ValidationError".into(), says.into()));
    }
    let group = mesh.create_group("host-1").await;
    let mut many = report(&group, "host-1", "1");
    many["data"] = json!(vec![json!({"key": "k", "value": "v"}); 101]);
    assert_eq!(mesh.refused(REPORT, many).await.1, "data must have at most 100 values; it has 101.");
    let mut large = report(&group, "host-1", "1");
    large["data"] = json!(vec![json!({"key": "k", "value": "v".repeat(4000)}); 100]);
    assert!(mesh.refused(REPORT, large).await.1.starts_with("A message must have at most 240000 bytes"));
    assert_eq!(
        mesh.refused(FIRE, events(&group, "host-1", &[])).await.1,
        "events must have 1 to 100 entries; it has 0."
    );
    assert_eq!(mesh.refused(JOIN, node(&group, "")).await.1, "nodeId must have 1 to 128 characters; it has 0.");
}

/// Groups that ended a moment ago and have not been deleted yet. They come before those that the test makes.
fn over(mesh: &Mesh, count: usize) {
    for n in 0..count {
        let id = format!("over-{n:05}");
        mesh.db.must(
            "PutItem",
            &json!({"TableName": mesh.db.table("MeshTable"), "Item": {
                "pk": {"S": format!("DOMAIN#{DOMAIN}")}, "sk": {"S": format!("GROUP#{id}#METADATA")},
                "GSI1PK": {"S": format!("DOMAIN#{DOMAIN}")}, "GSI1SK": {"S": "GROUP#2025-12-31T23:59:59.000Z"},
                "groupId": {"S": id}, "domain": {"S": DOMAIN}, "name": {"S": "over"}, "hostId": {"S": "h"},
                "createdAt": {"S": "2025-12-31T23:59:59.000Z"}, "expiresAt": {"N": "1"}, "hostFreshUntil": {"N": "1"},
            }}),
        );
    }
}

#[tokio::test]
async fn groups_are_listed_behind_thousands_that_have_ended() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    over(&mesh, 2_500);
    let listed = mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await;
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["id"]), (Some(1), &json!(group)));
    over(&mesh, 3_100);
    let (kind, message) = mesh.refused(LIST_GROUPS, json!({"domain": DOMAIN})).await;
    assert_eq!(kind, "Unavailable", "it does not pretend that there is none: {message}");
}

#[tokio::test]
async fn statuses_that_are_larger_than_a_page_are_all_listed() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let large = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $data: [SensorDataInput!]!) {
      reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data) { sequence } }";
    for n in 0..15 {
        let id = format!("node-{n:02}");
        mesh.join(&group, &id).await;
        let mut says = node(&group, &id);
        says["data"] = json!(vec![json!({"key": "k", "value": "v".repeat(4_000)}); 50]);
        mesh.ok(large, says).await;
        if n == 8 {
            // 1.8 MB: two pages.
            let statuses = mesh.ok(LIST_STATUSES, of(&group)).await;
            assert_eq!(statuses.as_array().map(Vec::len), Some(9));
        }
    }
    let (kind, message) = mesh.refused(LIST_STATUSES, of(&group)).await;
    assert_eq!(kind, "Unavailable");
    assert!(message.contains("getNodeStatus"), "{message}");
}

#[tokio::test]
async fn a_domain_and_a_host_that_have_too_many_bytes_together_are_named() {
    let mesh = Mesh::start().await;
    let create = |domain: &str, host: &str| json!({"name": "n", "hostId": host, "domain": domain});
    // Four bytes each: with `HOST#`, another `#` and the domain there are 498 bytes left for the host.
    let (domain, longest) = ("𠮷".repeat(130), "𠮷".repeat(124));
    let made = mesh.ok(CREATE, create(&domain, &format!("{longest}hh"))).await;
    let says = "domain and hostId are 1 bytes too long together, in UTF-8 with # and % as three bytes each. Shorten one of them.";
    let long = create(&domain, &format!("{longest}hhh"));
    assert_eq!(mesh.refused(CREATE, long).await, ("ValidationError".into(), says.into()));
    // All other keys have room for the longest ids.
    let (group, id) = (made["id"].as_str().unwrap(), "𠮷".repeat(128));
    let here = json!({"groupId": group, "domain": domain, "nodeId": id});
    mesh.ok(JOIN, here.clone()).await;
    let mut says = here.clone();
    says["data"] = json!([{"key": "k", "value": "v"}]);
    says["messageId"] = json!("𠮷".repeat(100));
    mesh.ok(REPORT, says).await;
    mesh.ok(LEAVE, here).await;
}

#[tokio::test]
async fn joining_twice_is_fine_and_joining_elsewhere_leaves_the_first_group() {
    let mesh = Mesh::start().await;
    let (first, second) = (mesh.create_group("host-1").await, mesh.create_group("host-2").await);
    let joined = mesh.ok(JOIN, node(&first, "node-1")).await;
    assert_eq!(joined["expiresAt"], "2026-01-01T00:10:00.000Z", "the end of the group");
    mesh.join(&first, "node-1").await;
    mesh.report(&first, "node-1", "20").await;
    assert_eq!(mesh.ok(LIST_NODES, of(&first)).await.as_array().unwrap().len(), 1);
    mesh.join(&second, "node-1").await;
    let ids = |nodes: Value| nodes.as_array().unwrap().iter().map(|n| n["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(mesh.ok(LIST_NODES, of(&first)).await), [] as [Value; 0]);
    assert_eq!(ids(mesh.ok(LIST_NODES, of(&second)).await), ["node-1"]);
    assert_eq!(mesh.ok(GET_STATUS, json!({"nodeId": "node-1", "domain": DOMAIN})).await, Value::Null);
    assert_eq!(mesh.refused(REPORT, report(&first, "node-1", "21")).await.0, "NodeNotFound");
}

#[tokio::test]
async fn a_node_of_another_domain_with_the_same_id_is_another_node() {
    let mesh = Mesh::start().await;
    let here = mesh.create_group("host-1").await;
    mesh.join(&here, "node-1").await;
    mesh.report(&here, "node-1", "20").await;
    let there = mesh.ok(CREATE, json!({"name": "n", "hostId": "h", "domain": "elsewhere"})).await;
    mesh.ok(JOIN, json!({"groupId": there["id"], "domain": "elsewhere", "nodeId": "node-1"})).await;
    assert_eq!(mesh.ok(LIST_NODES, of(&here)).await.as_array().unwrap().len(), 1);
    assert_eq!(mesh.ok(GET_STATUS, json!({"nodeId": "node-1", "domain": DOMAIN})).await["data"][0]["value"], "20");
}

#[tokio::test]
async fn leaving_removes_node_membership_and_status() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "20").await;
    let left = mesh.ok(LEAVE, node(&group, "node-1")).await;
    assert_eq!(left["peerId"], "node-1");
    assert!(mesh.items_of("NODE#node-1").is_empty());
    assert_eq!(mesh.refused(LEAVE, node(&group, "node-1")).await.0, "NodeNotFound");
    assert_eq!(mesh.refused(LEAVE, node("nothing", "node-1")).await.0, "GroupNotFound");
}

#[tokio::test]
async fn only_the_host_renews_and_dissolves() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    let refused = |what| ("Unauthorized".to_owned(), format!("Only the host can {what}."));
    assert_eq!(mesh.refused(RENEW, host(&group, "node-1")).await, refused("renew the heartbeat"));
    assert_eq!(mesh.refused(DISSOLVE, host(&group, "node-1")).await, refused("dissolve the group"));
    let renewed = mesh.ok(RENEW, host(&group, "host-1")).await;
    assert_eq!(renewed["expiresAt"], "2026-01-01T00:10:00.000Z", "a heartbeat does not move the end");
    assert_eq!((&renewed["intervalSeconds"], &renewed["heartbeatIntervalSeconds"]), (&json!(15), &json!(15)));
}

#[tokio::test]
async fn members_live_by_their_heartbeats_and_expired_ones_are_invisible_at_once() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.join(&group, "node-2").await;
    mesh.report(&group, "node-2", "20").await;
    mesh.clock.advance(Duration::from_secs(60));
    mesh.ok(RENEW, host(&group, "host-1")).await;
    assert_eq!(mesh.ok(BEAT, node(&group, "node-1")).await["expiresAt"], "2026-01-01T00:02:15.000Z");
    mesh.clock.advance(Duration::from_secs(15));
    let nodes = mesh.ok(LIST_NODES, of(&group)).await;
    assert_eq!(nodes.as_array().unwrap().len(), 1, "node-2 is gone: {nodes}");
    assert_eq!(mesh.ok(LIST_STATUSES, of(&group)).await, json!([]));
    assert_eq!(mesh.refused(BEAT, node(&group, "node-2")).await.0, "NodeNotFound");
    assert_eq!(mesh.refused(REPORT, report(&group, "node-2", "21")).await.0, "NodeNotFound");
}

#[tokio::test]
async fn nothing_works_in_a_group_that_has_ended() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.clock.advance(Duration::from_secs(75));
    let since = json!({"groupId": group, "domain": DOMAIN, "since": "2026-01-01T00:00:00Z"});
    let messages = json!({"groupId": group, "domain": DOMAIN, "sequence": 0});
    for (query, variables) in [
        (GET_GROUP, of(&group)),
        (LIST_NODES, of(&group)),
        (LIST_STATUSES, of(&group)),
        (EVENTS_SINCE, since),
        (MESSAGES_SINCE, messages),
        (JOIN, node(&group, "node-2")),
        (LEAVE, node(&group, "node-1")),
        (BEAT, node(&group, "node-1")),
        (RENEW, host(&group, "host-1")),
        (DISSOLVE, host(&group, "host-1")),
        (REPORT, report(&group, "node-1", "1")),
        (FIRE, events(&group, "node-1", &["a"])),
        (RECORD, events(&group, "node-1", &["a"])),
    ] {
        let (kind, message) = mesh.refused(query, variables).await;
        let words = format!("Group not found: {group}@{DOMAIN} (heartbeat expired). ");
        assert_eq!(kind, "GroupNotFound", "{query}");
        assert!(message.starts_with(&words) && message.ends_with("Disconnect."), "{query}: {message}");
    }
    assert_eq!(mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await, json!([]));
}

#[tokio::test]
async fn a_report_is_both_nested_and_flat_and_becomes_the_status() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    let said = mesh.report(&group, "node-1", "20.5").await;
    assert_eq!((&said["sequence"], &said["nodeId"]), (&json!(1), &json!("node-1")));
    assert_eq!(said["nodeStatus"]["data"], json!([{"key": "temperature", "value": "20.5"}]));
    assert_eq!(said["data"], said["nodeStatus"]["data"]);
    mesh.report(&group, "node-1", "21").await;
    let statuses = mesh.ok(LIST_STATUSES, of(&group)).await;
    assert_eq!(statuses.as_array().unwrap().len(), 1);
    assert_eq!(statuses[0]["data"][0]["value"], "21");
    let other = mesh.create_group("host-2").await;
    let elsewhere = json!({"nodeId": "node-1", "domain": DOMAIN, "groupId": other});
    assert_eq!(mesh.ok(GET_STATUS, elsewhere).await, Value::Null);
    let nowhere = json!({"nodeId": "node-1", "domain": DOMAIN, "groupId": "nothing"});
    assert_eq!(mesh.refused(GET_STATUS, nowhere).await.0, "GroupNotFound");
}

#[tokio::test]
async fn messages_have_one_order_and_what_was_refused_is_void() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "1").await;
    assert_eq!(mesh.refused(REPORT, report(&group, "stranger", "x")).await.0, "NodeNotFound");
    mesh.ok(FIRE, events(&group, "node-1", &["a", "b"])).await;
    let page = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 0})).await;
    assert_eq!((&page["voids"], &page["next"], &page["head"]), (&json!([2]), &json!(3), &json!(3)));
    let sequences: Vec<_> = page["messages"].as_array().unwrap().iter().map(|m| m["sequence"].clone()).collect();
    assert_eq!(sequences, [json!(1), json!(3)]);
    assert_eq!(page["messages"][1]["events"], json!([{"name": "a"}, {"name": "b"}]));
    let rest = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 3})).await;
    assert_eq!((&rest["messages"], &rest["next"]), (&json!([]), &json!(3)));
}

#[tokio::test]
async fn a_number_whose_message_is_still_on_its_way_is_waited_for_and_later_lost() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.report(&group, "host-1", "1").await;
    // A publisher takes a number and vanishes before it writes its message.
    mesh.db.must(
        "UpdateItem",
        &json!({
            "TableName": mesh.db.table("MeshTable"),
            "Key": {"pk": {"S": format!("DOMAIN#{DOMAIN}")}, "sk": {"S": format!("GROUP#{group}#METADATA")}},
            "UpdateExpression": "ADD #s :one", "ExpressionAttributeNames": {"#s": "sequence"},
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }),
    );
    mesh.report(&group, "host-1", "3").await;
    let ask = json!({"groupId": group, "domain": DOMAIN, "sequence": 0});
    let page = mesh.ok(MESSAGES_SINCE, ask.clone()).await;
    assert_eq!((&page["next"], &page["head"]), (&json!(1), &json!(3)), "2 may still come");
    mesh.clock.advance(Duration::from_secs(6));
    let page = mesh.ok(MESSAGES_SINCE, ask).await;
    assert_eq!((&page["next"], &page["voids"]), (&json!(3), &json!([])), "2 is lost");
    assert_eq!(page["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_repeated_publish_is_recognised() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let mut once = report(&group, "host-1", "20");
    once["messageId"] = json!("m-1");
    let first = mesh.ok(REPORT, once.clone()).await;
    let again = mesh.ok(REPORT, once.clone()).await;
    assert_eq!((&again["sequence"], &again["nodeStatus"]), (&first["sequence"], &first["nodeStatus"]));
    assert_eq!(again["groupId"], Value::Null, "so that no subscriber gets it again");
    let page = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 0})).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["head"]), (1, &json!(1)));
    // Of fifty at once one is written; numbers that lost the race are void.
    once["messageId"] = json!("m-2");
    join_all((0..50).map(|_| mesh.execute(REPORT, once.clone()))).await;
    let page = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 1})).await;
    assert_eq!(page["messages"].as_array().unwrap().len(), 1, "{page}");
}

#[tokio::test]
async fn events_are_polled_in_order_without_skips_or_repeats() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let mut expected = Vec::new();
    for batch in 0..30 {
        let names: Vec<String> = (0..7).map(|n| format!("e{batch}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let recorded = mesh.ok(RECORD, events(&group, "host-1", &names)).await;
        assert_eq!(recorded["recordedCount"], 7);
        mesh.report(&group, "host-1", "between").await;
        expected.extend(names.iter().map(|name| json!(name)));
    }
    let ask = |since: &str| json!({"groupId": group, "domain": DOMAIN, "since": since});
    let mut since = "2025-12-31T23:59:59Z".to_owned();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let page = mesh.ok(EVENTS_SINCE, ask(&since)).await;
        let page = page.as_array().unwrap().clone();
        assert!(page.len() <= 100);
        seen.extend(page.iter().map(|event| event["name"].clone()));
        match page.last() {
            Some(last) => since = last["cursor"].as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    let recorded = mesh.ok(RECORD, events(&group, "host-1", &["last"])).await;
    assert_eq!(mesh.ok(EVENTS_SINCE, ask(recorded["nextSince"].as_str().unwrap())).await, json!([]));
    assert_eq!(mesh.refused(EVENTS_SINCE, ask("yesterday")).await.0, "ValidationError");
    mesh.clock.advance(Duration::from_secs(1));
    assert_eq!(mesh.ok(EVENTS_SINCE, ask("2026-01-01T00:00:00.500Z")).await, json!([]));
}

#[tokio::test]
async fn dissolving_leaves_nothing_behind() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    for n in 0..5 {
        mesh.join(&group, &format!("node-{n}")).await;
        let mut said = report(&group, &format!("node-{n}"), "1");
        said["messageId"] = json!(format!("m-{n}"));
        mesh.ok(REPORT, said).await;
    }
    let dissolved = mesh.ok(DISSOLVE, host(&group, "host-1")).await;
    assert_eq!(dissolved["groupDissolve"]["message"], "The host has dissolved the group.");
    assert_eq!(dissolved["sequence"], 6);
    assert_eq!(mesh.db.items(mesh.db.table("MeshTable")), Vec::<Value>::new());
    assert_eq!(mesh.refused(DISSOLVE, host(&group, "host-1")).await.0, "GroupNotFound");
}

#[tokio::test]
async fn dissolving_against_joining_and_publishing_leaves_nothing_behind() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    for n in 0..10 {
        mesh.join(&group, &format!("node-{n}")).await;
    }
    let traffic = async {
        let reports = (0..40).map(|n| mesh.execute(REPORT, report(&group, &format!("node-{}", n % 10), "1")));
        let joins: Vec<String> = (0..10).map(|n| format!("late-{n}")).collect();
        let joins = joins.iter().map(|id| mesh.execute(JOIN, node(&group, id)));
        tokio::join!(join_all(reports), join_all(joins))
    };
    let (_, dissolved) = tokio::join!(traffic, mesh.execute(DISSOLVE, host(&group, "host-1")));
    assert!(dissolved.is_ok(), "{}", dissolved.to_json());
    assert_eq!(mesh.items_of(&group), Vec::<Value>::new());
    assert_eq!(mesh.db.items(mesh.db.table("MeshTable")), Vec::<Value>::new(), "nor of its nodes");
}

#[tokio::test]
async fn clients_find_the_words_that_they_look_for_in_every_refusal() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    for (query, variables) in [
        (LEAVE, node(&group, "stranger")),
        (BEAT, node(&group, "stranger")),
        (REPORT, report(&group, "stranger", "1")),
        (FIRE, events(&group, "stranger", &["a"])),
        (RECORD, events(&group, "stranger", &["a"])),
    ] {
        let (kind, message) = mesh.refused(query, variables).await;
        assert!(kind == "NodeNotFound" && message.starts_with("Node not found: "), "{query}: {kind}: {message}");
    }
    let group_operations = |group: &str| {
        [
            (JOIN, node(group, "node-2")),
            (LEAVE, node(group, "node-1")),
            (BEAT, node(group, "node-1")),
            (RENEW, host(group, "host-1")),
            (DISSOLVE, host(group, "host-1")),
            (REPORT, report(group, "node-1", "1")),
            (FIRE, events(group, "node-1", &["a"])),
            (RECORD, events(group, "node-1", &["a"])),
        ]
    };
    for (query, variables) in group_operations("nothing") {
        let (kind, message) = mesh.refused(query, variables).await;
        assert_eq!(kind, "GroupNotFound", "{query}");
        assert!(message.starts_with(&format!("Group not found: nothing@{DOMAIN}. ")), "{query}: {message}");
    }
    // Its time is over, although its host still sends heartbeats.
    for _ in 0..9 {
        mesh.clock.advance(Duration::from_secs(60));
        mesh.ok(RENEW, host(&group, "host-1")).await;
        mesh.ok(BEAT, node(&group, "node-1")).await;
    }
    mesh.clock.advance(Duration::from_secs(60));
    for (query, variables) in group_operations(&group) {
        let (kind, message) = mesh.refused(query, variables).await;
        assert_eq!(kind, "GroupNotFound", "{query}");
        assert!(message.starts_with(&format!("Group expired: {group}@{DOMAIN}. ")), "{query}: {message}");
    }
}

#[tokio::test]
async fn a_host_is_a_node_once_it_joins_or_reports() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    assert_eq!(mesh.ok(LIST_NODES, of(&group)).await, json!([]), "a new group is empty");
    mesh.ok(FIRE, events(&group, "host-1", &["a"])).await;
    assert_eq!(mesh.ok(LIST_NODES, of(&group)).await, json!([]));
    mesh.report(&group, "host-1", "20").await;
    assert_eq!(mesh.ok(LIST_NODES, of(&group)).await[0]["id"], "host-1");
    assert_eq!(mesh.ok(LIST_STATUSES, of(&group)).await[0]["nodeId"], "host-1");
    let second = mesh.create_group("host-2").await;
    mesh.join(&second, "host-2").await;
    assert_eq!(mesh.ok(LIST_NODES, of(&second)).await[0]["id"], "host-2");
    mesh.report(&second, "host-2", "21").await;
    assert_eq!(mesh.ok(LIST_NODES, of(&second)).await.as_array().unwrap().len(), 1);
    mesh.ok(LEAVE, node(&second, "host-2")).await;
    assert_eq!(mesh.refused(REPORT, report(&second, "host-2", "22")).await.0, "NodeNotFound");
}

#[tokio::test]
async fn without_a_domain_the_status_is_that_of_the_group_that_was_joined_last() {
    let mesh = Mesh::start().await;
    const ASK: &str = "query ($nodeId: ID!) { getNodeStatus(nodeId: $nodeId) { domain groupId data { value } } }";
    let ask = || mesh.ok(ASK, json!({"nodeId": "a@b%c"}));
    assert_eq!(ask().await, Value::Null, "nobody");
    let here = mesh.create_group("host-1").await;
    mesh.join(&here, "a@b%c").await;
    assert_eq!(ask().await, Value::Null, "it has reported nothing");
    mesh.report(&here, "a@b%c", "20").await;
    assert_eq!(ask().await, json!({"domain": DOMAIN, "groupId": here, "data": [{"value": "20"}]}));
    let there = mesh.ok(CREATE, json!({"name": "n", "hostId": "h", "domain": "elsewhere"})).await;
    mesh.ok(JOIN, json!({"groupId": there["id"], "domain": "elsewhere", "nodeId": "a@b%c"})).await;
    assert_eq!(ask().await, Value::Null, "it has reported nothing there");
    let mut said = report(there["id"].as_str().unwrap(), "a@b%c", "30");
    said["domain"] = json!("elsewhere");
    mesh.ok(REPORT, said).await;
    assert_eq!(ask().await["data"][0]["value"], "30");
    mesh.clock.advance(Duration::from_secs(75));
    assert_eq!(ask().await, Value::Null, "the group has ended");
}

#[tokio::test]
async fn the_domain_is_a_name_for_the_callers_address_that_does_not_tell_it() {
    let mesh = Mesh::start().await;
    let ask = |forwarded: &str| {
        let caller = appsync::Caller::api_key(KEY).header("x-forwarded-for", forwarded);
        let mesh = &mesh;
        async move {
            let response = mesh_execute(mesh, "mutation { createDomain }", &caller).await;
            response["data"]["createDomain"].as_str().map(str::to_owned)
        }
    };
    let name = ask("203.0.113.9, 10.0.0.1").await.expect("a name");
    assert!(name.len() == 32 && name.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{name}");
    assert_eq!(ask("203.0.113.9, 10.0.0.2").await.as_deref(), Some(name.as_str()), "through another edge");
    assert_ne!(ask("203.0.113.8, 10.0.0.1").await.as_deref(), Some(name.as_str()));
    // What the client claims comes before what AppSync adds.
    assert_eq!(ask("198.51.100.7, 203.0.113.9, 10.0.0.1").await.as_deref(), Some(name.as_str()));
    assert_eq!(ask("nonsense").await, None);
    let another = Mesh::seeded(6).await;
    let caller = appsync::Caller::api_key(KEY).header("x-forwarded-for", "203.0.113.9, 10.0.0.1");
    let elsewhere = mesh_execute(&another, "mutation { createDomain }", &caller).await;
    assert_ne!(elsewhere["data"]["createDomain"], name, "each deployment has a key of its own");
}

async fn mesh_execute(mesh: &Mesh, query: &str, caller: &appsync::Caller) -> Value {
    mesh.api.execute(query, json!({}), caller).await.to_json()
}

#[tokio::test]
async fn a_conflict_in_the_store_is_a_retryable_error_of_its_own_type() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.db.faults().conflict();
    let (kind, message) = mesh.refused(REPORT, report(&group, "host-1", "1")).await;
    assert_eq!(kind, "Conflict");
    assert!(message.ends_with("Try again."), "{message}");
}
