//! The node's side of the memory shared with one process: upcalls in, packets out, buffers back.
//!
//! The worker owns it, and never waits or allocates for a packet. The process may write anything at any time. So an
//! entry is copied before it is looked at, a packet before it is sent, and the node remembers the lent buffers itself.
//! A process with impossible counters, or one that takes nothing for [`HANG`] while packets come, is [`Half::broken`]:
//! its connection is shut, and the session does the rest.

use super::accounts::Account;
use crate::core::bucket::TokenBucket;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::nodeos::interface::{Destination, DomainId, OutChanId, Upcall};
use crate::nodeos::thread_pool::ThreadPool;
use crate::sys::poll::Waker;
use crate::sys::seqpacket::SeqPacket;
use crate::wire::Addr;
use libanode::entry::{Message, Span};
use libanode::memory::{HEADROOM, Memory};
use libanode::ring::{Cells, Consumer, Nonsense, Producer};
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Nanoseconds that a process may take nothing while packets come for it: ten seconds.
const HANG: u64 = 10_000_000_000;

/// Entries a second that may mean nothing, and at once: a mistake of a process's is counted, and one that makes no other is given up.
const NONSENSE_PER_SECOND: u64 = 16;
const NONSENSE_BURST: u64 = 1024;

/// What happens to domains other than packets waits here when the ring is full; beyond that the process hangs.
const WAITING_MAX: usize = 1 << 16;

/// A packet that a process sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Where it is.
    pub span: Span,
    /// The channel that it says.
    pub channel: OutChanId,
    /// Where to, if the channel leaves it open.
    pub to: Destination,
}

/// What a process has put into its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A packet to be sent.
    Sent(Sent),
    /// What means nothing.
    Nonsense,
}

/// The node's half.
pub struct Half {
    /// In whose name the process acts.
    pub domain: DomainId,
    /// What its process uses.
    pub account: Option<Arc<Account>>,
    /// Whether it has more for the node than was taken.
    pub marked: bool,
    /// How often it has woken the node for nothing lately.
    pub vain: u32,
    /// Whether the node has stopped listening for that.
    pub deaf: bool,
    memory: Arc<Memory>,
    up: Producer<Arc<Memory>>,
    down: Consumer<Arc<Memory>>,
    back: Consumer<Arc<Memory>>,
    free: Vec<u16>,
    lent: Vec<bool>,
    waiting: VecDeque<Message>,
    waker: Waker,
    connection: Arc<SeqPacket>,
    broken: bool,
    threads: ThreadPool,
    /// What it may yet write that means nothing.
    nonsense: TokenBucket,
    /// How far the process was when it had no room for a packet first, and when that was.
    stuck: Option<(u64, u64)>,
}

impl Half {
    /// The half of a fresh memory.
    pub fn new(memory: Arc<Memory>, domain: DomainId, waker: Waker, connection: Arc<SeqPacket>) -> Half {
        let geometry = memory.geometry();
        Half {
            domain,
            account: None,
            // Looked at once, so that the process is asked to wake the node from then on.
            marked: true,
            vain: 0,
            deaf: false,
            up: Producer::new(memory.clone(), geometry.up()),
            down: Consumer::new(memory.clone(), geometry.down()),
            back: Consumer::new(memory.clone(), geometry.back()),
            free: (0..geometry.buffers_node as u16).rev().collect(),
            lent: vec![false; geometry.buffers_node as usize],
            waiting: VecDeque::new(),
            threads: ThreadPool::new(geometry.threads as u16),
            memory,
            waker,
            connection,
            broken: false,
            nonsense: TokenBucket::new(NONSENSE_PER_SECOND, NONSENSE_BURST),
            stuck: None,
        }
    }

    /// What the process writes to when it has put something into its ring.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether the process is beyond hope.
    pub fn broken(&self) -> bool {
        self.broken
    }

    /// Whether something waits until the process has room.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The process has written what means nothing: one that does so again and again is given up.
    #[cold]
    pub fn note_nonsense(&mut self, now: u64) {
        if !self.nonsense.take(now, 1) {
            self.give_up();
        }
    }

    /// Gives the process up: its session notices that the connection has ended.
    #[cold]
    pub fn give_up(&mut self) {
        self.broken = true;
        self.waiting = VecDeque::new();
        // The process may have closed it already.
        let _ = shutdown(&*self.connection, Shutdown::Both);
    }

    /// Tells the process what happens to a domain. The frame of a packet comes back in any case, with the reason if it was not told.
    #[inline]
    pub fn tell(&mut self, now: u64, domain: DomainId, upcall: Upcall) -> Option<(Frame, Result<(), Reason>)> {
        let message = match upcall {
            Upcall::Packet { channel, frame } => {
                let told = self.tell_packet(now, domain, channel.0, &frame);
                return Some((frame, told));
            }
            Upcall::Event { event, argument } => Message::Event { domain: domain.0, event: event.0, argument },
            Upcall::Overrun { pool, deadline } => Message::Overrun { domain: domain.0, pool: pool.0, deadline },
            Upcall::Changed { watch, argument } => Message::Changed { domain: domain.0, watch: watch.0, argument },
            Upcall::Ended => Message::Ended { domain: domain.0 },
        };
        if self.broken {
            return None;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.give_up();
        } else {
            self.waiting.push_back(message);
            self.push_waiting();
        }
        None
    }

