//! A process gives away what it does not need, for good.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::io;

/// What loading programs needs: `CAP_BPF`, and `CAP_NET_ADMIN` for those of the network.
const KEPT: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::NET_ADMIN);

/// Commands of bpf(2) that load: `BPF_PROG_LOAD`, `BPF_BTF_LOAD`.
const LOADS: [u64; 2] = [5, 18];

/// System calls beside bpf(2): messages on the socket, memory, the end.
const CALLS: [libc::c_long; 15] = [
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_write,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Leaves the calling process, which must have one thread, nothing but loading programs for the network and talking over
/// the sockets it has: no other capability, no file, no other system call. Whoever is verified there is verified as for
/// somebody who must not learn kernel addresses. A kernel without landlock is lived with, everything else is an error.
pub fn enter() -> io::Result<()> {
    let held = capabilities(None)?;
    for capability in (CapabilitySet::all() - KEPT).iter() {
        // Those the kernel does not know cannot be removed; without CAP_SETPCAP none can, and none can be gained.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let kept = held.permitted & KEPT;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })?;
    set_no_new_privs(true)?;
    hide_files().map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter().map_err(io::Error::other)?).map_err(io::Error::other)
}

fn hide_files() -> Result<(), landlock::RulesetError> {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr};
    let newest = ABI::V5;
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .create()?;
    rules.restrict_self().map(drop)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let load = |command| {
        let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command)?;
        SeccompRule::new(vec![is])
    };
    let loads = LOADS.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_bpf, loads);
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, architecture)?.try_into()
}
