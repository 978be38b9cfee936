//! [`Document`] and how its parts are resolved: values and functions (`intrinsic`), conditions (`condition`), and what a
//! reference returns (`reference`).

mod condition;
mod intrinsic;
mod reference;

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json::{members, text_of};
use crate::{Error, function_name};

/// References nest. Resolving stops at this depth, so that references in a circle end in an error.
const MAX_DEPTH: u32 = 64;
/// Resolving one part stops after so many values and bytes of text. Without this, a template of a few lines, each of which refers to the
/// next one twice, would take hours.
const MAX_WORK: usize = 256 * 1024;

/// How deep the references are that are being resolved, and what resolving them has taken so far.
#[derive(Clone, Copy)]
pub(crate) struct Depth<'a> {
    depth: u32,
    work: &'a Cell<usize>,
}

impl<'a> Depth<'a> {
    /// The depth of a part of the template that somebody asks for.
    pub(crate) fn zero(work: &'a Cell<usize>) -> Self {
        work.set(0);
        Self { depth: 0, work }
    }

    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn spend(self, at: &str, work: usize) -> Result<(), Error> {
        self.work.set(self.work.get().saturating_add(work));
        if self.depth > MAX_DEPTH {
            return Err(Error::not_understood(at, "a circle of references"));
        }
        if self.work.get() > MAX_WORK {
            return Err(Error::not_understood(at, "so many references"));
        }
        Ok(())
    }
}

/// A template of which only the parts that somebody asks for are resolved.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) text: Value,
    /// The parameters that have a value.
    pub(crate) parameters: BTreeMap<String, Value>,
}

impl Document {
    /// Reads a template. `parameters` replace its defaults; those that it does not declare are ignored.
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

    /// The logical ids of all resources of a type whose condition holds.
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
    /// When something in them cannot be resolved.
    pub fn properties(&self, id: &str) -> Result<Value, Error> {
        let properties = &self.text["Resources"][id]["Properties"];
        Ok(self
            .value(properties, id, Depth::zero(&Cell::default()))?
            .filter(|value| !value.is_null())
            .unwrap_or_else(|| json!({})))
    }

    /// Every name that the template has for the function that `reference` (a name or an ARN) refers to: its own name, its
    /// logical id and those of its aliases.
    ///
    /// # Errors
    /// When a function's or an alias's name cannot be resolved.
    pub fn function_names(&self, reference: &str) -> Result<Vec<String>, Error> {
        let name = function_name(&Value::from(reference));
        let mut names = vec![name.clone()];
        for kind in ["AWS::Lambda::Function", "AWS::Lambda::Alias"] {
            for id in self.of_kind(kind)? {
                if function_name(&Value::from(self.name(&id, "FunctionName", Depth::zero(&Cell::default()))?)) == name {
                    names.push(id);
                }
            }
        }
        Ok(names)
    }

    /// Whether the condition of a resource or an output holds.
    pub(crate) fn is_there(&self, id: &str, resource: &Value) -> Result<bool, Error> {
        match resource["Condition"].as_str() {
            Some(condition) => self.condition(condition, id, Depth::zero(&Cell::default())),
            None => Ok(true),
        }
    }

    fn kind(&self, id: &str, at: &str) -> Result<&str, Error> {
        self.text["Resources"][id]["Type"].as_str().ok_or_else(|| Error::unknown(at, id))
    }

    /// The property that names a resource, or its logical id if it has no such property.
    fn name(&self, id: &str, property: &str, depth: Depth<'_>) -> Result<String, Error> {
        let declared = &self.text["Resources"][id]["Properties"][property];
        let resolved = self.value(declared, id, depth.deeper())?;
        Ok(resolved.as_ref().and_then(text_of).unwrap_or_else(|| id.to_owned()))
    }
}
