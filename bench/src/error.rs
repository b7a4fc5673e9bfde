//! Errors that leave a benchmark without a result, each with a remedy.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why a benchmark has no result.
#[derive(Debug)]
pub(crate) enum Error {
    /// There is no C compiler.
    NoCompiler { cc: OsString, cause: io::Error },
    /// A baseline did not compile.
    Compile { name: String, log: String },
    /// A file could not be written.
    Write { path: PathBuf, cause: io::Error },
    /// A program could not be started.
    Start { program: PathBuf, cause: io::Error },
    /// The node's program does not stand beside this one.
    NoProgram { path: PathBuf, cause: io::Error },
    /// It is another file than when the benchmark began.
    Replaced(PathBuf),
    /// No namespace may be made.
    NoNamespace,
    /// Interfaces could not be set up.
    Interfaces(String),
    /// The generator said something unexpected.
    Protocol(String),
    /// A gateway forwards nothing, or not every packet.
    Silent { gateway: String, state: String, log: String },
    /// A gateway forwards something else.
    Wrong { gateway: String, what: String },
    /// A capsule to be measured cannot be built.
    Guest(String),
    /// The CPU clock of a process does not show what the kernel does in its context.
    HiddenTime,
    /// A node does not do what a benchmark asks.
    Node(String),
    /// Another build cannot be compared with.
    Against { binary: PathBuf, why: String },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoCompiler { cc, cause } => {
                write!(
                    f,
                    "the baselines are C and {} does not run ({cause}): install gcc and clang, or set CC",
                    cc.display()
                )
            }
            Error::Compile { name, log } => {
                write!(f, "bench/c/{name}.c does not compile; set CC to a C11 compiler:\n{log}")
            }
            Error::Write { path, cause } => {
                write!(
                    f,
                    "{} cannot be written ({cause}): choose another folder by --out, XDG_CACHE_HOME or TMPDIR",
                    path.display()
                )
            }
            Error::Start { program, cause } => {
                write!(f, "{} does not start ({cause}): is it installed?", program.display())
            }
            Error::NoProgram { path, cause } => write!(
                f,
                "the node to be measured is to stand beside anode-bench, and there is no {} ({cause}): build both by \
                 `cargo build --release`",
                path.display()
            ),
            Error::Replaced(path) => {
                write!(f, "{} was replaced while it was measured: leave it alone and begin again", path.display())
            }
            Error::NoNamespace => write!(f, "no network namespace can be made here: run as root"),
            Error::Interfaces(log) => write!(f, "the interfaces of the benchmark cannot be set up:\n{log}"),
            Error::Protocol(line) => write!(f, "the generator failed: {line}"),
            Error::Silent { gateway, state, log } => {
                write!(f, "{gateway} does not forward whole bursts ({state}); it printed:\n{log}")
            }
            Error::Wrong { gateway, what } => write!(f, "{gateway} forwards wrongly: {what}"),
            Error::Guest(why) => write!(f, "the benchmark's capsules cannot be built: {why}"),
            Error::HiddenTime => write!(
                f,
                "the kernel books the time of softirqs apart from processes, or others took the CPU: use a quiet machine \
                 and a kernel without CONFIG_IRQ_TIME_ACCOUNTING"
            ),
            Error::Node(why) => write!(f, "a node of the benchmark failed: {why}"),
            Error::Against { binary, why } => write!(f, "no round of {}: {why}", binary.display()),
        }
    }
}

impl std::error::Error for Error {}
