//! What packets cost of the bound: one for each frame that they leave in.
//!
//! A frame is at most the MTU of its link, so what a packet of bound n causes is at most n × MTU bytes. A packet whose codes travel
//! by digest costs what it would with its codes whole: the neighbour may ask for them, once for each such packet. What the node
//! sends of its own accord is not paid with a bound; for that [`crate::topology::Reach`] has a limit by address.

use super::evaluate::{At, raise};
use super::{Environment, Next, Plan, State, account};
use crate::nodeos::reason::Reason;
use crate::wire::Addr;
use crate::wire::plan as wire;
use core::ops::Range;
use plan::eval;
use plan::name::Name;
use plan::packet::{Header, View, ViewMut};
use plan::program::Slice;
use plan::value::Host;

/// Frames that so many octets take to the next node; none if they are too many for any.
pub(super) fn frames(env: &dyn Environment, next: &Next, octets: usize) -> Option<u32> {
    wire::frames(octets, env.room(next)).map(u32::from)
}

/// Octets that a code adds to a packet when it travels whole and not by its digest, at most.
pub(super) fn more_when_whole(code: usize) -> usize {
    // Its length takes three octets at most.
    (code + 3).saturating_sub(32)
}

impl Plan {
    /// Octets of the packet under way if its codes were whole.
    pub(super) fn whole_length(&self, octets: &[u8]) -> usize {
        let by_digest = View::new_checked(octets).is_some_and(|view| view.by_digest());
        let codes = self.seen.iter().filter(|_| by_digest).filter_map(|digest| self.library.octets(digest));
        octets.len() + codes.map(|code| more_when_whole(code.len())).sum::<usize>()
    }

    /// Spends the frames to the next node; false if the packet has too few left.
    pub(super) fn spend(&mut self, env: &dyn Environment, next: &Next, octets: &mut [u8], frames: u32) -> bool {
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
    pub(super) fn say(&mut self, env: &mut dyn Environment, next: &Next, octets: &[u8]) -> bool {
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
        let codes = codes.iter().filter(|_| header.by_digest).map(|slice| more_when_whole(slice.octets.len()));
        let length = range.len() + codes.sum::<usize>();
        let frames = frames(&*self.env, next, length).ok_or(raise(const { Name::known("TooBig") }))?;
        let left = header.bound.checked_sub(frames - 1).ok_or(raise(Name::NOT_ENOUGH_RB))?;
        if let Some(mut view) = self.outbox.octets.get_mut(range).and_then(ViewMut::new_checked) {
            view.clamp(left);
        }
        Ok(frames)
    }
}
