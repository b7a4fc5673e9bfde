//! Revocations at this node: running code of a revoked key ends, and neighbours are told.
//!
//! ```text
//! a neighbour ─▶ known? rate? ─▶ effect: verify, remember ─┐
//! the operator ────────────────────────────────────────────┴─▶ codes and principals that lose something end ─▶ neighbours, once
//! ```
//!
//! The table of revocations is the security module's ([`crate::trust::Roles`]), which refuses from then on; this module
//! ends what is already in the node. A message is passed on when it is news, and not when it comes again, even if it
//! was displaced meanwhile: else more strangers' messages than a table holds would go round for ever. Links lose
//! messages and fall apart, so remembered ones are told again in turn, none to the same neighbour within `AGAIN`.

use super::codes::Code;
use super::environment::{Environment, OwnType, PacketKind};
use super::output::{Effect, Ingress, Turn};
use super::rates::Rates;
use super::{Capsules, Cx, Node};
use crate::classify::Native;
use crate::code::fetch::Source;
use crate::code::judge::Grant;
use crate::core::bucket::TokenBucket;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::trust::{Extent, Kept, Revocation, Rights, Subject};
use crate::wire::revocation::{Key, LENGTH, Repr, View};
use crate::wire::{Addr, Digest, anep};
use std::collections::{HashSet, VecDeque};

/// Revocations a second that one neighbour may tell, or all whom a port does not know together, and at once.
const PER_SECOND: u64 = 8;
const BURST: u64 = 64;
/// Messages a second by which news are passed on, over all neighbours, and at once. What is more waits for its turn to be told again.
const RELAYS_PER_SECOND: u64 = 256;
const RELAYS_BURST: u64 = 1024;
/// Time after which a neighbour is told the same again, in nanoseconds.
const AGAIN: u64 = 10_000_000_000;
/// Signed revocations that a node tells others: as many as its table holds.
const KNOWN_MAX: usize = 4096;
/// Revocations that had to give way and are no news when they come again: of more than the keys of sixteen full tables.
const FORGOTTEN_MAX: usize = 8192;

/// What a revocation has ended here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedCodes {
    /// Their names.
    pub names: Vec<Digest>,
    /// Codes, ready or on their way.
    pub codes: usize,
    /// Domains of principals who sent PLAN packets.
    pub domains: usize,
    /// Neighbours that were told.
    pub told: usize,
    /// Whether the key that says so has signed or issued what is revoked, so that others obey; nothing if that cannot be told here.
    pub issued: Option<bool>,
}

/// A code of which something is taken.
struct Hit {
    code: Digest,
    extent: Extent,
    /// Whether the key by itself takes it.
    issued: bool,
    why: String,
}

/// What has become of revocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RevocationCounts {
    /// Signed ones that neighbours are told.
    pub known: usize,
    /// News that came from neighbours.
    pub news: u64,
    /// Messages that said nothing new.
    pub repeated: u64,
    /// Messages that were sent.
    pub told: u64,
}

/// The environment of revocations: what a node tells its neighbours.
pub(super) struct Revocations {
    /// Who has its channels.
    domain: DomainId,
    known: Vec<Repr>,
    /// What was heard: what is known, and `forgotten`.
    heard: HashSet<Digest>,
    /// What had to give way, in that order.
    forgotten: VecDeque<Digest>,
    rates: Rates<Ingress>,
    relays: TokenBucket,
    /// Which pair of revocation and neighbour is next, and when.
    next: usize,
    next_at: u64,
    counts: RevocationCounts,
    /// Those that the outside judges.
    judging: u64,
}

impl Environment for Revocations {
    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[OwnType { kind: PacketKind::Anep(anep::type_id::REVOCATION), waits: false }], Some(self.domain))
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: PacketKind, frame: Frame, native: Option<&Native>) {
        // The work is the node's own.
        cx.on_domain(turn.now, cx.control.management);
        self.receive(cx, turn, frame, native);
    }

    fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.tell_again(cx, turn);
    }

    fn held(&self) -> u64 {
        self.judging
    }
}

/// A key in 32 bytes. Whoever finds two that are the same there can have the second word taken for the first, so no bit
/// of the hash is left out.
fn mark((what, subject, signer): &Key) -> Digest {
    Digest::of(&[&[*what as u8][..], subject, signer].concat())
}

impl Revocations {
    /// None yet; the domain has the channels of their type.
    pub(super) fn new(domain: DomainId) -> Revocations {
        Revocations {
            domain,
            known: Vec::new(),
            heard: HashSet::new(),
            forgotten: VecDeque::new(),
            rates: Rates::new(PER_SECOND, BURST),
            relays: TokenBucket::new(RELAYS_PER_SECOND, RELAYS_BURST),
            next: 0,
            next_at: 0,
            counts: RevocationCounts::default(),
            judging: 0,
        }
    }

    /// One that the outside had is judged.
    pub(super) fn judged(&mut self) {
        self.judging = self.judging.saturating_sub(1);
    }

    /// Whether this was known once, and is no news.
    fn has_heard(&self, key: &Key) -> bool {
        self.heard.contains(&mark(key))
    }

