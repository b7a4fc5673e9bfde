//! Which files a node can reach: its own, and the system's to read (Landlock). It holds for every thread that comes after.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use rustix::fs::FileType;
use std::io;
use std::os::fd::OwnedFd;

/// Where programs, libraries and what belongs to them are.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/lib32",
    "/etc",
    "/opt",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/nix/store",
];

/// Where links of `/etc` lead by which names of hosts are looked up.
const NAMES: [&str; 4] = ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd"];

/// Devices that hold nothing.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Leaves the calling process, which must have one thread, of all files those behind these descriptors to write to or to read, and the
/// system's to read; no TCP port to listen at, and no process outside to signal. False if the kernel has no Landlock.
pub fn hide_others(writes: &[OwnedFd], reads: &[OwnedFd]) -> io::Result<bool> {
    hide_all_but(writes, reads).map_err(io::Error::other)
}

/// Whether this kernel has Landlock.
pub fn has_landlock() -> bool {
    // SAFETY: with no address and no length the call only says which version there is.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, core::ptr::null::<u8>(), 0usize, 1u32) };
    version > 0
}

fn hide_all_but(writes: &[OwnedFd], reads: &[OwnedFd]) -> Result<bool, landlock::RulesetError> {
    let newest = ABI::V6;
    let read: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let use_device: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});
    let never: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeSym | MakeBlock | MakeChar | IoctlDev});
    let rule = |below, access: BitFlags<AccessFs>| {
        let is_directory =
            rustix::fs::fstat(below).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory);
        let access = if is_directory { access } else { access & AccessFs::from_file(newest) };
        Ok::<_, landlock::RulesetError>(PathBeneath::new(below, access))
    };
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(NAMES, make_bitflags!(AccessFs::{ReadFile | ReadDir})))?
        .add_rules(path_beneath_rules(DEVICES, use_device))?
        .add_rules(writes.iter().map(|below| rule(below, AccessFs::from_all(newest) & !never)))?
        .add_rules(reads.iter().map(|below| rule(below, read)))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
