//! Landlock: permanent limits on a process's files, TCP and signals.
//!
//! A process names paths or open files, and what it may do there: [`May`]. Only this module knows the kernel's access
//! bits for that. Unnamed files cannot be reached, and no process outside can be signalled. The limit holds for the
//! calling thread and for all threads and processes that it starts later.
//!
//! A kernel without Landlock restricts nothing, an old one less; `false` means nothing.

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::FileType;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The newest rules of the kernel that are used.
const NEWEST: ABI = ABI::V6;

/// What may be done at a path, and below it if it is a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Reading files and lists of them.
    Read,
    /// The same, and executing files.
    Run,
    /// Reading and writing what is there, as devices are used.
    Use,
    /// All that makes, changes and removes files and directories; no links by name, no devices, and no controls of devices.
    Change,
}

/// Which TCP a process may speak; sockets that it has been given are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    /// All.
    All,
    /// It may connect, but listen nowhere.
    Connect,
    /// None.
    None,
}

impl May {
    /// The kernel's accesses to a directory, or to any other file.
    fn accesses(self, is_directory: bool) -> BitFlags<AccessFs> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let never = make_bitflags!(AccessFs::{MakeSym | MakeBlock | MakeChar | IoctlDev});
        let all = match self {
            May::Read => read,
            May::Run => read | AccessFs::Execute,
            May::Use => make_bitflags!(AccessFs::{ReadFile | WriteFile}),
            May::Change => AccessFs::from_all(NEWEST) & !never,
        };
        if is_directory { all } else { all & AccessFs::from_file(NEWEST) }
    }

    fn rule<File: AsFd>(self, file: File) -> Result<PathBeneath<File>, RulesetError> {
        let kind = rustix::fs::fstat(&file).map(|facts| FileType::from_raw_mode(facts.st_mode));
        let accesses = self.accesses(kind == Ok(FileType::Directory));
        Ok(PathBeneath::new(file, accesses))
    }
}

/// What a process is going to keep.
pub struct Restriction(RulesetCreated);

impl Restriction {
    /// No files yet.
    pub fn new(tcp: Tcp) -> io::Result<Restriction> {
        let begin = || {
            let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
            let rules = rules.handle_access(AccessFs::from_all(NEWEST))?;
            let rules = match tcp {
                Tcp::All => rules,
                Tcp::Connect => rules.handle_access(AccessNet::BindTcp)?,
                Tcp::None => rules.handle_access(AccessNet::from_all(NEWEST))?,
            };
            rules.scope(Scope::from_all(NEWEST))?.create()
        };
        begin().map(Restriction).map_err(of_rules)
    }

    /// These paths are kept, as far as they are there.
    pub fn paths(self, paths: impl IntoIterator<Item = impl AsRef<Path>>, may: May) -> io::Result<Restriction> {
        let there = paths.into_iter().filter_map(|path| PathFd::new(path).ok());
        self.0.add_rules(there.map(|file| may.rule(file))).map(Restriction).map_err(of_rules)
    }

    /// What is behind these descriptors is kept.
    pub fn files(self, files: &[OwnedFd], may: May) -> io::Result<Restriction> {
        self.0.add_rules(files.iter().map(|file| may.rule(file))).map(Restriction).map_err(of_rules)
    }

    /// Gives all else away; false if the kernel has no Landlock.
    pub fn enter(self) -> io::Result<bool> {
        let status = self.0.restrict_self().map_err(of_rules)?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }
}

fn of_rules(error: RulesetError) -> io::Error {
    io::Error::other(error)
}

/// Whether this kernel has Landlock.
pub fn is_there() -> bool {
    // SAFETY: with no address and no length the call only says which version there is.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, core::ptr::null::<u8>(), 0usize, 1u32) };
    version > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_make_devices_or_links_by_name_and_only_run_executes() {
        let ways = [May::Read, May::Run, May::Use, May::Change];
        let never = make_bitflags!(AccessFs::{MakeSym | MakeBlock | MakeChar | IoctlDev});
        assert!(ways.iter().all(|may| !may.accesses(true).intersects(never)));
        let executes = ways.map(|may| may.accesses(true).contains(AccessFs::Execute));
        assert_eq!(executes, [false, true, false, true]);
        let writes = ways.map(|may| may.accesses(false).contains(AccessFs::WriteFile));
        assert_eq!(writes, [false, false, true, true]);
    }

    #[test]
    fn a_file_has_no_access_that_only_directories_have() {
        for may in [May::Read, May::Run, May::Use, May::Change] {
            assert!(AccessFs::from_file(NEWEST).contains(may.accesses(false)), "{may:?}");
        }
        assert!(May::Change.accesses(true).contains(AccessFs::MakeReg | AccessFs::RemoveDir | AccessFs::Refer));
    }
}
