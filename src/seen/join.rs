//! Frames and what became of them, put together again from records.
//!
//! ```text
//! CAME 7 · EVENT 7 charged 3 · EVENT 7 ran 40 · EVENT 7 forwarded · LEAVES 7
//!   ──▶ the frame that came in: forwarded by port 1, domain 3 ──▶ the frame that leaves: the same
//! ```
//!
//! A frame waits here until its end is known, or for a while: 100 ms, 2 s if its code is on its way. What is kept is
//! bounded: beyond that the oldest goes as it is.

use super::look::{Identity, Look, original};
use super::record::{Happened, Kernel, NO_PORT, Record, Told, kernel};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Nanoseconds that a frame waits for its end, and one whose code is on its way.
const UNDECIDED: u64 = 100_000_000;
const WAITING: u64 = 2_000_000_000;

/// Frames on their way from the one half to the other, and packets some of whose copies have not left yet.
const RAISED_MAX: usize = 1 << 12;
const COPIED_MAX: usize = 1 << 12;

/// Frames kept, their bytes, and packets whose story is.
const FRAMES_MAX: usize = 1 << 15;
const BYTES_MAX: usize = 64 << 20;
const STORIES_MAX: usize = 1 << 16;

/// Numbers of packets that only the kernel half has had begin here.
const IN_KERNEL: u64 = 1 << 62;

/// Which half of a node has had a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The kernel half alone.
    Kernel,
    /// The user half, which the kernel half has handed it to with its verdict.
    Both,
    /// The user half.
    User,
}

/// What has become of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Nothing is known.
    #[default]
    Unknown,
    /// It was dropped, for a reason.
    Dropped(String),
    /// It went on by a port.
    Forwarded(u16),
    /// It went on as so many copies.
    Copied(u16),
    /// It went to an application port.
    Delivered(u16),
}

/// What is known of a packet in a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Who pays.
    pub domain: Option<u32>,
    /// Steps of its code.
    pub steps: Option<u64>,
    /// The port that it came in by.
    pub came: Option<u16>,
    /// Whether it has waited for its code.
    pub waited: bool,
    /// What has become of it.
    pub end: End,
}

/// A frame at the edge of a node, with its story.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When, in nanoseconds of the node's clock.
    pub at: u64,
    /// Its identity in the node; 0: none.
    pub trace: u64,
    /// The port.
    pub port: u16,
    /// Whether it came in.
    pub inward: bool,
    /// Who has had it.
    pub half: Half,
    /// The frame.
    pub bytes: Vec<u8>,
    /// What it is.
    pub look: Look,
    /// What became of it.
    pub story: Story,
}

/// What puts them together.
#[derive(Default)]
pub struct Join {
    /// Of each port, whether its frames are Ethernet frames.
    ethernet: Vec<bool>,
    waiting: BTreeMap<(u64, u64), Seen>,
    stories: HashMap<u64, Story>,
    /// Frames that the kernel half has handed to the user half, as they came, by what they are known by since.
    raised: HashMap<Identity, (u64, Vec<u8>)>,
    /// Packets of which the kernel half makes copies, and how many of these have not left yet.
    copied: HashMap<[u8; kernel::MARK], (u64, u16)>,
    /// Packets by age.
    order: VecDeque<u64>,
    count: u64,
    /// Bytes of the frames that wait.
    bytes: usize,
    now: u64,
    missed: (u64, u64),
}

impl Join {
    /// One for a node with these ports: whether each is an Ethernet port.
    pub fn new(ethernet: Vec<bool>) -> Join {
        Join { ethernet, ..Join::default() }
    }

    /// Records that were missed: the worker's, the kernel half's.
    pub fn missed(&self) -> (u64, u64) {
        self.missed
    }

