//! What surrounds the applications in a run: AWS with its limits, in simulated time, and CloudWatch with the templates' alarms.
//!
//! | module | plays |
//! |---|---|
//! | [`lambda`] | Lambda: instances, concurrency, asynchronous invocations |
//! | `wire` | SSM and the Invoke API, behind the real SDK clients |
//! | `assumed` | how long the network and other people's servers take |
//!
//! DynamoDB is the embedded engine behind `emulator::limits::Throttled`. Metrics and alarms are those of `crates/local`.

pub mod assumed;
pub mod lambda;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::Outside;
use emulator::dynamodb::faults::Faulty;
use emulator::dynamodb::{self, Engine};
use emulator::limits::{Bound, Exceeded, Limits, Throttled, aws};
use function::http::{Request, Response};
use function::{Aws, Env};
use ichido::{Clock as _, Timestamp};
use local::aws::gateway;
use local::world::alarms::{Alarms, State};
use local::world::metric_filters::{self, MetricFilters};
use local::world::metrics::{Id, Metrics};
use serde_json::{Value, json};
use telemetry::Sink;
use template::{DEFAULT_ROUTE, Table, Template};

use crate::clock::Simulated;
use lambda::{ACCOUNT, Build, Lambda};

const SHARED: &str = include_str!("../../../../infra/templates/shared.yaml");
/// What `throttling` of prod in infra/environments.ts makes of the parameters of shared.yaml: requests per second and at once.
pub const ROUTES_OF_PROD: [(&str, u32, u32); 4] =
    [("slack", 400, 800), ("transfers", 100, 200), ("reads", 200, 400), ("others", 10, 20)];

/// How often the lengths of queues are measured and the alarms are evaluated.
const MEASURE_EVERY: Duration = Duration::from_secs(60);
/// How long the alarms are evaluated after the users have ended: three periods of five minutes, the longest range that a surge fills.
const AFTERWARDS: Duration = Duration::from_secs(900);

