//! A CloudFormation template, read for what can run without CloudFormation.
//!
//! Promise: what is read is what would be deployed: parameters with their defaults (or the values given), conditions
//! decided, `Ref`, `Fn::Sub`, `Fn::GetAtt`, `Fn::If`, `Fn::Join`, `Fn::Split`, `Fn::Select`, `Fn::FindInMap` and the condition
//! functions resolved. A reference to nothing, an intrinsic that is not one of these, or a parameter without a value is an
//! [`Error`] that says where.
//! What an attribute would be only AWS knows (the id of an API, say) is `LogicalId.Attribute`, which is unique at least.
//!
//! A [`Template`] is read as a whole; of a [`Document`] only what is asked for, for readers that look at a part of somebody
//! else's template.
//!
//! It reads text and returns values: no network, and no files but those of [`file_parameters`]. The local platform and the tests use the same reader.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Where a stack runs when it runs nowhere.
pub const REGION: &str = "ap-northeast-1";
/// The account of a stack that runs nowhere.
pub const ACCOUNT: &str = "000000000000";
/// Lambda's own defaults.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3;
const DEFAULT_MEMORY_MB: u64 = 128;
const DEFAULT_RETRIES: u32 = 2;
const DEFAULT_EVENT_AGE_SECONDS: u64 = 21_600;
/// API Gateway's own default, and its longest.
const DEFAULT_INTEGRATION_TIMEOUT_MS: u64 = 30_000;
/// SQS's own default: four days.
const DEFAULT_QUEUE_RETENTION_SECONDS: u64 = 345_600;
/// References nest; a template whose references go round in a circle ends here.
const MAX_DEPTH: u32 = 64;

/// Why a template cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML.
    #[error("it is not YAML: {0}")]
    Yaml(#[from] serde_yaml_ng::Error),
    /// A parameter has neither a value nor a default.
    #[error("the parameter {0} has no value")]
    NoValue(String),
    /// `Ref`, `Fn::Sub` or `Fn::GetAtt` of something that is not there.
    #[error("{at}: there is no {name}")]
    Unknown { at: String, name: String },
    /// An intrinsic of another form than the known ones.
    #[error("{at}: {what} is not understood")]
    NotUnderstood { at: String, what: String },
    /// Something that a resource of its type must have.
    #[error("{at}: {what} is missing")]
    Missing { at: String, what: &'static str },
    /// A file that a parameter stands for.
    #[error("{} cannot be read", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A template with everything resolved.
#[derive(Clone, Debug)]
pub struct Template {
    /// `Metadata`, as it is.
    pub metadata: Value,
    /// The values of all parameters.
    pub parameters: BTreeMap<String, Value>,
    /// Every resource whose condition holds.
    pub resources: BTreeMap<String, Resource>,
    /// Outputs by name.
    pub outputs: BTreeMap<String, Value>,
}

/// One resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// `AWS::DynamoDB::Table`, …
    pub kind: String,
    /// Its properties, resolved.
    pub properties: Value,
}

/// `AWS::DynamoDB::Table`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    /// The `CreateTable` request in DynamoDB's JSON: keys, attributes and indexes.
    pub create: Value,
    /// The attribute that holds when an item expires.
    pub ttl: Option<String>,
}

/// `AWS::Lambda::Function`, with what its alias and its invoke configuration say.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub logical_id: String,
    pub name: String,
    pub environment: BTreeMap<String, String>,
    pub timeout: Duration,
    pub memory_mb: u64,
    /// Retries of an asynchronous invocation after the first attempt.
    pub retries: u32,
    /// How old an asynchronous event may become before it is given up.
    pub event_age: Duration,
    /// The ARN of where given-up events go.
    pub on_failure: Option<String>,
}

/// `AWS::SQS::Queue`.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub logical_id: String,
    pub name: String,
    pub retention: Duration,
}

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

/// `AWS::ApiGatewayV2::Route`.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// `POST /slack/events`
    pub key: String,
    /// The name of the function that answers it.
    pub function: String,
    pub timeout: Duration,
}

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

