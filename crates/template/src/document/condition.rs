//! Conditions.

use serde_json::Value;

use super::intrinsic::intrinsic;
use super::{Depth, Document};
use crate::Error;
use crate::json::plain;

impl Document {
    pub(super) fn condition(&self, name: &str, at: &str, depth: Depth<'_>) -> Result<bool, Error> {
        let definition = self.text["Conditions"].get(name).ok_or_else(|| Error::unknown(at, name))?;
        self.decide(definition, at, depth.deeper())
    }

    pub(super) fn decide(&self, definition: &Value, at: &str, depth: Depth<'_>) -> Result<bool, Error> {
        let not_understood = || Error::not_understood(at, format!("the condition {definition}"));
        depth.spend(at, 1)?;
        let (name, argument) = definition.as_object().and_then(intrinsic).ok_or_else(not_understood)?;
        let all = || -> Result<Vec<bool>, Error> {
            let parts = argument.as_array().ok_or_else(not_understood)?;
            parts.iter().map(|part| self.decide(part, at, depth.deeper())).collect()
        };
        match name {
            "Fn::Equals" => {
                match self.value(argument, at, depth.deeper())?.as_ref().and_then(Value::as_array).map(Vec::as_slice) {
                    // To CloudFormation every parameter is text, also one that looks like a number.
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
}
