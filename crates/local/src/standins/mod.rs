//! The outside APIs for which there is a stand-in, a module each.

pub mod bigquery;
pub mod mastodon;
pub mod pushover;
pub mod sample_feeds;
pub mod slack;
