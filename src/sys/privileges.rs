//! Privileges of a process: given away for good, or kept by another process.

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};
use std::collections::BTreeSet;
use std::io;

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The other process of a [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// This is the one that was there, and the new one has this number.
    Parent(i32),
    /// This is the new one.
    Child,
}

/// The capabilities of the calling thread.
pub fn held() -> io::Result<CapabilitySet> {
    Ok(capabilities(None)?.permitted)
}

/// Makes a second process of this one, which must have one thread.
pub fn fork() -> io::Result<Forked> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads: only a process with one can be forked")));
    }
    // SAFETY: there is one thread, so the new process has all that this one has, locks and heap included.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child)),
    }
}

/// Takes all capabilities but these out of the bounding set: whatever this process executes gains no other.
pub fn bound(kept: CapabilitySet) {
    for capability in (CapabilitySet::all() - kept).iter() {
        // Those the kernel does not know cannot be removed; without CAP_SETPCAP none can, and none can be gained.
        let _ = remove_capability_from_bounding_set(capability);
    }
}

/// Leaves the calling process, which must have one thread, no capabilities but these, as far as they are there, now and
/// ever: whatever it executes gains none.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    bound(kept);
    let kept = held()? & kept;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })?;
    Ok(set_no_new_privs(true)?)
}

/// Leaves the calling process, which must have one thread, no capability but these, now and ever, and makes it another
/// user's if one is given, without groups beside that user's own. Nobody but root can trace it or read its memory.
pub fn become_user(identity: Option<Identity>, kept: CapabilitySet) -> io::Result<()> {
    // While there is a capability to do that by.
    bound(kept);
    if let Some(Identity { uid, gid }) = identity {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_keep_capabilities(!kept.is_empty())?;
        let (gid, uid) = (Gid::from_raw(gid), Uid::from_raw(uid));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    keep_only(kept)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    if !(held()? - kept).is_empty() {
        return Err(io::Error::other("capabilities could not be given away"));
    }
    Ok(())
}

/// What a process is, as the kernel says (`/proc/PID/status`).
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// Real user.
    pub user: u32,
    /// Real group.
    pub group: u32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Those it could ever gain.
    pub bounding: u64,
    /// Whether what it executes gains nothing.
    pub no_new_privileges: bool,
    /// Whether its system calls are filtered.
    pub seccomp: bool,
}

/// What a thread is; `task` is a directory of `/proc`.
pub fn standing(task: &str) -> io::Result<Standing> {
    let text = std::fs::read_to_string(format!("{task}/status"))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let first = |name| field(name).and_then(|all| all.split_whitespace().next()?.parse().ok());
    let mask = |name| field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let strange = || io::Error::new(io::ErrorKind::InvalidData, format!("{task}/status is not as expected"));
    Ok(Standing {
        user: first("Uid").ok_or_else(strange)?,
        group: first("Gid").ok_or_else(strange)?,
        capabilities: mask("CapEff").ok_or_else(strange)?,
        bounding: mask("CapBnd").ok_or_else(strange)?,
        no_new_privileges: field("NoNewPrivs") == Some("1"),
        seccomp: field("Seccomp") == Some("2"),
    })
}

/// The number and group of a user of this host, by name; nothing: there is none.
pub fn user(name: &str) -> io::Result<Option<Identity>> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let mut numbers = fields.skip(1).map(|field| field.parse().ok());
        Some(Identity { uid: numbers.next()??, gid: numbers.next()?? })
    });
    Ok(found)
}

/// The name of a user of this host; nothing: it has none.
pub fn name_of_user(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = users.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// The numbers of all users that `/etc/passwd` knows, each once.
pub fn accounts() -> BTreeSet<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect()
}
