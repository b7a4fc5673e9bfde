//! PLAN packets with a larger bound than unsigned ones may have: they wait until their signature is judged.
//!
//! A port has two ceilings ([`crate::topology::Ceiling`]): one for all packets, one for signed ones. A packet that
//! claims a signature and is above the first waits, also on its way to another node, until the outside has judged the
//! signature and the signer's role *here*. Without a role of its own the packet is cut like any other. The signature
//! covers program, destination and number, not the bound. So copies of a signed packet are bounded by the ceiling of
//! each port that they enter, and by that alone.

use super::layers::statement;
use super::waiting::On;
use super::{ANYONE, Fate, Plan, PlanOs, Wish};
use crate::core::reason::Reason;
use crate::topology::{Ceiling, Neighbour};
use crate::trust::Statement;
use plan::packet::{Header, View, ViewMut};

/// Steps that judging a signature is charged as: about the nanoseconds that it takes.
const SIGNATURE_STEPS: u64 = 60_000;

/// The same of a credential: a signature for each block, and its checks, which take milliseconds at most ([`crate::trust`]).
const CREDENTIAL_STEPS: u64 = 1_000_000;

/// Steps that a statement is charged as. What it really took counts for whoever pays, where it was judged.
pub(super) fn vouch_steps(statement: &Statement) -> u64 {
    SIGNATURE_STEPS + if statement.credential.is_empty() { 0 } else { CREDENTIAL_STEPS }
}

impl Plan {
    /// What bounds of a neighbour's packets count for here.
    pub(super) fn ceiling(&self, env: &dyn PlanOs, from: &Neighbour) -> Ceiling {
        let of_port = env.topology().port(from.port).map_or(Ceiling::all(0), |port| port.ceiling);
        let most = self.config.most(from.port);
        let unsigned = of_port.unsigned.min(most);
        Ceiling { unsigned, signed: of_port.signed.min(most).max(unsigned) }
    }

    /// A packet on its way says to be signed: it waits until that is known. All its codes are here.
    pub(super) fn wait_for_signer(&mut self, env: &mut dyn PlanOs, from: &Neighbour, bytes: &mut [u8]) -> Fate {
        let packet = match self.decode(env, bytes, &mut Vec::new()) {
            Ok(packet) => packet,
            Err(why) => return self.end(bytes, why.reason()),
        };
        let Some((_, said)) = statement(&packet) else {
            // No node will ever believe it.
            return self.end(bytes, Reason::MalformedPlan);
        };
        env.charge(ANYONE, vouch_steps(&said), 0);
        let question = self.state.layers.signers.next_question();
        self.park(env, Some(from), bytes.to_vec(), None, On::Passing(question));
        env.wish(Wish::Vouch(question, Box::new(said)));
        Fate::Kept
    }

    /// Nobody whom this node knows has signed a packet: it may cause no more than others of its port.
    pub(super) fn cut_to_unsigned(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, bytes: &mut [u8]) {
        let Some(from) = from else { return };
        let most = self.ceiling(env, from).unsigned;
        let bound = View::new_checked(bytes).map_or(0, |view| view.bound());
        if let Some(mut view) = ViewMut::new_checked(bytes) {
            view.clamp(most);
        }
        self.note_cut(env, from, (bound, most));
    }

    /// The same of a packet that has been read.
    pub(super) fn cut_header(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, header: &mut Header) {
        let Some(from) = from else { return };
        let (bound, most) = (header.bound, self.ceiling(env, from).unsigned);
        header.bound = bound.min(most);
        self.note_cut(env, from, (bound, most));
    }

    fn note_cut(&mut self, env: &mut dyn PlanOs, from: &Neighbour, (bound, most): (u32, u32)) {
        if bound > most {
            self.state.account.unused += u64::from(bound - most);
            env.clamped(from, bound, most);
        }
    }
}
