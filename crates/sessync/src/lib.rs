//! sessync
