//! AppSync's `EvaluateCode`: runs one handler of a resolver's code with one context, without an API.
//!
//! The code is checked as a resolver's is when it is saved, and runs within the same bounds of time and memory.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::auth::Mode;
use crate::engine::{self, CodeError, Ending, Engine, Evaluation, ScriptError};
use crate::host::Host;
use crate::limits::{Limits, MAX_CODE_CHARACTERS, MAX_EVALUATED_CONTEXT};

/// What AppSync calls the code in errors and logs.
const FILE: &str = "code.js";

/// Why a request gets no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request is wrong: AppSync's `BadRequestException`.
    #[error("{0}")]
    BadRequest(String),
    /// The engine could not start: AppSync's `InternalFailureException`.
    #[error("{0}")]
    Internal(String),
}

/// Answers a request of `EvaluateCode`: the members `code`, `context`, `function` and `runtime` in, `evaluationResult`, `error`, `logs`, `stash` and
/// `outErrors` out. Without a `function` it runs `request`.
///
/// It runs on the caller's thread, for up to a second.
pub fn evaluate_code(request: &Value) -> Result<Value, Error> {
    let code = text(request, "code", 1, MAX_CODE_CHARACTERS)?;
    let given = text(request, "context", 2, MAX_EVALUATED_CONTEXT)?;
    let runtime = &request["runtime"];
    if runtime["name"] != "APPSYNC_JS" {
        return Err(constraint("runtime.name", "Member must satisfy enum value set: [APPSYNC_JS]"));
    }
    if runtime["runtimeVersion"] != "1.0.0" {
        return Err(Error::BadRequest("The only version of the runtime APPSYNC_JS is 1.0.0.".to_owned()));
    }
    let function = match &request["function"] {
        Value::Null => "request",
        Value::String(name) if name == "request" || name == "response" => name,
        _ => return Err(Error::BadRequest("The function must be request or response.".to_owned())),
    };
    let given: Value = serde_json::from_str(given).unwrap_or_default();
    if !given.is_object() {
        return Err(Error::BadRequest("The context must be a JSON object.".to_owned()));
    }
    match evaluate(code, function, &context(given, json!({})).to_string()) {
        Ok(mut evaluation) => {
            evaluation.logs.iter_mut().for_each(|line| *line = placed(code, line));
            Ok(shown(&evaluation))
        }
        Err(engine::Error::Engine(message)) => Err(Error::Internal(message)),
        Err(engine::Error::Script(ScriptError::Code { errors, .. })) => Ok(refused(&errors)),
        Err(engine::Error::Script(error)) => {
            let value = error.to_string();
            Ok(refused(&[CodeError { error_type: "LINT_ERROR", value, line: 0, column: 0, span: None }]))
        }
        Err(error) => Ok(json!({"error": {"message": error.to_string()}})),
    }
}

/// A whole context. Members that `given` leaves out have the values of a call without arguments.
pub(crate) fn context(given: Value, environment: Value) -> Value {
    let mut whole = json!({
        "arguments": {}, "source": null, "identity": null, "request": {"headers": {}, "domainName": null},
        "info": {"fieldName": "", "parentTypeName": "", "variables": {}, "selectionSetList": [], "selectionSetGraphQL": ""},
        "env": environment, "stash": {}, "prev": null, "result": null, "error": null,
    });
    if let (Value::Object(whole), Value::Object(given)) = (&mut whole, given) {
        for (name, value) in given {
            whole.insert(if name == "args" { "arguments".to_owned() } else { name }, value);
        }
    }
    whole
}

fn evaluate(code: &str, function: &str, context: &str) -> Result<Evaluation, engine::Error> {
    let mut engine = Engine::new(Arc::new(Host::new(None, None, None)), Limits::default());
    let script = engine.add(FILE, code)?;
    engine.script(script).needs_handlers()?;
    engine.call(script, function, Mode::ApiKey.description(), context)
}

fn text<'a>(request: &'a Value, name: &str, least: usize, most: usize) -> Result<&'a str, Error> {
    let Some(text) = request[name].as_str() else {
        return Err(constraint(name, "Member must not be null"));
    };
    match text.chars().count() {
        size if size < least => {
            Err(constraint(name, &format!("Member must have length greater than or equal to {least}")))
        }
        size if size > most => Err(constraint(name, &format!("Member must have length less than or equal to {most}"))),
        _ => Ok(text),
    }
}

fn constraint(member: &str, what: &str) -> Error {
    Error::BadRequest(format!("1 validation error detected: Value at '{member}' failed to satisfy constraint: {what}"))
}

/// A log line whose column is that of the call, as AppSync shows it. The engine knows only that of an argument.
fn placed(code: &str, log: &str) -> String {
    let mut parts = log.splitn(4, ':');
    let (Some(file), Some(line), Some(column), Some(rest)) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return log.to_owned();
    };
    let source = line.parse().ok().and_then(|line: usize| code.lines().nth(line.checked_sub(1)?)).unwrap_or_default();
    let before: String = source.chars().take(column.parse().unwrap_or_default()).collect();
    let column = before.rfind("console").map_or(0, |start| before[..start].chars().count() + 1);
    format!("{file}:{line}:{column}:{rest}")
}

fn shown(evaluation: &Evaluation) -> Value {
    let errors: Vec<Value> = evaluation
        .errors
        .iter()
        .map(|error| json!({"message": error.message, "errorType": error.error_type, "data": error.data, "errorInfo": error.error_info}))
        .collect();
    let mut answer = json!({
        "logs": evaluation.logs, "stash": evaluation.stash.to_string(), "outErrors": Value::from(errors).to_string(),
    });
    match &evaluation.ending {
        Ending::Returned(value) | Ending::Early { value, .. } => answer["evaluationResult"] = value.to_string().into(),
        Ending::Error(error) => answer["error"] = json!({"message": error.message}),
        Ending::Unauthorized => answer["error"] = json!({"message": "Unauthorized"}),
    }
    answer
}

fn refused(errors: &[CodeError]) -> Value {
    let errors: Vec<Value> = errors
        .iter()
        .map(|error| {
            let span = error.span.and_then(|span| i64::try_from(span).ok()).unwrap_or(-1);
            let location = json!({"line": error.line, "column": error.column, "span": span});
            json!({"errorType": error.error_type, "value": error.value, "location": location})
        })
        .collect();
    json!({"error": {"message": "The code contains one or more errors.", "codeErrors": errors}})
}
