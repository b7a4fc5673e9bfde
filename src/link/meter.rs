//! Meters of a lab's links: what waits on each direction, and what has crossed it. They are in a file, which the process that
//! carries the links writes and everybody else maps to read.
//!
//! ```text
//! word 0: MAGIC   1: meters   8…: meters of 32 words: name (4) · turn (1) · line (6) · counters (14)
//! ```
//!
//! A meter is found by its name, `NODE INTERFACE` of the end that sends, and keeps its place as long as the lab has the link. Its line is
//! written between two steps of its turn, which is odd meanwhile. What a line says holds for all times after it was written
//! ([`LineUse`]), so an idle link needs nobody to write. Counters are written each as a whole.

use super::model::LineUse;
use crate::sys::clock::Clock;
use crate::sys::mapping::{ForeignWords, SharedWords};
use crate::sys::own;
use core::sync::atomic::{Ordering, fence};
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Directions of links that a lab may have with meters.
pub const METERS_MAX: usize = 1024;

/// Bytes of a meter's name.
pub const NAME: usize = 32;

/// `anodelnk`, and the version of the form.
const MAGIC: u64 = u64::from_be_bytes(*b"anodlnk1");
const HEADER: usize = 8;
const WORDS: usize = 32;
const TURN: usize = 4;
const LINE: usize = 5;
const COUNTERS: usize = 11;
/// Bytes of the file.
const BYTES: usize = (HEADER + METERS_MAX * WORDS) * size_of::<u64>();
/// Looks at a line that is being written before it is given up: its writer may have died there.
const LOOKS: usize = 1000;

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Frames that came to the link.
    Entered,
    /// Their bytes.
    EnteredBytes,
    /// Frames that were given to the other end, with copies.
    Left,
    /// Their bytes.
    LeftBytes,
    /// When the last of them was to leave, in nanoseconds of the system's monotonic clock; it did so no earlier.
    LeftAt,
    /// Frames that chance has doubled.
    Doubled,
    /// Frames that chance has lost.
    Lost,
    /// Frames for which the queue had no room.
    QueueFull,
    /// Frames for which there was no room among those that travel.
    TravelFull,
    /// Frames longer than the MTU, or several joined to one.
    TooBig,
    /// Frames whose checksum nobody has completed.
    Unfinished,
    /// Frames that the kernel dropped because the process did not take them in time.
    Missed,
    /// Frames that the interface at the other end did not take.
    NotTaken,
    /// Frames that were under way when the link was closed, or opened anew.
    Closed,
}

impl Count {
    /// All of them, with their names in output.
    pub const ALL: [(Count, &'static str); 14] = [
        (Count::Entered, "entered"),
        (Count::EnteredBytes, "entered_bytes"),
        (Count::Left, "left"),
        (Count::LeftBytes, "left_bytes"),
        (Count::LeftAt, "left_at_ns"),
        (Count::Doubled, "doubled"),
        (Count::Lost, "lost"),
        (Count::QueueFull, "queue_full"),
        (Count::TravelFull, "travel_full"),
        (Count::TooBig, "too_big"),
        (Count::Unfinished, "unfinished"),
        (Count::Missed, "missed"),
        (Count::NotTaken, "not_taken"),
        (Count::Closed, "closed"),
    ];
}

/// The place of a meter in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl Place {
    fn word(self, word: usize) -> usize {
        HEADER + self.0 * WORDS + word
    }
}

/// The name at places that are free.
const NOBODY: [u64; 4] = [0; 4];

fn name_words(name: &str) -> Option<[u64; 4]> {
    let mut bytes = [0; NAME];
    bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
    Some(std::array::from_fn(word))
}

/// The file of meters, by who writes it.
#[derive(Debug)]
pub struct MeterFile {
    words: SharedWords,
}

