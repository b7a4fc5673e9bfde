//! Jails ([`anode::sys::jail`]) around real programs: their contents, their end, and that nothing of them is left.
//!
//! As root all parts are there; the same as an ordinary user (or in a user namespace) has weaker ones, which are named.

use crate::lease::Lease;
use anode::sys::jail::{End, Group, Identity, Jail, Limits, Part, Paths, Program, Starter};
use anode::sys::process::is_root;
use anode::sys::seqpacket::SeqPacket;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::UnshareFlags;
use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

const FIRST: u32 = 60_834;
const LAST: u32 = 61_183;

/// One test at a time: some count what all of this process has.
fn alone() -> MutexGuard<'static, ()> {
    crate::gate::pass();
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn starter(name: &str) -> Starter {
    Starter::new(env!("CARGO_BIN_EXE_anode").into(), &format!("{name}-{}", std::process::id())).unwrap()
}

fn jail(script: &str) -> Jail {
    Jail {
        name: "one".into(),
        program: Program::File(["sh", "-c", script].map(str::to_owned).to_vec()),
        variables: vec![("PATH".into(), "/usr/bin:/bin".into())],
        keep: vec![1, 2],
        identity: Identity::Own { first: FIRST, last: LAST },
        capabilities: Vec::new(),
        host_network: false,
        paths: Paths::of_environments(),
        seccomp: "ee".into(),
        group: Some(Group { memory_bytes: 64 << 20, tasks: 16, cpu_weight: 100, cpu_percent: 100 }),
        limits: Limits { data_bytes: Some(64 << 20), descriptors: Some(64), ..Limits::default() },
        required: if is_root() { vec![Part::User, Part::Namespaces] } else { Vec::new() },
    }
}

/// Runs a script in a jail: what it says, and how it ends.
fn run(starter: &Starter, jail: &Jail) -> (String, End) {
    let (mut said, saying) = std::io::pipe().unwrap();
    let jailed = starter.start(jail, &[saying.as_fd(), saying.as_fd()]).unwrap_or_else(|error| panic!("{error}"));
    drop(saying);
    let mut words = String::new();
    said.read_to_string(&mut words).unwrap();
    (words, jailed.wait())
}

/// The namespace of a jail's processes.
fn namespace(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
}

/// How many processes of this host are in it.
fn processes_in(namespace: &Path) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path().join("ns/pid")).is_ok_and(|found| found == namespace)).count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What is mounted where this thread looks.
fn mounts() -> BTreeSet<String> {
    std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap().lines().map(str::to_owned).collect()
}

