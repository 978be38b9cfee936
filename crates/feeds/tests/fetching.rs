//! Fetching from a server that misbehaves in every way we know of.

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use feeds::outside::fetch::{Error, Fetched, Fetcher, MAX_BYTES, Policy, Validators};
use flate2::{Compression, write::GzEncoder};
use testkit::ManualClock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use url::Url;

const HOST: &str = "feed.test";
const TIME: Duration = Duration::from_secs(120);

/// What the server does with each connection. The last reply is repeated.
#[derive(Clone)]
enum Reply {
    Bytes(Vec<u8>),
    /// Sends bytes for ever.
    Endless,
    /// Says nothing.
    Silent,
    Hangup,
}

struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let reply = replies[number.min(replies.len() - 1)].clone();
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 16 * 1024];
                    let n = socket.read(&mut buffer).await.unwrap_or(0);
                    seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..n]).into_owned());
                    match reply {
                        Reply::Bytes(bytes) => {
                            let _ = socket.write_all(&bytes).await;
                        }
                        Reply::Endless => {
                            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                            let chunk = vec![b'x'; 256 * 1024];
                            while socket.write_all(&chunk).await.is_ok() {}
                        }
                        Reply::Silent => std::future::pending().await,
                        Reply::Hangup => {}
                    }
                });
            }
        });
        Server { address, requests }
    }

    fn url(&self, path: &str) -> Url {
        format!("http://{HOST}:{}{path}", self.address.port()).parse().unwrap()
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Reply::Bytes(bytes)
}

fn ok(body: &[u8]) -> Reply {
    answer("200 OK", &[], body)
}

fn redirect(to: &str) -> Reply {
    answer("302 Found", &[("location", to)], b"")
}

fn fetcher() -> Fetcher {
    let policy = Policy::public().pin(HOST, IpAddr::V4(Ipv4Addr::LOCALHOST));
    Fetcher::new(policy, Arc::new(ManualClock::new()), || 0.5).unwrap()
}

async fn fetch(server: &Server) -> Result<Fetched, Error> {
    fetcher().fetch(&server.url("/feed"), &Validators::default(), TIME).await
}

