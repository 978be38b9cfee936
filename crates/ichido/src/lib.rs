//! ichido
