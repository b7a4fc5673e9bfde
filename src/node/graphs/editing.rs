//! Programs change graphs of their role: within what that grants, and by the way that operators have.
//!
//! What is asked for is counted before anything is read: a second has so many changes, whatever becomes of them. Text and engines are
//! bounded before the worker hears of them.

use crate::core::bucket::{TokenBucket, burst};
use crate::graph::spec::PreparedGraph;
use crate::nodeos::interface::Error;
use crate::trust::Role;
use std::sync::Arc;

/// Why a graph is left as it is: the cause for programs, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRefusal {
    /// The cause.
    pub error: Error,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl GraphRefusal {
    /// For this cause.
    pub fn new(error: Error, why: String) -> GraphRefusal {
        GraphRefusal { error, why }
    }
}

impl From<String> for GraphRefusal {
    fn from(why: String) -> GraphRefusal {
        GraphRefusal::new(Error::Invalid, why)
    }
}

impl From<GraphRefusal> for String {
    fn from(refusal: GraphRefusal) -> String {
        refusal.why
    }
}

/// A program's domain, as far as it may change graphs.
#[derive(Clone, Debug)]
pub struct GraphEditor {
    /// Its role, which is that of its graphs.
    pub role: Arc<Role>,
}

impl GraphEditor {
    /// Refuses a text that is longer than its role lets one be.
    pub fn check_text(&self, text: &str) -> Result<(), GraphRefusal> {
        let most = self.role.graphs.text_bytes as usize;
        if text.len() <= most {
            return Ok(());
        }
        let role = &self.role.name;
        Err(limit(format!(
            "{} bytes of text are more than the role {role} has, {most} (graphs.text_bytes)",
            text.len()
        )))
    }

    /// Refuses a graph that has more engines, or leads to other devices, than its role lets it.
    pub fn check(&self, graph: &PreparedGraph) -> Result<(), GraphRefusal> {
        let (role, grants) = (&self.role.name, &self.role.graphs);
        let (engines, most) = (graph.engines(), usize::from(grants.engines));
        if engines > most {
            return Err(limit(format!("{engines} engines are more than the role {role} has, {most} (graphs.engines)")));
        }
        if !graph.away().is_empty() {
            let why = format!("programs of the role {role} place no engines at other nodes (@remote)");
            return Err(GraphRefusal::new(Error::Denied, why));
        }
        match graph.exits().find(|device| !grants.has_device(device)) {
            Some(device) => Err(GraphRefusal::new(
                Error::Denied,
                format!("the role {role} leads to no device {device} (graphs.devices)"),
            )),
            None => Ok(()),
        }
    }
}

fn limit(why: String) -> GraphRefusal {
    GraphRefusal::new(Error::Limit, why)
}

/// How often programs of a role change graphs.
struct RoleEdits {
    role: String,
    bucket: TokenBucket,
    per_second: u16,
}

/// The same of all roles.
#[derive(Default)]
pub(super) struct EditRates(Vec<RoleEdits>);

impl EditRates {
    /// Counts a change by programs of a role, or refuses it.
    pub(super) fn count(&mut self, now: u64, role: &Role) -> Result<(), GraphRefusal> {
        let per_second = role.graphs.edits_per_second;
        let full = || TokenBucket::new(per_second.into(), burst(per_second.into()));
        let at = self.0.iter().position(|edits| edits.role == role.name).unwrap_or_else(|| {
            self.0.push(RoleEdits { role: role.name.clone(), bucket: full(), per_second });
            self.0.len() - 1
        });
        let Some(edits) = self.0.get_mut(at) else { return Ok(()) };
        if edits.per_second != per_second {
            (edits.bucket, edits.per_second) = (full(), per_second);
        }
        if edits.bucket.take(now, 1) {
            return Ok(());
        }
        let role = &role.name;
        Err(GraphRefusal::new(
            Error::Again,
            format!("programs of the role {role} change graphs {per_second} times a second (graphs.edits_per_second)"),
        ))
    }
}
