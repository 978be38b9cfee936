//! Every resolver file by itself, in the engine: what it asks of DynamoDB, what it makes of the answer, what it refuses. The requests
//! are snapshots, so that a change of the table's traffic is seen in a review.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use appsync::engine::Ending;
use function::item::text;
use ichido::dynamodb::item::{self, attr};
use ichido::{State, dynamodb};
use serde_json::{Value, json};
use support::{DOMAIN, Mesh};

/// 2026-01-01T00:00:00Z, when the tests' clock begins.
const NOW: u64 = 1_767_225_600;

/// Every case of every file: (file, handler, claim, ctx).
fn cases() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let mut cases = Vec::new();
    cases.extend(steps());
    cases.extend(message_steps());
    cases.extend(queries());
    cases.extend(mutations());
    cases
}

type Case = (&'static str, &'static str, &'static str, Value);

fn group() -> Value {
    json!({
        "groupId": "g1", "domain": DOMAIN, "name": "class", "hostId": "host-1", "createdAt": "2026-01-01T00:00:00.000Z",
        "expiresAt": NOW + 600, "hostFreshUntil": NOW + 75, "useWebSocket": true, "sequence": 7, "sequencedAt": (NOW - 1) * 1000,
    })
}

fn secured() -> Value {
    with(group(), json!({"secured": true, "hostSecret": "the secret of the host"}))
}

fn ended() -> Value {
    let mut group = group();
    group["hostFreshUntil"] = json!(NOW);
    group
}

fn args() -> Value {
    json!({"groupId": "g1", "domain": DOMAIN, "nodeId": "node-1", "hostId": "host-1"})
}

fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

fn failed(kind: &str) -> Value {
    json!({"type": format!("DynamoDB:{kind}"), "message": "of no concern to a client"})
}

fn cancelled(reasons: &[&str]) -> Value {
    let reasons: Vec<_> = reasons.iter().map(|reason| json!({"type": reason, "message": ""})).collect();
    json!({"keys": null, "cancellationReasons": reasons})
}

fn status_message() -> Value {
    json!({"nodeId": "node-1", "groupId": "g1", "domain": DOMAIN, "timestamp": "2026-01-01T00:00:00.000Z",
           "data": [{"key": "temperature", "value": "20"}]})
}

fn events_message() -> Value {
    let event = |name: &str| {
        json!({"name": name, "firedByNodeId": "node-1", "groupId": "g1", "domain": DOMAIN, "payload": "{}",
               "timestamp": "2026-01-01T00:00:00.123Z"})
    };
    json!({"firedByNodeId": "node-1", "groupId": "g1", "domain": DOMAIN, "timestamp": "2026-01-01T00:00:00.000Z",
           "events": [event("start"), event("stop")]})
}

/// What `checkMessageId.js` leaves in the stash for `writeMessage.js`, in the library's own names.
fn record(message_id: &str) -> Value {
    let key = json!({"pk": format!("GROUP#g1@{DOMAIN}"), "sk": format!("PUBLISHED#node-1#{message_id}")});
    let names = json!({"format": attr::FORMAT, "state": attr::STATE, "owner": attr::OWNER, "fence": attr::FENCE,
                       "updatedAt": attr::UPDATED_AT, "outcome": attr::OUTCOME});
    json!({ "key": key, "names": names })
}

fn item(kind: &str, sequence: u64, age_ms: u64) -> Value {
    let message = match kind {
        "status" => status_message(),
        "events" => events_message(),
        _ => Value::Null,
    };
    json!({"kind": kind, "sequence": sequence, "message": message, "messageId": null, "at": NOW * 1000 - age_ms, "ttl": NOW + 60})
}

/// The steps that look at groups and members.
fn steps() -> Vec<Case> {
    let file = "functions/checkGroupExists.js";
    let mut cases = vec![
        (file, "request", "reads the group consistently", json!({"args": args()})),
        (file, "response", "alive", json!({"args": args(), "result": group()})),
        (file, "response", "its host is silent", json!({"args": args(), "result": ended()})),
        (
            file,
            "response",
            "its time is over",
            json!({"args": args(), "result": with(group(), json!({"expiresAt": NOW}))}),
        ),
        (
            file,
            "response",
            "it is being dissolved",
            json!({"args": args(), "result": with(group(), json!({"expiresAt": 0, "dissolvedAt": NOW}))}),
        ),
        (file, "response", "not there", json!({"args": args(), "result": null})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("InternalServerError")})),
    ];
    let file = "functions/readGroup.js";
    cases.extend([
        (file, "request", "reads the group consistently", json!({"args": args()})),
        (file, "response", "there", json!({"args": args(), "result": secured()})),
        (file, "response", "not there", json!({"args": args(), "result": null})),
        (
            file,
            "response",
            "not there, and a secret was given",
            json!({"args": with(args(), json!({"secret": "s"})), "result": null}),
        ),
        (file, "response", "over, and not secured", json!({"args": args(), "result": ended()})),
        (
            file,
            "response",
            "secured, and its host is silent",
            json!({"args": args(), "result": with(secured(), json!({"hostFreshUntil": NOW}))}),
        ),
        (
            file,
            "response",
            "secured, and its time is over",
            json!({"args": args(), "result": with(secured(), json!({"expiresAt": NOW}))}),
        ),
        (
            file,
            "response",
            "secured, and being dissolved",
            json!({"args": args(), "result": with(secured(), json!({"expiresAt": 0, "dissolvedAt": NOW}))}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/checkSecret.js";
    let asked = |secret: Value, group: Value| json!({"args": with(args(), json!({"secret": secret})), "stash": {"group": group}, "prev": {"result": "before"}});
    let pupil = "the secret of a pupil";
    let stashed = |more: Value| {
        let mut asked = asked(json!(pupil), secured());
        asked["stash"] = with(asked["stash"].clone(), more);
        asked
    };
    cases.extend([
        (file, "request", "not secured", asked(Value::Null, group())),
        (file, "request", "no group", json!({"args": args(), "stash": {}, "prev": {"result": null}})),
        (file, "request", "no secret", asked(Value::Null, secured())),
        (file, "request", "an empty secret", asked(json!(""), secured())),
        (file, "request", "the host", asked(json!("the secret of the host"), secured())),
        (file, "request", "a member", stashed(json!({"reader": "node-1"}))),
        (file, "request", "a member on the second page", stashed(json!({"reader": "node-1", "more": "token"}))),
        (file, "request", "nobody", stashed(json!({"isNobodys": true}))),
        (file, "request", "nobody on the second page", stashed(json!({"isNobodys": true, "more": "token"}))),
        (file, "request", "there are more pages", stashed(json!({"more": "token"}))),
        (file, "request", "nobody looked", stashed(json!({}))),
        (file, "response", "passes on", asked(json!(pupil), secured())),
    ]);
    let file = "functions/findMember.js";
    let found = |result: Value| with(stashed(json!({})), json!({ "result": result }));
    cases.extend([
        (file, "request", "not secured: no query", asked(Value::Null, group())),
        (file, "request", "no group", json!({"args": args(), "stash": {}, "prev": {"result": null}})),
        (file, "request", "no secret", asked(Value::Null, secured())),
        (file, "request", "the host: no query", asked(json!("the secret of the host"), secured())),
        (file, "request", "looks for its member", asked(json!(pupil), secured())),
        (file, "request", "goes on", stashed(json!({"more": "token"}))),
        (file, "request", "has found it", stashed(json!({"reader": "node-1"}))),
        (file, "request", "there is none", stashed(json!({"isNobodys": true, "more": "token"}))),
        (file, "response", "a member", found(json!({"items": [{"nodeId": "node-1"}], "nextToken": "token"}))),
        (file, "response", "nobody", found(json!({"items": [], "nextToken": null}))),
        (file, "response", "there is more", found(json!({"items": [], "nextToken": "token"}))),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/checkStanding.js";
    let tables = |group: Value, node: Value| json!({"data": {"MeshV2Table": [group, node]}});
    let status = with(status_message(), json!({"ttl": NOW + 600}));
    let stash = json!({ "status": status, "domain": DOMAIN });
    let node = json!({"nodeId": "node-1", "ttl": NOW + 10});
    let expired = json!({"nodeId": "node-1", "ttl": NOW});
    let no_group = json!({"domain": DOMAIN, "nodeId": "node-1"});
    cases.extend([
        (file, "request", "reads group and node", json!({"args": args(), "stash": stash})),
        (file, "request", "the status says which group", json!({"args": no_group, "stash": stash})),
        (
            file,
            "request",
            "without a domain the last group",
            json!({"args": {"nodeId": "node-1"}, "stash": with(stash.clone(), json!({"formerGroupId": "g2"}))}),
        ),
        (file, "request", "no status and no group", json!({"args": no_group, "stash": {"status": null, "domain": DOMAIN}})),
        (
            file,
            "response",
            "a member",
            json!({"args": args(), "stash": stash, "result": tables(group(), node.clone())}),
        ),
        (
            file,
            "response",
            "an expired one",
            json!({"args": args(), "stash": stash, "result": tables(group(), expired)}),
        ),
        (
            file,
            "response",
            "the group is over",
            json!({"args": args(), "stash": stash, "result": tables(ended(), node.clone())}),
        ),
        (
            file,
            "response",
            "the status's group is over",
            json!({"args": no_group, "stash": stash, "result": tables(Value::Null, node)}),
        ),
        (
            file,
            "response",
            "a part was not read",
            json!({"args": args(), "stash": stash, "result": {"data": {"MeshV2Table": [group(), null]}, "unprocessedKeys": {"MeshV2Table": [{}]}}}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "stash": stash, "error": failed("Throttling")})),
    ]);
    let file = "functions/extendHost.js";
    cases.extend([
        (file, "request", "extends what is fresh", json!({"args": args(), "stash": {"group": group()}})),
        (
            file,
            "request",
            "not the host",
            json!({"args": with(args(), json!({"hostId": "node-1"})), "stash": {"group": group()}}),
        ),
        (
            file,
            "request",
            "a secured group, without its secret",
            json!({"args": args(), "stash": {"group": secured()}}),
        ),
        (
            file,
            "request",
            "a secured group",
            json!({"args": with(args(), json!({"secret": "the secret of the host"})), "stash": {"group": secured()}}),
        ),
        (file, "response", "extended", json!({"args": args(), "stash": {"group": group()}, "result": group()})),
        (
            file,
            "response",
            "ended meanwhile",
            json!({"args": args(), "error": failed("ConditionalCheckFailedException")}),
        ),
        (file, "response", "a conflict", json!({"args": args(), "error": failed("TransactionConflictException")})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("InternalServerError")})),
    ]);
    let file = "functions/listMembers.js";
    let nodes = |next: Value| json!({"items": [{"nodeId": "node-1", "ttl": NOW + 1}, {"nodeId": "host-1", "ttl": NOW + 1, "isHidden": true}], "nextToken": next});
    let half = json!({"members": [{"nodeId": "node-0"}], "moreMembers": "token", "memberPages": 1});
    let whole = json!({"members": [{"nodeId": "node-0"}], "moreMembers": null, "memberPages": 1});
    cases.extend([
        (file, "request", "reads the living nodes", json!({"args": args()})),
        (file, "request", "goes on", json!({"args": args(), "stash": half})),
        (file, "request", "has read all", json!({"args": args(), "stash": whole})),
        (file, "response", "the visible ones", json!({"args": args(), "result": nodes(Value::Null)})),
        (file, "response", "there is more", json!({"args": args(), "result": nodes(json!("token"))})),
        (file, "response", "the second page", json!({"args": args(), "stash": half, "result": nodes(Value::Null)})),
        (file, "response", "too many pages", json!({"args": args(), "stash": half, "result": nodes(json!("token"))})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/listStatuses.js";
    let statuses = json!({"items": [
        {"nodeId": "node-1", "ttl": NOW + 1}, {"nodeId": "node-1b", "ttl": NOW}, {"nodeId": "node-2", "ttl": NOW + 1},
    ], "nextToken": null});
    let members = json!({"members": [{"nodeId": "node-1"}, {"nodeId": "node-1b"}]});
    cases.extend([
        (file, "request", "a query on the index", json!({"args": args()})),
        (
            file,
            "request",
            "the next page",
            json!({"args": args(), "stash": {"moreStatuses": "token", "statusPages": 1}}),
        ),
        (
            file,
            "request",
            "there is no more",
            json!({"args": args(), "stash": {"moreStatuses": null, "statusPages": 1}, "prev": {"result": [{"nodeId": "node-1"}]}}),
        ),
        (file, "response", "of members only", json!({"args": args(), "stash": members, "result": statuses})),
        (
            file,
            "response",
            "after those of the page before",
            json!({"args": args(), "stash": with(members.clone(), json!({"statusPages": 1})), "prev": {"result": [{"nodeId": "node-0"}]}, "result": statuses}),
        ),
        (
            file,
            "response",
            "more than one answer can hold",
            json!({"args": args(), "stash": with(members.clone(), json!({"statusPages": 1})), "result": with(statuses.clone(), json!({"nextToken": "token"}))}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/putMember.js";
    let stash = |former: Value| json!({"group": group(), "members": [], "formerGroupId": former});
    let full: Vec<_> = (0..100).map(|n| json!({"nodeId": format!("n{n}")})).collect();
    let many: Vec<_> = (0..80).map(|n| json!({"nodeId": format!("n{n}"), "caller": "203.0.113.9"})).collect();
    let crowded = json!({"group": group(), "members": full, "formerGroupId": null});
    cases.extend([
        (file, "request", "a new node", json!({"args": args(), "stash": stash(Value::Null)})),
        (file, "request", "again", json!({"args": args(), "stash": stash(json!("g1"))})),
        (file, "request", "from another group", json!({"args": args(), "stash": stash(json!("g0"))})),
        (file, "request", "from a secured group", json!({"args": args(), "stash": with(stash(json!("g0")), json!({"leftGroupId": "g0"}))})),
        (
            file,
            "request",
            "from a secured group that is over",
            json!({"args": args(), "stash": with(stash(json!("g0")), json!({"leftGroupId": "g0", "formerIsOver": true}))}),
        ),
        (
            file,
            "request",
            "the host",
            json!({"args": with(args(), json!({"nodeId": "host-1", "nodeName": "Teacher"})), "stash": stash(Value::Null)}),
        ),
        (
            file,
            "request",
            "an id with the marks of keys",
            json!({"args": with(args(), json!({"nodeId": "a@b%c"})), "stash": stash(Value::Null)}),
        ),
        (file, "request", "a full group", json!({"args": args(), "stash": crowded})),
        (
            file,
            "request",
            "too many of one caller",
            json!({"args": args(), "stash": {"group": group(), "members": many, "formerGroupId": null}, "request": {"headers": {"x-forwarded-for": "198.51.100.7, 203.0.113.9, 10.0.0.1"}}}),
        ),
        (
            file,
            "request",
            "a secured group, with a secret of its own",
            json!({"args": with(args(), json!({"secret": "the secret of a pupil"})), "stash": {"group": secured(), "members": [], "formerGroupId": "g0"}}),
        ),
        (
            file,
            "request",
            "a secret too short",
            json!({"args": with(args(), json!({"secret": "short"})), "stash": {"group": secured(), "members": [], "formerGroupId": null}}),
        ),
        (
            file,
            "request",
            "as the host, without its secret",
            json!({"args": with(args(), json!({"nodeId": "host-1"})), "stash": {"group": secured(), "members": [], "formerGroupId": null}}),
        ),
        (
            file,
            "response",
            "somebody else is this node",
            json!({"args": args(), "error": failed("TransactionCanceledException"), "result": cancelled(&["None", "None", "ConditionalCheckFailed"])}),
        ),
        (file, "response", "a member", json!({"args": args(), "prev": {"result": "before"}, "result": {"keys": []}})),
        (
            file,
            "response",
            "the group ended meanwhile",
            json!({"args": args(), "error": failed("TransactionCanceledException"), "result": cancelled(&["ConditionalCheckFailed", "None", "None"])}),
        ),
        (
            file,
            "response",
            "another join was faster",
            json!({"args": args(), "error": failed("TransactionCanceledException"), "result": cancelled(&["None", "ConditionalCheckFailed", "None"])}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("InternalServerError")})),
    ]);
    let file = "functions/readLatest.js";
    let anywhere = json!({"nodeId": "a@b%c"});
    cases.extend([
        (file, "request", "a domain was asked for", json!({"args": args()})),
        (file, "request", "reads the last group", json!({"args": anywhere})),
        (file, "response", "it", json!({"args": anywhere, "result": {"groupId": "g1", "domain": DOMAIN}})),
        (file, "response", "nobody", json!({"args": anywhere, "result": null})),
        (file, "response", "the store fails", json!({"args": anywhere, "error": failed("Throttling")})),
    ]);
    let file = "functions/readMembership.js";
    cases.extend([
        (file, "request", "reads the membership", json!({"args": args()})),
        (file, "response", "in a group", json!({"args": args(), "result": {"groupId": "g0"}})),
        (file, "response", "in a secured group", json!({"args": args(), "result": {"groupId": "g0", "secured": true}})),
        (
            file,
            "response",
            "in this group, which is secured",
            json!({"args": args(), "result": {"groupId": "g1", "secured": true}}),
        ),
        (
            file,
            "response",
            "in this group, from a secured one",
            json!({"args": args(), "result": {"groupId": "g1", "leftGroupId": "g0"}}),
        ),
        (file, "response", "in none", json!({"args": args(), "result": null})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/checkFormer.js";
    let former = |more: Value| {
        let stash = json!({"formerGroupId": "g0", "formerIsSecured": true});
        with(json!({"args": args(), "stash": stash, "prev": {"result": "before"}}), more)
    };
    cases.extend([
        (file, "request", "reads the group that the node was in", former(json!({}))),
        (
            file,
            "request",
            "this group is read already",
            former(json!({"stash": {"formerGroupId": "g1", "formerIsSecured": true}})),
        ),
        (file, "request", "a group that is not secured", former(json!({"stash": {"formerGroupId": "g0"}}))),
        (file, "response", "alive", former(json!({"result": secured()}))),
        (file, "response", "its host is silent", former(json!({"result": ended()}))),
        (file, "response", "its time is over", former(json!({"result": with(secured(), json!({"expiresAt": NOW}))}))),
        (file, "response", "it is deleted", former(json!({"result": null}))),
        (file, "response", "the store fails", former(json!({"error": failed("Throttling")}))),
    ]);
    let file = "functions/readStatus.js";
    cases.extend([
        (
            file,
            "request",
            "reads the status",
            json!({"args": with(args(), json!({"nodeId": "a@b%c"})), "stash": {"domain": DOMAIN}}),
        ),
        (file, "response", "there", json!({"args": args(), "result": status_message()})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("Throttling")})),
    ]);
    let file = "functions/updateNodeTTL.js";
    let stash = json!({ "group": group() });
    cases.extend([
        (file, "request", "five heartbeats", json!({"args": args(), "stash": stash})),
        (
            file,
            "request",
            "never beyond the group",
            json!({"args": args(), "stash": {"group": with(group(), json!({"expiresAt": NOW + 10}))}}),
        ),
        (
            file,
            "request",
            "the host lives with its group",
            json!({"args": with(args(), json!({"nodeId": "host-1"})), "stash": stash}),
        ),
        (file, "response", "alive", json!({"args": args(), "result": {"ttl": NOW + 75}})),
        (file, "response", "no member", json!({"args": args(), "error": failed("ConditionalCheckFailedException")})),
        (
            file,
            "response",
            "a wrong secret",
            json!({"args": args(), "result": {"ttl": NOW + 1, "memberSecret": "s"}, "error": failed("ConditionalCheckFailedException")}),
        ),
        (file, "response", "a conflict", json!({"args": args(), "error": failed("TransactionConflictException")})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("InternalServerError")})),
    ]);
    cases
}

/// The step that checks the bounds of arguments and of messages.
fn bounds() -> Vec<Case> {
    let file = "functions/checkBounds.js";
    let of = |more: Value| json!({ "args": with(args(), more) });
    let message = |kind: &str, size: usize, selected: &[&str]| {
        let message = json!({"data": "x".repeat(size)});
        json!({"args": args(), "stash": {"kind": kind, "message": message}, "info": {"fieldName": "", "selectionSetList": selected}})
    };
    vec![
        (file, "request", "well formed", of(json!({"nodeName": "Teacher", "messageId": "m-1"}))),
        (file, "request", "what is not an argument of the operation", json!({"args": {"domain": DOMAIN}})),
        (file, "request", "a domain too long", of(json!({"domain": "x".repeat(257)}))),
        (file, "request", "a domain of any script", of(json!({"domain": "𠮷".repeat(256)}))),
        (file, "request", "no domain", of(json!({"domain": ""}))),
        (file, "request", "no group id", of(json!({"groupId": ""}))),
        (file, "request", "no node", of(json!({"nodeId": ""}))),
        (file, "request", "a node's id too long", of(json!({"nodeId": "x".repeat(129)}))),
        (file, "request", "a name too long", of(json!({"nodeName": "x".repeat(129)}))),
        (file, "request", "a messageId too long", of(json!({"messageId": "m".repeat(101)}))),
        (file, "request", "neither name nor messageId", of(json!({"nodeName": "", "messageId": null}))),
        (file, "request", "a report in one form", message("status", 130_000, &["nodeStatus", "events"])),
        (file, "request", "a report too large for its two forms", message("status", 130_000, &["nodeStatus", "data"])),
        (file, "request", "events in one form", message("events", 130_000, &["events", "data"])),
        (
            file,
            "request",
            "events too large for their two forms",
            message("events", 130_000, &["batchEvent", "events"]),
        ),
        (file, "request", "events too large in any form", message("events", 240_000, &["sequence"])),
        (file, "response", "leaves the answer to others", json!({"args": args(), "prev": {"result": "before"}})),
    ]
}

/// The steps of publishing and of reading the stream.
fn message_steps() -> Vec<Case> {
    let mut cases = bounds();
    let file = "functions/checkMessageId.js";
    let known = |outcome: Value, ttl: u64| json!({attr::OUTCOME: outcome.to_string(), "ttl": ttl});
    let first = with(status_message(), json!({"kind": "status", "sequence": 5}));
    let stash = json!({"kind": "status", "message": status_message()});
    let other = with(first.clone(), json!({"data": []}));
    let prev = json!({"result": "before"});
    cases.extend([
        (file, "request", "nothing to recognise it by", json!({"args": args()})),
        (
            file,
            "request",
            "reads the record",
            json!({"args": with(args(), json!({"messageId": "m#1", "nodeId": "a#b"}))}),
        ),
        (file, "response", "new", json!({"args": args(), "stash": stash, "prev": prev, "result": null})),
        (
            file,
            "response",
            "seen",
            json!({"args": args(), "stash": stash, "prev": prev, "result": known(first.clone(), NOW + 1)}),
        ),
        (
            file,
            "response",
            "forgotten",
            json!({"args": args(), "stash": stash, "prev": prev, "result": known(first, NOW)}),
        ),
        (
            file,
            "response",
            "other data",
            json!({"args": args(), "stash": stash, "prev": prev, "result": known(other, NOW + 1)}),
        ),
        (
            file,
            "response",
            "another kind",
            json!({"args": args(), "stash": stash, "prev": prev, "result": known(with(events_message(), json!({"kind": "events"})), NOW + 1)}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "stash": stash, "error": failed("Throttling")})),
    ]);
    let file = "functions/takeSequence.js";
    cases.extend([
        (file, "request", "a report", json!({"args": args(), "stash": {"kind": "status"}})),
        (file, "request", "events", json!({"args": args(), "stash": {"kind": "events"}})),
        (
            file,
            "request",
            "with a secret",
            json!({"args": with(args(), json!({"secret": "s"})), "stash": {"kind": "status"}}),
        ),
        (
            file,
            "response",
            "a secured group, without a secret",
            json!({"args": args(), "result": secured(), "error": failed("ConditionalCheckFailedException")}),
        ),
        (file, "request", "a repeated publish takes none", json!({"args": args(), "stash": {"replay": {}}})),
        (file, "response", "taken", json!({"args": args(), "result": group()})),
        (
            file,
            "response",
            "the group is over",
            json!({"args": args(), "result": ended(), "error": failed("ConditionalCheckFailedException")}),
        ),
        (
            file,
            "response",
            "there is no group",
            json!({"args": args(), "result": null, "error": failed("ConditionalCheckFailedException")}),
        ),
        (file, "response", "a conflict", json!({"args": args(), "error": failed("TransactionConflictException")})),
        (file, "response", "the store fails", json!({"args": args(), "error": failed("InternalServerError")})),
    ]);
    let file = "functions/writeMessage.js";
    let status = json!({"kind": "status", "message": status_message(), "group": group(), "sequence": 8});
    let events = json!({"kind": "events", "message": events_message(), "group": group(), "sequence": 9});
    let cancel = |reasons: &[&str]| json!({"args": args(), "prev": {"result": "before"}, "error": failed("TransactionCanceledException"), "result": cancelled(reasons)});
    cases.extend([
        (file, "request", "a report", json!({"args": args(), "stash": status})),
        (
            file,
            "request",
            "a report of the host shows it as a node",
            json!({"args": with(args(), json!({"nodeId": "host-1"})), "stash": status}),
        ),
        (
            file,
            "request",
            "a report with a messageId",
            json!({"args": with(args(), json!({"messageId": "m-1"})), "stash": with(status.clone(), json!({"record": record("m-1")}))}),
        ),
        (file, "request", "events are one item", json!({"args": args(), "stash": events})),
        (file, "request", "a repeated publish writes nothing", json!({"args": args(), "stash": {"replay": {}}})),
        (
            file,
            "request",
            "too late: readers may have passed the number",
            json!({"args": args(), "stash": with(status.clone(), json!({"group": with(group(), json!({"sequencedAt": (NOW - 5) * 1000}))}))}),
        ),
        (file, "response", "written", json!({"args": args(), "prev": {"result": "before"}, "result": {"keys": []}})),
        (file, "response", "no member", cancel(&["ConditionalCheckFailed", "None", "None"])),
        (
            file,
            "response",
            "a wrong secret",
            json!({"args": args(), "prev": {"result": "before"}, "error": failed("TransactionCanceledException"),
                   "result": {"keys": null, "cancellationReasons": [{"type": "ConditionalCheckFailed", "message": "", "item": {"ttl": NOW + 1, "memberSecret": "s"}}]}}),
        ),
        (
            file,
            "response",
            "the same messageId was faster",
            cancel(&["None", "None", "None", "ConditionalCheckFailed"]),
        ),
        (file, "response", "a conflict", cancel(&["None", "None", "TransactionConflict"])),
        (
            file,
            "response",
            "the store fails",
            json!({"args": args(), "prev": {"result": "before"}, "error": failed("InternalServerError")}),
        ),
    ]);
    let file = "functions/declareVoid.js";
    let stash = json!({"sequence": 8, "group": with(group(), json!({"eventSequence": 6})), "failure": {"message": "Node not found: it is not a member of the group, or its membership has expired. Join again.", "type": "NodeNotFound"}});
    let cancel = |reasons: &[&str]| json!({"args": args(), "stash": stash, "prev": {"result": "before"}, "error": failed("TransactionCanceledException"), "result": cancelled(reasons)});
    cases.extend([
        (file, "request", "nothing went wrong", json!({"args": args(), "stash": {"sequence": 8}})),
        (file, "request", "says that the number is void", json!({"args": args(), "stash": stash})),
        (file, "response", "then says why", json!({"args": args(), "stash": stash, "result": {"keys": []}})),
        (file, "response", "the message had been written", cancel(&["None", "ConditionalCheckFailed"])),
        (file, "response", "the group ended meanwhile", cancel(&["ConditionalCheckFailed", "None"])),
        (
            file,
            "response",
            "the store fails",
            json!({"args": args(), "stash": stash, "error": failed("InternalServerError")}),
        ),
    ]);
    let file = "functions/readMessages.js";
    let stash = json!({"after": 3, "group": group()});
    let page =
        |items: Vec<Value>| json!({"args": args(), "stash": stash, "result": {"items": items, "nextToken": null}});
    let mut gone = item("status", 4, 10_000);
    gone["ttl"] = json!(NOW);
    cases.extend([
        (file, "request", "reads on from the last", json!({"args": args(), "stash": stash})),
        (file, "response", "in order, to the head", page((4..=7).map(|n| item("status", n, 100)).collect())),
        (file, "response", "5 may be on its way", page(vec![item("status", 4, 100), item("events", 6, 100)])),
        (file, "response", "5 is lost", page(vec![item("status", 4, 6_000), item("events", 6, 6_000), item("void", 7, 6_000)])),
        (file, "response", "what is not kept any more is passed over", page(vec![gone, item("events", 5, 100)])),
        (
            file,
            "response",
            "nothing came of 4 to 7",
            json!({"args": args(), "stash": {"after": 3, "group": with(group(), json!({"sequencedAt": (NOW - 6) * 1000}))}, "result": {"items": [], "nextToken": null}}),
        ),
        (
            file,
            "response",
            "from beyond the head",
            json!({"args": args(), "stash": {"after": 2_147_483_647_u64, "group": group()}, "result": {"items": [], "nextToken": null}}),
        ),
        (file, "response", "the store fails", json!({"args": args(), "stash": stash, "error": failed("Throttling")})),
    ]);
    let file = "functions/readEvents.js";
    let busy = |last: u64| with(group(), json!({"eventSequence": last}));
    let begin = |from: u64, last: u64, more: Value| {
        let stash = json!({"from": from, "seen": from, "cursor": format!("{from:012}:000"), "seeks": 0, "events": [], "group": busy(last)});
        json!({"args": args(), "stash": with(stash, more), "prev": {"result": "before"}})
    };
    let from_time = json!({"from": 1, "seen": 0, "cursor": "", "since": (NOW - 1) * 1000});
    let read = |begin: Value, items: Vec<Value>, next: Value| {
        with(begin, json!({"result": {"items": items, "nextToken": next}}))
    };
    let hundred: Vec<_> = (0..100).map(|n| json!({"name": n})).collect();
    cases.extend([
        (file, "request", "from the cursor to the last event", begin(3, 6, json!({}))),
        (file, "request", "no new event, no query", begin(7, 6, json!({}))),
        (file, "request", "no event at all", begin(1, 0, json!({}))),
        (file, "request", "from a time that is near", begin(1, 6, from_time.clone())),
        (file, "request", "from a time that may be far: first a search", begin(1, 1_001, from_time.clone())),
        (file, "request", "from a cursor that may be far: first a page", begin(1, 1_001, json!({}))),
        (file, "request", "the search was too coarse", begin(1, 9_999, json!({"seeks": 1, "to": 1_001}))),
        (file, "request", "the search was fine", begin(1, 9_999, json!({"seeks": 1, "to": 1_000}))),
        (file, "request", "no further search comes", begin(1, 9_999, json!({"seeks": 2, "to": 5_000}))),
        (file, "request", "has read enough", begin(3, 6, json!({"complete": true}))),
        (file, "request", "has enough events", begin(3, 6, json!({ "events": hundred }))),
        (
            file,
            "response",
            "after the cursor, in order",
            read(
                begin(4, 6, json!({})),
                vec![item("events", 4, 0), item("status", 5, 0), item("events", 6, 0)],
                Value::Null,
            ),
        ),
        (file, "response", "there is more", read(begin(4, 9, json!({})), vec![item("events", 5, 0)], json!("token"))),
        (
            file,
            "response",
            "not beyond what may be on its way",
            read(begin(4, 9, json!({})), vec![item("events", 5, 0), item("events", 7, 0)], json!("token")),
        ),
        (
            file,
            "response",
            "beyond what is lost",
            read(begin(4, 9, json!({})), vec![item("events", 7, 5_000)], json!("token")),
        ),
        (
            file,
            "response",
            "after the time",
            read(begin(1, 2, from_time), vec![item("events", 1, 2_000), item("events", 2, 0)], Value::Null),
        ),
        (
            file,
            "response",
            "at most a hundred",
            read(begin(1, 2, json!({"events": hundred[..99]})), vec![item("events", 2, 0)], Value::Null),
        ),
        (file, "response", "the store fails", json!({"args": args(), "stash": {}, "error": failed("Throttling")})),
    ]);
    let file = "functions/seekEvents.js";
    let sample = |sequence: u64, last_event: u64| json!({"sequence": sequence, "lastEvent": last_event, "at": NOW * 1000, "ttl": NOW + 60});
    let aged = |sequence: u64, seconds: u64| json!({"sequence": sequence, "lastEvent": 1, "at": (NOW - seconds) * 1000, "ttl": NOW + 120 - seconds});
    let found = |begin: Value, samples: Vec<Value>| with(begin, json!({"result": {"data": {"MeshV2Table": samples}}}));
    cases.extend([
        (file, "request", "a hundred messages", begin(1_001, 9_001, json!({}))),
        (file, "request", "again, more finely", begin(1_001, 9_001, json!({"to": 3_001}))),
        (file, "request", "only a few are left", begin(1_001, 1_008, json!({}))),
        (file, "request", "each one, up to the end", begin(1_001, 1_010, json!({}))),
        (file, "request", "an event was found", begin(1_001, 9_001, json!({"events": [{}]}))),
        (file, "request", "all was read", begin(1_001, 9_001, json!({"complete": true}))),
        (
            file,
            "response",
            "between these two",
            found(
                begin(1_001, 9_001, json!({})),
                vec![sample(1_001, 7), sample(2_001, 7), sample(3_001, 2_500), sample(4_001, 2_500)],
            ),
        ),
        (
            file,
            "response",
            "in the first part",
            found(begin(1_001, 9_001, json!({})), vec![Value::Null, sample(2_001, 1_500)]),
        ),
        (
            file,
            "response",
            "after the last of them",
            found(begin(1_001, 9_001, json!({})), vec![sample(1_001, 7), sample(8_001, 7)]),
        ),
        (
            file,
            "response",
            "what is no longer kept does not count",
            found(begin(1, 9_001, json!({})), vec![aged(1, 125), aged(2_001, 124)]),
        ),
        (
            file,
            "response",
            "nor what is older than the time",
            found(
                begin(1, 9_001, json!({"seen": 0, "cursor": "", "since": (NOW - 10) * 1000})),
                vec![aged(1, 15), aged(2_001, 14)],
            ),
        ),
        (
            file,
            "response",
            "nothing is known of messages that do not say it",
            found(begin(1_001, 9_001, json!({})), vec![item("status", 1_001, 0), item("status", 2_001, 0)]),
        ),
        (file, "response", "the store fails", json!({"args": args(), "stash": {}, "error": failed("Throttling")})),
    ]);
    cases
}

fn queries() -> Vec<Case> {
    let file = "resolvers/groups.js";
    let mut cases = vec![
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "one", json!({"args": args(), "stash": {"group": group()}})),
        (file, "response", "several", json!({"args": {"domain": DOMAIN}, "prev": {"result": [group()]}})),
        (file, "response", "none", json!({"args": {"domain": DOMAIN}, "prev": {"result": []}})),
    ];
    let file = "functions/listGroups.js";
    cases.extend([
        (
            file,
            "request",
            "a query on the index, as far back as a group can live",
            json!({"args": {"domain": DOMAIN}}),
        ),
        (
            file,
            "request",
            "the next page",
            json!({"args": {"domain": DOMAIN}, "stash": {"groups": [], "moreGroups": "token", "groupPages": 1}}),
        ),
        (
            file,
            "request",
            "there is no more",
            json!({"args": {"domain": DOMAIN}, "stash": {"groups": [group()], "moreGroups": null}}),
        ),
        (
            file,
            "response",
            "after those of the page before",
            json!({"args": {"domain": DOMAIN}, "stash": {"groups": [{"groupId": "g0"}], "groupPages": 1}, "result": {"items": [group(), ended()], "nextToken": "token"}}),
        ),
        (
            file,
            "response",
            "too many pages",
            json!({"args": {"domain": DOMAIN}, "stash": {"groups": [], "groupPages": 2}, "result": {"items": [group()], "nextToken": "token"}}),
        ),
        (
            file,
            "response",
            "the living ones",
            json!({"args": {"domain": DOMAIN}, "result": {"items": [group(), ended()], "nextToken": null}}),
        ),
        (file, "response", "the store fails", json!({"args": {"domain": DOMAIN}, "error": failed("Throttling")})),
    ]);
    let file = "resolvers/listNodesInGroup.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (
            file,
            "response",
            "as nodes",
            json!({"args": args(), "stash": {"group": group(), "members": [{"nodeId": "node-1", "name": "One", "groupId": "g1", "domain": DOMAIN, "ttl": NOW + 5}]}}),
        ),
    ]);
    let file = "resolvers/pass.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "the last step's result", json!({"args": args(), "prev": {"result": ["it"]}})),
    ]);
    let file = "resolvers/getEventsSince.js";
    let since = |since: &str| json!({"args": with(args(), json!({"since": since}))});
    let read = |more: Value| {
        let stash = json!({"from": 1_001, "events": [], "group": with(group(), json!({"eventSequence": 9_001}))});
        json!({"args": args(), "stash": with(stash, more)})
    };
    cases.extend([
        (file, "request", "a cursor", since("000000000004:001")),
        (file, "request", "a time", since("2025-12-31T23:59:59.500Z")),
        (file, "request", "a time elsewhere", since("2026-01-01T09:00:00+09:00")),
        (file, "request", "neither", since("yesterday")),
        (file, "response", "events", read(json!({"events": [{"name": "start"}]}))),
        (file, "response", "none, to the end", read(json!({"complete": true}))),
        (file, "response", "none was fired after it", read(json!({"from": 9_002}))),
        (file, "response", "none, and not to the end", read(json!({}))),
    ]);
    let file = "resolvers/getMessagesSince.js";
    cases.extend([
        (file, "request", "from a number", json!({"args": with(args(), json!({"sequence": 3}))})),
        (file, "request", "from nowhere", json!({"args": with(args(), json!({"sequence": -1}))})),
        (
            file,
            "response",
            "a page",
            json!({"args": args(), "stash": {"next": 6, "head": 7, "read": [item("status", 4, 0), item("void", 5, 0), item("events", 6, 0)]}}),
        ),
    ]);
    cases
}

