//! Names for what records say by number, and the comment of a captured packet.

use super::join::{End, Half, Seen};
use crate::core::bucket::TokenBucket;
use crate::core::reason::Reason;
use crate::wire::{Digest, anep};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Questions for names in a second, and at once: codes come together.
const QUESTIONS: (u64, u64) = (5, 32);

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

    /// Which questions for names may be asked: packets may have codes that nobody knows, and the node's worker answers.
    pub fn questions() -> TokenBucket {
        TokenBucket::new(QUESTIONS.0, QUESTIONS.1)
    }

    /// Asks for names if one is missing for a packet, and that may be asked at `now`.
    pub fn renew(
        &mut self,
        seen: &Seen,
        (questions, now): (&mut TokenBucket, u64),
        ask: impl FnOnce() -> Option<Names>,
    ) {
        if self.knows(seen) || !questions.take(now, 1) {
            return;
        }
        if let Some(names) = ask() {
            // Times are told by one clock from the first packet to the last.
            *self = Names { epoch: self.epoch, ..names };
        }
        self.note(seen);
    }

    /// Whether there is a name for all that is to be said of a packet.
    fn knows(&self, seen: &Seen) -> bool {
        let knows_code = seen.look.code.is_none_or(|code| self.code(&code).is_some());
        knows_code && seen.story.domain.is_none_or(|domain| self.domains.contains_key(&domain))
    }

    /// What has no name after the node was asked is not asked for again.
    fn note(&mut self, seen: &Seen) {
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
            Some(anep::type_id::HELLO) => "hello".into(),
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
                // Its beginning was missed.
                None if seen.half == Half::Kernel => "goes on".into(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::join::Join;
    use crate::seen::record::{Record, Told};

    /// A frame as it was seen: a capsule of this code.
    fn seen(code: Digest) -> Seen {
        let mut join = Join::new(vec![true]);
        join.take(&Record { at: 1, trace: 0, what: Told::Frame(false, 0, &[0; 60]) });
        let mut seen = join.next(true).unwrap();
        seen.look.code = Some(code);
        seen
    }

    #[test]
    fn packets_of_codes_that_nobody_knows_have_the_node_asked_now_and_then() {
        let (mut names, mut may, mut questions) = (Names { epoch: 7, ..Names::default() }, Names::questions(), 0);
        for number in 0..10_000u64 {
            let unknown = seen(Digest::of(&number.to_be_bytes()));
            // One in a tenth of a millisecond, for a second.
            names.renew(&unknown, (&mut may, number * 100_000), || {
                questions += 1;
                Some(Names::default())
            });
        }
        assert_eq!((names.epoch, names.codes.len()), (7, 1));
        assert!((32..=40).contains(&questions), "{questions}");
        let title = "ping".to_owned();
        let code = Digest::of(b"ping");
        let known = CodeName { name: code.to_string(), title, domain: None };
        names.renew(&seen(code), (&mut Names::questions(), 0), || {
            Some(Names { codes: vec![known], ..Names::default() })
        });
        names.renew(&seen(code), (&mut Names::questions(), 0), || unreachable!("it is known"));
        assert!(names.comment(&seen(code)).starts_with("code ping ("));
    }

    #[test]
    fn messages_are_called_as_the_wire_formats_call_them() {
        let mut hello = seen(Digest::of(b""));
        (hello.look.code, hello.look.kind) = (None, Some(anep::type_id::HELLO));
        assert!(Names::default().comment(&hello).starts_with("hello, "));
    }
}
