//! What enters the table of codes, and what has to go for it.

use super::alarms::{self, source};
use super::codes::{Code, Coming, Gone, REFUSED_FOR};
use super::output::{Ingress, Turn};
use super::{Capsules, Cx};
use crate::clean::shown;
use crate::code::judge::Grant;
use crate::core::reason::Reason;
use crate::frame::Payer;
use crate::wire::Digest;

impl Cx {
    /// A code of somebody's who has more of them than all others had to give way. It is an attack if many do.
    fn count_displaced(&mut self, whose: Payer, source: Option<alarms::Source>) {
        self.order.entry.count_displaced(whose);
        if let Ingress::Port(port, _) = self.order.entry.ingress(whose) {
            self.control.alarms.note_of(port, Reason::CodeShare, source);
        }
    }
}

impl Capsules {
    pub(super) fn refuse(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, why: String) {
        let coming = match self.codes.of(&code) {
            Some(Code::Coming(coming)) => Some(coming),
            _ => None,
        };
        // In the role of `anyone`; with a credential of another neighbour's it may be let run.
        let doubted = coming.and_then(|coming| coming.grant.as_ref()).is_some_and(Grant::is_unvouched);
        self.refuse_as(cx, turn, code, why, doubted);
    }

    /// Refuses code; `doubted`: until somebody else than who brought it has given credentials for it.
    pub(super) fn refuse_as(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, why: String, doubted: bool) {
        // Linkers, verifiers and compilers quote what the code says of itself.
        let why = shown(&why).to_string();
        tracing::warn!(event = "code", node = cx.core.name, code = %code.short(), why, "code refused");
        let without = |coming: &Coming| coming.claim.credentials.is_none();
        let asked = matches!(self.codes.of(&code), Some(Code::Coming(coming)) if without(coming));
        let reason = Reason::CodeRefused;
        self.enter(cx, turn, code, Code::Refused { until: turn.now + REFUSED_FOR, why, reason });
        self.fetch.end_beside(&code);
        cx.unlink(turn, code);
        self.codes.set_doubted(&code, doubted, asked, turn.now);
        for waiter in self.fetch.settle(code) {
            // The first of somebody else's begins anew, and others wait with it.
            match self.codes.is_doubted_by(&code, waiter.frame.payer, turn.now) || self.fetch.is_pending(&code) {
                true => self.process_again(cx, turn, waiter),
                false => cx.drop(turn, waiter.frame, Reason::CodeRefused),
            }
        }
    }

    pub(super) fn enter(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, name: Digest, code: Code) {
        let first = self.fetch.first_waiting(&name);
        let payer = first.map(|frame| frame.payer);
        let source = first.map(|frame| source(frame, Reason::CodeShare));
        let Some(Gone { name, code, whose }) = self.codes.enter(name, code, turn.now, payer) else { return };
        if let Some(whose) = whose {
            cx.count_displaced(whose, source.filter(|_| payer == Some(whose)));
        }
        let coming = matches!(code, Code::Coming(_));
        self.end(cx, turn, &name, code);
        if coming {
            self.let_go(cx, turn, name);
        }
    }

    /// The entry of code on its way had to give way: those who wait for it go with it, and nobody prepares it for nothing.
    pub(super) fn let_go(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest) {
        self.fetch.end_beside(&code);
        self.fetch.settle(code).for_each(|waiter| cx.drop(turn, waiter.frame, Reason::CodeShare));
    }
}
