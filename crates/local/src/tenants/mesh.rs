//! The mesh: the deployed schema and resolvers, run by the AppSync emulation of `crates/appsync`.
//!
//! What AppSync would tell CloudWatch is recorded here: metrics of requests and connections, and the API's log. `appsync` is
//! also the name of a fault.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use appsync::{Api, Builder, LambdaError};
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use emulator::{Outside, dynamodb};
use function::{Aws, Definition};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::platform::Platform;
use crate::platform::listeners::Peer;
use crate::standins::LoseAnswer;
use crate::tenants::{Ground, Keeps, Panel, Tenant};
use crate::world::faults::Mode;

const TEMPLATE: &str = include_str!("../../../../infra/templates/mesh.yaml");
/// The JavaScript client, which the console's panel imports.
const CLIENT: &str = include_str!("../../../../clients/mesh/mesh.js");
/// The schema and the resolvers: `infra/appsync`, by their paths below it. They are part of the binary, so that it runs without a checkout.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/appsync.rs"));

/// The service's name among the faults.
const APPSYNC: &str = "appsync";
/// The id of the API: what the template's `Fn::GetAtt` becomes here.
const API_ID: &str = "MeshApi.ApiId";
/// AppSync names the log group.
const LOG_GROUP: &str = "/aws/appsync/apis/MeshApi.ApiId";
/// AppSync counts its WebSockets once a minute.
const COUNT_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Mesh;

fn api_key(ground: &Ground) -> String {
    ground.secrets.get("mesh-api-key")
}

/// The API of the deployed files, with the platform's table and function.
fn api(platform: &Platform) -> Result<Api, Box<dyn std::error::Error>> {
    let store = platform.store().faulty().clone();
    let aws = Aws::at(&platform.ground().url).with_dynamodb_http(dynamodb::http_client(store, Outside::new()));
    let files = template::file_parameters_with(TEMPLATE, |path| {
        let found = FILES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    })?;
    let parameters: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (caller, logger) = (platform.clone(), platform.clone());
    let builder = overridden(Api::builder().template(TEMPLATE, &parameters), |name| std::env::var(name).ok())?;
    let api = builder
        .dynamodb(aws.dynamodb())
        .log(move |line| logger.log(LOG_GROUP, line))
        .lambda("mesh-resolver", move |payload| {
            let platform = caller.clone();
            async move {
                let function = platform.functions().find("mesh-resolver");
                let function = function.ok_or_else(|| LambdaError::new("the function mesh-resolver does not exist"))?;
                let invoked = platform.invoke(&function, payload, None).await;
                invoked.outcome.map_err(|failure| LambdaError::new(failure.body().to_string()))
            }
        })
        .api_keys([api_key(platform.ground())])
        .build()?;
    Ok(api)
}

/// Lets a variable of the process's environment apply to the resolvers, as it does to the function:
/// `HOST_HEARTBEAT_SECONDS=2 make dev`.
fn overridden(builder: Builder, person: impl Fn(&str) -> Option<String>) -> Result<Builder, template::Error> {
    let declared = template::Template::read(TEMPLATE, &BTreeMap::new())?;
    let variables =
        declared.of_kind("AWS::AppSync::GraphQLApi").filter_map(|(_, api)| api["EnvironmentVariables"].as_object());
    Ok(variables.flatten().filter(|(name, _)| *name != "TABLE_NAME").fold(builder, |builder, (name, _)| {
        match person(name) {
            Some(value) => builder.environment(name, value),
            None => builder,
        }
    }))
}

/// Passes the caller's address from the listener to AppSync.
async fn introduce(mut request: Request, next: Next) -> impl IntoResponse {
    if let Some(Peer(address)) = request.extensions().get::<Peer>() {
        let address = ConnectInfo(*address);
        request.extensions_mut().insert(address);
    }
    next.run(request).await
}

/// Answers a request as AppSync does today: with its fault, and with the metrics that AppSync sends of it.
async fn observe(State(platform): State<Platform>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let started = Instant::now();
    let fault = platform.faults().strike(APPSYNC);
    let response = match fault.as_ref().map(|fault| (fault.mode, fault)) {
        Some((Mode::Refuse, fault)) => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            let body = json!({"errors": [{"errorType": "InternalFailure", "message": "refused by a fault switch"}]});
            (status, axum::Json(body)).into_response()
        }
        Some((Mode::Hang, _)) => std::future::pending().await,
        Some((Mode::Slow, fault)) => {
            tokio::time::sleep(Duration::from_millis(fault.ms)).await;
            next.run(request).await
        }
        Some((Mode::AcceptThenLose, _)) => {
            let mut response = next.run(request).await;
            response.extensions_mut().insert(LoseAnswer);
            response
        }
        None => next.run(request).await,
    };
    platform.metrics().graphql(API_ID, response.status().as_u16(), started.elapsed());
    response
}

/// Counts the WebSockets and subscriptions, as AppSync does.
async fn count(platform: Platform, api: Api) {
    loop {
        platform.metrics().realtime(API_ID, api.connections(), api.subscriptions());
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

impl Tenant for Mesh {
    fn name(&self) -> &'static str {
        "mesh"
    }

    fn templates(&self) -> Vec<&'static str> {
        vec![TEMPLATE]
    }

    fn functions(&self) -> Vec<Definition> {
        mesh::functions()
    }

    fn keeps(&self) -> Vec<Keeps> {
        vec![Keeps {
            application: "mesh",
            table: mesh::table::records("MeshV2Table"),
            unprefixed: None,
            functions: &["mesh-resolver"],
            dead_letters: None,
        }]
    }

    fn config(&self, ground: &Ground) -> Map<String, Value> {
        Map::from_iter([("apiKey".to_owned(), Value::from(api_key(ground)))])
    }

    fn services(&self) -> Vec<&'static str> {
        vec![APPSYNC]
    }

    fn router(&self, platform: &Platform) -> Option<Router> {
        let client = get(|| async { ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], CLIENT) });
        let router = Router::new().route("/clients/mesh.js", client);
        match api(platform) {
            Ok(api) => {
                tokio::spawn(platform.clone().until_stopped(count(platform.clone(), api.clone())));
                let served = api.router().layer(from_fn_with_state(platform.clone(), observe));
                Some(router.merge(served.layer(from_fn(introduce))))
            }
            Err(error) => {
                tracing::error!(error = %error, "the mesh has no GraphQL API: its schema or a resolver cannot be used");
                Some(router)
            }
        }
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Mesh", path: "/apps/mesh", script: console::asset!("src/console/web/panels/mesh.js") })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        let url = &ground.url;
        let key = format!(
            "$(curl -s {url}/_local/config | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"apiKey\"])')"
        );
        Some(format!(
            "curl {url}/graphql -H \"x-api-key: {key}\" --json '{{\"query\":\"mutation {{ createGroup(name: \\\"class\\\", hostId: \\\"h1\\\", domain: \\\"home\\\") {{ fullId expiresAt }} }}\"}}'"
        ))
    }
}