    fn tell_packet(&mut self, now: u64, domain: DomainId, channel: u32, frame: &Frame) -> Result<(), Reason> {
        if self.broken {
            return Err(Reason::HostGone);
        }
        if frame.len() > self.memory.geometry().buffer_bytes as usize - HEADROOM {
            return Err(Reason::ProcessBuffer);
        }
        if self.free.is_empty() {
            self.take_back();
        }
        let Some(buffer) = self.free.pop() else { return Err(self.full(now)) };
        self.memory.copy_in(buffer.into(), HEADROOM, frame.bytes());
        let end = |end: Option<(Addr, u16)>| end.map(|(address, port)| (address.0, port));
        let message = Message::Packet {
            span: Span { buffer, offset: HEADROOM as u16, length: frame.len() as u16 },
            channel,
            domain: domain.0,
            source: end(frame.ends.source),
            destination: end(frame.ends.destination),
        };
        // Behind what waits nothing overtakes.
        match if self.waiting.is_empty() { self.up.push(&message.entry()) } else { Ok(false) } {
            Ok(true) => {
                self.lent[usize::from(buffer)] = true;
                self.stuck = None;
                Ok(())
            }
            refused => {
                self.free.push(buffer);
                if refused.is_err() {
                    self.give_up();
                }
                Err(self.full(now))
            }
        }
    }

    /// There is no room for a packet.
    #[cold]
    fn full(&mut self, now: u64) -> Reason {
        // What it has taken, as far as it says so: anything else than before shows that it lives.
        let nonsense = self.up.has_room().is_err();
        let taken = self.up.taken();
        match self.stuck {
            _ if nonsense => self.give_up(),
            Some((then, since)) if then == taken => {
                if now.saturating_sub(since) > HANG {
                    self.give_up();
                }
            }
            _ => self.stuck = Some((taken, now)),
        }
        Reason::ProcessFull
    }

    /// Entries that the process has not taken yet, as far as it says so.
    pub fn untaken(&mut self) -> u64 {
        // One that shows what cannot be is given up when it is told something next.
        let _ = self.up.has_room();
        self.up.put().saturating_sub(self.up.taken())
    }

    /// Looks at the threads of the process: those domains in which one has been at the same for longer than `limit` says. It says
    /// nothing of domains that are not the process's.
    pub fn look_at_threads(&mut self, now: u64, limit: impl Fn(DomainId) -> Option<u64>) -> Vec<DomainId> {
        let (memory, geometry) = (&self.memory, self.memory.geometry());
        let shown = |number: u16| geometry.thread(number).map_or(0, |at| memory.load(at, Ordering::Acquire));
        self.threads.look(now, shown, limit)
    }

    /// Takes back buffers that the process has freed. At most as many as there are: more it can only invent.
    fn take_back(&mut self) {
        for _ in 0..self.lent.len() {
            match self.back.pop() {
                Ok(Some(entry)) => {
                    if let Some(Message::Free { buffer }) = Message::of(&entry) {
                        self.return_buffer(buffer);
                    }
                }
                Ok(None) => return,
                Err(Nonsense) => return self.give_up(),
            }
        }
    }

    /// A buffer is the node's again; false if it was so all the time.
    fn return_buffer(&mut self, buffer: u16) -> bool {
        match self.lent.get_mut(usize::from(buffer)) {
            Some(lent) if *lent => {
                *lent = false;
                self.free.push(buffer);
                true
            }
            _ => false,
        }
    }

    fn push_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            match self.up.push(&message.entry()) {
                Ok(true) => drop(self.waiting.pop_front()),
                Ok(false) => return,
                Err(Nonsense) => return self.give_up(),
            }
        }
    }

    /// Wakes the process if it sleeps and there is something for it.
    #[inline]
    pub fn notify(&mut self) {
        if !self.waiting.is_empty() {
            self.push_waiting();
        }
        if self.up.wakes() {
            self.memory.wake_at(self.memory.geometry().up().sleeping());
        }
    }

    /// The oldest entry that the process has put in; nothing if there is none, and then it writes to the waker with the next, if
    /// `wakes`.
    #[inline]
    pub fn take(&mut self, wakes: bool) -> Option<Taken> {
        if self.broken {
            return None;
        }
        loop {
            match self.down.pop() {
                Ok(Some(entry)) => return Some(self.understand(&entry)),
                Ok(None) if !wakes => return None,
                Ok(None) => match self.down.sleep() {
                    Ok(true) => return None,
                    Ok(false) => {}
                    Err(Nonsense) => break,
                },
                Err(Nonsense) => break,
            }
        }
        self.give_up();
        None
    }

    fn understand(&mut self, entry: &libanode::ring::Entry) -> Taken {
        let Some(Message::Packet { span, channel, destination, .. }) = Message::of(entry) else {
            return Taken::Nonsense;
        };
        let geometry = self.memory.geometry();
        let buffer = usize::from(span.buffer);
        let fits = u32::from(span.offset) + u32::from(span.length) <= geometry.buffer_bytes;
        let nodes = buffer < geometry.buffers_node as usize;
        if !fits || buffer >= geometry.buffers() || nodes && !self.lent[buffer] {
            return Taken::Nonsense;
        }
        let to = destination.map(|(address, port)| (Addr(address), port));
        Taken::Sent(Sent { span, channel: OutChanId(channel), to })
    }

    /// Copies a packet that was taken into a frame; its buffer is then whose it was. False if the frame is too small.
    #[inline]
    pub fn copy(&mut self, sent: &Sent, frame: &mut Frame) -> bool {
        let length = usize::from(sent.span.length);
        let fits = length <= frame.capacity();
        if fits {
            frame.received(length);
            self.memory.copy_out(sent.span.buffer.into(), sent.span.offset.into(), frame.bytes_mut());
        }
        fits
    }

    /// The process's packet is done with: a buffer of the node's is free again.
    #[inline]
    pub fn done(&mut self, sent: &Sent) {
        // Buffers of the process's it knows to be free by how far the ring was taken.
        self.return_buffer(sent.span.buffer);
    }
}

#[cfg(test)]
mod tests;
