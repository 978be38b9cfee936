//! Where `null` may stand in an answer.
//!
//! A field that failed is `null`. If its type forbids that, its parent becomes `null` instead, and so on upwards. The executor
//! and the messages to subscribers both follow this rule.

use apollo_compiler::Name;
use apollo_compiler::ast::Type;

use crate::response::Data;

/// A value is `null` and its type forbids that: the parent has to become `null`.
pub(crate) struct Propagate;

/// Puts `null` here if the type allows it. Otherwise the parent has to become `null`.
pub(crate) fn absorb(data: Result<Data, Propagate>, ty: &Type) -> Result<Data, Propagate> {
    match data {
        Err(Propagate) if !ty.is_non_null() => Ok(Data::Null),
        other => other,
    }
}

/// AppSync's message about a `null` that the type forbids.
pub(crate) fn forbidden(ty: &Type, parent: &Name, place: &str) -> String {
    format!("Cannot return null for non-nullable type: '{}' within parent '{parent}' ({place})", ty.inner_named_type())
}
