//! HTTP requests under the kit: through a relay, with whatever client, and through the tower layer.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::{get, post};
use ichido_testkit::outside::{Cut, Side, Stop, Way};
use ichido_testkit::relay::Relay;
use ichido_testkit::tower::CallsLayer;
use ichido_testkit::{Outside, effects, interrupt};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer as _, Service as _, ServiceExt as _};

type Charges = Arc<Mutex<Vec<String>>>;

/// A bank that charges as often as it is asked.
async fn bank() -> (SocketAddr, Charges) {
    let charges = Charges::default();
    let charge = async |State(charges): State<Charges>, order: String| charges.lock().unwrap().push(order);
    let list = async |State(charges): State<Charges>| charges.lock().unwrap().join(",");
    let router = axum::Router::new().route("/charges", post(charge)).route("/charges", get(list));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router.with_state(charges.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, charges)
}

/// The plainest HTTP client there is. Returns the body of the answer.
async fn send(to: SocketAddr, method: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(to).await?;
    let length = body.len();
    let request = format!(
        "{method} /charges HTTP/1.1\r\nhost: bank\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(body.to_owned())
}

struct World {
    relay: Relay,
    outside: Outside,
    charges: Charges,
}

async fn world(outside: Outside) -> World {
    let (address, charges) = bank().await;
    let relay = Relay::start(&outside, address).await.unwrap();
    World { relay, outside, charges }
}

async fn charges_once(world: &World) {
    effects(&*world.charges.lock().unwrap()).each_once(["order-7"]);
}

#[tokio::test]
async fn a_handler_that_asks_first_is_right_behind_a_relay() {
    let handler = async |world: &World| {
        if send(world.relay.address(), "GET", "").await?.is_empty() {
            send(world.relay.address(), "POST", "order-7").await?;
        }
        io::Result::Ok(())
    };
    let report = interrupt::at_every_call(world, handler, async |_| {}, charges_once).await;
    assert_eq!((report.stops, report.cuts), (4, 4));
}

#[tokio::test]
#[should_panic(expected = "happened 2 times: order-7")]
async fn a_handler_that_does_not_ask_is_found_behind_a_relay() {
    let handler = async |world: &World| send(world.relay.address(), "POST", "order-7").await.map(drop);
    interrupt::at_every_call(world, handler, async |_| {}, charges_once).await;
}

#[tokio::test]
async fn a_request_that_is_cut_off_breaks_its_connection() {
    let world = world(Outside::new()).await;
    for (side, performed) in [(Side::Before, 0), (Side::After, 1)] {
        world.outside.begin(Some(Stop { call: 1, side, way: Way::Cut }));
        let sent = send(world.relay.address(), "POST", "order-7").await;
        assert!(sent.is_err(), "{sent:?}");
        assert_eq!(world.charges.lock().unwrap().len(), performed);
    }
    world.outside.begin(None);
    assert_eq!(send(world.relay.address(), "GET", "").await.unwrap(), "order-7");
    assert_eq!(world.outside.calls(), ["GET /charges"]);
    assert_eq!(world.relay.url(), format!("http://{}", world.relay.address()));
}

#[tokio::test]
async fn a_relay_hands_on_what_it_got_and_what_was_answered() {
    let world = world(Outside::new()).await;
    let large = "order-".repeat(100_000);
    send(world.relay.address(), "POST", &large).await.unwrap();
    assert_eq!(send(world.relay.address(), "GET", "").await.unwrap(), large);
}

#[tokio::test]
async fn behind_a_relay_whose_server_is_gone_a_connection_breaks() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let outside = Outside::new();
    let relay = Relay::start(&outside, gone).await.unwrap();
    outside.begin(None);
    assert!(send(relay.address(), "GET", "").await.is_err());
    let history = outside.history().to_string();
    assert!(history.contains("GET /charges: failed: could not reach the server behind the relay"), "{history}");
}

#[tokio::test]
async fn a_tower_service_is_stopped_at_its_requests() {
    let outside = Outside::new();
    let done = Arc::new(Mutex::new(0));
    let count = done.clone();
    let service = tower::service_fn(move |request: u32| {
        let count = count.clone();
        async move {
            *count.lock().unwrap() += 1;
            if request == 0 { Err(io::Error::other("zero")) } else { Ok(request) }
        }
    });
    let mut service = CallsLayer::new(&outside, |request: &u32| format!("number {request}")).layer(service);
    let mut call = async |request| service.ready().await.unwrap().call(request).await;

    outside.begin(None);
    assert_eq!(call(7).await.unwrap(), 7);
    assert_eq!(call(0).await.unwrap_err().to_string(), "zero");
    assert_eq!(outside.calls(), ["number 7", "number 0"]);
    for (side, cut, performed) in [(Side::Before, Cut::NotSent, 2), (Side::After, Cut::AnswerLost, 3)] {
        outside.begin(Some(Stop { call: 1, side, way: Way::Cut }));
        assert_eq!(*call(7).await.unwrap_err().downcast::<Cut>().unwrap(), cut);
        assert_eq!(*done.lock().unwrap(), performed);
    }
    outside.begin(Some(Stop { call: 1, side: Side::After, way: Way::Killed }));
    assert!(outside.until_death(call(7)).await.is_none());
    assert_eq!(*done.lock().unwrap(), 4);
}
