use std::time::Duration;

use serde_json::Value;

use crate::Template;
use crate::json::{name_of, number};

/// SQS's own default: four days.
const DEFAULT_RETENTION_SECONDS: u64 = 345_600;

/// `AWS::SQS::Queue`.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub logical_id: String,
    pub name: String,
    pub retention: Duration,
}

impl Template {
    /// The queues of the template.
    #[must_use]
    pub fn queues(&self) -> Vec<Queue> {
        let queue = |(id, properties): (&str, &Value)| Queue {
            logical_id: id.to_owned(),
            name: name_of(id, &properties["QueueName"]),
            retention: Duration::from_secs(
                number(&properties["MessageRetentionPeriod"]).unwrap_or(DEFAULT_RETENTION_SECONDS),
            ),
        };
        self.of_kind("AWS::SQS::Queue").map(queue).collect()
    }
}
