//! The process that carries the shaped links of a lab.
//!
//! One thread waits for frames, for the time at which the next one arrives, and for `anode lab up`. It sleeps by a timer in
//! between. Frames are only copied: nothing in them is looked at but their length, so none can harm it. A frame arrives no
//! earlier than it is due, and late by what the kernel takes to wake the thread.

use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::thread::CapabilitySet;

use super::end::{End, Now};
use super::spec::{Answer, LINKS_MAX, Spec, SpecLink};
use super::travel::Travel;
use crate::link::meter::{Count, MeterFile};
use crate::sys::clock::Clock;
use crate::sys::landlock::{Restriction, Tcp};
use crate::sys::mmsg::Batch;
use crate::sys::poll::{Poll, Ready};
use crate::sys::{privileges, process};

/// The listener's number in the poll; ends have theirs.
const LISTENER: u64 = u64::MAX - 1;

/// Bytes of all rings together, and of one at least and at most.
const RINGS: usize = 128 << 20;
const RING_MIN: usize = 256 << 10;
const RING_MAX: usize = 4 << 20;

/// Ends that are waited for by poll(2), which is one system call a turn. With more, epoll(7) costs less.
const FEW: usize = 14;

/// How long whoever connects may take to say what the links are; and bytes of that.
const REQUEST_TIME: Duration = Duration::from_secs(1);
const REQUEST_MAX: u64 = 1 << 20;

/// How often interfaces are looked for: one that goes while nobody listens to it is not heard of. In nanoseconds.
const LOOK: u64 = 10_000_000_000;

/// The process.
struct Carrier {
    poll: Poll,
    clock: Clock,
    meters: MeterFile,
    /// A link has two places, one after the other.
    ends: Vec<Option<End>>,
    lives: u64,
    travel: Travel,
    batch: Batch,
    gone: Vec<(usize, bool)>,
    /// Ends that have frames to send.
    sending: Vec<usize>,
    /// When interfaces are looked for next.
    look: u64,
}

/// Carries the links that `anode lab up` says by the listener, until their interfaces are gone. Its meters are in `dir`.
pub(crate) fn carry(listener: UnixListener, dir: &Path) -> io::Result<()> {
    // Timers ring when they are set to, not up to 50 µs later.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    process::raise_descriptors()?;
    listener.set_nonblocking(true)?;
    let poll = Poll::new()?;
    poll.add(&listener, LISTENER)?;
    let mut carrier = Carrier {
        poll,
        clock: Clock::since(0),
        meters: MeterFile::open(&dir.join("meters"))?,
        ends: Vec::new(),
        lives: 0,
        travel: Travel::default(),
        batch: Batch::default(),
        gone: Vec::new(),
        sending: Vec::new(),
        look: Clock::since(0).now() + LOOK,
    };
    confine()?;
    let mut ready = Vec::new();
    while carrier.turn(&listener, &mut ready)? {}
    Ok(())
}

/// Gives away what the process needs no more: all capabilities but those for packet sockets and their buffers, in whatever it executes
/// too, and all files. Its log and its meters are open; it is in its namespace, and can enter no other.
fn confine() -> io::Result<()> {
    privileges::keep_only(CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN)?;
    Restriction::new(Tcp::None)?.enter().map(drop)
}

/// The other end of a link.
fn across(end: usize) -> usize {
    end ^ 1
}

impl Carrier {
    /// Waits and does what there is to be done; false if there is nothing to be carried any more.
    fn turn(&mut self, listener: &UnixListener, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let again = self.sending.iter().filter_map(|at| self.ends.get(*at)?.as_ref()?.again()).min();
        let next = self.travel.next().into_iter().chain(again).min().unwrap_or(u64::MAX).min(self.look);
        self.poll.wait(next.saturating_sub(self.clock.now()), ready)?;
        let mut goes_on = true;
        for event in ready.iter() {
            match event.token {
                LISTENER => self.listen(listener),
                token => goes_on &= self.take(token as usize),
            }
        }
        self.release();
        if self.clock.now() >= self.look {
            self.look = self.clock.now() + LOOK;
            goes_on &= self.look_around();
        }
        Ok(goes_on)
    }

