//! Programs that the scanner accepts to the linker: it makes all the calls there are.
#![no_main]

use anode_fuzz::{instructions, programs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    instructions::linked(&programs::environment(), &programs::program(bytes));
});
