//! CloudFormation's intrinsic functions, in their long form, over one template.
//!
//! Attributes of resources have no values before deployment, so they get names that say what they
//! are: a function's `FunctionId` is its logical id, an ARN is one in a made-up account.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::Error;

const ACCOUNT: &str = "000000000000";
const REGION: &str = "local";
/// References that refer to references; also what stops a circle.
const MAX_DEPTH: usize = 64;

pub(super) struct Evaluator {
    resources: Map<String, Value>,
    mappings: Value,
    conditions: Map<String, Value>,
    parameters: HashMap<String, Value>,
    /// Parameters that have no value; an error only if something needs one.
    missing: HashSet<String>,
    /// Which function resource an ARN that was handed out stands for.
    functions: RefCell<HashMap<String, Vec<String>>>,
}

impl Evaluator {
    pub(super) fn new(yaml: &str, given: &[(&str, &str)]) -> Result<Self, Error> {
        let template: Value = serde_yaml_ng::from_str(yaml).map_err(|error| Error::Syntax(error.to_string()))?;
        let part = |name: &str| template.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let resources = part("Resources");
        if resources.is_empty() {
            return Err(Error::Syntax("there are no Resources".to_owned()));
        }
        let mut parameters: HashMap<String, Value> = HashMap::new();
        let mut missing = HashSet::new();
        for (name, definition) in part("Parameters") {
            let value = given.iter().find(|(given, _)| *given == name).map(|(_, value)| json!(value));
            match value.or_else(|| definition.get("Default").map(text_or_list)) {
                Some(value) => {
                    parameters.insert(name, value);
                }
                None => {
                    missing.insert(name);
                }
            }
        }
        for (name, value) in [
            ("AWS::AccountId", ACCOUNT),
            ("AWS::Region", REGION),
            ("AWS::Partition", "aws"),
            ("AWS::StackName", "local"),
            ("AWS::StackId", "arn:aws:cloudformation:local:000000000000:stack/local/local"),
            ("AWS::URLSuffix", "amazonaws.com"),
        ] {
            let value = given.iter().find(|(given, _)| *given == name).map_or(value, |(_, value)| value);
            parameters.insert(name.to_owned(), json!(value));
        }
        Ok(Self {
            resources,
            mappings: template.get("Mappings").cloned().unwrap_or(Value::Null),
            conditions: part("Conditions"),
            parameters,
            missing,
            functions: RefCell::default(),
        })
    }