    /// Closes links whose interfaces are gone; false if there is none any more.
    fn look_around(&mut self) -> bool {
        for at in 0..self.ends.len() {
            if self.ends[at].as_ref().is_some_and(|end| !end.is_there()) {
                self.close_link(at);
            }
        }
        self.ends.iter().any(Option::is_some)
    }

    /// Takes what has come at an end; false if the last interface is gone.
    fn take(&mut self, at: usize) -> bool {
        self.take_frames(at) > 0 || self.look_after(at)
    }

    /// Takes what has come at an end; says how many frames.
    fn take_frames(&mut self, at: usize) -> usize {
        let Carrier { ends, travel, meters, .. } = self;
        let Some(to) = ends.get(across(at)).and_then(Option::as_ref).map(|end| (across(at), end.life)) else {
            return 0;
        };
        let Some(Some(end)) = ends.get_mut(at) else { return 0 };
        end.take(Now::read(), to, travel, meters)
    }

    /// Carries on in the midst of changes: the kernel takes milliseconds to open or close an end.
    fn carry_on(&mut self) {
        for at in 0..self.ends.len() {
            self.take_frames(at);
        }
        self.release();
    }

    /// There was an event but no frame: the interface went down or is gone. False if it was the last.
    fn look_after(&mut self, at: usize) -> bool {
        let Some(Some(end)) = self.ends.get(at) else { return true };
        end.rest();
        if !end.is_there() {
            self.close_link(at);
        }
        self.ends.iter().any(Option::is_some)
    }

    /// Closes the link with this end.
    fn close_link(&mut self, at: usize) {
        self.close(at);
        self.close(across(at));
    }

    fn close(&mut self, at: usize) {
        let Some(mut end) = self.ends.get_mut(at).and_then(Option::take) else { return };
        self.poll.drop_port(at as u64);
        // It is in one of the two; the kernel takes a socket out of a set by itself when it is closed.
        let _ = self.poll.remove(&end);
        end.count_closed(&self.meters);
        end.left_over().for_each(|place| self.travel.give(place));
    }

    /// Sends what has arrived by now.
    fn release(&mut self) {
        let now = self.clock.now();
        while let Some(place) = self.travel.arrived(now) {
            let Some((to, life)) = self.travel.frame(place).map(|frame| frame.to) else { continue };
            match self.ends.get_mut(to).and_then(Option::as_mut).filter(|end| end.life == life) {
                Some(end) => {
                    end.arrive(place);
                    if !self.sending.contains(&to) {
                        self.sending.push(to);
                    }
                }
                // Its link is no more.
                None => self.travel.give(place),
            }
        }
        for turn in 0..self.sending.len() {
            self.send(self.sending[turn], now);
        }
        let ends = &self.ends;
        self.sending.retain(|at| ends.get(*at).and_then(Option::as_ref).is_some_and(|end| end.again().is_some()));
    }

    fn send(&mut self, at: usize, now: u64) {
        let Carrier { ends, travel, batch, gone, meters, .. } = self;
        let Some(Some(end)) = ends.get_mut(at) else { return };
        end.send(now, travel, batch, gone);
        // The direction is the other end's.
        let Some(Some(from)) = ends.get_mut(across(at)) else {
            gone.drain(..).for_each(|(place, _)| travel.give(place));
            return;
        };
        let (mut frames, mut bytes, mut not_taken, mut last) = (0, 0, 0, 0);
        for (place, out) in gone.drain(..) {
            let (length, due) = travel.frame(place).map_or((0, 0), |frame| (frame.bytes.len(), frame.due));
            from.travelled(length);
            if out {
                frames += 1;
                bytes += length as u64;
                last = due.max(last);
            } else {
                not_taken += 1;
            }
            travel.give(place);
        }
        if frames > 0 {
            meters.count(from.place(), Count::Left, frames);
            meters.count(from.place(), Count::LeftBytes, bytes);
            meters.set(from.place(), Count::LeftAt, last);
        }
        if not_taken > 0 {
            meters.count(from.place(), Count::NotTaken, not_taken);
        }
    }

