//! The counter tree: all counters of the node as one value, to print or to publish.

mod sum;

use super::codes::Code;
use super::entry::EntryCounts;
use super::survey::Surveyed;
use super::{Cx, Node};
use crate::code::bundle::Kind;
use crate::core::domain::{Domain, Usage};
use crate::core::ledger::{Balance, Unaccounted};
use crate::core::log::Trap;
use crate::core::reason::Drops;
use crate::frame::{Frame, PeerId, PortId};
use crate::topology::{Gauge, Neighbour};
use crate::trust::PrincipalId;
use crate::trust::limits::Limits;
use crate::wire::Addr;
use serde::Serialize;
use std::collections::HashSet;

/// All counters of a node.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The node's name.
    pub node: String,
    /// Per port.
    pub ports: Vec<PortStatus>,
    /// What became of all frames of the user half.
    pub balance: Balance,
    /// Frames that no counter knows of, by whose.
    pub unaccounted_by: Unaccounted,
    /// Packets dropped, by reason, over the whole node.
    pub drops: Drops,
    /// Per code.
    pub codes: Vec<CodeStatus>,
    /// What is on its way.
    pub fetch: FetchStatus,
    /// Credentials that came with code.
    pub credentials: CredentialCounts,
    /// What has become of revocations.
    pub revocations: super::revoking::RevocationCounts,
    /// Hellos, if some were said or heard.
    #[serde(skip_serializing_if = "HelloCounts::is_none")]
    pub hellos: HelloCounts,
    /// Active nodes known next to this one.
    pub neighbours: Vec<NeighbourStatus>,
    /// Routes in use.
    pub routes: usize,
    /// Application ports open.
    pub applications: Vec<u16>,
    /// Named stores, which the first worker has.
    pub stores: crate::nodeos::store::StoreCounts,
    /// Edits of graphs that code has wished for.
    pub graph_wishes: super::wishing::WishCounts,
    /// The PLAN environment, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<crate::ee::plan::status::PlanStatus>,
}

/// Counters of a port.
#[derive(Clone, Debug, Serialize)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// The node's addresses on it.
    pub addresses: Vec<Addr>,
    /// The most that resource bounds of neighbours count for.
    pub bound_max: u32,
    /// The same of capsules of code that acts in a role of its own.
    pub signed_bound_max: u32,
    /// What it demands.
    pub demands: Vec<&'static str>,
    /// What it carries.
    #[serde(flatten)]
    pub gauge: Gauge,
    /// Frames that came in or went out and that its counters do not know of.
    pub unaccounted: u64,
    /// What those behind it have used that have no buckets of their own.
    pub strangers: EntryCounts,
}

/// What is known of a code, and the account of its domain.
#[derive(Clone, Debug, Serialize)]
pub struct CodeStatus {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: String,
    /// ready, coming or refused.
    pub state: &'static str,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Whether that one was revoked as a whole: what he has signed counts as unsigned where a port demands signatures.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub signer_revoked: bool,
    /// In which role it acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Why the credentials that came with it do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_refused: Option<String>,
    /// Which representation runs in the user half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub representation: Option<Kind>,
    /// How that was compiled: fast, or optimised since it is hot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The number of its domain, who pays for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// What its domain may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// What its domain has used in the user half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Where it has trapped last, in the user half; in the other nothing can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trap: Option<Trap>,
    /// Packets of its domain that no counter of the user half knows of; below 0: counted more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unaccounted: Option<i64>,
    /// "running" in the kernel half too, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// What became of the credentials that came with code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CredentialCounts {
    /// Those that gave a role, or were not needed for one.
    pub accepted: u64,
    /// Those that do not count: the code acts for `anyone`. Status says why for each code.
    pub refused: u64,
    /// Times that another neighbour was asked than the one that brought code without any that count.
    pub sought: u64,
    /// Capsules for which none was, since their neighbour had made the node ask as much as it may.
    pub unsought: u64,
}

/// Code on its way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FetchStatus {
    /// Codes on their way.
    pub codes: usize,
    /// Codes, and bpf representations beside codes, that wait for a place among those.
    pub queued: usize,
    /// Capsules that wait for them.
    pub capsules: usize,
    /// Bytes of manifests and representations in memory.
    pub object_bytes: usize,
    /// Codes that had to give way to others in the full table.
    pub displaced: u64,
}

/// Hellos of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HelloCounts {
    /// Said, each to one neighbour or to everybody on a link.
    pub said: u64,
    /// Heard and believed.
    pub heard: u64,
}

impl HelloCounts {
    /// Whether none were said or heard.
    pub fn is_none(&self) -> bool {
        *self == HelloCounts::default()
    }
}

/// A neighbour's last hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HelloStatus {
    /// How long the neighbour had been there, in milliseconds.
    pub age_ms: u64,
    /// When it came, in nanoseconds of this node's clock.
    pub heard_ns: u64,
}

