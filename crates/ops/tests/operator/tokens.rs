//! docs/taking-over-tokens.md, rehearsed: a service of the first design is taken over with its accounts and used keys, and
//! taken back.

use std::collections::BTreeMap;
use std::path::Path;

use ::tokens::amount::{Amount, UNITS};
use aws_sdk_dynamodb::types::AttributeValue;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::{answer, aws, http};
use crate::support::ctl::{ctl, platform};
use crate::support::process::Local;

/// The service before this one: it keeps balances in cents, and moves money once per sender and key.
struct Earlier {
    balances: BTreeMap<String, i64>,
    used: BTreeMap<(String, String), (String, i64)>,
}

impl Earlier {
    /// Whether the transfer is, or was, made.
    fn transfer(&mut self, sender: &str, recipient: &str, cents: i64, key: &str) -> bool {
        let used = (sender.to_owned(), key.to_owned());
        if let Some(before) = self.used.get(&used) {
            return *before == (recipient.to_owned(), cents);
        }
        if self.balances.get(sender).is_none_or(|balance| *balance < cents) {
            return false;
        }
        *self.balances.get_mut(sender).expect("the sender") -= cents;
        *self.balances.get_mut(recipient).expect("the recipient") += cents;
        self.used.insert(used, (recipient.to_owned(), cents));
        true
    }

    fn export(&self, directory: &Path) -> (String, String) {
        let amount = |cents: i64| format!("{}.{:02}", cents / 100, cents % 100);
        let accounts: String = self.balances.iter().map(|(did, cents)| format!("{did},{}\n", amount(*cents))).collect();
        let now = ichido::Clock::now(&ichido::SystemClock);
        let keys = self.used.iter().map(|((sender, key), (recipient, cents))| {
            let id = format!("tx_{key}");
            json!({ "senderDid": sender, "idempotencyKey": key, "recipientDid": recipient, "amount": amount(*cents),
                "transactionId": id, "createdAt": now.as_millis().to_string() })
            .to_string()
        });
        let keys: Vec<String> = keys.collect();
        let path = |name: &str| directory.join(name).to_str().expect("a path").to_owned();
        let files = (path("accounts.csv"), path("keys.jsonl"));
        std::fs::write(&files.0, format!("did,balance\n{accounts}")).expect("accounts");
        std::fs::write(&files.1, keys.join("\n")).expect("keys");
        files
    }
}

/// Sends a transfer to the platform as its sender.
async fn transfer(local: &Local, token: &str, recipient: &str, amount: &str, key: &str) -> (u16, Value) {
    let request = http().post(format!("{}/tokens/transfer", local.url)).bearer_auth(token);
    let request = request.header("idempotency-key", key).json(&json!({ "recipientDid": recipient, "amount": amount }));
    let (status, body) = answer(request).await;
    (status.as_u16(), body)
}

