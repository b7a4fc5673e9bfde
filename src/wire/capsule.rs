//! capsule