pub(crate) type Parameters = Arc<Mutex<BTreeMap<String, String>>>;

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a template cannot be read: {0}; `make check` says more")]
    Template(#[from] template::Error),
    #[error(transparent)]
    Store(#[from] dynamodb::Error),
    #[error(transparent)]
    Filter(#[from] metric_filters::Error),
    #[error("no template declares the {kind} {name}; the simulation has to follow the templates")]
    Undeclared { kind: &'static str, name: String },
}

/// One run's world. Clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    clock: Simulated,
    limits: Limits,
    metrics: Arc<Metrics>,
    engine: Engine,
    faulty: Faulty,
    template: Template,
    tables: Vec<Table>,
    lambda: Lambda,
    services: wire::Services,
    /// How long API Gateway waits for the function of a route.
    patience: BTreeMap<String, Duration>,
    filters: MetricFilters,
    alarms: Alarms,
    /// The alarms that rang, and when each began.
    rang: Mutex<BTreeMap<String, Timestamp>>,
    /// The users have ended. From now on silence is no news.
    is_over: AtomicBool,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl World {
    /// The world of an application's template. `parameters` are those of the template that differ from their defaults.
    ///
    /// # Errors
    /// When the template cannot be read, or a table cannot be created.
    pub fn new(text: &str, parameters: &[(&str, Value)], seed: u64) -> Result<Self, Error> {
        let clock = Simulated::begin();
        let given = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let template = Template::read(text, &given)?;
        let shared = Template::read(SHARED, &routes_of_prod())?;
        let engine = Engine::in_memory()?;
        let tables = template.tables();
        for table in &tables {
            engine.ensure_table(table)?;
        }
        let limits = Limits::new(clock);
        for (route, throttle) in shared.throttles() {
            let bound = Bound::Rate { per_second: throttle.rate, burst: throttle.burst };
            match route.as_str() {
                DEFAULT_ROUTE => limits.set(&aws::HTTP_API_ROUTE, bound),
                route => limits.set_for(&aws::HTTP_API_ROUTE, route, bound),
            }
        }
        let metrics = Arc::new(Metrics::with_clock(clock));
        report_refusals(&limits, &metrics);
        let throttled =
            Throttled::new(engine.clone(), &tables, limits.clone(), assumed::DYNAMODB, clock, seed.wrapping_add(1));
        let faulty = Faulty::new(throttled, clock, seed);
        let lambda = Lambda::new(clock, limits.clone(), metrics.clone(), sink(clock, metrics.clone()));
        let services =
            wire::Services { clock, limits: limits.clone(), lambda: lambda.clone(), parameters: Parameters::default() };
        let routes = template.routes()?.into_iter();
        let patience = routes.map(|route| (route.key, route.timeout)).collect();
        let mut alarms = template.alarms()?;
        alarms.extend(shared.alarms()?);
        Ok(Self(Arc::new(Inner {
            clock,
            limits,
            metrics,
            engine,
            faulty,
            filters: MetricFilters::new(template.metric_filters()?)?,
            alarms: Alarms::new(alarms),
            template,
            tables,
            lambda,
            services,
            patience,
            rang: Mutex::default(),
            is_over: AtomicBool::new(false),
        })))
    }

    /// The time of this world.
    #[must_use]
    pub fn clock(&self) -> Simulated {
        self.0.clock
    }

    /// The meter.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Lambda.
    #[must_use]
    pub fn lambda(&self) -> &Lambda {
        &self.0.lambda
    }

    /// CloudWatch's metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// What may go wrong with DynamoDB besides its limits.
    #[must_use]
    pub fn store(&self) -> &Faulty {
        &self.0.faulty
    }

    /// The name of the table with this logical id.
    ///
    /// # Errors
    /// When the template has no such table.
    pub fn table(&self, logical_id: &str) -> Result<String, Error> {
        let found = self.0.tables.iter().find(|table| table.logical_id == logical_id);
        found
            .map(|table| table.name.clone())
            .ok_or_else(|| Error::Undeclared { kind: "table", name: logical_id.to_owned() })
    }

    /// The AWS clients of one instance: with connections, caches and retries of its own.
    #[must_use]
    pub fn aws(&self) -> Aws {
        self.0.services.aws().with_dynamodb_http(dynamodb::http_client(self.0.faulty.clone(), Outside::new()))
    }

    /// Clients that reach the store without limits and at once: for preparing a run and for counting afterwards.
    #[must_use]
    pub fn unlimited(&self) -> Aws {
        let direct = Faulty::new(self.0.engine.clone(), self.0.clock, 0);
        self.0.services.aws().with_dynamodb_http(dynamodb::http_client(direct, Outside::new()))
    }

    /// All items of a table, in DynamoDB's JSON.
    ///
    /// # Errors
    /// When the engine refuses the scan.
    pub fn items(&self, table: &str) -> Result<Vec<Value>, Error> {
        let mut items = Vec::new();
        let mut request = json!({"TableName": table, "ConsistentRead": true});
        loop {
            let mut page = self.0.engine.call("Scan", &request)?;
            if let Some(Value::Array(found)) = page.get_mut("Items").map(Value::take) {
                items.extend(found);
            }
            match page.get_mut("LastEvaluatedKey").map(Value::take) {
                Some(last @ Value::Object(_)) => request["ExclusiveStartKey"] = last,
                _ => return Ok(items),
            }
        }
    }

    /// The variables of a function of the template.
    ///
    /// # Errors
    /// When the template has no such function.
    pub fn environment(&self, name: &str) -> Result<Env, Error> {
        Ok(self.declared(name)?.environment.into_iter().collect())
    }

    fn declared(&self, name: &str) -> Result<template::Function, Error> {
        let declared = self.0.template.functions().into_iter().find(|declared| declared.name == name);
        declared.ok_or_else(|| Error::Undeclared { kind: "function", name: name.to_owned() })
    }

    /// Adds a function of the template, with what starts an instance of it.
    ///
    /// # Errors
    /// When the template has no such function.
    pub fn function(&self, name: &str, build: impl FnOnce(Env) -> Build) -> Result<(), Error> {
        self.0.lambda.add(self.declared(name)?, build(self.environment(name)?));
        Ok(())
    }

    /// Sets an SSM parameter.
    pub fn parameter(&self, name: &str, value: impl Into<String>) {
        telemetry::lock(&self.0.services.parameters).insert(name.to_owned(), value.into());
    }

    /// A request through API Gateway. `route` is the key of the route, which the function serves.
    ///
    /// API Gateway goes on and counts the request when its caller is gone.
    pub async fn request(&self, route: &str, function: &str, request: &Request) -> Response {
        let (world, route, function) = (self.clone(), route.to_owned(), function.to_owned());
        let event = request.to_event();
        let answered = tokio::spawn(async move {
            let began = world.0.clock.elapsed();
            let response = world.through_gateway(&route, &function, event).await;
            let took = world.0.clock.elapsed().saturating_sub(began);
            world.0.metrics.request(gateway::API_ID, response.status, took);
            response
        });
        answered.await.unwrap_or_else(|_| said(500, "Internal Server Error"))
    }

    async fn through_gateway(&self, route: &str, function: &str, event: Value) -> Response {
        self.0.clock.sleep(assumed::GATEWAY).await;
        let one = |limit, of: &str| (limit, of.to_owned(), 1.0);
        let wanted = [one(&aws::HTTP_API_ACCOUNT, ACCOUNT), one(&aws::HTTP_API_ROUTE, route)];
        if let Err(short) = self.0.limits.take_all(&wanted) {
            let answer = short.first().map_or(aws::HTTP_API_ROUTE.answer, Exceeded::answer);
            return said(answer.status, answer.message);
        }
        let patience = self.0.patience.get(route).copied().unwrap_or(Duration::MAX);
        match tokio::time::timeout(patience, self.0.lambda.invoke(function, event)).await {
            Ok(Ok(answer)) => Response::from_value(&answer).unwrap_or_else(|_| said(500, "Internal Server Error")),
            Ok(Err(_)) => said(500, "Internal Server Error"),
            Err(_) => said(503, "Service Unavailable"),
        }
    }

    /// A line of a log group: CloudWatch finds metrics in it as the template's filters say.
    pub fn log(&self, group: &str, line: &str) {
        self.0.filters.line(group, line, &self.0.metrics);
    }

    /// Evaluates the alarms every minute, for as long as the run lasts.
    pub async fn watch(self) {
        loop {
            self.measure();
            tokio::time::sleep(MEASURE_EVERY).await;
        }
    }

    /// Gives the alarms the time that they need after the users have ended. [`World::watch`] must be running.
    pub async fn wait_for_alarms(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        tokio::time::sleep(AFTERWARDS).await;
        self.measure();
    }

    fn measure(&self) {
        for (queue, visible) in self.0.lambda.queues() {
            self.0.metrics.queue(&queue, visible);
        }
        for status in self.0.alarms.evaluate_all(&self.0.metrics, self.0.metrics.now_ms()) {
            let alarm = &status.alarm;
            let id = Id {
                namespace: alarm.namespace.clone(),
                name: alarm.metric.clone(),
                dimensions: alarm.dimensions.clone(),
            };
            // An alarm on silence rings for everything that this run does not do at all, and for the time before it began and after
            // it ended.
            let is_outside = status.was == Some(State::InsufficientData) || self.0.is_over.load(Ordering::Relaxed);
            let from_silence = is_outside && alarm.missing_data == "breaching";
            let rings = status.state == State::Alarm && status.was.is_some() && !from_silence;
            if rings && self.0.metrics.knows(&id) {
                telemetry::lock(&self.0.rang).entry(alarm.name.clone()).or_insert(self.0.clock.now());
            }
        }
    }

    /// The alarms that rang so far, and how long after the beginning.
    #[must_use]
    pub fn alarms(&self) -> BTreeMap<String, Duration> {
        let began = self.0.clock.now().saturating_sub(self.0.clock.elapsed());
        telemetry::lock(&self.0.rang).iter().map(|(name, at)| (name.clone(), at.since(began))).collect()
    }

    /// Ends the world: functions and world refer to each other.
    pub fn close(&self) {
        self.0.lambda.clear();
    }
}

fn routes_of_prod() -> BTreeMap<String, Value> {
    let names = ["Slack", "Transfer", "Read", "Other"];
    let of = |(name, (_, rate, burst)): (&str, (&str, u32, u32))| {
        [(format!("{name}RequestsPerSecond"), json!(rate)), (format!("{name}RequestBurst"), json!(burst))]
    };
    names.into_iter().zip(ROUTES_OF_PROD).flat_map(of).collect()
}

/// Tells CloudWatch of each refusal what AWS would tell it.
fn report_refusals(limits: &Limits, metrics: &Arc<Metrics>) {
    let metrics = metrics.clone();
    limits.observe(Arc::new(move |Exceeded { limit, of }: &Exceeded, _| {
        let metric = if [&aws::DYNAMODB_PARTITION_WRITES, &aws::DYNAMODB_TABLE_WRITES].contains(limit) {
            "WriteThrottleEvents"
        } else if [&aws::DYNAMODB_PARTITION_READS, &aws::DYNAMODB_TABLE_READS].contains(limit) {
            "ReadThrottleEvents"
        } else if *limit == &aws::DYNAMODB_TRANSACTION_CONFLICT {
            "TransactionConflict"
        } else {
            return;
        };
        metrics.dynamodb(of.split([' ', '/']).next().unwrap_or_default(), metric);
    }));
}

/// Takes the numbers of functions from their lines. Lines have the machine's time, and the run has its own.
fn sink(clock: Simulated, metrics: Arc<Metrics>) -> Sink {
    Arc::new(move |line| {
        let Ok(mut read) = serde_json::from_str::<Value>(line) else { return };
        if read.get("_aws").is_some() {
            read["_aws"]["Timestamp"] = json!(clock.now().as_millis());
            metrics.line(&read);
        }
    })
}

/// An answer of API Gateway itself.
fn said(status: u16, message: &str) -> Response {
    Response::json(status, &json!({ "message": message }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::App;
    use crate::app::slack::{EVENTS, ROUTE};

    fn world() -> World {
        let (template, parameters) = App::Slack.template();
        World::new(template, &parameters, 1).expect("a world")
    }

    /// Adds slack-events, whose instances start after `start` and answer after `work`: 200, or with an error.
    fn add(world: &World, start: Duration, work: Duration, fails: bool) -> Arc<AtomicUsize> {
        let built = Arc::new(AtomicUsize::new(0));
        let count = built.clone();
        let build: Build = Arc::new(move || {
            let count = count.clone();
            Box::pin(async move {
                tokio::time::sleep(start).await;
                count.fetch_add(1, Ordering::Relaxed);
                Ok(function::handler(move |_| async move {
                    tokio::time::sleep(work).await;
                    if fails {
                        Err(function::Error::failed("Test", "on purpose"))
                    } else {
                        Ok(json!({"statusCode": 200}))
                    }
                }))
            })
        });
        world.function(EVENTS, |_| build).expect("a function");
        built
    }

    /// How much a metric has in all.
    fn sum(world: &World, namespace: &str, name: &str, dimension: (&str, &str)) -> f64 {
        let dimensions = BTreeMap::from([(dimension.0.to_owned(), dimension.1.to_owned())]);
        let id = Id { namespace: namespace.to_owned(), name: name.to_owned(), dimensions };
        let minutes = world.metrics().minutes(&id, 0, u64::MAX);
        minutes.iter().map(|minute| minute.sum).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn an_invocation_whose_caller_left_is_counted() {
        let world = world();
        add(&world, Duration::ZERO, Duration::from_millis(2_500), true);
        let asked = Request::default();
        let left = tokio::time::timeout(Duration::from_secs(1), world.request(ROUTE, EVENTS, &asked)).await;
        assert!(left.is_err(), "the caller waits for a second only");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(sum(&world, "AWS/Lambda", "Errors", ("FunctionName", EVENTS)), 1.0);
        assert_eq!(sum(&world, "AWS/ApiGateway", "5xx", ("ApiId", gateway::API_ID)), 1.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_has_its_own_time_and_the_instance_stays_although_the_caller_left() {
        let world = world();
        let built = add(&world, Duration::from_secs(8), Duration::from_millis(10), false);
        let first = world.request(ROUTE, EVENTS, &Request::default()).await;
        assert_eq!(first.status, 503, "API Gateway waits for 3.5 seconds");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let second = world.request(ROUTE, EVENTS, &Request::default()).await;
        assert_eq!((second.status, built.load(Ordering::Relaxed)), (200, 1), "the same instance");
        assert_eq!(sum(&world, "AWS/Lambda", "Errors", ("FunctionName", EVENTS)), 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_takes_too_long_is_tried_again_within_the_invocation() {
        let world = world();
        let built = add(&world, Duration::from_secs(11), Duration::ZERO, false);
        let failure = world.lambda().invoke(EVENTS, json!({})).await.expect_err("three seconds are not enough");
        assert_eq!((failure.kind.as_str(), built.load(Ordering::Relaxed)), ("Sandbox.Timedout", 0));
        let took = world.clock().elapsed();
        assert_eq!(took, assumed::COLD_START + Duration::from_secs(13), "ten seconds, and the function's three");
    }
}
