//! Simultaneous requests: they leave in the table what one after the other would have left, and nothing of a group that has ended.

mod support;

use std::cell::RefCell;
use std::time::Duration;

use appsync::Response;
use futures::future::join_all;
use serde_json::{Value, json};
use support::*;
use testkit::faults::{Fault, Lag, Rule};
use testkit::interrupt;

fn kind(response: &Response) -> String {
    response.to_json()["errors"][0]["errorType"].as_str().unwrap_or_default().to_owned()
}

fn everything(mesh: &Mesh) -> Vec<Value> {
    mesh.db.items(mesh.db.table("MeshTable"))
}

#[tokio::test]
async fn fifty_simultaneous_creations_make_one_group_also_after_the_old_one_has_ended() {
    let mesh = Mesh::start().await;
    let old = mesh.create_group("host-1").await;
    mesh.clock.advance(Duration::from_secs(75));
    let groups = join_all((0..50).map(|_| mesh.create_group("host-1"))).await;
    assert!(groups.iter().all(|group| *group == groups[0] && *group != old), "{groups:?}");
    assert_eq!(mesh.items_of("NODE#host-1").len(), 2, "its membership, and it as a node of the new group");
}

#[tokio::test]
async fn creations_that_meet_conflicts_make_one_group() {
    let mesh = Mesh::start().await;
    mesh.db.faults().only(Rule::new(Fault::Conflict).on("TransactWriteItems").rate(0.4));
    let create = json!({"name": "class", "hostId": "host-1", "domain": DOMAIN});
    let answers = join_all((0..20).map(|_| mesh.execute(CREATE, create.clone()))).await;
    mesh.db.faults().heal();
    let group = mesh.create_group("host-1").await;
    for answer in &answers {
        if answer.is_ok() {
            assert_eq!(answer.data()["createGroup"]["id"], group.as_str());
        } else {
            assert_eq!(kind(answer), "Conflict");
        }
    }
    assert!(answers.iter().any(Response::is_ok));
    assert_eq!(mesh.items_of("#METADATA").len(), 1);
}

#[tokio::test]
async fn a_creation_whose_answers_are_lost_finds_the_group_that_it_made() {
    let mesh = Mesh::start().await;
    mesh.db.faults().only(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").calls(1..=1));
    let first = mesh.create_group("host-1").await;
    mesh.db.faults().heal();
    assert_eq!(mesh.create_group("host-1").await, first);
    assert_eq!(mesh.items_of("#METADATA").len(), 1);
}

#[tokio::test]
async fn a_host_that_joined_another_group_comes_back_as_a_member() {
    let mesh = Mesh::start().await;
    let (own, other) = (mesh.create_group("host-1").await, mesh.create_group("host-2").await);
    mesh.join(&other, "host-1").await;
    assert_eq!(mesh.refused(REPORT, report(&own, "host-1", "1")).await.0, "NodeNotFound");
    assert_eq!(mesh.create_group("host-1").await, own, "it is still its group");
    mesh.report(&own, "host-1", "1").await;
    assert_eq!(mesh.refused(REPORT, report(&other, "host-1", "1")).await.0, "NodeNotFound");
}

#[tokio::test]
async fn a_full_domain_refuses_new_groups_and_finds_the_old_ones() {
    let mesh = Mesh::start().await;
    let first = mesh.create_group("host-0").await;
    let create = |n: u32| json!({"name": "class", "hostId": format!("host-{n}"), "domain": DOMAIN});
    for n in 1..100 {
        let made = mesh.execute_from(n, CREATE, create(n)).await;
        assert!(made.is_ok(), "{}", made.to_json());
    }
    let (kind, message) = mesh.refused(CREATE, create(100)).await;
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("ValidationError", "The domain already has 100 groups, which is the maximum.")
    );
    assert_eq!(mesh.create_group("host-0").await, first);
    assert_eq!(mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await.as_array().map(Vec::len), Some(100));
}

#[tokio::test]
async fn a_full_group_refuses_new_members_and_takes_the_old_ones_again() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    for n in 0..100 {
        let joined = mesh.execute_from(n, JOIN, node(&group, &format!("node-{n}"))).await;
        assert!(joined.is_ok(), "{}", joined.to_json());
    }
    let (kind, message) = mesh.refused(JOIN, node(&group, "node-100")).await;
    assert_eq!(kind, "ValidationError");
    assert_eq!(message, "The group already has 100 members, which is the maximum.");
    mesh.join(&group, "node-7").await;
    mesh.ok(LEAVE, node(&group, "node-7")).await;
    mesh.join(&group, "node-100").await;
}

