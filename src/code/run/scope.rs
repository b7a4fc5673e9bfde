//! The scope of a run: the packet of one capsule, and the core of the node.
//!
//! The methods of [`Scope`] are the calls of `sdk/anode/capsule.h` (`an_now`, `an_send` …) without the details of a
//! representation. The wasm and the native run-time translate their calling conventions and come here, so a call means
//! the same in both. A scope lives for one run; `lent` brings it to the calls.

use crate::abi::{CHILDREN_MAX, CONTEXT, CallError, LINES_MAX, NONE, NONE64};
use crate::contract::an_context;
use crate::core::Core;
use crate::core::domain::{Domain, DomainId};
use crate::core::log::{Line, Trap};
use crate::core::state_store::{Change, Refused, Value};
use crate::core::wish::WishWords;
use crate::frame::{Frame, FramePool, PortId};
use crate::wire::{Addr, Digest, capsule};
use rand_core::Rng;

/// The packet whose code runs.
pub struct RunPacket {
    /// The node's clock, in nanoseconds.
    pub now: u64,
    /// Capsule header and payload.
    pub frame: Frame,
    /// Who pays.
    pub domain: DomainId,
    /// The node's address that the code sees.
    pub here: Addr,
    /// [`crate::abi::FLAG_HERE`], [`crate::abi::FLAG_INJECTED`].
    pub flags: u32,
    /// The port it came in by, or [`NONE`].
    pub in_port: u32,
    /// The index of the neighbour it came from, or [`NONE`].
    pub from: u32,
    /// Resource bound left.
    pub bound: u32,
    /// The header's application port.
    pub app_port: u16,
    /// How many neighbours the node has.
    pub neighbours: u32,
    /// Payload bytes in the window.
    pub window: usize,
    /// Lines that its code has written into the log.
    pub lines: usize,
}

impl RunPacket {
    /// Bytes of payload.
    #[inline]
    pub fn payload_length(&self) -> usize {
        self.frame.len() - capsule::HEADER
    }

    /// The bytes the code sees directly: source, destination and the first of the payload.
    #[inline]
    pub fn window(&self) -> &[u8] {
        &self.frame.bytes()[capsule::LOCKED..capsule::HEADER + self.window]
    }

    /// Writes the context structure of the header file (`struct an_context`) in its memory form.
    #[inline]
    pub fn write_context(&self, to: &mut [u8; CONTEXT]) {
        an_context::HERE.put(to, self.here.0);
        an_context::PAYLOAD_LENGTH.put(to, (self.payload_length() as u32).to_le_bytes());
        an_context::WINDOW_LENGTH.put(to, (self.window as u32).to_le_bytes());
        an_context::FLAGS.put(to, self.flags.to_le_bytes());
        an_context::IN_PORT.put(to, self.in_port.to_le_bytes());
        an_context::FROM.put(to, self.from.to_le_bytes());
        an_context::BOUND.put(to, self.bound.to_le_bytes());
        an_context::APP_PORT.put(to, u32::from(self.app_port).to_le_bytes());
        an_context::NEIGHBOURS.put(to, self.neighbours.to_le_bytes());
        an_context::RESERVED.put(to, [0; 16]);
    }
}

/// The packet whose code runs, and what its calls reach.
pub struct Scope<'a> {
    /// What is there whether code runs or not.
    pub core: &'a mut Core,
    /// Frames for children.
    pub pool: &'a mut FramePool,
    /// The packet.
    pub packet: &'a mut RunPacket,
}

