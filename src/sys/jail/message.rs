//! Messages over the socket of a jail, as JSON: one order in, reports out.

use super::{Jail, Part};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Bytes of the longest order.
pub const ORDER_MAX: usize = 64 << 10;

/// Bytes of the longest thing that is said.
pub const SAID_MAX: usize = 16 << 10;

/// Bytes of the reason why there is no jail. In JSON each may become six.
pub const WHY_MAX: usize = 2 << 10;

/// What the helper is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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

impl Order {
    /// Reads an order; it may still mean nothing ([`Jail::check`]).
    pub fn decode(message: &[u8]) -> io::Result<Order> {
        if message.len() > ORDER_MAX {
            return Err(too_long());
        }
        serde_json::from_slice(message).map_err(io::Error::from)
    }

    /// The message; an error if it is too long.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        Some(serde_json::to_vec(self)?).filter(|message| message.len() <= ORDER_MAX).ok_or_else(too_long)
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("a jail's description has more than {ORDER_MAX} bytes"))
}

impl Said {
    /// That there is no jail, and why, if need be with fewer words.
    pub fn failed(part: Option<Part>, error: &io::Error) -> Said {
        let mut why = error.to_string();
        why.truncate(why.floor_char_boundary(WHY_MAX));
        Said::Failed { part, why }
    }

    /// Reads what is said.
    pub fn decode(message: &[u8]) -> io::Result<Said> {
        if message.len() > SAID_MAX {
            let why = format!("a jail says more than {SAID_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        serde_json::from_slice(message).map_err(io::Error::from)
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // Types of this shape can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
