//! Runs the handlers of resolver files in embedded QuickJS engines.
//!
//! Promises:
//! - A handler sees nothing of any other call: module variables are fresh, built-in objects are frozen.
//! - A handler ends within [`Limits::script_time`] and [`Limits::script_memory`]. If not, the call fails with
//!   [`Error::Timeout`] or [`Error::Memory`], and its engine is thrown away.
//! - A handler reaches nothing outside. It has no network and no files, and time and randomness only through `util`.
//!
//! Handlers run on the caller's thread, because they take tens of microseconds, less than passing them to another thread. A
//! handler that loops holds its thread until its time is up.
//!
//! `script` reads a resolver file, `instance` is one engine, and `prelude.js` is what a resolver sees: `util`, `runtime`,
//! `extensions` and the helpers for DynamoDB.

mod instance;
mod script;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::Value;

use crate::host::Host;
use crate::limits::{CALLS_PER_ENGINE, IDLE_ENGINES, Limits, MAX_SCRIPT_JSON};
use crate::lock::lock;
use instance::Instance;

pub(crate) use script::Script;
pub use script::{CodeError, Error as ScriptError};

/// Why a handler gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is refused.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The handler threw an exception: there is a mistake in the resolver.
    #[error("{file}: the handler `{handler}` failed: {message}")]
    Runtime {
        /// The resolver file.
        file: String,
        /// `request` or `response`.
        handler: String,
        /// JavaScript's own message.
        message: String,
    },
    /// The handler did not end in time.
    #[error("{file}: the handler `{handler}` did not end within its time limit")]
    Timeout {
        /// The resolver file.
        file: String,
        /// `request` or `response`.
        handler: String,
    },
    /// The handler took more memory than it may.
    #[error("{file}: the handler `{handler}` exceeded its memory limit")]
    Memory {
        /// The resolver file.
        file: String,
        /// `request` or `response`.
        handler: String,
    },
    /// The context or the answer is larger than AppSync allows.
    #[error(
        "{file}: the context or the answer of the handler `{handler}` has {bytes} bytes; the limit is {MAX_SCRIPT_JSON}"
    )]
    TooLarge {
        /// The resolver file.
        file: String,
        /// `request` or `response`.
        handler: String,
        /// How large it is.
        bytes: usize,
    },
    /// The file does not export such a function.
    #[error("{file} exports no function `{handler}`")]
    NoHandler {
        /// The resolver file.
        file: String,
        /// What was asked for.
        handler: String,
    },
    /// There is no such file.
    #[error("there is no resolver file `{file}`, neither in the API nor in the code directory")]
    NoFile {
        /// What was asked for.
        file: String,
    },
    /// The engine could not start.
    #[error("the JavaScript engine failed: {0}")]
    Engine(String),
}

/// An error that a handler raised or appended on purpose.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Raised {
    /// The message for the caller.
    pub message: String,
    /// AppSync's `errorType`.
    pub error_type: Option<String>,
    /// Data of which callers see only what they selected.
    pub data: Value,
    /// Data that callers see as it is.
    pub error_info: Value,
}

/// How a handler ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ending {
    /// It returned a value.
    Returned(Value),
    /// It called `util.error`.
    Error(Raised),
    /// It called `util.unauthorized`.
    Unauthorized,
    /// It called `runtime.earlyReturn`.
    Early {
        /// The result.
        value: Value,
        /// Whether the rest of the pipeline is skipped.
        to_end: bool,
    },
}

/// A subscription to end, as `extensions.invalidateSubscriptions` asks for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invalidation {
    /// The field of the subscription type.
    pub subscription_field: String,
    /// The data that the subscriptions' invalidation filters look at.
    #[serde(default)]
    pub payload: Value,
}

/// What a handler did.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// How it ended.
    pub ending: Ending,
    /// `ctx.stash` afterwards.
    pub stash: Value,
    /// The errors it appended.
    pub errors: Vec<Raised>,
    /// The filter set by `extensions.setSubscriptionFilter`.
    pub filter: Option<Value>,
    /// The filter set by `extensions.setSubscriptionInvalidationFilter`.
    pub invalidation_filter: Option<Value>,
    /// The subscriptions it ended.
    pub invalidations: Vec<Invalidation>,
    /// What it wrote to the console, as EvaluateCode shows it.
    pub logs: Vec<String>,
}