    /// Takes a record.
    pub fn take(&mut self, record: &Record<'_>) {
        self.now = self.now.max(record.at);
        match &record.what {
            Told::Frame(inward, port, bytes) => self.take_frame(record, *inward, *port, bytes),
            Told::Happened(happened) => self.happened(record.trace, happened),
            Told::Kernel(kernel) => self.take_kernel(record.at, kernel),
            Told::Missed(worker, kernel) => self.missed = (*worker, *kernel),
            Told::Unknown => {}
        }
    }

    fn take_frame(&mut self, record: &Record<'_>, inward: bool, port: u16, bytes: &[u8]) {
        let (mut bytes, was_up) = original(bytes.to_vec());
        let (mut at, half) = (record.at, if was_up { Half::Both } else { Half::User });
        if inward && record.trace != 0 {
            self.story(record.trace).came = Some(port);
        }
        // As it came, rather than as its code has left it.
        if was_up
            && let Some(identity) = Look::at(true, &bytes).identity
            && let Some(before) = self.raised.remove(&identity).filter(|(at, _)| record.at < at + WAITING)
        {
            (at, bytes) = before;
        }
        self.keep(at, record.trace, (port, inward), half, bytes);
    }

    fn take_kernel(&mut self, at: u64, told: &Kernel<'_>) {
        if told.done == kernel::RAISED {
            if let Some(identity) = Look::at(true, &original(told.after.to_vec()).0).identity {
                if self.raised.len() >= RAISED_MAX {
                    // The user half has missed some.
                    self.raised.clear();
                }
                self.raised.insert(identity, (at, told.before.to_vec()));
            }
            return;
        }
        let trace = IN_KERNEL + self.count;
        if told.done == kernel::COPY {
            let parent = told.before.first_chunk().and_then(|mark| self.parent(mark));
            self.keep(at, parent.unwrap_or(trace), (told.port, false), Half::Kernel, told.after.to_vec());
            return;
        }
        let end = match told.done {
            kernel::DROPPED => End::Dropped(reason(told.reason).into()),
            kernel::COPIED => End::Copied(told.reason),
            _ => End::Forwarded(told.out),
        };
        *self.story(trace) = Story { came: Some(told.port), end, ..Story::default() };
        self.keep(at, trace, (told.port, true), Half::Kernel, told.before.to_vec());
        if told.done == kernel::COPIED {
            if self.copied.len() >= COPIED_MAX {
                // Some copies were lost, or not told of.
                self.copied.clear();
            }
            self.copied.extend(told.after.first_chunk().map(|mark| (*mark, (trace, told.reason))));
        } else if !told.after.is_empty() {
            self.keep(at, trace, (told.out, false), Half::Kernel, told.after.to_vec());
        }
    }

