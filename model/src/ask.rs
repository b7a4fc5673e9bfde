//! Requests. Example: `{"do":"remove-code","name":"sha256:…"}`.

use serde::{Deserialize, Serialize};

/// The version of the protocol that these types are. A field more in an answer is no new version; a request that means something else is.
pub const PROTOCOL: u32 = 1;

/// For how long the next answer is waited for, in milliseconds, if the request says nothing of it: less than clients wait.
pub const WITHIN_MS: u64 = 5000;

/// The version that a request names beside what it asks; nothing: the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Request {
    /// The version.
    #[serde(default = "first")]
    pub protocol: u32,
}

impl Request {
    /// The field that says so.
    pub const PROTOCOL: &str = "protocol";
}

fn first() -> u32 {
    1
}

/// What a node is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// The counter tree: [`crate::status::Status`].
    Status,
    /// Lines of mobile code: [`crate::log::Line`].
    Log,
    /// The lines of mobile code and the node's own, with numbers: [`crate::log::Journal`].
    Journal,
    /// Keeps code in the store.
    AddCode {
        /// The bundle, in hexadecimal digits.
        bundle: String,
    },
    /// Takes code out of the node and its store.
    RemoveCode {
        /// Its name.
        name: String,
    },
    /// Some of a code's soft state, from a place on.
    State {
        /// Its name.
        code: String,
        /// The place; an answer names the next one.
        #[serde(default)]
        from: u64,
    },
    /// Tries modules again on which the compiler has failed.
    RetryCode,
    /// All domains: [`crate::domains::Domains`].
    Domains,
    /// Ends a domain and all below it.
    KillDomain {
        /// Its number.
        domain: u32,
    },
    /// All channels: [`crate::domains::Channel`].
    Channels,
    /// A domain with a cut-through channel, in a role.
    Cut(Cut),
    /// Makes a wasm module a PLAN service.
    LoadService {
        /// What programs call it.
        name: String,
        /// Its type, in PLAN's words.
        #[serde(rename = "type")]
        signature: String,
        /// The module, in hexadecimal digits.
        module: String,
    },
    /// Takes a PLAN service out that was loaded.
    UnloadService {
        /// What programs call it.
        name: String,
    },
    /// Takes back what a credential, a principal or a code has here, now and from now on.
    Revoke(Taken),
    /// Lists what was taken back.
    Revoked,
    /// The next answer to another request that differs from the one before.
    Next {
        /// Of which.
        of: Subject,
        /// The longest wait; then the answer is as it was.
        #[serde(default = "within_ms")]
        within_ms: u64,
    },
    /// What happens to packets from now on, as records behind the answer, until the other end goes.
    Watch,
    /// Names of ports, codes and domains, as records have them by number.
    Names,
    /// The counters as text for Prometheus: [`crate::status::Metrics`].
    Metrics {
        /// In the classic form, not in that of OpenMetrics.
        #[serde(default)]
        classic: bool,
    },
    /// Stops the node.
    Down {
        /// The kernel half works on, for the next process.
        #[serde(default)]
        keep_kernel: bool,
    },
}

fn within_ms() -> u64 {
    WITHIN_MS
}

/// Of what the next answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The counter tree.
    Status,
    /// Lines of code.
    Log,
    /// Lines of code and of the node.
    Journal,
    /// The domains.
    Domains,
    /// The channels.
    Channels,
}

impl From<Subject> for Ask {
    fn from(subject: Subject) -> Ask {
        match subject {
            Subject::Status => Ask::Status,
            Subject::Log => Ask::Log,
            Subject::Journal => Ask::Journal,
            Subject::Domains => Ask::Domains,
            Subject::Channels => Ask::Channels,
        }
    }
}

/// A cut-through channel that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Of its domain.
    pub title: String,
    /// The domain's role.
    pub role: String,
    /// Protocol and address of the incoming channel.
    pub from: [String; 2],
    /// And of the outgoing one.
    pub to: [String; 2],
    /// Bytes a second; 0: as many as the role grants.
    #[serde(default)]
    pub bandwidth: u64,
}

/// What is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Taken {
    /// By a key.
    Signed {
        /// The message that neighbours are told, in hexadecimal digits.
        message: String,
    },
    /// By the operator of this node alone.
    Here {
        /// `token`, `principal` or `code`.
        what: String,
        /// Its name.
        name: String,
    },
}
