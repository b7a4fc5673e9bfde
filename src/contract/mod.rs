//! The contract of the two halves and of code: structures of `bpf/` and `sdk/anode/capsule.h` as Rust constants.
//!
//! ```text
//! bpf/contract.bpf.c ──clang -g──▶ .BTF ──btf, constants──▶ OUT_DIR/contract.rs ──▶ here
//! ```
//!
//! The build makes all of it, so a structure is written down once, in C. A [`FieldAt`] knows its place and size when Rust is compiled: a
//! value of another size does not fit into it, and what lies outside the memory does not compile. A new structure is one line in
//! `bpf/contract.bpf.c`.

// Build scripts have these two; here they are tested.
#[cfg(test)]
mod btf;
#[cfg(test)]
mod constants;
pub mod plan;
#[cfg(test)]
mod tests;

/// A field of a structure: at which byte it begins, and how many it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldAt<const AT: usize, const SIZE: usize>;

impl<const AT: usize, const SIZE: usize> FieldAt<AT, SIZE> {
    /// The byte at which it begins.
    pub const fn at(self) -> usize {
        AT
    }

    /// How many bytes it has.
    pub const fn size(self) -> usize {
        SIZE
    }

    /// Its bytes in the structure.
    pub const fn range(self) -> core::ops::Range<usize> {
        AT..AT + SIZE
    }

    /// Which of the structure's words of 8 bytes it is.
    pub const fn word(self) -> usize {
        const { assert!(AT.is_multiple_of(8) && SIZE == 8, "the field is no word of 8 bytes") }
        AT / 8
    }

    /// Its bytes in a structure, or in the first bytes of one.
    #[inline]
    pub fn of<const TOTAL: usize>(self, value: &[u8; TOTAL]) -> [u8; SIZE] {
        const { assert!(AT + SIZE <= TOTAL, "the field lies outside") }
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(&value[AT..AT + SIZE]);
        bytes
    }

    /// Puts its bytes into a structure, or into the first bytes of one.
    #[inline]
    pub fn put<const TOTAL: usize>(self, value: &mut [u8; TOTAL], bytes: [u8; SIZE]) {
        const { assert!(AT + SIZE <= TOTAL, "the field lies outside") }
        value[AT..AT + SIZE].copy_from_slice(&bytes);
    }
}

/// A field of a word, in structures that are read as words of 8 bytes.
impl<const AT: usize> FieldAt<AT, 8> {
    /// Its word of a structure.
    #[inline]
    pub fn among<const WORDS: usize>(self, words: &[u64; WORDS]) -> u64 {
        const { assert!(AT.is_multiple_of(8) && AT / 8 < WORDS, "the field is no word of the structure") }
        words[AT / 8]
    }
}

mod made {
    use super::FieldAt;
    include!(concat!(env!("OUT_DIR"), "/contract.rs"));
}
pub use made::*;