/// From now on this thread sees no mounts that others on this machine make and take away, and what it starts neither.
/// Only root can do so, and only jails of root's could leave some.
pub(crate) fn look_at_own_mounts() {
    if is_root() {
        // SAFETY: descriptors stay shared with the other threads; of this thread alone are its working directory and its mounts.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    }
}

/// Says why a test that needs root is left out, and fails in continuous integration.
fn has_root() -> bool {
    if !is_root() {
        assert!(std::env::var_os("CI").is_none(), "these tests need root in continuous integration");
        eprintln!("SKIPPED: needs root");
    }
    is_root()
}

#[test]
fn a_program_sees_nothing_of_the_host_and_is_nobody() {
    let _alone = alone();
    if !has_root() {
        return;
    }
    let starter = starter("sees");
    let script = "echo uid $(id -u) gid $(id -g) groups $(id -G) pid $$ host $(hostname); \
                  for path in /proc/sys /proc/meminfo /proc/OUTSIDE /root /home /run /var /tmp /sys /etc/passwd /etc/shadow /.old; do \
                  test -e $path && echo sees $path; done; env; \
                  echo x 2> /dev/null > /usr/new || echo cannot write; echo x > /dev/null && echo null";
    let script = script.replace("OUTSIDE", &std::process::id().to_string());
    let (said, end) = run(&starter, &jail(&script));
    let mut lines = said.lines();
    let who: Vec<_> = lines.next().unwrap().split(' ').collect();
    assert!(who[1] == who[3] && who[3] == who[5] && (FIRST..=LAST).contains(&who[1].parse().unwrap()), "{who:?}");
    assert_eq!(&who[6..], ["pid", "2", "host", "one"]);
    assert_eq!(lines.collect::<Vec<_>>(), ["PATH=/usr/bin:/bin", "PWD=/", "cannot write", "null"]);
    assert_eq!(end, End::Status(0));
}

#[test]
fn two_that_live_at_the_same_time_have_different_users() {
    let _alone = alone();
    if !has_root() {
        return;
    }
    // As if of two nodes.
    let starters = [starter("two-a"), starter("two-b")];
    let all: Vec<_> = (0..8)
        .map(|at| {
            let jail = Jail { keep: vec![], ..jail("exec sleep 1000") };
            starters[at % 2].start(&jail, &[]).unwrap()
        })
        .collect();
    // Nobody else can open a control group, and so lock one, or the one above it.
    for place in all.iter().flat_map(|jailed| &jailed.groups.places) {
        let mode = |at: &Path| std::os::unix::fs::PermissionsExt::mode(&at.metadata().unwrap().permissions()) & 0o777;
        assert_eq!((mode(place), mode(place.parent().unwrap())), (0o711, 0o711), "{place:?}");
    }
    let mut uids: Vec<_> = all.iter().map(|jailed| jailed.uid).collect();
    let namespaces: Vec<_> = all.iter().map(|jailed| namespace(jailed.pid)).collect();
    // Of each the init process, and the program.
    assert!(namespaces.iter().all(|namespace| processes_in(namespace) == 2));
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), 8);
    all.iter().for_each(|jailed| jailed.kill());
    all.iter().for_each(|jailed| assert_eq!(jailed.wait(), End::Unknown));
    assert!(namespaces.iter().all(|namespace| processes_in(namespace) == 0));
}

#[test]
fn how_a_program_ends_is_told_and_all_that_it_has_started_ends_with_it() {
    let _alone = alone();
    let starter = starter("ends");
    assert_eq!(run(&starter, &jail("exit 7")).1, End::Status(7));
    assert_eq!(run(&starter, &jail("kill -9 $$")).1, End::Signal(9));
    let (said, end) = run(&starter, &jail("sleep 1000 > /dev/null 2>&1 & sleep 1000 > /dev/null 2>&1 & echo started"));
    assert_eq!((said.as_str(), end), ("started\n", End::Status(0)));
    let (mut said, saying) = std::io::pipe().unwrap();
    let script = "trap 'echo asked; exit 3' TERM; echo ready; sleep 1000 > /dev/null 2>&1 & wait";
    let jailed = starter.start(&jail(script), &[saying.as_fd(), saying.as_fd()]).unwrap();
    drop(saying);
    said.read_exact(&mut [0; 6]).unwrap();
    let inside = namespace(jailed.pid);
    jailed.ask();
    assert_eq!(jailed.wait(), End::Status(3));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    // The shell may say how its own child has ended.
    assert!(rest.ends_with("asked\n"), "{rest}");
    assert!(!is_root() || processes_in(&inside) == 0);
}

#[test]
fn a_jail_that_somebody_has_stopped_ends_too() {
    let _alone = alone();
    let jailed = starter("stopped").start(&Jail { keep: vec![], ..jail("sleep 1000") }, &[]).unwrap();
    // Its first process: its program's is another.
    let status = std::fs::read_to_string(format!("/proc/{}/status", jailed.pid)).unwrap();
    let first = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert!(Command::new("kill").args(["-STOP", first]).status().unwrap().success());
    jailed.kill();
    assert_eq!(jailed.wait(), End::Unknown);
    assert!(!Path::new("/proc").join(first).exists());
}

