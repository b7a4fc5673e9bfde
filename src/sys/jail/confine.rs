//! The last steps before a jail's program begins: capabilities, files and system calls are given away for good.

use super::{Capability, Limits, Paths};
use crate::sys::landlock::{May, Restriction, Tcp};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;
use std::io;

/// Signals that may wait for a user, and timers that it may have: each is memory of the kernel's.
const SIGNALS: u64 = 1024;

impl Capability {
    fn set(self) -> CapabilitySet {
        match self {
            Capability::Bpf => CapabilitySet::BPF,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::Perfmon => CapabilitySet::PERFMON,
        }
    }
}

/// The capabilities of a list.
pub(super) fn set_of(kept: &[Capability]) -> CapabilitySet {
    kept.iter().fold(CapabilitySet::empty(), |set, capability| set | capability.set())
}

/// Sets limits; those that are lower already stay.
pub(super) fn limit(limits: &Limits) -> io::Result<()> {
    let wanted = [
        (Resource::Core, Some(0)),
        (Resource::Data, limits.data_bytes),
        (Resource::As, limits.address_bytes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Sigpending, Some(SIGNALS)),
        (Resource::Nofile, limits.descriptors),
        (Resource::Nproc, limits.processes),
        (Resource::Cpu, limits.cpu_seconds),
    ];
    for (resource, most) in wanted {
        let Some(most) = most else { continue };
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Leaves this process no files but those of `paths`, and no TCP unless it is in the host's network. False if the kernel has no Landlock.
pub(super) fn hide_files(paths: &Paths, host_network: bool) -> io::Result<bool> {
    Restriction::new(if host_network { Tcp::All } else { Tcp::None })?
        .paths(&paths.read, May::Run)?
        .paths(paths.processes.then_some(super::root::PROCESSES), May::Run)?
        .paths(&paths.devices, May::Use)?
        .enter()
}
