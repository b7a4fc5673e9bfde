//! What becomes of a module's values, without a node: addresses, names, texts.

use super::{Bound, CALLS, Fault, Module, REFUSED, Value};
use core::ptr::NonNull;
use std::collections::HashSet;

const EINVAL: u64 = 1;
const ESTALE: u64 = 2;

/// So many bytes at first.
const BYTES: usize = 4096;

/// A module's memory, and no functions.
struct Memory {
    words: Vec<u64>,
    bytes: usize,
}

impl Memory {
    fn new() -> Memory {
        Memory { words: vec![u64::MAX; (BYTES + (64 << 10)) / 8], bytes: BYTES }
    }

    fn with(text: &[u8], at: usize) -> Memory {
        let mut memory = Memory::new();
        super::put_at(&mut memory, at as u32, text).unwrap();
        memory
    }
}

impl Module for Memory {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (NonNull::new(self.words.as_mut_ptr().cast()).unwrap(), self.bytes)
    }

    fn grow(&mut self, bytes: u32) -> Option<u32> {
        let at = self.bytes;
        let grown = at + bytes as usize;
        self.bytes = Some(grown).filter(|grown| *grown <= self.words.len() * 8)?;
        Some(at as u32)
    }

    fn call(&mut self, _: u32, _: &[Value], _: bool) -> Option<u32> {
        None
    }
}

fn make(memory: &mut Memory, name: &str, given: &[u64]) -> Result<u64, Fault> {
    let call = CALLS.iter().find(|call| call.name == name).unwrap();
    assert_eq!(Bound::of(call).takes().count(), given.len(), "{name}");
    Bound::of(call).carry_out(memory, given)
}

#[test]
fn addresses_lead_into_the_modules_memory_or_the_call_is_not_made() {
    let end = BYTES as u64;
    for (name, given) in [
        // A text behind the memory, and one without an end.
        ("an_credCreate", &[0, end][..]),
        ("an_credCreate", &[0, 8]),
        ("an_timeNow", &[0, end - 7]),
        ("an_pktbufLength", &[0, end - 3]),
        ("an_statePut", &[0, 7, end - 63, 0]),
        ("an_fileRead", &[0, 0, 8, u64::from(u32::MAX), 0]),
        ("an_classifierMatch", &[0, 0, 0, 8, 1 << 30, 0]),
        ("an_flowCreate", &[0, 0, end - 35]),
        // A structure whose title is behind the memory.
        ("an_flowCreate", &[0, 0, 64]),
        ("an_outchanCreate", &[0, 0, 0, 0, u64::from(u32::MAX)]),
    ] {
        assert_eq!(make(&mut Memory::new(), name, given), Err(Fault::Address), "{name} {given:?}");
    }
    for (name, given, gives) in [
        ("an_timeNow", &[0, 0][..], EINVAL),
        ("an_timeNow", &[0, end - 8], EINVAL),
        ("an_pktbufLength", &[0, end - 4], EINVAL),
        ("an_fileRead", &[0, 0, end - 16, 16, 0], EINVAL),
        ("an_domainDestroy", &[0x8fff_fff0], ESTALE),
        ("an_domainDestroy", &[0x4000_0000], ESTALE),
        ("an_pktbufFree", &[0xc123_4567], ESTALE),
        ("an_pktbufData", &[0xc123_4567], 0),
        ("an_flowState", &[0], 0),
    ] {
        assert_eq!(make(&mut Memory::new(), name, given), Ok(gives), "{name} {given:?}");
    }
}

#[test]
fn objects_have_names_of_32_bits_or_are_the_memory_that_they_are_given() {
    let mut memory = Memory::with(b"role\0", 100);
    let credential = make(&mut memory, "an_credCreate", &[0, 100]).unwrap();
    assert!((1 << 31..3 << 30).contains(&credential), "{credential:x}");
    assert_eq!(make(&mut memory, "an_nodeDisconnect", &[credential]), Ok(EINVAL), "an object of another kind");
    assert_eq!(make(&mut memory, "an_credDestroy", &[credential]), Ok(0));
    assert_eq!(make(&mut memory, "an_credDestroy", &[credential]), Ok(ESTALE));
    assert_eq!(make(&mut memory, "an_credCreate", &[3216, 100]), Ok(3216));
    assert_eq!(make(&mut memory, "an_credCreate", &[3216, 100]), Ok(0), "it is one already");
    assert_eq!(make(&mut memory, "an_error", &[]), Ok(EINVAL));
    assert_eq!(make(&mut memory, "an_credDestroy", &[3216]), Ok(0));
}

#[test]
fn texts_of_errors_stay_in_the_modules_memory() {
    let mut memory = Memory::new();
    let [first, other, again] = [1, 2, 1].map(|code| make(&mut memory, "an_strerror", &[code]).unwrap() as u32);
    assert!(first == again && first != other && first as usize >= BYTES);
    let length = super::text_at(&mut memory, first).unwrap();
    let begins = super::number_at(&mut memory, first, 8).unwrap().to_le_bytes();
    assert_eq!((&begins, length > 20), (b"AN_EINVA", true));
}

#[test]
fn each_call_has_one_name_and_is_refused_by_one_that_there_is() {
    let names: HashSet<_> = CALLS.iter().map(|call| call.name).collect();
    assert!(names.len() == CALLS.len() && names.len() > 80);
    assert!(REFUSED.iter().all(|(begins, _)| names.iter().any(|name| name.starts_with(begins))));
}
