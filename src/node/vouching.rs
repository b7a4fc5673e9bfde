//! What code came without: the credentials that give it a role, and its bpf representation. Others than the first are asked for that.
//!
//! Signed code for which nobody gives a credential that counts acts for `anyone`, or is refused where that may not run
//! it. Who was first to bring it may have kept its credentials back. So of each other neighbour, and of the strangers
//! of each other port, one of whom a capsule of it comes is asked too: beside code that runs; and before its capsules
//! are dropped, of code that is refused, which is loaded anew then. What comes is judged like what came first; code
//! that gets another role by it is taken out, and found anew by the next capsule.
//!
//! Who has none may have one later: a neighbour sends a capsule on while it asks the owner itself. So each is asked
//! again, less and less often (`asked`). A question belongs to whoever pays for it: no other's ends it, and each may
//! have no more of them on their way than are left for others.
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
use crate::frame::{Frame, Payer};
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

/// What somebody is asked for.
struct Question {
    code: Digest,
    /// The name of its set.
    set: Digest,
    whose: Payer,
    /// Whether code that was refused is loaded anew for it; else it is asked beside code that runs.
    anew: bool,
}

/// What is asked for.
pub(super) struct Vouching {
    rates: Rates<Ingress>,
    /// Beside code by a name of its own ([`name_of`]); of code that is loaded anew by the name of its set.
    questions: HashMap<Digest, Question>,
}

impl Default for Vouching {
    fn default() -> Vouching {
        Vouching { rates: Rates::new(ASKS_PER_SECOND, ASKS_BURST), questions: HashMap::new() }
    }
}

impl Vouching {
    /// Whether the store is not to be asked for a set, since what it may have does not count.
    pub(super) fn is_sought(&self, set: &Digest) -> bool {
        self.questions.values().any(|question| question.set == *set)
    }

    /// Code that was refused has its credentials now, or nobody has.
    pub(super) fn loaded(&mut self, set: &Digest) {
        if self.questions.get(set).is_some_and(|question| question.anew) {
            self.questions.remove(set);
        }
    }

    /// Whether this is a question that nobody had an answer to.
    pub(super) fn is_without(&mut self, name: &Digest) -> bool {
        self.take(name).is_some()
    }

    /// An object has come for a question, if it was one and this is what was asked for: of which code it is.
    pub(super) fn answered(&mut self, name: &Digest, object: &Digest) -> Option<Digest> {
        let is = self.questions.get(name).is_some_and(|question| question.set == *object);
        if is { self.take(name) } else { None }
    }

    /// Takes a question out that was asked beside code.
    fn take(&mut self, name: &Digest) -> Option<Digest> {
        if self.questions.get(name)?.anew {
            return None;
        }
        self.questions.remove(name).map(|question| question.code)
    }

    /// Whether whoever pays may ask one more: no more than are left for others.
    fn has_room(&self, payer: Payer) -> bool {
        let own = self.questions.values().filter(|question| question.whose == payer).count();
        own < SOUGHT_MAX.saturating_sub(self.questions.len() + 1)
    }
}

/// The name of a question: of one who pays, about one set.
fn name_of(set: &Digest, payer: Payer) -> Digest {
    Digest::of(&[&set.0[..], &payer.0.to_be_bytes()].concat())
}

impl Capsules {
    /// Whom to ask by a capsule, if its sender is near and within its rate.
    fn may_ask(&mut self, cx: &mut Cx, turn: &Turn<'_>, frame: &Frame, source: Option<Source>) -> Option<Source> {
        let source = source.filter(|source| cx.is_neighbour(source.port, source.addr))?;
        let Capsules { vouching, fetch, .. } = self;
        if !vouching.has_room(frame.payer) {
            let goes_on = |name: &Digest, question: &Question| match question.anew {
                true => fetch.is_pending(&question.code),
                false => fetch.has_beside(name),
            };
            vouching.questions.retain(|name, question| goes_on(name, question));
        }
        if !vouching.has_room(frame.payer) || !vouching.rates.charge(turn.now, Ingress::of(frame), 1) {
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
        let name = name_of(&set, frame.payer);
        if self.codes.is_doubted_by(&code, frame.payer, turn.now)
            && let Some(paid) = self.fetch.aside(turn.now, (name, set), None, from, header.bound)
        {
            self.codes.asked(&code, frame.payer, turn.now);
            self.vouching.questions.insert(name, Question { code, set, whose: frame.payer, anew: false });
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
            let set = CredentialSet::name_for(code);
            self.vouching.questions.insert(set, Question { code: *code, set, whose: frame.payer, anew: true });
            self.credentials.sought += 1;
        }
        may
    }

    /// Code ends: nobody is asked for its credentials any more, and those in the store count again.
    pub(super) fn forget_questions(&mut self, code: &Digest) {
        let Capsules { vouching, fetch, .. } = self;
        vouching.questions.retain(|name, question| {
            let ends = question.code == *code && !question.anew;
            if ends {
                fetch.end_beside(name);
            }
            !ends
        });
    }

    /// Credentials have come that were asked for beside code, by this question.
    pub(super) fn take_offered(&mut self, turn: &mut Turn<'_>, name: &Digest, code: Digest, bytes: Arc<[u8]>) {
        let cause = Cause { ingress: self.fetch.whose_beside(name), principal: None };
        self.fetch.end_beside(name);
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
