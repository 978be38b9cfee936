//! What every Lambda function of this workspace has in common.
//!
//! An application describes each function as a [`Definition`]: its name, the variables that it reads, and how it is built
//! from its environment and its AWS clients. The Lambda binary serves it with [`serve()`]. The local platform and the tests
//! start the same definition with [`Definition::start`]. Either way the handler is wrapped: the health payload is answered
//! without side effects, log lines and metrics carry the request id and the trace id, and an error is logged once, here.
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # use function::{Aws, BoxFuture, Definition, Env, Error, Handler};
//! pub const ECHO: Definition =
//!     Definition { name: "echo", variables: &["GREETING"], build: |env, aws| Box::pin(build(env, aws)) };
//!
//! async fn build(env: Env, _aws: Aws) -> Result<Handler, Error> {
//!     let mut vars = env.reader();
//!     let greeting = vars.required("GREETING");
//!     vars.finish()?; // one error that names everything that is wrong
//!     Ok(function::handler(move |event| {
//!         let greeting = greeting.clone();
//!         async move { Ok(serde_json::json!({ "greeting": greeting, "event": event.payload })) }
//!     }))
//! }
//!
//! fn main() -> ExitCode {
//!     function::serve(ECHO)
//! }
//! ```

pub mod aws;
pub mod env;
mod health;
pub mod http;
pub mod item;
pub mod operation;
pub mod secret;
mod serve;

use std::future::Future;
use std::sync::Arc;

use ichido::Timestamp;

pub use aws::{Aws, Secret};
pub use env::Env;
pub use futures::future::BoxFuture;
pub use health::{HEALTH, is_health};
pub use lambda_runtime::{Context, Diagnostic, LambdaEvent};
pub use serde_json::Value;
pub use serve::serve;

/// The AWS SDK allocates a few hundred times per call. With glibc's allocator that took a fifth of its CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Answers an event. It is cheap to clone, and concurrent invocations on the local platform share one.
pub type Handler = Arc<dyn Fn(LambdaEvent<Value>) -> BoxFuture<'static, Result<Value, Error>> + Send + Sync>;

/// One Lambda function: its name, its variables, and how it is built.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name of the function, of its binary and of its directory: `slack-events`.
    pub name: &'static str,
    /// Every variable that it reads, besides [`COMMON_VARIABLES`]. `ichido-local --functions` prints them, and the tests of
    /// `infra/` compare them with what the templates set.
    pub variables: &'static [&'static str],
    /// Reads the environment and connects the parts. If it fails, the function does not start.
    pub build: fn(Env, Aws) -> BoxFuture<'static, Result<Handler, Error>>,
}

/// What `serve` reads for every function, besides Lambda's own variables.
pub const COMMON_VARIABLES: &[&str] = &["LOG_LEVEL"];

/// Why a function could not start, or an invocation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The variables of the function are missing or wrong.
    #[error(transparent)]
    Environment(#[from] env::Error),
    /// A secret could not be read.
    #[error(transparent)]
    Aws(#[from] aws::Error),
    /// The event is not of the form that the function takes.
    #[error(transparent)]
    Event(#[from] http::Error),
    /// The handler failed. Lambda repeats an asynchronous invocation.
    #[error("{message}")]
    Failed {
        /// A stable name for people and scripts: `InFlight`, `Store`, `Slack`.
        kind: &'static str,
        /// What happened, without secrets.
        message: String,
    },
}

impl Error {
    /// Makes a failure of the application's own error.
    pub fn failed(kind: &'static str, error: impl std::fmt::Display) -> Self {
        Self::Failed { kind, message: error.to_string() }
    }

    /// What Lambda reports as `errorType`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Environment(_) => "Environment",
            Self::Aws(_) => "Aws",
            Self::Event(_) => "Event",
            Self::Failed { kind, .. } => kind,
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        Self { error_type: error.kind().to_owned(), error_message: error.to_string() }
    }
}

/// When the invocation ends; `None` if its context does not say so.
pub fn deadline(context: &Context) -> Option<Timestamp> {
    Some(context.deadline).filter(|deadline| *deadline > 0).map(Timestamp::from_millis)
}

/// Makes a [`Handler`] of a closure.
pub fn handler<F, R>(handle: F) -> Handler
where
    F: Fn(LambdaEvent<Value>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, Error>> + Send + 'static,
{
    Arc::new(move |event| Box::pin(handle(event)))
}

impl Definition {
    /// Builds the function and wraps its handler with what all functions do.
    pub async fn start(&self, env: Env, aws: Aws) -> Result<Handler, Error> {
        let name = env.get("AWS_LAMBDA_FUNCTION_NAME").unwrap_or(self.name).to_owned();
        let inner = (self.build)(env.declared(self.variables), aws).await?;
        Ok(handler(move |event| serve::invoke(name.clone(), inner.clone(), event)))
    }
}
