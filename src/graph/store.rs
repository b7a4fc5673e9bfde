//! Queues: packets that wait until somebody pulls them. All classes of queues are this one.

use super::arguments::Arguments;
use super::engine::{Engine, GraphCx, Pushed};
use super::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::frame::Frame;
use std::collections::VecDeque;

/// Packets of one queue, at most.
pub const CAPACITY_MAX: u32 = 1 << 16;

/// Packets for which there is room from the beginning.
const AT_FIRST: u32 = 64;

/// Packets that wait, at most so many.
pub struct FrameQueue {
    frames: VecDeque<Frame>,
    capacity: u32,
    /// Whether the oldest gives way where there is no room, and not the newest.
    front: bool,
    high: usize,
    drops: u64,
}

impl FrameQueue {
    /// An empty one; nothing if it would be too large, which is said.
    pub fn make(args: &mut Arguments<'_>, capacity: u32, front: bool) -> Option<Box<dyn Engine>> {
        if capacity > CAPACITY_MAX {
            args.say_all(format!("'{}' would be too large", args.name), format!("at most {CAPACITY_MAX} packets"));
            return None;
        }
        // It grows with those that wait, whom its domain's memory is charged for; so in steady state nothing is allocated.
        let frames = VecDeque::with_capacity(capacity.min(AT_FIRST) as usize);
        Some(Box::new(FrameQueue { frames, capacity, front, high: 0, drops: 0 }))
    }
}

impl Engine for FrameQueue {
    #[inline]
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if self.frames.len() >= self.capacity as usize {
            self.drops += 1;
            let oldest = if self.front { self.frames.pop_front() } else { None };
            let Some(oldest) = oldest else { return Pushed::thrown(frame) };
            cx.throw(oldest);
        }
        self.frames.push_back(frame);
        self.high = self.high.max(self.frames.len());
        Pushed::Kept
    }

    #[inline]
    fn pull(&mut self, _: u16, _: &mut GraphCx<'_>) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// Whoever pulls takes the packet at once.
    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if self.capacity == 0 {
            return Err(NoForm::Because("it has no room for any packet".to_owned()));
        }
        body.to(0, at)
    }

    fn held(&self) -> u64 {
        self.frames.len() as u64
    }

    fn room(&self) -> u64 {
        self.capacity.into()
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "length" => Some(self.frames.len().to_string()),
            "highwater_length" => Some(self.high.to_string()),
            "capacity" => Some(self.capacity.to_string()),
            "drops" => Some(self.drops.to_string()),
            _ => None,
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        match handler {
            "reset_counts" => (self.high, self.drops) = (self.frames.len(), 0),
            "capacity" => {
                let fits = value.trim().parse().ok().filter(|capacity| *capacity <= CAPACITY_MAX);
                let Some(capacity) = fits else { return Some(Err(format!("a number to {CAPACITY_MAX}"))) };
                self.frames.reserve((capacity as usize).saturating_sub(self.frames.len()));
                self.capacity = capacity;
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<FrameQueue>()) {
            let room = (self.capacity as usize).saturating_sub(self.frames.len());
            self.frames.extend(before.frames.drain(..room.min(before.frames.len())));
            (self.high, self.drops) = (before.high, before.drops);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.frames.drain(..).for_each(give);
    }
}
