//! A group and the processor: what its processes have used so far, and its weight beside others.
//!
//! Both are files of the group, kept open: whoever made the group opens them, and a descriptor can be used by a node
//! that has no privilege. A reading is believed only where it can follow the one before: the kernel's counters do not
//! shrink, but they begin again, wrap, and a group goes with its jail. So a [`Meter`] adds up differences, and what
//! cannot be adds nothing and is counted.

use super::Groups;
use crate::sys::clock::process_cpu;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The most that a group can have used between two readings, in nanoseconds: over an hour of a CPU. More is nonsense.
const MOST: u64 = 1 << 42;

/// Bytes of a file that are looked at: cpu.stat begins with what is wanted.
const LOOKED_AT: usize = 256;

/// Weights that the kernel takes.
const WEIGHT_MAX: u32 = 10_000;

/// What processes have used of the processor, in nanoseconds, read again and again.
#[derive(Debug)]
pub struct Meter {
    source: Source,
    total: Total,
}

/// Where it is read.
#[derive(Debug)]
enum Source {
    /// cpuacct.usage of version 1, cpu.stat of version 2.
    Group(File),
    /// The clock of one process, where there is no group.
    Process(u32),
}

/// Differences between readings, added up.
#[derive(Debug, Default)]
struct Total {
    last: Option<u64>,
    sum: u64,
}

/// A reading that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// There is no file, or no process, any more.
    Gone,
    /// There is no number in it.
    Nonsense,
    /// The number is less than before, or more than it can be: it is counted from here.
    Jumped,
}

impl Meter {
    /// Of groups, or where there are none of this process alone.
    pub fn of(groups: &Groups, process: u32) -> Meter {
        let open = |file: &'static str| groups.places.iter().filter_map(move |place| File::open(place.join(file)).ok());
        let mut files = open("cpuacct.usage").chain(open("cpu.stat"));
        let group = files.find(|file| read(file).is_ok());
        let source = group.map_or(Source::Process(process), Source::Group);
        Meter { source, total: Total::default() }
    }

    /// Whether it is one process that is read, and not all of a group.
    pub fn is_of_process(&self) -> bool {
        matches!(self.source, Source::Process(_))
    }

    /// What is used from now on is counted, and nothing before.
    pub fn begin(&mut self) -> Result<(), Unread> {
        self.total = Total { last: Some(self.shown()?), sum: 0 };
        Ok(())
    }

    /// What was used so far.
    pub fn read(&mut self) -> Result<u64, Unread> {
        let shown = self.shown()?;
        self.total.take(shown)
    }

    fn shown(&self) -> Result<u64, Unread> {
        match &self.source {
            Source::Group(file) => read(file),
            Source::Process(pid) => process_cpu(*pid).ok_or(Unread::Gone),
        }
    }
}

impl Total {
    fn take(&mut self, shown: u64) -> Result<u64, Unread> {
        let before = self.last.replace(shown);
        let more = shown.wrapping_sub(before.unwrap_or(0));
        if before.is_some() && more > MOST {
            return Err(Unread::Jumped);
        }
        self.sum = self.sum.saturating_add(more);
        Ok(self.sum)
    }
}

fn read(file: &File) -> Result<u64, Unread> {
    let mut text = [0; LOOKED_AT];
    let length = file.read_at(&mut text, 0).map_err(|_| Unread::Gone)?;
    nanoseconds(&text[..length]).ok_or(Unread::Nonsense)
}

/// The number of either version.
fn nanoseconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let microseconds = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    match microseconds {
        Some(number) => number.trim().parse::<u64>().ok()?.checked_mul(1000),
        None => text.trim().parse().ok(),
    }
}

/// The files with the weight of one group, and with that of all groups of its node together.
#[derive(Debug)]
pub struct Weights {
    own: File,
    all: File,
    unified: bool,
}

impl Weights {
    /// Opens those of groups, if they have the controller.
    pub fn of(groups: &Groups) -> Option<Weights> {
        let (place, file) = groups.places.iter().find_map(|place| {
            let has = |file: &&str| place.join(file).exists();
            ["cpu.weight", "cpu.shares"].into_iter().find(has).map(|file| (place, file))
        })?;
        let open = |at: &Path| OpenOptions::new().write(true).open(at.join(file)).ok();
        Some(Weights { own: open(place)?, all: open(place.parent()?)?, unified: file == "cpu.weight" })
    }

    /// Those that somebody else has opened.
    pub fn opened([own, all]: [OwnedFd; 2], unified: bool) -> Weights {
        Weights { own: own.into(), all: all.into(), unified }
    }

    /// The descriptors, and whether they are of version 2.
    pub fn into_parts(self) -> ([OwnedFd; 2], bool) {
        ([self.own.into(), self.all.into()], self.unified)
    }

    /// Sets the weight of the group; 100 is that of a thread beside it.
    pub fn set(&self, weight: u32) -> io::Result<()> {
        self.write(&self.own, weight)
    }

