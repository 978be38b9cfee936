//! Running `ichidoctl`, and what it said.

use std::process::{Command, Stdio};

use axum::response::IntoResponse as _;
use regex::Regex;

use crate::support::client::http;
use crate::support::process::Local;

/// A platform with all applications, nothing moving by itself, and retries at once.
pub(crate) fn platform(variables: &[(&str, &str)]) -> Local {
    Local::of_test("platform_process", &["--memory", "--no-demo", "--retry-scale=0"], variables)
}

/// What a run of the tool came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What was printed, with everything replaced that differs from run to run, and its exit code.
    pub(crate) fn tidy(&self) -> String {
        format!("{}exit code {}\n", tidy(&self.out), self.code.unwrap_or(-1))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// Runs the tool against a platform. It has no terminal, so it asks nothing.
pub(crate) fn ctl(local: &Local, arguments: &[&str]) -> Said {
    said(&mut command(local, arguments))
}

/// The same with the credentials of this user, whatever the operating system says who it is.
pub(crate) fn ctl_as(local: &Local, user: &str, arguments: &[&str]) -> Said {
    let credentials = [("AWS_ACCESS_KEY_ID", user), ("AWS_SECRET_ACCESS_KEY", "a secret"), ("USER", "root")];
    said(command(local, arguments).envs(credentials))
}

/// The same, at the address of a [`door_without`].
pub(crate) fn ctl_at(local: &Local, door: &str, arguments: &[&str]) -> Said {
    said(command(local, arguments).env("AWS_ENDPOINT_URL", door))
}

/// What a [`door`] does with the calls that it watches for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Deny,
    /// Passes it on, and answers this instead: a status and, for Lambda, what the function raised.
    AnswerInstead(u16, &'static str),
    /// Runs the tool with these arguments, against the platform itself, before it passes the call on.
    RunBefore(&'static [&'static str]),
}

/// A door in front of a platform that denies one call of AWS and passes every other one on.
pub(crate) async fn door_without(local: &Local, call: &'static str) -> String {
    door(local, call, "", Act::Deny).await
}

/// A door in front of a platform that acts on one call of AWS, if its body has this text, and passes every other one on. The test needs
/// threads: the tool is waited for.
pub(crate) async fn door(local: &Local, call: &'static str, text: &'static str, act: Act) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let platform = local.url.clone();
    let answer = move |request: axum::extract::Request| {
        let platform = platform.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
            let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
            // A call is named in a header, in the path or in a form, which depends on the service.
            let form = format!("Action={call}&");
            let said = String::from_utf8_lossy(&body).into_owned();
            let named = target.ends_with(&format!(".{call}"))
                || parts.uri.path().ends_with(&format!("/{call}"))
                || said.starts_with(&form);
            let act = (named && said.contains(text)).then_some(act);
            if let Some(Act::Deny) = act {
                let denied = r#"{"__type": "AccessDeniedException", "message": "denied by the test"}"#;
                let json = [("content-type", "application/x-amz-json-1.0")];
                return (axum::http::StatusCode::FORBIDDEN, json, denied).into_response();
            }
            if let Some(Act::RunBefore(arguments)) = act {
                let mut tool = command_at(&platform, arguments);
                let ended = tokio::task::spawn_blocking(move || tool.output()).await.expect("a thread");
                assert!(ended.expect("ichidoctl").status.success(), "{arguments:?}");
            }
            let mut headers = parts.headers;
            headers.remove("host");
            let url = format!("{platform}{}", parts.uri);
            let answer = http().request(parts.method, url).headers(headers).body(body).send().await.expect("an answer");
            let (status, mut headers) = (answer.status(), answer.headers().clone());
            headers.remove("transfer-encoding");
            let body = answer.bytes().await.expect("a body");
            if let Some(Act::AnswerInstead(status, raised)) = act {
                let status = axum::http::StatusCode::from_u16(status).expect("a status");
                return (status, [("x-amz-function-error", "Unhandled")], raised).into_response();
            }
            (status, headers, body).into_response()
        }
    };
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
    address
}

/// The tool, to be run against a platform.
pub(crate) fn command(local: &Local, arguments: &[&str]) -> Command {
    command_at(&local.url, arguments)
}

fn command_at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichidoctl"));
    for name in ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "ENV"] {
        command.env_remove(name);
    }
    command.args(arguments).env("AWS_ENDPOINT_URL", url).stdin(Stdio::null());
    command
}

fn said(command: &mut Command) -> Said {
    let output = command.output().expect("ichidoctl");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Replaces what differs from run to run.
pub(crate) fn tidy(text: &str) -> String {
    const REPLACED: [(&str, &str); 9] = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[uuid]"),
        (r"\b[0-9a-f]{32}\b", "[token]"),
        (r"1-[0-9a-f]{8}-[0-9a-f]{24}", "[trace]"),
        (r"\b\d+ (s|min|h|d)( ago)?\b", "[age]$2"),
        (r"(duration_?[mM]s|processed_at|latency)(=|\W+)[\d.]+", "$1$2[n]"),
        (r"outcome of \d+ bytes", "outcome of [n] bytes"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
        (r" {2,}", "  "),
    ];
    REPLACED.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *with).into_owned()
    })
}
