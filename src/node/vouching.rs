//! What code came without: the credentials that give it a role, and its bpf representation. Others than the first are asked for that.
//!
//! Signed code for which nobody gives a credential that counts acts for `anyone`, or is refused where that may not run
//! it. Who was first to bring it may have kept its credentials back. So of each other neighbour, and of the strangers
//! of each other port, the first one of whom a capsule of it comes is asked too, once: beside code that runs; and
//! before its capsules are dropped, of code that is refused, which is loaded anew then. What comes is judged like what
//! came first; code that gets another role by it is taken out, and found anew by the next capsule.
//!
//! Code that came from the store while nobody could be asked for its bpf representation gets that from the node behind the next capsule.
//!
//! Asking is within a rate of whoever pays for the capsule, and what it causes is paid by the capsule's bound, as all
//! code is (`code::fetch::fares`).

use super::codes::Code;
use super::output::{Cause, Effect, Ingress, Turn};
use super::rates::Rates;
use super::{Capsules, Cx};
use crate::code::bundle::Kind;
use crate::code::fetch::Source;
use crate::code::judge::Claim;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::trust::CredentialSet;
use crate::wire::{Digest, capsule};
use std::collections::HashMap;
use std::sync::Arc;

/// Questions a second that one neighbour's capsules make the node ask for what code came without.
const ASKS_PER_SECOND: u64 = 8;

/// The same at once.
const ASKS_BURST: u64 = 32;

/// Credentials that are asked for beside code.
const SOUGHT_MAX: usize = 256;

/// What is asked for.
pub(super) struct Vouching {
    rates: Rates<Ingress>,
    /// The names of sets, and of which code each is.
    sought: HashMap<Digest, Digest>,
}

impl Default for Vouching {
    fn default() -> Vouching {
        Vouching { rates: Rates::new(ASKS_PER_SECOND, ASKS_BURST), sought: HashMap::new() }
    }
}

impl Vouching {
    /// Whether the store is not to be asked for a set, since what it may have does not count.
    pub(super) fn is_sought(&self, set: &Digest) -> bool {
        !self.sought.is_empty() && self.sought.contains_key(set)
    }

    /// A set is here, or nowhere to be had: of which code it is.
    pub(super) fn found(&mut self, set: &Digest) -> Option<Digest> {
        if self.sought.is_empty() { None } else { self.sought.remove(set) }
    }
}

impl Capsules {
    /// Whom to ask by a capsule, if its sender is near and within its rate.
    fn may_ask(&mut self, cx: &mut Cx, turn: &Turn<'_>, frame: &Frame, source: Option<Source>) -> Option<Source> {
        let source = source.filter(|source| cx.is_neighbour(source.port, source.addr))?;
        if self.vouching.sought.len() >= SOUGHT_MAX {
            let fetch = &self.fetch;
            self.vouching.sought.retain(|set, code| fetch.is_pending(code) || fetch.has_beside(set));
        }
        if self.vouching.sought.len() >= SOUGHT_MAX || !self.vouching.rates.charge(turn.now, Ingress::of(frame), 1) {
            self.credentials.unsought += 1;
            return None;
        }
        cx.note_heard(turn.now, source.addr, frame.len());
        Some(source)
    }

    /// A capsule has come of code that runs and came without something: who sent it is asked, and its bound pays for that.
    #[cold]
    pub(super) fn ask_beside(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: &mut Frame,
        header: &mut capsule::Header,
        source: Source,
    ) {
        let Some(source) = self.may_ask(cx, turn, frame, Some(source)) else { return };
        let (from, code) = ((Ingress::of(frame), source, cx.toll(source.port, source.addr)), header.code);
        let bpf = match self.codes.of(&code) {
            Some(Code::Ready(ready)) => ready.claim.manifest.layer(Kind::Bpf).copied(),
            _ => None,
        };
        if let Some(layer) = bpf.filter(|_| self.codes.is_alone(&code)) {
            let (now, length) = (turn.now, Some(layer.size));
            if let Some(paid) = self.fetch.aside(now, (code, layer.digest), length, from, header.bound) {
                self.codes.set_alone(&code, false);
                self.spend(cx, turn, (frame, header), paid);
            }
        }
        let set = CredentialSet::name_for(&code);
        if self.codes.is_doubted_by(&code, frame.payer)
            && let Some(paid) = self.fetch.aside(turn.now, (set, set), None, from, header.bound)
        {
            self.codes.asked(&code, frame.payer, turn.now);
            self.vouching.sought.insert(set, code);
            self.credentials.sought += 1;
            self.spend(cx, turn, (frame, header), paid);
        }
    }

    /// A capsule has come of code that is refused; whether it is loaded anew for that, since its sender has not been asked for credentials.
    #[cold]
    pub(super) fn load_anew(
        &mut self,
        cx: &mut Cx,
        turn: &Turn<'_>,
        frame: &Frame,
        code: &Digest,
        source: Option<Source>,
    ) -> bool {
        let may = self.may_ask(cx, turn, frame, source).is_some();
        if may {
            self.codes.asked(code, frame.payer, turn.now);
            self.vouching.sought.insert(CredentialSet::name_for(code), *code);
            self.credentials.sought += 1;
        }
        may
    }

    /// Credentials have come that were asked for beside code.
    pub(super) fn take_offered(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        set: &Digest,
        code: Digest,
        bytes: Arc<[u8]>,
    ) {
        let cause = Cause { ingress: self.fetch.whose_beside(set), principal: None };
        self.fetch.end_beside(set);
        // A capsule may have this name in the place of a code's.
        self.fetch.settle(*set).for_each(|waiter| cx.drop(turn, waiter.frame, Reason::CodeUnknown));
        let Some(Code::Ready(ready)) = self.codes.of_mut(&code) else { return };
        if ready.claim.credentials.as_ref() == Some(&bytes) {
            // They were judged.
            return;
        }
        // One answer at a time: what it says of which credentials is not told.
        if ready.offered.is_none() && !ready.is_reviewed {
            ready.offered = Some(bytes.clone());
            let claim = Claim { credentials: Some(bytes), ..ready.claim.clone() };
            turn.out.effects.push(Effect::Authorise(claim, cause));
        }
    }

    /// Code that runs could not be judged now.
    pub(super) fn not_judged(&mut self, code: &Digest) {
        if let Some(Code::Ready(ready)) = self.codes.of_mut(code) {
            (ready.offered, ready.is_reviewed) = (None, false);
        }
    }
}
