//! Transfers: clients of the HTTP API pay each other, and repeat a request under its idempotency key until it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use emulator::issuer::Issuer;
use function::Env;
use function::http::Request;
use function::secret::Source;
use ichido::{Clock, Timestamp};
use serde_json::{Value, json};
use tokens::function::api::Api;
use tokens::identity::did::Did;
use tokens::identity::jwt::Expectations;
use tokens::identity::keys::Keys;
use tokens::ledger::{Ledger, Random};
use tokens::settings::Settings;

use super::{App, Backoff, Left, Outcome, Plan, Users, all};
use crate::{Error, World};

pub const UNIT: &str = "transfers per second";
pub const FUNCTION: &str = "tokens-api";
pub const ROUTE: &str = "POST /tokens/transfer";
pub(super) const TEMPLATE: &str = include_str!("../../../../infra/templates/tokens.yaml");
/// How many accounts pay each other. So many that two rarely meet at one account.
const ACCOUNTS: usize = 200;
/// A client gives up after so long.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Adds the function.
fn install(world: &World) -> Result<(), Error> {
    let inside = world.clone();
    world.function(FUNCTION, |env| {
        Arc::new(move || {
            let (world, env) = (inside.clone(), env.clone());
            Box::pin(async move { start(&world, &env).await })
        })
    })?;
    Ok(())
}

/// An instance of `tokens-api`, as its `build` makes it, in simulated time.
async fn start(world: &World, env: &Env) -> Result<function::Handler, function::Error> {
    let settings = Settings::read(env)?;
    let (aws, clock): (_, Arc<dyn Clock>) = (world.aws(), Arc::new(world.clock()));
    let ledger = Ledger::new(aws.dynamodb(), &settings.table_name, settings.rules, clock.clone(), random());
    let keys = Keys::new(Source::named(aws.clone(), settings.keys_parameter));
    // If the keys cannot be read now, the first request tries again.
    let (_, _) = tokio::join!(aws.warm(&settings.table_name), keys.current());
    let api = Api::new(ledger, settings.expectations, keys, clock);
    Ok(function::handler(move |event| {
        let api = api.clone();
        async move {
            let request = Request::from_event(&event.payload)?;
            Ok(api.handle(&request, function::deadline(&event.context)).await.into_value())
        }
    }))
}

/// Ids are random, so that two instances never choose the same one.
fn random() -> Random {
    Arc::new(|| fastrand::u128(..))
}

/// Everybody pays somebody else.
pub(crate) async fn surge(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let pair = |random: &mut fastrand::Rng| {
        let from = random.usize(..ACCOUNTS);
        (from, (from + 1 + random.usize(..ACCOUNTS - 1)) % ACCOUNTS)
    };
    let arrivals = plan.arrivals();
    let pairs = arrivals.iter().map(|_| pair(&mut random)).collect();
    transfers(world, plan, arrivals, pairs).await
}

/// Everybody pays the same account.
pub(crate) async fn hot(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let arrivals = plan.arrivals();
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let pairs = arrivals.iter().map(|_| (1 + random.usize(..ACCOUNTS - 1), 0)).collect();
    transfers(world, plan, arrivals, pairs).await
}

/// Makes the transfers, each from its arrival on, and counts what the ledger has of them.
async fn transfers(
    world: &World,
    plan: &Plan,
    arrivals: Vec<Duration>,
    pairs: Vec<(usize, usize)>,
) -> Result<Outcome, Error> {
    install(world)?;
    let tokens = accounts(world).await?;
    let (table, users) = (world.table("TokensTable")?, Users::default());
    let (tokens, pairs) = (Arc::new(tokens), Arc::new(pairs));
    all(world.clock(), arrivals, |number| {
        let (from, to) = pairs[number];
        let request = request(&tokens[from], number, to);
        let client = Client { world: world.clone(), users: users.clone(), seed: plan.seed.wrapping_add(number as u64) };
        async move { client.pursue(&request).await }
    })
    .await;
    let mut there: BTreeMap<String, u64> = BTreeMap::new();
    for item in world.items(&table)? {
        let is_sent = item["PK"]["S"].as_str().is_some_and(|key| key.starts_with("SENT#"));
        if let Some(message) = item["message"]["S"].as_str().filter(|_| is_sent) {
            *there.entry(message.to_owned()).or_default() += 1;
        }
    }
    let keys: Vec<String> = (0..pairs.len()).map(key).collect();
    let mut outcome = Outcome::compare(keys.iter().map(String::as_str), &there, &Left::default(), &users);
    let report = tokens::verify::verify(&world.unlimited().dynamodb(), &table).await;
    let report = report.map_err(App::Tokens.failed("the ledger cannot be verified"))?;
    if !report.is_clean() {
        // The sums are wrong: then something was doubled or lost, whatever the entries say.
        outcome.lost += 1;
        outcome.seen.insert(format!("the ledger is not sound: {report:?}"), 1);
    }
    Ok(outcome)
}