impl MeterFile {
    /// Makes it, or goes on with the one that is there.
    pub fn open(path: &Path) -> io::Result<MeterFile> {
        let file = own::make(path)?;
        // Where there is no room left this is an error; a write to the mapping would be a signal.
        fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64)?;
        let words = SharedWords::map(file.as_fd(), BYTES)?;
        words.store(0, MAGIC);
        words.store(1, METERS_MAX as u64);
        Ok(MeterFile { words })
    }

    /// The place of the meter of that name; one that nobody has had, if there is none of the name.
    pub fn place(&self, name: &str) -> Option<Place> {
        let wanted = name_words(name)?;
        let of = |name: [u64; 4]| (0..METERS_MAX).map(Place).find(|place| self.name(*place) == name);
        let place = of(wanted).or_else(|| of(NOBODY))?;
        self.rename(place, wanted);
        Some(place)
    }

    /// Forgets all meters but those of these names, and what they have counted.
    pub fn keep(&self, names: &BTreeSet<&str>) {
        let kept: Vec<_> = names.iter().filter_map(|name| name_words(name)).collect();
        for place in (0..METERS_MAX).map(Place) {
            let name = self.name(place);
            if name != NOBODY && !kept.contains(&name) {
                self.rename(place, NOBODY);
                self.show(place, &LineUse::default());
                Count::ALL.iter().for_each(|(count, _)| self.set(place, *count, 0));
            }
        }
    }

    fn name(&self, place: Place) -> [u64; 4] {
        std::array::from_fn(|word| self.words.load(place.word(word)))
    }

    fn rename(&self, place: Place, name: [u64; 4]) {
        name.iter().enumerate().for_each(|(word, value)| self.words.store(place.word(word), *value));
    }

    /// Shows what of the line's time is taken.
    pub fn show(&self, place: Place, line: &LineUse) {
        let turn = self.words.at(place.word(TURN));
        let before = turn.load(Ordering::Relaxed) | 1;
        turn.store(before, Ordering::Relaxed);
        fence(Ordering::Release);
        let words = [line.bits_per_second, line.free_at, line.busy, line.window, line.at_window, line.before_window];
        words.into_iter().enumerate().for_each(|(at, word)| self.words.store(place.word(LINE + at), word));
        turn.store(before.wrapping_add(1), Ordering::Release);
    }

    /// Counts.
    #[inline]
    pub fn count(&self, place: Place, count: Count, more: u64) {
        let at = place.word(COUNTERS + count as usize);
        self.words.store(at, self.words.load(at).wrapping_add(more));
    }

    /// Says what a counter is now.
    #[inline]
    pub fn set(&self, place: Place, count: Count, value: u64) {
        self.words.store(place.word(COUNTERS + count as usize), value);
    }
}

/// The file of meters, by who reads it.
#[derive(Debug)]
pub struct Meters {
    words: ForeignWords,
}

impl Meters {
    /// Opens it. A file that is none is refused.
    pub fn open(path: &Path) -> io::Result<Meters> {
        let file = File::open(path)?;
        if file.metadata()?.len() < BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no file of meters of a lab's links"));
        }
        let meters = Meters { words: ForeignWords::map(file.as_fd(), BYTES)? };
        match meters.words.load(0) {
            MAGIC => Ok(meters),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no file of meters of this version of anode")),
        }
    }

    /// The place of the meter of that name.
    pub fn find(&self, name: &str) -> Option<Place> {
        let wanted = name_words(name)?;
        (0..METERS_MAX).map(Place).find(|place| self.is(*place, &wanted))
    }

    fn is(&self, place: Place, name: &[u64; 4]) -> bool {
        (0..4).all(|at| self.words.load(place.word(at)) == name[at])
    }

    /// What of the line's time is taken; none if it is never written to its end.
    pub fn line(&self, place: Place) -> Option<LineUse> {
        for _ in 0..LOOKS {
            let turn = self.words.load(place.word(TURN));
            let [bits_per_second, free_at, busy, window, at_window, before_window] =
                std::array::from_fn(|at| self.words.load(place.word(LINE + at)));
            fence(Ordering::Acquire);
            if turn.is_multiple_of(2) && turn == self.words.load(place.word(TURN)) {
                return Some(LineUse { bits_per_second, free_at, busy, window, at_window, before_window });
            }
        }
        None
    }

    /// A counter.
    pub fn count(&self, place: Place, count: Count) -> u64 {
        self.words.load(place.word(COUNTERS + count as usize))
    }
}

/// The meter of one direction, for the node at its beginning.
#[derive(Debug)]
pub struct LinkMeter {
    meters: Meters,
    place: Place,
    name: [u64; 4],
    /// When the node's clock began, in nanoseconds of the system's.
    origin: u64,
}

