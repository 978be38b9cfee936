#![doc = include_str!("../README.md")]

pub mod ledger;
pub mod library;
