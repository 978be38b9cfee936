//! Feeds of the list: a run of one that has not changed, and a run that finds one new entry and has it posted.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ::feeds::delivery::message::{Request, Response as Delivered};
use ::feeds::delivery::notify::{Memory, Notifier, Secrets};
use ::feeds::delivery::owed::{Deliverer, GiveUp};
use ::feeds::delivery::text::Template;
use ::feeds::entry::Source;
use ::feeds::function::subscriber::{RunReport, Subscriber};
use ::feeds::list::{DEFAULT_TEXT, Destination, Listed};
use ::feeds::outside::destination;
use ::feeds::outside::fetch::{Fetcher, Policy};
use ::feeds::outside::invoke::{self, Invoke};
use ::feeds::outside::mastodon::{Mastodon, Visibility};
use ::feeds::reading::Reader;
use ::feeds::reading::filter::Pattern;
use ::feeds::reading::first_run::FirstRun;
use ::feeds::reading::pace::{DEFAULT_LONGEST, Pace};
use ::feeds::table::Table;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use function::{BoxFuture, Secret, secret};
use ichido::{Clock, Once, SystemClock};
use serde_json::json;
use testkit::usage::Thread;

use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::store::Store;
use crate::{Result, progress};

/// Entries of each feed: as many as GitHub shows.
const ENTRIES: u64 = 40;
const PERIOD: Duration = Duration::from_secs(300);
const FEED_HOST: &str = "feed.test";

/// A run beside the store: the schedule, and half a second of a function with 256 MB (`infra/cost/usage.json`).
const RUN: Extras = &[("schedulerInvocation", 1.0), ("lambdaRequest", 1.0), ("lambdaGbSecondArm64", 0.5 * 0.25)];
/// The same, and 0.7 seconds of the notifier.
pub(super) const RUN_AND_NOTIFY: Extras =
    &[("schedulerInvocation", 1.0), ("lambdaRequest", 2.0), ("lambdaGbSecondArm64", (0.5 + 0.7) * 0.25)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 45, 180);
    let world = World::new()?;
    let bench = world.bench(prices);
    let mut curves = [
        curve("feeds", "run, unchanged", "feeds", "run", Expected::Flat),
        curve("feeds", "run, one new entry", "feeds", "run", Expected::Flat),
    ];
    let mut newest: Vec<u64> = Vec::new();
    for size in sizes.of([1, 2, 3, 5], [2, 10, 30, 100], [2, 10, 100, 300]) {
        progress(format_args!("feeds: {size}"));
        while newest.len() < size {
            world.begin(newest.len(), ENTRIES).await?;
            newest.push(ENTRIES);
        }
        let unchanged =
            bench.each(size as u64, units, RUN, async |_| world.run(fastrand::usize(0..size), "unchanged", 0).await);
        curves[0].points.push(unchanged.await?);
        let news = bench.each(size as u64, units, RUN_AND_NOTIFY, async |_| {
            let feed = fastrand::usize(0..size);
            newest[feed] += 1;
            world.show(feed, newest[feed] - ENTRIES..newest[feed]);
            world.run(feed, "read", 1).await
        });
        curves[1].points.push(news.await?);
    }
    Ok(curves.into())
}

/// The functions of the list's feeds with their real clients, a table, and a server on loopback that stands in for the feeds and for
/// Mastodon.
pub(super) struct World {
    store: Store,
    table: Table,
    notifier: Arc<InProcess>,
    fetcher: Fetcher,
    policy: Policy,
    port: u16,
    documents: Documents,
    server: [Thread; 1],
    clock: Arc<dyn Clock>,
}

