//! `ichidoctl tokens` against the embedded DynamoDB.

use std::sync::Arc;

use clap::Parser as _;
use function::Aws;
use ichido::{Clock as _, SystemClock};
use ops::command::{Cli, Command};
use ops::context::{Context, Ended, Error, Shared};
use serde_json::{Value, json};
use testkit::Dynamo;
use testkit::faults::{Fault, Rule};
use tokens::identity::did::Did;
use tokens::ledger::{BUDGET, Ledger, Transfer, system_random};
use tokens::settings::Rules;

const OLGA: &str = "arn:aws:sts::000000000000:assumed-role/operator/olga";

struct World {
    db: Dynamo,
    ledger: Ledger,
    aws: Aws,
}

async fn world() -> World {
    let db = Dynamo::start(&["infra/templates/tokens.yaml"]).await;
    let ledger =
        Ledger::new(db.client(), db.table("TokensTable"), Rules::default(), Arc::new(SystemClock), system_random());
    for name in ["did:key:alice", "did:key:bob"] {
        ledger.open(&did(name), SystemClock.now() + BUDGET).await.unwrap();
    }
    let aws = Aws::at("http://127.0.0.1:9").with_dynamodb(db.client());
    World { db, ledger, aws }
}

fn did(text: &str) -> Did {
    text.parse().unwrap()
}

impl World {
    async fn send(&self, key: &str) -> String {
        let transfer = Transfer {
            sender: did("did:key:alice"),
            recipient: did("did:key:bob"),
            amount: "10".parse().unwrap(),
            message: String::new(),
            key: key.parse().unwrap(),
        };
        let answer = self.ledger.transfer(&transfer, SystemClock.now() + BUDGET).await.unwrap();
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        body["transactionId"].as_str().unwrap().to_owned()
    }

    /// Runs `ichidoctl tokens …` for Olga and returns what it printed.
    async fn run(&self, arguments: &[&str]) -> (Result<Ended, Error>, String) {
        self.run_for(Some(OLGA), &[&["tokens"], arguments].concat()).await
    }

    /// The same for this caller, or for one whom nobody knows.
    async fn run_for(&self, caller: Option<&str>, arguments: &[&str]) -> (Result<Ended, Error>, String) {
        let table = format!("--table={}", self.db.table("TokensTable"));
        let all = ["ichidoctl"].iter().chain(arguments).copied().chain([table.as_str()]);
        let cli = Cli::try_parse_from(all).unwrap();
        let mut out = Vec::new();
        let ended = {
            let context = Context::with(&cli.shared, self.aws.clone(), &mut out);
            let mut context = if let Some(caller) = caller { context.called_by(caller) } else { context };
            match &cli.command {
                Command::Tokens(tokens) => tokens.run(&mut context).await,
                Command::Operations(operations) => operations.run(&mut context).await,
                other => panic!("a command of tokens, not {other:?}"),
            }
        };
        (ended, String::from_utf8(out).unwrap())
    }