async fn balance(local: &Local, token: &str, did: &str) -> String {
    let (_, body) = answer(http().get(format!("{}/tokens/balance/{did}", local.url)).bearer_auth(token)).await;
    body["balance"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[tokio::test]
async fn a_service_is_taken_over_with_its_accounts_and_used_keys_and_taken_back() {
    let local = platform(&[]);
    let config = local.get("/_local/config").await;
    let account = |at: usize| {
        let text = |name: &str| config["accounts"][at][name].as_str().expect("an account").to_owned();
        (text("did"), text("token"))
    };
    let ((alice, alices), (bob, bobs)) = (account(0), account(1));
    let balances = [(alice.clone(), 10_000), (bob.clone(), 50), ("did:web:localhost%3A8443".into(), 1)];
    let mut earlier = Earlier { balances: balances.into(), used: BTreeMap::new() };
    assert!(earlier.transfer(&alice, &bob, 1_250, "order#7"));

    // Its writes are stopped, and it is exported.
    let directory = TempDir::new().expect("a directory");
    let (accounts, keys) = earlier.export(directory.path());
    let shown = |said: String| said.replace(directory.path().to_str().expect("a path"), "");
    assert_snapshot!(shown(ctl(&local, &["tokens", "import", &accounts, "--dry-run"]).tidy()), @r"
    /accounts.csv: 3 accounts with 100.51, 0 used keys
    tokens-ledger: has 0 of these accounts with 0, 0 of these keys, 0 records of the first design
    would open 3 accounts with 100.51, remember 0 used keys, rewrite 0 records of the first design; nothing was written
    exit code 0
    ");
    let unconfirmed = ctl(&local, &["tokens", "import", &accounts]);
    assert!(unconfirmed.code == Some(2) && unconfirmed.err.contains("not confirmed"), "{unconfirmed:?}");
    assert_snapshot!(shown(ctl(&local, &["tokens", "import", &accounts, "--yes"]).tidy()), @r"
    tokens-ledger: opened 3 accounts with 100.51, remembered 0 used keys, rewrote 0 records of the first design
    proved: the balances of the file, 100.51 in 3 accounts, are what was granted; 0 used keys are remembered
    exit code 0
    ");
    assert_snapshot!(shown(ctl(&local, &["tokens", "import", &keys, "--yes"]).tidy()), @r"
    tokens-ledger: opened 0 accounts with 0, remembered 1 used keys, rewrote 0 records of the first design
    proved: the balances of the file, 0 in 0 accounts, are what was granted; 1 used keys are remembered
    exit code 0
    ");
    assert_snapshot!(ctl(&local, &["tokens", "verify"]).tidy(), @r"
    tokens-ledger: 3 balances, 3 entries, 100.51 granted, 100.51 held
    proven: every balance is the sum of its entries, and all balances together are the grants
    exit code 0
    ");
    // Again: there is nothing to confirm, and nothing is changed.
    assert_snapshot!(shown(ctl(&local, &["tokens", "import", &accounts]).tidy()), @r"
    tokens-ledger: opened 0 accounts with 0, remembered 0 used keys, rewrote 0 records of the first design
    proved: the balances of the file, 100.51 in 3 accounts, are what was granted; 0 used keys are remembered
    exit code 0
    ");

    // A client repeats what the service before has done, and then goes on.
    let (status, body) = transfer(&local, &alices, &bob, "12.5", "order#7").await;
    assert_eq!((status, &body["transactionId"]), (200, &json!("tx_order#7")), "{body}");
    let (status, body) = transfer(&local, &alices, &bob, "12.51", "order#7").await;
    assert_eq!((status, &body["fields"]), (422, &json!(["amount"])), "{body}");
    assert_eq!(
        (balance(&local, &alices, &alice).await, balance(&local, &bobs, &bob).await),
        ("87.5".into(), "13".into())
    );
    for (token, to, amount, key) in [(&alices, &bob, "20", "order-8"), (&bobs, &alice, "0.25", "order#9")] {
        assert_eq!(transfer(&local, token, to, amount, key).await.0, 200);
    }

    // And back: what was transferred here is sent to the service before, each with its key.
    let scan = aws(&local.url).dynamodb().scan().table_name("tokens-ledger").consistent_read(true);
    let scan = scan
        .filter_expression("begins_with(PK, :records) AND ichido_state = :done")
        .expression_attribute_values(":records", AttributeValue::S("IDEMPOTENCY#".into()))
        .expression_attribute_values(":done", AttributeValue::S("completed".into()));
    let items = scan.send().await.expect("records").items.unwrap_or_default();
    let mut made: Vec<&str> =
        items.iter().map(|item| item["ichido_outcome"].as_s().expect("an answer").as_str()).collect();
    made.sort_unstable();
    assert_eq!(made.len(), 2, "not what the service before knows already: {made:?}");
    for line in made.iter().chain(&made) {
        let line: Value = serde_json::from_str(line).expect("an answer");
        let text = |name: &str| line[name].as_str().expect("a text");
        let amount: Amount = text("amount").parse().expect("an amount");
        let cents = i64::try_from(amount.units() / (UNITS / 100)).expect("cents");
        assert!(earlier.transfer(text("senderDid"), text("recipientDid"), cents, text("idempotencyKey")), "{line}");
    }
    assert_eq!(
        (balance(&local, &alices, &alice).await, balance(&local, &bobs, &bob).await),
        ("67.75".into(), "32.75".into())
    );
    assert_eq!((earlier.balances[&alice], earlier.balances[&bob]), (6_775, 3_275), "the same balances");
}

#[test]
fn a_file_with_problems_is_refused_line_by_line() {
    let local = platform(&[]);
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("accounts.csv");
    std::fs::write(&file, "did,balance\ndid:key:alice,1\ndid:key:alice,1\nbob,2\ndid:key:carol,-3\n\"did:key:dave,4\n")
        .expect("a file");
    let file = file.to_str().expect("a path");
    let shown = |said: String| said.replace(directory.path().to_str().expect("a path"), "");
    assert_snapshot!(shown(ctl(&local, &["tokens", "import", file, "--dry-run"]).tidy()), @r#"
    /accounts.csv: 1 accounts with 1, 0 used keys
    ignored  1 lines that say the same as an earlier one, the first at line 3
    problem  line 4: did "bob": a DID is did:method:identifier, such as did:key:z6Mk...
    problem  line 5: balance "-3": amount must not have a sign
    problem  line 6: a field begins with a quote that is not closed on its line
    exit code 1
    "#);
    let refused = ctl(&local, &["tokens", "import", file, "--yes"]);
    assert_snapshot!(shown(refused.tidy()), @r#"
    /accounts.csv: 1 accounts with 1, 0 used keys
    ignored  1 lines that say the same as an earlier one, the first at line 3
    problem  line 4: did "bob": a DID is did:method:identifier, such as did:key:z6Mk...
    problem  line 5: balance "-3": amount must not have a sign
    problem  line 6: a field begins with a quote that is not closed on its line
    exit code 2
    "#);
    assert_snapshot!(shown(refused.err), @"ichidoctl: nothing was imported from /accounts.csv: 3 problems");
    let json = ctl(&local, &["tokens", "import", file, "--dry-run", "--json"]).json();
    assert_eq!((&json["found"]["problemCount"], &json["found"]["problems"][0]["line"]), (&json!(3), &json!(4)));
    assert_snapshot!(ctl(&local, &["tokens", "verify"]).tidy(), @r"
    tokens-ledger: 0 balances, 0 entries, 0 granted, 0 held
    proven: every balance is the sum of its entries, and all balances together are the grants
    exit code 0
    ");
    let missing = ctl(&local, &["tokens", "import", "nowhere.csv"]);
    assert!(missing.code == Some(2) && missing.err.contains("could not read nowhere.csv"), "{missing:?}");
}
