//! Each list on a thread of its own: forbidden calls fail, and the calls of every ordinary thread work.

use super::super::jail::{Filters, has_seccomp};
use super::Duty;
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// Makes a system call with these arguments, none of which is an address of anything.
fn call(number: libc::c_long, arguments: [libc::c_long; 4]) -> Result<libc::c_long, i32> {
    let [a, b, c, d] = arguments;
    // SAFETY: no argument is an address but NULL, or that of a string that lives for ever; what would begin another
    // process ends it at once, below.
    match unsafe { libc::syscall(number, a, b, c, d, 0, 0) } {
        -1 => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        done => Ok(done),
    }
}

/// What no thread may do, with arguments by which it would fail otherwise, or do nothing.
fn forbidden() -> Vec<(&'static str, libc::c_long, [libc::c_long; 4])> {
    let path = c"/dev/null".as_ptr() as libc::c_long;
    vec![
        ("execve", libc::SYS_execve, [0; 4]),
        ("execveat", libc::SYS_execveat, [-1, 0, 0, 0]),
        ("fork", libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0]),
        ("a namespace", libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::CLONE_THREAD).into(), 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [0xffff, 0, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [0; 4]),
        ("process_vm_writev", libc::SYS_process_vm_writev, [0; 4]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [-1, -1, 0, 0]),
        ("setuid", libc::SYS_setuid, [-1, 0, 0, 0]),
        ("setgid", libc::SYS_setgid, [-1, 0, 0, 0]),
        ("setresuid", libc::SYS_setresuid, [-1, -1, -1, 0]),
        ("setgroups", libc::SYS_setgroups, [0, 0, 0, 0]),
        ("capset", libc::SYS_capset, [0; 4]),
        ("mount", libc::SYS_mount, [0; 4]),
        ("umount2", libc::SYS_umount2, [0; 4]),
        ("pivot_root", libc::SYS_pivot_root, [0; 4]),
        ("unshare", libc::SYS_unshare, [0; 4]),
        ("setns", libc::SYS_setns, [-1, 0, 0, 0]),
        ("init_module", libc::SYS_init_module, [0; 4]),
        ("finit_module", libc::SYS_finit_module, [-1, 0, 0, 0]),
        ("delete_module", libc::SYS_delete_module, [0; 4]),
        ("kexec_load", libc::SYS_kexec_load, [0; 4]),
        ("keyctl", libc::SYS_keyctl, [-1, 0, 0, 0]),
        ("add_key", libc::SYS_add_key, [0; 4]),
        ("perf_event_open", libc::SYS_perf_event_open, [0; 4]),
        ("userfaultfd", libc::SYS_userfaultfd, [-1, 0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [0; 4]),
        ("personality", libc::SYS_personality, [0xffff_ffff, 0, 0, 0]),
        ("seccomp", libc::SYS_seccomp, [99, 0, 0, 0]),
        ("bpf, a program", libc::SYS_bpf, [5, 0, 0, 0]),
        ("bpf, a map", libc::SYS_bpf, [0, 0, 0, 0]),
        ("a packet socket", libc::SYS_socket, [libc::AF_PACKET.into(), libc::SOCK_RAW.into(), 0, 0]),
        ("an AF_XDP socket", libc::SYS_socket, [libc::AF_XDP.into(), libc::SOCK_RAW.into(), 0, 0]),
        ("a vsock", libc::SYS_socket, [libc::AF_VSOCK.into(), libc::SOCK_STREAM.into(), 0, 0]),
        (
            "a ring of a packet socket",
            libc::SYS_setsockopt,
            [-1, libc::SOL_PACKET.into(), libc::PACKET_RX_RING.into(), 0],
        ),
        ("a packet socket at another interface", libc::SYS_bind, [-1, 0, size_of::<libc::sockaddr_ll>() as _, 0]),
        ("the same with a longer address", libc::SYS_bind, [-1, 0, size_of::<libc::sockaddr_storage>() as _, 0]),
        ("kill", libc::SYS_kill, [1, 0, 0, 0]),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, [0, -1, 0, 0]),
        ("chroot", libc::SYS_chroot, [path, 0, 0, 0]),
        ("mknodat", libc::SYS_mknodat, [-1, path, 0, 0]),
        ("quotactl", libc::SYS_quotactl, [-1, 0, 0, 0]),
        ("swapon", libc::SYS_swapon, [0; 4]),
        ("reboot", libc::SYS_reboot, [0; 4]),
        ("settimeofday", libc::SYS_settimeofday, [0; 4]),
    ]
}