/// Opens the accounts, and returns the token of each.
async fn accounts(world: &World) -> Result<Vec<String>, Error> {
    let function = world.environment(FUNCTION)?;
    let settings = Settings::read(&function).map_err(App::Tokens.failed("the template's variables"))?;
    let Expectations { issuer, audience } = settings.expectations.clone();
    let issuer = Issuer::new(issuer, audience, "scale").map_err(App::Tokens.failed("the issuer's key"))?;
    world.parameter(&settings.keys_parameter, issuer.jwks().to_string());
    let clock: Arc<dyn Clock> = Arc::new(world.clock());
    let dynamodb = world.unlimited().dynamodb();
    let ledger = Ledger::new(dynamodb, &settings.table_name, settings.rules, clock.clone(), random());
    let mut tokens = Vec::with_capacity(ACCOUNTS);
    for number in 0..ACCOUNTS {
        let did = did(number)?;
        let until: Timestamp = clock.now() + Duration::from_secs(60);
        ledger.open(&did, until).await.map_err(App::Tokens.failed("an account cannot be opened"))?;
        let token = issuer.token(did, clock.now() + Duration::from_secs(86_400));
        tokens.push(token.map_err(App::Tokens.failed("a token cannot be signed"))?);
    }
    Ok(tokens)
}

fn did(number: usize) -> Result<Did, Error> {
    format!("did:key:account{number}").parse().map_err(App::Tokens.failed("the name of an account"))
}

/// The idempotency key of a transfer, which is also its message, so that the count finds its entry.
fn key(number: usize) -> String {
    format!("transfer-{number}")
}

fn request(token: &str, number: usize, to: usize) -> Request {
    let body = json!({"recipientDid": format!("did:key:account{to}"), "amount": "0.01", "message": key(number)});
    let headers = [
        ("authorization".to_owned(), format!("Bearer {token}")),
        ("idempotency-key".to_owned(), key(number)),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    Request {
        method: "POST".to_owned(),
        path: "/tokens/transfer".to_owned(),
        headers: headers.into(),
        body: body.to_string().into_bytes(),
        route_key: ROUTE.to_owned(),
        ..Request::default()
    }
}

struct Client {
    world: World,
    users: Users,
    seed: u64,
}

impl Client {
    /// Sends a request until it is answered.
    async fn pursue(&self, request: &Request) {
        let began = self.world.clock().elapsed();
        let waited = || self.world.clock().elapsed().saturating_sub(began);
        let mut backoff = Backoff::new(self.seed);
        while waited() < PATIENCE {
            let response = self.world.request(ROUTE, FUNCTION, request).await;
            match response.status {
                200 => {
                    self.users.waited(waited());
                    return self.users.saw("200");
                }
                // The client tries again: the key makes that safe.
                429 | 500.. => self.users.saw(code(&response.body, response.status)),
                status => return self.users.saw(code(&response.body, status)),
            }
            backoff.wait().await;
        }
        self.users.saw("gave up");
    }
}

/// The status and, if our API gave one, the problem's code.
fn code(body: &[u8], status: u16) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match problem["code"].as_str() {
        Some(code) => format!("{status} {code}"),
        None => status.to_string(),
    }
}
