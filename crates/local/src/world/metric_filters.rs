//! The metric filters of the templates: metrics that CloudWatch finds in log lines.

use std::collections::BTreeMap;

use serde_json::Value;
use template::MetricFilter;

use crate::world::metrics::{Id, Metrics};
use crate::world::pattern::Pattern;

/// Why a metric filter cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the metric filter for {metric} has the pattern {pattern}, which ichido-local does not understand")]
pub struct Error {
    metric: String,
    pattern: String,
}

/// All metric filters, with their patterns.
#[derive(Debug, Default)]
pub struct MetricFilters(Vec<(MetricFilter, Pattern)>);

impl MetricFilters {
    /// Reads the patterns.
    pub fn new(filters: Vec<MetricFilter>) -> Result<Self, Error> {
        let read = |filter: MetricFilter| match Pattern::parse(&filter.pattern) {
            Some(pattern) => Ok((filter, pattern)),
            None => Err(Error { metric: filter.metric, pattern: filter.pattern }),
        };
        filters.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Adds what the filters of a log group find in a line to the metrics.
    pub fn line(&self, group: &str, line: &str, metrics: &Metrics) {
        let of_group = self.0.iter().filter(|(filter, _)| filter.log_group == group);
        for (filter, _) in of_group.filter(|(_, pattern)| pattern.matches(line)) {
            let id =
                Id { namespace: filter.namespace.clone(), name: filter.metric.clone(), dimensions: BTreeMap::new() };
            metrics.put(&id, "None", metrics.now_ms(), value(&filter.value, line));
        }
    }
}

/// The value of a metric: a number, or the field of the line that the filter names. A field without a number gives none.
fn value(declared: &str, line: &str) -> Option<f64> {
    let Some(path) = declared.strip_prefix("$.") else { return declared.parse().ok() };
    let line: Value = serde_json::from_str(line).ok()?;
    path.split('.').try_fold(&line, |value, name| value.get(name))?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(pattern: &str, value: &str) -> MetricFilter {
        MetricFilter {
            log_group: "/aws/lambda/f".into(),
            pattern: pattern.into(),
            namespace: "N".into(),
            metric: "M".into(),
            value: value.into(),
        }
    }

    /// What a filter makes of lines: how many values, and their sum.
    fn found(filter: MetricFilter, group: &str, lines: &[&str]) -> (u64, f64) {
        let (metrics, filters) = (Metrics::default(), MetricFilters::new(vec![filter]).expect("a filter"));
        for line in lines {
            filters.line(group, line, &metrics);
        }
        let id = Id { namespace: "N".into(), name: "M".into(), dimensions: BTreeMap::new() };
        let minutes = metrics.minutes(&id, 0, u64::MAX);
        (minutes.iter().map(|minute| minute.count).sum(), minutes.iter().map(|minute| minute.sum).sum())
    }

    #[test]
    fn a_filter_counts_the_lines_of_its_group_that_match() {
        let lines = ["Unavailable: denied", "GroupNotFound", r#"{"errorType":"Unavailable"}"#];
        assert_eq!(found(filter("Unavailable", "1"), "/aws/lambda/f", &lines), (2, 2.0));
        assert_eq!(found(filter("Unavailable", "1"), "/aws/lambda/g", &lines), (0, 0.0));
    }

    #[test]
    fn a_filter_takes_the_number_of_a_field() {
        let lines = [r#"{"days":29}"#, r#"{"days":"many"}"#, r#"{"hours":1}"#, "days"];
        assert_eq!(found(filter("{ $.days = * }", "$.days"), "/aws/lambda/f", &lines), (1, 29.0));
    }

    #[test]
    fn a_pattern_that_is_not_understood_stops_the_start() {
        let error = MetricFilters::new(vec![filter("[ip, user]", "1")]).expect_err("refused").to_string();
        assert!(error.contains("[ip, user]"), "{error}");
    }
}