/// The parameters of a template that stand for files (`…File`), and the texts of those files below `dir`: what a deployment
/// puts in their place.
///
/// # Errors
/// When the template cannot be read, or a file.
pub fn file_parameters(text: &str, dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let document: Value = serde_yaml_ng::from_str(text)?;
    let files = members(&document["Parameters"]).filter(|(name, _)| name.ends_with("File"));
    files
        .map(|(name, declared)| {
            let path = dir.join(text_of(&declared["Default"]).unwrap_or_default());
            let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
            Ok((name.clone(), text))
        })
        .collect()
}

impl Template {
    /// Reads a template; `parameters` win over its defaults, and those that it does not declare are of no concern to it.
    ///
    /// # Errors
    /// When something in it cannot be resolved.
    pub fn read(text: &str, parameters: &BTreeMap<String, Value>) -> Result<Self, Error> {
        let document = Document::read(text, parameters)?;
        for (name, _) in members(&document.text["Parameters"]) {
            document.reference(name, name, 0)?;
        }
        let mut resources = BTreeMap::new();
        for (id, resource) in members(&document.text["Resources"]) {
            if document.is_there(id, resource)? {
                let properties = document.properties(id)?;
                let kind = text_of(&resource["Type"]).ok_or_else(|| missing(id, "Type"))?;
                resources.insert(id.clone(), Resource { kind, properties });
            }
        }
        let mut outputs = BTreeMap::new();
        for (name, output) in members(&document.text["Outputs"]) {
            if document.is_there(name, output)?
                && let Some(value) = document.value(&output["Value"], name, 0)?
            {
                outputs.insert(name.clone(), value);
            }
        }
        let metadata = document.text["Metadata"].clone();
        Ok(Self { metadata, parameters: document.parameters, resources, outputs })
    }

