use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::json::{decimal, name_of, number, plain, small, text_of};
use crate::{Error, Template};

/// `AWS::CloudWatch::Alarm`.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    pub name: String,
    pub description: String,
    pub namespace: String,
    pub metric: String,
    pub dimensions: BTreeMap<String, String>,
    /// `Sum`, `Maximum`, … or `p95`.
    pub statistic: String,
    pub period: Duration,
    pub evaluation_periods: u32,
    pub datapoints_to_alarm: u32,
    /// `GreaterThanThreshold`, …
    pub comparison: String,
    pub threshold: f64,
    /// `missing`, `breaching`, `notBreaching` or `ignore`.
    pub missing_data: String,
    /// All properties, resolved.
    pub properties: Value,
}

impl Template {
    /// The alarms of the template.
    ///
    /// # Errors
    /// When one lacks a property that an alarm on a single metric needs.
    pub fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let alarm = |(id, properties): (&str, &Value)| {
            let text =
                |property: &'static str| text_of(&properties[property]).ok_or_else(|| Error::missing(id, property));
            let evaluation_periods =
                small(&properties["EvaluationPeriods"]).ok_or_else(|| Error::missing(id, "EvaluationPeriods"))?;
            let dimensions = properties["Dimensions"].as_array().into_iter().flatten();
            let statistic = text_of(&properties["Statistic"]).or_else(|| text_of(&properties["ExtendedStatistic"]));
            Ok(Alarm {
                name: name_of(id, &properties["AlarmName"]),
                description: text_of(&properties["AlarmDescription"]).unwrap_or_default(),
                namespace: text("Namespace")?,
                metric: text("MetricName")?,
                dimensions: dimensions.map(|each| (plain(&each["Name"]), plain(&each["Value"]))).collect(),
                statistic: statistic.ok_or_else(|| Error::missing(id, "Statistic"))?,
                period: Duration::from_secs(number(&properties["Period"]).ok_or_else(|| Error::missing(id, "Period"))?),
                evaluation_periods,
                datapoints_to_alarm: small(&properties["DatapointsToAlarm"]).unwrap_or(evaluation_periods),
                comparison: text("ComparisonOperator")?,
                threshold: decimal(&properties["Threshold"]).ok_or_else(|| Error::missing(id, "Threshold"))?,
                missing_data: text_of(&properties["TreatMissingData"]).unwrap_or_else(|| "missing".to_owned()),
                properties: properties.clone(),
            })
        };
        self.of_kind("AWS::CloudWatch::Alarm").map(alarm).collect()
    }
}
