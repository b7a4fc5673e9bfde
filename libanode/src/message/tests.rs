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
    let (key, make) = (StoreKey(vec![0, 255]), Some(StoreSpec { bytes: 9, exclusive: true, persistent: false }));
    round_trip(Call::StoreOpen { domain: 1, holder: Some("ee".into()), name: "s".into(), make });
    round_trip(Call::StorePut {
        domain: 1,
        store: 2,
        key: key.clone(),
        value: StoreValue(vec![7; 300]),
        expected: Some(0),
    });
    round_trip(Call::StoreList {
        domain: 1,
        store: 2,
        snapshot: Some(3),
        prefix: StoreKey::default(),
        after: Some(key),
    });
    round_trip(Call::FileWrite { file: 1, offset: 2, contents: Contents(vec![1; 300]) });
}

#[test]
fn the_largest_value_is_a_message_and_its_answer_too() {
    let (key, value) = (StoreKey(vec![1; STORE_KEY_MAX]), StoreValue(vec![2; STORE_VALUE_MAX]));
    let (mut call, mut answer) = (vec![], vec![]);
    Call::StorePut { domain: 1, store: 2, key, value: value.clone(), expected: None }.encode(1, &mut call);
    Answer::Value { version: 3, value }.encode(1, &mut answer);
    assert!(call.len() <= MESSAGE_MAX && answer.len() <= MESSAGE_MAX);
    assert!(Call::decode(&call).is_some() && Answer::decode(&answer).is_some());
}

#[test]
fn what_is_too_long_is_no_message() {
    let mut bytes = vec![];
    for (key, value) in [(STORE_KEY_MAX + 1, 1), (1, STORE_VALUE_MAX + 1)] {
        let (key, value) = (StoreKey(vec![0; key]), StoreValue(vec![0; value]));
        Call::StorePut { domain: 1, store: 2, key, value, expected: None }.encode(1, &mut bytes);
        assert_eq!(Call::decode(&bytes), None);
        bytes.clear();
    }
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
