//! Messages between a node and its environments: there and back.

use super::*;
use proptest::prelude::*;

fn spec() -> ChanSpec {
    let key = vec![KeyTuple { offset: 2, length: 2, value: 7, mask: 0xff }];
    let (protocol, address) = ("if0/ip/udp".into(), "10.0.0.2:5000".into());
    ChanSpec { protocol, address, key, max_threads: 4, bandwidth: 1 << 40, buffers: 256 }
}

fn round_trip(call: Call) {
    let mut bytes = vec![];
    call.encode(7, &mut bytes);
    assert_eq!(Call::decode(&bytes), Some((7, call)));
    for cut in 0..bytes.len() {
        assert_eq!(Call::decode(&bytes[..cut]), None, "cut to {cut}");
    }
    bytes.push(0);
    assert_eq!(Call::decode(&bytes), None);
}

#[test]
fn calls_come_back_and_nothing_shorter_or_longer_does() {
    let title = "é".to_string();
    let domain = DomainSpec { title, pool: Some(9), role: Some("ee".into()), ..DomainSpec::default() };
    round_trip(Call::Hello { version: VERSION, domain });
    round_trip(Call::InChanCreate { domain: 3, spec: spec() });
    round_trip(Call::PoolCharge { pool: 1, bytes: -5 });
    round_trip(Call::StateExchange { domain: 1, key: 2, expected: 3, value: [4; STATE_VALUE], keep_ms: 5 });
    round_trip(Call::FileWrite { file: 1, offset: 2, contents: Contents(vec![1; 300]) });
}

#[test]
fn what_is_too_long_is_no_message() {
    let mut bytes = vec![];
    let contents = Contents(vec![0; FILE_BYTES_MAX + 1]);
    Call::FileWrite { file: 1, offset: 2, contents }.encode(1, &mut bytes);
    assert_eq!(Call::decode(&bytes), None);
    bytes.clear();
    Call::FileUnlink { domain: 0, space: None, path: "x".repeat(TEXT_MAX + 1) }.encode(1, &mut bytes);
    assert_eq!(Call::decode(&bytes), None);
}

proptest! {
    #[test]
    fn what_decodes_is_encoded_to_the_same_bytes(code in 0u8..160, mut bytes in prop::collection::vec(0u8..4, 0..80)) {
        bytes.insert(0, code);
        if let Some((number, call)) = Call::decode(&bytes) {
            let mut again = vec![];
            call.encode(number, &mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Some((number, answer)) = Answer::decode(&bytes) {
            let mut again = vec![];
            answer.encode(number, &mut again);
            prop_assert_eq!(&again, &bytes);
        }
    }
}
