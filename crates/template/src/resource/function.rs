use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::json::{members, name_of, number, plain, small, text_of};
use crate::{Template, function_name};

/// Lambda's own defaults.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3;
const DEFAULT_MEMORY_MB: u64 = 128;
const DEFAULT_RETRIES: u32 = 2;
const DEFAULT_EVENT_AGE_SECONDS: u64 = 21_600;

/// `AWS::Lambda::Function`, together with its `AWS::Lambda::EventInvokeConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub logical_id: String,
    pub name: String,
    pub environment: BTreeMap<String, String>,
    pub timeout: Duration,
    pub memory_mb: u64,
    /// Retries of an asynchronous invocation after the first attempt.
    pub retries: u32,
    /// How old an asynchronous event may become before Lambda gives it up.
    pub event_age: Duration,
    /// The ARN of the destination of events that Lambda gave up.
    pub on_failure: Option<String>,
}

impl Template {
    /// The functions of the template.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        let function = |(id, properties): (&str, &Value)| {
            let name = name_of(id, &properties["FunctionName"]);
            let mut asynchronous = self.of_kind("AWS::Lambda::EventInvokeConfig");
            let asynchronous = asynchronous.find(|(_, config)| function_name(&config["FunctionName"]) == name);
            let config = asynchronous.map_or(&Value::Null, |(_, config)| config);
            let variables = members(&properties["Environment"]["Variables"]);
            Function {
                logical_id: id.to_owned(),
                environment: variables.map(|(name, value)| (name.clone(), plain(value))).collect(),
                timeout: Duration::from_secs(number(&properties["Timeout"]).unwrap_or(DEFAULT_TIMEOUT_SECONDS)),
                memory_mb: number(&properties["MemorySize"]).unwrap_or(DEFAULT_MEMORY_MB),
                retries: small(&config["MaximumRetryAttempts"]).unwrap_or(DEFAULT_RETRIES),
                event_age: Duration::from_secs(
                    number(&config["MaximumEventAgeInSeconds"]).unwrap_or(DEFAULT_EVENT_AGE_SECONDS),
                ),
                on_failure: text_of(&config["DestinationConfig"]["OnFailure"]["Destination"])
                    .or_else(|| text_of(&properties["DeadLetterConfig"]["TargetArn"])),
                name,
            }
        };
        self.of_kind("AWS::Lambda::Function").map(function).collect()
    }
}
