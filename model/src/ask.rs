//! Requests. Example: `{"do":"remove-code","name":"sha256:…"}`.

use crate::events::Kind;
use crate::wish::{Act, Wish};
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
    /// Has another worker run an environment: [`crate::code::Moved`].
    MoveDomain {
        /// The number of its first domain.
        domain: u32,
        /// The worker.
        worker: u16,
    },
    /// Ends a domain and all below it.
    KillDomain {
        /// Its number.
        domain: u32,
    },
    /// All channels: [`crate::domains::Channel`].
    Channels,
    /// All named stores: [`crate::stores::Store`].
    Stores,
    /// Keys of one: [`crate::stores::Keys`].
    StoreKeys {
        /// Whose.
        holder: String,
        /// Its name.
        name: String,
        /// How they begin, as keys are shown.
        #[serde(default)]
        prefix: String,
        /// Behind which.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// What there is under a key of one: [`crate::stores::Value`].
    StoreValue {
        /// Whose.
        holder: String,
        /// Its name.
        name: String,
        /// The key, as it is shown.
        key: String,
    },
    /// All graphs: [`crate::graphs::Graph`].
    Graphs,
    /// One with its engines: [`crate::graphs::Shown`].
    Graph {
        /// Its name.
        name: String,
    },
    /// What an engine of a graph says of itself: [`crate::graphs::Handler`].
    ReadGraph {
        /// The graph's name.
        name: String,
        /// Engine and handler: `c.count`.
        handler: String,
    },
    /// Writes to an engine of a graph: [`crate::graphs::Handler`].
    WriteGraph {
        /// The graph's name.
        name: String,
        /// Engine and handler: `c.reset`.
        handler: String,
        /// What is written.
        value: String,
    },
    /// Runs a graph in the place of that of its name: [`crate::graphs::Applied`].
    ApplyGraph(GraphWish),
    /// Changes connections of a graph: [`crate::graphs::Applied`].
    EditGraph(GraphEdit),
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
    /// What is loaded: [`crate::extensions::Extension`]s.
    Extensions,
    /// Calls an extension: [`crate::extensions::Called`].
    Call {
        /// `EXTENSION.CALL`.
        call: String,
        /// A word for each parameter.
        arguments: Vec<String>,
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
    /// What the node would do with a frame: [`crate::programs::Frame`].
    Explain {
        /// The frame, in hexadecimal digits.
        frame: String,
        /// The port that it comes in by; without it the first one that is a link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
    },
    /// Where packets to these addresses go from here: [`crate::ways::Way`].
    Ways {
        /// The addresses, as text.
        to: Vec<String>,
    },
    /// The next answer to another request that differs from the one before.
    Next {
        /// Of which.
        of: Subject,
        /// The longest wait; then the answer is as it was.
        #[serde(default = "within_ms")]
        within_ms: u64,
    },
    /// What happens to packets from now on, as records behind the answer, until the other end goes.
    Watch {
        /// Of one packet in so many that come in alone, and of what becomes of it.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        one_in: u32,
    },
    /// Names of ports, codes and domains, as records have them by number.
    Names,
    /// The counters as text for Prometheus: [`crate::status::Metrics`].
    Metrics {
        /// In the classic form, not in that of OpenMetrics.
        #[serde(default)]
        classic: bool,
    },
    /// Whether all is well: [`crate::health::Health`].
    Health,
    /// What has been done to the node lately: [`crate::events::Events`].
    Events,
    /// Has the node log what is as grave as this, or graver.
    LogLevel {
        /// `error`, `warn`, `info`, `debug` or `trace`.
        level: String,
        /// Of one part of the node alone, by the beginning of its targets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// What is known of the configuration and of falls before: [`crate::health::Report`].
    Report,
    /// Another configuration, or a word on it.
    Configure {
        /// What.
        what: Wish,
    },
    /// Starts, stops or restarts an environment.
    Environment {
        /// Its name.
        name: String,
        /// What is done with it.
        act: Act,
    },
    /// Stops the node.
    Down {
        /// The kernel half works on, for the next process.
        #[serde(default)]
        keep_kernel: bool,
    },
}

fn one() -> u32 {
    1
}

fn is_one(of: &u32) -> bool {
    *of == 1
}

fn within_ms() -> u64 {
    WITHIN_MS
}

impl Ask {
    /// What it changes at the node, for people: of what kind, and what; nothing: it changes nothing.
    pub fn change(&self) -> Option<(Kind, String)> {
        Some(match self {
            Ask::AddCode { .. } => (Kind::Code, "code was given".into()),
            Ask::RemoveCode { name } => (Kind::Code, format!("code {name} was taken out")),
            Ask::RetryCode => (Kind::Code, "refused modules are tried again".into()),
            Ask::MoveDomain { domain, worker } => (Kind::Session, format!("worker {worker} is to run domain {domain}")),
            Ask::KillDomain { domain } => (Kind::Session, format!("domain {domain} was ended")),
            Ask::Cut(cut) => (Kind::Session, format!("domain {} was made to cut packets through", cut.title)),
            Ask::ApplyGraph(GraphWish { name, .. }) => (Kind::Node, format!("graph {name} was applied")),
            Ask::EditGraph(GraphEdit { name, .. }) => (Kind::Node, format!("connections of graph {name} were changed")),
            Ask::WriteGraph { name, handler, value } => {
                (Kind::Node, format!("graph {name}: {handler}={value} was written"))
            }
            Ask::LoadService { name, .. } => (Kind::Code, format!("service {name} was loaded")),
            Ask::Call { call, .. } => (Kind::Code, format!("{call} was called")),
            Ask::UnloadService { name } => (Kind::Code, format!("service {name} was taken out")),
            Ask::Revoke(Taken::Signed { .. }) => (Kind::Role, "a signed revocation was given".into()),
            Ask::Revoke(Taken::Here { what, name }) => (Kind::Role, format!("{what} {name} was revoked")),
            Ask::LogLevel { level, target: None } => (Kind::Node, format!("the level of the log is {level}")),
            Ask::LogLevel { level, target: Some(part) } => {
                (Kind::Node, format!("the level of the log of {part} is {level}"))
            }
            Ask::Configure { what } => (Kind::Node, what.change()?.into()),
            Ask::Environment { name, act } => (Kind::Session, format!("environment {name} was {}", act.done())),
            Ask::Down { keep_kernel: false } => (Kind::Node, "the node goes down".into()),
            Ask::Down { keep_kernel: true } => (Kind::Node, "the node goes down, and its kernel half stays".into()),
            Ask::Status | Ask::Log | Ask::Journal | Ask::State { .. } | Ask::Domains | Ask::Channels => return None,
            Ask::Revoked | Ask::Next { .. } | Ask::Watch { .. } | Ask::Names | Ask::Metrics { .. } => return None,
            Ask::Health | Ask::Events | Ask::Report | Ask::Ways { .. } | Ask::Explain { .. } => return None,
            Ask::Graphs | Ask::Graph { .. } | Ask::ReadGraph { .. } => return None,
            Ask::Extensions | Ask::Stores | Ask::StoreKeys { .. } | Ask::StoreValue { .. } => return None,
        })
    }
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
    /// What has been done to the node.
    Events,
}

impl From<Subject> for Ask {
    fn from(subject: Subject) -> Ask {
        match subject {
            Subject::Status => Ask::Status,
            Subject::Log => Ask::Log,
            Subject::Journal => Ask::Journal,
            Subject::Domains => Ask::Domains,
            Subject::Channels => Ask::Channels,
            Subject::Events => Ask::Events,
        }
    }
}

/// A graph that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphWish {
    /// Its name.
    pub name: String,
    /// Its text, in Click's language.
    pub text: String,
    /// The role of its domain; without it that of the graph that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Which packets it takes; without it those that the graph takes that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take: Option<Vec<String>>,
    /// The generation that whoever asks has looked at, 0 if there was none; another one is not replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// Where it is to run: `auto`, `kernel` or `user`; without it as the graph that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What an operator wants to be connected otherwise in a graph: in one step, and all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdit {
    /// The graph's name.
    pub name: String,
    /// Connections that go, as chains: `a [1] -> b`.
    #[serde(default)]
    pub disconnect: Vec<String>,
    /// Engines that go, with what is connected to them.
    #[serde(default)]
    pub remove: Vec<String>,
    /// Statements that come: connections, with the engines that they declare.
    #[serde(default)]
    pub connect: Vec<String>,
    /// The generation that whoever asks has looked at; another one is not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
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
