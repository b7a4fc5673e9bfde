//! JSON Schema (draft 2020-12) of what commands print with `--json`. Example: `anode schema health`.
//!
//! Each is made of the type that is printed, so it cannot be another. Clients pass over fields that they do not know: a later version
//! may print more.

use crate::{
    apps, bundles, code, demo, domains, events, extensions, graphs, health, history, labs, log, meaning, programs,
    revoked, simulated, status, stores, ways, wish,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use std::collections::BTreeMap;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// As it is asked for.
    pub name: &'static str,
    /// The commands that print it.
    pub commands: &'static [&'static str],
    /// Makes the schema.
    pub schema: fn() -> Schema,
}

/// All of them.
pub const ALL: &[Described] = &[
    of::<bundles::Bundle>("bundle", &["code build", "code attach"]),
    of::<bundles::Verdict>("bundle-checked", &["code check"]),
    of::<bundles::Shown>("bundle-shown", &["code show"]),
    of::<apps::CacheAnswer>("cache", &["cache get", "cache put"]),
    of::<apps::Compared>("cache-compared", &["cache bench"]),
    of::<apps::Served>("cache-served", &["cache serve"]),
    of::<apps::CapsuleLine>("capsule", &["capsule send", "capsule listen"]),
    of::<Vec<domains::Channel>>("channels", &["channel ls"]),
    of::<code::Named>("code", &["code add", "code rm"]),
    of::<code::Removed>("code-removed", &["code rm NODE"]),
    of::<code::Retried>("code-retried", &["code retry"]),
    of::<code::State>("code-state", &["code state"]),
    of::<meaning::Meaning>("configuration", &["node check"]),
    of::<bundles::Credential>("credential", &["cred grant", "cred attenuate"]),
    of::<bundles::Inspected>("credential-file", &["cred inspect"]),
    of::<demo::Demo>("demo", &["demo"]),
    of::<wish::Difference>("difference", &["node apply", "node rollback"]),
    of::<domains::Domain>("domain", &["domain show"]),
    of::<code::Freed>("domain-ended", &["domain kill"]),
    of::<code::Made>("domain-made", &["channel cut"]),
    of::<code::Moved>("domain-moved", &["domain move"]),
    of::<domains::Domains>("domains", &["domain ls"]),
    of::<domains::Environment>("environment", &["ee start", "ee stop", "ee restart"]),
    of::<Vec<domains::Environment>>("environments", &["ee ls"]),
    of::<events::Event>("event", &["node events"]),
    of::<programs::Frame>("frame", &["classify explain"]),
    of::<graphs::Shown>("graph", &["graph show NODE"]),
    of::<graphs::Applied>("graph-applied", &["graph apply", "graph connect", "graph disconnect"]),
    of::<graphs::Handler>("graph-handler", &["graph read"]),
    of::<Vec<graphs::Graph>>("graphs", &["graph ls"]),
    of::<health::Health>("health", &["node health"]),
    of::<apps::Heavy>("heavy", &["heavy top"]),
    of::<apps::HeavySent>("heavy-sent", &["heavy send"]),
    of::<extensions::Called>("extension-called", &["node call"]),
    of::<extensions::Changed>("extension-changed", &["extension load", "extension unload"]),
    of::<extensions::Extension>("extension-checked", &["extension check"]),
    of::<Vec<extensions::Extension>>("extensions", &["extension ls"]),
    of::<Vec<wish::Ran>>("history", &["node history"]),
    of::<bundles::Principal>("key", &["cred new"]),
    of::<labs::Gone>("lab-down", &["lab down"]),
    of::<labs::Graph>("lab-graph", &["lab graph"]),
    of::<labs::Links>("lab-links", &["lab status"]),
    of::<labs::LogLine>("lab-log", &["lab logs"]),
    of::<labs::Network>("lab-nodes", &["lab check", "lab ls LAB"]),
    of::<labs::Up>("lab-up", &["lab up"]),
    of::<labs::Labs>("labs", &["lab ls"]),
    of::<Vec<log::Line>>("log", &["node log"]),
    of::<log::Written>("log-line", &["node log --follow"]),
    of::<apps::GroupLine>("multicast", &["multicast listen"]),
    of::<apps::GroupSent>("multicast-sent", &["multicast send"]),
    of::<apps::Pinged>("ping", &["ping"]),
    of::<Vec<health::Known>>("nodes", &["node ls"]),
    of::<Vec<programs::Checked>>("plan-checked", &["plan check"]),
    of::<programs::Line>("plan-line", &["plan inject"]),
    of::<programs::Ran>("plan-ran", &["plan run"]),
    of::<health::Whole>("report", &["node report"]),
    of::<revoked::Said>("revocation", &["cred revoke"]),
    of::<revoked::All>("revocations", &["cred revoked"]),
    of::<programs::Taught>("rules", &["classify check"]),
    of::<bundles::SdkPath>("sdk-path", &["code sdk-path"]),
    of::<bundles::Secret>("secret", &["cred secret"]),
    of::<simulated::Simulated>("simulated", &["sim run"]),
    of::<status::Status>("status", &["node status"]),
    of::<Vec<stores::Key>>("store-keys", &["store ls STORE"]),
    of::<stores::Value>("store-value", &["store get"]),
    of::<Vec<stores::Store>>("stores", &["store ls"]),
    of::<Vec<bundles::Stored>>("store", &["code ls"]),
    of::<history::Entry<String>>("story-line", &["packet explain", "sim explain"]),
    of::<apps::Traced>("trace", &["trace"]),
    of::<BTreeMap<String, i64>>("watch", &["node watch"]),
    of::<Vec<ways::Way>>("ways", &["node route"]),
];

const fn of<T: JsonSchema>(name: &'static str, commands: &'static [&'static str]) -> Described {
    Described { name, commands, schema: schema_of::<T> }
}

fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