#[test]
fn what_cannot_be_started_says_why_and_leaves_nothing() {
    let _alone = alone();
    let starter = starter("fails");
    // Whatever is made once is there.
    run(&starter, &jail("true"));
    let before = descriptors();
    // The words about a name that is longer than they may be are fewer.
    let long = "nowhere\u{7}".repeat(1000);
    for (program, part) in [
        ("/nowhere/x", "no such program"),
        ("nowhere", "no such program"),
        ("/etc/passwd", "denied"),
        (&long, "nowhere\u{7}nowhere"),
    ] {
        let jail = Jail { program: Program::File(vec![program.into()]), keep: vec![], ..jail("") };
        let why = starter.start(&jail, &[]).unwrap_err().to_string();
        assert!(why.contains(part), "{why:?} and not {part:?}");
    }
    let few = Jail { keep: vec![3], ..jail("") };
    assert!(starter.start(&few, &[]).unwrap_err().to_string().contains("as many"));
    assert_eq!(descriptors(), before);
}

/// All processes that this one is the parent of.
fn children() -> BTreeSet<u32> {
    let own = format!("PPid:\t{}", std::process::id());
    let is_child = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.lines().any(|line| line == own))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

#[test]
fn a_program_that_never_begins_leaves_nothing() {
    let _alone = alone();
    let starter = starter("never");
    // Whatever is made once is there.
    run(&starter, &jail("true"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("sleep");
    assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
    let _lease = Lease::of(&program);
    let before = (children(), descriptors());
    let words = vec![program.display().to_string(), "1000".into()];
    let jail = Jail { program: Program::File(words), keep: vec![], ..jail("") };
    let why = starter.start(&jail, &[]).unwrap_err().to_string();
    assert!(why.contains("not ready"), "{why}");
    assert_eq!((children(), descriptors()), before, "it waits no more, and is nobody's child");
}

#[test]
fn memory_and_processes_are_bounded() {
    let _alone = alone();
    let starter = starter("bounds");
    let idle = starter.start(&Jail { keep: vec![], ..jail("true") }, &[]).unwrap();
    idle.wait();
    if idle.weaker.contains(&Part::Memory) {
        // It is said, and no promise.
        assert!(!is_root() || std::env::var_os("CI").is_none(), "no control group for memory here");
        println!("SKIPPED: no control groups, so shared memory has no bound");
        return;
    }
    // Shared memory, which no limit of a process counts.
    let script = "python3 -c 'import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): m[at] = \
                  1\nprint(\"has it\")' 2> /dev/null";
    let (said, _) = run(&starter, &jail(&format!("{script} || echo refused")));
    assert!(!said.contains("has it"), "{said}");
    let jailed = starter.start(&Jail { keep: vec![], ..self::jail(&format!("exec {script}")) }, &[]).unwrap();
    let end = jailed.await_end();
    assert_eq!(jailed.groups.out_of_memory(), Some((1, 64 << 20)), "{end}");
    jailed.groups.remove();
    let script = "for i in $(seq 100); do sleep 1000 > /dev/null 2>&1 & done 2>&1; echo all";
    let (said, _) = run(&starter, &jail(script));
    assert!(!said.ends_with("all\n") || said.contains("ork"), "{said}");
}

/// What a process can take that no limit of its private memory counts.
const GREED: &str = "import os, socket, fcntl, ctypes
def attempt(name, most, work):
    try: had = work()
    except PermissionError: had = 0
    print(name, 'bounded' if had <= most else had, flush=True)
def fill(file):
    had = 0
    try:
        for _ in range(64): had += os.write(file, bytes(1 << 20))
    except OSError: pass
    return had
def files():
    had, held = 0, []
    try:
        while True:
            held.append(os.memfd_create('greed'))
            had += fill(held[-1])
    except OSError: return had >> 20
def sockets():
    held = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    held[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    return 1
def timers():
    had, c = 0, ctypes.CDLL(None)
    while had < 100000 and not c.timer_create(1, None, ctypes.byref(ctypes.c_void_p())): had += 1
    return had
def other(number): return lambda: fcntl.fcntl(os.open('/usr/bin/env', os.O_RDONLY), number, 1) or 1
def lock(): fcntl.flock(os.open('/usr/bin/env', os.O_RDONLY), fcntl.LOCK_EX); return 1
attempt('sockets', 0, sockets)
attempt('timers', 1024, timers)
attempt('owner', 0, other(fcntl.F_SETOWN))
attempt('lock', 0, lock)
attempt('files', 1200, files)";

#[test]
fn what_no_limit_of_private_memory_counts_is_bounded_too() {
    let _alone = alone();
    let starter = starter("greed");
    let mut jail = jail("");
    let Program::File(words) = &mut jail.program else { unreachable!() };
    *words = ["python3", "-c", GREED].map(str::to_owned).to_vec();
    let (said, end) = run(&starter, &jail);
    let bounded = "sockets bounded\ntimers bounded\nowner bounded\nlock bounded\n";
    // A control group ends who takes more than it has.
    let files = match end {
        End::Signal(9) => "",
        _ => "files bounded\n",
    };
    assert_eq!(said, format!("{bounded}{files}"), "{end}");
}

#[test]
fn those_that_have_ended_leave_nothing() {
    let _alone = alone();
    look_at_own_mounts();
    let starter = starter("hundred");
    // Whatever is made once is there.
    run(&starter, &jail("true"));
    let before = (descriptors(), mounts());
    // A hundred; in the soak ten thousand.
    let rounds = std::env::var("ANODE_JAILS").map_or(100, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        let jailed = starter.start(&Jail { keep: vec![], ..jail("exec sleep 1000") }, &[]).unwrap();
        let inside = namespace(jailed.pid);
        jailed.kill();
        assert_eq!(jailed.wait(), End::Unknown);
        assert!(jailed.groups.places.iter().all(|place| !place.exists()));
        assert!(!is_root() || processes_in(&inside) == 0);
    }
    assert_eq!(descriptors(), before.0);
    // A mount goes wherever it is seen when somebody removes the file it is on.
    assert!(!is_root() || mounts().is_subset(&before.1), "{:?}, not just {:?}", mounts(), before.1);
}

/// Runs the tests that make sense without it as an ordinary user.
#[test]
fn an_ordinary_user_has_jails_too() {
    let _alone = alone();
    if !has_root() || std::env::var_os("JAIL_AS_USER").is_some() {
        return;
    }
    let there = Elsewhere::new();
    let mut command = Command::new(&there.test);
    command.args(["--nocapture", "weaker_jails"]).env("JAIL_AS_USER", &there.helper).env_remove("CI");
    let done = command.uid(60_500).gid(60_500).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    println!("{said}");
    assert!(done.status.success() && said.contains("weaker: "), "{said}");
}

/// This test program and the helper, where an ordinary user may look.
struct Elsewhere {
    dir: tempfile::TempDir,
    test: PathBuf,
    helper: PathBuf,
}

impl Elsewhere {
    fn new() -> Elsewhere {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let copy = |from: &Path, name: &str| {
            let to = dir.path().join(name);
            // By another process: a child that another test starts would have it open for writing, and nobody could run it.
            assert!(Command::new("cp").arg(from).arg(&to).status().unwrap().success());
            to
        };
        let helper = copy(Path::new(env!("CARGO_BIN_EXE_anode")), "anode");
        let test = copy(&std::env::current_exe().unwrap(), "test");
        Elsewhere { dir, test, helper }
    }
}

/// Runs a test as an ordinary user who gets no user namespaces: there are none for a process whose root is not that of its namespace.
#[test]
fn without_namespaces_no_socket_of_the_user_is_to_be_had() {
    let _alone = alone();
    if !has_root() || std::env::var_os("JAIL_AS_USER").is_some() {
        return;
    }
    let there = Elsewhere::new();
    let root = there.dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let script = "mount --rbind / \"$0\" && exec chroot --userspec=60500:60500 --groups= \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(&root).arg(&there.test).args(["--nocapture", "exposed_jails"]);
    let done = command.env("JAIL_AS_USER", &there.helper).env("JAIL_EXPOSED", "1").env_remove("CI").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("Namespaces"), "{said}");
}

/// What a program tries that has the user of whoever listens.
const ATTEMPTS: &str = "import socket, sys
def attempt(name, work):
    try: work(); print(name, 'DONE')
    except PermissionError: print(name, 'refused')
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
one.send(b'x'); print('pair', other.recv(1).decode())
attempt('socket', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
attempt('datagrams', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt('connect', lambda: one.connect(sys.argv[1]))";

#[test]
fn exposed_jails() {
    let (Some(helper), Some(_)) = (std::env::var_os("JAIL_AS_USER"), std::env::var_os("JAIL_EXPOSED")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let starter = Starter::new(helper.into(), "exposed").unwrap();
    let words = ["python3", "-c", ATTEMPTS, path.to_str().unwrap()].map(str::to_owned).to_vec();
    let jail = Jail { program: Program::File(words), ..jail("") };
    let (mut said, saying) = std::io::pipe().unwrap();
    let jailed = starter.start(&jail, &[saying.as_fd(), saying.as_fd()]).unwrap();
    drop(saying);
    println!("weaker: {:?}", jailed.weaker);
    let mut words = String::new();
    said.read_to_string(&mut words).unwrap();
    jailed.wait();
    assert_eq!(words, "pair x\nsocket refused\ndatagrams refused\nconnect refused\n");
}

/// What keeps as many descriptors on their way as it may, and says how many those are.
const HOLD: &str = "import array, errno, socket, time
had, pairs = 0, []
try:
    for _ in range(64):
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1] * 250))
        for _ in range(8): had += 250 * pairs[-1][0].sendmsg([b'x'], [rights], socket.MSG_DONTWAIT)
except OSError as error: print(had, errno.errorcode[error.errno], flush=True)
time.sleep(1000)";

/// A jail without a user of its own leaves others of that user descriptors that they can pass: the kernel counts those
/// on their way by user.
fn leaves_descriptors_to_pass(starter: &Starter) {
    use std::io::BufRead as _;
    let few = Rlimit { current: Some(1024), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, few).unwrap();
    let words = ["python3", "-c", HOLD].map(str::to_owned).to_vec();
    let limits = Limits { descriptors: Some(1024), ..jail("").limits };
    let jail = Jail { program: Program::File(words), limits, ..jail("") };
    let (said, saying) = std::io::pipe().unwrap();
    let jailed = starter.start(&jail, &[saying.as_fd(), saying.as_fd()]).unwrap();
    drop(saying);
    let mut line = String::new();
    std::io::BufReader::new(&said).read_line(&mut line).unwrap();
    println!("on their way: {line}");
    assert!(line.ends_with(" ETOOMANYREFS\n") && !line.starts_with("0 "), "{line}");
    let (one, other) = SeqPacket::pair().map(|(one, other)| (one, SeqPacket::of(other))).unwrap();
    for _ in 0..200 {
        one.send_with(b"x", &[said.as_fd()]).unwrap();
        assert_eq!(other.receive_with(&mut [0; 1]).unwrap().1.len(), 1);
    }
    jailed.kill();
    assert_eq!(jailed.wait(), End::Unknown);
}

#[test]
fn weaker_jails() {
    let Some(helper) = std::env::var_os("JAIL_AS_USER").filter(|_| std::env::var_os("JAIL_EXPOSED").is_none()) else {
        return;
    };
    let starter = Starter::new(helper.into(), "user").unwrap();
    let jailed = starter.start(&Jail { keep: vec![], ..jail("sleep 1000") }, &[]).unwrap();
    println!("weaker: {:?}", jailed.weaker);
    assert!(jailed.weaker.contains(&Part::User));
    jailed.kill();
    assert_eq!(jailed.wait(), End::Unknown);
    let (said, end) =
        run(&starter, &jail("cat /etc/passwd 2>&1; ls /run /proc/1/root 2>&1; sleep 1000 & kill -9 -1; exit 4"));
    println!("{said}");
    assert!(!said.contains("root:") && said.contains("cat: ") && end == End::Status(4), "{said} {end}");
    leaves_descriptors_to_pass(&starter);
    let needs = Jail { required: vec![Part::User], keep: vec![], ..jail("true") };
    assert!(starter.start(&needs, &[]).unwrap_err().to_string().contains("no user of their own"));
}
