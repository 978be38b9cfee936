//! HTTP: payments that are charged once, although clients send them twice and disconnect in the middle.
//!
//! `cargo run -p ichido --example http` runs an axum server and its client on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{StatusCode, header::LOCATION};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use ichido::dynamodb::{DynamoDb, Table};
use ichido::http::IdempotencyLayer;
use ichido::{Claim, DigestKey, Namespace, OnDoubt, Once};
use serde_json::{Value, json};
use testkit::Dynamo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A bank that takes its time: each charge waits for one permit.
struct Bank {
    permits: Semaphore,
    begun: Semaphore,
    /// How often each key was charged.
    charges: Mutex<BTreeMap<String, usize>>,
}

/// An ordinary handler. It knows nothing of retries. The claim's key is what it would hand on to a real bank.
async fn pay(
    State(bank): State<Arc<Bank>>,
    Extension(claim): Extension<Claim>,
    Json(payment): Json<Value>,
) -> impl IntoResponse {
    bank.begun.add_permits(1);
    bank.permits.acquire().await.expect("the bank is open").forget();
    *bank.charges.lock().expect("no one panics here").entry(claim.key().to_string()).or_default() += 1;
    println!("      the bank charges {} as {}", payment["amount"], claim.key());
    let place = format!("/payments/{}", claim.key().as_str().rsplit('#').next().unwrap_or_default());
    (StatusCode::CREATED, [(LOCATION, place)], Json(json!({ "charged": payment["amount"] })))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut db = Dynamo::empty();
    db.simple_table("effects", "id", None, "ttl");
    let once = Once::new(DynamoDb::new(db.client(), Table::new("effects", "id")));

    let bank = Arc::new(Bank { permits: Semaphore::new(1), begun: Semaphore::new(0), charges: Mutex::default() });
    let layer =
        IdempotencyLayer::new(once, Namespace::new("payments"), DigestKey::new(b"from your secrets"), |request| {
            let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
            Ok([user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned()])
        })
        .on_doubt(OnDoubt::Refuse)
        .compare(|_request, body, digests| {
            let payment: Value = serde_json::from_slice(body).unwrap_or_default();
            digests.field("amount", payment["amount"].to_string()).field("to", payment["to"].to_string())
        });
    let app = Router::new().route("/payments", post(pay).layer(layer)).with_state(Arc::clone(&bank));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    println!("1. Alice pays:");
    tell(Client::send(server, "order-1", 100).await?.answer().await?);
    bank.begun.acquire().await?.forget();

    println!("2. She did not see the answer and sends it again:");
    tell(Client::send(server, "order-1", 100).await?.answer().await?);

    println!("3. She pays for another order and disconnects while the bank is still at it:");
    let client = Client::send(server, "order-2", 250).await?;
    bank.begun.acquire().await?.forget();
    drop(client);

    println!("4. She sends it again at once:");
    tell(Client::send(server, "order-2", 250).await?.answer().await?);

    println!("5. The bank finishes, although nobody waits for it, and she sends it again:");
    bank.permits.add_permits(1);
    let mut answer = Client::send(server, "order-2", 250).await?.answer().await?;
    while answer.starts_with("409") {
        answer = Client::send(server, "order-2", 250).await?.answer().await?;
    }
    tell(answer);

    println!("6. By mistake she uses the key of the first order for another amount:");
    tell(Client::send(server, "order-1", 999).await?.answer().await?);

    let charges = bank.charges.lock().expect("no one panics here");
    let charged = |order: &str| charges.get(&format!("payments#alice#{order}")).copied().unwrap_or_default();
    let count =
        |times: fn(&usize) -> bool| ["order-1", "order-2"].map(charged).iter().filter(|each| times(each)).count();
    println!("charged {}, doubled {}, lost {}", charges.len(), count(|times| *times > 1), count(|times| *times == 0));
    Ok(())
}

fn tell(answer: String) {
    println!("      {answer}");
}

/// One request of Alice, on a connection of its own.
struct Client(TcpStream);

impl Client {
    async fn send(server: SocketAddr, key: &str, amount: u64) -> std::io::Result<Self> {
        let body = json!({ "amount": amount, "to": "bob" }).to_string();
        let mut connection = TcpStream::connect(server).await?;
        let head = format!(
            "POST /payments HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\nx-user: alice\r\n\
             idempotency-key: \"{key}\"\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes()).await?;
        Ok(Self(connection))
    }

    /// The status, the headers that matter here, and the body, on one line.
    async fn answer(mut self) -> std::io::Result<String> {
        let mut text = String::new();
        self.0.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).unwrap_or_default();
        let shown = ["location", "retry-after", "idempotency-"];
        let headers: Vec<&str> = lines.filter(|line| shown.iter().any(|name| line.starts_with(name))).collect();
        let problem: Value = serde_json::from_str(body).unwrap_or_default();
        let said = problem.get("detail").and_then(Value::as_str).unwrap_or(body);
        Ok([status, &headers.join(", "), said]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(" | "))
    }
}
