//! What the process of an execution environment may do besides talking to its node: compute, and read what it was given.
//!
//! All of it is inherited and cannot be taken back, so it holds for whatever the environment starts too. Resources come through the
//! NodeOS alone: no capability, no write access to files, no socket but Unix ones, no signal to others. It cannot leave its process
//! group, by which the node ends it and knows it.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::io;
use std::path::PathBuf;

/// Where programs, libraries and what belongs to them are.
const SYSTEM: [&str; 11] = [
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
    "/nix/store",
];

/// Devices that hold nothing.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Descriptors a process may have.
const DESCRIPTORS: u64 = 1024;

/// System calls it has not: those that leave the process group, and those by which the others could be had again.
const DENIED: [libc::c_long; 6] = [
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// What a process is left with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// What it may read besides the system's programs and libraries.
    pub reads: Vec<PathBuf>,
    /// Octets of memory that it may write to.
    pub data_bytes: u64,
}

/// Confines the calling process, which must have one thread, for good; it dies with its parent `node`. False if the kernel has no
/// Landlock: then files are protected by their owners alone.
pub fn enter(confinement: &Confinement, node: u32) -> io::Result<bool> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if std::os::unix::process::parent_id() != node {
        return Err(io::Error::other("the node is gone"));
    }
    close_inherited()?;
    for (resource, most) in
        [(Resource::Core, 0), (Resource::Nofile, DESCRIPTORS), (Resource::Data, confinement.data_bytes)]
    {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    for capability in CapabilitySet::all().iter() {
        // Those the kernel does not know cannot be removed; without CAP_SETPCAP none can, and none can be gained.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    let hidden = hide_files(&confinement.reads).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter().map_err(io::Error::other)?).map_err(io::Error::other)?;
    Ok(hidden)
}

/// Has every descriptor but the first three closed by whatever is executed next.
fn close_inherited() -> io::Result<()> {
    // SAFETY: close_range(2) with CLOSE_RANGE_CLOEXEC takes three numbers and touches no memory; descriptors stay open in this process.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn hide_files(reads: &[PathBuf]) -> Result<bool, landlock::RulesetError> {
    let newest = ABI::V6;
    let read: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let use_device: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(DEVICES, use_device))?
        .add_rules(path_beneath_rules(reads, read))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let unix = u64::from(libc::AF_UNIX as u32);
    let foreign = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix)?;
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![foreign])?]);
    let architecture = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}
