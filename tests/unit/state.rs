//! The rules of soft state in the node's own table.

use crate::rules::{KEEP_MS, Kept, hold};
use anode::core::domain::{Domain, DomainId, Domains};
use anode::core::state_store::{Change, Refused, StateStore, Value};
use anode::trust::limits::Limits;

/// The state of one domain.
struct Table(StateStore, Domains, DomainId);

impl Kept for Table {
    fn value(&mut self, key: u64, now: u64) -> Option<Value> {
        self.0.value(self.2, key, now).copied()
    }

    fn change(&mut self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused> {
        self.0.change(&mut self.1, self.2, key, change, keep_ms, now)
    }
}

#[test]
fn the_rules_of_soft_state_hold_in_the_table() {
    hold(|| {
        let mut domains = Domains::default();
        let limits = Limits { keep_ms_max: KEEP_MS, ..Limits::default() };
        let domain = domains.create(domains.root(), Domain::new("d".into(), limits)).unwrap();
        Table(StateStore::new(64), domains, domain)
    });
}
