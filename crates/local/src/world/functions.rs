//! Runs handlers as Lambda does: with a deadline in the context, a timeout, limits on the size of answers, and Lambda's
//! own metrics. A panic fails only the invocation in which it happens.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use function::{Aws, Context, Definition, Diagnostic, Env, Handler, LambdaEvent, Value};
use futures::FutureExt;
use serde_json::json;
use telemetry::Sink;
use telemetry::trace::Trace;
use template::{self, Function as Declared};
use tokio::sync::Mutex;

use crate::platform::clock::now_ms;
use crate::world::metrics::Metrics;

/// The largest payload and answer of a synchronous invocation.
pub(crate) const MAX_SYNC_PAYLOAD: usize = 6 * 1024 * 1024;
/// The largest payload of an asynchronous invocation.
pub(crate) const MAX_ASYNC_PAYLOAD: usize = 1024 * 1024;
/// The number in Lambda's message about an answer that is too large. It is not the limit itself.
const SAID_RESPONSE_LIMIT: usize = 6_291_556;

/// A function that runs here.
pub struct Function {
    pub declared: Declared,
    definition: Definition,
    env: Env,
    aws: Aws,
    /// The running instance. A panic or a timeout removes it, as on AWS, and the next invocation starts a new one.
    instance: Mutex<Option<Handler>>,
    config: Arc<lambda_runtime::Config>,
    concurrency: std::sync::Mutex<Concurrency>,
}

/// How many invocations of a function run, and how many may.
#[derive(Debug, Default)]
struct Concurrency {
    running: u32,
    /// `None`: any number.
    reserved: Option<u32>,
}

/// The right to run once; given back when it is dropped.
struct Slot(Arc<Function>);

impl Drop for Slot {
    fn drop(&mut self) {
        telemetry::lock(&self.0.concurrency).running -= 1;
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("declared", &self.declared).finish_non_exhaustive()
    }
}

/// All functions by name.
#[derive(Debug)]
pub struct Functions {
    by_name: BTreeMap<String, Arc<Function>>,
    metrics: Arc<Metrics>,
    sink: SinkHolder,
}

struct SinkHolder(Sink);

impl std::fmt::Debug for SinkHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

/// How an invocation ended.
#[derive(Clone, Debug)]
pub struct Invoked {
    pub request_id: String,
    pub duration: Duration,
    /// The answer, or the failure as Lambda reports it.
    pub outcome: Result<Value, Failure>,
}

/// What Lambda reports about a failed invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// `errorType`
    pub kind: String,
    /// `errorMessage`
    pub message: String,
}

impl Failure {
    /// Lambda refused to run the function, because its concurrency is used up.
    fn throttled() -> Self {
        Self { kind: "TooManyRequestsException".to_owned(), message: "Rate Exceeded.".to_owned() }
    }

    pub(crate) fn is_throttled(&self) -> bool {
        *self == Self::throttled()
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        json!({"errorType": self.kind, "errorMessage": self.message})
    }
}

/// Why a function did not start.
#[derive(Debug, thiserror::Error)]
#[error("the function {name} does not start: {source}")]
pub struct DoesNotStart {
    name: String,
    source: function::Error,
}

impl Functions {
    pub fn new(metrics: Arc<Metrics>, sink: Sink) -> Self {
        Self { by_name: BTreeMap::new(), metrics, sink: SinkHolder(sink) }
    }

    /// Adds a function.
    pub fn add(&mut self, declared: Declared, definition: Definition, env: Env, aws: Aws) {
        let config = lambda_runtime::Config {
            function_name: declared.name.clone(),
            memory: i32::try_from(declared.memory_mb).unwrap_or(i32::MAX),
            version: "1".to_owned(),
            log_stream: "local".to_owned(),
            log_group: format!("/aws/lambda/{}", declared.name),
        };
        let function = Function {
            definition,
            env,
            aws,
            instance: Mutex::default(),
            config: Arc::new(config),
            declared,
            concurrency: std::sync::Mutex::default(),
        };
        self.by_name.insert(function.declared.name.clone(), Arc::new(function));
    }

    /// Starts all functions, so that an error in their environment is reported now.
    pub async fn start(&self) -> Result<(), DoesNotStart> {
        for function in self.by_name.values() {
            telemetry::scoped(self.sink.0.clone(), function.instance())
                .await
                .map_err(|source| DoesNotStart { name: function.declared.name.clone(), source })?;
        }
        Ok(())
    }

