//! Names for what records say by number, and the comment of a captured packet.

use super::join::{End, Half, Seen};
use crate::core::bucket::TokenBucket;
use crate::core::reason::Reason;
use crate::wire::{Digest, anep};
pub use model::names::{CodeName, Names, PortName};

/// Questions for names in a second, and at once: codes come together.
const QUESTIONS: (u64, u64) = (5, 32);

/// Which questions for names may be asked: packets may have codes that nobody knows, and the node's worker answers.
pub fn questions() -> TokenBucket {
    TokenBucket::new(QUESTIONS.0, QUESTIONS.1)
}

/// What names say of packets.
pub trait Naming {
    /// What a code is called by its author; nothing: it is not known.
    fn title(&self, code: &Digest) -> Option<&str>;

    /// Asks for names if one is missing for a packet, and that may be asked at `now`.
    fn renew(&mut self, seen: &Seen, may: (&mut TokenBucket, u64), ask: impl FnOnce() -> Option<Names>);

    /// Who pays for a packet.
    fn domain_of(&self, seen: &Seen) -> Option<u32>;

    /// What a packet is and what has become of it, in one line. Example:
    /// `code ping (91ab02cd), forwarded by east, domain 5 (ping), user half`.
    fn comment(&self, seen: &Seen) -> String;
}

impl Naming for Names {
    fn title(&self, code: &Digest) -> Option<&str> {
        self.code(&code.to_string()).map(|code| &*code.title).filter(|title| !title.is_empty())
    }

    fn renew(&mut self, seen: &Seen, (questions, now): (&mut TokenBucket, u64), ask: impl FnOnce() -> Option<Names>) {
        if knows(self, seen) || !questions.take(now, 1) {
            return;
        }
        if let Some(names) = ask() {
            // Times are told by one clock from the first packet to the last.
            *self = Names { epoch: self.epoch, ..names };
        }
        note(self, seen);
    }

    fn domain_of(&self, seen: &Seen) -> Option<u32> {
        let of_code = || self.code(&seen.look.code.as_ref()?.to_string())?.domain;
        seen.story.domain.or_else(of_code)
    }

    fn comment(&self, seen: &Seen) -> String {
        let mut parts = vec![what(self, seen), end(self, seen)];
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
}

/// Whether there is a name for all that is to be said of a packet.
fn knows(names: &Names, seen: &Seen) -> bool {
    let knows_code = seen.look.code.is_none_or(|code| names.code(&code.to_string()).is_some());
    knows_code && seen.story.domain.is_none_or(|domain| names.domains.contains_key(&domain))
}

/// What has no name after the node was asked is not asked for again.
fn note(names: &mut Names, seen: &Seen) {
    let code = seen.look.code.map(|code| code.to_string());
    if let Some(name) = code.filter(|name| names.code(name).is_none()) {
        names.codes.push(CodeName { name, title: String::new(), domain: None });
    }
    if let Some(domain) = seen.story.domain {
        names.domains.entry(domain).or_default();
    }
}

fn what(names: &Names, seen: &Seen) -> String {
    if let Some(code) = &seen.look.code {
        return match names.title(code) {
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

fn end(names: &Names, seen: &Seen) -> String {
    let story = &seen.story;
    match &story.end {
        End::Dropped(name) => match Reason::ALL.iter().find(|reason| reason.name() == name) {
            Some(reason) => format!("dropped {name}: {}", reason.help()),
            None => format!("dropped {name}"),
        },
        _ if !seen.inward => match story.came {
            Some(port) => format!("goes on, came in by {}", names.port(port)),
            // Its beginning was missed.
            None if seen.half == Half::Kernel => "goes on".into(),
            None => "sent by this node".into(),
        },
        End::Forwarded(port) => format!("forwarded by {}", names.port(*port)),
        End::Copied(copies) => format!("forwarded as {copies} copies"),
        End::Delivered(port) => format!("delivered to application port {port}"),
        End::Unknown if story.waited => "waits for its code".into(),
        End::Unknown => "taken in".into(),
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
        let (mut names, mut may, mut asked) = (Names { epoch: 7, ..Names::default() }, questions(), 0);
        for number in 0..10_000u64 {
            let unknown = seen(Digest::of(&number.to_be_bytes()));
            // One in a tenth of a millisecond, for a second.
            names.renew(&unknown, (&mut may, number * 100_000), || {
                asked += 1;
                Some(Names::default())
            });
        }
        assert_eq!((names.epoch, names.codes.len()), (7, 1));
        assert!((32..=40).contains(&asked), "{asked}");
        let title = "ping".to_owned();
        let code = Digest::of(b"ping");
        let known = CodeName { name: code.to_string(), title, domain: None };
        names.renew(&seen(code), (&mut questions(), 0), || Some(Names { codes: vec![known], ..Names::default() }));
        names.renew(&seen(code), (&mut questions(), 0), || unreachable!("it is known"));
        assert!(names.comment(&seen(code)).starts_with("code ping ("));
    }

    #[test]
    fn messages_are_called_as_the_wire_formats_call_them() {
        let mut hello = seen(Digest::of(b""));
        (hello.look.code, hello.look.kind) = (None, Some(anep::type_id::HELLO));
        assert!(Names::default().comment(&hello).starts_with("hello, "));
    }
}
