//! The schema: the SDL as written, and what AppSync adds to it.
//!
//! AWS's scalars and `@aws_*` directives need no declaration. An SDL may declare them, as some code generators need it.
//! Directives for authorisation modes that this crate does not have are refused by name.

use std::collections::{HashMap, HashSet};

use apollo_compiler::ast::{self, Definition};
use apollo_compiler::schema::{ExtendedType, FieldDefinition, Implementers};
use apollo_compiler::validation::Valid;
use apollo_compiler::{Name, Node};

use crate::auth::Mode;
use crate::limits::MAX_QUERY_DEPTH;

const PRELUDE: &[(&str, &str)] = &[
    ("AWSDate", "scalar AWSDate"),
    ("AWSTime", "scalar AWSTime"),
    ("AWSDateTime", "scalar AWSDateTime"),
    ("AWSTimestamp", "scalar AWSTimestamp"),
    ("AWSEmail", "scalar AWSEmail"),
    ("AWSJSON", "scalar AWSJSON"),
    ("AWSURL", "scalar AWSURL"),
    ("AWSPhone", "scalar AWSPhone"),
    ("AWSIPAddress", "scalar AWSIPAddress"),
    ("@aws_subscribe", "directive @aws_subscribe(mutations: [String!]!) on FIELD_DEFINITION"),
    ("@aws_api_key", "directive @aws_api_key on FIELD_DEFINITION | OBJECT | SCHEMA"),
    ("@aws_iam", "directive @aws_iam on FIELD_DEFINITION | OBJECT | SCHEMA"),
    ("@aws_oidc", "directive @aws_oidc on FIELD_DEFINITION | OBJECT | SCHEMA"),
    ("@aws_lambda", "directive @aws_lambda on FIELD_DEFINITION | OBJECT | SCHEMA"),
    (
        "@aws_cognito_user_pools",
        "directive @aws_cognito_user_pools(cognito_groups: [String!]) on FIELD_DEFINITION | OBJECT | SCHEMA",
    ),
    ("@aws_auth", "directive @aws_auth(cognito_groups: [String!]!) on FIELD_DEFINITION | OBJECT"),
];

/// Why a schema is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The SDL does not parse or is not a valid schema.
    #[error("the schema is not valid: {0}")]
    Invalid(String),
    /// `@aws_subscribe` names a mutation that does not exist.
    #[error("Subscription.{subscription} subscribes to the mutation `{mutation}`, which does not exist")]
    NoMutation {
        /// The field of the subscription type.
        subscription: String,
        /// The mutation that it names.
        mutation: String,
    },
    /// A subscription and its mutation return different types.
    #[error("Subscription.{subscription} returns {found}, but its mutation `{mutation}` returns {expected}")]
    OtherType {
        /// The field of the subscription type.
        subscription: String,
        /// The mutation.
        mutation: String,
        /// The subscription's type.
        found: String,
        /// The mutation's type.
        expected: String,
    },
    /// A subscription without a mutation.
    #[error("Subscription.{subscription} has no @aws_subscribe, so no mutation would ever publish to it")]
    NoSubscribe {
        /// The field of the subscription type.
        subscription: String,
    },
    /// A directive for an authorisation mode that this crate does not have.
    #[error("the directive @{0} is not supported; use @aws_api_key or @aws_iam")]
    UnsupportedDirective(String),
}

/// A valid schema, with what execution looks up often.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) valid: Valid<apollo_compiler::Schema>,
    pub(crate) implementers: apollo_compiler::collections::HashMap<Name, Implementers>,
    /// Subscription fields by the mutation that feeds them.
    pub(crate) subscribers: HashMap<String, Vec<String>>,
}

impl Schema {
    pub(crate) fn read(sdl: &str) -> Result<Self, Error> {
        let document = ast::Document::parser()
            .recursion_limit(MAX_QUERY_DEPTH * 4)
            .parse_ast(sdl, "schema.graphql")
            .map_err(|error| Error::Invalid(error.errors.to_string()))?;
        let declared: HashSet<String> = document
            .definitions
            .iter()
            .filter_map(|definition| match definition {
                Definition::DirectiveDefinition(directive) => Some(format!("@{}", directive.name)),
                other => other.name().map(ToString::to_string),
            })
            .collect();
        let prelude: String =
            PRELUDE.iter().filter(|(name, _)| !declared.contains(*name)).map(|(_, text)| format!("{text}\n")).collect();
        let valid = apollo_compiler::Schema::builder()
            .parse(prelude, "appsync.graphql")
            .add_ast(&document)
            .build()
            .map_err(|error| Error::Invalid(error.errors.to_string()))?
            .validate()
            .map_err(|error| Error::Invalid(error.errors.to_string()))?;
        let mut schema = Self { implementers: valid.implementers_map(), valid, subscribers: HashMap::new() };
        schema.check_directives()?;
        schema.subscribers = schema.read_subscriptions()?;
        Ok(schema)
    }

    pub(crate) fn root(&self, operation: ast::OperationType) -> Option<&Name> {
        self.valid.root_operation(operation)
    }

