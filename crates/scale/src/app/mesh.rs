//! Realtime groups: the nodes of one group report their sensors' data through AppSync's resolvers, and repeat a report under its
//! `messageId` until it is accepted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use appsync::{Api, Caller, LambdaError, Subscription};
use emulator::limits::{Permit, aws};
use ichido::Clock as _;
use mesh::settings::Settings;
use serde_json::{Value, json};

use super::{App, Backoff, Left, Outcome, Plan, Users, all};
use crate::world::assumed;
use crate::world::lambda::ACCOUNT;
use crate::{Error, World};

pub const UNIT: &str = "messages per second in one group";
pub const FUNCTION: &str = "mesh-resolver";
pub(super) const TEMPLATE: &str = include_str!("../../../../infra/templates/mesh.yaml");
/// The schema and the resolvers. A checkout has them; the program is run from one.
const CODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/appsync");
/// The id of the API: what the template's `Fn::GetAtt` becomes here.
const API_ID: &str = "MeshApi.ApiId";
const LOG_GROUP: &str = "/aws/appsync/apis/MeshApi.ApiId";
const KEY: &str = "key-of-the-simulation";
const DOMAIN: &str = "198.51.100.7";
/// The longest life of a group, as in prod.
pub(super) const MINUTES: &str = "50";
/// A class, all in one group.
const NODES: usize = 40;
/// A message to subscribers is counted in units of this size.
const MESSAGE_UNIT: usize = 5 * 1_024;
/// Nodes say that they live more often than they must.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often a client tries to join.
const TRIES: u32 = 10;
/// A client gives up after so long.
const PATIENCE: Duration = Duration::from_secs(600);

const CREATE: &str = "mutation ($hostId: ID!, $domain: String!, $seconds: Int) {
  createGroup(name: \"class\", hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $seconds, useWebSocket: true) { id } }";
const JOIN: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) {
  joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { id } }";
const RENEW: &str = "mutation ($groupId: ID!, $domain: String!, $hostId: ID!) {
  renewHeartbeat(groupId: $groupId, domain: $domain, hostId: $hostId) { expiresAt } }";
const BEAT: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) {
  sendMemberHeartbeat(groupId: $groupId, domain: $domain, nodeId: $nodeId) { expiresAt } }";
const LISTEN: &str = "subscription ($groupId: ID!, $domain: String!) {
  onMessageInGroup(groupId: $groupId, domain: $domain) {
    groupId domain sequence messageId nodeStatus { nodeId groupId domain timestamp data { key value } } } }";
const REPORT: &str =
    "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $data: [SensorDataInput!]!, $messageId: ID) {
  reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data, messageId: $messageId) {
    groupId domain sequence messageId nodeStatus { nodeId groupId domain timestamp data { key value } } } }";

/// Adds the function.
fn install(world: &World) -> Result<(), Error> {
    let inside = world.clone();
    world.function(FUNCTION, |env| {
        Arc::new(move || {
            let (world, env) = (inside.clone(), env.clone());
            Box::pin(async move {
                let (client, clock) = (world.aws().dynamodb(), Arc::new(world.clock()));
                let ids = Arc::new(uuid::Uuid::new_v4);
                Ok(mesh::function::resolver::handler(Settings::read(&env)?, client, clock, ids))
            })
        })
    })?;
    Ok(())
}

/// AppSync with the deployed schema and resolvers.
#[derive(Clone)]
struct Mesh {
    api: Api,
    world: World,
}

impl Mesh {
    fn new(world: &World, seed: u64) -> Result<Self, Error> {
        let (lambda, clock, logger) = (world.lambda().clone(), world.clock(), world.clone());
        let api = Api::builder()
            .template(TEMPLATE, &[])
            .code_dir(Path::new(CODE))
            .dynamodb(world.aws().dynamodb())
            .log(move |line| logger.log(LOG_GROUP, line))
            .lambda(FUNCTION, move |payload| {
                let lambda = lambda.clone();
                async move {
                    let answer = lambda.invoke(FUNCTION, payload).await;
                    answer.map_err(|failure| LambdaError::new(failure.body().to_string()))
                }
            })
            .api_keys([KEY])
            .environment("MESH_MAX_CONNECTION_TIME_MINUTES", MINUTES)
            .seed(seed)
            .clock(move || i64::try_from(clock.now().as_millis()).unwrap_or(i64::MAX))
            .build()
            .map_err(App::Mesh.failed("the API cannot be made of infra/appsync"))?;
        Ok(Self { api, world: world.clone() })
    }

