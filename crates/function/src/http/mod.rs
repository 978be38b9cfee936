//! HTTP as a Lambda function sees it: API Gateway's HTTP API, payload version 2.0, in and out.
//!
//! [`Request::from_event`] reads an event. [`Request::to_event`] makes one from a real request, for the local platform and
//! for tests. Both are here, so that the shape is defined once. Header names are lower case, and bodies are decoded.
//! Failure: an event of another form is an [`Error`] that says what is missing.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ichido::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The content types that API Gateway passes on as text. Bodies of other types travel as base64.
const TEXT_TYPES: [&str; 5] =
    ["text/", "application/json", "application/javascript", "application/xml", "application/x-www-form-urlencoded"];

/// The stage whose address is that of the API itself.
const DEFAULT_STAGE: &str = "$default";

/// Why an event or an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A member that payload 2.0 always has is missing.
    #[error("the event is not an HTTP API event (payload 2.0): {0} is missing")]
    Missing(&'static str),
    /// The body is marked as base64 and is not.
    #[error("the body is not valid base64")]
    Base64,
    /// A handler's answer that API Gateway would refuse.
    #[error("API Gateway does not understand the answer: {0}")]
    Answer(&'static str),
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `POST`.
    pub method: String,
    /// The path as it came, still encoded, without the name of a stage: `/tokens/balance/did%3Aexample%3Aalice`.
    pub path: String,
    /// The query as it came, without `?`.
    pub raw_query: String,
    /// Lower-case names; repeated headers joined by commas.
    pub headers: BTreeMap<String, String>,
    /// The values of the route's `{…}` parts, decoded.
    pub path_parameters: BTreeMap<String, String>,
    /// The raw bytes, as the sender signed them.
    pub body: Vec<u8>,
    /// The peer's address.
    pub source_ip: String,
    /// API Gateway's id of the request.
    pub request_id: String,
    /// When API Gateway received it, epoch milliseconds.
    pub time_epoch: u64,
    /// The route that matched: `POST /slack/events`.
    pub route_key: String,
    /// The API's stage.
    pub stage: String,
}

impl Request {
    /// Reads an event.
    pub fn from_event(event: &Value) -> Result<Self, Error> {
        let context = &event["requestContext"];
        let http = &context["http"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let map = |value: &Value| -> BTreeMap<String, String> {
            let members = value.as_object().into_iter().flatten();
            members.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
        };
        let mut headers: BTreeMap<String, String> =
            map(&event["headers"]).into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        // Payload 2.0 takes the cookies out of the headers.
        if let Some(cookies) = event["cookies"].as_array() {
            let all: Vec<&str> = cookies.iter().filter_map(Value::as_str).collect();
            headers.entry("cookie".to_owned()).or_insert_with(|| all.join("; "));
        }
        let body = match (event["body"].as_str(), event["isBase64Encoded"].as_bool()) {
            (None, _) => Vec::new(),
            (Some(body), Some(true)) => BASE64_STANDARD.decode(body).map_err(|_| Error::Base64)?,
            (Some(body), _) => body.as_bytes().to_vec(),
        };
        let stage = text(&context["stage"]).unwrap_or_default();
        let path = text(&event["rawPath"]).ok_or(Error::Missing("rawPath"))?;
        Ok(Self {
            method: text(&http["method"]).ok_or(Error::Missing("requestContext.http.method"))?,
            path: path.strip_prefix(&stage_prefix(&stage)).map(str::to_owned).unwrap_or(path),
            raw_query: text(&event["rawQueryString"]).unwrap_or_default(),
            headers,
            path_parameters: map(&event["pathParameters"]),
            body,
            source_ip: text(&http["sourceIp"]).unwrap_or_default(),
            request_id: text(&context["requestId"]).unwrap_or_default(),
            time_epoch: context["timeEpoch"].as_u64().unwrap_or_default(),
            route_key: text(&event["routeKey"]).unwrap_or_default(),
            stage,
        })
    }

    /// Makes the event that API Gateway would make of this request.
    pub fn to_event(&self) -> Value {
        let mut headers: Map<String, Value> = Map::new();
        for (name, value) in &self.headers {
            if name != "cookie" {
                headers.insert(name.to_ascii_lowercase(), Value::from(value.as_str()));
            }
        }
        let path = stage_prefix(&self.stage) + &self.path;
        let mut event = json!({
            "version": "2.0",
            "routeKey": self.route_key,
            "rawPath": path,
            "rawQueryString": self.raw_query,
            "headers": headers,
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "local",
                "domainName": self.header("host").unwrap_or("localhost"),
                "domainPrefix": "local",
                "http": {
                    "method": self.method,
                    "path": decode(&path, false),
                    "protocol": "HTTP/1.1",
                    "sourceIp": self.source_ip,
                    "userAgent": self.header("user-agent").unwrap_or_default(),
                },
                "requestId": self.request_id,
                "routeKey": self.route_key,
                "stage": if self.stage.is_empty() { DEFAULT_STAGE } else { &self.stage },
                "time": clf_time(self.time_epoch),
                "timeEpoch": self.time_epoch,
            },
            "isBase64Encoded": false,
        });
        if let Some(cookie) = self.header("cookie") {
            event["cookies"] =
                cookie.split(';').map(str::trim).filter(|each| !each.is_empty()).map(Value::from).collect();
        }
        let query = self.query_pairs();
        if !query.is_empty() {
            let mut joined: BTreeMap<String, String> = BTreeMap::new();
            for (name, value) in query {
                let known = joined.entry(name).or_default();
                if !known.is_empty() {
                    known.push(',');
                }
                known.push_str(&value);
            }
            event["queryStringParameters"] = json!(joined);
        }
        if !self.path_parameters.is_empty() {
            event["pathParameters"] = json!(self.path_parameters);
        }
        if !self.body.is_empty() {
            let text = if self.is_text() { std::str::from_utf8(&self.body).ok() } else { None };
            event["body"] = match text {
                Some(text) => Value::from(text),
                None => Value::from(BASE64_STANDARD.encode(&self.body)),
            };
            event["isBase64Encoded"] = Value::from(text.is_none());
        }
        event
    }

    /// A header by its name, in upper or lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.headers.get(name) {
            Some(value) => Some(value),
            None => self.headers.get(&name.to_ascii_lowercase()).map(String::as_str),
        }
    }

    /// A parameter of the query, decoded; the first, if it is repeated.
    pub fn query(&self, name: &str) -> Option<String> {
        self.query_pairs().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// All parameters of the query, decoded, in order.
    pub fn query_pairs(&self) -> Vec<(String, String)> {
        let pairs = self.raw_query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(name, true), decode(value, true))
            })
            .collect()
    }

    /// The path's parts, decoded: `["tokens", "balance", "did:example:alice"]`.
    pub fn segments(&self) -> Vec<String> {
        segments(&self.path)
    }

    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    fn is_text(&self) -> bool {
        let Some(kind) = self.header("content-type") else {
            return false;
        };
        let kind = kind.to_ascii_lowercase();
        // API Gateway treats a compressed body as binary.
        let plain = self.header("content-encoding").is_none_or(|encoding| encoding == "identity");
        plain && TEXT_TYPES.iter().any(|text| kind.starts_with(text))
    }
}

