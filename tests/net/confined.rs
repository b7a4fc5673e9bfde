//! The processes and threads of a running node with a kernel half: without a user of the host, alone, and with a list
//! of system calls each.

use crate::running::{LINE, Running};
use crate::wait;
use anode::sys::privileges::{Standing, standing};
use std::fs;
use std::path::Path;

/// Capabilities by number: CAP_NET_ADMIN, CAP_BPF.
const OF_LOADER: u64 = 1 << 12 | 1 << 39;

/// CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_AUDIT_CONTROL, CAP_MAC_ADMIN,
/// CAP_SYSLOG: of the rest of the machine.
const OF_NOBODY: u64 = 1 << 16 | 1 << 17 | 1 << 19 | 1 << 22 | 1 << 25 | 1 << 30 | 1 << 33 | 1 << 34;

/// A process.
#[derive(Debug)]
struct Process {
    pid: u32,
    name: String,
    is: Standing,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
        Some(Process { pid, name, is: standing(&format!("/proc/{pid}")).ok()? })
    }

    /// It and all that it has started, and what these have.
    fn tree(pid: u32) -> Vec<Process> {
        let mut all: Vec<Process> = Process::of(pid).into_iter().collect();
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().flat_map(|child| Process::tree(child.parse().unwrap())));
        }
        all
    }

    fn namespace(&self, kind: &str) -> String {
        let link = fs::read_link(format!("/proc/{}/ns/{kind}", self.pid)).unwrap();
        link.to_str().unwrap().to_owned()
    }

    /// When it was started, as the system counts it: with its number it is one process for ever.
    fn born(&self) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        text.rsplit(") ").next()?.split_whitespace().nth(19).map(str::to_owned)
    }
}

fn named<'a>(all: &'a [Process], name: &str) -> Vec<&'a Process> {
    all.iter().filter(|process| process.name == name).collect()
}

/// A lab whose router runs codes in its kernel half, and has just got one.
fn lab(name: &str) -> Option<Running> {
    let net = Running::up_with(name, LINE, &|node, file| {
        if node == "r" {
            for port in file["port"].as_array_mut().unwrap() {
                port.as_table_mut().unwrap().insert("kernel".into(), true.into());
            }
        }
    })?;
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    net.await_status("r", |status| status["codes"][0]["kernel"] == "running");
    Some(net)
}

#[test]
fn every_thread_and_process_of_a_node_has_its_list_and_no_privilege_but_its_own() {
    let Some(net) = lab("conf") else { return };
    let node = net.daemon("r").pid();
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{node}/task")).unwrap() {
        let task = task.unwrap().path();
        let facts = standing(task.to_str().unwrap()).and_then(|is| Ok((is, fs::read_to_string(task.join("comm"))?)));
        let Ok((is, name)) = facts else {
            // Some are there for one question only.
            assert!(!task.exists(), "{facts:?}");
            continue;
        };
        assert!(is.seccomp && is.no_new_privileges, "{name}{is:?}");
        assert_eq!((is.capabilities, is.bounding), (0, 0), "{name}{is:?}");
        threads += 1;
    }
    assert!(threads > 9, "{threads} threads");
    let all = Process::tree(node);
    let own = Process::of(node).unwrap();
    let broker = named(&all, "anode-broker")[0];
    assert!(broker.is.seccomp && broker.is.no_new_privileges, "{broker:?}");
    assert_eq!((broker.is.user, broker.is.bounding & OF_NOBODY), (0, 0), "{broker:?}");
    let (compilers, loaders) = (named(&all, "anode-compiler"), named(&all, "anode-loader"));
    assert!(!compilers.is_empty() && loaders.len() == 1, "{all:#?}");
    for process in all.iter().filter(|process| ![node, broker.pid].contains(&process.pid)) {
        let is = &process.is;
        assert!(is.seccomp && is.no_new_privileges, "{process:?}");
        assert!(is.user != 0 && is.user != own.is.user && is.group == is.user, "{process:?}");
        assert_eq!((is.capabilities | is.bounding) & !OF_LOADER, 0, "{process:?}");
        for kind in ["mnt", "pid", "ipc", "net", "uts"] {
            assert_ne!(process.namespace(kind), own.namespace(kind), "{kind} of {process:?}");
            assert_ne!(process.namespace(kind), broker.namespace(kind), "{kind} of {process:?}");
        }
    }
    assert!(compilers.iter().all(|process| process.is.capabilities | process.is.bounding == 0), "{compilers:?}");
    assert_eq!(loaders[0].is.capabilities, OF_LOADER);
    assert_ne!(compilers[0].is.user, loaders[0].is.user, "they cannot touch each other");
    assert!(fs::read_dir(format!("/proc/{}/root/etc", compilers[0].pid)).is_err(), "it sees no file of the host");
    assert_eq!(net.status("r")["sandbox"]["standing"]["seccomp"], true);
}

#[test]
fn a_compiler_that_is_killed_comes_back_and_all_end_with_their_node() {
    let Some(mut net) = lab("back") else { return };
    let node = net.daemon("r").pid();
    let before = net.status("r")["loader"]["compiler"]["compiled"].as_u64().unwrap();
    for process in named(&Process::tree(node), "anode-compiler") {
        let done = std::process::Command::new("kill").args(["-9", &process.pid.to_string()]).status().unwrap();
        // A server may have ended with the first of them.
        let _ = done.success();
    }
    net.anode("a", &["trace", "10.0.2.2"]);
    net.await_status("r", |status| status["loader"]["compiler"]["compiled"].as_u64().unwrap() > before);
    let all: Vec<(Process, String)> =
        Process::tree(node).into_iter().filter_map(|process| process.born().map(|born| (process, born))).collect();
    assert!(all.iter().any(|(process, _)| process.name == "anode-compiler"), "{all:?}");
    net.kill("r");
    for (process, _) in all.iter().filter(|(process, born)| process.born().as_ref() == Some(born)) {
        wait::gone(process.pid);
    }
    assert!(!Path::new(&format!("/proc/{node}")).exists());
}
