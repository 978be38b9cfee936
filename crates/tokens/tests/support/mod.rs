//! A ledger on an embedded DynamoDB of its own, with a clock and random numbers that the test controls.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate and uses its part of this one")]

pub mod linear;
pub mod model;
pub mod schema;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::issuer::Issuer;
use function::Secret;
use function::http::{Request, Response};
use function::secret::Source;
use ichido::{Clock, Timestamp};
use serde_json::Value;
use testkit::faults::{Fault, Rule};
use testkit::{Dynamo, ManualClock, Outside};
use tokens::amount::Amount;
use tokens::function::api::Api;
use tokens::identity::did::Did;
use tokens::identity::jwt::{Expectations, OPERATOR_SCOPE};
use tokens::identity::keys::Keys;
use tokens::ledger::{Answer, BUDGET, Error, Ledger, Obstacle, Random, Transfer};
use tokens::settings::Rules;
use tokens::verify::{Report, verify};

pub const TEMPLATE: &str = "infra/templates/tokens.yaml";
pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "tokens";

pub struct World {
    pub db: Dynamo,
    pub clock: ManualClock,
    pub ledger: Ledger,
    pub api: Api,
    pub issuer: Issuer,
}

/// A world with default rules.
pub async fn world() -> World {
    World::new(Rules::default(), 1).await
}

/// The seed of a test: `SEED=n` replays one.
pub fn seed(default: u64) -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

/// `name=number` of the environment, for longer runs.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

impl World {
    pub async fn new(rules: Rules, seed: u64) -> Self {
        Self::with(rules, seed, Outside::new()).await
    }

    pub async fn with(rules: Rules, seed: u64, outside: Outside) -> Self {
        let clock = ManualClock::new();
        let db = Dynamo::start(&[TEMPLATE]).await.with_clock(&clock).with_outside(outside);
        db.faults().seed(seed);
        let issuer = Issuer::new(ISSUER, AUDIENCE, "test").unwrap();
        let (ledger, api) = service(&db, &clock, rules, seed, &issuer);
        World { db, clock, ledger, api, issuer }
    }

    /// The same table through another instance, perhaps with other rules.
    pub fn instance(&self, rules: Rules, seed: u64) -> Ledger {
        Ledger::new(self.db.client(), self.table(), rules, Arc::new(self.clock.clone()), random(seed))
    }

    pub fn table(&self) -> &str {
        self.db.table("TokensTable")
    }

    pub fn until(&self) -> Timestamp {
        self.clock.now() + BUDGET
    }

    pub async fn open(&self, names: &[&str]) {
        for name in names {
            self.ledger.open(&did(name), self.until()).await.unwrap();
        }
    }

    /// Sends `amount` from one to another under `key`.
    pub async fn send(&self, from: &str, to: &str, amount: &str, key: &str) -> Result<Answer, Error> {
        self.ledger.transfer(&transfer(from, to, amount, key), self.until()).await
    }

    /// Gives an account its shards: a transfer of 1 to it meets others twice. The sender gets it back. Removes all faults.
    pub async fn give_shards(&self, from: &str, to: &str) {
        meets_twice(self, Fault::ConflictOn("ACCOUNT#"));
        self.send(from, to, "1", &format!("shards-{to}")).await.unwrap();
        self.db.faults().heal();
        self.send(to, from, "1", &format!("shards-back-{from}")).await.unwrap();
    }

    pub async fn balance(&self, name: &str) -> String {
        self.ledger.holding(&did(name)).await.unwrap().unwrap().balance.to_string()
    }

    pub async fn verify(&self) -> Report {
        verify(&self.db.client(), self.table()).await.unwrap()
    }

    /// Asserts that the table is sound, and returns what was granted.
    pub async fn assert_sound(&self) -> String {
        let report = self.verify().await;
        assert!(report.is_clean(), "{report:#?}");
        report.grants.to_string()
    }

    /// Items whose `PK` begins so.
    pub fn items(&self, prefix: &str) -> Vec<Value> {
        let starts = |item: &Value| item["PK"]["S"].as_str().is_some_and(|pk| pk.starts_with(prefix));
        self.db.items(self.table()).into_iter().filter(starts).collect()
    }

    // HTTP

    pub fn token(&self, name: &str) -> String {
        self.issuer.token(did(name), self.clock.now() + Duration::from_secs(3600)).unwrap()
    }

    pub fn operator(&self) -> String {
        self.operator_token(did("operator").as_str())
    }

    pub fn operator_token(&self, did: &str) -> String {
        self.issuer.scoped_token(did, OPERATOR_SCOPE, self.clock.now() + Duration::from_secs(3600)).unwrap()
    }

    pub async fn call(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> Response {
        let mut request = request(method, path, token);
        if let Some(body) = body {
            request.headers.insert("content-type".into(), "application/json".into());
            request.body = body.to_string().into_bytes();
        }
        self.api.handle(&request, None).await
    }
}

pub fn service(db: &Dynamo, clock: &ManualClock, rules: Rules, seed: u64, issuer: &Issuer) -> (Ledger, Api) {
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let ledger = Ledger::new(db.client(), db.table("TokensTable"), rules, Arc::clone(&shared), random(seed));
    let keys = Keys::new(Source::Fixed(Secret::new(issuer.jwks().to_string())));
    let expectations = Expectations { issuer: ISSUER.into(), audience: AUDIENCE.into() };
    let api = Api::new(ledger.clone(), expectations, keys, shared);
    (ledger, api)
}

pub fn request(method: &str, path: &str, token: &str) -> Request {
    let (path, raw_query) = path.split_once('?').unwrap_or((path, ""));
    let mut request =
        Request { method: method.into(), path: path.into(), raw_query: raw_query.into(), ..Request::default() };
    if !token.is_empty() {
        request.headers.insert("authorization".into(), format!("Bearer {token}"));
    }
    request
}

pub fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

/// Runs `work` and returns the lines that it logged, metrics included.
pub async fn lines(work: impl Future<Output = ()>) -> Vec<Value> {
    telemetry::init_scoped(telemetry::Level::INFO);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let lines = Arc::clone(&lines);
        Arc::new(move |line: &str| lines.lock().unwrap().push(serde_json::from_str(line).unwrap()))
    };
    telemetry::scoped(sink, work).await;
    lines.lock().unwrap().clone()
}

pub fn random(seed: u64) -> Random {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    Arc::new(move || random.lock().unwrap().u128(..))
}

pub fn did(name: &str) -> Did {
    if name.starts_with("did:") { name.parse().unwrap() } else { format!("did:key:{name}").parse().unwrap() }
}

pub fn transfer(from: &str, to: &str, amount: &str, key: &str) -> Transfer {
    Transfer {
        sender: did(from),
        recipient: did(to),
        amount: amount.parse::<Amount>().unwrap(),
        message: String::new(),
        key: key.parse().unwrap(),
    }
}

/// The first and the third transaction from now on meet another one. In between, a credit finds no shard.
pub fn meets_twice(world: &World, fault: Fault) {
    world.db.faults().only(Rule::new(fault).on("TransactWriteItems").call(1));
    // It does not count the one that the first rule has struck.
    world.db.faults().put(Rule::new(fault).on("TransactWriteItems").call(2));
}

pub fn refusal(result: Result<Answer, Error>) -> Obstacle {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