/// What API Gateway puts before the path of a request to a stage: nothing for `$default`, else the name of the stage.
fn stage_prefix(stage: &str) -> String {
    if matches!(stage, "" | DEFAULT_STAGE) { String::new() } else { format!("/{stage}") }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Lower-case names.
    pub headers: BTreeMap<String, String>,
    /// One `set-cookie` each.
    pub cookies: Vec<String>,
    /// The bytes to send.
    pub body: Vec<u8>,
}

impl Response {
    /// A status and nothing else.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: BTreeMap::new(), cookies: Vec::new(), body: Vec::new() }
    }

    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { body: body.into().into_bytes(), ..Self::empty(status) }
            .header("content-type", "text/plain; charset=utf-8")
    }

    /// JSON of a value that cannot fail to be written (plain structs and values).
    pub fn json<T: Serialize + ?Sized>(status: u16, body: &T) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => Self { body, ..Self::empty(status) }.header("content-type", "application/json"),
            Err(error) => {
                tracing::error!(
                    error = &error as &(dyn std::error::Error + 'static),
                    "could not write the body of a {status} answer as JSON ({error}); answered 500 instead"
                );
                Self::empty(500)
            }
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_ascii_lowercase(), value.into());
        self
    }

    /// What the handler returns to Lambda.
    pub fn into_value(self) -> Value {
        let mut value = json!({ "statusCode": self.status, "headers": self.headers });
        match String::from_utf8(self.body) {
            Ok(text) => {
                value["body"] = Value::from(text);
                value["isBase64Encoded"] = Value::from(false);
            }
            Err(bytes) => {
                value["body"] = Value::from(BASE64_STANDARD.encode(bytes.as_bytes()));
                value["isBase64Encoded"] = Value::from(true);
            }
        }
        if !self.cookies.is_empty() {
            value["cookies"] = json!(self.cookies);
        }
        value
    }

    /// Reads a handler's answer as API Gateway does: without a `statusCode`, the whole value is the body of a 200.
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        let Some(status) = value.get("statusCode") else {
            let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
            return Ok(Self { body: text.into_bytes(), ..Self::empty(200) }.header("content-type", "application/json"));
        };
        let status = status.as_u64().or_else(|| status.as_str()?.parse().ok());
        let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (100..600).contains(status));
        let mut answer = Self::empty(status.ok_or(Error::Answer("statusCode is not an HTTP status"))?);
        for (name, header) in value["headers"].as_object().into_iter().flatten() {
            let text = match header {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => header.to_string(),
                _ => return Err(Error::Answer("a header is not a string")),
            };
            answer.headers.insert(name.to_ascii_lowercase(), text);
        }
        for cookie in value["cookies"].as_array().into_iter().flatten() {
            answer.cookies.push(cookie.as_str().ok_or(Error::Answer("a cookie is not a string"))?.to_owned());
        }
        answer.body = match (&value["body"], value["isBase64Encoded"].as_bool()) {
            (Value::Null, _) => Vec::new(),
            (Value::String(text), Some(true)) => BASE64_STANDARD.decode(text).map_err(|_| Error::Base64)?,
            (Value::String(text), _) => text.clone().into_bytes(),
            _ => return Err(Error::Answer("body is not a string")),
        };
        Ok(answer)
    }
}

/// The parts of a path, decoded, without empty ones.
pub fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false)).collect()
}

/// Percent-decoding; what is not valid stays as it is. In queries `+` is a space.
pub fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|digit| char::from(*digit).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// `16/Nov/2026:02:07:52 +0000`, as access logs write times.
fn clf_time(epoch_ms: u64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let rfc3339 = Timestamp::from_millis(epoch_ms).to_string();
    let (date, time) = rfc3339.split_once('T').unwrap_or_default();
    let mut parts = date.split('-');
    let (year, month, day) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let name = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1))).unwrap_or(&"Jan");
    format!("{day}/{name}/{year}:{} +0000", time.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests;
