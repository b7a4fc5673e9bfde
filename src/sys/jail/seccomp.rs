//! Lists of system calls, one file for each kind of process and processor: `seccomp/PROCESSOR/NAME.json`, as Firecracker writes them.
//!
//! A file has two filters. `allow` names what may be called; everything else fails with EPERM, or ends the process
//! where the file says so. `absent` names calls that fail as if the kernel did not know them, so that libraries use
//! others whose arguments a filter can see (`clone` instead of `clone3`); of two refusals the kernel tells the other,
//! so they are among what is allowed too. Those of environments have a third: `exposed` names what fails besides where
//! no root of the jail's own hides the host's sockets, to which nothing but the list forbids a way. Landlock does not
//! guard connecting to a path, and the node knows its user's processes by that user.

use seccompiler::{BpfMap, BpfProgram, TargetArch};
use std::io;

mod lists;

use lists::LISTS;
pub use lists::check;

/// A list as programs for the kernel, in the order in which they are applied.
pub(super) fn compile(name: &str) -> io::Result<BpfMap> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, format!("no list of system calls is named {name:?}"));
    let (_, list) = LISTS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    seccompiler::compile_from_json(list.as_bytes(), processor).map_err(io::Error::other)
}

/// Applies compiled filters to this thread, for good; `exposed`: nothing hides the host's sockets.
pub(super) fn apply_compiled(filters: &BpfMap, exposed: bool) -> io::Result<()> {
    let exposed = exposed.then_some("exposed");
    // The last forbids that there is another.
    for part in ["absent"].into_iter().chain(exposed).chain(["allow"]) {
        if let Some(filter) = filters.get(part) {
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// A list, ready to be applied as often as wanted.
pub struct Filters(BpfMap);

impl Filters {
    /// That of a name.
    pub fn of(name: &str) -> io::Result<Filters> {
        compile(name).map(Filters)
    }

    /// Lets this thread make no other system calls, for good.
    pub fn apply(&self) -> io::Result<()> {
        apply_compiled(&self.0, false)
    }
}

/// Whether this kernel filters system calls.
pub fn is_there() -> bool {
    let allow = libc::SECCOMP_RET_ALLOW;
    // SAFETY: the kernel reads the word, which lives for the call, and writes nothing.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const allow) == 0 }
}

/// What a list allows, as a program for whoever applies it himself, later.
pub fn load(name: &str) -> io::Result<BpfProgram> {
    compile(name)?.remove("allow").ok_or_else(|| io::Error::other(format!("the list {name:?} allows nothing")))
}

/// Lets this thread make no other system calls than those of a list, for good.
pub fn apply(name: &str) -> io::Result<()> {
    apply_compiled(&compile(name)?, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_compile_and_allow_by_name() {
        for (name, list) in LISTS {
            let filters = compile(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(filters.contains_key("allow"), "{name}");
            assert!(filters.keys().all(|part| ["allow", "absent", "exposed"].contains(&part.as_str())), "{name}");
            let value: serde_json::Value = serde_json::from_str(list).unwrap();
            assert_eq!(value["allow"]["filter_action"], "allow", "{name} is a list of what is allowed");
            assert_eq!(filters.contains_key("exposed"), name.starts_with("ee"), "{name}");
        }
        assert!(check("ee").is_ok() && check("none").is_err() && compile("none").is_err());
    }

    #[test]
    fn the_lists_of_other_processors_compile_too() {
        for (name, list) in lists::AARCH64 {
            let filters = seccompiler::compile_from_json(list.as_bytes(), TargetArch::aarch64);
            assert!(filters.as_ref().is_ok_and(|filters| filters.contains_key("allow")), "{name}: {:?}", filters.err());
        }
    }

    #[test]
    fn environments_cannot_make_what_has_done_harm() {
        let (_, list) = LISTS.iter().find(|(name, _)| *name == "ee").unwrap();
        let value: serde_json::Value = serde_json::from_str(list).unwrap();
        assert_eq!(value["absent"]["filter"][0]["syscall"], "clone3", "its flags cannot be seen");
        let calls: Vec<_> = value["allow"]["filter"].as_array().unwrap().iter().map(|rule| &rule["syscall"]).collect();
        for call in [
            "chmod",
            "fchmod",
            "fchmodat",
            "setxattr",
            "unshare",
            "setns",
            "mount",
            "ptrace",
            "bpf",
            "shmget",
            "sched_setscheduler",
            "sched_setattr",
            "setpriority",
            "io_uring_setup",
            "process_vm_writev",
            "keyctl",
            "perf_event_open",
            "userfaultfd",
            "setsid",
            "setpgid",
            "setuid",
            "pidfd_getfd",
            "personality",
        ] {
            assert!(!calls.iter().any(|allowed| *allowed == call), "{call}");
        }
    }

    /// A packet socket comes from the broker with its ring; whoever has got it from a node makes no other, which would
    /// be memory of the kernel's.
    #[test]
    fn only_the_broker_changes_packet_sockets() {
        for (name, list) in LISTS.iter().filter(|(name, _)| *name != "broker") {
            let value: serde_json::Value = serde_json::from_str(list).unwrap();
            let rules = value["allow"]["filter"].as_array().unwrap();
            for rule in rules.iter().filter(|rule| rule["syscall"] == "setsockopt") {
                let level = |op, level| serde_json::json!({"index": 1, "type": "dword", "op": op, "val": level});
                let spared = |all: &Vec<serde_json::Value>| {
                    all.contains(&level("ne", libc::SOL_PACKET)) || all.contains(&level("eq", libc::SOL_SOCKET))
                };
                assert!(rule["args"].as_array().is_some_and(spared), "{name}: {rule}");
            }
        }
    }

    /// Threads of a node are tried in `sys/threads/tests.rs`; the broker has more, and what it has not is about the rest of the machine.
    #[test]
    fn no_list_has_what_nobody_needs() {
        for (name, list) in LISTS {
            let value: serde_json::Value = serde_json::from_str(list).unwrap();
            let rules = value["allow"]["filter"].as_array().unwrap();
            for call in [
                "ptrace",
                "process_vm_readv",
                "process_vm_writev",
                "process_madvise",
                "pidfd_getfd",
                "kcmp",
                "init_module",
                "finit_module",
                "delete_module",
                "kexec_load",
                "kexec_file_load",
                "reboot",
                "swapon",
                "quotactl",
                "keyctl",
                "add_key",
                "request_key",
                "perf_event_open",
                "userfaultfd",
                "io_uring_setup",
                "io_uring_enter",
                "io_uring_register",
                "personality",
                "unshare",
                "setns",
                "chroot",
                "mknod",
                "mknodat",
                "iopl",
                "ioperm",
                "syslog",
                "acct",
                "settimeofday",
                "clock_settime",
                "adjtimex",
                "open_by_handle_at",
            ] {
                assert!(!rules.iter().any(|rule| rule["syscall"] == call), "{name}: {call}");
            }
        }
    }
}