    /// The resources of one type, by logical id.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let of_kind = self.resources.iter().filter(move |(_, resource)| resource.kind == kind);
        of_kind.map(|(id, resource)| (id.as_str(), &resource.properties))
    }

    /// Its tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        const SHARED: [&str; 4] =
            ["AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "LocalSecondaryIndexes"];
        let table = |(id, properties): (&str, &Value)| {
            let name = name_of(id, &properties["TableName"]);
            let mut create = json!({"TableName": name, "BillingMode": "PAY_PER_REQUEST"});
            for property in SHARED {
                if let Some(value) = properties.get(property) {
                    create[property] = value.clone();
                }
            }
            let ttl = &properties["TimeToLiveSpecification"];
            let ttl = if is_true(&ttl["Enabled"]) { text_of(&ttl["AttributeName"]) } else { None };
            Table { logical_id: id.to_owned(), name, create, ttl }
        };
        self.of_kind("AWS::DynamoDB::Table").map(table).collect()
    }

    /// Its functions.
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

    /// Its queues.
    #[must_use]
    pub fn queues(&self) -> Vec<Queue> {
        let queue = |(id, properties): (&str, &Value)| Queue {
            logical_id: id.to_owned(),
            name: name_of(id, &properties["QueueName"]),
            retention: Duration::from_secs(
                number(&properties["MessageRetentionPeriod"]).unwrap_or(DEFAULT_QUEUE_RETENTION_SECONDS),
            ),
        };
        self.of_kind("AWS::SQS::Queue").map(queue).collect()
    }

    /// Its schedules.
    ///
    /// # Errors
    /// When one has no expression or no target.
    pub fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let schedule = |(id, properties): (&str, &Value)| {
            let target = &properties["Target"];
            let input = text_of(&target["Input"]).and_then(|input| serde_json::from_str(&input).ok());
            let arn = text_of(&target["Arn"]).ok_or_else(|| missing(id, "Target.Arn"))?;
            Ok(Schedule {
                logical_id: id.to_owned(),
                name: name_of(id, &properties["Name"]),
                group: text_of(&properties["GroupName"]).unwrap_or_else(|| "default".to_owned()),
                expression: text_of(&properties["ScheduleExpression"])
                    .ok_or_else(|| missing(id, "ScheduleExpression"))?,
                time_zone: text_of(&properties["ScheduleExpressionTimezone"]),
                enabled: properties["State"] != "DISABLED",
                function: function_name(&Value::from(arn)),
                input: input.unwrap_or_else(|| json!({})),
                properties: properties.clone(),
            })
        };
        self.of_kind("AWS::Scheduler::Schedule").map(schedule).collect()
    }

    /// Its routes at the HTTPS door.
    ///
    /// # Errors
    /// When one leads nowhere.
    pub fn routes(&self) -> Result<Vec<Route>, Error> {
        let route = |(id, properties): (&str, &Value)| {
            let target = text_of(&properties["Target"]).ok_or_else(|| missing(id, "Target"))?;
            let integration = target.strip_prefix("integrations/").unwrap_or(&target);
            let integration = self
                .resources
                .get(integration)
                .ok_or_else(|| Error::Unknown { at: id.to_owned(), name: integration.to_owned() })?;
            let timeout = number(&integration.properties["TimeoutInMillis"]).unwrap_or(DEFAULT_INTEGRATION_TIMEOUT_MS);
            Ok(Route {
                key: text_of(&properties["RouteKey"]).ok_or_else(|| missing(id, "RouteKey"))?,
                function: function_name(&integration.properties["IntegrationUri"]),
                timeout: Duration::from_millis(timeout),
            })
        };
        self.of_kind("AWS::ApiGatewayV2::Route").map(route).collect()
    }

    /// Its alarms.
    ///
    /// # Errors
    /// When one watches no single metric.
    pub fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let alarm = |(id, properties): (&str, &Value)| {
            let text = |property: &'static str| text_of(&properties[property]).ok_or_else(|| missing(id, property));
            let evaluation_periods =
                small(&properties["EvaluationPeriods"]).ok_or_else(|| missing(id, "EvaluationPeriods"))?;
            let dimensions = properties["Dimensions"].as_array().into_iter().flatten();
            let statistic = text_of(&properties["Statistic"]).or_else(|| text_of(&properties["ExtendedStatistic"]));
            Ok(Alarm {
                name: name_of(id, &properties["AlarmName"]),
                description: text_of(&properties["AlarmDescription"]).unwrap_or_default(),
                namespace: text("Namespace")?,
                metric: text("MetricName")?,
                dimensions: dimensions.map(|each| (plain(&each["Name"]), plain(&each["Value"]))).collect(),
                statistic: statistic.ok_or_else(|| missing(id, "Statistic"))?,
                period: Duration::from_secs(number(&properties["Period"]).ok_or_else(|| missing(id, "Period"))?),
                evaluation_periods,
                datapoints_to_alarm: small(&properties["DatapointsToAlarm"]).unwrap_or(evaluation_periods),
                comparison: text("ComparisonOperator")?,
                threshold: decimal(&properties["Threshold"]).ok_or_else(|| missing(id, "Threshold"))?,
                missing_data: text_of(&properties["TreatMissingData"]).unwrap_or_else(|| "missing".to_owned()),
                properties: properties.clone(),
            })
        };
        self.of_kind("AWS::CloudWatch::Alarm").map(alarm).collect()
    }
}

/// The function that a name, an ARN, or an ARN with an alias means.
#[must_use]
pub fn function_name(reference: &Value) -> String {
    let text = plain(reference);
    // API Gateway wraps the ARN: arn:aws:apigateway:…:path/2015-03-31/functions/ARN/invocations
    let text = match text.split_once("/functions/") {
        Some((_, rest)) => rest.trim_end_matches("/invocations").to_owned(),
        None => text,
    };
    let name = match text.split_once(":function:") {
        Some((_, name)) => name,
        None => &text,
    };
    name.split(':').next().unwrap_or_default().to_owned()
}

/// A template of which only what is asked for is resolved.
#[derive(Clone, Debug)]
pub struct Document {
    text: Value,
    /// Those that have a value.
    parameters: BTreeMap<String, Value>,
}

