//! Control groups of this host: mounted hierarchies, their controllers, and places for our own groups.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A controller that jails use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Memory,
    Pids,
    Cpu,
    /// Version 1 counts the processor's time by itself.
    Account,
}

impl Controller {
    fn of(name: &str) -> Option<Controller> {
        Some(match name {
            "memory" => Controller::Memory,
            "pids" => Controller::Pids,
            "cpu" => Controller::Cpu,
            "cpuacct" => Controller::Account,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Account => "cpuacct",
        }
    }
}

/// A hierarchy, and where in it parents are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The directory in which they are: our own group.
    pub base: PathBuf,
    /// The uppermost group there is.
    top: PathBuf,
    /// Whether it is of version 2.
    pub unified: bool,
    /// What it controls for us.
    pub controllers: BTreeSet<Controller>,
}

/// All that this host has and that we may write to.
pub fn hierarchies() -> Vec<Hierarchy> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut all: Vec<_> = found(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    all.retain_mut(|hierarchy| match hierarchy.unified {
        // Where others are in our group, the uppermost one may have given its controllers already.
        true => hierarchy.settle().or_else(|_| hierarchy.rise()).is_ok(),
        false => !hierarchy.controllers.is_empty(),
    });
    all
}

/// Where parents may be, whatever can be had there: our own group of each hierarchy, and the uppermost one.
pub fn places() -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let all = found(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let mut places: Vec<PathBuf> = all.into_iter().flat_map(|hierarchy| [hierarchy.base, hierarchy.top]).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The hierarchies that are mounted, with our own group in each.
fn found(mounts: &str, own: &str) -> Vec<Hierarchy> {
    let mut all: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (Some(root), Some(point), Some(kind)) = (before.next(), before.next(), after.next()) else { continue };
        let unified = kind == "cgroup2";
        if !unified && kind != "cgroup" {
            continue;
        }
        let options = after.nth(1).unwrap_or_default();
        let controllers: BTreeSet<_> = options.split(',').filter_map(Controller::of).collect();
        let known = all.iter().any(|known| known.unified == unified && known.controllers == controllers);
        if known || !unified && controllers.is_empty() {
            continue;
        }
        let group = own.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            let ours = if unified {
                names.is_empty()
            } else {
                names.split(',').any(|name| Controller::of(name).is_some_and(|of| controllers.contains(&of)))
            };
            ours.then_some(path)
        });
        let below = Path::new(group.unwrap_or("/")).strip_prefix(root).unwrap_or(Path::new(""));
        let below = below.strip_prefix("/").unwrap_or(below);
        all.push(Hierarchy { base: Path::new(point).join(below), top: point.into(), unified, controllers });
    }
    all
}

impl Hierarchy {
    /// Finds out what version 2 gives us here: a group that has processes gives its controllers to no group below it,
    /// so what is ours alone is moved into one beside.
    fn settle(&mut self) -> io::Result<()> {
        let there = fs::read_to_string(self.base.join("cgroup.controllers"))?;
        self.controllers = there.split_whitespace().filter_map(Controller::of).collect();
        if self.controllers.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.enable(&self.base.clone()).is_err() {
            let own = self.base.join("anode.self");
            fs::create_dir_all(&own)?;
            fs::write(own.join("cgroup.procs"), std::process::id().to_string())?;
            self.enable(&self.base.clone())?;
        }
        Ok(())
    }

    /// Takes the uppermost group in the place of our own.
    fn rise(&mut self) -> io::Result<()> {
        self.base.clone_from(&self.top);
        let there = fs::read_to_string(self.base.join("cgroup.controllers"))?;
        self.controllers = there.split_whitespace().filter_map(Controller::of).collect();
        if self.controllers.is_empty() {
            Err(io::ErrorKind::Unsupported.into())
        } else {
            self.enable(&self.base.clone())
        }
    }

    /// Has the groups below `at` controlled.
    pub fn enable(&self, at: &Path) -> io::Result<()> {
        let enabled = fs::read_to_string(at.join("cgroup.subtree_control"))?;
        let missing =
            self.controllers.iter().filter(|wanted| !enabled.split_whitespace().any(|name| name == wanted.name()));
        let words: Vec<_> = missing.map(|controller| format!("+{}", controller.name())).collect();
        if words.is_empty() { Ok(()) } else { fs::write(at.join("cgroup.subtree_control"), words.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                         32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                         35 31 0:32 /box /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory\n\
                         38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const OWN: &str = "9:memory:/box/inner\n3:cpu,cpuacct:/\n1:name=systemd:/\n0::/user.slice/x\n";

    #[test]
    fn hierarchies_are_found_with_our_own_group() {
        let all = found(MIXED, OWN);
        let bases: Vec<_> = all.iter().map(|one| (one.base.as_path(), one.unified)).collect();
        assert_eq!(
            bases,
            [
                (Path::new("/sys/fs/cgroup/cpu,cpuacct"), false),
                (Path::new("/sys/fs/cgroup/memory/inner"), false),
                (Path::new("/sys/fs/cgroup/unified/user.slice/x"), true)
            ]
        );
        assert_eq!(all[0].controllers, BTreeSet::from([Controller::Cpu, Controller::Account]));
        assert!(found("", "").is_empty() && found("nonsense - cgroup", OWN).is_empty());
    }
}