    /// The value of the one field of an operation, or the type of its error.
    async fn ask(&self, query: &str, variables: Value) -> Result<Value, String> {
        let (clock, limits) = (self.world.clock(), self.world.limits());
        let began = clock.elapsed();
        clock.sleep(assumed::APPSYNC).await;
        if limits.take(&aws::APPSYNC_REQUESTS, ACCOUNT, 1.0).is_err() {
            self.world.metrics().graphql(API_ID, 429, clock.elapsed().saturating_sub(began));
            return Err("429".to_owned());
        }
        let response = self.api.execute(query, variables, &Caller::api_key(KEY)).await;
        self.world.metrics().graphql(API_ID, 200, clock.elapsed().saturating_sub(began));
        if let Some(error) = response.to_json()["errors"][0]["errorType"].as_str() {
            return Err(error.to_owned());
        }
        let fields = response.data();
        Ok(fields.as_object().and_then(|fields| fields.values().next().cloned()).unwrap_or_default())
    }

    /// The same, again and again as a client does, until it succeeds or has been refused too often.
    async fn insist(&self, query: &str, variables: Value, seed: u64) -> Result<Value, String> {
        let mut backoff = Backoff::new(seed);
        let mut answer = self.ask(query, variables.clone()).await;
        for _ in 0..TRIES {
            if answer.is_ok() {
                break;
            }
            backoff.wait().await;
            answer = self.ask(query, variables.clone()).await;
        }
        answer
    }

    /// A report, which every node of the group gets.
    async fn report(&self, variables: Value) -> Result<Value, String> {
        let accepted = self.ask(REPORT, variables).await?;
        // What AppSync does not pass on is in the stream all the same: clients fetch it (getMessagesSince).
        let _ = self.world.limits().take(&aws::APPSYNC_INBOUND, API_ID, 1.0);
        Ok(accepted)
    }

    /// A node opens its connection, joins unless it is the host, and subscribes once.
    async fn enter(&self, group: &str, number: usize, users: &Users) -> Result<Listener, String> {
        let limits = self.world.limits();
        let mut backoff = Backoff::new(number as u64);
        let mut connected = limits.take(&aws::APPSYNC_CONNECTIONS, API_ID, 1.0);
        for _ in 0..TRIES {
            if connected.is_ok() {
                break;
            }
            users.saw("connection refused");
            backoff.wait().await;
            connected = limits.take(&aws::APPSYNC_CONNECTIONS, API_ID, 1.0);
        }
        connected.map_err(|exceeded| exceeded.to_string())?;
        if number > 0 {
            self.insist(JOIN, of(group, number), number as u64).await?;
        }
        let of_connection = limits.enter(&aws::APPSYNC_SUBSCRIPTIONS, &format!("{group} {}", node(number)));
        let permit = of_connection.map_err(|exceeded| exceeded.to_string())?;
        let variables = json!({"groupId": group, "domain": DOMAIN});
        let subscription = self.api.subscribe(LISTEN, variables, &Caller::api_key(KEY)).await;
        let subscription = subscription.map_err(|error| error.to_string())?;
        let task = tokio::spawn(listen(self.world.clone(), subscription, users.clone()));
        Ok(Listener { task, _subscription: permit })
    }
}

