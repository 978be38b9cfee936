//! Lambda: instances that serve one invocation at a time, the account's concurrency, the rate at which new instances begin, and
//! asynchronous invocations with their retries.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::limits::{Exceeded, Limits, aws};
use function::{BoxFuture, Context, Handler, LambdaEvent};
use ichido::Clock as _;
use local::world::metrics::Metrics;
use serde_json::{Value, json};
use telemetry::trace::Trace;
use telemetry::{Invocation, Sink};
use template::Function as Declared;

use super::assumed;
use crate::clock::Simulated;

/// Whose concurrency is shared by all functions.
pub const ACCOUNT: &str = "account";
/// Lambda's waits before the first and the second retry of an asynchronous invocation.
const WAITS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// After a throttle, Lambda tries again after a second, and waits longer each time, up to five minutes.
const FIRST_REQUEUE: Duration = Duration::from_secs(1);
const LONGEST_REQUEUE: Duration = Duration::from_secs(300);
/// An instance that nobody invokes ends after some minutes. No document says after how many.
const IDLE_FOR: Duration = Duration::from_secs(600);

/// AWS Lambda Developer Guide, Understanding the Lambda execution environment lifecycle: the Init phase is limited to ten seconds. If it
/// fails or takes longer, it is tried again within the time of the first invocation.
const INIT: Duration = Duration::from_secs(10);

/// Starts an instance.
pub type Build = Arc<dyn Fn() -> BoxFuture<'static, Result<Handler, function::Error>> + Send + Sync>;

/// What Lambda reports about a failed invocation.
#[derive(Debug, Clone)]
pub struct Failure {
    pub kind: String,
    pub message: String,
    /// Lambda refused to run the function.
    pub throttled: bool,
}

impl Failure {
    fn of(exceeded: &Exceeded) -> Self {
        let answer = exceeded.answer();
        Self { kind: answer.code.to_owned(), message: answer.message.to_owned(), throttled: true }
    }

    /// The payload of the answer.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"errorType": self.kind, "errorMessage": self.message})
    }
}

struct Function {
    declared: Declared,
    build: Build,
    /// Instances that wait for an invocation, and since when.
    idle: Mutex<Vec<(Duration, Handler)>>,
}

/// All functions. Clones are the same.
#[derive(Clone)]
pub struct Lambda(Arc<Inner>);

struct Inner {
    clock: Simulated,
    limits: Limits,
    metrics: Arc<Metrics>,
    sink: Sink,
    functions: Mutex<BTreeMap<String, Arc<Function>>>,
    /// Events that were given up, by function.
    dead: Mutex<Vec<(String, Value)>>,
    /// Asynchronous invocations that have not ended.
    pending: AtomicUsize,
    requests: AtomicUsize,
    cold_starts: AtomicUsize,
}