fn mutations() -> Vec<Case> {
    let file = "resolvers/lambda.js";
    let from = |forwarded: &str| json!({"args": {}, "info": {"fieldName": "createDomain"}, "request": {"headers": {"x-forwarded-for": forwarded}}});
    let mut cases = vec![
        (file, "request", "the address that AppSync saw", from(" 203.0.113.9 , 10.0.0.1")),
        (file, "request", "what the client claims is not believed", from("198.51.100.7,203.0.113.9, 10.0.0.1")),
        (file, "request", "only one address", from("203.0.113.9")),
    ];
    let identity = json!({"userArn": "arn:aws:sts::123456789012:assumed-role/teacher/s"});
    cases.extend([
        (
            file,
            "request",
            "an identity is the caller",
            with(from("203.0.113.9, 10.0.0.1"), json!({"identity": identity})),
        ),
        (
            file,
            "request",
            "somebody without an ARN",
            with(from("203.0.113.9, 10.0.0.1"), json!({"identity": {"sub": "s"}})),
        ),
        (file, "request", "the field and its arguments", json!({"args": args(), "info": {"fieldName": "leaveGroup"}})),
        (file, "response", "a value", json!({"result": {"value": {"id": "g1"}}})),
        (
            file,
            "response",
            "subscriptions end with it",
            json!({"result": {"value": {}, "ended": {"groupId": "g1", "domain": DOMAIN, "everybody": true}}}),
        ),
        (
            file,
            "response",
            "a refusal",
            json!({"result": {"error": {"type": "Unauthorized", "message": "Only the host can dissolve the group."}}}),
        ),
        (
            file,
            "response",
            "a crash",
            json!({"error": {"type": "Lambda:Unhandled", "message": "of no concern to a client"}}),
        ),
    ]);
    let file = "resolvers/subscribe.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "secured", json!({"args": args(), "stash": {"group": secured(), "reader": "node-1"}})),
        (file, "response", "not secured", json!({"args": args(), "stash": {"group": group()}})),
        (
            file,
            "response",
            "not secured, whoever it is",
            json!({"args": args(), "stash": {"group": group(), "reader": "node-1"}}),
        ),
        (
            file,
            "response",
            "secured, and nobody knows who it is",
            json!({"args": args(), "stash": {"group": secured()}}),
        ),
        (file, "response", "not there", json!({"args": args(), "stash": {}})),
    ]);
    let file = "resolvers/joinGroup.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "the node", json!({"args": args(), "stash": {"group": group()}})),
        (
            file,
            "response",
            "again, in a secured group",
            json!({"args": args(), "stash": {"group": secured(), "memberSecret": "s", "formerGroupId": "g1", "formerIsSecured": true}}),
        ),
    ]);
    let joins =
        |more: Value| json!({"args": args(), "stash": with(json!({"group": group(), "formerGroupId": "g0"}), more)});
    cases.extend([
        (file, "response", "from a group that is not secured", joins(json!({"formerIsSecured": false}))),
        (file, "response", "from a secured group", joins(json!({"formerIsSecured": true, "leftGroupId": "g0"}))),
        (
            file,
            "response",
            "again, after a secured group",
            joins(json!({"formerIsSecured": false, "leftGroupId": "g9"})),
        ),
    ]);
    let file = "resolvers/renewHeartbeat.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "the group's own end", json!({"args": args(), "stash": {"group": group()}})),
    ]);
    let file = "resolvers/sendMemberHeartbeat.js";
    cases.extend([
        (file, "request", "has nothing to check", json!({"args": args()})),
        (file, "response", "the member's own end", json!({"args": args(), "prev": {"result": {"ttl": NOW + 75}}})),
    ]);
    let data = |count: usize, size: usize| json!(vec![json!({"key": "k", "value": "v".repeat(size)}); count]);
    let file = "resolvers/reportDataByNode.js";
    let report = |data: Value| json!({"args": with(args(), json!({"data": data}))});
    let replay = with(status_message(), json!({"kind": "status", "sequence": 5}));
    cases.extend([
        (file, "request", "a report", report(data(1, 2))),
        (file, "request", "too many values", report(data(101, 1))),
        (file, "request", "a value too long", report(data(1, 4097))),
        (file, "request", "a key without a name", report(json!([{"key": "", "value": "1"}]))),
        (
            file,
            "response",
            "nested and flat",
            json!({"args": args(), "stash": {"message": status_message(), "sequence": 8}}),
        ),
        (
            file,
            "response",
            "again: to nobody",
            json!({"args": with(args(), json!({"messageId": "m-1"})), "stash": {"replay": replay}}),
        ),
    ]);
    let file = "resolvers/publishEvents.js";
    let event = |name: &str, payload: Value| json!({"eventName": name, "payload": payload, "firedAt": "2026-01-01T00:00:00.123Z"});
    let fire = |events: Vec<Value>| json!({"args": with(args(), json!({"events": events}))});
    let replay = with(events_message(), json!({"kind": "events", "sequence": 5}));
    let accepted = |field: &str| json!({"args": args(), "stash": {"message": events_message(), "sequence": 9}, "info": {"fieldName": field}});
    let again = |field: &str| json!({"args": with(args(), json!({"messageId": "m-1"})), "stash": {"replay": replay}, "info": {"fieldName": field}});
    cases.extend([
        (file, "request", "a batch", fire(vec![event("start", json!("{}")), event("stop", Value::Null)])),
        (file, "request", "no event", fire(vec![])),
        (file, "request", "too many", fire(vec![event("e", Value::Null); 101])),
        (file, "request", "no name", fire(vec![event("", Value::Null)])),
        (file, "request", "a payload too long", fire(vec![event("e", json!("p".repeat(16_385)))])),
        (file, "response", "fired", accepted("fireEventsByNode")),
        (file, "response", "fired again: to nobody", again("fireEventsByNode")),
        (file, "response", "recorded", accepted("recordEventsByNode")),
        (file, "response", "recorded again", again("recordEventsByNode")),
    ]);
    cases
}

