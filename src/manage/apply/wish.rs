//! What operators ask of a node's configuration, by its control socket or by a signal.

use crate::sys::privileges;
use rustix::net::sockopt::socket_peercred;
use serde::Deserialize;
use serde_json::Value;
use std::os::fd::AsFd;

/// A wish: `{"do":"configure","what":{"apply":{"number":7}}}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// Takes over a configuration that was given to the broker.
    Apply {
        /// Its number.
        number: u64,
        /// The number of the configuration to which somebody has looked at the difference; 0: it has none.
        base: Option<u64>,
        /// Only says what would change.
        #[serde(default)]
        dry_run: bool,
        /// Leaves out what needs a restart.
        #[serde(default)]
        partly: bool,
        /// Goes back unless it is confirmed within so many milliseconds.
        confirm_within_ms: Option<u64>,
    },
    /// What runs stays.
    Confirm,
    /// Takes over a configuration that ran before.
    Rollback {
        /// Its number; by default the one before that which runs.
        to: Option<u64>,
        /// As above.
        #[serde(default)]
        dry_run: bool,
        /// As above.
        #[serde(default)]
        partly: bool,
        /// As above.
        confirm_within_ms: Option<u64>,
    },
    /// Takes over what the file says now that the node was started with.
    Reread,
    /// The configurations that ran.
    History,
}

/// Who fulfils wishes.
pub trait Fulfils: Send + Sync {
    /// Does what somebody wishes, and says what has come of it; while another is at it nothing is done.
    fn fulfil(&self, wish: Wish, who: &str) -> Result<Value, String>;

    /// How the node's configuration stands, for the status.
    fn standing(&self) -> Value;
}

/// Who is at the other end of a connection, for people.
pub fn who_is(connection: impl AsFd) -> String {
    let Ok(peer) = socket_peercred(connection) else { return "somebody".into() };
    let name = privileges::name_of_user(peer.uid.as_raw()).unwrap_or_else(|| peer.uid.as_raw().to_string());
    format!("{name}, process {}", peer.pid.as_raw_nonzero())
}
