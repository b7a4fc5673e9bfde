//! The environment of capsules: runs the code that a capsule names.
//!
//! Its parts are modules of their own: `codes` knows what each code name means, `loading` brings absent code here,
//! `serving` answers neighbours that ask for code, `running` runs it and acts on the verdict, `halves` goes on where
//! the kernel half has ended.

use super::codes::{Codes, FoundCode};
use super::ending::Gone;
use super::environment::{Environment, OwnType, PacketKind};
use super::handing::{FIRST, HandedAs};
use super::objects::Objects;
use super::output::{Ingress, Turn};
use super::rates::Rates;
use super::running::{ReadyCode, Sender, set_previous};
use super::serving::Serving;
use super::status::{CredentialCounts, FetchStatus, Status};
use super::turning::Turned;
use super::vouching::Vouching;
use super::{Cx, LOOK, Sizes, halves, secret};
use crate::abi::NONE;
use crate::classify::Native;
use crate::code::fetch::{Fetch, Source};
use crate::core::bucket::TokenBucket;
use crate::core::domain::{DomainId, EnvironmentId};
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame};
use crate::wire::anep::type_id;
use crate::wire::{Digest, capsule};
use std::collections::HashSet;

/// Time between two looks at whether code still has the role it was given, in nanoseconds: credentials end.
const REVIEW: u64 = 60_000_000_000;

/// The kind of capsules.
const CAPSULE: PacketKind = PacketKind::Anep(type_id::CAPSULE);

/// The environment of capsules: codes, from the name in a packet to the slot where it runs.
pub(super) struct Capsules {
    pub(super) place: EnvironmentId,
    /// Its domain, above those of the codes.
    pub(super) domain: DomainId,
    pub(super) codes: Codes,
    pub(super) fetch: Fetch,
    pub(super) objects: Objects,
    pub(super) serving: Serving,
    /// Of each neighbour, or of all that are unknown at a port, the codes that it makes the node look for.
    pub(super) look_ups: Rates<Ingress>,
    /// Ports at which somebody takes capsules.
    pub(super) applications: HashSet<u16>,
    pub(super) credentials: CredentialCounts,
    /// What is asked for beside code.
    pub(super) vouching: Vouching,
    /// Codes that run in the kernel half and are to be prepared here.
    pub(super) adopted: Vec<Digest>,
    /// How often the kernel half is asked to let copies leave by other links.
    pub(super) links_wanted: TokenBucket,
    pub(super) next_look: u64,
    pub(super) next_review: u64,
}

impl Capsules {
    pub(super) fn new(domain: DomainId, sizes: &Sizes, seed: u64) -> Capsules {
        Capsules {
            place: EnvironmentId::default(),
            domain,
            codes: Codes::new(sizes.codes),
            fetch: Fetch::new(secret(seed, b"nonces")),
            objects: Objects::new(sizes.object_bytes),
            serving: Serving::new(sizes.fetch_bytes_per_second),
            look_ups: Rates::new(sizes.look_ups_per_second, sizes.look_ups_per_second.max(sizes.codes as u64)),
            applications: HashSet::new(),
            credentials: CredentialCounts::default(),
            vouching: Vouching::default(),
            adopted: Vec::new(),
            links_wanted: halves::links_wanted(),
            next_look: LOOK,
            next_review: REVIEW,
        }
    }
}

impl Capsules {
    /// Who sent a capsule that has been let in, and what is left of its bound; nothing: it ends or goes on elsewhere. `native`: it
    /// came in an IP packet.
    #[inline(always)]
    pub(super) fn find_sender(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        header: &mut capsule::Header,
        native: bool,
    ) -> Option<(Frame, Sender)> {
        let Some((source, index)) = cx.source_of(turn.now, &frame, header.previous, native) else {
            cx.drop(turn, frame, Reason::Stranger);
            return None;
        };
        if cx.is_further() && index == NONE && cx.may_be_neighbour(&source) {
            cx.hand_on(turn, frame, FIRST, HandedAs::Capsule { native });
            return None;
        }
        let neighbour = Turned::Neighbour(source.port, source.addr);
        if cx.holds(neighbour) {
            self.hold_capsule(cx, turn, frame, neighbour);
            return None;
        }
        cx.tell_new_neighbours(turn);
        if header.previous != source.addr {
            header.previous = source.addr;
            set_previous(&mut frame, source.addr);
        }
        if header.bound > cx.ceiling(frame.port).unsigned {
            self.clamp_capsule(cx, turn, &mut frame, header);
        }
        Some((frame, Sender { source: Some(source), index }))
    }
}