/// A neighbour.
#[derive(Clone, Debug, Serialize)]
pub struct NeighbourStatus {
    /// Its address.
    pub addr: Addr,
    /// The port towards it, by name.
    pub port: String,
    /// The numbers of the keys by which it proves what it sends, that to send to it first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Its last hello, if three of its intervals are not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello: Option<HelloStatus>,
    /// What it has used; nothing if it has no bucket of its own, but shares its port's strangers'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryCounts>,
}

impl Node {
    /// All counters as they are now.
    pub fn status(&self) -> Status {
        self.status_within(&[])
    }

    /// The same within a turn, where these frames are on their way to ports.
    pub fn status_within(&self, frames: &[Frame]) -> Status {
        let counters = self.surveyed(Surveyed::Counters, frames).counters();
        counters.map_or_else(|| self.status_head(frames), |(status, ..)| status)
    }

    /// All counters but those of codes, neighbours and domains, of which there may be many.
    pub(super) fn status_head(&self, frames: &[Frame]) -> Status {
        let core = &self.cx.core;
        let ports = core.topology.ports.iter().zip(&core.gauges).zip(0..);
        let mut status = Status {
            node: self.cx.core.name.clone(),
            ports: ports
                .map(|((port, gauge), at)| PortStatus {
                    name: port.name.clone(),
                    addresses: port.addresses.iter().map(|(addr, _)| *addr).collect(),
                    bound_max: port.ceiling.unsigned,
                    signed_bound_max: port.ceiling.signed,
                    demands: self.cx.demands(PortId(at)).names().collect(),
                    gauge: gauge.clone(),
                    unaccounted: self.unaccounted_of_port(PortId(at), frames),
                    strangers: self.cx.entry_counts(PortId(at), PeerId::NONE),
                })
                .collect(),
            balance: self.balance_within(frames),
            unaccounted_by: self.unaccounted_beside_domains(frames),
            drops: self.cx.core.drops.clone(),
            codes: Vec::new(),
            credentials: CredentialCounts::default(),
            revocations: self.revocations(),
            fetch: FetchStatus::default(),
            hellos: HelloCounts::default(),
            neighbours: Vec::new(),
            routes: core.topology.routes().len(),
            applications: Vec::new(),
            stores: self.cx.control.stores.counts(),
            graph_wishes: self.cx.control.wishing.counts(),
            plan: None,
        };
        self.environments.iter().for_each(|environment| environment.status(&self.cx, &mut status));
        status
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> &Drops {
        &self.cx.core.drops
    }

    /// The number of the first line of [`Node::log`], since the node began.
    pub fn log_begins(&self) -> u64 {
        self.cx.core.log.first()
    }

    /// What mobile code has logged lately.
    pub fn log(&self) -> Vec<crate::core::log::Line> {
        self.cx.core.log.lines().copied().collect()
    }
}

impl Cx {
    pub(super) fn code_status(&self, name: String, code: &Code, disowned: &HashSet<PrincipalId>) -> CodeStatus {
        let blank = CodeStatus {
            name,
            title: String::new(),
            state: "coming",
            why: None,
            principal: None,
            signer_revoked: false,
            role: None,
            credential_refused: None,
            representation: None,
            tier: None,
            domain: None,
            limits: None,
            usage: None,
            trap: None,
            unaccounted: None,
            kernel: None,
        };
        match code {
            Code::Coming(coming) => {
                let principal = coming.grant.as_ref().and_then(|grant| grant.principal);
                let title = coming.claim.manifest.title().into();
                CodeStatus { title, principal: principal.map(|id| id.to_string()), ..blank }
            }
            Code::Refused { why, .. } => CodeStatus { state: "refused", why: Some(why.clone()), ..blank },
            Code::Ready(ready) => {
                let domain = self.core.domains.by_id(ready.domain);
                CodeStatus {
                    title: ready.claim.manifest.title().into(),
                    state: "ready",
                    principal: ready.grant.principal.map(|id| id.to_string()),
                    signer_revoked: ready.grant.principal.is_some_and(|id| disowned.contains(&id)),
                    role: Some(ready.grant.role.name.clone()),
                    credential_refused: ready.grant.refused.as_ref().map(|refused| refused.why.clone()),
                    representation: Some(ready.kind),
                    tier: (ready.kind == Kind::Wasm).then(|| ready.effort.to_string()),
                    domain: Some(ready.domain.0),
                    limits: domain.map(|domain| domain.limits),
                    usage: domain.map(Domain::usage),
                    trap: domain.and_then(|domain| domain.trapped),
                    kernel: ready.kernel.clone().map(|linked| linked.err().unwrap_or_else(|| "running".into())),
                    ..blank
                }
            }
        }
    }

    pub(super) fn neighbour_status(&self, known: &Neighbour) -> NeighbourStatus {
        NeighbourStatus {
            addr: known.addr,
            port: self.core.topology.port(known.port).map(|port| port.name.clone()).unwrap_or_default(),
            keys: self.key_numbers(known.port, known.addr).iter().map(|id| format!("{id:08x}")).collect(),
            hello: None,
            entry: match known.peer {
                PeerId::NONE => self.entry_counts_of(known.port, known.addr),
                peer => Some(self.entry_counts(known.port, peer)),
            },
        }
    }
}
