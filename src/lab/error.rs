//! Errors of a lab, each with its cause and the remedy.

use crate::labfile;
use core::fmt;
use std::path::PathBuf;

/// Why a lab could not be read, built, found or taken down.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The lab file cannot be used.
    Written(labfile::Error),
    /// Namespaces need privileges that this process lacks.
    NotRoot,
    /// A namespace of the lab's naming exists and somebody else made it.
    Foreign {
        /// Its name.
        namespace: String,
    },
    /// No lab of that name is known here.
    NoLab {
        /// The name looked for.
        name: String,
    },
    /// The lab has no such node, or the node's namespace is gone.
    NoNode {
        /// The lab.
        lab: String,
        /// The node looked for.
        node: String,
    },
    /// An active node ended, or did not answer, after it was started.
    NodeFailed {
        /// The node.
        node: String,
        /// What it wrote.
        said: String,
    },
    /// There is no such link, or it is a plain pair of interfaces.
    NotCarried {
        /// The end that was named.
        link: String,
        /// Whether there is such a link.
        plain: bool,
    },
    /// The links that have a rate, a delay or the like cannot be carried.
    Links {
        /// What their process said.
        said: String,
    },
    /// A program that the lab is built with could not be started.
    Tool {
        /// Its name.
        program: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// One of its commands was refused.
    Command {
        /// The program, where it ran, and the refused command.
        command: String,
        /// What the program printed.
        message: String,
    },
    /// A system call of ours was refused.
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Written(error) => error.fmt(f),
            Error::NotRoot => f.write_str("network namespaces need root; run as root, or use `anode sim` without it"),
            Error::Foreign { namespace } => write!(
                f,
                "namespace {namespace} exists and was not made by `anode lab`; rename the lab, or remove it yourself \
                 with `ip netns del {namespace}`"
            ),
            Error::NoLab { name } => {
                write!(f, "no lab '{name}' here; `anode lab ls` lists them, `anode lab up FILE` makes one")
            }
            Error::NoNode { lab, node } => {
                write!(
                    f,
                    "lab '{lab}' has no node '{node}' that is up; `anode lab ls {lab}` lists them, `anode lab up` repairs"
                )
            }
            Error::Tool { program, source } => {
                write!(f, "cannot run {program}: {source}; install it with `apt-get install iproute2 ethtool`")
            }
            Error::NotCarried { link, plain: false } => {
                write!(
                    f,
                    "no link ends at '{link}'; name one of its ends as NODE/INTERFACE, as `anode lab ls LAB` has them"
                )
            }
            Error::NotCarried { link, plain: true } => write!(
                f,
                "the link of {link} is a plain pair of interfaces, where nobody sees all frames; write delay_ms = 0.001 for it, \
                 and `anode lab up`"
            ),
            Error::Links { said } => {
                write!(f, "the lab's links with a rate, a delay or the like cannot be carried: {}", said.trim_end())
            }
            Error::NodeFailed { node, said } => {
                write!(f, "the anode node of {node} does not run; it wrote: {}", said.trim_end())
            }
            Error::Command { command, message } => {
                write!(
                    f,
                    "refused: {command}: {}; `anode lab up` again repairs, `anode lab down` removes",
                    message.trim()
                )
            }
            Error::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl From<labfile::Error> for Error {
    fn from(error: labfile::Error) -> Error {
        Error::Written(error)
    }
}

/// Causes are part of the message, so there is no chain of sources to print again.
impl core::error::Error for Error {}
