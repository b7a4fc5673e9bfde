//! Type information (BTF) for linked programs; see the kernel's Documentation/bpf/btf.rst.
//!
//! The kernel verifies a *global* function by itself, and its type says which memory it may touch: a context of 64
//! bytes, and a window of the size in the manifest. That is the boundary of mobile code, so it is stated here and
//! nowhere else.

use crate::abi::{ADDRESSES, CONTEXT};
use crate::code::link::{LinkedProgram, Owner};

/// Kinds of types, as BTF numbers them.
mod kind {
    pub const INT: u32 = 1;
    pub const POINTER: u32 = 2;
    pub const STRUCT: u32 = 4;
    pub const FUNCTION: u32 = 12;
    pub const PROTOTYPE: u32 = 13;
}

/// A type under construction, numbered from 1.
#[derive(Default)]
struct Table {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Table {
    fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: u32, kind: u32, length: u32, size_or_type: u32, rest: &[u32]) -> u32 {
        let words = [name, kind << 24 | length, size_or_type];
        self.types.extend(words.iter().chain(rest).flat_map(|word| word.to_le_bytes()));
        self.count += 1;
        self.count
    }

    fn pointer_to_struct(&mut self, name: &str, size: u32) -> u32 {
        let name = self.name(name);
        let structure = self.add(name, kind::STRUCT, 0, size, &[]);
        self.add(0, kind::POINTER, 0, structure, &[])
    }

    /// A structure whose first member, of type `first`, the kernel looks at.
    fn structure(&mut self, name: &str, size: u32, member: &str, first: u32) -> u32 {
        let (name, member) = (self.name(name), self.name(member));
        self.add(name, kind::STRUCT, 1, size, &[member, first, 0])
    }

    /// The whole, behind a header.
    fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend([24, 0, types, types, strings].iter().flat_map(|word: &u32| word.to_le_bytes()));
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// The type of a map's key, a number, and of its value, a structure of `size` bytes that begins with a lock.
pub fn locked(size: u32) -> (Vec<u8>, [u32; 2]) {
    let mut table = Table::default();
    let name = table.name("unsigned int");
    let int = table.add(name, kind::INT, 0, 4, &[32]);
    let lock = table.structure("bpf_spin_lock", 4, "val", int);
    let value = table.structure("set", size, "lock", lock);
    (table.bytes(), [int, value])
}

/// The types of a linked program whose window shows `window` bytes of payload, and the type of each
/// of its functions.
pub fn describe(linked: &LinkedProgram, window: u32) -> (Vec<u8>, Vec<[u32; 2]>) {
    let mut table = Table::default();
    let int = table.name("int");
    // Signed, 32 bits.
    let int = table.add(int, kind::INT, 0, 4, &[1 << 24 | 32]);
    let packet = table.pointer_to_struct("xdp_md", 24);
    let context = table.pointer_to_struct("context", CONTEXT as u32);
    let window = table.pointer_to_struct("window", ADDRESSES as u32 + window);
    let (ctx, w) = (table.name("ctx"), table.name("w"));
    let entry = table.add(0, kind::PROTOTYPE, 1, int, &[ctx, packet]);
    let capsule = table.add(0, kind::PROTOTYPE, 2, int, &[ctx, context, w, window]);
    let plain = table.add(0, kind::PROTOTYPE, 0, int, &[]);
    let mut function = |name: &str, prototype: u32, linkage: u32| {
        let name = table.name(name);
        table.add(name, kind::FUNCTION, linkage, prototype, &[])
    };
    let (runner, entry) = (function("runner", entry, 1), function("capsule", capsule, 1));
    let (code, call) = (function("code", plain, 0), function("call", plain, 0));
    let of = |owner: Owner| match owner {
        Owner::Runner => runner,
        Owner::Entry => entry,
        Owner::Code => code,
        Owner::Call => call,
    };
    let functions = linked.functions.iter().map(|(start, owner)| [*start as u32, of(*owner)]).collect();
    (table.bytes(), functions)
}
