//! Packets between the engines of a graph, and what has become of those that came out or did not.

use super::locked::{HiddenFields, LockedFields, Unread};
use crate::core::reason::Reason;
use crate::frame::Frame;
use std::sync::Arc;

/// Packets that come out or end at once: what one packet may become.
pub const AT_ONCE_MAX: usize = 16_384;

/// Engines that packets have met, at most, until they are told of: what is beyond is missing in their stories.
pub(super) const MET_MAX: usize = 1 << 16;

/// Where a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To this input of an engine.
    Engine(u16, u16),
    /// Out of the graph.
    Exit,
    /// Nowhere: nothing is connected.
    End,
}

/// Some of the packets that came together: their places, and what they go to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Those from one place up to another go to this input of an engine.
    Ahead(u16, u16, usize, usize),
    /// What lies between engines above this height goes its whole way.
    Between(usize),
}

/// Packets on their way through a graph, and what has become of them: memory that graphs share.
pub struct Scratch {
    /// Those between two engines, the next one last: a packet goes its whole way before the one behind it.
    pub(super) between: Vec<(u16, u16, Frame)>,
    /// Those that came together and go on together, in their order; where there is nothing, one has gone another way.
    pub(super) run: Vec<Option<Frame>>,
    /// What is still to be done with parts of them, the next one last.
    pub(super) parts: Vec<Part>,
    /// Those that have come out.
    pub out: Vec<Frame>,
    /// Those that have not, and why.
    pub dropped: Vec<(Frame, Reason)>,
    /// How many that engines had kept have gone, and why.
    pub lost: Vec<(Reason, u64)>,
    /// How many have begun in the graph, and how many engines have used up.
    pub begun: u64,
    /// See [`Scratch::begun`].
    pub used: u64,
    /// When engines are to be asked again that could give nothing yet.
    pub wake: u64,
    /// Whether the graph holds all that it may: nothing begins by itself then.
    pub no_room: bool,
    /// Whether somebody follows packets, and which engines those have met that have a number: this, and the engine's name.
    pub is_watched: bool,
    /// See [`Scratch::is_watched`].
    pub met: Vec<(u64, Arc<str>)>,
    /// Lines that engines have printed, and how many had no room.
    pub said: Vec<String>,
    /// See [`Scratch::said`].
    pub unsaid: u64,
    /// Fields that are not seen at other places.
    pub locked: Option<Arc<LockedFields>>,
    /// What was hidden of the packet that is at another place.
    pub(super) hidden: HiddenFields,
    /// How often fields of a packet were hidden.
    pub blanked: u64,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            between: Vec::new(),
            run: Vec::new(),
            parts: Vec::new(),
            out: Vec::new(),
            dropped: Vec::new(),
            lost: Vec::new(),
            begun: 0,
            used: 0,
            wake: u64::MAX,
            no_room: false,
            is_watched: false,
            met: Vec::new(),
            said: Vec::new(),
            unsaid: 0,
            locked: None,
            hidden: HiddenFields::default(),
            blanked: 0,
        }
    }
}

impl Scratch {
    /// Whether so many packets have come out, have ended or wait that they are to be seen to first: copies of copies are dropped then.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.out.len() + self.dropped.len() + self.between.len() >= AT_ONCE_MAX
    }

    /// A packet crosses to another place: locked fields of it are not seen there. Whether there were any.
    #[inline]
    pub fn hide(&mut self, frame: &mut Frame) -> Result<bool, Unread> {
        match self.locked.clone() {
            None => Ok(false),
            Some(locked) => self.hide_locked(&locked, frame),
        }
    }

    fn hide_locked(&mut self, locked: &LockedFields, frame: &mut Frame) -> Result<bool, Unread> {
        let start = frame.extent().0;
        let network = match frame.notes.network {
            0 => None,
            // A header in front of the packet is none of it: nobody knows what it begins with.
            at => Some(usize::from(at).checked_sub(start + 1).ok_or(Unread)?),
        };
        let hidden = locked.hide(frame.bytes_mut(), network, &mut self.hidden)?;
        self.blanked += u64::from(hidden);
        // Where it goes next may be what was hidden.
        if hidden && self.hidden.has_word(frame.notes.next) {
            frame.notes.next = [0; 4];
        }
        Ok(hidden)
    }

    /// The packet has come back: what was hidden stands where it stood, if it is as long as it was.
    pub fn put_back(&self, frame: &mut Frame) -> Result<(), Unread> {
        let Some(locked) = &self.locked else { return Ok(()) };
        locked.put_back(frame.bytes_mut(), &self.hidden).map(drop)
    }

    #[inline]
    pub(super) fn go(&mut self, hop: Hop, frame: Frame) {
        match hop {
            Hop::Engine(engine, input) => self.between.push((engine, input, frame)),
            Hop::Exit => self.out.push(frame),
            Hop::End => self.dropped.push((frame, Reason::GraphDropped)),
        }
    }
}
