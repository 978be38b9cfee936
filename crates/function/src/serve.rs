//! The Lambda side: one process, one function, and a runtime with one thread, because a function of this size has at most
//! one core.

use std::process::ExitCode;

use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::Value;
use telemetry::trace::Trace;
use telemetry::{Invocation, Level};

use crate::{Aws, Definition, Env, Error, Handler, health};

/// Serves a function until Lambda ends the process. If it cannot start, it writes one log line and exits with code 1.
pub fn serve(definition: Definition) -> ExitCode {
    let env = Env::of_process();
    let level = env.get("LOG_LEVEL").and_then(|level| level.parse().ok()).unwrap_or(Level::INFO);
    // It fails only if telemetry was started before, and this is the first start.
    let _ = telemetry::init(telemetry::stdout(), level);
    let started = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match started {
        Ok(runtime) => runtime.block_on(run(definition, env)),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(
                function = definition.name,
                error = &*error as &(dyn std::error::Error + 'static),
                "could not start function {}",
                definition.name
            );
            ExitCode::FAILURE
        }
    }
}

async fn run(definition: Definition, env: Env) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let aws = Aws::of_function();
    let handler = definition.start(env, aws).await?;
    let serving = lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| handler(event)));
    // A task of its own is woken without the kernel; the future of `block_on` is not.
    tokio::spawn(serving).await?
}

/// One invocation with what all functions do: the health payload, ids on every line, an error logged once. Lambda counts it.
pub(crate) async fn invoke(function: String, handler: Handler, event: LambdaEvent<Value>) -> Result<Value, Error> {
    let is_health = health::is_health(&event.payload);
    let health_id = health::id(&event.payload).filter(|_| is_health).map(str::to_owned);
    let version = event.context.env_config.version.clone();
    if is_health && health_id.is_none() {
        return Ok(health::answer(&function, &version));
    }
    let request_id = event.context.request_id.clone();
    let trace = event.context.xray_trace_id.as_deref().and_then(Trace::from_header);
    let trace = trace.unwrap_or_else(|| Trace::of_request(&request_id));
    let name = format!("{request_id} of {function}");
    let health = health_id.map(|id| (id, health::answer(&function, &version)));
    telemetry::invocation(Invocation { function, request_id, trace }, async move {
        if let Some((id, answer)) = health {
            tracing::info!(id, "answered health invocation {id}");
            return Ok(answer);
        }
        let result = handler(event).await;
        if let Err(error) = &result {
            tracing::error!(
                kind = error.kind(),
                error = error as &(dyn std::error::Error + 'static),
                "invocation {name} failed: {}",
                error.kind()
            );
        }
        result
    })
    .await
}
