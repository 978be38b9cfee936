//! Groups of the mesh: one report of a node, which reaches the members of its own group and nobody else.

use std::sync::Arc;
use std::time::Duration;

use appsync::{Api, Caller, LambdaError, Subscription};
use ichido::SystemClock;
use mesh::settings::Settings;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::store::Store;
use crate::{Result, progress, workspace};

const KEY: &str = "curves-key";
/// Nobody sends heartbeats here: the groups outlive the measurement.
const HEARTBEAT: Duration = Duration::from_secs(3600);
/// Members of each group, as in the cost model's lessons.
const MEMBERS: usize = 4;
/// Groups of each domain: ten tables of a class.
const GROUPS_PER_DOMAIN: u64 = 10;
/// A report beside the store: an operation of AppSync, and a message to each member.
const REPORT: Extras = &[("appsyncOperation", 1.0), ("appsyncUpdate", MEMBERS as f64)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 90, 450);
    let mesh = Mesh::new()?;
    let bench = Bench::on(prices, &mesh.store);
    let mut curve = curve("groups", "report to 4 members", "groups", "report", Expected::Flat);
    let mut groups: Vec<(Group, Vec<Subscription>)> = Vec::new();
    for size in sizes.of([1, 2, 3, 4], [1, 10, 30, 100], [1, 10, 100, 1_000]) {
        progress(format_args!("groups: {size}"));
        while groups.len() < size {
            let number = groups.len() as u64;
            let group = mesh.create_group(&format!("class-{}", number / GROUPS_PER_DOMAIN), number).await?;
            let mut members = vec![mesh.subscribe(&group).await?];
            for member in 1..MEMBERS {
                mesh.join(&group, member).await?;
                members.push(mesh.subscribe(&group).await?);
            }
            groups.push((group, members));
        }
        let reported = bench.each(size as u64, units, REPORT, async |n| {
            let (group, members) = &mut groups[fastrand::usize(0..size)];
            mesh.report(group, n as usize % MEMBERS, n).await?;
            received(members).await
        });
        curve.points.push(reported.await?);
    }
    Ok(vec![curve])
}

/// Waits until each of them has one message.
pub(super) async fn received(members: &mut [Subscription]) -> Result<()> {
    for member in members {
        member.next().await.ok_or("a subscription ended")?;
    }
    Ok(())
}

/// The deployed resolvers on the local AppSync, and the function, in this process.
pub(super) struct Mesh {
    pub(super) store: Store,
    api: Api,
    caller: Caller,
}

pub(super) struct Group {
    id: String,
    domain: String,
    number: u64,
}

impl Mesh {
    pub(super) fn new() -> Result<Self> {
        const TEMPLATE: &str = "infra/templates/mesh.yaml";
        let (store, mut tables) = Store::of_template(TEMPLATE)?;
        let settings = Settings {
            table: tables.remove("MeshTable").ok_or("the template has no MeshTable")?,
            longest: HEARTBEAT,
            host_heartbeat: HEARTBEAT,
            polling_interval: Duration::from_secs(2),
            retention: Duration::from_secs(120),
            groups_per_caller: usize::MAX,
        };
        let client = store.client();
        let handler =
            mesh::function::resolver::handler(settings, client.clone(), Arc::new(SystemClock), Arc::new(Uuid::new_v4));
        let seconds = HEARTBEAT.as_secs().to_string();
        let api = Api::builder()
            .template(std::fs::read_to_string(workspace().join(TEMPLATE))?, &[])
            .code_dir(workspace().join("infra/appsync"))
            .dynamodb(client)
            .environment("HOST_HEARTBEAT_SECONDS", &seconds)
            .environment("MEMBER_HEARTBEAT_SECONDS", &seconds)
            // All nodes come from one address here.
            .environment("NODES_PER_CALLER", "1000")
            .lambda("mesh-resolver", move |payload| {
                let handler = handler.clone();
                async move {
                    let event = function::LambdaEvent::new(payload, function::Context::default());
                    handler(event).await.map_err(|error| LambdaError::new(error.to_string()))
                }
            })
            .api_keys([KEY])
            .build()?;
        Ok(Self { store, api, caller: Caller::api_key(KEY) })
    }

    async fn ask(&self, document: &str, variables: Value) -> Result<Value> {
        let answer = self.api.execute(document, variables, &self.caller).await;
        if answer.is_ok() { Ok(answer.data().clone()) } else { Err(answer.to_json().to_string().into()) }
    }

    pub(super) async fn create_group(&self, domain: &str, number: u64) -> Result<Group> {
        let create = "mutation ($hostId: ID!, $domain: String!) { createGroup(name: \"class\", hostId: $hostId, domain: $domain) { id } }";
        let made = self.ask(create, json!({"hostId": format!("node-{number}-0"), "domain": domain})).await?;
        let id = made["createGroup"]["id"].as_str().ok_or_else(|| made.to_string())?.to_owned();
        Ok(Group { id, domain: domain.to_owned(), number })
    }

    /// A node with this number joins. Number 0 is the host, which is a member already.
    pub(super) async fn join(&self, group: &Group, node: usize) -> Result<()> {
        let join = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) { joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { id } }";
        self.ask(join, group.with(node, json!({}))).await?;
        Ok(())
    }

    pub(super) async fn leave(&self, group: &Group, node: usize) -> Result<()> {
        let leave = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) { leaveGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { message } }";
        self.ask(leave, group.with(node, json!({}))).await?;
        Ok(())
    }

    pub(super) async fn subscribe(&self, group: &Group) -> Result<Subscription> {
        let subscribe = "subscription ($groupId: ID!, $domain: String!) { onMessageInGroup(groupId: $groupId, domain: $domain) { groupId domain sequence timestamp nodeStatus { nodeId data { key value } timestamp } } }";
        let variables = json!({"groupId": group.id, "domain": group.domain});
        Ok(self.api.subscribe(subscribe, variables, &self.caller).await?)
    }

    pub(super) async fn report(&self, group: &Group, node: usize, value: u32) -> Result<()> {
        let report = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $data: [SensorDataInput!]!) { reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data) { groupId domain sequence timestamp nodeStatus { nodeId data { key value } timestamp } } }";
        let data = json!([{"key": "x", "value": value.to_string()}, {"key": "y", "value": "20"}, {"key": "volume", "value": "0.5"}]);
        self.ask(report, group.with(node, json!({"data": data}))).await?;
        Ok(())
    }

    /// How many members have reported.
    pub(super) async fn statuses(&self, group: &Group) -> Result<usize> {
        let list = "query ($groupId: ID!, $domain: String!) { listGroupStatuses(groupId: $groupId, domain: $domain) { nodeId data { key value } timestamp } }";
        let listed = self.ask(list, json!({"groupId": group.id, "domain": group.domain})).await?;
        Ok(listed["listGroupStatuses"].as_array().map_or(0, Vec::len))
    }
}

impl Group {
    /// The variables of a request of a node in this group.
    fn with(&self, node: usize, mut more: Value) -> Value {
        more["groupId"] = json!(self.id);
        more["domain"] = json!(self.domain);
        more["nodeId"] = json!(format!("node-{}-{node}", self.number));
        more
    }
}
