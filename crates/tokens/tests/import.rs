//! Taking over another service's accounts and used keys: once, whatever happens on the way, or not at all.

use std::io::Write as _;
use std::time::Duration;

use crate::support::*;
use ichido::Clock as _;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use testkit::faults::{Fault, Rule};
use testkit::{Outside, interrupt, race};
use tokens::import::{Done, Error, Findings, Import, Missing, Phase};
use tokens::ledger;
use tokens::settings::{Rules, Window};

const REASON: &str = "opening balance";
const WEEK: Window = Window::For(Duration::from_secs(7 * 24 * 60 * 60));

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn import<'a>(world: &'a World, file: &'a NamedTempFile) -> Import<'a> {
    Import { ledger: &world.ledger, file: file.path(), reason: REASON, window: WEEK }
}

async fn check(world: &World, text: &str) -> Findings {
    import(world, &file(text)).check(&mut |_, _| {}).await.unwrap()
}

async fn run(world: &World, text: &str) -> Result<Done, Error> {
    let file = file(text);
    let import = import(world, &file);
    let findings = import.check(&mut |_, _| {}).await?;
    assert_eq!(findings.problems, [], "{text}");
    import.carry_out(&findings, &mut |_, _| {}).await
}

/// The problems of a file, with their lines.
async fn problems(world: &World, text: &str) -> Vec<(Option<u64>, String)> {
    let problems = check(world, text).await.problems;
    problems.into_iter().map(|problem| (problem.line, problem.what)).collect()
}

fn used(sender: &str, key: &str, amount: &str, created_at: &str) -> String {
    let line = json!({ "senderDid": sender, "idempotencyKey": key, "recipientDid": "did:key:bob", "amount": amount,
        "transactionId": "tx_01HZX", "createdAt": created_at });
    format!("{line}\n")
}

/// An hour ago.
fn lately(world: &World) -> String {
    ichido::Timestamp::from_millis(world.clock.now().as_millis() - 3_600_000).to_string()
}

/// Accounts and a used key, in JSON Lines.
fn everything(world: &World) -> String {
    let accounts = "{\"did\": \"did:key:alice\", \"balance\": \"100\"}\n{\"did\": \"did:key:bob\", \"balance\": \"0\"}\n\
        {\"did\": \"did:web:localhost%3A8443\", \"balance\": \"0.00000001\"}\n";
    format!("{accounts}{}", used("did:key:alice", "order#7", "12.50", &lately(world)))
}

/// Puts a record of the first design, whose keys are not escaped.
fn earlier(world: &World, pk: &str, more: &Value) {
    let mut item = json!({ "PK": { "S": pk }, "SK": { "S": "METADATA" }, "transactionId": { "S": "tx_02" }, "amount": { "N": "3" },
        "recipientDid": { "S": "did:key:bob" }, "createdAt": { "S": "2025-12-31T23:59:59Z" } });
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.db.must("PutItem", &json!({ "TableName": world.table(), "Item": item }));
}

fn all(world: &World) -> Vec<Value> {
    let mut items = world.db.items(world.table());
    items.sort_by_key(|item| item["PK"].to_string() + &item["SK"].to_string());
    items
}

#[tokio::test]
async fn accounts_begin_with_their_balance_and_used_keys_are_answered_as_before() {
    let world = world().await;
    let done = run(&world, &everything(&world)).await.unwrap();
    assert_eq!((done.accounts, done.balances.to_string().as_str(), done.keys), (3, "100.00000001", 1));
    assert_eq!((done.accounts_proved, done.balances_proved, done.keys_proved), (3, done.balances, 1));
    assert_eq!((world.balance("alice").await, world.balance("bob").await), ("100".into(), "0".into()));

    // The opening balance is a grant that says why, and the first row of the statement.
    let statement = world.call("GET", "/tokens/statement/did:key:alice", &world.token("alice"), None).await;
    let statement: Value = serde_json::from_slice(&statement.body).unwrap();
    assert_eq!(
        (&statement["entries"][0]["kind"], &statement["entries"][0]["balance"]),
        (&json!("grant"), &json!("100"))
    );
    assert_eq!(world.items("GRANT#did:key:alice")[0]["message"]["S"], REASON);
    // Its owner opens it again, as every client may: nothing is granted.
    let again = world.ledger.open(&did("alice"), world.until()).await.unwrap();
    assert!(again.replayed && again.body.contains("\"grant\":\"100\""), "{}", again.body);

    let replay = world.send("alice", "bob", "12.5", "order#7").await.unwrap();
    assert!(replay.replayed && replay.body.contains("tx_01HZX"), "{}", replay.body);
    match world.send("alice", "bob", "12", "order#7").await {
        Err(ledger::Error::Mismatch { fields }) => assert_eq!(fields, ["amount"]),
        other => panic!("{other:?}"),
    }
    assert!(!world.send("alice", "bob", "40", "order-8").await.unwrap().replayed);
    assert_eq!(world.assert_sound().await, "100.00000001");
}