    /// Finds a function by its name or its ARN, with or without `:live`. The name may end in `-local`.
    pub fn find(&self, reference: &str) -> Option<Arc<Function>> {
        let name = template::function_name(&Value::from(reference));
        let found = self.by_name.get(&name).or_else(|| self.by_name.get(name.strip_suffix("-local")?));
        found.cloned()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Function>> {
        self.by_name.values()
    }

    /// Runs a function once. It runs in its own task, so it goes on when the caller goes away, as on AWS.
    pub async fn invoke(
        &self,
        function: &Arc<Function>,
        payload: Value,
        request_id: String,
        trace: Option<Trace>,
    ) -> Invoked {
        let Some(slot) = function.enter() else {
            self.metrics.throttle(&function.declared.name);
            return Invoked { request_id, duration: Duration::ZERO, outcome: Err(Failure::throttled()) };
        };
        let started = Instant::now();
        let trace = trace.unwrap_or_else(|| Trace::of_request(&request_id));
        let (sink, metrics) = (self.sink.0.clone(), self.metrics.clone());
        let (running, id) = (function.clone(), request_id.clone());
        let task = tokio::spawn(async move {
            let _slot = slot;
            let work = telemetry::scoped(sink, running.run(payload, id.clone(), trace));
            let outcome = match tokio::time::timeout(running.declared.timeout, work).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    running.forget().await;
                    let seconds = running.declared.timeout.as_secs_f64();
                    Err(Failure {
                        kind: "Sandbox.Timedout".to_owned(),
                        message: format!("RequestId: {id} Error: Task timed out after {seconds:.2} seconds"),
                    })
                }
            };
            metrics.invocation(&running.declared.name, started.elapsed(), outcome.is_err());
            outcome
        });
        let outcome = task.await.unwrap_or_else(|_| {
            Err(Failure {
                kind: "Runtime.ExitError".to_owned(),
                message: format!("RequestId: {request_id} Error: stopped"),
            })
        });
        Invoked { request_id, duration: started.elapsed(), outcome }
    }
}

impl Function {
    /// How many invocations may run at once; `None` for any number.
    pub(crate) fn reserved(&self) -> Option<u32> {
        telemetry::lock(&self.concurrency).reserved
    }

    /// Bounds the invocations that run at once. With 0 none may.
    pub(crate) fn reserve(&self, reserved: Option<u32>) {
        telemetry::lock(&self.concurrency).reserved = reserved;
    }

    fn enter(self: &Arc<Self>) -> Option<Slot> {
        let mut concurrency = telemetry::lock(&self.concurrency);
        if concurrency.reserved.is_some_and(|reserved| concurrency.running >= reserved) {
            return None;
        }
        concurrency.running += 1;
        Some(Slot(self.clone()))
    }

    async fn instance(&self) -> Result<Handler, function::Error> {
        let mut instance = self.instance.lock().await;
        if let Some(handler) = &*instance {
            return Ok(handler.clone());
        }
        let handler = self.definition.start(self.env.clone(), self.aws.clone()).await?;
        *instance = Some(handler.clone());
        Ok(handler)
    }

    async fn forget(&self) {
        *self.instance.lock().await = None;
    }

    async fn run(&self, payload: Value, request_id: String, trace: Trace) -> Result<Value, Failure> {
        let handler = self.instance().await.map_err(|error| Failure {
            kind: "Runtime.ExitError".to_owned(),
            message: format!("RequestId: {request_id} Error: Runtime exited with error: exit status 1: {error}"),
        })?;
        let mut context = Context::default();
        context.request_id.clone_from(&request_id);
        context.deadline = now_ms().saturating_add(ichido::whole_millis(self.declared.timeout));
        context.invoked_function_arn = template::arn("lambda", &format!("function:{}:live", self.declared.name));
        context.xray_trace_id = Some(trace.header().to_owned());
        context.env_config = self.config.clone();
        // Creating the future can panic as well as running it.
        let work = async move { handler(LambdaEvent::new(payload, context)).await };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(Ok(answer)) if answer.to_string().len() > MAX_SYNC_PAYLOAD => Err(Failure {
                kind: "Function.ResponseSizeTooLarge".to_owned(),
                message: format!(
                    "Response payload size exceeded maximum allowed payload size ({SAID_RESPONSE_LIMIT} bytes)."
                ),
            }),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let told = Diagnostic::from(error);
                Err(Failure { kind: told.error_type, message: told.error_message })
            }
            Err(panic) => {
                self.forget().await;
                let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                tracing::error!(
                    target: "local",
                    function = self.declared.name,
                    request_id,
                    error = what,
                    "the handler of {} panicked in request {request_id}", self.declared.name
                );
                Err(Failure {
                    kind: "Runtime.ExitError".to_owned(),
                    message: format!("RequestId: {request_id} Error: Runtime exited with error: signal: aborted"),
                })
            }
        }
    }
}