async fn body(server: &Server) -> Vec<u8> {
    match fetch(server).await.unwrap() {
        Fetched::Changed(document) => document.body,
        Fetched::Unchanged { .. } => panic!("unchanged"),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn validators_are_sent_back_as_they_came_and_304_is_unchanged() {
    let server = Server::new(vec![
        answer(
            "200 OK",
            &[
                ("ETag", "W/\"a b,c\""),
                ("Last-Modified", "Thu, 01 Jan 1970"),
                ("Content-Type", "text/xml; charset=\"EUC-JP\""),
            ],
            b"x",
        ),
        answer("304 Not Modified", &[("cache-control", "private, max-age=600")], b""),
    ])
    .await;
    let fetcher = fetcher();
    let Fetched::Changed(document) = fetcher.fetch(&server.url("/feed"), &Validators::default(), TIME).await.unwrap()
    else {
        panic!("unchanged")
    };
    assert_eq!(document.charset.as_deref(), Some("EUC-JP"));
    let again = fetcher.fetch(&server.url("/feed"), &document.validators, TIME).await.unwrap();
    assert!(matches!(again, Fetched::Unchanged { fresh_for: Some(fresh), .. } if fresh == Duration::from_secs(600)));
    let requests = server.requests.lock().unwrap();
    assert!(!requests[0].contains("if-none-match") && requests[0].contains("user-agent: ichido-feeds/"));
    assert!(
        requests[1].contains("if-none-match: W/\"a b,c\"\r\n")
            && requests[1].contains("if-modified-since: Thu, 01 Jan 1970\r\n")
    );
}

#[tokio::test]
async fn a_304_that_nobody_asked_for_is_an_error() {
    let server = Server::new(vec![answer("304 Not Modified", &[], b"")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Status { status: 304, .. })));
}

#[tokio::test]
async fn failures_that_may_pass_are_retried_three_times() {
    let server = Server::new(vec![
        answer("503 Unavailable", &[], b""),
        Reply::Hangup,
        answer("500 Oops", &[], b""),
        ok(b"fine"),
    ])
    .await;
    assert_eq!(body(&server).await, b"fine");
    assert_eq!(server.count(), 4);
    let server = Server::new(vec![answer("502 Bad Gateway", &[], b"")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Status { status: 502, .. })));
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn failures_that_will_not_pass_are_not_retried() {
    for status in ["404 Not Found", "403 Forbidden", "410 Gone"] {
        let server = Server::new(vec![answer(status, &[], b"")]).await;
        assert!(matches!(fetch(&server).await, Err(Error::Status { .. })));
        assert_eq!(server.count(), 1, "{status}");
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_if_it_is_short_and_told_if_it_is_long() {
    let server = Server::new(vec![answer("429 Too Many Requests", &[("retry-after", "2")], b""), ok(b"fine")]).await;
    assert_eq!(body(&server).await, b"fine");
    let server = Server::new(vec![answer("429 Too Many Requests", &[("retry-after", "3600")], b"")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Later { wait, .. }) if wait == Duration::from_secs(3_600)));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_silent_server_is_given_up_when_the_time_is_over() {
    let server = Server::new(vec![Reply::Silent]).await;
    let hasty = fetcher().with_try_timeout(Duration::from_millis(200));
    let error = hasty.fetch(&server.url("/feed"), &Validators::default(), TIME).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let server = Server::new(vec![Reply::Endless]).await;
    assert!(matches!(fetch(&server).await, Err(Error::TooLarge { .. })));
}

#[tokio::test]
async fn gzip_is_unpacked_and_a_bomb_is_not() {
    let server = Server::new(vec![answer("200 OK", &[("content-encoding", "gzip")], &gzip(b"<feed/>"))]).await;
    assert_eq!(body(&server).await, b"<feed/>");
    let bomb = gzip(&vec![0; MAX_BYTES + 1]);
    assert!(bomb.len() < 100_000);
    let server = Server::new(vec![answer("200 OK", &[("content-encoding", "gzip")], &bomb)]).await;
    assert!(matches!(fetch(&server).await, Err(Error::TooLarge { .. })));
    let server = Server::new(vec![answer("200 OK", &[("content-encoding", "br")], b"?")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Coding { .. })));
    let server = Server::new(vec![answer("200 OK", &[("content-encoding", "gzip")], b"not gzip")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn redirects_are_followed_five_times() {
    let server =
        Server::new(vec![redirect("/2"), redirect("/3"), redirect("/4"), redirect("/5"), redirect("/6"), ok(b"there")])
            .await;
    assert_eq!(body(&server).await, b"there");
    let server = Server::new(vec![redirect("/again")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Redirects { .. })));
    assert_eq!(server.count(), 6);
}

#[tokio::test]
async fn redirects_into_the_network_are_refused() {
    for target in [
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://localhost/",
    ] {
        let server = Server::new(vec![redirect(target)]).await;
        let error = fetch(&server).await.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{target}: {error}");
    }
}

#[tokio::test]
async fn only_https_is_fetched_also_after_a_redirect() {
    let server = Server::new(vec![redirect("http://example.com/")]).await;
    assert!(matches!(fetch(&server).await, Err(Error::NotHttps { .. })));
    for url in ["http://example.com/", "ftp://example.com/", "file:///etc/passwd"] {
        let error = fetcher().fetch(&url.parse().unwrap(), &Validators::default(), TIME).await.unwrap_err();
        assert!(matches!(error, Error::NotHttps { .. }), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_refused_before_anything_is_sent() {
    let server = Server::new(vec![ok(b"secret")]).await;
    let url: Url = format!("https://localhost:{}/", server.address.port()).parse().unwrap();
    let error = fetcher().fetch(&url, &Validators::default(), TIME).await.unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn the_switch_for_local_runs_lets_this_machine_be_asked() {
    let server = Server::new(vec![ok(b"local")]).await;
    let fetcher = Fetcher::new(Policy::local(), Arc::new(ManualClock::new()), || 0.5).unwrap();
    let url: Url = format!("http://127.0.0.1:{}/", server.address.port()).parse().unwrap();
    assert!(matches!(fetcher.fetch(&url, &Validators::default(), TIME).await, Ok(Fetched::Changed(_))));
}

#[test]
fn no_template_has_the_switch_for_local_runs() {
    let template = include_str!("../../../infra/templates/feeds.yaml");
    assert!(!template.contains(feeds::settings::ALLOW_LOCAL));
}

#[tokio::test]
async fn errors_name_the_host_and_never_the_url() {
    let server = Server::new(vec![answer("500 Oops", &[], b"")]).await;
    let error = fetcher().fetch(&server.url("/feed?token=NOTREAL"), &Validators::default(), TIME).await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains(HOST) && !said.contains("NOTREAL"), "{said}");
    // The error of a failed connection says why, and does not contain the URL either.
    let unused: Url = format!("http://{HOST}:1/feed?token=NOTREAL").parse().unwrap();
    let error = fetcher().fetch(&unused, &Validators::default(), TIME).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("NOTREAL"), "{error:?}");
}