    /// What operators did by hand, oldest first.
    async fn operations(&self) -> Vec<Value> {
        let (_, text) = self.run_for(None, &["operations", "tokens", "--json"]).await;
        let all: Value = serde_json::from_str(&text).unwrap();
        all["operations"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn verify_proves_a_sound_table_and_names_what_is_wrong_in_another() {
    let world = world().await;
    world.send("k").await;
    let (ended, text) = world.run(&["verify"]).await;
    assert_eq!(ended.unwrap(), Ended::Well);
    assert!(text.contains("2000 granted, 2000 held") && text.contains("proven"), "{text}");

    let table = world.db.table("TokensTable").to_owned();
    let update = json!({
        "TableName": table, "Key": { "PK": { "S": "ACCOUNT#did:key:bob" }, "SK": { "S": "BALANCE" } },
        "UpdateExpression": "SET balance = :b", "ExpressionAttributeValues": { ":b": { "N": "1" } },
    });
    world.db.must("UpdateItem", &update);
    let (ended, text) = world.run(&["verify"]).await;
    assert_eq!(ended.unwrap(), Ended::NeedsAttention);
    assert!(text.contains("did:key:bob") && !text.contains("proven"), "{text}");
    let (_, text) = world.run(&["verify", "--json"]).await;
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["findings"][0]["problem"], "balanceDiffers");
}

#[tokio::test]
async fn a_verification_is_resumed_only_with_the_progress_of_its_table() {
    let world = world().await;
    let file = std::env::temp_dir().join(format!("ichidoctl-verify-{}.json", std::process::id()));
    let resume = format!("--resume={}", file.display());
    let progress = |table: &str| {
        let progress = json!({ "last": ["ZZZ", "ZZZ"], "scanned": true, "accounts": 7, "entries": 8, "grants": "0",
            "shards": {}, "shardSums": {}, "suspects": [] });
        std::fs::write(&file, json!({ "table": table, "progress": progress }).to_string()).unwrap();
    };
    progress("another-table");
    let (ended, _) = world.run(&["verify", &resume]).await;
    assert!(matches!(&ended, Err(Error::Refused(why)) if why.contains("another-table")), "{ended:?}");

    progress(world.db.table("TokensTable"));
    let (ended, text) = world.run(&["verify", &resume]).await;
    assert_eq!(ended.unwrap(), Ended::Well);
    assert!(text.contains("7 balances, 8 entries"), "what was read before is not read again: {text}");
    assert!(!file.exists(), "the next verification begins at the beginning");
}

#[tokio::test]
async fn freeze_and_unfreeze_change_the_status_once_confirmed() {
    let world = world().await;
    let (ended, _) = world.run(&["freeze", "did:key:alice"]).await;
    assert!(matches!(ended, Err(Error::NotConfirmed)), "a pipeline is not a person: {ended:?}");
    let (ended, text) = world.run(&["freeze", "did:key:alice", "--yes"]).await;
    assert_eq!((ended.unwrap(), text.as_str()), (Ended::Well, "did:key:alice is frozen\n"));
    assert_eq!(world.ledger.holding(&did("did:key:alice")).await.unwrap().unwrap().status, "frozen");
    let (_, text) = world.run(&["unfreeze", "did:key:alice", "--yes", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["status"], "open");
    for unknown in ["did:key:nobody", "nobody"] {
        let (ended, _) = world.run(&["freeze", unknown, "--yes"]).await;
        assert!(matches!(ended, Err(Error::Refused(_))), "{ended:?}");
    }
}

#[tokio::test]
async fn reverse_takes_a_transfer_back_once() {
    let world = world().await;
    let id = world.send("k").await;
    for replayed in [false, true] {
        let (ended, text) =
            world.run(&["reverse", "did:key:alice", &id, "--reason", "a mistake", "--yes", "--json"]).await;
        assert_eq!(ended.unwrap(), Ended::Well);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (answer["replayed"].as_bool(), answer["reversal"]["reverses"].as_str()),
            (Some(replayed), Some(id.as_str()))
        );
    }
    let held = world.ledger.holding(&did("did:key:alice")).await.unwrap().unwrap().balance.to_string();
    assert_eq!(held, "1000");
    let (ended, _) = world.run(&["reverse", "did:key:bob", &id, "--yes"]).await;
    assert!(matches!(ended, Err(Error::Refused(_))), "not what bob sent: {ended:?}");
}

#[tokio::test]
async fn grant_creates_money_once_per_key_and_needs_a_reason() {
    let world = world().await;
    let grant = ["grant", "did:key:alice", "25", "--reason", "a prize", "--key", "prize-1", "--yes", "--json"];
    for replayed in [false, true] {
        let (ended, text) = world.run(&grant).await;
        assert_eq!(ended.unwrap(), Ended::Well);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (answer["replayed"].as_bool(), answer["grant"]["message"].as_str()),
            (Some(replayed), Some("a prize"))
        );
    }
    let held = world.ledger.holding(&did("did:key:alice")).await.unwrap().unwrap().balance.to_string();
    assert_eq!(held, "1025");
    for (who, amount, reason, key) in [
        ("did:key:alice", "26", "a prize", "prize-1"),
        ("did:key:alice", "25", " ", "prize-2"),
        ("did:key:alice", "0", "a prize", "prize-3"),
        ("did:key:nobody", "25", "a prize", "prize-4"),
    ] {
        let (ended, _) = world.run(&["grant", who, amount, "--reason", reason, "--key", key, "--yes"]).await;
        assert!(matches!(ended, Err(Error::Refused(_))), "{key}: {ended:?}");
    }
    let (ended, text) = world.run(&["verify"]).await;
    assert_eq!(ended.unwrap(), Ended::Well);
    assert!(text.contains("2025 granted, 2025 held"), "{text}");
}

#[tokio::test]
async fn what_is_done_to_the_ledger_is_kept_with_who_did_it_why_and_what_was_shown() {
    let world = world().await;
    let id = world.send("k").await;
    for arguments in [
        &["freeze", "did:key:alice", "--reason", "stolen token", "--yes"][..],
        &["unfreeze", "did:key:alice", "--yes"],
        &["reverse", "did:key:alice", id.as_str(), "--reason", "a mistake", "--yes"],
        &["grant", "did:key:bob", "25", "--reason", "a prize", "--key", "prize-1", "--yes"],
    ] {
        assert_eq!(world.run(arguments).await.0.unwrap(), Ended::Well);
    }
    assert!(world.run(&["freeze", "did:key:bob"]).await.0.is_err(), "not confirmed");
    let all = world.operations().await;
    let told: Vec<[&str; 3]> =
        all.iter().map(|one| ["operation", "on", "reason"].map(|name| one[name].as_str().unwrap())).collect();
    assert_eq!(
        told,
        [
            ["freeze", "did:key:alice", "stolen token"],
            ["unfreeze", "did:key:alice", "no reason given"],
            ["reverse", id.as_str(), "a mistake"],
            ["grant", "did:key:bob", "a prize"],
        ]
    );
    assert!(all.iter().all(|one| one["by"] == OLGA && one["endedAt"].is_string()), "{all:#?}");
    let freeze = &all[0];
    assert_eq!(freeze["shown"]["confirmed"], "--yes");
    let question = freeze["shown"]["question"].as_str().unwrap();
    assert!(question.contains("Freeze did:key:alice in") && question.contains("is open and holds 990"), "{question}");
    assert_eq!(freeze["shown"]["before"]["balance"], "990");
    assert_eq!(freeze["outcome"], "set the status of account did:key:alice to frozen by hand");
    assert_eq!(all[2]["shown"]["before"]["amount"], "10");
    let items = world.db.items(world.db.table("TokensTable"));
    let account = items.iter().find(|item| item["PK"]["S"] == "ACCOUNT#did:key:alice" && item["SK"]["S"] == "BALANCE");
    assert_eq!(account.unwrap()["statusBy"]["S"], OLGA, "the account names a person, not a program");
    let kept = items.iter().filter(|item| item["PK"]["S"].as_str().unwrap().starts_with("OPERATION#"));
    assert!(kept.clone().count() == 4 && kept.clone().all(|item| item.get("ttl").is_none()), "they stay");
    let (ended, text) = world.run(&["verify"]).await;
    assert_eq!(ended.unwrap(), Ended::Well, "{text}");
    let (ended, text) = world.run_for(None, &["operations", "tokens"]).await;
    assert_eq!(ended.unwrap(), Ended::Well);
    assert!(text.contains("APPLICATION") && text.contains(OLGA), "{text}");
}

#[tokio::test]
async fn an_operation_that_would_leave_no_trace_is_not_carried_out() {
    let world = world().await;
    let id = world.send("k").await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "did,balance\ndid:key:carol,1\n").unwrap();
    let operations = [
        &["tokens", "freeze", "did:key:alice", "--yes"][..],
        &["tokens", "unfreeze", "did:key:alice", "--yes"],
        &["tokens", "import", file.path().to_str().unwrap(), "--yes"],
        &["tokens", "reverse", "did:key:alice", id.as_str(), "--yes"],
        &["tokens", "grant", "did:key:alice", "25", "--reason", "a prize", "--key", "prize-1", "--yes"],
    ];
    let unchanged = || async {
        let holding = world.ledger.holding(&did("did:key:alice")).await.unwrap().unwrap();
        assert_eq!((holding.status, holding.balance.to_string().as_str()), ("open", "990"));
        assert!(world.ledger.holding(&did("did:key:carol")).await.unwrap().is_none());
        assert!(world.operations().await.is_empty());
    };
    for operation in operations {
        // Nobody answers where STS should be.
        let (ended, _) = world.run_for(None, operation).await;
        assert!(ended.unwrap_err().to_string().contains("AWS does not say who you are"), "{operation:?}");
        unchanged().await;
        world.db.faults().only(Rule::new(Fault::Denied).on("PutItem"));
        let (ended, _) = world.run_for(Some(OLGA), operation).await;
        assert!(ended.unwrap_err().to_string().contains("so nothing was changed"), "{operation:?}");
        world.db.faults().heal();
        unchanged().await;
    }
}

