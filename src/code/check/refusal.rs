//! Refusals of mobile code: the cause, its place, and the author's remedy.

use crate::clean::shown;
use crate::code::bundle;
use core::fmt;

/// Why a representation is refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// More of something than allowed.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// Not a valid WebAssembly module of the allowed features.
    Invalid {
        /// What the validator says.
        cause: String,
        /// The byte where it says so.
        offset: usize,
    },
    /// An import that no node has.
    Import {
        /// Module and name.
        name: String,
    },
    /// A function has another type than the interface.
    Signature {
        /// The function.
        name: String,
        /// Its type.
        found: String,
        /// The interface's type.
        expected: String,
    },
    /// An export is missing, superfluous or of another kind.
    Export {
        /// Its name.
        name: String,
        /// What must be the case.
        expected: &'static str,
    },
    /// A part of a module that capsules do not have.
    Forbidden {
        /// Which.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// An instruction that capsules do not have.
    Instruction {
        /// Its name.
        name: &'static str,
        /// The byte where it is.
        offset: usize,
    },
    /// A mutable global that the node could not restore.
    Global {
        /// Its index.
        index: u32,
        /// What is wrong.
        cause: &'static str,
    },
    /// A segment does not lie inside memory or table.
    Segment {
        /// Its index among the data or element segments.
        index: u32,
        /// What is wrong.
        cause: &'static str,
    },
    /// The arena does not lie inside the memory.
    Arena {
        /// Its address.
        address: u32,
        /// The bytes it needs: context and window.
        needs: u32,
        /// Bytes of memory.
        memory: u32,
    },
    /// Not a shared object for the processor that the manifest names.
    Object {
        /// The processor.
        architecture: String,
    },
    /// Not the binary form of bpf code.
    Form(bundle::Error),
    /// A symbol that no node has.
    Symbol {
        /// Its name.
        name: String,
    },
    /// A symbol that is listed but not called.
    Unused {
        /// Its name.
        name: String,
    },
    /// A bpf instruction that is not allowed.
    Bpf {
        /// Its index.
        at: usize,
        /// Its opcode.
        opcode: u8,
        /// What is wrong with it.
        fault: BpfFault,
    },
}

/// What is wrong with a bpf instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfFault {
    /// An opcode outside the whitelist: packet access, atomics, may_goto, gotol, callx and such.
    Opcode,
    /// A register that does not exist, or the frame pointer where it would be written.
    Register,
    /// A field that must be zero, or one of few values, is not.
    Field,
    /// A 64-bit immediate with a kernel object (map, variable, function) in it, or cut off.
    Immediate,
    /// A call of a kernel helper, of a kernel function, or by register.
    Call,
    /// A call with an index outside the symbols.
    SymbolIndex,
    /// A jump or call out of the program, into the middle of an instruction, or out of its function.
    Target,
    /// The function's last instruction is neither exit nor a jump.
    End,
    /// A stack access above the frame pointer.
    Stack,
}

impl fmt::Display for BpfFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BpfFault::Opcode => "this opcode is not allowed (no packet loads, atomics, may_goto, gotol, callx)",
            BpfFault::Register => "it names a register above r10, or writes r10",
            BpfFault::Field => "a field has a value that the instruction does not allow",
            BpfFault::Immediate => {
                "only plain 64-bit constants may be loaded, no maps, variables or function addresses"
            }
            BpfFault::Call => "only symbols of the interface and functions of the program may be called",
            BpfFault::SymbolIndex => "it calls by an index that the symbol table does not have",
            BpfFault::Target => "its target is not the beginning of an instruction of the same function",
            BpfFault::End => "execution would run over the end of the function",
            BpfFault::Stack => "it accesses the stack above the frame pointer",
        })
    }
}

/// What an author can do about a refusal whose text does not say it.
pub(super) fn remedy(refusal: &Refusal) -> Option<&'static str> {
    let (opcode, fault) = match refusal {
        Refusal::Bpf { opcode, fault, .. } => (opcode, fault),
        Refusal::Limit { .. } => {
            return Some("do what is done twice in a function, and less at once");
        }
        _ => return None,
    };
    Some(match fault {
        BpfFault::Opcode => match opcode {
            0xc3 | 0xdb => {
                "a packet runs alone on its state: use plain assignments, and an_state_add() to count across packets"
            }
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => "read the window, or an_load() for what is behind it",
            0x06 | 0xe5 | 0x8d => "compile with -mcpu=v3, and call functions by their names",
            _ => "compile with -mcpu=v3, or build with: anode code build",
        },
        BpfFault::Register | BpfFault::Field => "build with: anode code build; what clang makes of C is well-formed",
        BpfFault::Immediate => {
            "keep state with an_state_put() and constants in the code; there are no maps, variables or tables"
        }
        BpfFault::Call => "include anode/capsule.h and call what it declares: an_now(), an_state_get(), …",
        BpfFault::SymbolIndex | BpfFault::Target | BpfFault::End => {
            "build with: anode code build, which places functions and symbols"
        }
        BpfFault::Stack => "variables of a function lie below the frame pointer: index arrays within their bounds",
    })
}

const CALLS: &str = "only the calls of anode/capsule.h exist";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Limit { what, found, limit } => {
                write!(f, "{found} {what}, {limit} are allowed; make the program smaller")
            }
            Refusal::Invalid { cause, offset } => write!(
                f,
                "not a valid module at byte {offset}: {}; compile for wasm32 without newer extensions (see docs/bundle.md)",
                shown(cause)
            ),
            Refusal::Import { name } => write!(f, "it imports '{}'; {CALLS}", shown(name)),
            Refusal::Signature { name, found, expected } => {
                write!(f, "'{}' has the type {found}, must have {expected}; include anode/capsule.h", shown(name))
            }
            Refusal::Export { name, expected } => {
                write!(f, "export '{}' {expected}; build with: anode code build", shown(name))
            }
            Refusal::Forbidden { what, remedy } => write!(f, "it has {what}; {remedy}"),
            Refusal::Instruction { name, offset } => write!(
                f,
                "the instruction {name} at byte {offset} is not allowed, as memory and table stay as they are; compile without it"
            ),
            Refusal::Global { index, cause } => write!(f, "global {index} {cause}; build with: anode code build"),
            Refusal::Segment { index, cause } => write!(f, "segment {index} {cause}; build with: anode code build"),
            Refusal::Arena { address, needs, memory } => write!(
                f,
                "an_arena at {address} needs {needs} bytes (context and window), the memory ends at {memory}; is the \
                 window in the manifest that of the program?"
            ),
            Refusal::Object { architecture } => {
                write!(
                    f,
                    "not a shared object (ELF, 64 bits) for {architecture}; build it there with: anode code build --native"
                )
            }
            Refusal::Form(error) => error.fmt(f),
            Refusal::Symbol { name } => write!(f, "it calls '{}'; {CALLS}", shown(name)),
            Refusal::Unused { name } => {
                write!(f, "it lists the symbol '{}' without calling it; build with: anode code build", shown(name))
            }
            Refusal::Bpf { at, opcode, fault } => write!(f, "instruction {at} (opcode {opcode:#04x}): {fault}"),
        }
    }
}

impl core::error::Error for Refusal {}
