//! What goes over the socket of a jail, as JSON: one order in, what becomes of it out.

use super::{Jail, Part};
use crate::sys::seqpacket::SeqPacket;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 64 << 10;

/// What the helper is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What is to be.
    pub jail: Jail,
    /// Whether it gets namespaces.
    pub namespaces: bool,
    /// Whether they need a user namespace around them, since the starter has not the privilege.
    pub user_namespace: bool,
    /// The control groups that it joins.
    pub groups: Vec<PathBuf>,
}

/// What the starter is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// There is an init process; its pidfd comes along.
    Born {
        /// Its number on the host.
        pid: u32,
        /// Its user.
        uid: u32,
        /// Users that it was not given, because processes of theirs live on: some of them.
        passed: Vec<u32>,
    },
    /// The program's process says this itself, so that the kernel says which it is.
    Program,
    /// The program runs.
    Runs {
        /// What was not to be had.
        weaker: Vec<Part>,
    },
    /// It does not.
    Failed {
        /// For want of this, if it is something that hosts may lack.
        part: Option<Part>,
        /// For people.
        why: String,
    },
    /// The program has ended.
    Ended(End),
}

/// How the program of a jail has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// By itself, with this status.
    Status(i32),
    /// By a signal.
    Signal(i32),
    /// With its jail: nobody could say how.
    Unknown,
}

impl End {
    /// Whether it says that all was well.
    pub fn is_success(self) -> bool {
        self == End::Status(0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Status(status) => write!(f, "status {status}"),
            End::Signal(signal) => write!(f, "signal {signal}"),
            End::Unknown => f.write_str("killed with its jail"),
        }
    }
}

/// Why a jail could not be made, and for want of what.
#[derive(Debug)]
pub struct Failure {
    pub part: Option<Part>,
    pub error: io::Error,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { part: None, error }
    }
}

/// Says for want of what something failed.
pub trait Lacking<T> {
    /// It failed for want of `part`, while doing `what`.
    fn lacking(self, part: Part, what: &str) -> Result<T, Failure>;
    /// It failed while doing `what`.
    fn while_doing(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Lacking<T> for Result<T, E> {
    fn lacking(self, part: Part, what: &str) -> Result<T, Failure> {
        self.while_doing(what).map_err(|failure| Failure { part: Some(part), ..failure })
    }

    fn while_doing(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            Failure { part: None, error: io::Error::new(error.kind(), format!("{what}: {error}")) }
        })
    }
}

impl Said {
    /// Sends it.
    pub fn send(&self, over: &SeqPacket) -> io::Result<()> {
        over.send(&serde_json::to_vec(self)?)
    }
}
