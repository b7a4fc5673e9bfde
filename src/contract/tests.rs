//! The generator on the contract itself, as it is and with the place of one field changed.

use super::btf::{Structure, Types};
use super::constants::{assertions, checks, constants};
use super::{FieldAt, node, passed_up};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/contract.bpf.o"));

fn word(at: usize) -> usize {
    u32::from_le_bytes(*OBJECT[at..].first_chunk().unwrap()) as usize
}

/// Where the type information begins, and its strings.
fn places() -> (usize, usize) {
    let types = OBJECT.windows(4).position(|bytes| bytes == [0x9f, 0xeb, 1, 0]).unwrap();
    (types, types + word(types + 4) + word(types + 16))
}

/// The object with a field at another bit than it is.
fn bent(field: &str, at: usize, to: usize) -> Vec<u8> {
    let (types, strings) = places();
    let text = format!("\0{field}\0");
    let name = OBJECT[strings..].windows(text.len()).position(|bytes| bytes == text.as_bytes()).unwrap() + 1;
    let is_it = |place: &usize| word(*place) == name && word(place + 8) == at;
    let found: Vec<usize> = (types..strings - 12).step_by(4).filter(is_it).collect();
    assert_eq!(found.len(), 1, "{field} at bit {at}");
    let mut object = OBJECT.to_vec();
    object[found[0] + 8..found[0] + 12].copy_from_slice(&(to as u32).to_le_bytes());
    object
}

fn text(object: &[u8], of: fn(&Types) -> Result<String, String>) -> String {
    of(&Types::of(object).unwrap()).unwrap()
}

fn structure(object: &[u8], wanted: &str) -> Structure {
    let all = Types::of(object).unwrap().structures("shared_").unwrap();
    all.into_iter().find(|structure| structure.name == wanted).unwrap()
}

/// The lines that one text has and the other has not.
fn differences<'a>(one: &'a str, other: &'a str) -> Vec<&'a str> {
    one.lines().filter(|line| !other.lines().any(|known| known == *line)).collect()
}

#[test]
fn fields_are_where_the_compiler_puts_them() {
    let found = structure(OBJECT, "passed_up");
    assert_eq!((found.size, found.fields.len()), (passed_up::SIZE, 13));
    let links = found.fields.iter().find(|field| field.name == "links").unwrap();
    assert_eq!(links.at..links.at + links.size, passed_up::LINKS.range());
    // The fields of a union without a name are those of the structure around it.
    let value = structure(OBJECT, "an_value");
    let fields: Vec<_> = value.fields.iter().map(|field| (&field.name[..], field.at, field.size)).collect();
    assert_eq!(fields, [("word", 0, 64), ("half", 0, 64), ("byte", 0, 64)]);
    // Numbers below nothing are those of the words that they are in.
    assert_eq!((super::AN_E_HERE as i32, super::AN_NONE), (-6, u32::MAX));
}

#[test]
fn a_field_that_moves_by_one_byte_moves_in_rust() {
    let moved = bent("links", 8 * 88, 8 * 89);
    let (before, after) = (text(OBJECT, constants), text(&moved, constants));
    assert_eq!(
        differences(&before, &after),
        ["    /// `links`: bytes 88 to 96.", "    pub const LINKS: FieldAt<88, 8> = FieldAt;"]
    );
    assert_eq!(
        differences(&after, &before),
        ["    /// `links`: bytes 89 to 97.", "    pub const LINKS: FieldAt<89, 8> = FieldAt;"]
    );
}

#[test]
fn a_structure_beside_one_of_c_is_compared_field_by_field() {
    let moved = bent("links", 8 * 88, 8 * 89);
    let (before, after) = (text(OBJECT, checks), text(&moved, checks));
    let [said] = differences(&after, &before)[..] else { panic!("{after}") };
    assert!(said.contains("offset_of!($ours, links) == 89"), "{said}");
    assert!(said.contains("passed_up.links is at byte 89 in C: not so in Rust"), "{said}");
    let (before, after) = (text(OBJECT, assertions), text(&moved, assertions));
    assert_eq!(differences(&after, &before).len(), 1, "the same for C");
}

#[test]
fn what_outlives_a_process_has_another_digest_if_one_field_moves() {
    let kept = |object: &[u8]| {
        let text = text(object, constants);
        text.lines().find(|line| line.starts_with("pub const KEPT: ")).unwrap().to_owned()
    };
    let origin = 8 * node::ORIGIN.at();
    assert_ne!(kept(OBJECT), kept(&bent("origin", origin, origin + 8)));
    assert_eq!(kept(OBJECT), kept(&bent("links", 8 * 88, 8 * 89)), "a message between programs of one build");
}

#[test]
fn what_cannot_be_read_ends_the_build_with_a_reason() {
    let said = |object: &[u8]| match Types::of(object).and_then(|types| constants(&types)) {
        Ok(_) => String::new(),
        Err(why) => why,
    };
    assert_eq!(said(OBJECT), "");
    assert_eq!(said(&bent("links", 8 * 88, 8 * 88 + 1)), "passed_up.links does not begin at a byte");
    assert_eq!(said(&[]), "the object file has no section .BTF");
    let mut short = OBJECT.to_vec();
    let (types, _) = places();
    short[types + 12..types + 16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(said(&short), "the section .BTF is cut short, or of another form");
}

#[test]
fn every_structure_of_the_shared_headers_is_in_the_contract() {
    let headers = [
        include_str!("../../bpf/contract.h"),
        include_str!("../../bpf/sockets.h"),
        include_str!("../../bpf/filters.h"),
        include_str!("../../bpf/cut.h"),
        include_str!("../../sdk/anode/capsule.h"),
    ];
    let known = text(OBJECT, constants);
    let lines = headers.iter().flat_map(|header| header.lines());
    let names: Vec<_> = lines.filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {")).collect();
    assert!(names.len() > 40, "{names:?}");
    // A window without payload has no bytes, and no fields.
    let missing = names.iter().filter(|name| **name != "an_nothing" && !known.contains(&format!("pub mod {name} {{")));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0], "a line in bpf/contract.bpf.c");
}

#[test]
fn a_field_reads_and_writes_its_bytes_and_no_others() {
    let field = FieldAt::<2, 3>;
    let mut value = [9; 7];
    field.put(&mut value, [1, 2, 3]);
    assert_eq!((value, field.of(&value)), ([9, 9, 1, 2, 3, 9, 9], [1, 2, 3]));
    assert_eq!((field.at(), field.size(), field.range()), (2, 3, 2..5));
    assert_eq!((FieldAt::<16, 8>.word(), FieldAt::<16, 8>.among(&[5, 6, 7])), (2, 7));
}