/// What only some may do: a socket of the network, a file to write to, memory to execute.
fn special() -> [(&'static [Duty], &'static str, libc::c_long, [libc::c_long; 4]); 8] {
    let path = c"/dev/null".as_ptr() as libc::c_long;
    let (write, execute) = (libc::O_WRONLY | libc::O_CLOEXEC, libc::PROT_READ | libc::PROT_EXEC);
    [
        (&[Duty::Operators, Duty::Resolver], "internet", libc::SYS_socket, [libc::AF_INET.into(), 1, 0, 0]),
        (
            &[Duty::Operators, Duty::Control, Duty::Resolver, Duty::Routes],
            "netlink",
            libc::SYS_socket,
            [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), 0, 0],
        ),
        (
            &[Duty::Operators, Duty::Sessions, Duty::Store],
            "a file to write to",
            libc::SYS_openat,
            [libc::AT_FDCWD.into(), path, write.into(), 0],
        ),
        (
            &[Duty::Operators, Duty::Compile, Duty::Resolver],
            "memory to execute",
            libc::SYS_mprotect,
            [0, 0, execute.into(), 0],
        ),
        (
            &[Duty::Operators, Duty::PlanTcp, Duty::Control, Duty::Resolver, Duty::Routes],
            "connect",
            libc::SYS_connect,
            [-1, 0, 0, 0],
        ),
        (
            &[Duty::Operators, Duty::Control, Duty::Resolver, Duty::Routes],
            "a netlink socket's own address",
            libc::SYS_bind,
            [-1, 0, size_of::<libc::sockaddr_nl>() as _, 0],
        ),
        (
            &[Duty::Operators, Duty::Routes],
            "an AF_XDP socket at a queue",
            libc::SYS_bind,
            [-1, 0, size_of::<libc::sockaddr_xdp>() as _, 0],
        ),
        (
            &[Duty::Operators, Duty::Routes],
            "a ring of an AF_XDP socket",
            libc::SYS_setsockopt,
            [-1, libc::SOL_XDP.into(), libc::XDP_RX_RING.into(), 0],
        ),
    ]
}

/// Runs `work` on a thread that has the list.
fn apart<T: Send + 'static>(list: &'static str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let begun = std::thread::spawn(move || {
        Filters::of(list).unwrap().apply().unwrap();
        work()
    });
    begun.join().unwrap()
}

fn is_missing() -> bool {
    if has_seccomp() {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "continuous integration must run this");
    println!("SKIPPED: this kernel filters no system calls");
    true
}

#[test]
fn no_thread_can_do_what_harms() {
    if is_missing() {
        return;
    }
    for duty in Duty::ALL {
        let done = apart(duty.list(), || {
            let mut done = Vec::new();
            for (what, number, arguments) in forbidden() {
                let result = call(number, arguments);
                if result == Ok(0) && what == "fork" {
                    // SAFETY: the child that should not be ends at once.
                    unsafe { libc::_exit(0) }
                }
                // What the kernel is made to not know.
                if result != Err(libc::EPERM) {
                    done.push((what, result));
                }
            }
            done
        });
        let operators = |what: &str| duty == Duty::Operators && what == "kill";
        let done: Vec<_> = done.into_iter().filter(|(what, _)| !operators(what)).collect();
        assert!(done.is_empty(), "{duty:?}: {done:?}");
    }
}

#[test]
fn what_only_some_need_only_these_may() {
    if is_missing() {
        return;
    }
    for duty in Duty::ALL {
        for (may, what, number, arguments) in special() {
            let result = apart(duty.list(), move || call(number, arguments));
            assert_eq!(result != Err(libc::EPERM), may.contains(&duty), "{duty:?}, {what}: {result:?}");
        }
    }
}

#[test]
fn every_thread_can_do_what_all_programs_do() {
    if is_missing() {
        return;
    }
    for duty in Duty::ALL {
        apart(duty.list(), move || {
            let much: Vec<Vec<u8>> = (0..64).map(|_| vec![7; 1 << 18]).collect();
            let map: HashMap<usize, usize> = much.iter().map(|some| (some.as_ptr() as usize, some.len())).collect();
            assert_eq!(map.values().sum::<usize>(), 64 << 18);
            drop(much);
            std::thread::sleep(Duration::from_micros(10));
            std::thread::yield_now();
            assert!(std::fs::read_to_string("/proc/self/status").unwrap().contains("Threads"), "{duty:?}");
            assert!(std::backtrace::Backtrace::force_capture().to_string().len() > 10, "{duty:?}");
            assert!(std::panic::catch_unwind(|| panic!("as wanted")).is_err());
            assert!(std::thread::available_parallelism().is_ok(), "{duty:?}");
            assert!(std::time::SystemTime::now() > std::time::UNIX_EPOCH);
            eprintln!("{duty:?} says something");
        });
    }
}

#[test]
fn those_that_start_threads_can() {
    if is_missing() {
        return;
    }
    for duty in [Duty::Worker, Duty::Operators, Duty::Control, Duty::Sessions, Duty::PlanTcp] {
        let builder = std::thread::Builder::new().name("another".into());
        let sum = apart(duty.list(), || builder.spawn(|| 1 + 1).map(|thread| thread.join().unwrap()));
        assert_eq!(sum.unwrap(), 2, "{duty:?}");
    }
}

#[test]
fn names_are_looked_up_where_they_are_to_be() {
    if is_missing() {
        return;
    }
    let found = apart(Duty::Resolver.list(), || crate::manage::resolver::address("localhost"));
    assert!(found.is_some());
}
