//! What the tests share: an embedded DynamoDB, APIs in a few lines, and a client of the realtime protocol.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::time::Duration;

use appsync::{Api, Builder, Caller};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

pub const KEY: &str = "test-key";
/// Long enough for a busy machine. Tests wait for events, never for time to pass.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn caller() -> Caller {
    Caller::api_key(KEY)
}

/// An embedded DynamoDB on a port of its own.
pub async fn dynamodb() -> aws_sdk_dynamodb::Client {
    let db = dynoxide::Database::memory().expect("a database");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(dynoxide::server::serve_with_shutdown(listener, db, std::future::pending()));
    client(&format!("http://{address}"))
}

pub fn client(endpoint: &str) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// A table with a hash key `hash` and, if given, a sort key.
pub async fn table(client: &aws_sdk_dynamodb::Client, name: &str, hash: &str, sort: Option<&str>) {
    let attribute = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("complete")
    };
    let key = |name: &str, kind: KeyType| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("complete")
    };
    let mut call = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(hash))
        .key_schema(key(hash, KeyType::Hash));
    if let Some(sort) = sort {
        let index = GlobalSecondaryIndex::builder()
            .index_name("by-sort")
            .key_schema(key(sort, KeyType::Hash))
            .key_schema(key(hash, KeyType::Range))
            .projection(Projection::builder().projection_type(ProjectionType::All).build())
            .build()
            .expect("complete");
        call = call
            .attribute_definitions(attribute(sort))
            .key_schema(key(sort, KeyType::Range))
            .global_secondary_indexes(index);
    }
    call.send().await.expect("a table");
}

/// A resolver of a test: the field and its code.
pub struct Unit<'a> {
    pub field: &'a str,
    pub source: &'a str,
    pub code: &'a str,
}

pub fn none<'a>(field: &'a str, code: &'a str) -> Unit<'a> {
    Unit { field, source: "none", code }
}

pub fn stored<'a>(field: &'a str, code: &'a str) -> Unit<'a> {
    Unit { field, source: "table", code }
}

/// A template with data sources `none`, `table` (on the table `things`) and `function`, and unit resolvers.
pub fn template(units: &[Unit<'_>]) -> String {
    let mut resources = json!({
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {
            "Name": "test", "AuthenticationType": "API_KEY",
            "AdditionalAuthenticationProviders": [{"AuthenticationType": "AWS_IAM"}],
            "EnvironmentVariables": {"TABLE": "things", "STAGE": "test"},
        }},
        "None": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "none", "Type": "NONE"}},
        "Table": {"Type": "AWS::AppSync::DataSource", "Properties": {
            "Name": "table", "Type": "AMAZON_DYNAMODB", "DynamoDBConfig": {"TableName": "things"},
        }},
        "Function": {"Type": "AWS::AppSync::DataSource", "Properties": {
            "Name": "function", "Type": "AWS_LAMBDA",
            "LambdaConfig": {"LambdaFunctionArn": "arn:aws:lambda:local:000000000000:function:worker"},
        }},
    });
    for (index, unit) in units.iter().enumerate() {
        let (type_name, field) = unit.field.split_once('.').expect("Type.field");
        let mut properties = json!({"TypeName": type_name, "FieldName": field, "DataSourceName": unit.source});
        if !unit.code.is_empty() {
            properties["Code"] = json!(unit.code);
            properties["Runtime"] = json!({"Name": "APPSYNC_JS", "RuntimeVersion": "1.0.0"});
        }
        resources[format!("R{index}")] = json!({"Type": "AWS::AppSync::Resolver", "Properties": properties});
    }
    json!({"Resources": resources}).to_string()
}

pub fn builder(sdl: &str, units: &[Unit<'_>]) -> Builder {
    Api::builder().schema(sdl).template(template(units), &[]).api_keys([KEY])
}

/// An API without a store.
pub fn api(sdl: &str, units: &[Unit<'_>]) -> Api {
    builder(sdl, units).build().unwrap_or_else(|error| panic!("{error}"))
}

/// An API on a store with the table `things` (`pk`, `sk`).
pub async fn stored_api(sdl: &str, units: &[Unit<'_>]) -> (Api, aws_sdk_dynamodb::Client) {
    let client = dynamodb().await;
    table(&client, "things", "pk", Some("sk")).await;
    let api = builder(sdl, units).dynamodb(client.clone()).build().unwrap_or_else(|error| panic!("{error}"));
    (api, client)
}

/// A file whose `request` has the given body and whose `response` returns the result or raises the error.
pub fn code(request: &str) -> String {
    format!(
        "import {{ util, runtime, extensions }} from '@aws-appsync/utils'\nimport * as ddb from '@aws-appsync/utils/dynamodb'\n\
         export function request(ctx) {{ {request} }}\n\
         export function response(ctx) {{ if (ctx.error) util.error(ctx.error.message, ctx.error.type, ctx.result); return ctx.result }}"
    )
}

/// A file whose `response` has the given body and returns null.
pub fn code_after(response: &str) -> String {
    format!(
        "import {{ util, extensions }} from '@aws-appsync/utils'\nexport function request(ctx) {{ return {{}} }}\n\
         export function response(ctx) {{ {response}; return null }}"
    )
}

/// Serves an API on a port of its own.
pub async fn serve(api: &Api) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = api.router().into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// A client of the realtime protocol.
pub struct Socket {
    pub stream: WebSocketStream<TcpStream>,
}

pub fn authorization(key: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(json!({"host": "localhost", "x-api-key": key}).to_string())
}

impl Socket {
    /// Opens a socket with the key in the query.
    pub async fn open(address: std::net::SocketAddr, key: &str) -> Self {
        Self::open_at(address, &format!("/graphql?header={}&payload=e30=", authorization(key)), "graphql-ws")
            .await
            .expect("an upgrade")
    }

    pub async fn open_at(
        address: std::net::SocketAddr,
        path: &str,
        protocols: &str,
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a header"));
        let stream = TcpStream::connect(address).await?;
        let (stream, _) = client_async(request, stream).await?;
        Ok(Self { stream })
    }

    /// Opens a socket and sends `connection_init`.
    pub async fn greeted(address: std::net::SocketAddr) -> Self {
        let mut socket = Self::open(address, KEY).await;
        socket.send(json!({"type": "connection_init"})).await;
        assert_eq!(socket.next().await["type"], "connection_ack");
        assert_eq!(socket.next().await["type"], "ka");
        socket
    }

    pub async fn send(&mut self, message: Value) {
        self.stream.send(Message::Text(message.to_string().into())).await.expect("sends");
    }

    /// The next message. Panics if none comes.
    pub async fn next(&mut self) -> Value {
        self.maybe().await.expect("a message")
    }

    /// The next message, or `None` if the socket was closed.
    pub async fn maybe(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("an answer in time")?.ok()?;
            match message {
                Message::Text(text) => return serde_json::from_str(text.as_str()).ok(),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Subscribes and waits for the answer.
    pub async fn start(&mut self, id: &str, query: &str, variables: Value) -> Value {
        let data = json!({"query": query, "variables": variables}).to_string();
        let authorization = json!({"host": "localhost", "x-api-key": KEY});
        self.send(json!({"id": id, "type": "start", "payload": {"data": data, "extensions": {"authorization": authorization}}})).await;
        self.next().await
    }
}
