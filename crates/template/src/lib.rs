//! Reads CloudFormation templates as they would be deployed, without CloudFormation.
//!
//! ```text
//! YAML ──▶ Document ── resolves ──▶ Template ──▶ tables, functions, queues, schedules, routes, alarms, metric filters
//! ```
//!
//! **Promise.** What a reader gets is what would be deployed. Parameters have the given values or their defaults.
//! Conditions are decided. `Ref`, `Fn::Sub`, `Fn::GetAtt`, `Fn::If`, `Fn::Join`, `Fn::Split`, `Fn::Select`,
//! `Fn::FindInMap` and the condition functions are resolved. Values that only AWS knows, the id of an API for example,
//! become the logical id or `LogicalId.Attribute`.
//!
//! | what is wrong | what happens |
//! |---|---|
//! | the text is not YAML | [`Error::Yaml`] |
//! | a parameter has no value | [`Error::NoValue`] names it |
//! | a reference to something that is not there | [`Error::Unknown`] names the place and the reference |
//! | another intrinsic function, a wrong form, references in a circle | [`Error::NotUnderstood`] names the place |
//!
//! A [`Template`] is resolved as a whole. A [`Document`] resolves only what it is asked for, for programs that need one part
//! of somebody else's template.
//!
//! The crate turns text into values. It uses no network, and reads no file except in [`file_parameters`].

mod document;
mod error;
mod json;
mod names;
mod resource;
mod template;

pub use document::Document;
pub use error::Error;
pub use names::{ACCOUNT, REGION, arn, function_name};
pub use resource::{Alarm, DEFAULT_ROUTE, Function, MetricFilter, Queue, Route, Schedule, Table, Throttle};
pub use template::{Resource, Template, file_parameters, file_parameters_with};
