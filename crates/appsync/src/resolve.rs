//! Runs one resolver: a unit or a pipeline.
//!
//! A unit is one step: the request handler makes a request, the data source answers it, and the response handler makes the
//! result. A pipeline runs several steps between a request and a response handler of its own. A handler that ends with an error
//! stops the resolver; the error is the last in [`Resolved::errors`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::api::Inner;
use crate::auth::Accepted;
use crate::dynamodb::{self, Failure};
use crate::engine::{Ending, Error as EngineError, Evaluation, Invalidation, Raised, ScriptId};

/// A Lambda function: takes a payload and returns a result.
pub type Lambda = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, LambdaError>> + Send + Sync>;

/// The error of a Lambda function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LambdaError {
    /// The function's own message.
    pub message: String,
}

impl LambdaError {
    /// An unhandled error. Callers see it with the type `Lambda:Unhandled`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Where a step sends its request.
#[derive(Clone)]
pub(crate) enum Source {
    None,
    DynamoDb { client: aws_sdk_dynamodb::Client, table: String },
    Lambda(Lambda),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::DynamoDb { .. } => "DynamoDb",
            Self::Lambda(_) => "Lambda",
        })
    }
}

/// A data source and the code around it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) source: Source,
    /// A Lambda function may do without code: it gets the context, and its result is the result of the step.
    pub(crate) script: Option<ScriptId>,
}

#[derive(Debug)]
pub(crate) enum Resolver {
    Unit(Step),
    Pipeline { script: ScriptId, functions: Vec<Step> },
}

/// What a resolver is called with.
pub(crate) struct Call<'a> {
    pub(crate) api: &'a Inner,
    pub(crate) accepted: &'a Accepted,
    pub(crate) type_name: &'a str,
    pub(crate) field: &'a str,
    /// The part of the context that is the same for all handlers: JSON members without braces.
    pub(crate) context: String,
    /// How many bytes of context the handlers of this request have been given.
    pub(crate) given: &'a AtomicUsize,
}

/// What a resolver call produced.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) value: Value,
    pub(crate) errors: Vec<Raised>,
    pub(crate) filter: Option<Value>,
    pub(crate) invalidation_filter: Option<Value>,
    pub(crate) invalidations: Vec<Invalidation>,
    /// The resolver failed; the error is the last of `errors`.
    pub(crate) failed: bool,
}

/// The state that the handlers of one resolver pass on.
struct Flow<'a> {
    call: &'a Call<'a>,
    stash: Value,
    resolved: Resolved,
}

/// The resolver stops. Its error is recorded.
struct Stop;

/// How a step ended.
enum Done {
    Result(Value),
    /// The rest of the pipeline is skipped.
    SkipToEnd(Value),
}

/// Runs a resolver.
pub(crate) async fn resolve(call: &Call<'_>, resolver: &Resolver) -> Resolved {
    let mut flow = Flow { call, stash: Value::Object(Map::new()), resolved: Resolved::default() };
    let ended = match resolver {
        Resolver::Unit(step) => flow.step(step, &Value::Null).await.map(|done| match done {
            Done::Result(value) | Done::SkipToEnd(value) => value,
        }),
        Resolver::Pipeline { script, functions } => flow.pipeline(*script, functions).await,
    };
    match ended {
        Ok(value) => flow.resolved.value = value,
        Err(Stop) => flow.resolved.failed = true,
    }
    flow.resolved
}