impl Evaluation {
    /// The value that the handler returned, or nothing if it ended otherwise.
    pub fn returned(&self) -> Option<&Value> {
        match &self.ending {
            Ending::Returned(value) => Some(value),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kind: String,
    #[serde(default)]
    value: Value,
    error: Option<Raised>,
    skip_to: Option<String>,
    #[serde(default)]
    stash: Value,
    #[serde(default)]
    errors: Vec<Raised>,
    filter: Option<Value>,
    invalidation_filter: Option<Value>,
    #[serde(default)]
    invalidations: Vec<Invalidation>,
    #[serde(default)]
    logs: Vec<String>,
}

/// A script among those of an [`Engine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ScriptId(usize);

/// All scripts of an API and the engines that run them.
pub(crate) struct Engine {
    scripts: Vec<Script>,
    by_name: HashMap<String, ScriptId>,
    /// Engines that no call uses. A call takes one out, or makes one, and puts it back.
    idle: Mutex<Vec<Instance>>,
    host: Arc<Host>,
    limits: Limits,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("scripts", &self.by_name).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(host: Arc<Host>, limits: Limits) -> Self {
        Self { scripts: Vec::new(), by_name: HashMap::new(), idle: Mutex::default(), host, limits }
    }

    /// Adds a file. The same name and text, added again, is the same script.
    pub(crate) fn add(&mut self, name: &str, source: &str) -> Result<ScriptId, Error> {
        let script = Script::read(name, source)?;
        if let Some(id) = self.by_name.get(name)
            && self.scripts[id.0].factory == script.factory
        {
            return Ok(*id);
        }
        let id = ScriptId(self.scripts.len());
        self.by_name.insert(name.to_owned(), id);
        self.scripts.push(script);
        Ok(id)
    }

    pub(crate) fn script(&self, id: ScriptId) -> &Script {
        &self.scripts[id.0]
    }

    pub(crate) fn find(&self, name: &str) -> Option<ScriptId> {
        self.by_name.get(name).copied()
    }

    /// Compiles every script once, so that mistakes are found before the first request.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.scripts.is_empty() {
            return Ok(());
        }
        let mut instance = self.take()?;
        for script in 0..self.scripts.len() {
            instance.compile(script, &self.scripts[script])?;
        }
        self.put_back(instance);
        Ok(())
    }

    /// Calls a handler of a script. `ctx` is its context as JSON.
    pub(crate) fn call(&self, id: ScriptId, handler: &str, auth_type: &str, ctx: &str) -> Result<Evaluation, Error> {
        let script = &self.scripts[id.0];
        let too_large = |bytes| Error::TooLarge { file: script.name.clone(), handler: handler.to_owned(), bytes };
        if !script.has(handler) {
            return Err(Error::NoHandler { file: script.name.clone(), handler: handler.to_owned() });
        }
        if ctx.len() > MAX_SCRIPT_JSON {
            return Err(too_large(ctx.len()));
        }
        let mut instance = self.take()?;
        let answer = instance.call(id.0, script, handler, auth_type, ctx);
        // An engine that exceeded a bound is in an unknown state. It is dropped.
        if !matches!(answer, Err(Error::Timeout { .. } | Error::Memory { .. } | Error::Engine(_))) {
            self.put_back(instance);
        }
        let answer = answer?;
        if answer.len() > MAX_SCRIPT_JSON {
            return Err(too_large(answer.len()));
        }
        let answer: Answer = serde_json::from_str(&answer).map_err(|error| Error::Runtime {
            file: script.name.clone(),
            handler: handler.to_owned(),
            message: format!("its answer is not JSON: {error}"),
        })?;
        let ending = match (answer.kind.as_str(), answer.error) {
            ("error", Some(error)) => Ending::Error(error),
            ("unauthorized", _) => Ending::Unauthorized,
            ("early", _) => Ending::Early { value: answer.value, to_end: answer.skip_to.as_deref() == Some("END") },
            _ => Ending::Returned(answer.value),
        };
        Ok(Evaluation {
            ending,
            stash: answer.stash,
            errors: answer.errors,
            filter: answer.filter,
            invalidation_filter: answer.invalidation_filter,
            invalidations: answer.invalidations,
            logs: answer.logs,
        })
    }

    fn take(&self) -> Result<Instance, Error> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(instance) => Ok(instance),
            None => Instance::new(&self.host, &self.limits),
        }
    }

    fn put_back(&self, instance: Instance) {
        if instance.calls >= CALLS_PER_ENGINE {
            return;
        }
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_ENGINES {
            idle.push(instance);
        }
    }
}
