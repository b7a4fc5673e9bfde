//! Packets as bytes: encoded ones decode, decoded ones are canonical, and no bytes do harm.

mod common;

use common::generate::{Choices, source::source};
use common::{Recorder, THERE, both, header, program};
use plan::code::{Code, CodeError};
use plan::eval::Limits;
use plan::name::Name;
use plan::packet::{Code as Whole, DecodeError, FIXED, Library, Libraryless, Outline, Packet, View, ViewMut};
use plan::program::{Digest, Program};
use plan::value::{Callee, Chunk, Host, Value};
use proptest::prelude::*;
use std::sync::Arc;

fn decode(bytes: &[u8]) -> Result<Packet, DecodeError> {
    Packet::decode(bytes, &mut Libraryless(&Recorder::default()))
}

/// One value of every type.
fn values() -> Vec<Value> {
    let program = program("fun f(x) = |g|(x) fun g(x) = x fun unused() = 1");
    let inner = Chunk::of(&program, "g", vec![Value::Int(1)]).unwrap();
    let own = Name::new("Own").unwrap();
    let mut values = vec![
        Value::Unit,
        Value::Bool(true),
        Value::Bool(false),
        Value::Char(255),
        Value::text(*b"text"),
        Value::Blob((*b"blob").into()),
        Value::tuple(vec![Value::Int(1), Value::Unit]).unwrap(),
        Value::list((0..300).map(Value::Int)).unwrap(),
        Value::Chunk(Arc::new(inner)),
        Value::Chunk(Arc::new(Chunk::new(Callee::Service(own.clone()), vec![Value::Unit]).unwrap())),
        Value::Chunk(Arc::new(Chunk::of(&program, "f", vec![Value::Int(1)]).unwrap())),
        Value::Host(THERE),
        Value::Host(Host([7; 16])),
        Value::Port(u64::MAX),
        Value::Key([9; 16]),
        Value::Exn(own.clone()),
        Value::Exn(Name::NOT_ENOUGH_RB),
        Value::Dev(u32::MAX),
        Value::Service(own),
    ];
    values.extend([0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN].map(Value::Int));
    values
}

fn sample() -> Packet {
    let program = program("fun main(a, b) = (|main|(a, b); val1) val w = 1".replace("val1", "()").as_str());
    let list = Value::tuple(values()).unwrap();
    let chunk = Chunk::of(&program, "main", vec![list, Value::Unit]).unwrap();
    Packet { header: header(7), chunk: Arc::new(chunk) }
}

#[test]
fn every_kind_of_value_travels() {
    let packet = sample();
    let bytes = packet.bytes().unwrap();
    let found = decode(&bytes).unwrap();
    assert_eq!(found.header, packet.header);
    assert_eq!(*found.chunk, *packet.chunk);
    assert_eq!(found.bytes().unwrap(), bytes);
}

#[test]
fn a_node_on_the_way_turns_codes_into_digests_and_back() {
    let bytes = sample().bytes().unwrap();
    let front = Outline::read(&bytes).unwrap();
    assert_eq!(front.routing.as_str(), sample().header.routing.as_str());
    let codes: Vec<_> = front.codes().collect();
    assert_eq!(codes.len(), 3, "main alone, g alone, and f with the g that it needs");
    let (mut short, mut again) = (vec![7], Vec::new());
    front.contract(Digest::of, &mut short).unwrap();
    let digests = Outline::read(&short[1..]).unwrap();
    assert!(digests.view().by_digest());
    assert!(digests.codes().all(|code| matches!(code, Whole::Digest(_))) && digests.codes().count() == 3);
    let find = |digest: &Digest| {
        codes.iter().find_map(|code| match code {
            Whole::Whole(bytes) if Digest::of(bytes) == *digest => Some(*bytes),
            _ => None,
        })
    };
    digests.expand(find, &mut again).unwrap();
    assert_eq!(again, bytes);
    let before = short.len();
    assert!(matches!(digests.expand(|_| None, &mut again), Err(DecodeError::Absent(_))));
    assert_eq!((again.len(), short.len()), (bytes.len(), before), "what fails leaves nothing");
    for length in 0..FIXED + 2 {
        assert!(Outline::read(&bytes[..length]).is_err());
    }
}

#[test]
fn only_what_a_chunk_needs_travels() {
    let program = program("val a = 1 val b = 2 fun f() = a fun g() = |h|() fun h() = f() fun unused() = g()");
    let names = |function: &str| {
        let slice = program.slice(program.code().function(function).unwrap()).unwrap();
        let code = Code::read(&slice.bytes).unwrap();
        let entry = code.definitions()[usize::from(slice.entry)].name.to_string();
        let names: Vec<_> = code.definitions().iter().map(|definition| definition.name.to_string()).collect();
        (names.join(" "), entry)
    };
    assert_eq!(names("f"), ("a f".into(), "f".into()));
    assert_eq!(names("g"), ("a f g h".into(), "g".into()));
    assert_eq!(names("h"), ("a f h".into(), "h".into()));
    assert_eq!(names("unused"), ("a f g h unused".into(), "unused".into()));
    // A slice of a slice is the slice.
    let slice = program.slice(program.code().function("g").unwrap()).unwrap();
    let again = Program::read(&slice.bytes, &Recorder::default()).unwrap();
    assert_eq!(again.slice(slice.entry), Some(slice));
}

