//! What `Ref` and `Fn::GetAtt` return.
//!
//! Only AWS knows some of these values, the id of an API for example. They become the logical id (`Ref`) or
//! `LogicalId.Attribute` (`Fn::GetAtt`), which are at least unique in the template.

use serde_json::Value;

use super::{Depth, Document};
use crate::{ACCOUNT, Error, REGION, arn, function_name};

impl Document {
    pub(crate) fn reference(&self, id: &str, at: &str, depth: Depth<'_>) -> Result<Value, Error> {
        if let Some(value) = self.parameters.get(id) {
            return Ok(value.clone());
        }
        if self.text["Parameters"].get(id).is_some() {
            return Err(Error::NoValue(id.to_owned()));
        }
        let pseudo = match id {
            "AWS::Region" => Some(REGION),
            "AWS::AccountId" => Some(ACCOUNT),
            "AWS::Partition" => Some("aws"),
            "AWS::URLSuffix" => Some("amazonaws.com"),
            "AWS::StackName" => Some("ichido"),
            "AWS::StackId" => Some("arn:aws:cloudformation:ap-northeast-1:000000000000:stack/ichido/local"),
            _ => None,
        };
        if let Some(value) = pseudo {
            return Ok(Value::from(value));
        }
        let kind = self.kind(id, at)?;
        let value = match kind {
            "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => self.name(id, "TableName", depth)?,
            "AWS::Lambda::Function" => self.name(id, "FunctionName", depth)?,
            "AWS::Lambda::Alias" => self.alias_arn(id, depth)?,
            "AWS::Lambda::Version" => format!("{}:1", function_arn(&self.name(id, "FunctionName", depth)?)),
            "AWS::SQS::Queue" => {
                format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{}", self.name(id, "QueueName", depth)?)
            }
            "AWS::SNS::Topic" => arn("sns", &self.name(id, "TopicName", depth)?),
            "AWS::Scheduler::Schedule" | "AWS::Scheduler::ScheduleGroup" => self.name(id, "Name", depth)?,
            "AWS::Logs::LogGroup" => self.name(id, "LogGroupName", depth)?,
            "AWS::CloudWatch::Alarm" => self.name(id, "AlarmName", depth)?,
            _ => id.to_owned(),
        };
        Ok(Value::from(value))
    }

    pub(crate) fn attribute(&self, id: &str, attribute: &str, at: &str, depth: Depth<'_>) -> Result<Value, Error> {
        let value = match (self.kind(id, at)?, attribute) {
            ("AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable", "Arn") => {
                arn("dynamodb", &format!("table/{}", self.name(id, "TableName", depth)?))
            }
            ("AWS::Lambda::Function", "Arn") => function_arn(&self.name(id, "FunctionName", depth)?),
            ("AWS::Lambda::Alias", "AliasArn") => self.alias_arn(id, depth)?,
            ("AWS::Lambda::Version", "Version") => "1".to_owned(),
            ("AWS::SQS::Queue", "Arn") => arn("sqs", &self.name(id, "QueueName", depth)?),
            ("AWS::SQS::Queue", "QueueName") => self.name(id, "QueueName", depth)?,
            ("AWS::SNS::Topic", "TopicName") => self.name(id, "TopicName", depth)?,
            ("AWS::Logs::LogGroup", "Arn") => {
                arn("logs", &format!("log-group:{}:*", self.name(id, "LogGroupName", depth)?))
            }
            ("AWS::AppSync::FunctionConfiguration", "FunctionId") => id.to_owned(),
            ("AWS::AppSync::DataSource", "Name") => self.name(id, "Name", depth)?,
            ("AWS::IAM::Role", "Arn") => format!("arn:aws:iam::{ACCOUNT}:role/{id}"),
            ("AWS::Scheduler::Schedule", "Arn") => {
                arn("scheduler", &format!("schedule/default/{}", self.name(id, "Name", depth)?))
            }
            ("AWS::CloudWatch::Alarm", "Arn") => {
                arn("cloudwatch", &format!("alarm:{}", self.name(id, "AlarmName", depth)?))
            }
            _ => format!("{id}.{attribute}"),
        };
        Ok(Value::from(value))
    }

    fn alias_arn(&self, id: &str, depth: Depth<'_>) -> Result<String, Error> {
        let function = function_name(&Value::from(self.name(id, "FunctionName", depth)?));
        Ok(format!("{}:{}", function_arn(&function), self.name(id, "Name", depth)?))
    }
}

fn function_arn(name: &str) -> String {
    arn("lambda", &format!("function:{name}"))
}
