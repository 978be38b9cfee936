use serde_json::{Value, json};

use crate::json::{name_of, text_of};
use crate::{Error, Template, function_name};

/// `AWS::Scheduler::Schedule`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub logical_id: String,
    pub name: String,
    /// `default` unless the template says otherwise.
    pub group: String,
    /// `rate(5 minutes)`
    pub expression: String,
    pub time_zone: Option<String>,
    pub enabled: bool,
    /// The name of the function that it invokes.
    pub function: String,
    /// The event that it sends.
    pub input: Value,
    /// All properties, resolved: what `GetSchedule` answers.
    pub properties: Value,
}

impl Template {
    /// The schedules of the template.
    ///
    /// # Errors
    /// When one has no expression or no target.
    pub fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let schedule = |(id, properties): (&str, &Value)| {
            let target = &properties["Target"];
            let input = text_of(&target["Input"]).and_then(|input| serde_json::from_str(&input).ok());
            let arn = text_of(&target["Arn"]).ok_or_else(|| Error::missing(id, "Target.Arn"))?;
            Ok(Schedule {
                logical_id: id.to_owned(),
                name: name_of(id, &properties["Name"]),
                group: text_of(&properties["GroupName"]).unwrap_or_else(|| "default".to_owned()),
                expression: text_of(&properties["ScheduleExpression"])
                    .ok_or_else(|| Error::missing(id, "ScheduleExpression"))?,
                time_zone: text_of(&properties["ScheduleExpressionTimezone"]),
                enabled: properties["State"] != "DISABLED",
                function: function_name(&Value::from(arn)),
                input: input.unwrap_or_else(|| json!({})),
                properties: properties.clone(),
            })
        };
        self.of_kind("AWS::Scheduler::Schedule").map(schedule).collect()
    }
}
