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

/// Who may not make any graph: a program, as far as it may change some, or a neighbour with parts here.
#[derive(Clone, Debug)]
pub struct GraphEditor {
    /// Its role, which is that of its graphs.
    pub role: Arc<Role>,
}

impl GraphEditor {
    /// Engines of one of its graphs, at most.
    pub fn engines(&self) -> usize {
        self.role.graphs.engines.into()
    }

    /// Refuses a text that is longer than its role lets one be.
    pub fn check_text(&self, text: &str) -> Result<(), GraphRefusal> {
        self.check_bytes(text.len())
    }

    /// The same of so many bytes.
    pub fn check_bytes(&self, bytes: usize) -> Result<(), GraphRefusal> {
        let most = self.role.graphs.text_bytes as usize;
        if bytes <= most {
            return Ok(());
        }
        let role = &self.role.name;
        Err(limit(format!("{bytes} bytes of text are more than the role {role} has, {most} (graphs.text_bytes)")))
    }

    /// Refuses a graph that has more engines, or leads to other devices, than its role lets it.
    pub fn check(&self, graph: &PreparedGraph) -> Result<(), GraphRefusal> {
        let (role, grants) = (&self.role.name, &self.role.graphs);
        let (engines, most) = (graph.engines(), self.engines());
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

/// Says which port a graph has for the host, and its role does not.
pub fn may_have_host<'a>(mut hosts: impl Iterator<Item = &'a str>, role: &Role) -> Result<(), String> {
    match hosts.find(|port| !role.graphs.has_host(port)) {
        Some(port) => Err(format!(
            "FromHost and ToHost of {port} are not for the role {}: [role.graphs] host names the ports whose other end is the host's",
            role.name
        )),
        None => Ok(()),
    }
}

fn limit(why: String) -> GraphRefusal {
    GraphRefusal::new(Error::Limit, why)
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditorAsk {
    /// A change.
    Change,
    /// What there is.
    Look,
    /// What it has been let do goes on: it is not counted again.
    Again,
}

/// How often programs of a role look at graphs, in a second and at once.
const LOOKS_PER_SECOND: u64 = 100;

/// How often programs of a role change graphs, and look at them.
struct RoleEdits {
    role: String,
    bucket: TokenBucket,
    per_second: u16,
    looks: TokenBucket,
}

/// The same of all roles.
#[derive(Default)]
pub(super) struct EditRates(Vec<RoleEdits>);

impl EditRates {
    /// Counts a change or a look by programs of a role, or refuses it.
    pub(super) fn count(&mut self, now: u64, role: &Role, asks: EditorAsk) -> Result<(), GraphRefusal> {
        let per_second = role.graphs.edits_per_second;
        let Some(edits) = self.of(role) else { return Ok(()) };
        let (is_counted, most) = match asks {
            EditorAsk::Again => return Ok(()),
            EditorAsk::Change => (
                edits.bucket.take(now, 1),
                format!("change graphs {per_second} times a second (graphs.edits_per_second)"),
            ),
            EditorAsk::Look => (edits.looks.take(now, 1), format!("look at graphs {LOOKS_PER_SECOND} times a second")),
        };
        if is_counted {
            return Ok(());
        }
        Err(GraphRefusal::new(Error::Again, format!("programs of the role {} {most}", role.name)))
    }

    /// Whether programs of a role have a change left.
    pub(super) fn has_change(&mut self, now: u64, role: &Role) -> bool {
        self.of(role).is_some_and(|edits| edits.bucket.has(now, 1))
    }

    fn of(&mut self, role: &Role) -> Option<&mut RoleEdits> {
        let per_second = role.graphs.edits_per_second;
        let full = || TokenBucket::new(per_second.into(), burst(per_second.into()));
        let at = self.0.iter().position(|edits| edits.role == role.name).unwrap_or_else(|| {
            let looks = TokenBucket::new(LOOKS_PER_SECOND, LOOKS_PER_SECOND);
            self.0.push(RoleEdits { role: role.name.clone(), bucket: full(), per_second, looks });
            self.0.len() - 1
        });
        let edits = self.0.get_mut(at)?;
        if edits.per_second != per_second {
            (edits.bucket, edits.per_second) = (full(), per_second);
        }
        Some(edits)
    }
}