    /// Does what whoever has connected says, and answers.
    fn listen(&mut self, listener: &UnixListener) {
        let Ok((stream, _)) = listener.accept() else { return };
        if let Err(error) = self.serve(stream) {
            tracing::warn!(%error, "who connected was not answered");
        }
    }

    fn serve(&mut self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(REQUEST_TIME))?;
        stream.set_write_timeout(Some(REQUEST_TIME))?;
        let mut text = Vec::new();
        (&mut stream).take(REQUEST_MAX).read_to_end(&mut text)?;
        let done = serde_json::from_slice(&text).map_err(io::Error::from).and_then(|spec| self.become_so(&spec));
        let answer = match done {
            Ok(changes) => Answer::Changes(changes),
            Err(error) => Answer::Error(error.to_string()),
        };
        stream.write_all(&serde_json::to_vec(&answer)?)
    }

    /// Opens, changes and closes links until they are as told; says how many.
    fn become_so(&mut self, spec: &Spec) -> io::Result<usize> {
        if spec.links.len() > LINKS_MAX {
            return Err(io::Error::other(format!("{} shaped links; at most {LINKS_MAX}", spec.links.len())));
        }
        let mut changes = 0;
        let mut kept = vec![false; self.ends.len().div_ceil(2)];
        let mut missing = Vec::new();
        for link in &spec.links {
            match (0..kept.len()).find(|place| self.carries(*place, link)) {
                Some(place) => {
                    kept[place] = true;
                    changes += usize::from(self.change(place, link, spec.seed));
                }
                None => missing.push(link),
            }
        }
        for place in (0..kept.len()).filter(|place| !kept[*place]).collect::<Vec<_>>() {
            changes += usize::from([2 * place, 2 * place + 1].iter().any(|at| self.ends[*at].is_some()));
            self.close_link(2 * place);
            self.carry_on();
        }
        let ends = spec.links.iter().flat_map(|link| &link.ends);
        self.meters.keep(&ends.map(|end| end.meter.as_str()).collect());
        let ring = (RINGS / (2 * spec.links.len()).max(1)).clamp(RING_MIN, RING_MAX);
        let ring = if ring.is_power_of_two() { ring } else { ring.next_power_of_two() / 2 };
        for link in missing {
            self.open(link, spec.seed, ring)?;
            self.carry_on();
            changes += 1;
        }
        Ok(changes)
    }

    /// Whether both ends of the link are at this place.
    fn carries(&self, place: usize, link: &SpecLink) -> bool {
        let is = |end: usize| {
            self.ends.get(2 * place + end).and_then(Option::as_ref).is_some_and(|it| it.is(&link.ends[end], link.mtu))
        };
        is(0) && is(1)
    }

    /// Gives a link that is there its quality; whether it had another.
    fn change(&mut self, place: usize, link: &SpecLink, seed: u64) -> bool {
        let (now, mut changed) = (self.clock.now(), false);
        for at in [0, 1] {
            let Some(Some(end)) = self.ends.get_mut(2 * place + at) else { continue };
            if end.quality != link.quality || end.seed != seed {
                end.change((link, at), seed, now, &self.meters);
                changed = true;
            }
        }
        changed
    }

    fn open(&mut self, link: &SpecLink, seed: u64, ring: usize) -> io::Result<()> {
        let places = self.ends.len() / 2;
        let free = |place: &usize| self.ends[2 * place].is_none() && self.ends[2 * place + 1].is_none();
        let place = (0..places).find(free).unwrap_or(places);
        self.ends.resize_with(self.ends.len().max(2 * place + 2), || None);
        self.lives += 1;
        let open = |at| End::open((link, at), (seed, self.lives, ring), &self.meters);
        let ends = [open(0)?, open(1)?];
        for (end, at) in ends.into_iter().zip(2 * place..) {
            let added =
                if at < FEW { self.poll.add_port(&end, at as u64, true) } else { self.poll.add(&end, at as u64) };
            self.ends[at] = Some(end);
            if let Err(error) = added {
                self.close_link(at);
                return Err(error);
            }
        }
        Ok(())
    }
}