    pub(crate) fn field(&self, type_name: &str, field: &str) -> Option<&FieldDefinition> {
        match self.valid.types.get(type_name)? {
            ExtendedType::Object(object) => object.fields.get(field).map(|found| &***found),
            ExtendedType::Interface(interface) => interface.fields.get(field).map(|found| &***found),
            _ => None,
        }
    }

    /// The modes that may read a field: those of its own directives, else those of its type, else the default.
    pub(crate) fn modes(&self, type_name: &str, field: &FieldDefinition, default: Mode) -> Vec<Mode> {
        let of = |has: &dyn Fn(&str) -> bool| -> Vec<Mode> {
            Mode::ALL.into_iter().filter(|mode| has(mode.directive())).collect()
        };
        let own = of(&|name| field.directives.has(name));
        if !own.is_empty() {
            return own;
        }
        let of_type =
            self.valid.types.get(type_name).map(|found| of(&|name| found.directives().has(name))).unwrap_or_default();
        if of_type.is_empty() { vec![default] } else { of_type }
    }

    fn check_directives(&self) -> Result<(), Error> {
        const UNSUPPORTED: [&str; 4] = ["aws_oidc", "aws_lambda", "aws_cognito_user_pools", "aws_auth"];
        for found in self.valid.types.values() {
            let fields: Vec<&Node<FieldDefinition>> = match found {
                ExtendedType::Object(object) => object.fields.values().map(|field| &field.node).collect(),
                ExtendedType::Interface(interface) => interface.fields.values().map(|field| &field.node).collect(),
                _ => continue,
            };
            for name in UNSUPPORTED {
                if found.directives().has(name) || fields.iter().any(|field| field.directives.has(name)) {
                    return Err(Error::UnsupportedDirective(name.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn read_subscriptions(&self) -> Result<HashMap<String, Vec<String>>, Error> {
        let mut subscribers: HashMap<String, Vec<String>> = HashMap::new();
        let Some(root) = self.root(ast::OperationType::Subscription) else {
            return Ok(subscribers);
        };
        let Some(ExtendedType::Object(object)) = self.valid.types.get(root) else {
            return Ok(subscribers);
        };
        let mutations = self.root(ast::OperationType::Mutation);
        for (name, field) in &object.fields {
            let subscription = name.to_string();
            let Some(directive) = field.directives.get("aws_subscribe") else {
                return Err(Error::NoSubscribe { subscription });
            };
            let names = directive.specified_argument_by_name("mutations");
            let names: Vec<&str> = match names.map(|value| &**value) {
                Some(ast::Value::List(list)) => list.iter().filter_map(|value| value.as_str()).collect(),
                Some(ast::Value::String(name)) => vec![name.as_str()],
                _ => Vec::new(),
            };
            for mutation in names {
                let Some(definition) = mutations.and_then(|root| self.field(root, mutation)) else {
                    return Err(Error::NoMutation { subscription, mutation: mutation.to_owned() });
                };
                if definition.ty.inner_named_type() != field.ty.inner_named_type() {
                    return Err(Error::OtherType {
                        subscription,
                        mutation: mutation.to_owned(),
                        found: field.ty.to_string(),
                        expected: definition.ty.to_string(),
                    });
                }
                subscribers.entry(mutation.to_owned()).or_default().push(subscription.clone());
            }
        }
        Ok(subscribers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aws_scalars_and_directives_need_no_declaration_and_bear_one() {
        let sdl = "type Query { now: AWSDateTime @aws_api_key }";
        Schema::read(sdl).expect("without a declaration");
        Schema::read(&format!("scalar AWSDateTime\ndirective @aws_api_key on FIELD_DEFINITION\n{sdl}"))
            .expect("with one");
    }

    #[test]
    fn a_subscription_has_its_mutations_type() {
        let sdl = |kind: &str| {
            format!(
                "type Query {{ a: Int }} type Mutation {{ put: Thing }} type Thing {{ id: ID }} type Other {{ id: ID }}
                 type Subscription {{ onPut: {kind} @aws_subscribe(mutations: [\"put\"]) }}"
            )
        };
        assert_eq!(Schema::read(&sdl("Thing")).expect("same type").subscribers["put"], ["onPut"]);
        assert!(matches!(Schema::read(&sdl("Other")), Err(Error::OtherType { .. })));
    }

    #[test]
    fn modes_come_from_the_field_then_the_type_then_the_api() {
        let schema =
            Schema::read("type Query { a: Int  b: T } type T @aws_api_key @aws_iam { c: Int  d: Int @aws_iam }")
                .expect("reads");
        let modes = |parent: &str, name: &str| {
            schema.modes(parent, schema.field(parent, name).expect("is there"), Mode::ApiKey)
        };
        assert_eq!(modes("Query", "a"), [Mode::ApiKey]);
        assert_eq!(modes("T", "c"), [Mode::ApiKey, Mode::Iam]);
        assert_eq!(modes("T", "d"), [Mode::Iam]);
    }
}