/// Dissolves the group while nodes join, leave, report and fire events, and strangers try to.
async fn dissolve_in_the_middle(mesh: &Mesh) {
    let group = mesh.create_group("host-1").await;
    join_all((0..8).map(|n| {
        let (mesh, group) = (mesh, &group);
        async move { mesh.join(group, &format!("node-{n}")).await }
    }))
    .await;
    let publish = (0..32).map(|n| {
        let mut said = report(&group, &format!("node-{}", n % 8), "1");
        if n % 2 == 0 {
            said["messageId"] = json!(format!("m-{n}"));
        }
        mesh.execute(REPORT, said)
    });
    let fire = (0..16).map(|n| mesh.execute(FIRE, events(&group, &format!("node-{}", n % 8), &["a", "b"])));
    let strangers = (0..8).map(|n| mesh.execute(REPORT, report(&group, &format!("stranger-{n}"), "1")));
    let join = (0..8).map(|n| mesh.execute(JOIN, node(&group, &format!("late-{n}"))));
    let leave = (0..2).map(|n| mesh.execute(LEAVE, node(&group, &format!("node-{n}"))));
    let dissolve = async {
        for _ in 0..20 {
            let answer = mesh.execute(DISSOLVE, host(&group, "host-1")).await;
            if answer.is_ok() {
                return;
            }
            assert!(["Conflict", "Unavailable"].contains(&kind(&answer).as_str()), "{}", answer.to_json());
        }
        panic!("it was never dissolved");
    };
    let (published, fired, refused, joined, left, ()) =
        tokio::join!(join_all(publish), join_all(fire), join_all(strangers), join_all(join), join_all(leave), dissolve);
    mesh.db.faults().heal();
    let known = ["", "GroupNotFound", "NodeNotFound", "Conflict", "Unavailable"];
    for answer in published.iter().chain(&fired).chain(&refused).chain(&joined).chain(&left) {
        assert!(known.contains(&kind(answer).as_str()), "{}", answer.to_json());
    }
    assert!(refused.iter().all(|answer| !answer.is_ok()), "strangers publish nothing");
    for query in [REPORT, FIRE, JOIN] {
        let mut late = report(&group, "node-1", "1");
        late["events"] = events(&group, "node-1", &["late"])["events"].clone();
        assert_eq!(mesh.refused(query, late).await.0, "GroupNotFound");
    }
}

