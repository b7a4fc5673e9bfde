//! Driver settings that the node changes, such as VLAN offload (`rxvlan`), and restores.
//!
//! - **Tags**: a driver may take the VLAN tag off a frame and report it beside the frame (`rxvlan`). An XDP program
//!   does not see it then, and would take a packet of a VLAN for one of the interface. So drivers leave tags where a
//!   program of the node's stands.
//! - **Joining**: the kernel joins segments of one flow into frames longer than any link carries (`gro`, `lro`), which
//!   nobody could send on. So it does not where packets of channels are read from a socket.
//!
//! Files in the run directory record each change: written before it and removed after it was undone, each time as a
//! whole, since a process may die at any instant. A following process undoes it, or `anode node down` in the same
//! network namespace. Changes of older versions stand in a file of their form, since either version may come next.

use crate::broker;
use crate::sys::ethtool;
use crate::sys::netns::Namespace;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The network namespace, then in each line the name of a setting and that of an interface where it was on.
const FILE: &str = "settings";
/// The network namespace, then in each line the name of an interface where tags were taken off, as all versions know it.
const TAGS: &str = "rxvlan";
/// What follows the name of the next one, while it is written.
const FRESH: &str = ".new";

/// Something that a driver, or the kernel for it, does with frames that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Takes VLAN tags off.
    Tags,
    /// Joins segments in the kernel.
    Gro,
    /// Joins segments in the driver.
    Lro,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 3] = [Setting::Tags, Setting::Gro, Setting::Lro];

    /// What ethtool(8) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Tags => "rxvlan",
            Setting::Gro => "gro",
            Setting::Lro => "lro",
        }
    }

    fn is_on(self, interface: &str) -> io::Result<bool> {
        match self {
            Setting::Tags => ethtool::takes_tags(interface),
            Setting::Gro => ethtool::joins(interface),
            Setting::Lro => ethtool::driver_joins(interface),
        }
    }

    fn set(self, interface: &str, on: bool) -> io::Result<()> {
        match self {
            Setting::Tags => ethtool::take_tags(interface, on),
            Setting::Gro => ethtool::join(interface, on),
            Setting::Lro => ethtool::driver_join(interface, on),
        }
    }
}

/// What one node has changed.
#[derive(Debug)]
pub struct Settings {
    run_dir: PathBuf,
}