#[tokio::test]
async fn an_import_that_stopped_is_kept_with_what_it_has_written_and_of_which_file() {
    let world = world().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("accounts.csv");
    let lines: String = (0..40).map(|n| format!("did:key:account-{n},1\n")).collect();
    std::fs::write(&file, format!("did,balance\n{lines}")).unwrap();
    let import = ["import", file.to_str().unwrap(), "--yes"];
    let denied = || Rule::new(Fault::Denied).on("TransactWriteItems");
    for (fault, begins) in [
        (denied(), "failed: could not import"),
        (denied().calls(20..=u64::MAX), "happened in part: "),
        (Rule::new(Fault::LoseAnswer).on("TransactWriteItems"), "may have happened: "),
    ] {
        world.db.faults().only(fault);
        assert!(world.run(&import).await.0.is_err());
        world.db.faults().heal();
        let outcome = world.operations().await.pop().unwrap()["outcome"].as_str().unwrap().to_owned();
        assert!(outcome.starts_with(begins), "{outcome}");
        if begins.starts_with("happened") {
            assert!(outcome.contains("opened 19 accounts with 19"), "{outcome}");
        }
    }
    assert_eq!(world.run(&import).await.0.unwrap(), Ended::Well);
    let all = world.operations().await;
    let before = &all[0]["shown"]["before"];
    assert_eq!(
        (&before["accounts"], &before["balances"], &before["missing"]["accounts"]),
        (&json!(40), &json!("40"), &json!(40))
    );
    let digest = before["sha256"].as_str().unwrap();
    assert_eq!(digest, "dbcd97e4b56e6e5f60ad1e4e6d47fd1bcf65fdc7521b2fb9f4d4e1738c6bf52a");
    assert!(all.iter().all(|one| one["shown"]["before"]["sha256"] == digest), "of the same file: {all:#?}");
}

