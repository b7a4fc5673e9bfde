//! The files of a node's process: its own, and the system's to read. The limit holds for every thread started later.

use super::landlock::{May, Restriction, Tcp};
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
/// system's to read; no TCP port to listen at. False if the kernel has no Landlock.
pub fn hide_others(writes: &[OwnedFd], reads: &[OwnedFd]) -> io::Result<bool> {
    Restriction::new(Tcp::Connect)?
        .paths(SYSTEM, May::Run)?
        .paths(NAMES, May::Read)?
        .paths(DEVICES, May::Use)?
        .files(writes, May::Change)?
        .files(reads, May::Run)?
        .enter()
}
