//! The outbox of an evaluation: its packets, messages and changes, kept until it has ended.
//!
//! An evaluation that has to wait for something outside begins again later, as if it had never run; then its outbox is
//! thrown away. Only values that it put are there at once, since it must see them itself. Their former values are kept,
//! to be put back. What else an evaluation has done it sees too, in the order of its deeds: a port that it closed, a way
//! that it set, a meter that it opened ([`Outbox::port`], [`Outbox::way`], [`Outbox::meter`]).

use super::Next;
use super::flows::MeasuredFlow;
use super::holders::Holder;
use super::jobs::{Meter, SendJob};
use super::resident::Before;
use core::ops::Range;

/// Packets that one evaluation can send.
pub const PACKETS_MAX: usize = 256;

/// Bytes of all of them.
pub const BYTES_MAX: usize = 256 * 1024;

/// Other things that one evaluation can do.
pub const DEEDS_MAX: usize = 256;

/// A new packet.
#[derive(Debug)]
pub struct Outgoing {
    /// Where to, if not to the node itself.
    pub next: Option<Next>,
    /// Where it is among the bytes.
    pub range: Range<usize>,
    /// What it pays.
    pub paid: Paid,
}

/// What a packet pays for the way to the next node.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    /// So many frames.
    pub frames: u32,
    /// Bytes that these have room for beside it.
    pub spare: usize,
    /// Bytes of questions that they pay for.
    pub debt: usize,
}

/// Something to be done.
#[derive(Debug)]
pub enum Deed {
    /// A message for an application.
    Tell(u64, Vec<u8>),
    /// A connection to an application begins: its port, the application's, and who holds it.
    Open(u64, u64, Holder),
    /// It ends.
    Close(u64),
    /// Packets of a flow go a way.
    Flow(([u8; 16], u32), MeasuredFlow, Holder),
    /// A packet arrived whose sender waits for word of that.
    Acknowledge(i64),
    /// Packets of a meter are counted from now on until then.
    Receive(Box<[u8]>, u64, Holder),
    /// One has come, of so many bytes.
    Count(Box<[u8]>, usize),
    /// Packets are sent by and by.
    Job(Box<SendJob>),
}

/// What an evaluation has done so far.
#[derive(Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    pub packets: Vec<Outgoing>,
    pub deeds: Vec<Deed>,
    pub undo: Vec<Before>,
    /// Bytes that the first packet to another node is to pay for beside itself.
    pub debt: usize,
    /// Chunks for the source that nothing was left to pay for.
    pub unpaid: u64,
}

impl Outbox {
    /// Whether another packet may follow.
    pub fn has_room(&self) -> bool {
        self.packets.len() < PACKETS_MAX && self.bytes.len() < BYTES_MAX
    }

    /// Takes the last packet out again.
    pub fn take_back(&mut self) {
        if let Some(last) = self.packets.pop() {
            self.bytes.truncate(last.range.start);
            self.debt += last.paid.debt;
        }
    }

    /// Adds a deed; false if there are too many.
    #[must_use]
    pub fn deed(&mut self, deed: Deed) -> bool {
        let room = self.deeds.len() < DEEDS_MAX;
        if room {
            self.deeds.push(deed);
        }
        room
    }

    /// What this evaluation has made of a port, if it has opened or closed it: the application behind it, or none.
    pub fn port(&self, port: u64) -> Option<Option<u64>> {
        self.deeds.iter().rev().find_map(|deed| match deed {
            Deed::Open(new, application, _) if *new == port => Some(Some(*application)),
            Deed::Close(old) if *old == port => Some(None),
            _ => None,
        })
    }

    /// The way that this evaluation has set for a flow.
    pub fn way(&self, flow: ([u8; 16], u32)) -> Option<MeasuredFlow> {
        self.deeds.iter().rev().find_map(|deed| match deed {
            Deed::Flow(set, way, _) if *set == flow => Some(*way),
            _ => None,
        })
    }

    /// What a meter shows after what this evaluation has done with it; `known` is what it showed before.
    pub fn meter(&self, now: u64, name: &[u8], known: Option<Meter>) -> Option<Meter> {
        self.deeds.iter().fold(known, |meter, deed| match deed {
            Deed::Receive(opened, until, _) if **opened == *name => Some(Meter::until(*until)).filter(|_| *until > now),
            Deed::Count(counted, bytes) if **counted == *name => meter.map(|meter| meter.and(now, *bytes)),
            _ => meter,
        })
    }

    /// Jobs of this evaluation that are not there yet, and their bytes.
    pub fn jobs(&self) -> (u64, u64) {
        let jobs =
            self.deeds.iter().filter_map(|deed| if let Deed::Job(job) = deed { Some(job.bytes.len()) } else { None });
        jobs.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes as u64))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
        self.deeds.clear();
        self.undo.clear();
        self.debt = 0;
        self.unpaid = 0;
    }
}