#[tokio::test]
async fn an_operation_whose_end_is_not_known_needs_attention() {
    let world = world().await;
    world.db.faults().only(Rule::new(Fault::Denied).on("UpdateItem"));
    let (ended, _) = world.run(&["freeze", "did:key:alice", "--yes"]).await;
    assert_eq!(ended.unwrap(), Ended::Well, "it was done, and its beginning was written");
    world.db.faults().heal();
    let all = world.operations().await;
    assert_eq!((all.len(), &all[0]["outcome"]), (1, &Value::Null));
    let (ended, text) = world.run_for(None, &["operations", "tokens"]).await;
    assert_eq!(ended.unwrap(), Ended::NeedsAttention);
    assert!(text.contains("may have happened"), "{text}");
}

#[tokio::test]
async fn an_environment_is_never_guessed() {
    let world = world().await;
    let mut out = Vec::new();
    let name = |shared: &Shared, out: &mut Vec<u8>| {
        Context::with(shared, world.aws.clone(), out).table_name(None, "tokens-ledger")
    };
    let parse = |arguments: &[&str]| {
        let all = ["ichidoctl"].iter().chain(arguments).chain(&["tokens", "verify"]).copied();
        Cli::try_parse_from(all.collect::<Vec<_>>()).unwrap().shared
    };
    assert_eq!(name(&parse(&["--env", "prod"]), &mut out).unwrap(), "tokens-ledger");
    assert_eq!(name(&parse(&["--env", "staging"]), &mut out).unwrap(), "tokens-ledger-staging");
    assert_eq!(name(&parse(&["--endpoint-url", "http://127.0.0.1:8787"]), &mut out).unwrap(), "tokens-ledger");
    assert!(matches!(name(&Shared::default(), &mut out), Err(Error::NoEnvironment)));
}
