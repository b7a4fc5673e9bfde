//! The check of native representations: the head alone, which says whether the object is for this processor.
//!
//! A native representation is loaded by trust in its signer, and no check can replace that.

use super::Refusal;

/// ELF, 64 bits, little endian, version 1.
const MAGIC: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];

/// Offsets of type and machine in an ELF header, and the type of shared objects.
const TYPE: usize = 16;
const MACHINE: usize = 18;
const SHARED: u16 = 3;

/// The machines' numbers.
const MACHINES: [(&str, u16); 3] = [("x86_64", 62), ("aarch64", 183), ("riscv64", 243)];

/// Whether the bytes begin as a shared object for this processor does; total.
pub fn native(bytes: &[u8], architecture: &str) -> Result<(), Refusal> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    let expected = MACHINES.iter().find(|(name, _)| *name == architecture).map(|(_, machine)| *machine);
    let right = expected.is_some() && word(MACHINE) == expected && word(TYPE) == Some(SHARED);
    if bytes.starts_with(&MAGIC) && right {
        return Ok(());
    }
    Err(Refusal::Object { architecture: architecture.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shared_object_of_the_processor_passes() {
        let mut head = [0; 64];
        head[..7].copy_from_slice(&MAGIC);
        (head[TYPE], head[MACHINE]) = (3, 62);
        assert_eq!(native(&head, "x86_64"), Ok(()));
        for (at, architecture) in
            [(0, "x86_64"), (4, "x86_64"), (TYPE, "x86_64"), (MACHINE, "x86_64"), (63, "aarch64"), (63, "vax")]
        {
            let mut other = head;
            other[at] ^= 1;
            assert!(native(&other, architecture).is_err(), "{at} {architecture}");
        }
        assert!((0..MACHINE + 2).all(|end| native(&head[..end], "x86_64").is_err()));
    }
}