#[test]
fn a_packet_with_more_or_other_code_is_refused() {
    let program = program("fun f() = 1 fun g() = f()");
    let chunk = Chunk::of(&program, "f", vec![]).unwrap();
    let packet = Packet { header: header(1), chunk: Arc::new(chunk) };
    let small = packet.bytes().unwrap();
    let slice = &program.slice(0).unwrap().bytes;
    let whole = program.code().write();
    let at = small.windows(slice.len()).position(|window| *window == **slice).unwrap();
    // The whole code in the place of the slice: well-formed, but more than is needed.
    let mut large = small[..at - 1].to_vec();
    large.push(whole.len() as u8);
    large.extend_from_slice(&whole);
    large.extend_from_slice(&small[at + slice.len()..]);
    assert_eq!(decode(&large).unwrap_err(), DecodeError::Function);
}

/// A host that lies sends code that no checker has seen: what the rules rest on is looked at again.
#[test]
fn code_that_could_go_in_circles_is_refused() {
    // Functions f and g without parameters, f with this body; g is `()`.
    let with = |body: &[u8]| {
        let head = [1, 2, 1, 1, b'f', 1];
        let bytes = [&head[..], body, &[3, 1, b'g', 1, 0]].concat();
        Code::read(&bytes).map(|code| assert_eq!(code.write(), bytes))
    };
    const CALL: u8 = 19;
    const CHUNK: u8 = 21;
    const FOLD: u8 = 23;
    assert_eq!(with(&[0]), Ok(()));
    assert_eq!(with(&[CALL, 0, 0]), Err(CodeError::NotEarlier), "calls itself");
    assert_eq!(with(&[CALL, 1, 0]), Err(CodeError::NotEarlier), "calls a later one");
    assert_eq!(with(&[11, 1, CALL, 0, 0, 0]), Err(CodeError::NotEarlier), "calls itself in a branch");
    assert_eq!(with(&[FOLD, 0, 2, 0, 13, 0]), Err(CodeError::NotEarlier), "folds with itself");
    assert_eq!(with(&[CHUNK, 0, 0]), Ok(()), "a chunk of itself is a packet's affair");
    assert_eq!(with(&[CHUNK, 1, 0]), Ok(()));
    assert_eq!(with(&[CHUNK, 1, 1, 0]), Err(CodeError::Arity));
    assert_eq!(with(&[CHUNK, 2, 0]), Err(CodeError::NoFunction));
    assert_eq!(with(&[8, 0]), Err(CodeError::Scope), "a variable from nowhere");
    assert_eq!(with(&[9, 1]), Err(CodeError::NoValue), "a function as a value");
    assert_eq!(with(&[14, 1, 0]), Err(CodeError::Form), "a sequence of one");
    assert_eq!(with(&[255]), Err(CodeError::Tag));
    assert_eq!(with(&[&[65; 251][..], &[1]].concat()), Err(CodeError::Limit), "too deep");
}

#[test]
fn codes_may_be_named_by_digest() {
    struct Shelf(Vec<Arc<Program>>);
    impl Library for Shelf {
        fn by_bytes(&mut self, _: &[u8]) -> Result<Arc<Program>, CodeError> {
            Err(CodeError::Limit)
        }
        fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>> {
            self.0.iter().find(|program| program.digest() == *digest).cloned()
        }
    }
    let program = program("fun g(c) = eval(c) fun f() = |g|(|g|(|h|())) fun h() = 1");
    let inner = Value::Chunk(Arc::new(Chunk::of(&program, "h", vec![]).unwrap()));
    let mut packet = Packet { header: header(1), chunk: Arc::new(Chunk::of(&program, "g", vec![inner]).unwrap()) };
    packet.header.by_digest = true;
    let bytes = packet.bytes().unwrap();
    assert!(bytes.len() < FIXED + 2 + 1 + 2 * 32 + 16, "{}", bytes.len());
    let slices: Vec<_> = ["g", "h"].map(|name| program.slice(program.code().function(name).unwrap()).unwrap()).into();
    let mut shelf = Shelf(vec![]);
    for slice in &slices {
        let absent = Packet::decode(&bytes, &mut shelf).unwrap_err();
        assert_eq!(absent, DecodeError::Absent(slice.digest));
        shelf.0.push(Arc::new(Program::read(&slice.bytes, &Recorder::default()).unwrap()));
    }
    let found = Packet::decode(&bytes, &mut shelf).unwrap();
    assert_eq!(*found.chunk, *packet.chunk);
    assert_eq!(found.bytes().unwrap(), bytes);
    assert_eq!(both(&found.chunk, Limits::default(), 1).result, Ok(Value::Int(1)));
}