impl World {
    pub(super) fn new() -> Result<Self> {
        let (store, mut tables) = Store::of_template("infra/templates/feeds.yaml")?;
        let table = tables.remove("FeedsStateTable").ok_or("the template has no FeedsStateTable")?;
        let table = Table::new(store.client(), table);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (port, server, documents) = serve()?;
        let policy = Policy::public().pin(FEED_HOST, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mastodon = Mastodon::new(
            destination::client()?,
            format!("http://127.0.0.1:{port}/").parse()?,
            secret::Source::Fixed(Secret::new("token")),
            Visibility::Unlisted,
            Arc::clone(&clock),
        );
        let notifier = Notifier {
            source: Source::Listed,
            once: Once::new(table.claims()),
            table: table.clone(),
            mastodon: Some(mastodon),
            pushover: None,
            slack: None,
            webhook: None,
            secrets: Secrets { policy: policy.clone(), named: None },
            pushover_title: Pattern::default(),
            template: Template::parse(DEFAULT_TEXT)?,
            shadow: false,
            clock: Arc::clone(&clock),
            memory: Memory::default(),
        };
        Ok(Self {
            store,
            table,
            notifier: Arc::new(InProcess { notifier, clock: Arc::clone(&clock) }),
            fetcher: Fetcher::new(policy.clone(), Arc::clone(&clock), fastrand::f64)?,
            policy,
            port,
            documents,
            server: [server],
            clock,
        })
    }

    pub(super) fn bench<'a>(&'a self, prices: &'a Prices) -> Bench<'a> {
        Bench { beside: &self.server, ..Bench::on(prices, &self.store) }
    }

    /// What the feed with this number shows from now on, the newest first.
    pub(super) fn show(&self, feed: usize, entries: Range<u64>) {
        telemetry::lock(&self.documents).insert(feed, entries);
    }

    /// The first run of a feed: it marks all entries as seen.
    pub(super) async fn begin(&self, feed: usize, entries: u64) -> Result<()> {
        self.show(feed, 0..entries);
        self.run(feed, "read", 0).await
    }

    /// One run of a feed, which must end with this result, and with so many entries delivered.
    pub(super) async fn run(&self, feed: usize, result: &str, delivered: usize) -> Result<()> {
        let report: RunReport = self.subscriber(feed)?.run(self.clock.now() + Duration::from_secs(120)).await?;
        if report.result == result && report.settled == delivered && report.owed == 0 {
            return Ok(());
        }
        Err(format!("the run of feed {feed} should have been {result} and deliver {delivered}: {report:?}").into())
    }

    /// As the event of the feed's schedule makes it.
    fn subscriber(&self, feed: usize) -> Result<Subscriber> {
        let url = format!("http://{FEED_HOST}:{}/feed/{feed}", self.port);
        let name = format!("feed-{feed}");
        let entry = json!({"name": name, "url": url, "period": "5 minutes", "destinations": ["mastodon"]});
        let Listed { name, entry, destinations, filter, .. } = Listed::of_entry(entry, &self.policy)?;
        let table = self.table.of_feed(name.clone());
        Ok(Subscriber {
            feed: name.clone(),
            table: table.clone(),
            reader: Reader {
                feed: name,
                source: Source::Listed,
                url: secret::Source::Fixed(Secret::new(url)),
                table: table.clone(),
                fetcher: self.fetcher.clone(),
                first_run: FirstRun::Mark,
                filter,
            },
            deliverer: Deliverer {
                table,
                notifier: Arc::clone(&self.notifier) as Arc<dyn Invoke>,
                feed: entry,
                destinations: destinations.into_iter().map(Destination::name).map(str::to_owned).collect(),
                give_up: GiveUp::default(),
                parallel: 4,
                clock: Arc::clone(&self.clock),
            },
            pace: Pace { adaptive: false, period: PERIOD, run_every: PERIOD, longest: DEFAULT_LONGEST },
            told_every: PERIOD,
            clock: Arc::clone(&self.clock),
        })
    }
}

/// The notifier, in this process instead of a function of its own.
struct InProcess {
    notifier: Notifier,
    clock: Arc<dyn Clock>,
}

impl Invoke for InProcess {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, std::result::Result<Delivered, invoke::Error>> {
        Box::pin(async move {
            let answer = self.notifier.notify(request, self.clock.now() + Duration::from_secs(40)).await;
            answer.map_err(|error| invoke::Error::Function { kind: "Event".into(), message: error.to_string() })
        })
    }
}

/// Which entries each feed shows. The server writes the document, so that this does not count as work of the subscriber.
type Documents = Arc<Mutex<HashMap<usize, Range<u64>>>>;

/// Serves the feeds and Mastodon on a thread of their own.
fn serve() -> Result<(u16, Thread, Documents)> {
    let documents = Documents::default();
    let router = Router::new()
        .route("/feed/{feed}", get(serve_feed))
        .route("/api/v1/statuses", post(serve_post))
        .route("/api/v2/instance", get(serve_instance))
        .with_state(Arc::clone(&documents));
    let (started, starting) = mpsc::channel();
    std::thread::Builder::new().name("stand-ins".to_owned()).spawn(move || {
        let serving = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let _ = started.send(Ok((listener.local_addr()?.port(), Thread::current())));
                axum::serve(listener, router).await
            })
        };
        let served: std::io::Result<()> = serving();
        if let Err(error) = served {
            let _ = started.send(Err(error));
        }
    })?;
    let (port, thread) = starting.recv()??;
    Ok((port, thread, documents))
}

async fn serve_feed(State(documents): State<Documents>, Path(feed): Path<usize>, headers: HeaderMap) -> Response {
    let Some(entries) = telemetry::lock(&documents).get(&feed).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", entries.end);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|asked| asked.as_bytes() == tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    ([(header::ETAG, tag)], atom(entries)).into_response()
}

async fn serve_post() -> Response {
    let id = fastrand::u32(..);
    axum::Json(json!({"id": id.to_string(), "url": format!("https://mastodon.example/@me/{id}")})).into_response()
}

async fn serve_instance() -> Response {
    let statuses = json!({"max_characters": 500, "characters_reserved_per_url": 23});
    axum::Json(json!({"configuration": {"statuses": statuses}})).into_response()
}

/// An Atom document as GitHub writes it, the newest entry first.
fn atom(entries: Range<u64>) -> String {
    let mut text = String::from(
        r#"<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><id>tag:github.com,2008:/masutaka.private</id><title>Private Feed for masutaka</title><updated>2026-01-01T00:00:00Z</updated>"#,
    );
    for n in entries.rev() {
        let _ = write!(
            text,
            r#"<entry><id>tag:github.com,2008:PushEvent/{n}</id><published>2025-01-01T{:02}:{:02}:{:02}Z</published><link type="text/html" rel="alternate" href="https://github.com/masutaka/repo/compare/{n}"/><title type="html">masutaka pushed {n}</title><author><name>masutaka</name></author><content type="html">&lt;p&gt;Mends what came before {n}&lt;/p&gt;</content></entry>"#,
            n / 3_600 % 24,
            n / 60 % 60,
            n % 60,
        );
    }
    text.push_str("</feed>");
    text
}
