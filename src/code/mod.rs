//! Mobile code: bundles, the store, fetching, and the run-times.

pub mod check;
pub mod fetch;
pub mod run;