impl std::fmt::Debug for Lambda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lambda").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Lambda {
    pub(super) fn new(clock: Simulated, limits: Limits, metrics: Arc<Metrics>, sink: Sink) -> Self {
        Self(Arc::new(Inner {
            clock,
            limits,
            metrics,
            sink,
            functions: Mutex::default(),
            dead: Mutex::default(),
            pending: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            cold_starts: AtomicUsize::new(0),
        }))
    }

    /// Adds a function.
    pub fn add(&self, declared: Declared, build: Build) {
        let name = declared.name.clone();
        let function = Function { declared, build, idle: Mutex::default() };
        telemetry::lock(&self.0.functions).insert(name, Arc::new(function));
    }

    /// Forgets all functions: what they were built from refers to the world that has them.
    pub(super) fn clear(&self) {
        telemetry::lock(&self.0.functions).clear();
    }

    /// Asynchronous invocations that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// How often an instance was started.
    #[must_use]
    pub fn cold_starts(&self) -> usize {
        self.0.cold_starts.load(Ordering::Relaxed)
    }

    /// The events that were given up, of this function.
    #[must_use]
    pub fn dead_letters(&self, function: &str) -> Vec<Value> {
        let dead = telemetry::lock(&self.0.dead);
        dead.iter().filter(|(name, _)| name == function).map(|(_, payload)| payload.clone()).collect()
    }

    /// The names of the queues that events were given up to, and how many each has.
    pub(super) fn queues(&self) -> BTreeMap<String, usize> {
        let mut queues = BTreeMap::new();
        let functions = telemetry::lock(&self.0.functions);
        for function in functions.values() {
            let Some(queue) = function.declared.on_failure.as_deref().and_then(|arn| arn.rsplit(':').next()) else {
                continue;
            };
            let name = &function.declared.name;
            let dead = telemetry::lock(&self.0.dead).iter().filter(|(of, _)| of == name).count();
            *queues.entry(queue.to_owned()).or_default() += dead;
        }
        queues
    }

    /// Invokes a function and waits for its answer.
    pub async fn invoke(&self, name: &str, payload: Value) -> Result<Value, Failure> {
        let function = self.find(name)?;
        if let Err(exceeded) = self.0.limits.take(&aws::LAMBDA_REQUESTS, name, 1.0) {
            self.0.metrics.throttle(&function.declared.name);
            return Err(Failure::of(&exceeded));
        }
        self.execute(&function, payload).await
    }

    /// One execution, whoever asked for it.
    async fn execute(&self, function: &Arc<Function>, payload: Value) -> Result<Value, Failure> {
        let name = &function.declared.name;
        let refused = |exceeded: Exceeded| {
            self.0.metrics.throttle(name);
            Failure::of(&exceeded)
        };
        let limits = &self.0.limits;
        let account = limits.enter(&aws::LAMBDA_CONCURRENCY, ACCOUNT).map_err(refused)?;
        let reserved = limits.enter(&aws::LAMBDA_RESERVED, name).map_err(refused)?;
        let warm = function.warm(self.0.clock.elapsed());
        if warm.is_none() {
            limits.take(&aws::LAMBDA_SCALING, name, 1.0).map_err(refused)?;
        }
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let (lambda, running) = (self.clone(), function.clone());
        // On AWS the function goes on when its caller is gone, and is counted. So it has a task of its own.
        let ran = tokio::spawn(async move {
            let _until_it_ends = (account, reserved);
            lambda.run(running, warm, payload, id).await
        });
        ran.await.unwrap_or_else(|_| Err(exited("Runtime exited")))
    }

    /// Runs an execution to its end, and records what CloudWatch learns of it.
    async fn run(
        &self,
        function: Arc<Function>,
        warm: Option<Handler>,
        payload: Value,
        id: String,
    ) -> Result<Value, Failure> {
        let handler = match warm {
            Some(handler) => Some(handler),
            None => self.start(&function).await,
        };
        let began = self.0.clock.elapsed();
        let (lambda, running, request) = (self.clone(), function.clone(), id.clone());
        // A handler that panics ends its own task, not the one that records it.
        let ran = tokio::spawn(telemetry::scoped(self.0.sink.clone(), async move {
            let limit = running.declared.timeout;
            tokio::time::timeout(limit, lambda.handle(&running, handler, payload, request)).await
        }));
        let outcome = match ran.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(failure("Sandbox.Timedout", format!("RequestId: {id} Error: Task timed out"))),
            Err(_) => Err(exited(&format!("RequestId: {id} Error: Runtime exited"))),
        };
        let took = self.0.clock.elapsed().saturating_sub(began);
        self.0.metrics.invocation(&function.declared.name, took, outcome.is_err());
        // Lambda drops the lines that CloudWatch does not take; nothing else happens.
        let _ = self.0.limits.take(&aws::LOGS_PUT, ACCOUNT, 1.0);
        outcome
    }

    /// Starts an instance. Its time is no part of the invocation's. `None`: it failed, and the invocation tries again.
    async fn start(&self, function: &Function) -> Option<Handler> {
        self.0.cold_starts.fetch_add(1, Ordering::Relaxed);
        self.0.clock.sleep(assumed::COLD_START).await;
        let building = tokio::spawn(telemetry::scoped(self.0.sink.clone(), (function.build)()));
        let abort = building.abort_handle();
        let built = tokio::time::timeout(INIT, building).await;
        abort.abort();
        built.ok()?.ok()?.ok()
    }

    /// The invocation itself.
    async fn handle(
        &self,
        function: &Arc<Function>,
        handler: Option<Handler>,
        payload: Value,
        id: String,
    ) -> Result<Value, Failure> {
        let deadline = (self.0.clock.now() + function.declared.timeout).as_millis();
        let handler = match handler {
            Some(handler) => handler,
            None => (function.build)().await.map_err(|error| exited(&error.to_string()))?,
        };
        let name = function.declared.name.clone();
        let trace = Trace::of_request(&id);
        let mut context = Context::default();
        context.request_id.clone_from(&id);
        context.deadline = deadline;
        let event = LambdaEvent::new(payload, context);
        let work = telemetry::invocation(Invocation { function: name, request_id: id, trace }, handler(event));
        let outcome = work.await.map_err(|error| failure(error.kind(), error.to_string()));
        function.rest(self.0.clock.elapsed(), handler);
        outcome
    }

    /// Accepts an asynchronous invocation: Lambda carries it out, and tries again if it fails.
    pub fn accept(&self, name: &str, payload: Value) -> Result<(), Failure> {
        let function = self.find(name)?;
        self.0.pending.fetch_add(1, Ordering::Relaxed);
        let lambda = self.clone();
        tokio::spawn(async move {
            lambda.carry_out(&function, payload).await;
            lambda.0.pending.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(())
    }

    async fn carry_out(&self, function: &Arc<Function>, payload: Value) {
        let accepted = self.0.clock.elapsed();
        let name = &function.declared.name;
        let (mut failed, mut requeue) = (0, FIRST_REQUEUE);
        loop {
            // The limit on requests counts synchronous callers only.
            let Err(failure) = self.execute(function, payload.clone()).await else { return };
            let age = self.0.clock.elapsed().saturating_sub(accepted);
            if !failure.throttled {
                failed += 1;
            }
            if failed > function.declared.retries || age > function.declared.event_age {
                telemetry::lock(&self.0.dead).push((name.clone(), payload));
                return;
            }
            let wait = if failure.throttled {
                let jittered = requeue.mul_f64(0.5 + fastrand::f64());
                requeue = (requeue * 2).min(LONGEST_REQUEUE);
                jittered
            } else {
                let at = usize::try_from(failed.saturating_sub(1)).unwrap_or(usize::MAX).min(WAITS.len() - 1);
                WAITS[at]
            };
            self.0.clock.sleep(wait).await;
        }
    }

    fn find(&self, reference: &str) -> Result<Arc<Function>, Failure> {
        let name = template::function_name(&Value::from(reference));
        let found = telemetry::lock(&self.0.functions).get(&name).cloned();
        found.ok_or_else(|| failure("ResourceNotFoundException", format!("Function not found: {reference}")))
    }
}

impl Function {
    /// The instance that rested last; the others end when they have waited too long.
    fn warm(&self, now: Duration) -> Option<Handler> {
        let mut idle = telemetry::lock(&self.idle);
        idle.retain(|(since, _)| now.saturating_sub(*since) < IDLE_FOR);
        idle.pop().map(|(_, handler)| handler)
    }

    fn rest(&self, now: Duration, handler: Handler) {
        telemetry::lock(&self.idle).push((now, handler));
    }
}

fn exited(message: &str) -> Failure {
    failure("Runtime.ExitError", message.to_owned())
}

fn failure(kind: &str, message: String) -> Failure {
    Failure { kind: kind.to_owned(), message, throttled: false }
}
