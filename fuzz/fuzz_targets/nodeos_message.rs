//! Any bytes as a call of a process and as an answer of the node: what decodes is encoded again to the same bytes.
#![no_main]

use anode1::message::{Answer, Call};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut again = Vec::new();
    if let Some((number, call)) = Call::decode(bytes) {
        call.encode(number, &mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Some((number, answer)) = Answer::decode(bytes) {
        answer.encode(number, &mut again);
        assert_eq!(again, bytes);
    }
});