    /// The logical ids of a type, in the order of the template, without those whose condition is false.
    pub(super) fn of_type(&self, kind: &str) -> Vec<String> {
        self.resources
            .iter()
            .filter(|(_, resource)| resource["Type"].as_str() == Some(kind))
            .filter(|(_, resource)| match resource["Condition"].as_str() {
                Some(condition) => self.condition(condition, 0).unwrap_or(true),
                None => true,
            })
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// A resource's properties, evaluated.
    pub(super) fn properties(&self, id: &str) -> Result<Value, Error> {
        let properties = self.resources.get(id).map(|resource| &resource["Properties"]);
        match properties {
            Some(properties) if !properties.is_null() => self.evaluate(properties, id, 0),
            _ => Ok(json!({})),
        }
    }

    /// The names under which an embedding program may have registered the function of an ARN.
    pub(super) fn function_names(&self, arn: &str) -> Vec<String> {
        if let Some(names) = self.functions.borrow().get(arn) {
            return names.clone();
        }
        // arn:aws:lambda:REGION:ACCOUNT:function:NAME[:ALIAS]
        let name = arn.split(':').nth(6).unwrap_or(arn);
        vec![name.to_owned()]
    }

    fn evaluate(&self, value: &Value, place: &str, depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Unsupported {
                place: place.to_owned(),
                what: "a reference that leads back to itself".to_owned(),
            });
        }
        match value {
            Value::Object(map) => {
                if let (1, Some((name, argument))) = (map.len(), map.iter().next())
                    && (name == "Ref" || name.starts_with("Fn::"))
                {
                    return self.call(name, argument, place, depth + 1);
                }
                let mut out = Map::new();
                for (name, value) in map {
                    let value = self.evaluate(value, place, depth + 1)?;
                    // AWS::NoValue removes its property.
                    if value != no_value() {
                        out.insert(name.clone(), value);
                    }
                }
                Ok(Value::Object(out))
            }
            Value::Array(items) => {
                let items: Vec<Value> =
                    items.iter().map(|item| self.evaluate(item, place, depth + 1)).collect::<Result<_, _>>()?;
                Ok(Value::Array(items.into_iter().filter(|item| *item != no_value()).collect()))
            }
            other => Ok(other.clone()),
        }
    }

    fn text(&self, value: &Value, place: &str, depth: usize) -> Result<String, Error> {
        match self.evaluate(value, place, depth)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            _ => Err(Error::Property { place: place.to_owned(), property: "a text".to_owned() }),
        }
    }

    fn call(&self, name: &str, argument: &Value, place: &str, depth: usize) -> Result<Value, Error> {
        let wrong = || Error::Property { place: place.to_owned(), property: name.to_owned() };
        let list = |least: usize| argument.as_array().filter(|list| list.len() >= least).ok_or_else(wrong);
        match name {
            "Ref" => self.reference(argument.as_str().ok_or_else(wrong)?, place, depth),
            "Fn::GetAtt" => match argument {
                Value::String(text) => {
                    let (id, attribute) = text.split_once('.').ok_or_else(wrong)?;
                    self.attribute(id, attribute, place, depth)
                }
                _ => {
                    let parts = list(2)?;
                    let attribute = self.text(&parts[1], place, depth)?;
                    self.attribute(parts[0].as_str().ok_or_else(wrong)?, &attribute, place, depth)
                }
            },
            "Fn::Sub" => self.substitute(argument, place, depth),
            "Fn::Join" => {
                let parts = list(2)?;
                let separator = parts[0].as_str().ok_or_else(wrong)?;
                let items = self.evaluate(&parts[1], place, depth)?;
                let items: Vec<String> = items
                    .as_array()
                    .ok_or_else(wrong)?
                    .iter()
                    .map(|item| self.text(item, place, depth))
                    .collect::<Result<_, _>>()?;
                Ok(json!(items.join(separator)))
            }
            "Fn::Select" => {
                let parts = list(2)?;
                let index: usize = self.text(&parts[0], place, depth)?.parse().map_err(|_| wrong())?;
                let items = self.evaluate(&parts[1], place, depth)?;
                items.get(index).cloned().ok_or_else(wrong)
            }
            "Fn::Split" => {
                let parts = list(2)?;
                let text = self.text(&parts[1], place, depth)?;
                Ok(text.split(parts[0].as_str().ok_or_else(wrong)?).map(Value::from).collect())
            }
            "Fn::If" => {
                let parts = list(3)?;
                let chosen =
                    if self.condition(parts[0].as_str().ok_or_else(wrong)?, depth)? { &parts[1] } else { &parts[2] };
                self.evaluate(chosen, place, depth)
            }
            "Fn::FindInMap" => {
                let parts = list(3)?;
                let mut at = &self.mappings;
                for part in &parts[..3] {
                    at = at.get(self.text(part, place, depth)?).ok_or_else(wrong)?;
                }
                Ok(at.clone())
            }
            "Fn::Base64" => self.evaluate(argument, place, depth),
            other => Err(Error::Unsupported { place: place.to_owned(), what: other.to_owned() }),
        }
    }

    fn reference(&self, name: &str, place: &str, depth: usize) -> Result<Value, Error> {
        if name == "AWS::NoValue" {
            return Ok(no_value());
        }
        if let Some(value) = self.parameters.get(name) {
            return Ok(value.clone());
        }
        if self.missing.contains(name) {
            return Err(Error::Parameter(name.to_owned()));
        }
        let Some(resource) = self.resources.get(name) else {
            return Err(Error::Reference { place: place.to_owned(), name: name.to_owned() });
        };
        let named = |property: &str| match resource["Properties"].get(property) {
            Some(value) => self.evaluate(value, name, depth + 1),
            None => Ok(json!(name)),
        };
        match resource["Type"].as_str().unwrap_or_default() {
            "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => named("TableName"),
            "AWS::Lambda::Function" => named("FunctionName"),
            "AWS::Lambda::Alias" | "AWS::Lambda::Version" => self.function_arn(name, place, depth),
            _ => Ok(json!(name)),
        }
    }

    fn attribute(&self, id: &str, attribute: &str, place: &str, depth: usize) -> Result<Value, Error> {
        let Some(resource) = self.resources.get(id) else {
            return Err(Error::Reference { place: place.to_owned(), name: id.to_owned() });
        };
        match (resource["Type"].as_str().unwrap_or_default(), attribute) {
            ("AWS::AppSync::FunctionConfiguration", "FunctionId") => Ok(json!(id)),
            ("AWS::AppSync::DataSource", "Name") => {
                self.evaluate(resource["Properties"].get("Name").unwrap_or(&Value::Null), id, depth + 1)
            }
            ("AWS::Lambda::Function", "Arn") | ("AWS::Lambda::Alias" | "AWS::Lambda::Version", _) => {
                self.function_arn(id, place, depth)
            }
            ("AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable", "Arn") => {
                let table = self.reference(id, place, depth)?;
                Ok(json!(format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{}", table.as_str().unwrap_or(id))))
            }
            _ => Ok(json!(format!("{id}.{attribute}"))),
        }
    }

    /// An ARN for a function, an alias or a version, remembered with the names it may go by.
    fn function_arn(&self, id: &str, place: &str, depth: usize) -> Result<Value, Error> {
        let Some(resource) = self.resources.get(id) else {
            return Err(Error::Reference { place: place.to_owned(), name: id.to_owned() });
        };
        let name = match resource["Properties"].get("FunctionName") {
            Some(name) => self.text(name, id, depth + 1)?,
            None => id.to_owned(),
        };
        let arn = if name.starts_with("arn:") {
            name.clone()
        } else {
            format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")
        };
        let mut names = vec![name.clone(), id.to_owned()];
        // An alias names its function by a reference; its logical id counts as a name too.
        if let Some(target) =
            resource["Properties"].get("FunctionName").and_then(|target| target.get("Ref")).and_then(Value::as_str)
        {
            names.push(target.to_owned());
        }
        for (other, resource) in &self.resources {
            if resource["Type"].as_str() == Some("AWS::Lambda::Function")
                && self.reference(other, place, depth + 1).is_ok_and(|found| found.as_str() == Some(&name))
            {
                names.push(other.clone());
            }
        }
        self.functions.borrow_mut().insert(arn.clone(), names);
        Ok(json!(arn))
    }

    fn substitute(&self, argument: &Value, place: &str, depth: usize) -> Result<Value, Error> {
        let wrong = || Error::Property { place: place.to_owned(), property: "Fn::Sub".to_owned() };
        let (text, own) = match argument {
            Value::String(text) => (text.as_str(), None),
            Value::Array(parts) => {
                (parts.first().and_then(Value::as_str).ok_or_else(wrong)?, parts.get(1).and_then(Value::as_object))
            }
            _ => return Err(wrong()),
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            let end = rest[start..].find('}').ok_or_else(wrong)? + start;
            let name = &rest[start + 2..end];
            if let Some(literal) = name.strip_prefix('!') {
                out.push_str("${");
                out.push_str(literal);
                out.push('}');
            } else if let Some(value) = own.and_then(|own| own.get(name)) {
                out.push_str(&self.text(value, place, depth)?);
            } else {
                let value = match name.split_once('.') {
                    Some((id, attribute)) => self.attribute(id, attribute, place, depth)?,
                    None => self.reference(name, place, depth)?,
                };
                out.push_str(&self.text(&value, place, depth)?);
            }
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(json!(out))
    }

    fn condition(&self, name: &str, depth: usize) -> Result<bool, Error> {
        let Some(definition) = self.conditions.get(name) else {
            return Err(Error::Reference { place: "Conditions".to_owned(), name: name.to_owned() });
        };
        self.test(definition, depth + 1)
    }

    fn test(&self, value: &Value, depth: usize) -> Result<bool, Error> {
        let wrong = || Error::Property { place: "Conditions".to_owned(), property: value.to_string() };
        if depth > MAX_DEPTH {
            return Err(wrong());
        }
        let (name, argument) = value.as_object().and_then(|map| map.iter().next()).ok_or_else(wrong)?;
        let list = || argument.as_array().ok_or_else(wrong);
        match name.as_str() {
            "Condition" => self.condition(argument.as_str().ok_or_else(wrong)?, depth),
            "Fn::Equals" => {
                let parts = list()?;
                let [first, second] = parts.as_slice() else { return Err(wrong()) };
                Ok(self.text(first, "Conditions", depth)? == self.text(second, "Conditions", depth)?)
            }
            "Fn::Not" => Ok(!self.test(list()?.first().ok_or_else(wrong)?, depth + 1)?),
            "Fn::And" => list()?.iter().try_fold(true, |all, part| Ok(all && self.test(part, depth + 1)?)),
            "Fn::Or" => list()?.iter().try_fold(false, |any, part| Ok(any || self.test(part, depth + 1)?)),
            _ => Err(wrong()),
        }
    }
}

fn no_value() -> Value {
    json!({"\u{0}": "AWS::NoValue"})
}

fn text_or_list(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Bool(flag) => Value::String(flag.to_string()),
        other => other.clone(),
    }
}
