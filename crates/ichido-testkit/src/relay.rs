//! Stands between an HTTP client of any kind and a server: each request that passes is a call to an [`Outside`].
//!
//! A handler that takes a plain `reqwest::Client` gives a test no place to step in. But its test already hands it the
//! address of a stand-in instead of the real service. Hand it the address of a [`Relay`] in front of that stand-in.
//!
//! The client speaks HTTP/1.1 without TLS, on loopback. A relay cannot tell a client that a request was certainly not sent,
//! as a refused connection does: it has read the request when it cuts it off. The client only sees that the connection broke.
//!
//! A relay runs on the runtime on which it was started, in tasks of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::outside::{Cut, Kind, Outside};

/// A server on loopback that hands requests on. It ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    accepts: JoinHandle<()>,
}

/// Why a connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Cut(#[from] Cut),
    #[error("could not reach the server behind the relay: {0}")]
    Unreachable(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

impl Relay {
    /// Listens on a free port of loopback, and hands each request on to the server at `upstream`.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start(outside: &Outside, upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let outside = outside.clone();
        let accepts = tokio::spawn(async move {
            // An error of `accept` concerns one connection.
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let outside = outside.clone();
                tokio::spawn(async move {
                    let hand_on = service_fn(|request| relayed(&outside, upstream, request));
                    // If it fails, the client sees that its connection broke. That is what a cut is for.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(client), hand_on)
                        .await;
                });
            }
        });
        Ok(Self { address, accepts })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as the base of URLs: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

/// One request is one call. It is read whole before it begins, so that a slow client is not part of it.
async fn relayed(
    outside: &Outside,
    upstream: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Error> {
    let name = format!("{} {}", request.method(), request.uri().path());
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if !head.headers.contains_key(HOST) {
        head.headers.insert(HOST, HeaderValue::from_static("localhost"));
    }
    let work = hand_on(upstream, Request::from_parts(head, Full::new(body)));
    outside.pass(&name, Kind::Request, work, outcome).await?
}

/// A connection per request: a relay is for tests, and a stand-in may close its connections.
async fn hand_on(upstream: SocketAddr, request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Error> {
    let server = TcpStream::connect(upstream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(server)).await?;
    let answer = async {
        let (mut head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        head.headers.remove(CONNECTION);
        Ok(Response::from_parts(head, Full::new(body)))
    };
    // The connection only moves bytes. If it fails, so does the answer.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

fn outcome(answer: &Result<Response<Full<Bytes>>, Error>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(error) => format!("failed: {error}"),
    }
}
