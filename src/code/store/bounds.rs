//! Bounds of a store that its errors name.

/// The largest object: a representation of 64 KiB.
pub const OBJECT_MAX: usize = crate::code::bundle::REPRESENTATION_MAX;
