//! manage