#[tokio::test]
async fn dissolving_against_everything_leaves_nothing_behind() {
    let mesh = Mesh::start().await;
    for _ in 0..3 {
        dissolve_in_the_middle(&mesh).await;
        assert_eq!(everything(&mesh), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn dissolving_against_everything_with_conflicts_leaves_nothing_behind() {
    let mesh = Mesh::start().await;
    for seed in 0..3 {
        mesh.db.faults().seed(seed);
        // The group and its members are made in peace.
        let rule = Rule::new(Fault::Conflict).rate(0.1).calls(60..=100_000);
        mesh.db.faults().only(rule);
        dissolve_in_the_middle(&mesh).await;
        assert_eq!(everything(&mesh), Vec::<Value>::new(), "seed {seed}");
    }
}

#[tokio::test]
async fn dissolving_can_be_repeated_wherever_it_was_stopped() {
    struct World {
        mesh: Mesh,
        group: String,
        before: Vec<Value>,
    }
    let report = interrupt::at_every_call(
        async |outside| {
            let mesh = Mesh::within(outside).await;
            let group = mesh.create_group("host-1").await;
            for k in 0..2 {
                mesh.join(&group, &format!("node-{k}")).await;
                let mut said = report(&group, &format!("node-{k}"), "1");
                said["messageId"] = json!(format!("m-{k}"));
                mesh.ok(REPORT, said).await;
            }
            let before = everything(&mesh);
            World { mesh, group, before }
        },
        async |World { mesh, group, .. }| {
            let left = everything(mesh).len();
            let answer = mesh.execute(DISSOLVE, host(group, "host-1")).await;
            match kind(&answer).as_str() {
                "" => assert_eq!(
                    answer.data()["dissolveGroup"]["groupDissolve"]["groupId"],
                    group.as_str(),
                    "it notifies"
                ),
                // Only the answer was lost: nothing was left to dissolve.
                "GroupNotFound" => assert_eq!(left, 0),
                "Unavailable" => return Err("Unavailable"),
                other => panic!("{other}"),
            }
            Ok(())
        },
        async |World { mesh, group, before }| {
            if everything(mesh) != *before {
                let refused = mesh.refused(REPORT, self::report(group, "node-0", "2")).await.0;
                assert_eq!(refused, "GroupNotFound", "it has ended already");
                assert_eq!(mesh.refused(DISSOLVE, host(group, "node-0")).await.0, "GroupNotFound");
            }
        },
        async |World { mesh, .. }| assert_eq!(everything(mesh), Vec::<Value>::new()),
    )
    .await;
    assert!(report.stops > 2 * 15 && report.cuts > 2 * 15, "{report:?}");
}

#[tokio::test]
async fn creating_can_be_repeated_wherever_it_was_stopped() {
    struct World {
        mesh: Mesh,
        old: String,
        /// What was answered.
        group: RefCell<Value>,
    }
    let report = interrupt::at_every_call(
        async |outside| {
            let mesh = Mesh::within(outside).await;
            let old = mesh.create_group("host-1").await;
            mesh.clock.advance(Duration::from_secs(75)); // its host is silent
            World { mesh, old, group: RefCell::default() }
        },
        async |World { mesh, group, .. }| {
            let create = json!({"name": "class", "hostId": "host-1", "domain": DOMAIN});
            let answer = mesh.execute(CREATE, create).await;
            if !answer.is_ok() {
                assert_eq!(kind(&answer), "Unavailable");
                return Err("Unavailable");
            }
            group.replace(answer.data()["createGroup"]["id"].clone());
            Ok(())
        },
        async |_| {},
        async |World { mesh, old, group }| {
            let again = mesh.create_group("host-1").await;
            assert_eq!(*group.borrow(), again.as_str());
            assert_ne!(again, *old);
            mesh.report(&again, "host-1", "1").await;
            let living = mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await;
            assert_eq!(living.as_array().map(Vec::len), Some(1), "{living}");
        },
    )
    .await;
    assert!(report.stops > 2 * 4 && report.cuts > 2 * 4, "{report:?}");
}

#[tokio::test]
async fn dissolving_with_a_message_id_notifies_wherever_it_was_stopped() {
    struct World {
        mesh: Mesh,
        group: String,
    }
    let report = interrupt::at_every_call(
        async |outside| {
            let mesh = Mesh::within(outside).await;
            let group = mesh.create_group("host-1").await;
            mesh.join(&group, "node-1").await;
            mesh.report(&group, "node-1", "1").await;
            World { mesh, group }
        },
        async |World { mesh, group }| {
            let mut end = host(group, "host-1");
            end["messageId"] = json!("the end");
            let answer = mesh.execute(DISSOLVE, end).await;
            match kind(&answer).as_str() {
                "" => assert_eq!(answer.data()["dissolveGroup"]["groupId"], group.as_str(), "subscribers get it"),
                "Unavailable" => return Err("Unavailable"),
                other => panic!("{other}: nobody would be notified"),
            }
            Ok(())
        },
        async |_| {},
        async |World { mesh, .. }| assert_eq!(everything(mesh).len(), 1, "the record of the notice"),
    )
    .await;
    assert!(report.stops > 15 && report.cuts > 15, "{report:?}");
}

#[tokio::test]
async fn a_repeated_dissolution_is_recognised_by_its_message_id_and_notifies_again() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let mut end = host(&group, "host-1");
    end["messageId"] = json!("the end");
    let first = mesh.ok(DISSOLVE, end.clone()).await;
    assert_eq!((&first["groupId"], &first["messageId"]), (&json!(group), &json!("the end")));
    let again = mesh.ok(DISSOLVE, end.clone()).await;
    assert_eq!(again, first, "the same notice: the answer to the first call may have been lost");
    assert_eq!(everything(&mesh).len(), 1, "the record of it");
    mesh.clock.advance(Duration::from_secs(121));
    assert_eq!(mesh.refused(DISSOLVE, end).await.0, "GroupNotFound", "it is not kept for ever");
}

#[tokio::test]
async fn a_member_that_expires_while_publishing_publishes_nothing() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.clock.advance(Duration::from_secs(74));
    mesh.ok(RENEW, host(&group, "host-1")).await;
    mesh.report(&group, "node-1", "the last second").await;
    // The node expires after it has taken a number and before its message is written.
    let expires = async {
        mesh.db.must(
            "UpdateItem",
            &json!({
                "TableName": mesh.db.table("MeshTable"),
                "Key": {"pk": {"S": format!("GROUP#{group}@{DOMAIN}")}, "sk": {"S": "NODE#node-1"}},
                "UpdateExpression": "SET #ttl = :past", "ExpressionAttributeNames": {"#ttl": "ttl"},
                "ExpressionAttributeValues": {":past": {"N": "1"}},
            }),
        );
    };
    let answers = join_all((0..10).map(|_| mesh.execute(REPORT, report(&group, "node-1", "late"))));
    let (answers, ()) = tokio::join!(answers, expires);
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(answers.iter().all(|answer| answer.is_ok() || kind(answer) == "NodeNotFound"));
    assert_eq!(mesh.refused(REPORT, report(&group, "node-1", "later")).await.0, "NodeNotFound");
    let page = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 1})).await;
    let voids = page["voids"].as_array().map_or(0, Vec::len);
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(accepted), "{page}");
    assert_eq!(accepted + voids, 11, "each refused one left a void number, and no gap: {page}");
    assert_eq!(page["next"], page["head"]);
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_a_success_if_the_message_is_there() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    // The SDK repeats the request under its own token; only when every answer is lost does the resolver have to find out.
    mesh.db.faults().only(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").calls(1..=3));
    let answer = mesh.execute(REPORT, report(&group, "host-1", "1")).await;
    mesh.db.faults().heal();
    assert!(answer.is_ok(), "{}", answer.to_json());
    let page = mesh.ok(MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 0})).await;
    assert_eq!((page["messages"].as_array().map(Vec::len), &page["voids"]), (Some(1), &json!([])), "{page}");
}

