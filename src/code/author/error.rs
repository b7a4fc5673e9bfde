//! Causes for a program not to build, each with its remedy.

use super::toolchain::REMEDY;
use crate::code::bundle;
use crate::code::check::{Explanation, Refusal};
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
        /// What the compiler says.
        output: String,
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
                "the payload type has {wasm} bytes in wasm and {bpf} in bpf; use only u8..u64, be16..be64 and struct \
                 an_addr, no pointers, long or size_t"
            ),
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
            Error::Compile { target, output } => write!(f, "clang refuses the source for {target}:\n{output}"),
            Error::Text { output } => write!(f, "not a module:\n{output}"),
            Error::Module { cause } => write!(f, "the module cannot become a representation: {cause}"),
            Error::Object { cause } => {
                write!(
                    f,
                    "the bpf object file is not that of a capsule: {cause}; begin the program with AN_CAPSULE(name, payload type)"
                )
            }
            Error::Data { symbol, section } => write!(
                f,
                "bpf code has no static memory, but '{symbol}' is in section {section}; keep state with \
                 an_state_put(), constants in the code, or build with --only wasm"
            ),
            Error::Undefined { symbol, section } => {
                write!(f, "'{symbol}', called in section {section}, is neither defined nor a call of anode/capsule.h")
            }
            Error::Relocation { symbol, section, offset } => write!(
                f,
                "section {section} refers to '{symbol}' at byte {offset} in a way that bpf code cannot (only calls); \
                 do not take addresses of functions or variables"
            ),
            Error::Refused { explanation, .. } => explanation.fmt(f),
            Error::At { source, error } => write!(f, "{source}: {error}"),
            Error::Bundle(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
