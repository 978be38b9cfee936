//! Pushover's message API: `POST /1/messages.json`. It answers `{"status": 1}` when it accepts a message. Sent messages cannot
//! be queried.

use function::BoxFuture;
use serde_json::{Value, json};

use crate::standins::{Answer, Request, StandIn};
use crate::world::outbox::Entry;

/// Pushover's limits, in characters.
const MAX_MESSAGE: usize = 1_024;
const MAX_TITLE: usize = 250;
const MAX_URL: usize = 512;

/// The stand-in.
#[derive(Debug)]
pub(crate) struct Pushover {
    token: String,
    user: String,
}

impl Pushover {
    /// An application with this token, for a user with this key.
    pub(crate) fn new(token: impl Into<String>, user: impl Into<String>) -> Self {
        Self { token: token.into(), user: user.into() }
    }

    fn send(&self, request: &Request) -> Answer {
        let parameter = |name| request.parameter(name).unwrap_or_default();
        let too_long = |name, limit| parameter(name).chars().count() > limit;
        if parameter("token") != self.token {
            return refused(json!({"token": "invalid", "errors": ["application token is invalid"]}));
        }
        if parameter("user") != self.user {
            return refused(
                json!({"user": "invalid", "errors": ["user identifier is not a valid user, group, or subscribed user key"]}),
            );
        }
        if parameter("message").trim().is_empty() {
            return refused(json!({"message": "cannot be blank", "errors": ["message cannot be blank"]}));
        }
        for (name, limit) in [("message", MAX_MESSAGE), ("title", MAX_TITLE), ("url", MAX_URL)] {
            if too_long(name, limit) {
                return refused(json!({"errors": [format!("{name} is too long")]}));
            }
        }
        let id = uuid::Uuid::new_v4().to_string();
        Answer::json(200, json!({"status": 1, "request": id})).with_effect(json!({"request": id}))
    }
}

fn refused(mut body: Value) -> Answer {
    body["status"] = Value::from(0);
    body["request"] = Value::from(uuid::Uuid::new_v4().to_string());
    Answer::json(400, body)
}

impl StandIn for Pushover {
    fn name(&self) -> &'static str {
        "pushover"
    }

    fn asks_for_effect(&self, request: &Request) -> bool {
        request.path == "/1/messages.json"
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            match (request.method.as_str(), request.path.as_str()) {
                ("POST", "/1/messages.json") => self.send(&request),
                _ => Answer::json(404, json!({"status": 0, "errors": ["not found"]})),
            }
        })
    }

    fn refusal(&self, status: u16) -> Answer {
        let answer = Answer::json(status, json!({"status": 0, "errors": ["refused by a fault switch"]}));
        if status == 429 { answer.header("retry-after", "2") } else { answer }
    }

    /// Does nothing: Pushover remembers nothing that callers can see.
    fn restore(&self, _accepted: &[Entry]) {}
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    async fn send(body: Value) -> (Answer, Value) {
        let request = Request {
            method: Method::POST,
            path: "/1/messages.json".into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            raw: body.to_string().into(),
            body,
            now_ms: 0,
        };
        let answer = Pushover::new("t", "u").answer(request).await;
        let body = serde_json::from_slice(&answer.body).expect("JSON");
        (answer, body)
    }

    #[tokio::test]
    async fn a_message_is_accepted_and_what_is_wrong_is_named() {
        let (answer, body) = send(json!({"token": "t", "user": "u", "message": "hello"})).await;
        assert!(answer.effect.is_some() && body["status"] == 1);
        for body in [
            json!({"token": "x", "user": "u", "message": "hello"}),
            json!({"token": "t", "user": "x", "message": "hello"}),
            json!({"token": "t", "user": "u", "message": " "}),
            json!({"token": "t", "user": "u", "message": "x".repeat(MAX_MESSAGE + 1)}),
        ] {
            let (answer, said) = send(body).await;
            assert_eq!((answer.status, answer.effect.is_none(), &said["status"]), (400, true, &json!(0)));
        }
    }
}