impl Flow<'_> {
    async fn pipeline(&mut self, script: ScriptId, functions: &[Step]) -> Result<Value, Stop> {
        let null = Value::Null;
        let (mut result, mut skip) = match self.handler(script, "request", &null, &null, &null)? {
            Ending::Early { value, .. } => (value, true),
            Ending::Returned(value) => (value, false),
            Ending::Error(_) | Ending::Unauthorized => return Err(Stop),
        };
        for function in functions {
            if skip {
                break;
            }
            (result, skip) = match self.step(function, &json!({ "result": result })).await? {
                Done::Result(value) => (value, false),
                Done::SkipToEnd(value) => (value, true),
            };
        }
        let prev = json!({ "result": result });
        match self.handler(script, "response", &prev, &prev["result"], &null)? {
            Ending::Returned(value) | Ending::Early { value, .. } => Ok(value),
            Ending::Error(_) | Ending::Unauthorized => Err(Stop),
        }
    }

    async fn step(&mut self, step: &Step, prev: &Value) -> Result<Done, Stop> {
        let null = Value::Null;
        let Some(script) = step.script else { return self.direct(step, prev).await.map(Done::Result) };
        let request = match self.handler(script, "request", prev, &null, &null)? {
            Ending::Returned(request) => request,
            Ending::Early { value, to_end } => {
                return Ok(if to_end { Done::SkipToEnd(value) } else { Done::Result(value) });
            }
            Ending::Error(_) | Ending::Unauthorized => return Err(Stop),
        };
        let (result, error) = self.send(&step.source, &request).await?;
        match self.handler(script, "response", prev, &result, &error)? {
            Ending::Returned(value) => Ok(Done::Result(value)),
            Ending::Early { value, to_end } => Ok(if to_end { Done::SkipToEnd(value) } else { Done::Result(value) }),
            Ending::Error(_) | Ending::Unauthorized => Err(Stop),
        }
    }

    /// Calls a Lambda function that has no code around it: it gets the whole context.
    async fn direct(&mut self, step: &Step, prev: &Value) -> Result<Value, Stop> {
        let Source::Lambda(lambda) = &step.source else {
            return self.stop(
                "MappingTemplate",
                "A resolver without code needs a Lambda function.".to_owned(),
                Value::Null,
            );
        };
        let context = self.context(prev, &Value::Null, &Value::Null)?;
        let Ok(context) = serde_json::from_str::<Value>(&context) else {
            return self.stop("InternalFailure", "The context is not JSON.".to_owned(), Value::Null);
        };
        match lambda(context).await {
            Ok(value) => Ok(value),
            Err(error) => self.stop("Lambda:Unhandled", error.message, Value::Null),
        }
    }

    /// Sends a request to a data source. Returns `ctx.result` and `ctx.error`.
    async fn send(&mut self, source: &Source, request: &Value) -> Result<(Value, Value), Stop> {
        match source {
            Source::None => Ok((request.get("payload").cloned().unwrap_or(Value::Null), Value::Null)),
            Source::DynamoDb { client, table } => match dynamodb::perform(client, table, request).await {
                Ok(result) => Ok((result, Value::Null)),
                Err(Failure::Store { error_type, message, result }) => {
                    Ok((result, json!({"message": message, "type": error_type})))
                }
                Err(Failure::Request(message)) => self.stop("MappingTemplate", message, Value::Null),
            },
            Source::Lambda(lambda) => {
                match request.get("operation").and_then(Value::as_str) {
                    Some("Invoke") => {}
                    Some(other) => {
                        return self.stop(
                            "MappingTemplate",
                            format!("Unsupported operation '{other}' for a Lambda data source."),
                            Value::Null,
                        );
                    }
                    None => {
                        return self.stop(
                            "MappingTemplate",
                            "Value for field '$[operation]' not found.".to_owned(),
                            Value::Null,
                        );
                    }
                }
                let payload = request.get("payload").cloned().unwrap_or(Value::Null);
                if request.get("invocationType").and_then(Value::as_str) == Some("Event") {
                    let lambda = Arc::clone(lambda);
                    let field = self.field_name();
                    tokio::spawn(async move {
                        if let Err(error) = lambda(payload).await {
                            tracing::warn!(field, %error, "the function that {field} invoked asynchronously failed");
                        }
                    });
                    return Ok((Value::Null, Value::Null));
                }
                match lambda(payload).await {
                    Ok(result) => Ok((result, Value::Null)),
                    Err(error) => Ok((Value::Null, json!({"message": error.message, "type": "Lambda:Unhandled"}))),
                }
            }
        }
    }

    /// The context of a handler. There is none if the handlers of this request have been given too much already.
    fn context(&mut self, prev: &Value, result: &Value, error: &Value) -> Result<String, Stop> {
        let limit = self.call.api.limits.context_bytes;
        if self.call.given.load(Ordering::Relaxed) > limit {
            let message = format!("The resolvers of the request need contexts of more than {limit} bytes.");
            return self.stop("ContextSizeLimitReached", message, Value::Null);
        }
        let context = format!(
            "{{{},\"stash\":{},\"prev\":{prev},\"result\":{result},\"error\":{error}}}",
            self.call.context, self.stash
        );
        self.call.given.fetch_add(context.len(), Ordering::Relaxed);
        Ok(context)
    }

    /// `Type.field`, for log messages.
    fn field_name(&self) -> String {
        format!("{}.{}", self.call.type_name, self.call.field)
    }

    /// Runs a handler and records its errors, filters and invalidations.
    fn handler(
        &mut self,
        script: ScriptId,
        name: &str,
        prev: &Value,
        result: &Value,
        error: &Value,
    ) -> Result<Ending, Stop> {
        let context = self.context(prev, result, error)?;
        let engine = &self.call.api.engine;
        match engine.call(script, name, self.call.accepted.mode.description(), &context) {
            Ok(Evaluation { ending, stash, errors, filter, invalidation_filter, invalidations, logs: _ }) => {
                self.stash = stash;
                self.resolved.errors.extend(errors);
                let sets_filter = filter.is_some() || invalidation_filter.is_some();
                let may = |type_name: &str| name == "response" && self.call.type_name == type_name;
                if sets_filter && !may("Subscription") {
                    return self.stop("Code", only_in("filters can be set", "subscription"), Value::Null);
                }
                if !invalidations.is_empty() && !may("Mutation") {
                    return self.stop("Code", only_in("subscriptions can be invalidated", "mutation"), Value::Null);
                }
                self.resolved.filter = filter.or_else(|| self.resolved.filter.take());
                self.resolved.invalidation_filter =
                    invalidation_filter.or_else(|| self.resolved.invalidation_filter.take());
                self.resolved.invalidations.extend(invalidations);
                match &ending {
                    Ending::Error(raised) => self.resolved.errors.push(raised.clone()),
                    Ending::Unauthorized => {
                        self.resolved.errors.push(unauthorized(self.call.type_name, self.call.field))
                    }
                    Ending::Returned(_) | Ending::Early { .. } => {}
                }
                Ok(ending)
            }
            Err(error) => {
                let field = self.field_name();
                tracing::warn!(field, handler = name, %error, "the {name} handler of {field} failed");
                let (message, kind) = match &error {
                    EngineError::Timeout { .. } => ("Code execution timed out", "TIMEOUT"),
                    EngineError::Memory { .. } => ("Code ran out of memory", "MEMORY_LIMIT"),
                    EngineError::TooLarge { .. } => ("Code input or output is too large", "SIZE_LIMIT"),
                    _ => ("Runtime Error", "RUNTIME_ERROR"),
                };
                let info = json!({"codeErrors": [{"errorType": kind, "value": error.to_string()}]});
                self.stop("Code", message.to_owned(), info)
            }
        }
    }

    fn stop<T>(&mut self, error_type: &str, message: String, error_info: Value) -> Result<T, Stop> {
        self.resolved.errors.push(Raised {
            message,
            error_type: Some(error_type.to_owned()),
            data: Value::Null,
            error_info,
        });
        Err(Stop)
    }
}

fn only_in(what: &str, kind: &str) -> String {
    format!("Of the extensions, {what} only in the response handler of a {kind}.")
}

/// AppSync's error for a field that the caller may not read.
pub(crate) fn unauthorized(type_name: &str, field: &str) -> Raised {
    Raised {
        message: format!("Not Authorized to access {field} on type {type_name}"),
        error_type: Some("Unauthorized".to_owned()),
        data: Value::Null,
        error_info: Value::Null,
    }
}
