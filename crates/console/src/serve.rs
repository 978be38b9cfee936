//! The router: the pages, their files, and the contract.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt;
use http::{HeaderMap, StatusCode};

use crate::backend::{Backend, Failure};
use crate::contract::{Change, Event, Frame, KeyQuery, PageLink};
use crate::pages::{FILES, INDEX, PAGES, Page};
use crate::runbooks;

/// The console neither loads nor runs anything from another host, and talks to none. `'self'` includes WebSockets of the same host and port.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'self'; form-action 'none'; object-src 'none'";

/// A header that a page of another site cannot send without being asked first. Changes need it.
const OURS: &str = "x-ichido-console";

/// The minutes that the overview shows, if nobody says otherwise, and at most.
const MINUTES: u32 = 5;
const MOST_MINUTES: u32 = 15;

/// The days of Slack's history that are shown, if nobody says otherwise, and at most: as many as are kept.
const DAYS: u32 = 7;
const MOST_DAYS: u32 = 90;

#[derive(Clone)]
struct Served<B> {
    backend: B,
    pages: Vec<Page>,
    /// Where the router is mounted: `/`, or `/TOKEN/`.
    base: String,
}

/// Everything that the console answers. `base` is where the router is mounted, with a slash at both ends: `/` for a router of its own or
/// one that is merged; `/TOKEN/` for one that is nested there.
pub fn routes<B: Backend>(backend: B, base: &str) -> Router {
    let has = backend.frame().capabilities;
    let mut pages: Vec<Page> = PAGES.to_vec();
    pages.extend(backend.pages());
    pages.retain(|page| page.needs.is_empty() || has.iter().any(|name| name == page.needs));
    let mut router = Router::new()
        .route("/console/{file}", get(file))
        .route("/console/pages/{file}", get(page_script::<B>))
        .route("/_console/frame", get(frame::<B>))
        .route("/_console/overview", get(overview::<B>))
        .route("/_console/keys", get(keys::<B>))
        .route("/_console/keys/{namespace}/{key}", get(life::<B>))
        .route("/_console/dead-letters", get(dead_letters::<B>))
        .route("/_console/schedules", get(schedules::<B>))
        .route("/_console/alarms", get(alarms::<B>))
        .route("/_console/runbooks/{name}", get(runbook))
        .route("/_console/metrics", get(metrics::<B>))
        .route("/_console/rollouts", get(rollouts::<B>))
        .route("/_console/cost", get(cost::<B>))
        .route("/_console/history", get(history::<B>))
        .route("/_console/changes", post(change::<B>))
        .route("/_console/events", get(events::<B>));
    for page in &pages {
        router = router.route(page.path, get(shell::<B>));
    }
    router.with_state(Served { backend, pages, base: base.to_owned() })
}

/// Every page is the same document; the front end looks at the path.
async fn shell<B: Backend>(State(served): State<Served<B>>) -> Response {
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ];
    (headers, INDEX.now().replace("%BASE%", &served.base)).into_response()
}