#[tokio::test]
async fn csv_says_the_same_as_json_lines() {
    let (one, other) = (world().await, world().await);
    run(&one, &everything(&one)).await.unwrap();
    run(&other, "\u{feff}\"balance\",\"did\"\r\n100.0,did:key:alice\r\n0,did:key:bob\r\n0.00000001,did:web:localhost%3A8443\r\n").await.unwrap();
    let keys = format!(
        "senderDid,idempotencyKey,recipientDid,amount,transactionId,createdAt\ndid:key:alice,order#7,did:key:bob,12.5,tx_01HZX,{}\n",
        lately(&other)
    );
    run(&other, &keys).await.unwrap();
    let kept = |world: &World| {
        all(world)
            .into_iter()
            .map(|item| (item["PK"].clone(), item["balance"].clone(), item["amount"].clone(), item["ttl"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(&one), kept(&other));
}

#[tokio::test]
async fn a_check_writes_nothing_and_says_what_would_be_done() {
    let world = world().await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#b", &json!({}));
    let before = all(&world);
    let findings = check(&world, &everything(&world)).await;
    assert_eq!((findings.accounts, findings.keys, findings.misplaced), (3, 1, 1));
    assert_eq!((findings.accounts_done, findings.keys_done, findings.misplaced_done), (0, 0, 0));
    assert_eq!(findings.balances.to_string(), "100.00000001");
    assert_eq!(all(&world), before);
    assert_eq!(world.db.calls().of("PutItem") + world.db.calls().of("TransactWriteItems"), 0);
}

#[tokio::test]
async fn a_second_import_changes_nothing_also_after_the_money_has_moved() {
    let world = world().await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#b", &json!({}));
    let text = everything(&world);
    run(&world, &text).await.unwrap();
    world.send("alice", "bob", "60", "k").await.unwrap();
    let before = all(&world);
    assert_eq!(check(&world, &text).await.missing(), Missing::default());
    let done = run(&world, &text).await.unwrap();
    assert_eq!((done.accounts, done.keys, done.rewritten, done.accounts_proved), (0, 0, 0, 3));
    // also as part of a larger file
    let done = run(&world, &format!("{text}{{\"did\": \"did:key:carol\", \"balance\": \"5\"}}\n{text}")).await.unwrap();
    assert_eq!((done.accounts, done.balances.to_string().as_str(), done.accounts_proved), (1, "5", 4));
    let carols = |item: &Value| item.to_string().contains("did:key:carol");
    assert_eq!(all(&world).into_iter().filter(|item| !carols(item)).collect::<Vec<_>>(), before);
    assert_eq!(world.assert_sound().await, "105.00000001");
}

#[tokio::test]
async fn whatever_is_wrong_is_named_with_its_line_and_nothing_is_written() {
    let world = world().await;
    let named = |found: Vec<(Option<u64>, String)>, lines: &[Option<u64>], said: &str| {
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines, "{found:?}");
        assert!(found[0].1.contains(said), "{found:?}");
    };
    let account = "{\"did\": \"did:key:alice\", \"balance\": \"1\"}\n";
    named(problems(&world, "").await, &[None], "no account and no key");
    named(problems(&world, "\r\n\r\n").await, &[None], "no account and no key");
    assert_eq!(problems(&world, "did,balance\r\n\r\n").await, [], "it says that there is nothing but the table itself");
    named(
        problems(&world, "name,balance\nalice,1\n").await,
        &[Some(1)],
        "the header must be did,balance or senderDid,",
    );
    named(
        problems(&world, "did,balance\ndid:key:a,-1\ndid:key:b,1\nbob,1\ndid:key:c,99999999999\ndid:key:d\n").await,
        &[Some(2), Some(4), Some(5), Some(6)],
        "sign",
    );
    named(problems(&world, &format!("{account}{{\"did\": 1}}\nnonsense\n")).await, &[Some(2), Some(3)], "invalid type");
    named(
        problems(&world, "did,balance\ndid:key:a,1\ndid:key:b,1\ndid:key:a,2\n").await,
        &[Some(4)],
        "contradicts line 2",
    );
    let (one, other) = (used("did:key:a", "k", "1", "1767225599000"), used("did:key:a", "k", "2", "1767225599000"));
    named(problems(&world, &format!("{account}{one}{other}")).await, &[Some(3)], "contradicts line 2");
    // Too many of them are counted and not kept.
    let findings = check(&world, &format!("did,balance\n{}", "x,1\n".repeat(200))).await;
    assert_eq!((findings.problem_count, findings.problems.len()), (200, 50));
    // A repetition is told and ignored.
    let findings = check(&world, &format!("{account}\n{account}")).await;
    assert_eq!((findings.repeated_lines, findings.accounts, findings.balances.to_string()), (vec![3], 1, "1".into()));
    assert_eq!(all(&world), Vec::<Value>::new());
}

#[tokio::test]
async fn what_the_table_has_already_is_not_overwritten() {
    let world = world().await;
    run(&world, "did,balance\ndid:key:alice,100\n").await.unwrap();
    world.open(&["bob"]).await;
    world.send("bob", "alice", "1", "k").await.unwrap();
    run(&world, &used("did:key:alice", "order-7", "1", &lately(&world))).await.unwrap();
    let before = all(&world);
    for (text, said) in [
        ("did,balance\ndid:key:carol,1\ndid:key:alice,101\n", "imported before, with 100"),
        ("did,balance\ndid:key:carol,1\ndid:key:bob,5\n", "that no import has opened"),
        (
            &format!(
                "{{\"did\": \"did:key:carol\", \"balance\": \"1\"}}\n{}",
                used("did:key:bob", "k", "1", &lately(&world))
            ),
            "made here",
        ),
        (
            &format!(
                "{{\"did\": \"did:key:carol\", \"balance\": \"1\"}}\n{}",
                used("did:key:alice", "order-7", "2", &lately(&world))
            ),
            "another transfer",
        ),
    ] {
        let found = problems(&world, text).await;
        assert!(
            matches!(&found[..], [(Some(line), what)] if *line == text.lines().count() as u64 && what.contains(said)),
            "{found:?}"
        );
    }
    // Another reason is another grant.
    let file = file("did,balance\ndid:key:alice,100\n");
    let other = Import { reason: "another", ..import(&world, &file) };
    let findings = other.check(&mut |_, _| {}).await.unwrap();
    assert!(findings.problems[0].what.contains("the reason \"opening balance\""), "{findings:?}");
    assert_eq!(all(&world), before);
}

#[tokio::test]
async fn an_account_that_is_opened_after_the_check_stops_the_import_at_its_line() {
    let world = world().await;
    let file = file("did,balance\ndid:key:alice,100\n");
    let import = import(&world, &file);
    let findings = import.check(&mut |_, _| {}).await.unwrap();
    world.open(&["alice"]).await;
    let stopped = import.carry_out(&findings, &mut |_, _| {}).await;
    assert!(matches!(stopped, Err(Error::InTheWay { line: 2, .. })), "{stopped:?}");
    let ended = world.ledger.holding(&did("alice")).await.unwrap().unwrap();
    assert_eq!((ended.balance.to_string().as_str(), world.assert_sound().await.as_str()), ("1000", "1000"));
}

#[tokio::test]
async fn a_used_key_is_remembered_as_long_as_if_it_had_been_used_here() {
    let world = world().await;
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let at = |before: Duration| {
        ichido::Timestamp::from_millis(world.clock.now().as_millis() - u64::try_from(before.as_millis()).unwrap())
            .to_string()
    };
    let old = used("did:key:alice", "old", "1", &at(week));
    let text = format!(
        "{}{old}{}",
        everything(&world),
        used("did:key:alice", "nearly", "1", &at(week - Duration::from_secs(60)))
    );
    let findings = check(&world, &text).await;
    assert_eq!((findings.keys, findings.keys_too_old), (3, 1));
    let done = run(&world, &text).await.unwrap();
    assert_eq!((done.keys, done.keys_proved), (2, 2));
    assert!(world.send("alice", "bob", "1", "nearly").await.unwrap().replayed);
    assert!(!world.send("alice", "bob", "1", "old").await.unwrap().replayed, "this service would have forgotten it");
    world.clock.advance(Duration::from_secs(61));
    assert!(!world.send("alice", "bob", "1", "nearly").await.unwrap().replayed);
    assert!(world.send("alice", "bob", "12.5", "order#7").await.unwrap().replayed);

    // For ever, if the service remembers for ever.
    let file = file(&used("did:key:alice", "ancient", "1", "2011-01-01T00:00:00Z"));
    let import = Import { window: Window::Never, ..import(&world, &file) };
    let findings = import.check(&mut |_, _| {}).await.unwrap();
    assert_eq!(import.carry_out(&findings, &mut |_, _| {}).await.unwrap().keys, 1);
    world.clock.advance(Duration::from_secs(100 * 365 * 24 * 60 * 60));
    assert!(world.send("alice", "bob", "1", "ancient").await.unwrap().replayed);
}

#[tokio::test]
async fn a_key_that_was_imported_for_too_short_a_time_is_remembered_for_longer() {
    let world = world().await;
    let file = file(&used("did:key:alice", "order-7", "1", &lately(&world)));
    let day = Duration::from_secs(24 * 60 * 60);
    let carry_out = async |window| {
        let import = Import { window, ..import(&world, &file) };
        let findings = import.check(&mut |_, _| {}).await.unwrap();
        let missing = findings.missing().keys;
        let done = import.carry_out(&findings, &mut |_, _| {}).await.unwrap();
        (missing, done.keys, done.keys_proved)
    };
    assert_eq!(carry_out(WEEK).await, (1, 1, 1));
    assert_eq!(carry_out(Window::For(day * 30)).await, (1, 1, 1));
    assert_eq!(carry_out(WEEK).await, (0, 0, 1), "a shorter time takes nothing away");
    world.open(&["alice", "bob"]).await;
    world.clock.advance(day * 10);
    assert!(world.send("alice", "bob", "1", "order-7").await.unwrap().replayed);
    assert_eq!(carry_out(Window::Never).await, (1, 1, 1));
    world.clock.advance(day * 1000);
    assert!(world.send("alice", "bob", "1", "order-7").await.unwrap().replayed);
}

#[tokio::test]
async fn a_time_at_which_no_transfer_was_made_is_a_problem() {
    let world = world().await;
    for created_at in ["1767225599", "20260131090000", "0"] {
        let found = problems(&world, &used("did:key:alice", "order-7", "1", created_at)).await;
        assert!(found.len() == 1 && found[0].0 == Some(1) && found[0].1.contains("milliseconds"), "{found:?}");
    }
}

#[tokio::test]
async fn an_account_that_was_deleted_by_hand_is_not_taken_for_imported() {
    let world = world().await;
    run(&world, "did,balance\ndid:key:alice,100\n").await.unwrap();
    let key = json!({ "PK": { "S": "ACCOUNT#did:key:alice" }, "SK": { "S": "BALANCE" } });
    world.db.must("DeleteItem", &json!({ "TableName": world.table(), "Key": key }));
    let found = problems(&world, "did,balance\ndid:key:alice,100\n").await;
    assert!(found.len() == 1 && found[0].1.contains("the account is not"), "{found:?}");
}

#[tokio::test]
async fn a_key_that_a_client_tried_too_early_can_still_be_imported() {
    let world = world().await;
    let refused = refusal(world.send("alice", "bob", "12.5", "order#7").await);
    assert_eq!(refused, ledger::Obstacle::SenderNotFound, "a tombstone is where the record will be");
    run(&world, &everything(&world)).await.unwrap();
    assert!(world.send("alice", "bob", "12.5", "order#7").await.unwrap().replayed);
    assert_eq!(world.balance("alice").await, "100");
}

#[tokio::test]
async fn records_of_the_first_design_are_copied_to_the_key_that_is_read() {
    let world = world().await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#order-1", &json!({}));
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#b%", &json!({ "note": { "S": "kept" } }));
    earlier(&world, "IDEMPOTENCY#did:web:localhost%3A8443#order-1", &json!({}));
    earlier(&world, "IDEMPOTENCY#did:key:alice#a b", &json!({}));
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#expired", &json!({ "ttl": { "N": "1" } }));
    let old = all(&world);
    assert_eq!(world.verify().await.never_read, 2, "verify tells it");
    let text = "did,balance\ndid:key:alice,100\ndid:key:bob,0\ndid:web:localhost%3A8443,50\n";
    let findings = check(&world, text).await;
    assert_eq!((findings.earlier_records, findings.misplaced, findings.unreachable), (4, 2, 1));
    assert_eq!(run(&world, text).await.unwrap().rewritten, 2);
    assert!(world.send("alice", "bob", "3", "a#b%").await.unwrap().replayed);
    assert!(world.send("alice", "bob", "3", "order-1").await.unwrap().replayed);
    let transfer = tokens::ledger::Transfer {
        sender: "did:web:localhost%3A8443".parse().unwrap(),
        ..transfer("alice", "bob", "3", "order-1")
    };
    assert!(world.ledger.transfer(&transfer, world.until()).await.unwrap().replayed);
    // The service before this one still finds what it wrote.
    let now = all(&world);
    assert!(old.iter().all(|item| now.contains(item)));
    assert!(
        now.iter().any(|item| item["PK"]["S"] == "IDEMPOTENCY#did:key:alice#a%23b%25" && item["note"]["S"] == "kept")
    );
    assert_eq!(check(&world, text).await.missing(), Missing::default());
    assert_eq!(run(&world, text).await.unwrap().rewritten, 0);
    assert_eq!(world.verify().await.never_read, 0);
    assert_eq!(world.assert_sound().await, "150");
}

#[tokio::test]
async fn a_header_alone_rewrites_the_records_of_the_table() {
    let world = world().await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#b", &json!({}));
    assert_eq!(run(&world, "did,balance\n").await.unwrap().rewritten, 1);
    assert_eq!(world.verify().await.never_read, 0);
}

#[tokio::test]
async fn a_record_that_stands_where_another_belongs_is_a_problem() {
    let world = world().await;
    // The first is, unescaped, where the record of the second sender belongs.
    earlier(&world, "IDEMPOTENCY#did:web:x%253A1#k", &json!({ "transactionId": { "S": "another" } }));
    earlier(&world, "IDEMPOTENCY#did:web:x%3A1#k", &json!({}));
    earlier(&world, "IDEMPOTENCY#did:key:alice#k", &json!({ "amount": { "S": "a lot" } }));
    let found = problems(&world, "did,balance\ndid:key:alice,100\n").await;
    let said = |text: &str| found.iter().any(|(line, what)| line.is_none() && what.contains(text));
    assert!(found.len() == 2 && said("another record under") && said("amount is missing or malformed"), "{found:?}");
}

#[tokio::test]
async fn an_import_that_dies_at_any_call_and_is_run_again_opens_each_account_once() {
    let report = interrupt::at_every_call(
        async |outside| prepared(outside).await,
        async |world| run(world, &everything(world)).await.map(drop),
        async |world| world.clock.advance(Duration::from_secs(1)),
        imported_once,
    )
    .await;
    assert!(report.stops >= 20, "{report:?}");
    assert_eq!(report.cuts, report.stops, "each call can also lose its connection");
}

#[tokio::test]
async fn two_imports_at_once_open_each_account_once() {
    race::two_at_once(
        0..40,
        async |outside| prepared(outside).await,
        async |world| run(world, &everything(world)).await.map(drop),
        async |world| world.clock.advance(Duration::from_secs(1)),
        imported_once,
    )
    .await;
}

async fn prepared(outside: Outside) -> World {
    let world = World::with(Rules::default(), 1, outside).await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#a#b", &json!({}));
    world
}

async fn imported_once(world: &World) {
    assert_eq!((world.balance("alice").await, world.balance("bob").await), ("100".into(), "0".into()));
    assert_eq!((world.items("GRANT#").len(), world.items("GRANTED#").len()), (3, 3));
    let records = world.items("IDEMPOTENCY#");
    assert_eq!(records.len(), 3, "the old record, its copy, and the used key");
    assert_eq!(records.iter().filter(|record| record["importedAt"].is_object()).count(), 2);
    for (amount, key) in [("12.5", "order#7"), ("3", "a#b")] {
        assert!(world.send("alice", "bob", amount, key).await.unwrap().replayed, "{key}");
    }
    assert_eq!(world.assert_sound().await, "100.00000001");
}

#[tokio::test]
async fn an_import_that_stops_says_what_it_has_written() {
    let world = world().await;
    let lines: String = (0..40).map(|n| format!("did:key:account-{n},1\n")).collect();
    let file = file(&format!("did,balance\n{lines}"));
    let import = import(&world, &file);
    let findings = import.check(&mut |_, _| {}).await.unwrap();
    let denied = Rule::new(Fault::Denied).on("TransactWriteItems");
    world.db.faults().only(denied.clone().calls(1..=u64::MAX));
    let stopped = import.carry_out(&findings, &mut |_, _| {}).await;
    assert!(matches!(stopped, Err(Error::Ledger(_))), "nothing was written: {stopped:?}");
    world.db.faults().only(denied.calls(20..=u64::MAX));
    let Err(Error::Stopped { done, cause }) = import.carry_out(&findings, &mut |_, _| {}).await else {
        panic!("something was written")
    };
    assert!(matches!(*cause, Error::Ledger(_)), "{cause:?}");
    world.db.faults().heal();
    // Of those that were on their way together, none is forgotten.
    assert_eq!((done.accounts, world.items("ACCOUNT#").len()), (19, 19));
    assert_eq!(done.balances.to_string(), "19");
}

#[tokio::test]
async fn sums_that_differ_are_an_error_with_figures() {
    let world = world().await;
    let file = file(&everything(&world));
    let import = import(&world, &file);
    let findings = import.check(&mut |_, _| {}).await.unwrap();
    // Somebody removes the record of a grant before it is proved.
    let mut remove = |phase, _| {
        if phase == Phase::Writing {
            let record =
                world.items("GRANTED#").into_iter().find(|item| item["recipientDid"]["S"] == "did:key:alice").unwrap();
            let key = json!({ "PK": record["PK"], "SK": record["SK"] });
            world.db.must("DeleteItem", &json!({ "TableName": world.table(), "Key": key }));
        }
    };
    let error = telemetry::causes(&import.carry_out(&findings, &mut remove).await.unwrap_err());
    assert!(error.contains("the file has 100.00000001 in 3 accounts and 1 used keys"), "{error}");
    assert!(error.contains("has 0.00000001 granted to 2 of these accounts"), "{error}");
}

#[tokio::test]
async fn a_file_that_changes_during_the_import_is_noticed() {
    let world = world().await;
    let mut file = file("did,balance\ndid:key:alice,100\n");
    let findings = import(&world, &file).check(&mut |_, _| {}).await.unwrap();
    file.write_all(b"did:key:bob,100\n").unwrap();
    let changed = import(&world, &file).carry_out(&findings, &mut |_, _| {}).await;
    assert!(matches!(changed, Err(Error::Changed)), "{changed:?}");
    assert_eq!(all(&world), Vec::<Value>::new(), "nothing of a file that was not checked is written");
    let missing = Import { file: std::path::Path::new("/nowhere/accounts.csv"), ..import(&world, &file) };
    assert!(matches!(missing.check(&mut |_, _| {}).await, Err(Error::File(_))));
}