impl LinkMeter {
    /// Opens the meter of that name in a file.
    pub fn open(path: &Path, name: &str) -> io::Result<LinkMeter> {
        let meters = Meters::open(path)?;
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("it has no meter '{name}'"));
        let place = meters.find(name).ok_or_else(missing)?;
        Ok(LinkMeter { meters, place, name: name_words(name).ok_or_else(missing)?, origin: 0 })
    }

    /// The same for who tells times by this clock.
    pub fn by(self, clock: &Clock) -> LinkMeter {
        LinkMeter { origin: clock.origin(), ..self }
    }

    /// Bytes that wait to leave at `now`.
    pub fn queued(&self, now: u64) -> u32 {
        self.line().map_or(0, |line| line.queued(now.wrapping_add(self.origin)))
    }

    /// The load at `now`, in thousandths; none if the link's rate has no limit.
    pub fn load(&self, now: u64) -> Option<u32> {
        self.line()?.load(now.wrapping_add(self.origin))
    }

    /// None once the link is gone: its place may be another's.
    fn line(&self) -> Option<LineUse> {
        self.meters.line(self.place).filter(|_| self.meters.is(self.place, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_the_writer_shows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meters");
        let file = MeterFile::open(&path).unwrap();
        let (a, b) = (file.place("a to-b").unwrap(), file.place("b to-a").unwrap());
        assert_ne!(a, b);
        let line = LineUse { bits_per_second: 8_000_000, free_at: 3_000_000, busy: 3_000_000, ..LineUse::default() };
        file.show(b, &line);
        file.count(b, Count::Lost, 2);
        file.count(b, Count::NotTaken, 1);
        // Whoever writes may be another process meanwhile; places stay.
        let again = MeterFile::open(&path).unwrap();
        assert_eq!((again.place("b to-a"), again.place("a to-b")), (Some(b), Some(a)));
        again.count(b, Count::Lost, 1);
        let meters = Meters::open(&path).unwrap();
        assert_eq!((meters.find("b to-a"), meters.find("c to-a")), (Some(b), None));
        assert_eq!(
            (meters.line(b), meters.count(b, Count::Lost), meters.count(b, Count::NotTaken)),
            (Some(line), 3, 1)
        );
        let meter = LinkMeter::open(&path, "b to-a").unwrap().by(&Clock::since(1_000_000));
        assert_eq!((meter.queued(0), meter.queued(1_000_000), meter.queued(2_000_000)), (2000, 1000, 0));
        assert_eq!(meter.load(100_000_000), Some(30));
        let refused = LinkMeter::open(&path, "x").unwrap_err();
        assert_eq!(refused.to_string(), "it has no meter 'x'");
    }

    #[test]
    fn a_line_whose_writer_died_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meters");
        let file = MeterFile::open(&path).unwrap();
        let place = file.place("a to-b").unwrap();
        file.words.store(place.word(TURN), 7);
        assert_eq!(LinkMeter::open(&path, "a to-b").unwrap().queued(0), 0);
        file.show(place, &LineUse { bits_per_second: 8, free_at: 9_000_000_000, ..LineUse::default() });
        assert_eq!(LinkMeter::open(&path, "a to-b").unwrap().queued(0), 9);
    }

    #[test]
    fn other_files_are_refused_and_there_are_no_more_meters_than_places() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meters");
        std::fs::write(&path, "short").unwrap();
        assert!(Meters::open(&path).is_err());
        std::fs::write(&path, vec![1; BYTES]).unwrap();
        assert!(Meters::open(&path).is_err());
        std::fs::write(&path, "").unwrap();
        let file = MeterFile::open(&path).unwrap();
        assert!((0..METERS_MAX).all(|number| file.place(&format!("n{number} x")).is_some()));
        assert_eq!((file.place("more x"), file.place(&"x".repeat(NAME + 1))), (None, None));
    }

    #[test]
    fn places_of_links_that_are_gone_are_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meters");
        let file = MeterFile::open(&path).unwrap();
        let [gone, stays] = ["gone x", "stays x"].map(|name| file.place(name).unwrap());
        for place in [gone, stays] {
            file.count(place, Count::Closed, 7);
            file.show(place, &LineUse { bits_per_second: 8, free_at: 9_000_000_000, ..LineUse::default() });
        }
        let [of_gone, of_stays] = ["gone x", "stays x"].map(|name| LinkMeter::open(&path, name).unwrap());
        file.keep(&BTreeSet::from(["stays x", "new x"]));
        assert_eq!((file.place("stays x"), file.place("new x")), (Some(stays), Some(gone)), "the name comes first");
        let meters = Meters::open(&path).unwrap();
        assert_eq!([stays, gone].map(|place| meters.count(place, Count::Closed)), [7, 0]);
        assert_eq!(meters.line(gone), Some(LineUse::default()));
        file.show(gone, &LineUse { bits_per_second: 8, free_at: 9_000_000_000, ..LineUse::default() });
        assert_eq!((of_gone.queued(0), of_stays.queued(0)), (0, 9), "its place is another's now");
    }
}
