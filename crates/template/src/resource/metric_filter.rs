use serde_json::Value;

use crate::json::text_of;
use crate::{Error, Template};

/// One metric of an `AWS::Logs::MetricFilter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFilter {
    /// The name of the log group whose lines it reads.
    pub log_group: String,
    /// CloudWatch Logs' filter pattern.
    pub pattern: String,
    pub namespace: String,
    pub metric: String,
    /// A number, or the field of the line that has it: `$.days`.
    pub value: String,
}

impl Template {
    /// The metric filters of the template.
    ///
    /// # Errors
    /// When one lacks a property that every metric filter has.
    pub fn metric_filters(&self) -> Result<Vec<MetricFilter>, Error> {
        let mut filters = Vec::new();
        for (id, properties) in self.of_kind("AWS::Logs::MetricFilter") {
            let text = |from: &Value, property: &'static str| {
                text_of(&from[property]).ok_or_else(|| Error::missing(id, property))
            };
            for transformation in properties["MetricTransformations"].as_array().into_iter().flatten() {
                filters.push(MetricFilter {
                    log_group: text(properties, "LogGroupName")?,
                    pattern: text(properties, "FilterPattern")?,
                    namespace: text(transformation, "MetricNamespace")?,
                    metric: text(transformation, "MetricName")?,
                    value: text(transformation, "MetricValue")?,
                });
            }
        }
        Ok(filters)
    }
}
