//! What a process gives away for good, just before the program of its jail begins: capabilities, files, system calls.

use super::{Capability, Limits, Paths};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;
use std::io;

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

/// Leaves this process no files but those of `paths`, no connection by TCP unless it is in the host's network, and neither signals nor abstract sockets to the outside. False if the kernel
/// has no Landlock.
pub(super) fn hide_files(paths: &Paths, host_network: bool) -> io::Result<bool> {
    let newest = ABI::V6;
    let read: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let use_device: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});
    let processes = paths.processes.then_some(super::root::PROCESSES);
    let hide = || {
        let rules =
            Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(newest))?;
        let rules = if host_network { rules } else { rules.handle_access(AccessNet::from_all(newest))? };
        let rules = rules
            .scope(Scope::from_all(newest))?
            .create()?
            .add_rules(path_beneath_rules(&paths.read, read))?
            .add_rules(path_beneath_rules(processes, read))?
            .add_rules(path_beneath_rules(&paths.devices, use_device))?;
        rules.restrict_self()
    };
    let status = hide().map_err(|error: landlock::RulesetError| io::Error::other(error))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
