//! Frames and what became of them, put together again from records.
//!
//! ```text
//! CAME 7 · EVENT 7 charged 3 · EVENT 7 ran 40 · EVENT 7 forwarded · LEAVES 7
//!   ──▶ the frame that came in: forwarded by port 1, domain 3 ──▶ the frame that leaves: the same
//! ```
//!
//! A frame waits here until its end is known, or for a while ([`UNDECIDED`], [`WAITING`]). What is kept is bounded: beyond that the
//! oldest goes as it is.

use super::look::{Identity, Look, original};
use super::record::{Happened, Kernel, NO_PORT, Record, Told, kernel};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Nanoseconds that a frame waits for its end, and one whose code is on its way.
const UNDECIDED: u64 = 100_000_000;
const WAITING: u64 = 2_000_000_000;

/// Frames on their way from the one half to the other.
const RAISED_MAX: usize = 1 << 12;

/// Frames kept, and packets whose story is.
const FRAMES_MAX: usize = 1 << 15;
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
    /// Packets by age.
    order: VecDeque<u64>,
    count: u64,
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
            && let Some(before) = self.raised.remove(&identity)
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
        let end = match told.done {
            kernel::DROPPED => End::Dropped(reason(told.reason).into()),
            kernel::COPIED => End::Copied(told.reason),
            _ => End::Forwarded(told.out),
        };
        *self.story(trace) = Story { came: Some(told.port), end, ..Story::default() };
        self.keep(at, trace, (told.port, true), Half::Kernel, told.before.to_vec());
        if !told.after.is_empty() {
            self.keep(at, trace, (told.out, false), Half::Kernel, told.after.to_vec());
        }
    }

    fn keep(&mut self, at: u64, trace: u64, (port, inward): (u16, bool), half: Half, bytes: Vec<u8>) {
        if port == NO_PORT {
            return;
        }
        let is_ethernet = self.ethernet.get(usize::from(port)).copied().unwrap_or(true);
        let look = Look::at(is_ethernet, &bytes);
        self.count += 1;
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
        let goes = all || self.now >= seen.at + patience || entry.key().1 + FRAMES_MAX as u64 <= self.count;
        if !goes {
            return None;
        }
        let mut seen = entry.remove();
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