#[tokio::test]
async fn conflicts_are_conflicts_and_outages_are_outages() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    let operations = [
        (CREATE, json!({"name": "class", "hostId": "host-2", "domain": DOMAIN})),
        (JOIN, node(&group, "node-2")),
        (LEAVE, node(&group, "node-1")),
        (BEAT, node(&group, "node-1")),
        (RENEW, host(&group, "host-1")),
        (REPORT, report(&group, "node-1", "1")),
        (FIRE, events(&group, "node-1", &["a"])),
        (RECORD, events(&group, "node-1", &["a"])),
        (DISSOLVE, host(&group, "host-1")),
    ];
    for (query, variables) in &operations {
        mesh.db.faults().conflict();
        let (kind, message) = mesh.refused(query, variables.clone()).await;
        assert_eq!((kind.as_str(), message.ends_with("Try again.")), ("Conflict", true), "{query}: {message}");
        mesh.db.faults().only(Rule::new(Fault::Error));
        let (kind, message) = mesh.refused(query, variables.clone()).await;
        assert_eq!((kind.as_str(), message.ends_with("Try again.")), ("Unavailable", true), "{query}: {message}");
        mesh.db.faults().heal();
    }
}

/// Messages as the resolver writes them: those in `events` and `voids` took their number as events, the others are reports.
fn fill(mesh: &Mesh, group: &str, from: u64, to: u64, events: &[u64], voids: &[u64]) {
    fill_with(mesh, group, (from, to), events, voids, &json!({"NULL": true}));
}

