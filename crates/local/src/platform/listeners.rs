//! The listeners: plain, TLS, and the DynamoDB endpoint. They refuse foreign requests ([`loopback`]) before anything else looks at
//! them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::standins::LoseAnswer;

/// How long running requests may take after the platform was told to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The address of the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves `router` on `listener` until `stop`, then lets running requests end.
pub(super) async fn listen(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stopped| *stopped) => break,
        };
        let Ok((stream, peer)) = accepted else {
            // Most likely the process is out of file descriptors: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = stream.set_nodelay(true);
        let (router, stop, acceptor) = (router.clone(), stop.clone(), acceptor.clone());
        connections.spawn(async move {
            match acceptor {
                None => connection(stream, peer, router, stop).await,
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        connection(stream, peer, router, stop).await;
                    }
                }
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection<S>(stream: S, peer: SocketAddr, router: Router, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            let response = answer(router, request, peer).await;
            // An error here closes the connection without an answer: the caller sees a lost answer.
            match response.extensions().get::<LoseAnswer>() {
                Some(_) => Err(io::Error::other("a fault lost the answer")),
                None => Ok(response),
            }
        }
    });
    let builder = Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}

async fn answer(router: Router, request: Request<Incoming>, peer: SocketAddr) -> Response {
    if let Err(why) = loopback::check(request.uri(), request.headers()) {
        let message =
            format!("refused: {why}; ichido-local answers only requests whose Host and Origin are loopback addresses");
        return (StatusCode::FORBIDDEN, axum::Json(json!({"message": message}))).into_response();
    }
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Peer(peer));
    let answered: Result<Response, Infallible> = router.oneshot(request).await;
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