    /// The packet that a copy with this mark is of.
    fn parent(&mut self, mark: &[u8; kernel::MARK]) -> Option<u64> {
        let (parent, left) = self.copied.get_mut(mark)?;
        let parent = *parent;
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.copied.remove(mark);
        }
        Some(parent)
    }

    fn keep(&mut self, at: u64, trace: u64, (port, inward): (u16, bool), half: Half, bytes: Vec<u8>) {
        self.count += 1;
        if port == NO_PORT {
            return;
        }
        let is_ethernet = self.ethernet.get(usize::from(port)).copied().unwrap_or(true);
        let look = Look::at(is_ethernet, &bytes);
        self.bytes += bytes.len();
        let story = Story::default();
        self.waiting.insert((at, self.count), Seen { at, trace, port, inward, half, bytes, look, story });
    }

    fn story(&mut self, trace: u64) -> &mut Story {
        if !self.stories.contains_key(&trace) {
            self.order.push_back(trace);
            if self.order.len() > STORIES_MAX {
                self.order.pop_front().map(|oldest| self.stories.remove(&oldest));
            }
        }
        self.stories.entry(trace).or_default()
    }

    fn happened(&mut self, trace: u64, happened: &Happened) {
        if trace == 0 {
            return;
        }
        let story = self.story(trace);
        match happened {
            Happened::Charged(domain) => story.domain = Some(*domain),
            Happened::Ran(steps) => story.steps = Some(*steps),
            Happened::Waiting(_) => story.waited = true,
            Happened::Forwarded(port, _) => story.end = End::Forwarded(*port),
            Happened::Delivered(port) => story.end = End::Delivered(*port),
            Happened::Dropped(reason) => story.end = End::Dropped(reason.clone()),
            Happened::Child(child) => {
                let parent = Story { end: End::Unknown, ..story.clone() };
                *self.story(*child) = parent;
            }
            _ => {}
        }
    }

    /// The next frame whose story is whole, or has lasted too long; nothing: wait for more. With `all`: whatever is left.
    pub fn next(&mut self, all: bool) -> Option<Seen> {
        let entry = self.waiting.first_entry()?;
        let seen = entry.get();
        let story = self.stories.get(&seen.trace);
        let patience = match story {
            _ if seen.trace == 0 || !seen.inward => 0,
            Some(Story { end: End::Unknown, waited: true, .. }) => WAITING,
            Some(Story { end: End::Unknown, .. }) | None => UNDECIDED,
            Some(_) => 0,
        };
        let goes = all
            || self.bytes > BYTES_MAX
            || self.now >= seen.at.saturating_add(patience)
            || entry.key().1 + FRAMES_MAX as u64 <= self.count;
        if !goes {
            return None;
        }
        let mut seen = entry.remove();
        self.bytes -= seen.bytes.len();
        seen.story = self.stories.get(&seen.trace).cloned().unwrap_or_default();
        Some(seen)
    }
}

