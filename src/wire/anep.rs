//! anep