    fn remember(&mut self, repr: Repr) {
        if self.known.len() < KNOWN_MAX && !self.known.iter().any(|known| known.key() == repr.key()) {
            let mark = mark(&repr.key());
            if !self.heard.insert(mark) {
                self.forgotten.retain(|forgotten| *forgotten != mark);
            }
            self.known.push(repr);
        }
    }

    fn forget(&mut self, repr: &Repr) {
        self.known.retain(|known| known.key() != repr.key());
        let mark = mark(&repr.key());
        if self.heard.insert(mark) || !self.forgotten.contains(&mark) {
            self.forgotten.push_back(mark);
        }
        if self.forgotten.len() > FORGOTTEN_MAX
            && let Some(oldest) = self.forgotten.pop_front()
        {
            self.heard.remove(&oldest);
        }
    }
}

impl Node {
    /// The answer to [`Effect::Revoke`]: what the security module has made of it; nothing if its signature is wrong.
    pub fn revocation_judged(&mut self, turn: &mut Turn<'_>, repr: &Repr, from: Source, judged: Option<Kept>) {
        self.ask(|known: &mut Revocations, _| known.judged());
        if matches!(judged, Some(Kept::Known | Kept::New(_))) {
            self.cx.core.ledger.used += 1;
        }
        match judged {
            None => self.cx.core.drops.count(Reason::RevocationForged),
            Some(Kept::Full) => self.cx.core.drops.count(Reason::RevocationFull),
            Some(Kept::Known) => {
                self.ask(|known: &mut Revocations, _| {
                    known.counts.repeated += 1;
                    known.remember(*repr);
                });
            }
            Some(Kept::New(forgotten)) => {
                self.ask(|known: &mut Revocations, _| {
                    known.counts.news += 1;
                    forgotten.and_then(|forgotten| forgotten.wire()).iter().for_each(|repr| known.forget(repr));
                });
                let revocation = Revocation::of_wire(repr);
                let ended = self.revoke(turn, &revocation, false, Some(from));
                // Keys cost nothing, and so would lines of the log.
                if ended.codes + ended.domains > 0 {
                    tracing::warn!(
                        event = "role",
                        node = self.cx.core.name,
                        %revocation,
                        codes = ended.codes,
                        told = ended.told,
                        "revoked"
                    );
                } else {
                    tracing::debug!(node = self.cx.core.name, %revocation, told = ended.told, "revoked, which concerns nothing here");
                }
            }
        }
    }

    /// Something was revoked, and the security module knows: what runs by it ends now, with its state, and neighbours
    /// but the one that it came from are told.
    pub fn revoke(
        &mut self,
        turn: &mut Turn<'_>,
        revocation: &Revocation,
        operator: bool,
        from: Option<Source>,
    ) -> RevokedCodes {
        let taken = |name: &Digest, code: &Code| {
            let (claim, grant) = match code {
                Code::Ready(ready) => (&ready.claim, Some(&ready.grant)),
                Code::Coming(coming) => (&coming.claim, coming.grant.as_ref()),
                Code::Refused { .. } => return None,
            };
            // Of what has not been judged yet the manifest says who it is of; a wrong signature is found out when it is judged.
            let principal = || claim.manifest.claimed_principal();
            let rights = match grant {
                Some(grant) => grant.rights(name),
                None => Rights { code: Some(*name), principal: principal(), ..Rights::default() },
            };
            let extent = revocation.takes(operator, &rights)?;
            let issued = revocation.takes(false, &rights).is_some();
            Some(Hit { code: *name, extent, issued, why: revocation.as_it_counts(operator, &rights).to_string() })
        };
        self.cx.disown();
        let capsules = self.environments.get().into_iter();
        let hit: Vec<Hit> = capsules
            .flat_map(|capsules: &Capsules| capsules.codes.iter().filter_map(|(name, code)| taken(name, code)))
            .collect();
        let names = hit.iter().map(|hit| hit.code).collect();
        let issued = self.cx.has_issued(revocation, hit.iter().map(|hit| hit.issued));
        let mut ended = RevokedCodes { codes: hit.len(), names, issued, ..RevokedCodes::default() };
        if !hit.is_empty() {
            self.cx.control.roles.proved(revocation);
        }
        for Hit { code, extent, why, .. } in hit {
            self.ask(|capsules: &mut Capsules, cx| capsules.end_revoked(cx, turn, code, extent, &why));
        }
        if let (true, Subject::Code(code)) = (operator, revocation.subject) {
            // It may run in the kernel half although it has given way here.
            self.cx.unlink(turn, code);
        }
        if let Subject::Principal(principal) = revocation.subject
            && (operator || revocation.signer() == Some(principal))
        {
            ended.domains = self.end_plan_principal(turn, &principal.to_string());
        }
        if let Some(repr) = revocation.wire() {
            let told = self.ask(|known: &mut Revocations, cx| {
                known.remember(repr);
                known.relay(cx, turn, &repr, from)
            });
            ended.told = told.unwrap_or(0);
        }
        ended
    }