async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, _)| *known == name) {
        Some((name, asset)) if name.ends_with(".css") => text("text/css; charset=utf-8", asset.now().into_owned()),
        Some((_, asset)) => text("text/javascript; charset=utf-8", asset.now().into_owned()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn page_script<B: Backend>(State(served): State<Served<B>>, Path(file): Path<String>) -> Response {
    match served.pages.iter().find(|page| file.strip_suffix(".js") == Some(page.name)) {
        Some(page) => text("text/javascript; charset=utf-8", page.script.now().into_owned()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn text(kind: &'static str, text: String) -> Response {
    let headers = [("content-type", kind), ("cache-control", "no-cache"), ("x-content-type-options", "nosniff")];
    (headers, text).into_response()
}

type Answered<T> = Result<Json<T>, Failure>;

async fn frame<B: Backend>(State(served): State<Served<B>>) -> Json<Frame> {
    let mut frame = served.backend.frame();
    let link = |page: &Page| PageLink {
        name: page.name.to_owned(),
        title: page.title.to_owned(),
        path: page.path.to_owned(),
        group: page.group.to_owned(),
    };
    frame.pages = served.pages.iter().map(link).collect();
    Json(frame)
}

async fn overview<B: Backend>(
    State(served): State<Served<B>>,
    Query(query): Query<HashMap<String, String>>,
) -> Answered<crate::contract::Overview> {
    let minutes = number(&query, "minutes", MINUTES, MOST_MINUTES)?;
    let logs = query.get("logs").is_some_and(|logs| logs == "1");
    served.backend.overview(minutes, logs).await.map(Json)
}

/// A parameter that is a number from 1 on.
fn number(query: &HashMap<String, String>, name: &str, default: u32, most: u32) -> Result<u32, Failure> {
    let given = query.get(name).map_or(Ok(default), |given| given.parse());
    let given = given.ok().filter(|given| (1..=most).contains(given));
    given.ok_or_else(|| Failure::Refused(format!("{name} is a number from 1 to {most}")))
}

async fn keys<B: Backend>(
    State(served): State<Served<B>>,
    Query(query): Query<KeyQuery>,
) -> Answered<crate::contract::Keys> {
    served.backend.keys(query).await.map(Json)
}

async fn life<B: Backend>(
    State(served): State<Served<B>>,
    Path((namespace, key)): Path<(String, String)>,
) -> Answered<crate::contract::Life> {
    served.backend.life(namespace, key).await.map(Json)
}

async fn dead_letters<B: Backend>(State(served): State<Served<B>>) -> Answered<crate::contract::DeadLetters> {
    whatever_the_browser_does(async move { served.backend.dead_letters().await }).await.map(Json)
}

async fn schedules<B: Backend>(State(served): State<Served<B>>) -> Answered<Vec<crate::contract::Schedule>> {
    served.backend.schedules().await.map(Json)
}

async fn alarms<B: Backend>(State(served): State<Served<B>>) -> Answered<Vec<crate::contract::Alarm>> {
    served.backend.alarms().await.map(Json)
}

async fn runbook(Path(name): Path<String>) -> Answered<crate::contract::Runbook> {
    runbooks::find(&name).map(Json).ok_or_else(|| Failure::NotFound(format!("there is no runbook {name:?}")))
}

async fn metrics<B: Backend>(State(served): State<Served<B>>) -> Answered<Vec<crate::contract::Metric>> {
    served.backend.metrics().await.map(Json)
}

async fn rollouts<B: Backend>(State(served): State<Served<B>>) -> Answered<crate::contract::Rollouts> {
    served.backend.rollouts().await.map(Json)
}

async fn cost<B: Backend>(State(served): State<Served<B>>) -> Answered<crate::contract::Cost> {
    served.backend.cost().await.map(Json)
}

async fn history<B: Backend>(
    State(served): State<Served<B>>,
    Query(query): Query<HashMap<String, String>>,
) -> Answered<crate::contract::History> {
    let days = number(&query, "days", DAYS, MOST_DAYS)?;
    served.backend.history(days).await.map(Json)
}

async fn change<B: Backend>(
    State(served): State<Served<B>>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Answered<crate::contract::Changed> {
    if !headers.contains_key(OURS) {
        return Err(Failure::Forbidden(format!("a change needs the header {OURS}; nothing was changed")));
    }
    let change: Change = serde_json::from_slice(&body)
        .map_err(|error| Failure::Refused(format!("the change is not understood: {error}; nothing was changed")))?;
    whatever_the_browser_does(async move { served.backend.change(change).await }).await.map(Json)
}

/// A request that its browser gives up is dropped. Work that must not end half-way goes on without it.
async fn whatever_the_browser_does<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|_| Err(Failure::Failed("the console failed at this; its log says why".to_owned())))
}

/// The stream: first the kept events, then each new one. With `Last-Event-ID` it continues after that event.
async fn events<B: Backend>(
    State(served): State<Served<B>>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let given = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(query.get("after").map(String::as_str));
    let after = given.and_then(|id| id.parse().ok()).unwrap_or(0);
    let message = |event: Event| {
        let data = serde_json::to_string(&event).unwrap_or_default();
        let message = Message::default().data(data);
        // An event without a number leaves the browser's `Last-Event-ID` as it is.
        Ok::<_, Infallible>(if event.id == 0 { message } else { message.id(event.id.to_string()) })
    };
    let stream = served.backend.events(after).map(message);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream::BoxStream;
    use http::Request;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::contract::{Changed, Life};

    #[derive(Clone)]
    struct Small;

    impl Backend for Small {
        fn frame(&self) -> Frame {
            Frame {
                environment: "test".into(),
                capabilities: vec!["keys".into(), "changes".into()],
                pages: Vec::new(),
                identity: None,
                addresses: Vec::new(),
                breakable: Vec::new(),
                refresh_seconds: None,
            }
        }

        fn life(&self, namespace: String, key: String) -> impl crate::backend::Answer<Life> {
            async move { Ok(Life { namespace, key, ..Life::default() }) }
        }

        fn change(&self, change: Change) -> impl crate::backend::Answer<Changed> {
            async move { Ok(Changed { message: format!("{change:?}") }) }
        }

        fn events(&self, _: u64) -> BoxStream<'static, Event> {
            let event = |id, kind: &str| Event { id, at: String::new(), kind: kind.to_owned(), what: json!({}) };
            futures::stream::iter([event(7, "request"), event(0, "missed")]).boxed()
        }
    }

    /// Changes something slowly, and counts what it has changed.
    #[derive(Clone, Default)]
    struct Slow(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl Backend for Slow {
        fn frame(&self) -> Frame {
            Small.frame()
        }

        fn change(&self, _: Change) -> impl crate::backend::Answer<Changed> {
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Ok(Changed { message: "done".to_owned() })
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_goes_on_when_its_browser_goes_away() {
        let slow = Slow::default();
        let run = Body::from(r#"{"action": "run-schedule", "name": "github-subscriber"}"#);
        let request = Request::post("/_console/changes").header(OURS, "1").body(run).expect("a request");
        let asked = routes(slow.clone(), "/").oneshot(request);
        assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err(), "the browser goes away");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(slow.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    async fn ask(request: Request<Body>) -> (StatusCode, String) {
        let response = routes(Small, "/t0ken/").oneshot(request).await.expect("an answer");
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).expect("a request")
    }

    #[tokio::test]
    async fn only_the_pages_of_its_capabilities_are_there() {
        let (_, frame) = ask(get("/_console/frame")).await;
        let frame: Value = serde_json::from_str(&frame).expect("JSON");
        let names: Vec<&str> =
            frame["pages"].as_array().expect("pages").iter().filter_map(|page| page["name"].as_str()).collect();
        assert_eq!(names, ["keys", "life"]);
        assert_eq!(ask(get("/operate/metrics")).await.0, StatusCode::NOT_FOUND);
        let (status, message) = ask(get("/_console/metrics")).await;
        assert_eq!((status, message.as_str()), (StatusCode::NOT_FOUND, r#"{"message":"this console has no metrics"}"#));
    }

    #[tokio::test]
    async fn a_page_says_where_the_console_is_mounted() {
        let (status, page) = ask(get("/keys/FILE/T1%23a%2Fb")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(page.contains(r#"<base href="/t0ken/">"#), "{page}");
    }

    #[tokio::test]
    async fn a_page_talks_to_no_other_host_and_runs_nothing_inline() {
        let response = routes(Small, "/").oneshot(get("/keys")).await.expect("an answer");
        let policy = response.headers()["content-security-policy"].to_str().expect("a text");
        assert!(policy.contains("default-src 'self'"), "{policy}");
        for word in ["unsafe", "ws:", "http", "*"] {
            assert!(!policy.contains(word), "{word}: {policy}");
        }
    }

    #[tokio::test]
    async fn an_event_without_a_number_does_not_reset_where_a_browser_continues() {
        let (_, stream) = ask(get("/_console/events")).await;
        let ids: Vec<&str> = stream.lines().filter(|line| line.starts_with("id:")).collect();
        assert_eq!((ids, stream.matches("data:").count()), (vec!["id: 7"], 2), "{stream}");
    }

    #[tokio::test]
    async fn a_key_may_contain_every_character() {
        let (_, life) = ask(get("/_console/keys/FILE/T1%23a%2Fb%20%25%3F")).await;
        let life: Value = serde_json::from_str(&life).expect("JSON");
        assert_eq!((&life["namespace"], &life["key"]), (&json!("FILE"), &json!("T1#a/b %?")));
    }

    #[tokio::test]
    async fn a_change_without_our_header_or_of_an_unknown_kind_is_refused() {
        let change = |body: &str, ours: bool| {
            let request = Request::post("/_console/changes");
            let request = if ours { request.header(OURS, "1") } else { request };
            request.body(Body::from(body.to_owned())).expect("a request")
        };
        let run = r#"{"action": "run-schedule", "name": "github-subscriber"}"#;
        assert_eq!(ask(change(run, false)).await.0, StatusCode::FORBIDDEN);
        assert_eq!(ask(change(run, true)).await.0, StatusCode::OK);
        assert_eq!(ask(change(r#"{"action": "explode"}"#, true)).await.0, StatusCode::BAD_REQUEST);
    }
}
