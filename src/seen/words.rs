//! Names for what records say by number, and the comment of a captured packet.

use super::join::{End, Half, Seen};
use crate::core::reason::Reason;
use crate::wire::{Digest, anep};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A port of a node, for whoever captures there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortName {
    /// As the configuration calls it.
    pub name: String,
    /// Whether its frames begin with an Ethernet header; else with an IP header.
    pub ethernet: bool,
}

/// A code that a node knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodeName {
    /// Its digest.
    pub name: String,
    /// What its author calls it.
    pub title: String,
    /// The domain that pays for its capsules.
    pub domain: Option<u32>,
}

/// All names of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    /// Its own.
    pub node: String,
    /// Nanoseconds since 1970 at which its clock was 0.
    pub epoch: u64,
    /// When that was, in nanoseconds of the host's monotonic clock, which all nodes of a host share.
    pub origin: u64,
    /// What its clock shows now.
    pub now: u64,
    /// Its ports, by number.
    pub ports: Vec<PortName>,
    /// Codes that it knows now.
    pub codes: Vec<CodeName>,
    /// Domains, by number.
    pub domains: HashMap<u32, String>,
}

impl Names {
    /// Of a port.
    pub fn port(&self, number: u16) -> &str {
        self.ports.get(usize::from(number)).map_or("?", |port| &port.name)
    }

    fn code(&self, code: &Digest) -> Option<&CodeName> {
        let name = code.to_string();
        self.codes.iter().find(|known| known.name == name)
    }

    /// What a code is called by its author; nothing: it is not known.
    pub fn title(&self, code: &Digest) -> Option<&str> {
        self.code(code).map(|code| &*code.title).filter(|title| !title.is_empty())
    }

    /// Whether there is a name for all that is to be said of a packet.
    pub fn knows(&self, seen: &Seen) -> bool {
        let knows_code = seen.look.code.is_none_or(|code| self.code(&code).is_some());
        knows_code && seen.story.domain.is_none_or(|domain| self.domains.contains_key(&domain))
    }

    /// What has no name after the node was asked is not asked for again.
    pub fn note(&mut self, seen: &Seen) {
        if let Some(code) = seen.look.code.filter(|code| self.code(code).is_none()) {
            self.codes.push(CodeName { name: code.to_string(), title: String::new(), domain: None });
        }
        if let Some(domain) = seen.story.domain {
            self.domains.entry(domain).or_default();
        }
    }

    /// Who pays for a packet.
    pub fn domain_of(&self, seen: &Seen) -> Option<u32> {
        let of_code = || self.code(seen.look.code.as_ref()?)?.domain;
        seen.story.domain.or_else(of_code)
    }

    /// What a packet is and what has become of it, in one line. Example:
    /// `code ping (91ab02cd), forwarded by east, domain 5 (ping), user half`.
    pub fn comment(&self, seen: &Seen) -> String {
        let mut parts = vec![self.what(seen), self.end(seen)];
        if let Some(domain) = self.domain_of(seen) {
            let title = self.domains.get(&domain).filter(|title| !title.is_empty());
            let title = title.map_or(String::new(), |title| format!(" ({title})"));
            parts.push(format!("domain {domain}{title}"));
        }
        parts.extend(seen.story.steps.map(|steps| format!("{steps} steps")));
        parts.push(
            match seen.half {
                Half::Kernel => "kernel half",
                Half::Both => "kernel half, then user half",
                Half::User => "user half",
            }
            .into(),
        );
        parts.extend(seen.look.identity.map(|identity| format!("packet {identity}")));
        // Titles are their authors'.
        crate::clean::line(&parts.join(", "))
    }

    fn what(&self, seen: &Seen) -> String {
        if let Some(code) = &seen.look.code {
            return match self.title(code) {
                Some(title) => format!("code {title} ({})", code.short()),
                None => format!("code {}", code.short()),
            };
        }
        match seen.look.kind {
            Some(anep::type_id::CAPSULE) => "malformed capsule".into(),
            Some(anep::type_id::FETCH) => "code fetch".into(),
            Some(anep::type_id::PLAN) => "PLAN".into(),
            Some(anep::type_id::REVOCATION) => "revocation".into(),
            Some(other) => format!("ANEP type {other}"),
            None => "no ANEP".into(),
        }
    }

    fn end(&self, seen: &Seen) -> String {
        let story = &seen.story;
        match &story.end {
            End::Dropped(name) => match Reason::ALL.iter().find(|reason| reason.name() == name) {
                Some(reason) => format!("dropped {name}: {}", reason.help()),
                None => format!("dropped {name}"),
            },
            _ if !seen.inward => match story.came {
                Some(port) => format!("goes on, came in by {}", self.port(port)),
                None => "sent by this node".into(),
            },
            End::Forwarded(port) => format!("forwarded by {}", self.port(*port)),
            End::Copied(copies) => format!("forwarded as {copies} copies"),
            End::Delivered(port) => format!("delivered to application port {port}"),
            End::Unknown if story.waited => "waits for its code".into(),
            End::Unknown => "taken in".into(),
        }
    }
}
