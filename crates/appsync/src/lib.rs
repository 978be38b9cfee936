//! appsync
