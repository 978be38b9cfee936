//! Foreign requests are refused, on every port.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::client::{answer, http};
use crate::support::process::Local;

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_everywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &[]);
    let certificate = std::fs::read(directory.path().join("cert.pem")).expect("the certificate");
    let certificate = reqwest::Certificate::from_pem(&certificate).expect("a certificate");
    let client = http_client::builder().no_proxy().tls_certs_only([certificate]).build().expect("a client");
    let mut foreign = Vec::new();
    for (header, value) in [
        ("host", "rebound.example"),
        ("host", "[::1].evil.example"),
        ("origin", "https://example.com"),
        ("origin", "null"),
        ("origin", "http://localhost:80@evil.example"),
        ("origin", "http://[::1].evil.example"),
    ] {
        foreign.push((vec![(header, value)], "not this machine"));
    }
    // A picture, and a frame.
    for (mode, dest) in [("no-cors", "image"), ("navigate", "iframe")] {
        let said = vec![("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        foreign.push((said, "a page of another site"));
    }
    for base in [&local.url, &local.dynamodb_url, &local.tls_url] {
        for (headers, why) in &foreign {
            for path in ["/", "/healthz", "/_local/config", "/echo/x", "/standins/slack/api/auth.test"] {
                let mut request = client.get(format!("{base}{path}"));
                for (header, value) in headers {
                    request = request.header(*header, *value);
                }
                let (status, body) = answer(request).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{headers:?} at {base}{path}");
                assert!(body["message"].as_str().is_some_and(|message| message.contains(why)), "{body}");
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
