//! Foreign requests change nothing, on every port.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::client::{answer, http};
use crate::support::process::Local;

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_everywhere() {
    let local = Local::start();
    for base in [&local.url, &local.dynamodb_url] {
        for (header, value) in [
            ("host", "rebound.example"),
            ("host", "[::1].evil.example"),
            ("origin", "https://example.com"),
            ("origin", "null"),
            ("origin", "http://localhost:80@evil.example"),
            ("origin", "http://[::1].evil.example"),
        ] {
            for path in ["/", "/healthz", "/_local/config", "/echo/x", "/standins/slack/api/auth.test"] {
                let (status, body) = answer(http().post(format!("{base}{path}")).header(header, value)).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{header}: {value} at {base}{path}");
                assert!(body["message"].as_str().is_some_and(|message| message.contains("not this machine")), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_page_cannot_switch_faults_and_a_local_one_can() {
    let local = Local::start();
    let put = |origin: &str| {
        let request = http().put(format!("{}/_local/faults", local.url)).header("origin", origin);
        request.body(json!({"slack": {"mode": "hang"}}).to_string())
    };
    assert_eq!(answer(put("https://example.com")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(local.get("/_local/faults").await, json!({}));
    assert_eq!(answer(put("http://localhost:3000")).await.0, StatusCode::OK);
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_what_the_platform_keeps() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &[]);
    local.invoke("workshop-mischief", "Event", json!({"do": "fail"})).await;
    let mut names = Vec::new();
    for file in std::fs::read_dir(directory.path()).expect("the directory") {
        let file = file.expect("a file");
        let mode = file.metadata().expect("its mode").permissions().mode() & 0o777;
        let name = file.file_name().into_string().expect("a name");
        // The certificate is for the clients, whoever runs them.
        assert!(mode == 0o600 || name == "cert.pem", "{name}: {mode:o}");
        names.push(name);
    }
    for kept in ["dynamodb.db", "dynamodb.db-wal", "secrets.json", "key.pem", "lock"] {
        assert!(names.iter().any(|name| name == kept), "{kept} is not among {names:?}");
    }
}