    /// Sets that of all groups of its node together.
    pub fn set_all(&self, weight: u32) -> io::Result<()> {
        self.write(&self.all, weight)
    }

    fn write(&self, file: &File, weight: u32) -> io::Result<()> {
        file.write_all_at(written(weight, self.unified).to_string().as_bytes(), 0)
    }
}

/// A weight as the kernel wants it.
pub(super) fn written(weight: u32, unified: bool) -> u64 {
    let weight = u64::from(weight.clamp(1, WEIGHT_MAX));
    if unified { weight } else { (weight * 1024 / 100).max(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A meter of a folder with these two files.
    fn meter(usage: Option<&str>, stat: Option<&str>) -> (tempfile::TempDir, Meter) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("cpuacct.usage", usage), ("cpu.stat", stat)] {
            if let Some(text) = text {
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        let meter = Meter::of(&Groups { places: vec![folder.path().to_owned()] }, u32::MAX);
        (folder, meter)
    }

    #[test]
    fn either_version_is_read() {
        let stat = "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n";
        assert_eq!(meter(Some("7000\n"), Some("nr_periods 0\nnr_throttled 0\n")).1.read(), Ok(7000));
        let (folder, mut of_stat) = meter(None, Some(stat));
        assert_eq!((of_stat.read(), of_stat.is_of_process()), (Ok(2_500_000), false));
        fs::write(folder.path().join("cpu.stat"), "usage_usec 2700\n").unwrap();
        assert_eq!(of_stat.read(), Ok(2_700_000), "from the beginning again");
    }

    #[test]
    fn nonsense_adds_nothing() {
        for text in ["", "\n", "x", "-5", "18446744073709551616", "usage_usec 18446744073709551615\n", "usage_usec\n"] {
            let (folder, mut meter) = meter(Some("1000"), None);
            assert_eq!(meter.read(), Ok(1000));
            fs::write(folder.path().join("cpuacct.usage"), text).unwrap();
            assert_eq!(meter.read(), Err(Unread::Nonsense), "{text:?}");
            fs::write(folder.path().join("cpuacct.usage"), "1500").unwrap();
            assert_eq!(meter.read(), Ok(1500), "{text:?}");
        }
        assert_eq!(nanoseconds(&[0xff, 0xfe]), None);
    }

    #[test]
    fn what_shrinks_or_jumps_is_counted_from_there() {
        let mut total = Total::default();
        assert_eq!(total.take(5000), Ok(5000));
        assert_eq!(total.take(200), Err(Unread::Jumped), "it has begun again");
        assert_eq!(total.take(300), Ok(5100));
        assert_eq!(total.take(300 + MOST + 1), Err(Unread::Jumped));
        assert_eq!(total.take(300 + MOST + 11), Ok(5110));
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let mut total = Total { last: Some(u64::MAX - 9), sum: 100 };
        assert_eq!(total.take(20), Ok(130));
    }

    #[test]
    fn what_was_used_before_a_beginning_is_not_counted() {
        let (folder, mut meter) = meter(Some("5000"), None);
        assert_eq!(meter.begin(), Ok(()));
        fs::write(folder.path().join("cpuacct.usage"), "5700").unwrap();
        assert_eq!(meter.read(), Ok(700));
    }

    #[test]
    fn without_a_group_it_is_the_process_and_that_may_be_gone() {
        let (_, mut none) = meter(None, None);
        assert_eq!((none.read(), none.is_of_process()), (Err(Unread::Gone), true));
        let mut own = Meter::of(&Groups::default(), std::process::id());
        let first = own.read().unwrap();
        assert!(first > 0 && own.read().unwrap() >= first);
        let (folder, mut unreadable) = meter(Some("no number"), None);
        assert!(unreadable.is_of_process() && unreadable.read().is_err());
        drop(folder);
    }

    #[test]
    fn weights_are_written_as_each_version_wants_them() {
        let cases = [
            (0, [1, 10]),
            (1, [1, 10]),
            (100, [100, 1024]),
            (10_000, [10_000, 102_400]),
            (u32::MAX, [10_000, 102_400]),
        ];
        for (weight, [two, one]) in cases {
            assert_eq!([written(weight, true), written(weight, false)], [two, one]);
        }
        let parent = tempfile::tempdir().unwrap();
        let own = parent.path().join("own");
        fs::create_dir(&own).unwrap();
        let groups = Groups { places: vec![own.clone()] };
        assert!(Weights::of(&groups).is_none(), "no controller");
        for at in [&own, parent.path()] {
            fs::write(at.join("cpu.shares"), "").unwrap();
        }
        let (files, unified) = Weights::of(&groups).unwrap().into_parts();
        let weights = Weights::opened(files, unified);
        weights.set(50).and_then(|()| weights.set_all(200)).unwrap();
        let value = |at: &Path| fs::read_to_string(at.join("cpu.shares")).unwrap();
        assert_eq!([value(&own), value(parent.path())], ["512", "2048"]);
    }
}
