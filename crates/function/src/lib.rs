//! function
