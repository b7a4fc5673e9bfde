//! One end of a shaped link: frames come in from a node, and go out to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::net::sockopt::socket_error;

use super::spec::{SpecEnd, SpecLink};
use super::travel::Travel;
use crate::link::meter::{Count, MeterFile, Place};
use crate::link::model::chance;
use crate::link::{Fate, LinkModel, LinkQuality};
use crate::sys::clock::{Clock, unix_ns};
use crate::sys::mmsg::{Batch, RawAddr};
use crate::sys::packet::{self, PacketSocket, Room, Seen};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Frames taken from one end before the others have their turn.
const TURN: usize = 256;

/// Frames in one turn from which on some may have been missed.
const MANY: usize = 32;

/// Bytes that may travel on one direction of a link without a limit of its rate.
pub(crate) const TRAVEL_BYTES: u64 = 16 << 20;

/// Bytes of frames that wait for an interface that does not take them are kept for so long, in nanoseconds.
const NOT_TAKEN: u64 = 100_000_000;

/// When such an interface is tried again, in nanoseconds.
const AGAIN: u64 = 200_000;

/// What the clocks show: the system's monotonic one, and that of frames in rings, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) monotonic: u64,
    pub(super) real: u64,
}

impl Now {
    pub(super) fn read() -> Now {
        let real = unix_ns();
        Now { monotonic: Clock::since(0).now(), real }
    }
}

/// An end, and the direction of the link that begins here.
pub(super) struct End {
    socket: PacketSocket,
    pub(super) interface: String,
    index: u32,
    /// Which of the ends in its place it is.
    pub(super) life: u64,
    place: Place,
    pub(super) meter: String,
    model: LinkModel,
    rng: Xoshiro256PlusPlus,
    pub(super) quality: LinkQuality,
    pub(super) mtu: u32,
    pub(super) seed: u64,
    /// When the last frame came.
    came: u64,
    /// Frames that travel from here, and their bytes.
    under_way: u64,
    travelling: u64,
    travelling_max: u64,
    /// Frames that have arrived and leave here, by their places.
    arrived: VecDeque<usize>,
    /// When the interface is tried again that took none, in nanoseconds.
    again: Option<u64>,
}

fn travelling_max(quality: &LinkQuality, mtu: u32) -> u64 {
    // Frames of one turn are put on their way together, before those leave whose time has come.
    let turn = (TURN * super::longest(mtu)) as u64 * quality.copies();
    quality.bytes_under_way().map_or(TRAVEL_BYTES, |bytes| bytes + turn)
}

impl End {
    /// Opens one; `ring` bytes of frames may wait until they are taken.
    pub(super) fn open(
        (link, at): (&SpecLink, usize),
        (seed, life, ring): (u64, u64, usize),
        meters: &MeterFile,
    ) -> io::Result<End> {
        let SpecEnd { interface, meter } = &link.ends[at];
        let named = |what: &str| {
            let what = format!("{interface} ({meter}): {what}");
            move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
        };
        let index = packet::index(interface).map_err(named("no such interface"))?;
        let (longest, room) = (super::longest(link.mtu), Room::Bytes(ring));
        let fd =
            packet::open(index, libc::ETH_P_ALL as u16, longest, room, None, None).map_err(named("packet socket"))?;
        let socket = PacketSocket::over(fd, longest, room).map_err(named("ring of a packet socket"))?;
        let place = meters.place(meter).ok_or_else(|| io::Error::other(format!("no meter is left for {meter}")))?;
        let model = LinkModel::new(&link.quality);
        meters.show(place, model.line());
        Ok(End {
            socket,
            interface: interface.clone(),
            index,
            life,
            place,
            meter: meter.clone(),
            model,
            rng: chance(seed, link.number, at),
            quality: link.quality,
            mtu: link.mtu,
            seed,
            came: 0,
            under_way: 0,
            travelling: 0,
            travelling_max: travelling_max(&link.quality, link.mtu),
            arrived: VecDeque::new(),
            again: None,
        })
    }

    /// Whether it is the end that is meant, at an interface that is still there.
    pub(super) fn is(&self, end: &SpecEnd, mtu: u32) -> bool {
        self.interface == end.interface && self.meter == end.meter && self.mtu == mtu && self.is_there()
    }

    /// Whether its interface is still there.
    pub(super) fn is_there(&self) -> bool {
        packet::index(&self.interface).is_ok_and(|index| index == self.index)
    }

    /// Has another quality, or another chance, from now on, which the system's monotonic clock tells.
    pub(super) fn change(&mut self, (link, at): (&SpecLink, usize), seed: u64, now: u64, meters: &MeterFile) {
        self.came = self.came.max(now);
        self.model = self.model.changed(&link.quality, self.came);
        self.rng = chance(seed, link.number, at);
        (self.quality, self.seed) = (link.quality, seed);
        self.travelling_max = travelling_max(&link.quality, link.mtu);
        meters.show(self.place, self.model.line());
    }

