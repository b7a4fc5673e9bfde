//! JSON Schema (draft 2020-12) of what commands print of a node with `--json`. Example: `anode schema health`.
//!
//! Each is made of the type that is printed, so it cannot be another. Clients pass over fields that they do not know: a later version
//! may print more.

use crate::{code, domains, events, health, log, revoked, status, ways, wish};
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
    of::<Vec<domains::Channel>>("channels", &["channel ls"]),
    of::<code::Named>("code", &["code add NODE"]),
    of::<code::Removed>("code-removed", &["code rm NODE"]),
    of::<code::Retried>("code-retried", &["code retry"]),
    of::<code::State>("code-state", &["code state"]),
    of::<wish::Difference>("difference", &["node apply", "node rollback"]),
    of::<domains::Domain>("domain", &["domain show"]),
    of::<code::Freed>("domain-ended", &["domain kill"]),
    of::<code::Made>("domain-made", &["channel cut"]),
    of::<code::Moved>("domain-moved", &["domain move"]),
    of::<domains::Domains>("domains", &["domain ls"]),
    of::<domains::Environment>("environment", &["ee start", "ee stop", "ee restart"]),
    of::<Vec<domains::Environment>>("environments", &["ee ls"]),
    of::<events::Event>("event", &["node events"]),
    of::<health::Health>("health", &["node health"]),
    of::<Vec<wish::Ran>>("history", &["node history"]),
    of::<Vec<log::Line>>("log", &["node log"]),
    of::<log::Written>("log-line", &["node log --follow"]),
    of::<health::Whole>("report", &["node report"]),
    of::<revoked::Said>("revocation", &["cred revoke"]),
    of::<revoked::All>("revocations", &["cred revoked"]),
    of::<status::Status>("status", &["node status"]),
    of::<BTreeMap<String, i64>>("watch", &["node watch"]),
    of::<Vec<ways::Way>>("ways", &["node route"]),
];

const fn of<T: JsonSchema>(name: &'static str, commands: &'static [&'static str]) -> Described {
    Described { name, commands, schema: schema_of::<T> }
}

fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
