//! The Lambda function of this application.

pub mod resolver;