#[test]
fn the_fixed_part_is_read_and_spent_without_decoding() {
    let mut bytes = sample().bytes().unwrap();
    let view = View::new_checked(&bytes).unwrap();
    assert_eq!((view.bound(), view.destination(), view.source()), (7, common::HERE, common::HERE));
    for left in (0..7).rev() {
        assert!(ViewMut::new_checked(&mut bytes).unwrap().spend(1, THERE));
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!((view.bound(), view.previous()), (left, THERE));
    }
    assert!(!ViewMut::new_checked(&mut bytes).unwrap().spend(1, THERE));
    assert!(View::new_checked(&bytes[..FIXED - 1]).is_none());
    for (at, byte) in [(0, 2), (1, 4), (2, 1), (3, 1)] {
        let mut bad = bytes.clone();
        bad[at] = byte;
        assert!(View::new_checked(&bad).is_none() && decode(&bad).is_err(), "{at}");
    }
}

#[test]
fn every_cut_is_refused() {
    let bytes = sample().bytes().unwrap();
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode(&longer).unwrap_err(), DecodeError::Trailing);
}

#[test]
fn deep_and_large_values_are_refused() {
    let mut bytes = sample().bytes().unwrap();
    bytes.truncate(FIXED);
    // No names, no code, the service `print` with one argument.
    let print = Name::new("print").unwrap().number().unwrap() as u8 * 2;
    bytes.extend_from_slice(&[0, 0, 0, 0, print, 1]);
    let with = |more: &[u8]| decode(&[&bytes[..], more].concat()).map(drop);
    assert_eq!(with(&[0]), Ok(()));
    assert_eq!(with(&[7, 1].repeat(100)), Err(DecodeError::Value));
    assert_eq!(with(&[[7, 1].repeat(40), vec![7, 0]].concat()), Ok(()));
    let huge = [&[7, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 100]].concat();
    assert_eq!(with(&huge), Err(DecodeError::Form(CodeError::Truncated)));
    // A number longer than necessary; an IPv4 address in the long form; a core name as text.
    assert_eq!(with(&[3, 0x80, 0]), Err(DecodeError::Form(CodeError::Number)));
    assert_eq!(with(&[&[10][..], &THERE.0].concat()), Err(DecodeError::Value));
    assert_eq!(with(&[&[14, 1, 7][..], b"NoRoute"].concat()), Err(DecodeError::Form(CodeError::BadName)));
    assert_eq!(with(&[14, 0]), Err(DecodeError::Value));
    assert_eq!(with(&[6, 1, 0]), Err(DecodeError::Value));
}

#[test]
fn a_packet_longer_than_any_is_refused_and_not_made() {
    let chunk = Chunk::new(Callee::Service(Name::new("print").unwrap()), vec![Value::text(vec![0; 66_000])]).unwrap();
    assert!(Packet { header: header(1), chunk: Arc::new(chunk) }.bytes().is_none());
    assert_eq!(decode(&[0; 65_001]).unwrap_err(), DecodeError::TooLong);
}

proptest! {
    #![proptest_config(common::cases(2000))]

    #[test]
    fn damaged_packets_are_refused_or_canonical_and_harmless(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let program = program(&source(&mut Choices::new(&bytes)));
        let chunk = Chunk::of(&program, "main", vec![]).unwrap();
        let packet = Packet { header: header(5), chunk: Arc::new(chunk) };
        let mut bytes = packet.bytes().unwrap();
        prop_assert_eq!(decode(&bytes).unwrap().bytes().unwrap(), bytes.clone());
        for (at, byte) in damage {
            // Mostly behind the header, where there is more to break.
            let at = FIXED.min(bytes.len() - 1) + usize::from(at) % (bytes.len() - FIXED);
            bytes[at] = byte;
        }
        if let Ok(found) = decode(&bytes) {
            prop_assert_eq!(found.bytes().unwrap(), bytes);
            both(&found.chunk, Limits { steps: 2000, ..Limits::default() }, 5);
        }
    }

    #[test]
    fn any_bytes_are_code_or_not(bytes in proptest::collection::vec(0u8..120, 0..60)) {
        let bytes = [&[1, 1, 0, 1][..], &bytes].concat();
        if let Ok(code) = Code::read(&bytes) {
            prop_assert_eq!(code.write(), bytes);
        }
    }
}

/// Writes packets and programs where the fuzzer looks for its first inputs.
#[test]
#[ignore = "writes target/fuzz-seeds; see fuzz/README.md"]
fn write_fuzz_seeds() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz-seeds");
    let [packets, sources] = ["plan_packet", "plan_source"].map(|target| corpus.join(target));
    std::fs::create_dir_all(&packets).unwrap();
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(packets.join("sample"), sample().bytes().unwrap()).unwrap();
    for seed in 0..100u8 {
        let bytes: Vec<u8> = (0..200u32).map(|at| (at * 31 + 7) as u8 ^ seed.wrapping_mul(at as u8)).collect();
        let text = source(&mut Choices::new(&bytes));
        let chunk = Chunk::of(&program(&text), "main", vec![]).unwrap();
        let packet = Packet { header: header(5), chunk: Arc::new(chunk) };
        std::fs::write(packets.join(format!("{seed}")), packet.bytes().unwrap()).unwrap();
        std::fs::write(sources.join(format!("{seed}")), text).unwrap();
    }
}
