//! The control socket: one request a line, one answer a line, both JSON.
//!
//! `control.sock` in the node's run directory, readable and writable by the node's user only. Requests:
//! `{"do":"status"}`, `{"do":"log"}`, `{"do":"add-code","bundle":HEX}`, `{"do":"remove-code","name":NAME}`,
//! `{"do":"load-service","name":NAME,"type":TYPE,"module":HEX}`, `{"do":"unload-service","name":NAME}`,
//! `{"do":"domains"}`, `{"do":"kill-domain","domain":ID}`, `{"do":"channels"}`,
//! `{"do":"cut","title":…,"role":ROLE,"from":[PROTOCOL,ADDRESS],"to":[…],"bandwidth":N}`, `{"do":"down"}`, or with
//! `"keep_kernel":true`. `{"do":"names"}`. `{"do":"configure","what":…}` (`apply`).
//! `{"do":"environment","name":NAME,"act":"start"}`, or `"stop"`, `"restart"`.
//! `{"do":"watch"}` is followed by records of packets (`watch`). `{"do":"next","of":"status"}` is answered when the answer is another
//! one than before (`next`).
//! Answers: `{"ok":…}` or `{"error":WHY}`. Connections are few: one that asks nothing for a minute is closed, and so is
//! one whose request has not come within 5 s. Where there is no room for another, the one that has waited longest gives
//! way (`places`), so that nobody keeps the operator out.

mod answers;
mod handle;
mod journal;
mod next;
mod places;
mod serving;
mod sources;
mod state;
mod watch;
mod workers;
use super::apply::wish::Wish;
use super::management::Act;
use super::revoked;
use crate::frame::WorkerId;
use crate::trust::Revocation;
use crate::wire::revocation::Repr;
pub use handle::Handle;
use serde::Deserialize;
pub use serving::serve;
pub(super) use workers::Others;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Status,
    Log,
    /// The lines of mobile code and the node's own, with numbers.
    Journal,
    AddCode {
        bundle: String,
    },
    RemoveCode {
        name: String,
    },
    /// Some of a code's soft state, from a place on.
    State {
        code: String,
        #[serde(default)]
        from: u64,
    },
    /// Tries modules again on which the compiler has failed.
    RetryCode,
    Domains,
    /// Has another worker run an environment.
    MoveDomain {
        domain: u32,
        worker: WorkerId,
    },
    KillDomain {
        domain: u32,
    },
    Channels,
    /// A domain with a cut-through channel, in a role.
    Cut(super::domains::NewCut),
    /// Makes a wasm module a PLAN service.
    LoadService {
        name: String,
        #[serde(rename = "type")]
        signature: String,
        module: String,
    },
    UnloadService {
        name: String,
    },
    /// Takes back what a credential, a principal or a code has here, now and from now on.
    Revoke(Taken),
    /// Lists what was taken back.
    Revoked,
    /// The next answer to another request that differs from the one before.
    Next {
        of: next::Subject,
        /// The longest wait; then the answer is as it was.
        #[serde(default = "next::longest_ms")]
        within_ms: u64,
    },
    /// What happens to packets from now on, as records behind the answer, until the other end goes.
    Watch,
    /// Names of ports, codes and domains, as records have them by number.
    Names,
    /// Another configuration, or a word on it.
    Configure {
        what: Wish,
    },
    /// Starts, stops or restarts an environment.
    Environment {
        name: String,
        act: Act,
    },
    Down {
        /// The kernel half works on, for the next process.
        #[serde(default)]
        keep_kernel: bool,
    },
}

impl From<next::Subject> for Ask {
    fn from(subject: next::Subject) -> Ask {
        match subject {
            next::Subject::Status => Ask::Status,
            next::Subject::Log => Ask::Log,
            next::Subject::Journal => Ask::Journal,
            next::Subject::Domains => Ask::Domains,
            next::Subject::Channels => Ask::Channels,
        }
    }
}

/// What is taken back.
#[derive(Deserialize)]
#[serde(untagged)]
enum Taken {
    /// By a key: the message that neighbours are told, in hexadecimal digits.
    Signed { message: String },
    /// By the operator of this node alone: `token`, `principal` or `code`, and its name.
    Here { what: String, name: String },
}

impl Taken {
    fn revocation(&self) -> Result<Revocation, String> {
        match self {
            Taken::Signed { message } => {
                let bytes = hex::decode(message).map_err(|_| "the message is not in hexadecimal")?;
                let repr = Repr::parse(&bytes).map_err(|error| format!("the message is no revocation: {error}"))?;
                Ok(Revocation::of_wire(&repr))
            }
            Taken::Here { what, name } => {
                let subject =
                    revoked::subject_of(what, name).ok_or("revoke a token, a principal or a code by its name")?;
                Ok(Revocation::by_operator(subject, revoked::unix_s()))
            }
        }
    }
}