/// A node that gets the messages of its group until this is dropped.
struct Listener {
    task: tokio::task::JoinHandle<()>,
    _subscription: Permit,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes what AppSync sends to one subscriber.
async fn listen(world: World, mut subscription: Subscription, users: Users) {
    let limits = world.limits();
    while let Some(message) = subscription.next().await {
        let bytes = message.to_string().len();
        let units = bytes.div_ceil(MESSAGE_UNIT) as f64;
        let passed = limits
            .fits(&aws::APPSYNC_MESSAGE, API_ID, bytes)
            .and_then(|()| limits.take(&aws::APPSYNC_OUTBOUND, API_ID, units));
        users.saw(if passed.is_ok() { "message to a member" } else { "message to a member refused, so it fetches it" });
    }
}

/// The nodes of one group report.
pub(crate) async fn surge(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    reports(world, plan, 1, NODES).await
}

/// The nodes of many small groups report, all behind one address, so that the groups have one domain.
pub(crate) async fn one_domain(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    reports(world, plan, 32, 4).await
}

/// Makes the groups, sends the reports to them in turn, and counts what their streams have.
async fn reports(world: &World, plan: &Plan, groups: usize, nodes: usize) -> Result<Outcome, Error> {
    install(world)?;
    let mesh = Mesh::new(world, plan.seed)?;
    let users = Users::default();
    let refused = |error: String| App::Mesh.failed("the group cannot be made")(format!("it was refused: {error}"));
    let (mut ids, mut listeners, mut beating) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..groups {
        let host = json!({"hostId": node(0), "domain": DOMAIN, "seconds": 3_000});
        let group = mesh.insist(CREATE, host, plan.seed).await.map_err(refused)?;
        let group = group["id"].as_str().unwrap_or_default().to_owned();
        beating.push(tokio::spawn(renew(mesh.clone(), group.clone(), users.clone())));
        let entered = (0..nodes).map(|number| mesh.enter(&group, number, &users));
        for entered in futures::future::join_all(entered).await {
            listeners.push(entered.map_err(refused)?);
        }
        beating.push(tokio::spawn(beat(mesh.clone(), group.clone(), nodes, users.clone())));
        ids.push(group);
    }
    let arrivals = plan.arrivals();
    let wanted: Vec<String> = (0..arrivals.len()).map(message_id).collect();
    let ids = Arc::new(ids);
    all(world.clock(), arrivals, |number| {
        let (mesh, users, ids) = (mesh.clone(), users.clone(), ids.clone());
        let seed = plan.seed.wrapping_add(number as u64);
        let (group, member) = (number % groups, number / groups % nodes);
        async move { pursue(&mesh, &users, &ids[group], member, number, seed).await }
    })
    .await;
    beating.iter().for_each(tokio::task::JoinHandle::abort);
    drop(listeners);
    let mut there: BTreeMap<String, u64> = BTreeMap::new();
    for item in world.items(&world.table("MeshTable")?)? {
        let is_message = item["sk"]["S"].as_str().is_some_and(|key| key.starts_with("MESSAGE#"));
        if let Some(id) = item["messageId"]["S"].as_str().filter(|_| is_message) {
            *there.entry(id.to_owned()).or_default() += 1;
        }
    }
    Ok(Outcome::compare(wanted.iter().map(String::as_str), &there, &Left::default(), &users))
}

/// One report, until it is accepted.
async fn pursue(mesh: &Mesh, users: &Users, group: &str, member: usize, number: usize, seed: u64) {
    let clock = mesh.world.clock();
    let began = clock.elapsed();
    let waited = || clock.elapsed().saturating_sub(began);
    let mut backoff = Backoff::new(seed);
    let mut variables = of(group, member);
    variables["messageId"] = json!(message_id(number));
    variables["data"] = json!([{"key": "temperature", "value": format!("{}.5", number % 40)}]);
    while waited() < PATIENCE {
        match mesh.report(variables.clone()).await {
            Ok(_) => {
                users.waited(waited());
                return users.saw("accepted");
            }
            Err(error) => users.saw(error),
        }
        backoff.wait().await;
    }
    users.saw("gave up");
}

/// The heartbeats of the host.
async fn renew(mesh: Mesh, group: String, users: Users) {
    loop {
        let host = json!({"groupId": group, "domain": DOMAIN, "hostId": node(0)});
        if let Err(refused) = mesh.ask(RENEW, host).await {
            users.saw(format!("heartbeat {refused}"));
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}

/// The heartbeats of the members.
async fn beat(mesh: Mesh, group: String, nodes: usize, users: Users) {
    loop {
        let members = (1..nodes).map(|number| mesh.ask(BEAT, of(&group, number)));
        for refused in futures::future::join_all(members).await.into_iter().filter_map(Result::err) {
            users.saw(format!("heartbeat {refused}"));
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}

fn node(number: usize) -> String {
    format!("node-{number}")
}

fn message_id(number: usize) -> String {
    format!("message-{number}")
}

fn of(group: &str, number: usize) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "nodeId": node(number)})
}
