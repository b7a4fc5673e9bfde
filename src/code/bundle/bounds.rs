//! Bounds of a bundle that its errors name.

/// The most bytes of a manifest.
pub const MANIFEST_MAX: usize = 4096;
