//! The shipped active applications: their capsules as bundles, compiled from `apps/` at build time.