fn fill_with(mesh: &Mesh, group: &str, (from, to): (u64, u64), events: &[u64], voids: &[u64], report: &Value) {
    let at = mesh.clock.now_ms();
    let text = |text: &str| json!({ "S": text });
    let number = |number: u64| json!({ "N": number.to_string() });
    let mut last_event = from - 1;
    for sequence in from..=to {
        let (is_event, is_void) = (events.contains(&sequence), voids.contains(&sequence));
        if is_event || is_void {
            last_event = sequence;
        }
        let kind = if is_void {
            "void"
        } else if is_event {
            "events"
        } else {
            "status"
        };
        let name = text(&format!("event {sequence}"));
        let events = json!({"M": {"events": {"L": [{"M": {"name": name, "firedByNodeId": text("host-1"),
            "groupId": text(group), "domain": text(DOMAIN), "timestamp": text("2026-01-01T00:00:00.000Z")}}]}}});
        mesh.db.must(
            "PutItem",
            &json!({"TableName": mesh.db.table("MeshTable"), "Item": {
                "pk": text(&format!("GROUP#{group}@{DOMAIN}")), "sk": text(&format!("MESSAGE#{sequence:012}")),
                "kind": text(kind), "sequence": number(sequence), "at": number(at), "ttl": number(at / 1000 + 120),
                "lastEvent": number(last_event), "message": if is_event { &events } else { report },
            }}),
        );
    }
    mesh.db.must(
        "UpdateItem",
        &json!({
            "TableName": mesh.db.table("MeshTable"),
            "Key": {"pk": text(&format!("DOMAIN#{DOMAIN}")), "sk": text(&format!("GROUP#{group}#METADATA"))},
            "UpdateExpression": "SET #s = :head, eventSequence = :last",
            "ExpressionAttributeNames": {"#s": "sequence"},
            "ExpressionAttributeValues": {":head": number(to), ":last": number(last_event)},
        }),
    );
}

/// Asks for events until there are no more, as a client that polls: their names, and how many answers it took.
async fn poll(mesh: &Mesh, group: &str, since: &str) -> (Vec<String>, u64) {
    let (mut since, mut names, mut answers) = (since.to_owned(), Vec::new(), 0);
    loop {
        let found = mesh.ok(EVENTS_SINCE, json!({"groupId": group, "domain": DOMAIN, "since": since})).await;
        let found = found.as_array().expect("a list").clone();
        answers += 1;
        match found.last() {
            Some(last) => since = last["cursor"].as_str().expect("a cursor").to_owned(),
            None => return (names, answers),
        }
        names.extend(found.iter().filter_map(|event| Some(event["name"].as_str()?.to_owned())));
    }
}

#[tokio::test]
async fn events_are_found_however_many_reports_lie_between_them() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let first = mesh.ok(RECORD, events(&group, "host-1", &["first"])).await;
    let first = first["nextSince"].as_str().expect("a cursor");
    fill(&mesh, &group, 2, 2_600, &[], &[]);
    mesh.db.reset_calls();
    assert_eq!(poll(&mesh, &group, first).await.0, [] as [&str; 0]);
    assert!(mesh.db.calls().of("Query") <= 1, "nothing new: {:?}", mesh.db.calls());
    mesh.ok(RECORD, events(&group, "host-1", &["second"])).await;
    assert_eq!(poll(&mesh, &group, first).await.0, ["second"]);
    assert_eq!(poll(&mesh, &group, "2025-12-31T00:00:00Z").await.0, ["first", "second"]);
    // Messages that are no longer kept are not read, though they are still in the table.
    mesh.clock.advance(Duration::from_secs(60));
    mesh.ok(RENEW, host(&group, "host-1")).await;
    mesh.clock.advance(Duration::from_secs(70));
    mesh.ok(RENEW, host(&group, "host-1")).await;
    mesh.ok(RECORD, events(&group, "host-1", &["third"])).await;
    mesh.db.reset_calls();
    assert_eq!(poll(&mesh, &group, "2025-12-31T00:00:00Z").await, (vec!["third".to_owned()], 2));
    assert_eq!(mesh.db.calls().of("Query"), 2, "one per answer: {:?}", mesh.db.calls());
}

#[tokio::test]
async fn who_is_far_behind_gets_the_oldest_events_first_and_none_is_skipped() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let first = mesh.ok(RECORD, events(&group, "host-1", &["event 1"])).await;
    // What a class of forty keeps. Some publishes of events were refused.
    fill(&mesh, &group, 2, 9_600, &[40, 41, 4_000, 9_000, 9_600], &[2_000, 6_000]);
    let all = ["event 1", "event 40", "event 41", "event 4000", "event 9000", "event 9600"];
    for (since, expected) in [("2025-12-31T00:00:00Z", &all[..]), (first["nextSince"].as_str().unwrap(), &all[1..])] {
        mesh.db.reset_calls();
        let (names, answers) = poll(&mesh, &group, since).await;
        assert_eq!(names, expected, "since {since}");
        let (queries, seeks) = (mesh.db.calls().of("Query"), mesh.db.calls().of("BatchGetItem"));
        assert!(queries <= 3 * answers && seeks <= 2 * answers, "{queries} and {seeks} calls for {answers} answers");
    }
}

