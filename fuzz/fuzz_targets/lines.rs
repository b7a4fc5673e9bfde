//! Any bytes as a line table: what is accepted is canonical, and every place of it has a line or none.
#![no_main]

use anode_fuzz::code::bundle::{Kind, Lines};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(lines) = Lines::parse(bytes) {
        assert_eq!(lines.encode().as_deref(), Some(bytes));
        for at in [0, 1, 100, usize::MAX] {
            Kind::ALL.iter().for_each(|kind| drop(lines.find(*kind, at)));
        }
    }
});