    /// Takes frames that have come and puts them on their way to the other end; says how many.
    pub(super) fn take(&mut self, mut now: Now, to: (usize, u64), travel: &mut Travel, meters: &MeterFile) -> usize {
        let mut taken = 0;
        while taken < TURN {
            let End { socket, model, rng, came, place, mtu, under_way, travelling, travelling_max, .. } = self;
            let mut direction = Direction { model, rng, came, place: *place, mtu: *mtu, under_way, travelling, meters };
            let most = *travelling_max;
            if !socket.see(|seen| direction.carry(seen, &mut now, to, most, travel)) {
                break;
            }
            taken += 1;
        }
        if taken > 0 {
            meters.show(self.place, self.model.line());
        }
        if taken >= MANY {
            meters.count(self.place, Count::Missed, self.socket.overflows().unwrap_or(0).into());
        }
        taken
    }

    /// Its interface has reported an error, as one does that went down. Takes it, so that it is not reported again.
    pub(super) fn rest(&self) {
        let _ = socket_error(self.socket.as_fd());
    }

    /// A frame from the other end has arrived.
    pub(super) fn arrive(&mut self, place: usize) {
        self.arrived.push_back(place);
    }

    /// A frame that began here travels no more.
    pub(super) fn travelled(&mut self, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(1);
        self.travelling = self.travelling.saturating_sub(bytes as u64);
    }

    /// The meter of what begins here.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// When it is to be tried again, if it has frames that it could not send.
    pub(super) fn again(&self) -> Option<u64> {
        self.again.filter(|_| !self.arrived.is_empty())
    }

    /// Sends frames that have arrived, as far as the interface takes them; those that go out or are given up go into `gone`, with whether
    /// they went out.
    pub(super) fn send(&mut self, now: u64, travel: &Travel, batch: &mut Batch, gone: &mut Vec<(usize, bool)>) {
        if self.again.is_some_and(|again| again > now) {
            return;
        }
        self.again = None;
        while let Some(first) = self.arrived.front().and_then(|place| travel.frame(*place)) {
            let frames = self.arrived.iter().filter_map(|place| travel.frame(*place));
            match batch.send(self.socket.as_fd(), frames.map(|frame| (frame.bytes.as_slice(), RawAddr::NONE))) {
                Ok(sent) => gone.extend(self.arrived.drain(..sent.min(self.arrived.len())).map(|place| (place, true))),
                // The queue of the other end of the veth is full; the frame has not left.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN))
                        && now < first.due.saturating_add(NOT_TAKEN) =>
                {
                    self.again = Some(now + AGAIN);
                    return;
                }
                Err(_) => gone.extend(self.arrived.pop_front().map(|place| (place, false))),
            }
        }
    }

    /// The link is closed: what began here and travels never arrives.
    pub(super) fn count_closed(&self, meters: &MeterFile) {
        meters.count(self.place, Count::Closed, self.under_way);
    }

    /// Frames that have arrived and did not leave.
    pub(super) fn left_over(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.arrived.drain(..)
    }
}

impl AsFd for End {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a frame that comes in is told by.
struct Direction<'a> {
    model: &'a mut LinkModel,
    rng: &'a mut Xoshiro256PlusPlus,
    came: &'a mut u64,
    place: Place,
    mtu: u32,
    under_way: &'a mut u64,
    travelling: &'a mut u64,
    meters: &'a MeterFile,
}

impl Direction<'_> {
    fn carry(&mut self, seen: Seen<'_>, now: &mut Now, to: (usize, u64), most: u64, travel: &mut Travel) {
        let pieces = seen.pieces();
        let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        self.count(Count::Entered, 1);
        self.count(Count::EnteredBytes, bytes as u64);
        if !seen.whole || bytes > self.mtu as usize + ETHERNET + pieces[1].len() {
            return self.count(Count::TooBig, 1);
        }
        if seen.unfinished {
            return self.count(Count::Unfinished, 1);
        }
        // When it came: what waits in the ring for this process must not wait on the link too.
        if seen.at > now.real {
            *now = Now::read();
        }
        let waited = now.real.saturating_sub(seen.at);
        let came = now.monotonic.saturating_sub(waited).max(*self.came);
        *self.came = came;
        let mut put = |due| {
            let there = *self.travelling + bytes as u64 <= most && travel.put(due, to, &pieces);
            *self.under_way += u64::from(there);
            *self.travelling += if there { bytes as u64 } else { 0 };
            there
        };
        let full = match self.model.carry(came, bytes, self.rng) {
            Fate::Full => return self.count(Count::QueueFull, 1),
            Fate::Lost | Fate::Cut => return self.count(Count::Lost, 1),
            Fate::Arrives(due) => u64::from(!put(due)),
            Fate::Twice(first, second) => {
                let full = [put(first), put(second)].into_iter().filter(|put| !put).count() as u64;
                self.count(Count::Doubled, 1);
                full
            }
        };
        if full > 0 {
            self.count(Count::TravelFull, full);
        }
    }

    #[inline]
    fn count(&self, count: Count, more: u64) {
        self.meters.count(self.place, count, more);
    }
}
