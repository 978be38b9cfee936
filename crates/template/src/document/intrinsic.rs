//! Values and the intrinsic functions in them.

use serde_json::{Map, Value, json};

use super::{Depth, Document};
use crate::Error;
use crate::json::{number, plain};

/// `{"Ref": …}` and the like: an object whose only member is the name of a function.
pub(super) fn intrinsic(object: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = object.iter().next()?;
    let is_one = object.len() == 1
        && (name == "Ref" || name.starts_with("Fn::") || (name == "Condition" && argument.is_string()));
    is_one.then_some((name.as_str(), argument))
}

impl Document {
    /// A value with all intrinsic functions in it resolved. `None` is `AWS::NoValue`.
    pub(crate) fn value(&self, value: &Value, at: &str, depth: Depth<'_>) -> Result<Option<Value>, Error> {
        depth.spend(at, 1)?;
        match value {
            Value::Array(items) => {
                let mut resolved = Vec::with_capacity(items.len());
                for item in items {
                    resolved.extend(self.value(item, at, depth.deeper())?);
                }
                Ok(Some(Value::Array(resolved)))
            }
            Value::Object(object) => match intrinsic(object) {
                Some((name, argument)) => self.intrinsic(name, argument, at, depth.deeper()),
                None => {
                    let mut resolved = Map::new();
                    for (name, member) in object {
                        if let Some(member) = self.value(member, at, depth.deeper())? {
                            resolved.insert(name.clone(), member);
                        }
                    }
                    Ok(Some(Value::Object(resolved)))
                }
            },
            plain => Ok(Some(plain.clone())),
        }
    }

    fn intrinsic(&self, name: &str, argument: &Value, at: &str, depth: Depth<'_>) -> Result<Option<Value>, Error> {
        let not_understood = || Error::not_understood(at, format!("{name}: {argument}"));
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
                    let joined = list.iter().map(plain).collect::<Vec<_>>().join(between);
                    depth.spend(at, joined.len())?;
                    Ok(Some(Value::from(joined)))
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

    fn substitute(&self, text: &str, names: &Map<String, Value>, at: &str, depth: Depth<'_>) -> Result<Value, Error> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let not_closed = || Error::not_understood(at, format!("Fn::Sub: {text}"));
            let (name, tail) = after.split_once('}').ok_or_else(not_closed)?;
            rest = tail;
            if let Some(literal) = name.strip_prefix('!') {
                out.push_str("${");
                out.push_str(literal);
                out.push('}');
                continue;
            }
            let before_value = out.len();
            let value = match names.get(name) {
                Some(given) => self.value(given, at, depth)?.unwrap_or_default(),
                None => match name.split_once('.') {
                    Some((id, attribute)) => self.attribute(id, attribute, at, depth)?,
                    None => self.reference(name, at, depth)?,
                },
            };
            out.push_str(&plain(&value));
            depth.spend(at, out.len() - before_value)?;
        }
        out.push_str(rest);
        Ok(Value::from(out))
    }
}