/// The name of a reason of the kernel half (`bpf/seen.h`).
pub fn reason(number: u16) -> &'static str {
    match number {
        1 => "code",
        2 => "verdict",
        3 => "budget",
        4 => "ingress-rate",
        5 => "forged",
        6 => "cut-through",
        _ => "kernel-half",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::domain::DomainId;
    use crate::core::reason::Reason;
    use crate::frame::PortId;
    use crate::node::{Event, EventKind};
    use crate::seen::event::of_event;
    use crate::seen::record::{self, CAME, KERNEL, LEAVES, MISSED, Records};
    use crate::seen::ring::ring;
    use crate::wire::Addr;

    /// Who tells.
    type Tell<'a> = &'a mut dyn FnMut([u64; 4], &[u8], &[u8]);

    /// What is told, as it is read.
    fn told(tell: impl Fn(Tell<'_>)) -> Vec<u8> {
        let (mut teller, mut listener) = ring(1 << 16);
        tell(&mut |head, first, second| assert!(teller.tell(head, first, second)));
        let mut bytes = Vec::new();
        listener.hear(&mut bytes, usize::MAX);
        bytes
    }

    fn joined(bytes: &[u8]) -> Vec<Seen> {
        let mut join = Join::new(vec![true; 3]);
        Records::of(bytes).for_each(|record| join.take(&record));
        std::iter::from_fn(|| join.next(true)).collect()
    }

    #[test]
    fn a_frame_has_the_end_of_its_packet_and_so_has_what_leaves() {
        let event = |tell: Tell<'_>, trace, kind| {
            of_event(20, &Event { trace, kind }, |head, bytes, behind| tell(head, bytes, behind));
        };
        let bytes = told(|tell| {
            tell(record::head(CAME, 0, 0, 10, 7, 0), &[1; 60], &[]);
            tell(record::head(CAME, 0, 1, 11, 8, 0), &[2; 61], &[]);
            event(tell, 7, EventKind::Charged(DomainId(3)));
            event(tell, 7, EventKind::Ran(40));
            event(tell, 7, EventKind::Child(9));
            event(tell, 7, EventKind::Forwarded(PortId(2), Addr::UNSPECIFIED));
            event(tell, 8, EventKind::Dropped(Reason::NoRoute));
            tell(record::head(LEAVES, 0, 2, 21, 9, 0), &[3; 62], &[]);
            tell(record::head(LEAVES, 0, 2, 22, 0, 0), &[4; 63], &[]);
            tell(record::head(MISSED, 0, record::NO_PORT, 23, 5, 6), &[], &[]);
        });
        let seen = joined(&bytes);
        let ends: Vec<_> = seen.iter().map(|seen| (seen.at, seen.inward, &seen.story.end)).collect();
        let dropped = End::Dropped("no-route".into());
        let [first, second] = [(10, true, &End::Forwarded(2)), (11, true, &dropped)];
        assert_eq!(ends, [first, second, (21, false, &End::Unknown), (22, false, &End::Unknown)]);
        assert_eq!((seen[0].story.domain, seen[0].story.steps), (Some(3), Some(40)));
        assert_eq!((seen[2].story.domain, seen[2].story.came, seen[3].story.came), (Some(3), Some(0), None), "a child");
        let mut join = Join::new(vec![true]);
        Records::of(&bytes).for_each(|record| join.take(&record));
        assert_eq!(join.missed(), (5, 6));
    }

    #[test]
    fn what_the_kernel_half_has_had_is_two_frames_or_one() {
        let bytes = told(|tell| {
            let word = |out, reason| record::kernel_word(out, reason, 60);
            tell(record::head(KERNEL, kernel::SENT, 0, 10, 0, word(1, 0)), &[1; 60], &[2; 60]);
            tell(record::head(KERNEL, kernel::DROPPED, 0, 11, 0, word(record::NO_PORT, 3)), &[3; 60], &[]);
        });
        let seen = joined(&bytes);
        let ends: Vec<_> = seen.iter().map(|seen| (seen.port, seen.inward, seen.half, &seen.story.end)).collect();
        let (sent, dropped) = (End::Forwarded(1), End::Dropped("budget".into()));
        let [came, left] = [(0, true, Half::Kernel, &sent), (1, false, Half::Kernel, &sent)];
        assert_eq!(ends, [came, left, (0, true, Half::Kernel, &dropped)]);
    }

    #[test]
    fn copies_of_the_kernel_half_are_known_by_their_mark_and_others_are_not() {
        let bytes = told(|tell| {
            let word = |out, reason, before| record::kernel_word(out, reason, before);
            tell(record::head(KERNEL, kernel::COPIED, 0, 10, 0, word(record::NO_PORT, 2, 60)), &[1; 60], &[7; 14]);
            for (at, port, mark) in [(11, 1, 7), (12, 2, 7), (13, 2, 8), (14, 2, 7)] {
                let head = record::head(KERNEL, kernel::COPY, port, at, 0, word(port, 0, 14));
                tell(head, &[mark; 14], &[port as u8; 61]);
            }
        });
        let seen = joined(&bytes);
        let ways: Vec<_> =
            seen.iter().map(|seen| (seen.port, seen.inward, seen.bytes.len(), seen.story.came)).collect();
        let (copy, other) = (|port| (port, false, 61, Some(0)), (2, false, 61, None));
        assert_eq!(ways, [(0, true, 60, Some(0)), copy(1), copy(2), other, other], "two copies, then no more of them");
        assert!(seen.iter().all(|seen| seen.half == Half::Kernel));
        assert_eq!((&seen[0].story.end, seen[1].trace), (&End::Copied(2), seen[0].trace));
    }

    #[test]
    fn records_that_are_cut_off_or_damaged_are_no_more_than_passed_over() {
        let bytes = told(|tell| {
            tell(record::head(CAME, 0, 0, 10, 7, 0), &[1; 60], &[]);
            tell(record::head(KERNEL, kernel::RAISED, 0, 10, 0, record::kernel_word(1, 0, 20)), &[1; 20], &[2; 30]);
        });
        for cut in 0..bytes.len() {
            joined(&bytes[..cut]);
            for change in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[cut] ^= change;
                joined(&damaged);
            }
        }
    }
}
