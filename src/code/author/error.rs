//! Causes for a program not to build, each with its remedy.

use super::said::Said;
use super::toolchain::REMEDY;
use crate::code::bundle;
use crate::code::check::{Explanation, Refusal};
use crate::trust::limits::BPF_INSTRUCTIONS_MAX;
use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why [`super::build`] gives no bundle.
#[derive(Debug)]
pub enum Error {
    /// The source cannot be read.
    Unreadable {
        /// The source.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// The source is in a language that is not built here.
    Ending {
        /// The source.
        path: PathBuf,
    },
    /// A module does not say how much payload it wants to see.
    NoWindow {
        /// The source.
        path: PathBuf,
    },
    /// A C source says its window itself, and another was asked for.
    WindowIsFixed {
        /// What was asked for, in bytes.
        asked: u32,
        /// What the source says, in bytes.
        window: u32,
    },
    /// The payload type has another size in each representation.
    WindowDiffers {
        /// Bytes in wasm.
        wasm: u32,
        /// Bytes in bpf.
        bpf: u32,
    },
    /// The bpf program is too long for a representation.
    TooLong {
        /// Its instructions.
        found: usize,
    },
    /// A C source without a program.
    NoCapsule,
    /// A C source has no native representation.
    NothingToBuild,
    /// There is no clang.
    NoClang {
        /// What was looked for.
        tried: String,
    },
    /// There is no linker for wasm.
    NoLinker {
        /// What clang says.
        output: String,
    },
    /// No place for intermediate files.
    Temporary {
        /// The place.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// The compiler refuses the source.
    Compile {
        /// For which target.
        target: &'static str,
        /// What the compiler says, for people: each message once.
        output: String,
        /// The same, message by message.
        said: Vec<Said>,
    },
    /// The text of a module is wrong.
    Text {
        /// What is wrong, with the place.
        output: String,
    },
    /// The linked module cannot be brought into the form of a representation.
    Module {
        /// What is wrong.
        cause: String,
    },
    /// The object file is not what clang makes of a capsule.
    Object {
        /// What is wrong.
        cause: String,
    },
    /// The bpf program has or refers to static memory.
    Data {
        /// The variable or constant.
        symbol: String,
        /// The object file's section that holds it.
        section: String,
        /// Whether nothing changes it.
        constant: bool,
    },
    /// The bpf program calls what no node has.
    Undefined {
        /// The function.
        symbol: String,
        /// The section from which it is called.
        section: String,
    },
    /// The bpf program has a relocation that a capsule cannot have.
    Relocation {
        /// The symbol it refers to.
        symbol: String,
        /// The section in which it is.
        section: String,
        /// Where in the section, in bytes.
        offset: u64,
    },
    /// The outcome does not pass the check that every node makes.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The same for people, with the instruction and the line.
        explanation: Box<Explanation>,
    },
    /// It is about a line of the source.
    At {
        /// File and line.
        source: String,
        /// What is wrong there.
        error: Box<Error>,
    },
    /// The manifest cannot be made.
    Bundle(bundle::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { path, cause } => write!(f, "{}: {cause}", path.display()),
            Error::Ending { path } => {
                write!(f, "{}: only .c, .wasm and .wat are built; compile other languages to .wasm", path.display())
            }
            Error::NoWindow { path } => write!(
                f,
                "{}: a module does not say how many payload bytes it wants to see; add --window BYTES",
                path.display()
            ),
            Error::WindowIsFixed { asked, window } => write!(
                f,
                "the source's payload type has {window} bytes, --window asks for {asked}; leave --window out for C"
            ),
            Error::WindowDiffers { wasm, bpf } => write!(
                f,
                "the payload type has {wasm} bytes in wasm and {bpf} in bpf\n  remedy: use only u8..u64, be16..be64 and \
                 struct an_addr in it, no pointers, long or size_t"
            ),
            Error::TooLong { found } => write!(
                f,
                "{found} instructions for the kernel half, which takes {BPF_INSTRUCTIONS_MAX}\n  remedy: do what is done \
                 twice in a function, and less at once; or build with --only wasm"
            ),
            Error::NoCapsule => {
                f.write_str("there is no program in it\n  remedy: begin one with AN_CAPSULE(name, payload type) { … }")
            }
            Error::NothingToBuild => f.write_str("a C source is built for wasm and bpf only; leave --only out"),
            Error::NoClang { tried } => {
                write!(f, "no C compiler ({tried} not found); {REMEDY}")
            }
            Error::NoLinker { output } => {
                write!(f, "clang finds no linker for wasm; install it: apt-get install lld\n{output}")
            }
            Error::Temporary { path, cause } => {
                write!(f, "intermediate files in {}: {cause}; set TMPDIR to a directory with space", path.display())
            }
            Error::Compile { output, .. } => f.write_str(output),
            Error::Text { output } => write!(f, "not a module:\n{output}"),
            Error::Module { cause } => write!(f, "the module cannot become a representation: {cause}"),
            Error::Object { cause } => {
                write!(
                    f,
                    "the bpf object file is not that of a capsule: {cause}; begin the program with AN_CAPSULE(name, payload type)"
                )
            }
            Error::Data { .. } | Error::Undefined { .. } | Error::Relocation { .. } => self.of_symbol(f),
            Error::Refused { explanation, .. } => explanation.fmt(f),
            Error::At { source, error } => write!(f, "{source}: {error}"),
            Error::Bundle(error) => error.fmt(f),
        }
    }
}

impl Error {
    /// What is wrong with a symbol.
    fn of_symbol(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Data { symbol, constant: false, .. } => write!(
                f,
                "{symbol} is a variable in static memory, and nothing but soft state survives a packet\n  remedy: keep \
                 it with an_state_put() or an_state_add(), or in a variable of the function"
            ),
            Error::Data { symbol, section, .. } => write!(
                f,
                "{symbol} is a constant in static memory ({section}), which the kernel half has not\n  remedy: write \
                 it into the code, by if or switch; or build with --only wasm"
            ),
            Error::Undefined { symbol, .. } if symbol.starts_with("__") => write!(
                f,
                "'{symbol}' of the compiler's library is needed here, and there is none\n  remedy: use numbers of 64 bits \
                 at most"
            ),
            Error::Undefined { symbol, .. } => write!(
                f,
                "'{symbol}' is declared and called, but neither defined nor a call of anode/capsule.h\n  remedy: define it \
                 in this file, or take the call out"
            ),
            Error::Relocation { symbol, section, offset } => write!(
                f,
                "section {section} takes the address of '{symbol}' at byte {offset}, and the kernel half has none of \
                 functions\n  remedy: call it by its name, in an if for each; or build with --only wasm"
            ),
            _ => Ok(()),
        }
    }

    /// Whether it is about the representation for the kernel half, so that the other may be right.
    pub fn is_of_kernel_half(&self) -> bool {
        match self {
            Error::Compile { target, .. } => *target == "bpf",
            Error::TooLong { .. } | Error::Data { .. } | Error::Relocation { .. } | Error::Object { .. } => true,
            Error::Refused { explanation, .. } => explanation.kind == bundle::Kind::Bpf,
            Error::At { error, .. } => error.is_of_kernel_half(),
            _ => false,
        }
    }
}

impl core::error::Error for Error {}
