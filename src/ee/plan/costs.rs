//! What packets cost of the bound: one for each frame that they leave in. What they cost in steps is in work.rs.
//!
//! A frame is at most the MTU of its link, so a packet of bound n causes at most n × MTU bytes. The traffic for its
//! codes is paid by the node that sends it, since the packet's sender may have lied about its payments. A packet by
//! digest costs as if the codes were part of it, since a neighbour without them gets them. A node without the codes
//! pays for its questions with the next frames of the packet (waiting.rs). The message "you need not send it again"
//! leaves only if the packet has room for it: in its paid frames, or in its unused bound. The node's own messages are
//! not paid with a bound; [`crate::topology::Reach`] limits these by address.

use super::evaluate::{At, raise};
use super::outbox::{Outbox, Paid};
use super::waiting::back;
use super::{Next, Plan, PlanOs, State, account};
use crate::core::reason::Reason;
use crate::topology::Neighbour;
use crate::wire::{Addr, plan as wire};
use core::ops::Range;
use plan::eval;
use plan::name::Name;
use plan::packet::{Header, View, ViewMut};
use plan::program::{Digest, Slice};
use plan::value::Host;

/// Frames that so many bytes take to the next node; none if they are too many for any.
pub(super) fn frames(env: &dyn PlanOs, next: &Next, bytes: usize) -> Option<u32> {
    wire::frames(bytes, env.room(next)).map(u32::from)
}

/// Bytes that so many frames have room for beside so many.
fn spare(env: &dyn PlanOs, next: &Next, bytes: usize, frames: u32) -> usize {
    let room = env.room(next);
    let piece = if frames > 1 { room.saturating_sub(wire::PIECE_HEADER) } else { room };
    (frames as usize * piece).saturating_sub(bytes)
}

/// Bytes that a unit of the bound pays for on the way to a neighbour.
pub(super) fn unit(env: &dyn PlanOs, next: &Next) -> usize {
    env.topology().port(next.port).map_or(0, |port| port.mtu)
}

/// Bytes around a message, or a piece of one, on the way to a neighbour.
fn around(env: &dyn PlanOs, next: &Next) -> usize {
    unit(env, next).saturating_sub(env.room(next)) + wire::PIECE_HEADER
}

/// Bytes by which a node says to a neighbour that it has a code, or lacks it.
pub(super) fn word(env: &dyn PlanOs, next: &Next) -> usize {
    4 + size_of::<Digest>() + around(env, next)
}

/// Bytes that a code of a packet may cause on the way to a neighbour beside the packet, at the expense of who sends it.
pub(super) fn beside(env: &dyn PlanOs, next: &Next, code: usize, by_digest: bool) -> usize {
    if by_digest { around(env, next) + 4 + code } else { 0 }
}

impl Plan {
    /// Bytes of the packet under way, and those that its codes may cause beside it.
    pub(super) fn length_in_all(&self, env: &dyn PlanOs, next: &Next, bytes: &[u8]) -> usize {
        let by_digest = View::new_checked(bytes).is_some_and(|view| view.by_digest());
        let codes = self.seen.iter().filter_map(|digest| self.library.bytes(digest));
        bytes.len() + codes.map(|code| beside(env, next, code.len(), by_digest)).sum::<usize>()
    }

    /// Tells who sent the packet under way its codes whole that this need not be, as far as the frames that it pays for have room.
    pub(super) fn tell_within(
        &mut self,
        env: &mut dyn PlanOs,
        (next, frames): (&Next, u32),
        bytes: usize,
        from: &Neighbour,
    ) {
        let spare = spare(env, next, bytes, frames);
        self.tell_codes(env, from, spare);
    }

    /// The same of a packet that was evaluated here, at the expense of what it has not used: so many units of its bound, and bytes in
    /// frames that it has paid. Gives the units that are left then.
    pub(super) fn tell_with(&mut self, env: &mut dyn PlanOs, from: &Neighbour, (left, spare): (u32, usize)) -> u32 {
        let more = if left > 0 { unit(env, &back(from)) } else { 0 };
        let paid = u32::from(self.tell_codes(env, from, spare + more) > spare);
        self.state.account.spent += u64::from(paid);
        left - paid
    }

    /// Has an evaluation that has sent nothing pay for the questions for its codes with a unit of what is left, or with a packet to the
    /// node itself, which has taken one; gives what is left then.
    pub(super) fn pay_debt(&mut self, outbox: &Outbox, before: usize, left: u32) -> Option<u32> {
        if outbox.debt == 0 || outbox.packets.iter().skip(before).any(|sent| sent.next.is_none()) {
            return Some(left);
        }
        let rest = left.checked_sub(1)?;
        self.state.account.spent += 1;
        Some(rest)
    }

    /// The same of a packet that ends with so much of its bound.
    pub(super) fn left_of(&mut self, bound: u32) -> u32 {
        let paid = u32::from(self.debt > 0).min(bound);
        self.state.account.spent += u64::from(paid);
        bound - paid
    }

    /// Spends the frames to the next node; false if the packet has too few left.
    pub(super) fn spend(&mut self, env: &dyn PlanOs, next: &Next, bytes: &mut [u8], frames: u32) -> bool {
        let own = env.topology().port(next.port).map_or(Addr::UNSPECIFIED, |port| port.address_towards(next.via));
        let spent = ViewMut::new_checked(bytes).is_some_and(|mut view| view.spend(frames, Host(own.0)));
        if spent {
            let account = &mut self.state.account;
            account.routed += 1;
            account.spent += u64::from(frames);
            account.sent += account::bound_of(bytes);
        }
        spent
    }
}

impl State {
    /// Sends a neighbour what the node has to say of its own accord, as far as that address may be sent so much.
    pub(super) fn say(&mut self, env: &mut dyn PlanOs, next: &Next, bytes: &[u8]) -> bool {
        let may = env.may_send(next.via, Some(next.port), bytes.len());
        if may {
            self.send(env, next, bytes);
        } else {
            env.withhold(Reason::Unanswered);
        }
        may
    }
}

impl At<'_> {
    /// Has a packet in the outbox pay for the frames that it takes to the next node. The first was taken from what was donated to it.
    /// Gives what that is.
    pub(super) fn pay(
        &mut self,
        next: Option<&Next>,
        header: &Header,
        codes: &[&Slice],
        range: Range<usize>,
    ) -> eval::Result<Paid> {
        let Some(next) = next else { return Ok(Paid { frames: 1, spare: 0, debt: 0 }) };
        let codes = codes.iter().map(|slice| beside(&*self.env, next, slice.bytes.len(), header.by_digest));
        // Questions for its codes are paid with the first frames.
        let length = range.len() + codes.sum::<usize>() + self.outbox.debt;
        let frames = frames(&*self.env, next, length).ok_or(raise(const { Name::known("TooBig") }))?;
        let left = header.bound.checked_sub(frames - 1).ok_or(raise(Name::NOT_ENOUGH_RB))?;
        if let Some(mut view) = self.outbox.bytes.get_mut(range).and_then(ViewMut::new_checked) {
            view.clamp(left);
        }
        let debt = core::mem::take(&mut self.outbox.debt);
        Ok(Paid { frames, spare: spare(&*self.env, next, length, frames), debt })
    }
}