/// What a handler did, as a snapshot shows it. Long texts are cut.
fn shown(evaluation: &appsync::Evaluation, given: &Value) -> Value {
    let mut shown = match &evaluation.ending {
        Ending::Returned(value) => json!({ "returns": value }),
        Ending::Error(raised) => json!({ "refuses": raised.error_type, "saying": raised.message }),
        Ending::Early { value, to_end } => json!({ "returns early": value, "to the end": to_end }),
        other => json!({ "ends": format!("{other:?}") }),
    };
    let filters = [("hears", &evaluation.filter), ("ends when", &evaluation.invalidation_filter)];
    for (name, filter) in filters.into_iter().filter_map(|(name, filter)| Some((name, filter.as_ref()?))) {
        shown[name] = filter.clone();
    }
    if !evaluation.invalidations.is_empty() {
        let ended = |one: &appsync::engine::Invalidation| json!([one.subscription_field, one.payload]);
        shown["ends"] = evaluation.invalidations.iter().map(ended).collect();
    }
    for (name, value) in evaluation.stash.as_object().into_iter().flatten() {
        if given["stash"].get(name) != Some(value) {
            shown["stashes"][name] = value.clone();
        }
    }
    cut(&mut shown);
    shown
}

fn cut(value: &mut Value) {
    const LONGEST: usize = 300;
    match value {
        Value::String(text) if text.chars().count() > LONGEST => {
            *text = format!("{}… ({} characters)", text.chars().take(20).collect::<String>(), text.chars().count());
        }
        Value::Array(items) => {
            if items.len() > 10 {
                let more = items.len() - 3;
                items.truncate(3);
                items.push(json!(format!("… {more} more")));
            }
            items.iter_mut().for_each(cut);
        }
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

#[tokio::test]
async fn every_resolver_does_what_its_snapshot_says() {
    let mesh = Mesh::start().await;
    let mut files: BTreeMap<&str, Vec<(String, Value)>> = BTreeMap::new();
    for (file, handler, claim, ctx) in cases() {
        let evaluation = mesh.api.evaluate(file, handler, ctx.clone());
        let evaluation = evaluation.unwrap_or_else(|error| panic!("{file} {handler} ({claim}): {error}"));
        files.entry(file).or_default().push((format!("{handler}: {claim}"), shown(&evaluation, &ctx)));
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots/resolvers");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_sort_maps(true);
    settings.bind(|| {
        for (file, claims) in files {
            let name = file.trim_end_matches(".js").replace('/', "-");
            let shown: serde_json::Map<String, Value> = claims.into_iter().collect();
            insta::assert_json_snapshot!(name, Value::Object(shown));
        }
    });
}

#[test]
fn no_file_is_without_a_case_for_either_of_its_handlers() {
    let tried: BTreeSet<(String, String)> =
        cases().into_iter().map(|(file, handler, _, _)| (file.to_owned(), handler.to_owned())).collect();
    let mut there = BTreeSet::new();
    for folder in ["functions", "resolvers"] {
        let path = support::workspace().join("infra/appsync").join(folder);
        for entry in std::fs::read_dir(path).expect("the folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            there.extend(["request", "response"].map(|handler| (format!("{folder}/{name}"), handler.to_owned())));
        }
    }
    assert_eq!(tried, there);
}

#[tokio::test]
async fn what_a_resolver_refuses_has_a_type_of_the_documentation_and_says_nothing_internal() {
    let mesh = Mesh::start().await;
    let documented = [
        "ValidationError",
        "GroupNotFound",
        "NodeNotFound",
        "Unauthorized",
        "QuotaExceeded",
        "Conflict",
        "Unavailable",
    ]
    .map(Some);
    let mut refusals = 0;
    for (file, handler, claim, ctx) in cases() {
        let evaluation = mesh.api.evaluate(file, handler, ctx).expect("it ends");
        if let Ending::Error(raised) = evaluation.ending {
            assert!(documented.contains(&raised.error_type.as_deref()), "{file} ({claim}): {raised:?}");
            let text = raised.message.to_lowercase();
            let internal = ["dynamodb", "table", " pk", "concern", "undefined", "null"];
            assert!(internal.iter().all(|word| !text.contains(word)), "{file} ({claim}): {text}");
            refusals += 1;
        }
    }
    assert!(refusals > 40, "{refusals}");
}

#[tokio::test]
async fn the_resolvers_know_the_names_of_a_records_attributes_from_one_file_and_the_library_has_the_same() {
    let mesh = Mesh::start().await;
    let ctx = json!({"args": with(args(), json!({"messageId": "m-1"}))});
    let evaluation = mesh.api.evaluate("functions/checkMessageId.js", "request", ctx).expect("it ends");
    assert_eq!(evaluation.stash["record"], record("m-1"));
    let mut naming = Vec::new();
    for folder in ["functions", "resolvers"] {
        for entry in std::fs::read_dir(support::workspace().join("infra/appsync").join(folder)).expect("the folder") {
            let path = entry.expect("an entry").path();
            if std::fs::read_to_string(&path).expect("a text").contains(attr::PREFIX) {
                naming.push(path.file_name().expect("a name").to_owned());
            }
        }
    }
    assert_eq!(naming, ["checkMessageId.js"]);
}

#[tokio::test]
async fn the_library_reads_the_record_of_a_publish_and_would_write_it_the_same_way() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    let once = with(support::report(&group, "host-1", "20"), json!({"messageId": "m-1"}));
    mesh.ok(support::REPORT, once).await;
    let end = with(support::host(&group, "host-1"), json!({"messageId": "the end"}));
    for (message_id, kind) in [("m-1", "status"), ("the end", "dissolve")] {
        if kind == "dissolve" {
            mesh.ok(support::DISSOLVE, end.clone()).await;
        }
        let table = dynamodb::Table::new(mesh.db.table("MeshTable"), "pk");
        let get = mesh.db.client().get_item().table_name(table.name());
        let stored = get
            .key("pk", text(format!("GROUP#{group}@{DOMAIN}")))
            .key("sk", text(format!("PUBLISHED#host-1#{message_id}")))
            .send()
            .await
            .expect("an answer");
        let mut stored = stored.item.expect("a record");
        let read = item::read(&table, &stored).expect("a record of the library");
        let State::Completed { outcome } = &read.state else { panic!("{read:?}") };
        assert_eq!(outcome.value::<Value>().expect("an outcome")["kind"], kind);
        stored.retain(|name, _| name != "pk" && name != "sk");
        assert_eq!(stored, item::record_attributes(&table, &read));
    }
}
