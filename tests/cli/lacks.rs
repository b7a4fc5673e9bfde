//! Hosts that lack parts of the sandbox: each lack is reported at a start, in `status` and in `check`, and is an error
//! where the part is required.
//!
//! Such a host is made of this one: by a filter that makes a system call unknown, by a mount namespace without control
//! groups, by a root directory that is not that of its mount namespace, which gets no user namespaces.

use anode::config::part::Part;
use anode::sys::process::is_root;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// An ordinary user, in the place of root.
const ORDINARY: u32 = 60_501;

/// Takes control groups away, and goes on with the words behind.
const WITHOUT_GROUPS: &str = "umount --lazy --all --types cgroup,cgroup2 && exec \"$@\"";

/// The same, as an ordinary user whose root is a directory with all that there is.
const NOBODY: &str = "umount --lazy --all --types cgroup,cgroup2 && mount --rbind / ROOT && \
                      exec chroot --userspec=USER:USER --groups= ROOT \"$@\"";

/// What a host is that lacks something.
#[derive(Clone, Copy, Debug)]
enum Host {
    /// Its kernel has not this system call.
    Without(i64),
    /// It has no control groups.
    WithoutGroups,
    /// It has neither these nor user namespaces, and this one is not root there.
    Nobody,
}

/// Each with what it lacks. Root's jails need no control group for the number of processes.
const HOSTS: [(Host, &[Part]); 4] = [
    (Host::Without(libc::SYS_landlock_create_ruleset), &[Part::Landlock]),
    (Host::Without(libc::SYS_seccomp), &[Part::Seccomp]),
    (Host::WithoutGroups, &[Part::Memory, Part::Cpu]),
    (Host::Nobody, &[Part::User, Part::Namespaces, Part::Memory, Part::Processes, Part::Cpu]),
];

impl Host {
    /// From now on the calling thread, and whatever it starts, is there as far as system calls go.
    fn enter(self) {
        let Host::Without(call) = self else { return };
        let calls = [(call, Vec::new())].into_iter().collect();
        let refused = SeccompAction::Errno(libc::ENOSYS as u32);
        let here = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, refused, here).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        apply_filter(&filter).unwrap();
    }

    /// `anode node` there, with a verb and the configuration.
    fn anode(self, place: &Place, verb: &str) -> Command {
        let in_namespace = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", script, "sh"]).arg(&place.program);
            command
        };
        let mut command = match self {
            Host::Without(_) => Command::new(&place.program),
            Host::WithoutGroups => in_namespace(WITHOUT_GROUPS),
            Host::Nobody => {
                let root = place.at("root").to_str().unwrap().to_owned();
                in_namespace(&NOBODY.replace("ROOT", &root).replace("USER", &ORDINARY.to_string()))
            }
        };
        command.args(["node", verb]).arg(place.at("node.toml")).stdin(Stdio::null());
        command
    }
}

/// A folder with the program and a node's run directory.
struct Place {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new(host: Host) -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let program = dir.path().join("anode");
        // By another process: a child that another test starts would have it open for writing, and nobody could run it.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_anode")).arg(&program).status();
        assert!(copied.unwrap().success());
        for name in ["root", "run"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        if matches!(host, Host::Nobody) {
            chown(dir.path().join("run"), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
        Place { dir, program }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn require(&self, parts: &[&str]) {
        let text = format!(
            "name = \"n\"\nrun_dir = {:?}\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/24\"]\n[security]\nrequire = {parts:?}\n",
            self.at("run")
        );
        fs::write(self.at("node.toml"), text).unwrap();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// What people are told of a lack: of the node's, and of its jails'.
fn words(part: Part) -> Vec<&'static str> {
    let of_node = Part::OF_NODE.contains(&part).then(|| part.lack());
    of_node.into_iter().chain(part.of_jails().map(|part| part.lack())).collect()
}

/// What a node that is started there says at its start, and what `status` says of it.
fn started(host: Host, place: &Place) -> [String; 2] {
    let log = File::create(place.at("log")).unwrap();
    let mut node = host.anode(place, "run").stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let run = place.at("run");
    let log = || fs::read_to_string(place.at("log")).unwrap();
    crate::wait::control(&run, Some(&node), || format!("{host:?}: {}", log()));
    let ask = |verb: &str| Command::new(&place.program).args(["node", verb]).arg(&run).output().unwrap();
    let status = said(&ask("status"));
    assert!(ask("down").status.success());
    node.wait().unwrap();
    [log(), status]
}

/// What is said there of each part that it lacks, and what becomes of a configuration that requires it.
fn check(host: Host, lacks: &[Part]) {
    let place = Place::new(host);
    place.require(&[]);
    let checked = host.anode(&place, "check").output().unwrap();
    assert!(checked.status.success(), "{host:?}: {}", said(&checked));
    let [start, status] = started(host, &place);
    for part in lacks {
        for lack in words(*part) {
            for (at, text) in [("check", &said(&checked)), ("start", &start), ("status", &status)] {
                assert!(text.contains(lack), "{host:?} {at}: {}\n{text}", part.name());
            }
        }
        place.require(&[part.name()]);
        for verb in ["check", "run"] {
            let refused = host.anode(&place, verb).output().unwrap();
            let named = format!("[security] require has \"{}\"", part.name());
            assert_eq!(refused.status.code(), Some(1), "{host:?} {verb}: {}", said(&refused));
            assert!(said(&refused).contains(&named), "{host:?} {verb}: {}", said(&refused));
        }
    }
}

#[test]
fn each_part_that_a_host_lacks_is_said_and_refused_where_it_is_required() {
    if !is_root() {
        assert!(std::env::var_os("CI").is_none(), "continuous integration must run this as root");
        println!("SKIPPED: only root makes such hosts");
        return;
    }
    for (host, lacks) in HOSTS {
        let checked = std::thread::spawn(move || {
            host.enter();
            check(host, lacks);
        });
        checked.join().unwrap();
    }
    let seen: BTreeSet<_> = HOSTS.iter().flat_map(|(_, lacks)| lacks.iter()).map(|part| part.name()).collect();
    let all = ["user", "landlock", "seccomp", "namespaces", "memory", "processes", "cpu"];
    assert_eq!(seen, BTreeSet::from(all), "every part there is");
}