/// Held by whoever changes the file, and a setting with it.
static CHANGING: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, ()> {
    // The file is whole between any two statements.
    CHANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

type Change = (Setting, String);

impl Settings {
    /// Those of the node with this run directory, whichever process changed them.
    pub fn of(run_dir: &Path) -> Settings {
        Settings { run_dir: run_dir.to_owned() }
    }

    /// Turns a setting off at an interface; says whether it was on.
    pub fn turn_off(&self, setting: Setting, interface: &str) -> io::Result<bool> {
        self.set(setting, interface, false)
    }

    /// Turns on again what was turned off, where `which` says so; says whether there was something.
    pub fn give_back(&self, which: impl Fn(Setting, &str) -> bool) -> io::Result<bool> {
        let mut some = false;
        for (setting, interface) in self.list()?.into_iter().filter(|(setting, interface)| which(*setting, interface)) {
            some |= self.set(setting, &interface, true)?;
        }
        Ok(some)
    }

    /// Turns on again all that a node that has died turned off, in whichever network namespace; says whether there was something. With a
    /// namespace that has gone, its interfaces have.
    pub fn sweep(&self) -> io::Result<bool> {
        let Some(number) = self.elsewhere()? else { return self.give_back(|_, _| true) };
        match Namespace::numbered(number)? {
            Some(there) => there.enter(|| self.give_back(|_, _| true))?,
            None => self.write(&[]).map(|()| true),
        }
    }

    /// The network namespace of what is written down, if that is another one.
    fn elsewhere(&self) -> io::Result<Option<u64>> {
        let here = namespace()?;
        let number = |file| {
            let text = fs::read_to_string(broker::reach(&self.run_dir).join(file)).ok()?;
            text.lines().next()?.parse().ok().filter(|number| *number != here)
        };
        Ok([FILE, TAGS].into_iter().find_map(number))
    }

    /// Has a setting turned off, or on again where it was turned off; says whether that was another before.
    fn set(&self, setting: Setting, interface: &str, on: bool) -> io::Result<bool> {
        let (setting, interface) = (setting.name().to_owned(), interface.to_owned());
        Ok(broker::ask_at(&self.run_dir, &broker::Request::Set { setting, interface, on }, &[])?.was())
    }

    /// The same in this process.
    pub fn set_here(&self, setting: Setting, interface: &str, on: bool) -> io::Result<bool> {
        let _changing = lock();
        let (mut list, change) = (self.read()?, (setting, interface.to_owned()));
        let noted = list.contains(&change);
        if on {
            if noted {
                match setting.set(interface, true) {
                    // The interface has gone, and its setting with it.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                    done => done?,
                }
                list.retain(|other| *other != change);
                self.write(&list)?;
            }
            return Ok(noted);
        }
        if !setting.is_on(interface)? {
            return Ok(false);
        }
        if !noted {
            list.push(change);
            self.write(&list)?;
        }
        setting.set(interface, false).map(|()| true)
    }

    /// What is changed now.
    pub fn list(&self) -> io::Result<Vec<(Setting, String)>> {
        let _changing = lock();
        self.read()
    }

    /// What was changed in this network namespace.
    fn read(&self) -> io::Result<Vec<Change>> {
        let (mut list, here) = (Vec::new(), namespace()?.to_string());
        for file in [FILE, TAGS] {
            let text = match fs::read_to_string(broker::reach(&self.run_dir).join(file)) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let path = self.run_dir.join(file);
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
                }
            };
            let mut lines = text.lines();
            if lines.next() != Some(&here) {
                continue;
            }
            list.extend(lines.filter_map(|line| match line.split_once(' ') {
                Some((setting, interface)) => {
                    let setting = Setting::ALL.into_iter().find(|known| known.name() == setting)?;
                    Some((setting, interface.to_owned()))
                }
                None => Some((Setting::Tags, line.to_owned())),
            }));
        }
        Ok(list)
    }

    fn write(&self, list: &[Change]) -> io::Result<()> {
        let (tags, others): (Vec<&Change>, Vec<&Change>) =
            list.iter().partition(|(setting, _)| *setting == Setting::Tags);
        self.write_file(TAGS, tags.iter().map(|(_, interface)| format!("{interface}\n")))?;
        self.write_file(FILE, others.iter().map(|(setting, interface)| format!("{} {interface}\n", setting.name())))
    }

    /// One of the files, which is not there while nothing is in it.
    fn write_file(&self, name: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
        let (path, lines) = (self.run_dir.join(name), lines.collect::<String>());
        if lines.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            };
        }
        let fresh = self.run_dir.join(format!("{name}{FRESH}"));
        fs::write(&fresh, format!("{}\n{lines}", namespace()?))?;
        fs::rename(fresh, path)
    }
}

fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|of| of.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_read_as_it_was_written_and_by_older_versions_too() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::of(dir.path());
        let here = namespace().unwrap();
        let older = dir.path().join(TAGS);
        fs::write(&older, format!("{here}\neth7\n")).unwrap();
        let tags = (Setting::Tags, "eth7".to_owned());
        assert_eq!(settings.read().unwrap(), std::slice::from_ref(&tags));
        settings.write(&[(Setting::Gro, "eth0".to_owned()), tags]).unwrap();
        assert_eq!(fs::read_to_string(&older).unwrap(), format!("{here}\neth7\n"));
        let list = [(Setting::Gro, "eth0".to_owned()), (Setting::Lro, "eth1".to_owned())];
        settings.write(&list).unwrap();
        assert_eq!(settings.read().unwrap(), list);
        // Of interfaces that are not there nothing is left to give back.
        assert!(settings.give_back(|setting, _| setting == Setting::Lro).unwrap());
        assert_eq!(settings.read().unwrap(), list[..1]);
        assert!(settings.give_back(|_, _| true).unwrap() && !settings.give_back(|_, _| true).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // Another namespace's are not touched, and are forgotten with it.
        fs::write(dir.path().join(FILE), "1\ngro eth0\n").unwrap();
        assert!(!settings.give_back(|_, _| true).unwrap());
        assert!(settings.sweep().unwrap() && !settings.sweep().unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