impl Environment for Capsules {
    fn placed(&mut self, place: EnvironmentId) {
        self.place = place;
    }

    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        const TYPES: [OwnType; 3] = [
            OwnType { kind: CAPSULE, waits: true },
            OwnType { kind: PacketKind::Anep(type_id::FETCH), waits: false },
            OwnType { kind: PacketKind::Punt, waits: true },
        ];
        (&TYPES, Some(self.domain))
    }

    /// A capsule has come in, a message about code, or a capsule that has run in the kernel half.
    #[inline]
    fn packet(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        kind: PacketKind,
        mut frame: Frame,
        native: Option<&Native>,
    ) {
        match kind {
            CAPSULE => {}
            PacketKind::Punt => return self.receive_punt(cx, turn, frame),
            // The other kind that is its own.
            _ => return self.receive_fetch(cx, turn, frame, native),
        }
        let Ok(mut header) = capsule::Header::parse(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedCapsule);
        };
        if let Some(native) = native {
            if native.destination != header.destination {
                return cx.drop(turn, frame, Reason::DestinationMismatch);
            }
            // Only injected capsules have no previous node, and those come from applications.
            if header.previous.is_unspecified() {
                return cx.drop(turn, frame, Reason::MalformedCapsule);
            }
            frame.envelope = native.envelope;
        } else {
            frame.envelope = Envelope::FRESH;
        }
        let Some((frame, from)) = self.find_sender(cx, turn, frame, &mut header, native.is_some()) else { return };
        self.process(cx, turn, frame, &header, from);
    }

    /// A capsule that waited runs, or goes on where the kernel half has stopped. `what`: the index of who sent it among the
    /// neighbours, or [`halves::PUNT`].
    #[inline]
    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, frame: Frame) -> u64 {
        if what == halves::PUNT {
            self.go_on(cx, turn, frame, domain);
            return 0;
        }
        let before = cx.steps_of(domain);
        match capsule::Header::again(frame.bytes()) {
            Some(header) => {
                // What begins here has no previous node.
                let source = Source { port: frame.port, peer: frame.peer, addr: header.previous };
                let source = (!header.previous.is_unspecified()).then_some(source);
                match self.codes.find(&header.code, turn.now, frame.payer) {
                    FoundCode::Ready { slot, domain: now, window, steps, .. } if now == domain => {
                        let code = ReadyCode { slot, domain, window, steps };
                        self.run_code(cx, turn, frame, &header, code, Sender { source, index: what });
                    }
                    // The code is in another domain meanwhile, or on its way: what it waited for is no more.
                    _ => cx.drop_in(turn, frame, Reason::CodeGone, domain),
                }
            }
            None => cx.drop_in(turn, frame, Reason::MalformedCapsule, domain),
        }
        cx.steps_of(domain).saturating_sub(before)
    }

    fn next_timer(&self) -> u64 {
        self.fetch.deadline().unwrap_or(u64::MAX)
    }

    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.expire_fetches(cx, turn);
    }

    fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        if cx.is_further() {
            return;
        }
        self.settle_budgets(cx, turn.now);
        self.want_adopted(cx, turn);
        self.look_for_hot_code(cx, turn);
        if turn.now >= self.next_look {
            self.next_look = turn.now + LOOK;
            self.look_at_budgets(cx, turn);
        }
        if turn.now >= self.next_review {
            self.next_review = turn.now + REVIEW;
            self.review_grants(turn);
        }
    }

    fn ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, gone: &[Gone]) -> usize {
        self.domains_ended(cx, turn, gone)
    }

    fn held(&self) -> u64 {
        (self.fetch.waiting() + self.serving.waiting()) as u64
    }

    fn status(&self, _: &Cx, status: &mut Status) {
        status.credentials = self.credentials;
        status.fetch = FetchStatus {
            codes: self.fetch.len(),
            queued: self.fetch.queued(),
            capsules: self.fetch.waiting(),
            object_bytes: self.objects.bytes(),
            displaced: self.codes.displaced,
        };
        status.applications = self.applications.iter().copied().collect();
        status.applications.sort_unstable();
    }
}

impl Capsules {
    /// Codes are charged what the kernel half has spent of their budgets, also those that nobody runs here just now: what is
    /// charged late finds a bucket that has thrown away what came back meanwhile.
    fn settle_budgets(&mut self, cx: &mut Cx, now: u64) {
        for (_, ready) in self.codes.ready() {
            cx.core.domains.of(ready.domain).into_iter().for_each(|domain| domain.settle(now));
        }
    }
}
