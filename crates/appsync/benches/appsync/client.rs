//! One client for both servers: HTTP with keep-alive, and both WebSocket protocols.

use std::net::SocketAddr;

use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::Result;
use super::server::KEY;

/// What a server speaks on a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    AppSync,
    /// `graphql-transport-ws`, of the npm package graphql-ws.
    GraphqlWs,
}

/// A connection for mutations.
pub(crate) struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Http {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    /// Sends one mutation.
    pub(crate) async fn send(&mut self, text: &str) -> Result<()> {
        let query = "mutation Send($g: ID!, $t: String!) { send(groupId: $g, text: $t) { groupId id text at } }";
        let body = json!({"query": query, "variables": {"g": "g", "t": text}}).to_string();
        let request = hyper::Request::post("/graphql")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("x-api-key", KEY)
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        if answer["data"]["send"]["text"] == text { Ok(()) } else { Err(format!("{answer}").into()) }
    }
}

/// A WebSocket, with or without a subscription.
pub(crate) struct Reader {
    stream: WebSocketStream<TcpStream>,
    data: &'static str,
}

impl Reader {
    pub(crate) async fn open(address: SocketAddr, protocol: Protocol, group: Option<&str>) -> Result<Self> {
        let header = base64::engine::general_purpose::STANDARD
            .encode(json!({"host": "localhost", "x-api-key": KEY}).to_string());
        let (path, name) = match protocol {
            Protocol::AppSync => (format!("/graphql/realtime?header={header}&payload=e30="), "graphql-ws"),
            Protocol::GraphqlWs => ("/graphql".to_owned(), "graphql-transport-ws"),
        };
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        request.headers_mut().insert("sec-websocket-protocol", name.parse()?);
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(4096).write_buffer_size(0);
        let (stream, _) = client_async_with_config(request, stream, Some(config)).await?;
        let mut reader = Self { stream, data: if protocol == Protocol::AppSync { "data" } else { "next" } };
        reader.send(json!({"type": "connection_init"})).await?;
        reader.wait_for("connection_ack").await?;
        if let Some(group) = group {
            let query = "subscription On($g: ID!) { onSend(groupId: $g) { groupId id text at } }";
            let operation = json!({"query": query, "variables": {"g": group}});
            match protocol {
                Protocol::AppSync => {
                    let payload =
                        json!({"data": operation.to_string(), "extensions": {"authorization": {"x-api-key": KEY}}});
                    reader.send(json!({"id": "1", "type": "start", "payload": payload})).await?;
                    reader.wait_for("start_ack").await?;
                }
                Protocol::GraphqlWs => {
                    reader.send(json!({"id": "1", "type": "subscribe", "payload": operation})).await?;
                    // The protocol has no acknowledgement. The answer to a later ping stands for it.
                    reader.send(json!({"type": "ping"})).await?;
                    reader.wait_for("pong").await?;
                }
            }
        }
        Ok(reader)
    }

    async fn send(&mut self, message: Value) -> Result<()> {
        Ok(self.stream.send(Message::Text(message.to_string().into())).await?)
    }

    async fn wait_for(&mut self, kind: &str) -> Result<()> {
        while let Some(message) = self.stream.next().await {
            if let Message::Text(text) = message?
                && serde_json::from_str::<Value>(text.as_str())?["type"] == kind
            {
                return Ok(());
            }
        }
        Err(format!("no {kind}").into())
    }

    /// The next message of the subscription.
    pub(crate) async fn next(&mut self) -> Option<()> {
        let marker = format!("\"type\":\"{}\"", self.data);
        loop {
            match self.stream.next().await?.ok()? {
                Message::Text(text) if text.as_str().contains(&marker) => return Some(()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}