impl Document {
    /// Reads a template; `parameters` win over its defaults, and those that it does not declare are of no concern to it.
    ///
    /// # Errors
    /// When it is not YAML.
    pub fn read(text: &str, parameters: &BTreeMap<String, Value>) -> Result<Self, Error> {
        let text: Value = serde_yaml_ng::from_str(text)?;
        let value = |(name, declared): (&String, &Value)| {
            let value = parameters.get(name).or_else(|| declared.get("Default"))?;
            Some((name.clone(), value.clone()))
        };
        let parameters = members(&text["Parameters"]).filter_map(value).collect();
        Ok(Self { text, parameters })
    }

    /// The logical ids of a type, without those whose condition does not hold.
    ///
    /// # Errors
    /// When a condition cannot be decided.
    pub fn of_kind(&self, kind: &str) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        for (id, resource) in members(&self.text["Resources"]) {
            if resource["Type"].as_str() == Some(kind) && self.is_there(id, resource)? {
                ids.push(id.clone());
            }
        }
        Ok(ids)
    }

    /// A resource's properties, resolved.
    ///
    /// # Errors
    /// When something in them cannot be.
    pub fn properties(&self, id: &str) -> Result<Value, Error> {
        let properties = &self.text["Resources"][id]["Properties"];
        Ok(self.value(properties, id, 0)?.filter(|value| !value.is_null()).unwrap_or_else(|| json!({})))
    }

    /// The function that a name or an ARN means, by every name that the template has for it: its own, its logical id, and those of
    /// its aliases.
    ///
    /// # Errors
    /// When a function's or an alias's name cannot be resolved.
    pub fn function_names(&self, reference: &str) -> Result<Vec<String>, Error> {
        let name = function_name(&Value::from(reference));
        let mut names = vec![name.clone()];
        for kind in ["AWS::Lambda::Function", "AWS::Lambda::Alias"] {
            for id in self.of_kind(kind)? {
                if function_name(&Value::from(self.name(&id, "FunctionName", 0)?)) == name {
                    names.push(id);
                }
            }
        }
        Ok(names)
    }

    fn is_there(&self, id: &str, resource: &Value) -> Result<bool, Error> {
        match resource["Condition"].as_str() {
            Some(condition) => self.condition(condition, id, 0),
            None => Ok(true),
        }
    }

    /// A value with all intrinsics in it resolved; `None` is `AWS::NoValue`.
    fn value(&self, value: &Value, at: &str, depth: u32) -> Result<Option<Value>, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::NotUnderstood { at: at.to_owned(), what: "a circle of references".to_owned() });
        }
        match value {
            Value::Array(items) => {
                let mut resolved = Vec::with_capacity(items.len());
                for item in items {
                    resolved.extend(self.value(item, at, depth + 1)?);
                }
                Ok(Some(Value::Array(resolved)))
            }
            Value::Object(object) => match intrinsic(object) {
                Some((name, argument)) => self.intrinsic(name, argument, at, depth + 1),
                None => {
                    let mut resolved = Map::new();
                    for (name, member) in object {
                        if let Some(member) = self.value(member, at, depth + 1)? {
                            resolved.insert(name.clone(), member);
                        }
                    }
                    Ok(Some(Value::Object(resolved)))
                }
            },
            plain => Ok(Some(plain.clone())),
        }
    }

    fn intrinsic(&self, name: &str, argument: &Value, at: &str, depth: u32) -> Result<Option<Value>, Error> {
        let not_understood = || Error::NotUnderstood { at: at.to_owned(), what: format!("{name}: {argument}") };
        match (name, argument) {
            ("Ref", Value::String(id)) if id == "AWS::NoValue" => Ok(None),
            ("Ref", Value::String(id)) => self.reference(id, at, depth).map(Some),
            ("Fn::GetAtt", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(id), Value::String(attribute)] => self.attribute(id, attribute, at, depth).map(Some),
                _ => Err(not_understood()),
            },
            ("Fn::GetAtt", Value::String(dotted)) => match dotted.split_once('.') {
                Some((id, attribute)) => self.attribute(id, attribute, at, depth).map(Some),
                None => Err(not_understood()),
            },
            ("Fn::Sub", Value::String(text)) => self.substitute(text, &Map::new(), at, depth).map(Some),
            ("Fn::Sub", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(text), Value::Object(names)] => self.substitute(text, names, at, depth).map(Some),
                _ => Err(not_understood()),
            },
            ("Fn::Join", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(between), list] => {
                    let list = self.value(list, at, depth)?;
                    let list = list.as_ref().and_then(Value::as_array).ok_or_else(not_understood)?;
                    Ok(Some(Value::from(list.iter().map(plain).collect::<Vec<_>>().join(between))))
                }
                _ => Err(not_understood()),
            },
            ("Fn::Split", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(between), text] => {
                    let text = self.value(text, at, depth)?.ok_or_else(not_understood)?;
                    Ok(Some(plain(&text).split(between.as_str()).map(Value::from).collect()))
                }
                _ => Err(not_understood()),
            },
            ("Fn::Select", Value::Array(parts)) => match parts.as_slice() {
                [index, list] => {
                    let index = self.value(index, at, depth)?.as_ref().and_then(number).ok_or_else(not_understood)?;
                    let list = self.value(list, at, depth)?.ok_or_else(not_understood)?;
                    let chosen = usize::try_from(index).ok().and_then(|index| list.get(index));
                    chosen.cloned().map(Some).ok_or_else(not_understood)
                }
                _ => Err(not_understood()),
            },
            ("Fn::FindInMap", Value::Array(parts)) if parts.len() == 3 => {
                let mut found = &self.text["Mappings"];
                for part in parts {
                    let key = self.value(part, at, depth)?.ok_or_else(not_understood)?;
                    found = found.get(plain(&key)).ok_or_else(not_understood)?;
                }
                Ok(Some(found.clone()))
            }
            ("Fn::If", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(condition), yes, no] => {
                    let chosen = if self.condition(condition, at, depth)? { yes } else { no };
                    self.value(chosen, at, depth)
                }
                _ => Err(not_understood()),
            },
            ("Fn::Equals" | "Fn::Not" | "Fn::And" | "Fn::Or" | "Condition", _) => {
                self.decide(&json!({ name: argument }), at, depth).map(|decided| Some(Value::Bool(decided)))
            }
            _ => Err(not_understood()),
        }
    }

    fn condition(&self, name: &str, at: &str, depth: u32) -> Result<bool, Error> {
        let definition = self.text["Conditions"].get(name).ok_or_else(|| unknown(at, name))?;
        self.decide(definition, at, depth + 1)
    }

    fn decide(&self, definition: &Value, at: &str, depth: u32) -> Result<bool, Error> {
        let not_understood = || Error::NotUnderstood { at: at.to_owned(), what: format!("the condition {definition}") };
        if depth > MAX_DEPTH {
            return Err(not_understood());
        }
        let (name, argument) = definition.as_object().and_then(intrinsic).ok_or_else(not_understood)?;
        let all = || -> Result<Vec<bool>, Error> {
            let parts = argument.as_array().ok_or_else(not_understood)?;
            parts.iter().map(|part| self.decide(part, at, depth + 1)).collect()
        };
        match name {
            "Fn::Equals" => {
                match self.value(argument, at, depth + 1)?.as_ref().and_then(Value::as_array).map(Vec::as_slice) {
                    // Parameters are text to CloudFormation, whatever they look like.
                    Some([one, other]) => Ok(plain(one) == plain(other)),
                    _ => Err(not_understood()),
                }
            }
            "Fn::Not" => all().map(|parts| !parts.iter().any(|part| *part)),
            "Fn::And" => all().map(|parts| parts.iter().all(|part| *part)),
            "Fn::Or" => all().map(|parts| parts.iter().any(|part| *part)),
            "Condition" => self.condition(argument.as_str().ok_or_else(not_understood)?, at, depth),
            _ => Err(not_understood()),
        }
    }

    fn substitute(&self, text: &str, names: &Map<String, Value>, at: &str, depth: u32) -> Result<Value, Error> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let not_closed = || Error::NotUnderstood { at: at.to_owned(), what: format!("Fn::Sub: {text}") };
            let (name, tail) = after.split_once('}').ok_or_else(not_closed)?;
            rest = tail;
            if let Some(literal) = name.strip_prefix('!') {
                out.push_str("${");
                out.push_str(literal);
                out.push('}');
                continue;
            }
            let value = match names.get(name) {
                Some(given) => self.value(given, at, depth)?.unwrap_or_default(),
                None => match name.split_once('.') {
                    Some((id, attribute)) => self.attribute(id, attribute, at, depth)?,
                    None => self.reference(name, at, depth)?,
                },
            };
            out.push_str(&plain(&value));
        }
        out.push_str(rest);
        Ok(Value::from(out))
    }

    fn reference(&self, id: &str, at: &str, depth: u32) -> Result<Value, Error> {
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
            "AWS::Lambda::Version" => format!("{}:1", self.function_arn(&self.name(id, "FunctionName", depth)?)),
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

    fn attribute(&self, id: &str, attribute: &str, at: &str, depth: u32) -> Result<Value, Error> {
        let value = match (self.kind(id, at)?, attribute) {
            ("AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable", "Arn") => {
                arn("dynamodb", &format!("table/{}", self.name(id, "TableName", depth)?))
            }
            ("AWS::Lambda::Function", "Arn") => self.function_arn(&self.name(id, "FunctionName", depth)?),
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

    fn kind(&self, id: &str, at: &str) -> Result<&str, Error> {
        self.text["Resources"][id]["Type"].as_str().ok_or_else(|| unknown(at, id))
    }

    /// A property that names the resource; its logical id where there is none.
    fn name(&self, id: &str, property: &str, depth: u32) -> Result<String, Error> {
        let declared = &self.text["Resources"][id]["Properties"][property];
        let resolved = self.value(declared, id, depth + 1)?;
        Ok(resolved.as_ref().and_then(text_of).unwrap_or_else(|| id.to_owned()))
    }

    fn function_arn(&self, name: &str) -> String {
        arn("lambda", &format!("function:{name}"))
    }

    fn alias_arn(&self, id: &str, depth: u32) -> Result<String, Error> {
        let function = function_name(&Value::from(self.name(id, "FunctionName", depth)?));
        Ok(format!("{}:{}", self.function_arn(&function), self.name(id, "Name", depth)?))
    }
}

/// The ARN of something in our account that is nowhere.
#[must_use]
pub fn arn(service: &str, resource: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}")
}

/// `{"Ref": …}` and the like: an object whose one member is a function's name.
fn intrinsic(object: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = object.iter().next()?;
    let is_one = object.len() == 1
        && (name == "Ref" || name.starts_with("Fn::") || (name == "Condition" && argument.is_string()));
    is_one.then_some((name.as_str(), argument))
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn name_of(id: &str, name: &Value) -> String {
    text_of(name).unwrap_or_else(|| id.to_owned())
}

/// As CloudFormation would write it into a string.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn is_true(value: &Value) -> bool {
    value == true || value == "true"
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn small(value: &Value) -> Option<u32> {
    number(value).and_then(|number| u32::try_from(number).ok())
}

fn decimal(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn missing(at: &str, what: &'static str) -> Error {
    Error::Missing { at: at.to_owned(), what }
}

fn unknown(at: &str, name: &str) -> Error {
    Error::Unknown { at: at.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
Parameters:
  Environment: { Type: String, Default: local }
  Suffix: { Type: String, Default: "" }
  EventsTableName: { Type: String, Default: events }
Conditions:
  IsProd: { Fn::Equals: [{ Ref: Environment }, prod] }
  IsNotProd: { Fn::Not: [{ Condition: IsProd }] }
Resources:
  EventsTable:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: { Ref: EventsTableName }
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }, { AttributeName: gsi, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      GlobalSecondaryIndexes:
        - IndexName: GSI1
          KeySchema: [{ AttributeName: gsi, KeyType: HASH }]
          Projection: { ProjectionType: ALL }
      TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }
      DeletionProtectionEnabled: { Fn::If: [IsProd, true, { Ref: AWS::NoValue }] }
  OnlyInProd:
    Type: AWS::SQS::Queue
    Condition: IsProd
  WorkFunction:
    Type: AWS::Lambda::Function
    Properties:
      FunctionName: { Fn::Sub: "work${Suffix}" }
      Timeout: 60
      Environment:
        Variables:
          TABLE_NAME: { Ref: EventsTable }
          NEXT: { Ref: WorkAlias }
          RETRIES: 3
          JOINED: { Fn::Join: ["-", [a, { Ref: Environment }]] }
  WorkAlias:
    Type: AWS::Lambda::Alias
    Properties: { Name: live, FunctionName: { Ref: WorkFunction }, FunctionVersion: "1" }
  WorkFailures:
    Type: AWS::SQS::Queue
    Properties: { QueueName: { Fn::Sub: "work-failures${Suffix}" }, MessageRetentionPeriod: 1209600 }
  WorkInvokeConfig:
    Type: AWS::Lambda::EventInvokeConfig
    Properties:
      FunctionName: { Ref: WorkFunction }
      Qualifier: live
      MaximumRetryAttempts: 1
      DestinationConfig: { OnFailure: { Destination: { Fn::GetAtt: [WorkFailures, Arn] } } }
  WorkIntegration:
    Type: AWS::ApiGatewayV2::Integration
    Properties: { IntegrationUri: { Ref: WorkAlias }, TimeoutInMillis: 3500 }
  WorkRoute:
    Type: AWS::ApiGatewayV2::Route
    Properties: { RouteKey: POST /work, Target: { Fn::Sub: "integrations/${WorkIntegration}" } }
  WorkSchedule:
    Type: AWS::Scheduler::Schedule
    Properties:
      Name: work-schedule
      ScheduleExpression: rate(5 minutes)
      FlexibleTimeWindow: { Mode: "OFF" }
      Target: { Arn: { Ref: WorkAlias }, RoleArn: { Fn::GetAtt: [WorkRole, Arn] }, Input: '{"from":"schedule"}' }
  WorkRole: { Type: AWS::IAM::Role }
  WorkAlarm:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: { Fn::Sub: "work-errors${Suffix}" }
      Namespace: AWS/Lambda
      MetricName: Errors
      Dimensions: [{ Name: Resource, Value: { Fn::Sub: "${WorkFunction}:live" } }]
      Statistic: Sum
      Period: 300
      EvaluationPeriods: 3
      ComparisonOperator: GreaterThanThreshold
      Threshold: 0.5
Outputs:
  TableArn: { Value: { Fn::GetAtt: [EventsTable, Arn] } }
"#;

    fn small() -> Template {
        Template::read(SMALL, &BTreeMap::new()).expect("a template")
    }

    #[test]
    fn a_table_is_what_create_table_takes() {
        let tables = small().tables();
        let [table] = tables.as_slice() else { panic!("one table: {tables:?}") };
        assert_eq!((table.name.as_str(), table.ttl.as_deref()), ("events", Some("ttl")));
        assert_eq!(table.create["GlobalSecondaryIndexes"][0]["IndexName"], "GSI1");
        assert_eq!(table.create.get("TimeToLiveSpecification"), None);
    }

    #[test]
    fn a_function_has_its_variables_as_text_and_knows_where_its_failures_go() {
        let functions = small().functions();
        let [function] = functions.as_slice() else { panic!("one function: {functions:?}") };
        let expected = [
            ("JOINED", "a-local"),
            ("NEXT", "arn:aws:lambda:ap-northeast-1:000000000000:function:work:live"),
            ("RETRIES", "3"),
            ("TABLE_NAME", "events"),
        ];
        assert_eq!(function.environment, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!((function.timeout, function.retries), (Duration::from_secs(60), 1));
        assert_eq!(function.on_failure.as_deref(), Some("arn:aws:sqs:ap-northeast-1:000000000000:work-failures"));
    }

    #[test]
    fn schedules_and_routes_lead_to_functions_by_name() {
        let template = small();
        let schedules = template.schedules().expect("schedules");
        assert_eq!((schedules[0].name.as_str(), schedules[0].function.as_str()), ("work-schedule", "work"));
        assert_eq!(schedules[0].input, json!({"from": "schedule"}));
        let routes = template.routes().expect("routes");
        assert_eq!((routes[0].key.as_str(), routes[0].function.as_str()), ("POST /work", "work"));
        assert_eq!(routes[0].timeout, Duration::from_millis(3_500));
    }

    #[test]
    fn an_alarm_needs_every_period_unless_it_says_how_many() {
        let alarms = small().alarms().expect("alarms");
        assert_eq!((alarms[0].evaluation_periods, alarms[0].datapoints_to_alarm), (3, 3));
        assert_eq!(alarms[0].dimensions["Resource"], "work:live");
        assert_eq!(alarms[0].missing_data, "missing");
    }

    #[test]
    fn conditions_decide_what_is_there() {
        let template = small();
        assert!(!template.resources.contains_key("OnlyInProd"));
        assert_eq!(template.resources["EventsTable"].properties.get("DeletionProtectionEnabled"), None);
        let prod = BTreeMap::from([("Environment".to_owned(), json!("prod")), ("Suffix".to_owned(), json!("-x"))]);
        let template = Template::read(SMALL, &prod).expect("a template");
        assert!(template.resources.contains_key("OnlyInProd"));
        assert_eq!(template.resources["EventsTable"].properties["DeletionProtectionEnabled"], true);
        assert_eq!(template.functions()[0].name, "work-x");
    }

    #[test]
    fn a_reference_to_nothing_says_where_it_is() {
        let text = SMALL.replace("{ Ref: EventsTable }", "{ Ref: Nothing }");
        let error = Template::read(&text, &BTreeMap::new()).expect_err("an error");
        assert_eq!(error.to_string(), "WorkFunction: there is no Nothing");
        let text = SMALL.replace("Fn::Join: [\"-\"", "Fn::Select: [\"-\"");
        assert!(matches!(Template::read(&text, &BTreeMap::new()), Err(Error::NotUnderstood { .. })));
    }

    #[test]
    fn lists_are_split_and_chosen_from_and_mappings_looked_up() {
        let text = r#"
Parameters: { Environment: { Type: String }, Unused: { Type: String } }
Mappings: { Settings: { dev: { Interval: 15 }, prod: { Interval: 30 } } }
Resources:
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      Second: { Fn::Select: [1, { Fn::Split: [".", "a.b.c"] }] }
      Interval: { Fn::FindInMap: [Settings, { Ref: Environment }, Interval] }
  Other: { Type: AWS::SQS::Queue, Properties: { Name: { Ref: Unused } } }
"#;
        let given = BTreeMap::from([("Environment".to_owned(), json!("prod"))]);
        let document = Document::read(text, &given).expect("a document");
        assert_eq!(document.properties("Queue").expect("what is asked for"), json!({"Second": "b", "Interval": 30}));
        assert!(matches!(document.properties("Other"), Err(Error::NoValue(name)) if name == "Unused"));
        assert!(matches!(Template::read(text, &given), Err(Error::NoValue(name)) if name == "Unused"));
        let outside = text.replace("[1, {", "[7, {");
        let document = Document::read(&outside, &given).expect("a document");
        assert!(matches!(document.properties("Queue"), Err(Error::NotUnderstood { .. })));
    }

    #[test]
    fn a_function_goes_by_its_name_its_logical_id_and_its_aliases() {
        let document = Document::read(SMALL, &BTreeMap::new()).expect("a document");
        let names = document.function_names(&arn("lambda", "function:work:live")).expect("names");
        assert_eq!(names, ["work", "WorkFunction", "WorkAlias"]);
    }

    #[test]
    fn every_template_of_the_project_can_be_read() {
        let templates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/templates");
        let mut read = 0;
        for entry in std::fs::read_dir(templates).expect("infra/templates") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a template");
            let template =
                Template::read(&text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let parts = (template.schedules(), template.routes(), template.alarms());
            assert!(parts.0.is_ok() && parts.1.is_ok() && parts.2.is_ok(), "{}: {parts:?}", path.display());
            read += 1;
        }
        assert!(read > 0, "there are templates");
    }

    #[test]
    fn a_function_is_found_by_name_arn_alias_and_integration() {
        let arn = arn("lambda", "function:work:live");
        let integration = format!("arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{arn}/invocations");
        for reference in ["work", "work:live", &arn, &integration] {
            assert_eq!(function_name(&Value::from(reference)), "work", "{reference}");
        }
    }
}
