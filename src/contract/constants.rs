//! A generator of Rust from C's structures and numbers: constants, or checks of structures that Rust has beside them.
//!
//! `build.rs` and `libanode/build.rs` run this over what [`btf`](super::btf) reads. The constants say where each field is and how
//! large, so that Rust has no numbers of its own. The checks compare every field of a `repr(C)` structure. Uses the standard library only.

use super::btf::{Structure, Types};
use core::fmt::Write;

/// What variables for structures are called in C, in front of the structure's name: of maps that outlive a process, and others.
const KEPT: &str = "kept_";
const SHARED: &str = "shared_";

/// What numbers are called in C, in front of their names, and the enumerations that they are in.
const NUMBER: &str = "number_";
const ENUMERATIONS: [&str; 2] = ["numbers", "errors"];

/// What is said when structures of maps that outlive a process are others.
const CHANGED: &str = "bpf/contract.bpf.c: a structure marked KEPT changed; raise VERSION, and write here its digest";

/// A module for each structure, with a constant for each field; a constant for each number; and a digest of what outlives a process.
pub(crate) fn constants(types: &Types) -> Result<String, String> {
    let mut text = String::new();
    let kept = types.structures(KEPT)?;
    for structure in kept.iter().chain(&types.structures(SHARED)?) {
        module(&mut text, structure)?;
    }
    let digest = digest(&kept);
    text += &format!("/// A digest of the structures that outlive a process.\npub const KEPT: u64 = {digest:#x};\n");
    text += &format!("/// The same, to be said.\npub const KEPT_NOW: &str = \"{CHANGED} {digest:#x}\";\n");
    text += &numbers(types)?;
    Ok(text)
}

/// A constant for each number.
pub(crate) fn numbers(types: &Types) -> Result<String, String> {
    let mut text = String::new();
    let found: Vec<_> = ENUMERATIONS.iter().filter_map(|name| types.numbers(name)).collect();
    for (name, number) in found.into_iter().flatten() {
        let name = name.strip_prefix(NUMBER).ok_or_else(|| format!("{name} is called otherwise than {NUMBER}…"))?;
        text += &format!("/// `{name}`.\npub const {name}: u32 = {number};\n");
    }
    Ok(text)
}

fn module(text: &mut String, Structure { name, size, fields }: &Structure) -> Result<(), String> {
    let mut lines = format!("    /// Bytes of it.\n    pub const SIZE: usize = {size};\n");
    for field in fields {
        let (constant, end) = (field.name.to_uppercase(), field.at + field.size);
        if constant == "SIZE" {
            return Err(format!("struct {name} has a field of the name that its size has"));
        }
        lines += &format!("    /// `{}`: bytes {} to {end}.\n", field.name, field.at);
        lines += &format!("    pub const {constant}: FieldAt<{}, {}> = FieldAt;\n", field.at, field.size);
    }
    let uses = if fields.is_empty() { "" } else { "    use super::FieldAt;\n" };
    write!(text, "/// `struct {name}`.\npub mod {name} {{\n{uses}{lines}}}\n").map_err(|error| error.to_string())
}

/// A macro for each structure, by its name: given a `repr(C)` structure it checks size and place of each field at compile time.
pub(crate) fn checks(types: &Types) -> Result<String, String> {
    let mut text = String::new();
    for Structure { name, size, fields } in types.structures(SHARED)? {
        let mut lines = String::new();
        for field in &fields {
            let its = &field.name;
            let place = format!("core::mem::offset_of!($ours, {its})");
            lines += &check(&place, field.at, &format!("{name}.{its} is at byte {} in C", field.at));
            let extent = format!("crate::layout::extent(|it: &$ours| &it.{its})");
            lines += &check(&extent, field.size, &format!("{name}.{its} has {} bytes in C", field.size));
        }
        lines += &check("size_of::<$ours>()", size, &format!("{name} has {size} bytes in C"));
        text += &format!("macro_rules! {name} {{\n    ($ours:ty) => {{\n        const _: () = {{\n{lines}");
        text += &format!("        }};\n    }};\n}}\npub(crate) use {name};\n");
    }
    Ok(text)
}

fn check(what: &str, value: usize, why: &str) -> String {
    format!("            assert!({what} == {value}, \"{why}: not so in Rust\");\n")
}

/// C that is compiled only if the structures are laid out alike for another target.
pub(crate) fn assertions(types: &Types) -> Result<String, String> {
    let mut text = String::new();
    for Structure { name, size, fields } in types.structures(SHARED)? {
        text += &format!("_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");\n");
        for field in fields {
            let its = &field.name;
            let (place, extent) =
                (format!("__builtin_offsetof(struct {name}, {its})"), format!("sizeof(((struct {name} *)0)->{its})"));
            text +=
                &format!("_Static_assert({place} == {} && {extent} == {}, \"{name}.{its}\");\n", field.at, field.size);
        }
    }
    Ok(text)
}

/// The same for the same structures (FNV-1a).
fn digest(structures: &[Structure]) -> u64 {
    let mut text = String::new();
    let mut sorted: Vec<_> = structures.iter().collect();
    sorted.sort_by_key(|structure| &structure.name);
    for Structure { name, size, fields } in sorted {
        text += &format!("{name} {size}\n");
        fields.iter().for_each(|field| text += &format!("{} {} {}\n", field.name, field.at, field.size));
    }
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