impl Scope<'_> {
    /// `an_now`.
    #[inline]
    pub fn now(&self) -> u64 {
        self.packet.now
    }

    /// `an_random`.
    pub fn random(&mut self) -> u64 {
        self.core.rng.next_u64()
    }

    /// `an_load`; `window` is the window as the code has it now.
    pub fn load(&self, window: &[u8], offset: u32, size: u32) -> u64 {
        let Some(range) = self.payload_range(offset, size) else { return NONE64 };
        let packet = &*self.packet;
        let split = capsule::HEADER + packet.window;
        range.fold(0, |value, at| {
            let byte = if at < split { window.get(at - capsule::LOCKED) } else { packet.frame.bytes().get(at) };
            value << 8 | u64::from(byte.copied().unwrap_or(0))
        })
    }

    /// `an_store`; `window` is the window as the code has it now.
    pub fn store(&mut self, window: &mut [u8], offset: u32, value: u64, size: u32) -> Result<(), CallError> {
        let range = self.payload_range(offset, size).ok_or(CallError::Range)?;
        let packet = &mut *self.packet;
        let split = capsule::HEADER + packet.window;
        for (at, byte) in range.zip(value.to_be_bytes().into_iter().skip(8 - size as usize)) {
            let place =
                if at < split { window.get_mut(at - capsule::LOCKED) } else { packet.frame.bytes_mut().get_mut(at) };
            if let Some(place) = place {
                *place = byte;
            }
        }
        Ok(())
    }

    /// Where `size` bytes at payload `offset` are in the capsule, if all of them are there.
    fn payload_range(&self, offset: u32, size: u32) -> Option<core::ops::Range<usize>> {
        let packet = &*self.packet;
        let start = capsule::HEADER + offset as usize;
        let end = start + size as usize;
        (matches!(size, 1 | 2 | 4 | 8) && end <= packet.frame.len()).then_some(start..end)
    }

    /// `an_state_get`.
    #[inline]
    pub fn state_get(&mut self, key: u64) -> Result<Value, CallError> {
        let found = self.core.state_value(self.packet.domain, key, self.packet.now);
        found.map_err(as_error)?.ok_or(CallError::Absent)
    }

    /// `an_state_put`.
    pub fn state_put(&mut self, key: u64, value: &Value, keep_ms: u32) -> Result<(), CallError> {
        self.change_state(key, Change::Put(value), keep_ms).map(drop)
    }

    /// `an_state_add`.
    pub fn state_add(&mut self, key: u64, delta: u64, keep_ms: u32) -> u64 {
        self.change_state(key, Change::Add(delta), keep_ms).unwrap_or(NONE64)
    }

    /// `an_state_max`.
    pub fn state_max(&mut self, key: u64, least: u64, keep_ms: u32) -> u64 {
        self.change_state(key, Change::Max(least), keep_ms).unwrap_or(NONE64)
    }

    /// `an_state_exchange`.
    pub fn state_exchange(&mut self, key: u64, expected: u64, value: &Value, keep_ms: u32) -> Result<(), CallError> {
        self.change_state(key, Change::Exchange { expected, value }, keep_ms).map(drop)
    }

    fn change_state(&mut self, key: u64, change: Change<'_>, keep_ms: u32) -> Result<u64, CallError> {
        let changed = self.core.change_state(self.packet.domain, key, change, keep_ms, self.packet.now);
        changed.map_err(as_error)
    }

    /// `an_route`: the outgoing port and the next hop (the destination itself when it is on link).
    pub fn route(&self, to: Addr) -> Result<(PortId, Addr), CallError> {
        if self.core.topology.is_own(to) {
            return Err(CallError::Here);
        }
        let next = self.core.topology.routes().next_hop(to).ok_or(CallError::Absent)?;
        Ok((next.port, if next.via.is_unspecified() { to } else { next.via }))
    }

    /// `an_link_load`.
    pub fn link_load(&mut self, port: u32) -> u32 {
        let now = self.now();
        self.core.link_load(port as usize, now).unwrap_or(NONE)
    }

    /// `an_link_queue`.
    pub fn link_queue(&self, port: u32) -> u32 {
        self.core.link_queue(port as usize, self.now()).unwrap_or(NONE)
    }

    /// `an_send`: a copy of the capsule with `window` as it is now, paid from this packet's bound.
    pub fn send(&mut self, window: &[u8], bound: u32) -> Result<(), CallError> {
        let packet = &mut *self.packet;
        if bound == 0 || bound > packet.bound {
            return Err(CallError::Bound);
        }
        let domain = self.core.domains.of(packet.domain).ok_or(CallError::Denied)?;
        if self.core.children.len() >= CHILDREN_MAX.min(domain.limits.children_per_packet as usize) {
            return Err(CallError::Full);
        }
        let mut child = self.pool.take();
        child.fill(packet.frame.bytes());
        (child.envelope, child.port) = (packet.frame.envelope, packet.frame.port);
        child.payer = packet.frame.payer;
        if let Some(place) = child.bytes_mut().get_mut(capsule::LOCKED..capsule::LOCKED + window.len()) {
            place.copy_from_slice(window);
        }
        packet.bound -= bound;
        domain.counts.children += 1;
        self.core.add_child(child, bound);
        Ok(())
    }

    /// `an_log`.
    pub fn write_log(&mut self, tag: u32, value: u64) -> Result<(), CallError> {
        let packet = &mut *self.packet;
        if packet.lines >= LINES_MAX {
            return Err(CallError::Full);
        }
        packet.lines += 1;
        self.write(tag, value, None)
    }

    /// `an_graph_wish`.
    pub fn graph_wish(&mut self, number: u32) -> Result<(), CallError> {
        let owner = self.core.domains.of(self.packet.domain);
        let wishes = owner.and_then(|owner| owner.wishes.here.as_deref());
        wishes.map_or(Err(CallError::Denied), |wishes| wishes.wish(number))
    }

    /// Writes where the code trapped into the node's log, as long as its lines a second last, and beside its domain.
    #[cold]
    pub fn write_trap(&mut self, trap: Trap) {
        if let Some(owner) = self.core.domains.of(self.packet.domain) {
            owner.trapped = Some(trap);
        }
        // A line more is no reason for anything.
        let _ = self.write(0, 0, Some(trap));
    }

    fn write(&mut self, tag: u32, value: u64, trap: Option<Trap>) -> Result<(), CallError> {
        let packet = &mut *self.packet;
        let at = packet.now;
        if !self.core.domains.of(packet.domain).is_some_and(|owner: &mut Domain| owner.may_log(at)) {
            return Err(CallError::Full);
        }
        let name = packet.frame.bytes().get(capsule::CODE..).and_then(|rest| rest.first_chunk());
        let code = name.map_or(Digest([0; Digest::LENGTH]), |bytes| Digest(*bytes));
        self.core.log.write(Line { at, code, tag, value, trap });
        Ok(())
    }
}

/// What code is told of a refusal: of a keeper that did not answer the same as of a full table.
fn as_error(refused: Refused) -> CallError {
    match refused {
        Refused::Full | Refused::Failed => CallError::Full,
        Refused::Changed => CallError::Changed,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::topology::Topology;
    use rand_core::SeedableRng;

    /// A scope with a packet whose bound is 9, of a node that has nothing.
    pub(crate) fn with_scope(work: impl FnOnce(&mut Scope<'_>)) {
        let rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
        let mut core =
            Core::new("test".into(), Topology::new(Vec::new(), Default::default(), Default::default()), 1, rng, 0);
        let domain = core.domains.root();
        let frame = Frame::from_bytes(&[0; capsule::HEADER]);
        let mut packet = RunPacket {
            now: 1,
            frame,
            domain,
            here: Addr::UNSPECIFIED,
            flags: 0,
            in_port: NONE,
            from: NONE,
            bound: 9,
            app_port: 7,
            neighbours: 0,
            window: 0,
            lines: 0,
        };
        work(&mut Scope { core: &mut core, pool: &mut FramePool::default(), packet: &mut packet });
    }
}
