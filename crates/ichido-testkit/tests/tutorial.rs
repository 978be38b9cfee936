//! The code of TUTORIAL.md. A test at the end compares the two.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use ichido::dynamodb::{DynamoDb, Table};
use ichido::key::DEFAULT_LEASE;
use ichido::{MAX_CLOCK_SKEW, Namespace, Once, Probed};
use ichido_testkit::relay::Relay;
use ichido_testkit::{ManualClock, Outside, effects, interrupt, race};
use tokio::net::TcpListener;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Shop {
    dynamodb: Client,
    http: reqwest::Client,
    bank: String,
}

async fn handle(shop: &Shop, order: &str) -> Result<(), BoxError> {
    let id = || AttributeValue::S(order.to_owned());
    let paid = shop.dynamodb.get_item().table_name("orders").key("id", id()).consistent_read(true).send().await?;
    if paid.item.is_none() {
        shop.http.post(format!("{}/charges/{order}", shop.bank)).send().await?.error_for_status()?;
        shop.dynamodb.put_item().table_name("orders").item("id", id()).send().await?;
    }
    Ok(())
}

struct World {
    shop: Shop,
    charged: Arc<Mutex<Vec<String>>>,
    clock: ManualClock,
    _relay: Relay,
}

async fn world(outside: Outside) -> World {
    // Every request to the bank passes the relay.
    let (bank, charged) = bank().await;
    let relay = Relay::start(&outside, bank).await.unwrap();
    // Every request to AWS passes the kit.
    let config = Config::builder()
        .http_client(ichido_testkit::aws::http_client(&outside, real_http_client()))
        .endpoint_url(format!("http://{}", dynamodb().await))
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"));
    let dynamodb = Client::from_conf(config.build());
    create_table(&dynamodb, "orders").await;
    let shop = Shop { dynamodb, http: http_client(), bank: relay.url() };
    World { shop, charged, clock: ManualClock::held(), _relay: relay }
}

#[tokio::test]
#[should_panic(expected = "happened 2 times: order-7")]
async fn an_order_is_charged_once() {
    interrupt::at_every_call(
        world,
        async |world| handle(&world.shop, "order-7").await,
        async |_world| {},
        async |world| effects(&*world.charged.lock().unwrap()).each_once(["order-7"]),
    )
    .await;
}

async fn handle_once(shop: &Shop, once: &Once, order: &str) -> Result<(), BoxError> {
    let charge = format!("{}/charges/{order}", shop.bank);
    once.run(&Namespace::new("charge").key([order])?)
        // Asked only if an earlier worker may have charged without recording it.
        .probe(|_claim| async {
            let found = shop.http.get(&charge).send().await?;
            Ok(if found.status().is_success() { Probed::Done(()) } else { Probed::NotDone })
        })
        .work(|_claim| async {
            shop.http.post(&charge).send().await?.error_for_status()?;
            Ok(())
        })
        .await?;
    Ok(())
}

/// A new process each time: nothing is remembered but what the table holds.
async fn deliver(world: &World) -> Result<(), BoxError> {
    let store = DynamoDb::new(world.shop.dynamodb.clone(), Table::new("orders", "id"));
    let once = Once::builder(store).clock(world.clock.clone()).build();
    handle_once(&world.shop, &once, "order-7").await
}

#[tokio::test]
async fn an_order_is_charged_once_with_run() {
    let report = interrupt::at_every_call(
        world,
        deliver,
        // The lease of the dead worker ends before the event is delivered again.
        async |world| world.clock.advance(DEFAULT_LEASE + MAX_CLOCK_SKEW),
        async |world| effects(&*world.charged.lock().unwrap()).each_once(["order-7"]),
    )
    .await;
    // The claim, the charge and the record of its outcome: killed and cut off, before and after each.
    assert_eq!((report.stops, report.cuts), (6, 6));
}

#[tokio::test]
async fn two_deliveries_at_once_charge_once() {
    race::two_at_once(
        0..50,
        world,
        deliver,
        async |world| world.clock.advance(DEFAULT_LEASE + MAX_CLOCK_SKEW),
        async |world| effects(&*world.charged.lock().unwrap()).each_once(["order-7"]),
    )
    .await;
}

// What a test of a handler has anyway: stand-ins for the services that it calls.

/// A bank that charges as often as it is asked, and can be asked what it has charged.
async fn bank() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    use axum::extract::{Path, State};
    use axum::http::StatusCode;
    type Charged = State<Arc<Mutex<Vec<String>>>>;

    let charged = Arc::<Mutex<Vec<String>>>::default();
    let charge = async |State(charged): Charged, Path(order): Path<String>| charged.lock().unwrap().push(order);
    let find = async |State(charged): Charged, Path(order): Path<String>| {
        if charged.lock().unwrap().contains(&order) { StatusCode::OK } else { StatusCode::NOT_FOUND }
    };
    let router = axum::Router::new()
        .route("/charges/{order}", axum::routing::post(charge).get(find))
        .with_state(charged.clone());
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, charged)
}

/// A DynamoDB in memory.
async fn dynamodb() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(dynoxide::server::serve_on(listener, dynoxide::Database::memory().unwrap()));
    address
}

async fn create_table(client: &Client, name: &str) {
    let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(id.build().unwrap()).key_schema(key.build().unwrap());
    create.send().await.unwrap();
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What the SDK would use by itself. It is made new for each world, because its connections belong to one runtime.
fn real_http_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

fn http_client() -> reqwest::Client {
    // The tests of this project share one build of reqwest, which leaves the choice of a TLS provider to its users.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

#[test]
fn the_tutorial_shows_this_code_and_what_it_prints() {
    let tutorial = include_str!("../TUTORIAL.md");
    let blocks = |language: &str| {
        let fence = format!("```{language}\n");
        let blocks: Vec<&str> = tutorial.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        blocks
    };
    assert_eq!((blocks("rust").len(), blocks("text").len()), (6, 1));
    let code = include_str!("tutorial.rs");
    for block in blocks("rust") {
        assert!(code.contains(block), "this is not in tests/tutorial.rs:\n{block}");
    }
    let naive = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_order_is_charged_once", "--nocapture"])
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8(naive.stderr).unwrap();
    for block in blocks("text") {
        assert!(said.contains(block), "it does not print this:\n{block}\nbut this:\n{said}");
    }
}
