//! Former names of reasons for drops and of counters, for readers of a node's status of the version before; they go with
//! the next version.
//!
//! A former name stays under `drops` if no reason has it any more, with the sum of its reasons. `drops_before`, beside
//! it, has all former names, also those of reasons with a narrower meaning now ([`super::observe::told`]). `docs/drops.md` has the table.

use super::observe::told::is_reason;

/// Counters that have another name now.
const COUNTERS: [&str; 1] = ["lifted"];

/// Whether a field is there only for readers of the version before, beside the same count under its name of now.
pub fn is_former(name: &str, of_drops: bool) -> bool {
    COUNTERS.contains(&name) || of_drops && !is_reason(name)
}
