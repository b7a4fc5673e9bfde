//! The kernel half while somebody captures: other builds of ingress and egress in the places of the first ones, and the ring buffer that
//! they fill.
//!
//! Maps, stations and programs of codes stay as they are, so counters and state go on. A link changes its program in one step, and so does
//! an entry of a map of interfaces: each frame meets the one or the other. When nobody captures any more, the programs of before are back,
//! the very same. A process that dies meanwhile leaves the others, which do the same and fill a buffer that nobody reads; the next process
//! puts its own there.

use super::half::{KernelHalf, State};
use super::layout::{RING, SEEN_MAPS};
use super::own;
use crate::contract::seen;
use crate::sys::bpf::{Map, Program, RingBuffer};
use crate::wire::ethernet::Mac;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// As long as it is there, the kernel half tells what it has had.
pub struct KernelWatch {
    half: Arc<KernelHalf>,
    scratch: Map,
    /// Room for what all CPUs have there.
    each: Vec<u8>,
    buffer: RingBuffer,
    ports: Vec<(u32, u16, Mac)>,
}

/// A frame that the kernel half has had.
pub struct Had<'a> {
    /// When, in nanoseconds of the system's monotonic clock.
    pub at: u64,
    /// What it has done with it: dropped, sent, copied; or it is itself a copy (`bpf/seen.h`).
    pub done: u8,
    /// The reason, or how many copies.
    pub reason: u16,
    /// The port that it came in by, or a copy leaves by; and the one that it has left by, if they are known.
    pub port: Option<u16>,
    /// The same.
    pub out: Option<u16>,
    /// The frame as it came, and as it left, if it did.
    pub before: &'a [u8],
    /// The same.
    pub after: &'a [u8],
}

impl KernelHalf {
    /// Tells what it has from now on. There is one who is told at a time.
    pub fn watch(half: &Arc<KernelHalf>) -> io::Result<KernelWatch> {
        let [scratch, buffer] = SEEN_MAPS.map(|(name, shape)| own::map(name, shape));
        let (scratch, buffer) = (scratch?, buffer?);
        let find = |name: &str| match name {
            "seen_map" => Ok(scratch.as_fd()),
            "ring_map" => Ok(buffer.as_fd()),
            "program_slots_map" => Ok(half.program_slots.as_fd()),
            _ => half.maps.descriptor(name),
        };
        let seen = [own::load("seen", find)?, own::load("seen_out", find)?];
        let buffer = RingBuffer::of(&buffer, RING)?;
        let mut state = half.state();
        state.seen = Some(seen);
        // What is copied is told of before its copies.
        let turned = half.turn_ways_out(&mut state).and_then(|()| half.turn(&state, &half.ingress, half.front(&state)));
        if let Err(error) = turned {
            // Some may have been turned already.
            half.turn_back(&mut state)?;
            return Err(error);
        }
        drop(state);
        let each = vec![0; scratch.value_size()];
        Ok(KernelWatch { half: half.clone(), scratch, each, buffer, ports: Vec::new() })
    }

    /// Tells nobody from now on: the ingress stands where it did.
    pub fn unwatch(&self) {
        if let Err(error) = self.turn_back(&mut self.state()) {
            tracing::error!(%error, "the kernel half keeps telling what it has");
        }
    }

    /// What stands at the interfaces: the ingress, or what stands in its place.
    pub(super) fn front<'a>(&'a self, state: &'a State) -> &'a Program {
        state.seen.as_ref().map_or(&self.ingress, |[front, _]| front)
    }

    /// What stands behind the ways out while there is code that sends: the egress, or what stands in its place.
    pub(super) fn behind<'a>(&'a self, state: &'a State) -> &'a Program {
        state.seen.as_ref().map_or(&self.egress, |[_, behind]| behind)
    }

    /// Puts the programs of before back in their places.
    fn turn_back(&self, state: &mut State) -> io::Result<()> {
        let Some([seen, _]) = state.seen.take() else { return Ok(()) };
        let front = self.turn(state, &seen, &self.ingress);
        self.turn_ways_out(state).and(front)
    }

    /// Puts one program in the place of another, where that stands.
    fn turn(&self, state: &State, from: &Program, to: &Program) -> io::Result<()> {
        let from = from.info()?.id;
        for attached in &state.ports {
            if attached.link.target()?.1 == from {
                attached.link.update(to)?;
            }
        }
        Ok(())
    }
}

impl KernelWatch {
    /// Hands over what it has had since the last call.
    pub fn read(&mut self, mut take: impl FnMut(&Had<'_>)) {
        let KernelWatch { half, buffer, ports, .. } = self;
        let state = half.state();
        ports.clear();
        ports.extend(state.ports.iter().map(|at| (at.port.interface, at.port.number as u16, at.port.mac)));
        drop(state);
        buffer.read(|record| {
            if let Some(had) = had(record, ports) {
                take(&had);
            }
        });
    }

    /// Frames so far for which there was no room. It costs a copy of what each CPU works with.
    pub fn missed(&mut self) -> u64 {
        if self.scratch.get(&[0; 4], &mut self.each).is_err() {
            return 0;
        }
        let each = self.each.chunks_exact(seen::SIZE.next_multiple_of(8));
        each.filter_map(|value| value.first_chunk::<{ seen::SIZE }>())
            .map(|value| u64::from_ne_bytes(seen::MISSED.of(value)))
            .sum()
    }
}

impl Drop for KernelWatch {
    fn drop(&mut self) {
        self.half.unwatch();
    }
}

fn had<'a>(record: &'a [u8], ports: &[(u32, u16, Mac)]) -> Option<Had<'a>> {
    const HEAD: usize = seen::BYTES.at();
    let (head, bytes) = record.split_first_chunk::<HEAD>()?;
    let word = |at: usize| head.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    let half = |at: usize| head.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word));
    let at = head.get(seen::AT.at()..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))?;
    let (before, after) = bytes.split_at_checked(word(seen::BEFORE.at())? as usize)?;
    let after = after.get(..word(seen::AFTER.at())? as usize)?;
    let interface = word(seen::INTERFACE.at())?;
    let port = ports.iter().find(|(known, ..)| *known == interface).map(|(_, number, _)| *number);
    // It has the link address of where it leaves.
    let source = after.get(6..12);
    let out = ports.iter().find(|(.., mac)| source == Some(&mac.0[..])).map(|(_, number, _)| *number);
    let (done, reason) = (half(seen::DONE.at())? as u8, half(seen::REASON.at())?);
    Some(Had { at, done, reason, port, out, before, after })
}