#[tokio::test]
async fn an_event_is_found_behind_reports_that_fill_many_pages() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    // Eight megabytes. A page of DynamoDB has one.
    fill_with(&mesh, &group, (1, 41), &[41], &[], &json!({"S": "x".repeat(200_000)}));
    for since in ["2025-12-31T00:00:00Z", "000000000001:000"] {
        assert_eq!(poll(&mesh, &group, since).await.0, ["event 41"], "since {since}");
    }
}

#[tokio::test]
async fn an_answer_without_events_never_hides_that_not_everything_was_read() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    // More refused publishes, far from each other, than one answer can pass.
    fill(&mesh, &group, 1, 9_600, &[9_600], &[1, 1_500, 3_000, 4_500, 6_000, 7_500]);
    let ask = json!({"groupId": group, "domain": DOMAIN, "since": "000000000001:000"});
    let (kind, message) = mesh.refused(EVENTS_SINCE, ask).await;
    assert_eq!(kind, "Unavailable");
    assert_eq!(message, "There are too many messages before the next event. Ask again later, or use getMessagesSince.");
}

#[tokio::test]
async fn groups_that_ended_long_ago_do_not_hide_the_living_ones() {
    let mesh = Mesh::start().await;
    for n in 0..1_100 {
        let id = format!("old-{n}");
        mesh.db.must(
            "PutItem",
            &json!({"TableName": mesh.db.table("MeshTable"), "Item": {
                "pk": {"S": format!("DOMAIN#{DOMAIN}")}, "sk": {"S": format!("GROUP#{id}#METADATA")},
                "GSI1PK": {"S": format!("DOMAIN#{DOMAIN}")}, "GSI1SK": {"S": format!("GROUP#2025-12-31T12:00:00.{n:04}Z")},
                "groupId": {"S": id}, "domain": {"S": DOMAIN}, "expiresAt": {"N": "1"}, "hostFreshUntil": {"N": "1"},
            }}),
        );
    }
    let group = mesh.create_group("host-1").await;
    let listed = mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await;
    assert_eq!(listed, json!([{"id": group, "name": "class", "hostId": "host-1"}]));
}

#[tokio::test]
async fn an_index_that_lags_hides_a_new_group_for_a_moment_and_nothing_else() {
    let mesh = Mesh::start().await;
    mesh.db.faults().lag_indexes(Some(Lag::Calls(12)));
    let group = mesh.create_group("host-1").await;
    assert_eq!(mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await, json!([]), "not listed yet");
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "20").await;
    for _ in 0..12 {
        mesh.ok(GET_GROUP, of(&group)).await;
    }
    assert_eq!(mesh.ok(LIST_GROUPS, json!({"domain": DOMAIN})).await.as_array().map(Vec::len), Some(1));
    assert_eq!(mesh.ok(LIST_STATUSES, of(&group)).await.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_node_that_left_or_expired_has_no_status() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "20").await;
    let status = json!({"nodeId": "node-1", "domain": DOMAIN});
    assert_eq!(mesh.ok(GET_STATUS, status.clone()).await["nodeId"], "node-1");
    mesh.clock.advance(Duration::from_secs(74));
    mesh.ok(RENEW, host(&group, "host-1")).await;
    mesh.clock.advance(Duration::from_secs(1));
    assert_eq!(mesh.ok(GET_STATUS, status.clone()).await, Value::Null, "expired, and invisible at once");
    mesh.join(&group, "node-1").await;
    mesh.report(&group, "node-1", "21").await;
    mesh.clock.advance(Duration::from_secs(74));
    assert_eq!(mesh.ok(GET_STATUS, status).await, Value::Null, "its group is over");
}

#[tokio::test]
async fn services_of_the_account_come_with_iam() {
    let mesh = Mesh::start().await;
    let service = appsync::Caller::iam(appsync::IamCaller::role("123456789012", "reporting"));
    let group = mesh.create_group("host-1").await;
    for (query, variables) in [
        (GET_GROUP, of(&group)),
        (LIST_NODES, of(&group)),
        (REPORT, report(&group, "host-1", "1")),
        (LIST_STATUSES, of(&group)),
        (MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 0})),
        (DISSOLVE, host(&group, "host-1")),
    ] {
        let answer = mesh.api.execute(query, variables, &service).await;
        assert!(answer.is_ok(), "{query}: {}", answer.to_json());
    }
}
