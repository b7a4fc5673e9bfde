//! What packets cost of the bound: one for each frame that they leave in.
//!
//! A frame is at most the MTU of its link, so what a packet of bound n causes is at most n × MTU bytes. What its codes may cause between the two ends of
//! a link is paid as if it were octets of the packet: of a code that travels whole, word of the neighbour that it need not; of one that travels by digest,
//! the neighbour's questions, and the code. So it is the same whether nodes know the codes or not. What the node
//! sends of its own accord is not paid with a bound; for that [`crate::topology::Reach`] has a limit by address.

use super::evaluate::{At, raise};
use super::waiting::ASKS;
use super::{Next, Plan, PlanOs, State, account};
use crate::core::reason::Reason;
use crate::wire::{Addr, anep, ipv6, plan as wire, udp};
use core::ops::Range;
use plan::eval;
use plan::name::Name;
use plan::packet::{Header, View, ViewMut};
use plan::program::Slice;
use plan::value::Host;

/// Frames that so many octets take to the next node; none if they are too many for any.
pub(super) fn frames(env: &dyn PlanOs, next: &Next, octets: usize) -> Option<u32> {
    wire::frames(octets, env.room(next)).map(u32::from)
}

/// Octets around a message in a frame, at most.
const AROUND: usize = anep::HEADER + udp::HEADER + ipv6::HEADER;

/// Octets by which a neighbour says that it has a code, or lacks it.
const WORD: usize = 36 + AROUND;

/// Octets that a code of a packet may cause on a link beside the packet, at most.
pub(super) fn beside(code: usize, by_digest: bool) -> usize {
    if by_digest { ASKS as usize * WORD + AROUND + 4 + code } else { WORD }
}

impl Plan {
    /// Octets of the packet under way, and those that its codes may cause beside it.
    pub(super) fn length_in_all(&self, octets: &[u8]) -> usize {
        let by_digest = View::new_checked(octets).is_some_and(|view| view.by_digest());
        let codes = self.seen.iter().filter_map(|digest| self.library.octets(digest));
        octets.len() + codes.map(|code| beside(code.len(), by_digest)).sum::<usize>()
    }

    /// Spends the frames to the next node; false if the packet has too few left.
    pub(super) fn spend(&mut self, env: &dyn PlanOs, next: &Next, octets: &mut [u8], frames: u32) -> bool {
        let own = env.topology().port(next.port).map_or(Addr::UNSPECIFIED, |port| port.address_towards(next.via));
        let spent = ViewMut::new_checked(octets).is_some_and(|mut view| view.spend(frames, Host(own.0)));
        if spent {
            let account = &mut self.state.account;
            account.routed += 1;
            account.spent += u64::from(frames);
            account.sent += account::bound_of(octets);
        }
        spent
    }
}

impl State {
    /// Sends a neighbour what the node has to say of its own accord, as far as that address may be sent so much.
    pub(super) fn say(&mut self, env: &mut dyn PlanOs, next: &Next, octets: &[u8]) -> bool {
        let may = env.may_send(next.via, Some(next.port), octets.len());
        if may {
            self.send(env, next, octets);
        } else {
            env.drop(super::ANYONE, Reason::Unanswered);
        }
        may
    }
}

impl At<'_> {
    /// Has a packet in the outbox pay for the frames that it takes to the next node. The first was taken from what was donated to it.
    pub(super) fn pay(
        &mut self,
        next: Option<&Next>,
        header: &Header,
        codes: &[&Slice],
        range: Range<usize>,
    ) -> eval::Result<u32> {
        let Some(next) = next else { return Ok(1) };
        let codes = codes.iter().map(|slice| beside(slice.octets.len(), header.by_digest));
        let length = range.len() + codes.sum::<usize>();
        let frames = frames(&*self.env, next, length).ok_or(raise(const { Name::known("TooBig") }))?;
        let left = header.bound.checked_sub(frames - 1).ok_or(raise(Name::NOT_ENOUGH_RB))?;
        if let Some(mut view) = self.outbox.octets.get_mut(range).and_then(ViewMut::new_checked) {
            view.clamp(left);
        }
        Ok(frames)
    }
}