    /// Signed revocations from before this life: neighbours are told them too.
    pub fn remember_revocations(&mut self, all: impl IntoIterator<Item = Repr>) {
        self.ask(|known: &mut Revocations, _| all.into_iter().for_each(|repr| known.remember(repr)));
    }

    /// What has become of revocations.
    pub fn revocations(&self) -> RevocationCounts {
        let counts = |known: &Revocations| RevocationCounts { known: known.known.len(), ..known.counts };
        self.environments.get().map(counts).unwrap_or_default()
    }
}

impl Revocations {
    /// A revocation has come in: it begins the frame.
    fn receive(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, native: Option<&Native>) {
        let Ok(key) = View::new_checked(frame.bytes()).map(|view| view.key()) else {
            return cx.drop(turn, frame, Reason::MalformedRevocation);
        };
        let claimed = native.map_or(Addr::UNSPECIFIED, |native| native.source);
        let Some(from) = cx.fetch_peer(&frame, claimed, native) else {
            return cx.drop(turn, frame, Reason::RevocationForeign);
        };
        cx.note_heard(turn.now, from.addr, frame.len());
        if self.has_heard(&key) {
            self.counts.repeated += 1;
            return cx.use_up(turn, frame);
        }
        let ingress = Ingress::of(&frame);
        if !self.rates.charge(turn.now, ingress, 1) {
            return cx.drop(turn, frame, Reason::RevocationRate);
        }
        let Ok(repr) = Repr::parse(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedRevocation);
        };
        turn.out.effects.push(Effect::Revoke(Box::new(repr), from, ingress));
        // What it says is judged outside, and counts as held.
        self.judging += 1;
        turn.out.pool.give(frame);
    }

    /// Tells all neighbours but one; says how many.
    fn relay(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, repr: &Repr, except: Option<Source>) -> usize {
        let all = cx.neighbours_to_tell();
        let mut told = 0;
        for to in all.into_iter().filter(|to| Some(*to) != except) {
            if !self.relays.take(turn.now, 1) {
                break;
            }
            told += usize::from(self.send(cx, turn, to, repr));
        }
        told
    }

    /// Tells one neighbour one revocation again, if it is time.
    fn tell_again(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        if self.known.is_empty() || turn.now < self.next_at {
            return;
        }
        let all = cx.neighbours_to_tell();
        let pairs = self.known.len() * all.len();
        if pairs == 0 {
            return;
        }
        let first = self.next_at == 0;
        self.next_at = turn.now + AGAIN / pairs as u64;
        if first {
            // They have just been told.
            return;
        }
        self.next = (self.next + 1) % pairs;
        let at = self.next;
        if let (Some(repr), Some(to)) = (self.known.get(at / all.len()).copied(), all.get(at % all.len())) {
            self.send(cx, turn, *to, &repr);
        }
    }

    /// Tells one neighbour, if it may be sent so much: a name on a link may be of nobody, or of somebody who never asked.
    fn send(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, to: Source, repr: &Repr) -> bool {
        if !cx.may_originate(turn.now, to.addr, Some(to.port), LENGTH) {
            cx.withhold(Reason::Unanswered);
            return false;
        }
        let mut frame = turn.out.pool.take();
        if frame.room().get_mut(..LENGTH).is_some_and(|room| repr.emit(room).is_ok()) {
            frame.received(LENGTH);
            self.counts.told += 1;
            cx.send_to_neighbour(turn, frame, anep::type_id::REVOCATION, to);
            return true;
        }
        turn.out.pool.give(frame);
        false
    }
}

impl Cx {
    /// Whether the key of a revocation has signed or issued what that takes back, as far as it shows here: by itself,
    /// by this node's roles, or by codes that it takes something of.
    fn has_issued(&self, revocation: &Revocation, mut hits: impl Iterator<Item = bool>) -> Option<bool> {
        let signer = revocation.signer()?;
        let itself = revocation.subject == Subject::Principal(signer);
        let grants =
            !matches!(revocation.subject, Subject::Code(_)) && self.control.roles.of_root(&signer).next().is_some();
        match hits.next() {
            _ if itself || grants => Some(true),
            Some(first) => Some(first || hits.any(|issued| issued)),
            None => None,
        }
    }

    fn neighbours_to_tell(&self) -> Vec<Source> {
        let all = self.core.topology.neighbours.iter();
        all.map(|known| Source { port: known.port, peer: known.peer, addr: known.addr }).collect()
    }
}

impl Capsules {
    /// Code ends that something was taken of: for good, or it may come again with the rights that are left.
    fn end_revoked(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, extent: Extent, why: &str) {
        let ready = matches!(self.codes.of(&code), Some(Code::Ready(_)));
        if ready {
            self.withdraw(cx, turn, &code);
        }
        if !ready || extent == Extent::All {
            self.refuse(cx, turn, code, why.to_owned());
        }
    }

    /// Whether what a code was granted has been taken back since: then it is refused.
    pub(super) fn refuse_revoked(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, grant: &Grant) -> bool {
        let Some((_, revocation)) = cx.control.roles.revoked(&grant.rights(&code)) else { return false };
        self.refuse(cx, turn, code, revocation.to_string());
        true
    }
}

#[cfg(test)]
mod tests;
