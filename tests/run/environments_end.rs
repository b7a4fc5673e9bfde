//! Environments of a running node end a hundred times, and nothing of them stays: at the node, at its broker or on the
//! host.
//!
//! Each is a program with a session, a domain below its own, memory shared with the node, and an open file. It is
//! killed and started again, and at last ended by `anode domain kill`. The counts are the same in their second life and
//! in their last one. In the end they are those of a node whose environments have lived once.

use crate::build::{Linked, build};
use crate::jail::look_at_own_mounts;
use crate::single::Node;
use crate::wait;
use anode::sys::process::is_root;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environments of the node, and how often each lives: a hundred lives. An environment that fails soon is started again later each time.
const ENVIRONMENTS: usize = 25;
const LIVES: usize = 4;

/// Users of these jails: behind those that other nodes' jails begin with, so that these are nobody else's.
const USERS: std::ops::RangeInclusive<u32> = 61_120..=61_183;

/// What a process of the node has.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    /// Memory that it shares with others.
    shared: usize,
    children: usize,
}

impl Held {
    fn by(pid: u32) -> Held {
        let of = |what: &str| PathBuf::from(format!("/proc/{pid}/{what}"));
        let count = |what: &str| fs::read_dir(of(what)).unwrap().count();
        let maps = fs::read_to_string(of("maps")).unwrap();
        let tasks = fs::read_dir(of("task")).unwrap().flatten();
        let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
        Held {
            descriptors: count("fd"),
            threads: count("task"),
            shared: maps.lines().filter(|line| line.contains("/memfd:")).count(),
            children: children.map(|all| all.split_whitespace().count()).sum(),
        }
    }
}

/// What a node has, its broker, and the node's account.
#[derive(Debug, PartialEq, Eq)]
struct Count {
    node: Held,
    broker: Held,
    domains: usize,
    open_files: u64,
    /// Users of the range: the compiler has one too.
    users: usize,
    /// Processes of such users, wherever they are.
    processes: usize,
}

impl Count {
    fn of(node: &Node) -> Count {
        let pid = node.process.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let broker = children.split_whitespace().next().unwrap().parse().unwrap();
        let all = node.domains();
        let files = all["files"].as_array().unwrap().iter();
        Count {
            node: Held::by(pid),
            broker: Held::by(broker),
            domains: all["domains"].as_array().unwrap().len(),
            open_files: files.map(|of| of["open"].as_u64().unwrap()).sum(),
            users: users_taken(),
            processes: processes_of_users(),
        }
    }
}

/// Where the control groups of a process are.
fn groups_of(pid: u64) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points: Vec<&str> =
        mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4)).collect();
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).filter(|path| path.contains("/anode-"));
    let all = paths.flat_map(|path| points.iter().map(move |point| PathBuf::from(format!("{point}{path}"))));
    all.filter(|path| path.exists()).collect()
}

/// Users of the range that somebody has: their bytes of the file are locked (`src/sys/jail/identity.rs`).
fn users_taken() -> usize {
    let Ok(file) = fs::metadata("/run/anode.uids") else { return 0 };
    let inode = format!(":{}", file.st_ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let of_file = locks.lines().filter(|line| line.contains("OFDLCK"));
    let words = of_file.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let at = words.filter_map(|words| {
        let place = words.iter().position(|word| word.ends_with(&inode))?;
        words.get(place + 1)?.parse::<u64>().ok()
    });
    at.filter(|byte| u32::try_from(*byte).is_ok_and(|byte| USERS.contains(&byte))).count()
}

/// Processes that live and are of these users.
fn processes_of_users() -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let texts = all.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
    let user = |text: String| {
        let users = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_whitespace().next()?.parse::<u32>().ok()
    };
    texts.filter_map(user).filter(|user| USERS.contains(user)).count()
}

fn name(number: usize) -> String {
    format!("e{number}")
}

/// A node with so many environments that run this program.
fn start(program: &Path, environments: usize, restart: &str) -> Node {
    let mut text = format!("[jail]\nusers = [{}, {}]\n", USERS.start(), USERS.end());
    text += "[[role]]\nname = \"ee\"\ngrants = { files = 10, file_bytes = 1000, domains = 4, channels = 4 }\n";
    text += "[[role]]\nname = \"rich\"\ngrants = { files = 20 }\n";
    for number in 0..environments {
        let _ = write!(
            text,
            "[[ee]]\nname = \"{}\"\nrole = \"ee\"\nrestart = \"{restart}\"\ncommand = [{program:?}]\n",
            name(number)
        );
    }
    Node::start(&text)
}

/// Waits until all are in this life and have all that they ask for, and looks at them.
fn await_life(node: &Node, environments: usize, life: usize, seen: &mut BTreeSet<PathBuf>) {
    let said = format!("life {life}: ");
    let all = |log: &str| (log.matches(&said).count() == environments).then_some(());
    wait::text(&node.dir.path().join("log"), Some(&node.process), all);
    for number in 0..environments {
        let is = node.await_environment(&name(number), |is| is["state"] == "running" && is["starts"] == life);
        seen.extend(groups_of(is["pid"].as_u64().unwrap()));
    }
}

/// Ends them for good.
fn kill_all(node: &Node, environments: usize) {
    for number in 0..environments {
        let (done, text) = node.anode(&["domain", "kill", &name(number)]);
        assert!(done && text.starts_with("ended 3 domains; "), "{text}");
    }
    for number in 0..environments {
        node.await_environment(&name(number), |is| is["state"] == "killed");
    }
}

/// Why the counts of a process are looked at again.
const BY_AND_BY: &str = "nobody is told of descriptors, threads and locks that others give back";

/// Waits until a node has what is expected of it.
fn await_count(node: &Node, wanted: &Count, when: &str) {
    wait::unannounced(BY_AND_BY, || match Count::of(node) {
        count if count == *wanted => Ok(()),
        count => Err(format!("{when}: {wanted:#?} is wanted, and there is {count:#?}")),
    });
}

/// A node that nobody asks anything: what it has when two looks agree.
fn at_rest(node: &Node) -> Count {
    let same = |count: Count| if count == Count::of(node) { Ok(count) } else { Err(format!("{count:?}")) };
    wait::unannounced(BY_AND_BY, || same(Count::of(node)))
}

/// A hundred lives; `idle` is what a node has of which nothing runs.
fn hundred(program: &Path, idle: &Count) {
    let mut groups = BTreeSet::new();
    let node = start(program, ENVIRONMENTS, "always");
    await_life(&node, ENVIRONMENTS, 1, &mut groups);
    let mut early = None;
    for life in 2..=LIVES {
        for number in 0..ENVIRONMENTS {
            let pid = node.environment(&name(number))["pid"].to_string();
            assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        }
        await_life(&node, ENVIRONMENTS, life, &mut groups);
        // From their second life on they find files of the one before, and have them open too.
        early.get_or_insert_with(|| at_rest(&node));
    }
    let early = early.unwrap();
    assert!(early.domains == idle.domains + 3 * ENVIRONMENTS && early.node.shared > idle.node.shared, "{early:?}");
    await_count(&node, &early, "in the last life as in the second");
    assert!(!is_root() || early.users == idle.users + ENVIRONMENTS && early.processes >= early.users, "{early:?}");
    kill_all(&node, ENVIRONMENTS);
    await_count(&node, idle, "nothing any more");
    groups.iter().for_each(|path| wait::path(path, || (!path.exists()).then_some(())));
    end(node);
}

/// Ends a node; with it goes what was its compiler's.
fn end(node: Node) {
    node.down();
    wait::unannounced(BY_AND_BY, || match (users_taken(), processes_of_users()) {
        (0, 0) => Ok(()),
        (users, processes) => Err(format!("{users} users and {processes} processes stay")),
    });
}

/// Ten thousand in the soak (`ANODE_HUNDREDS`).
#[test]
fn a_hundred_lives_of_a_nodes_environments_leave_nothing() {
    crate::gate::pass();
    look_at_own_mounts();
    let mounts = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let before = mounts().lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/environment.c", folder.path(), &["-O1"], Linked::Static);
    let node = start(&program, ENVIRONMENTS, "never");
    await_life(&node, ENVIRONMENTS, 1, &mut BTreeSet::new());
    kill_all(&node, ENVIRONMENTS);
    // Whatever is made once is there: of each environment the node keeps the directory of its files open.
    let idle = at_rest(&node);
    end(node);
    let hundreds = std::env::var("ANODE_HUNDREDS").map_or(1, |text| text.parse().unwrap());
    (0..hundreds).for_each(|_| hundred(&program, &idle));
    let new: Vec<_> = mounts().lines().filter(|line| !before.contains(*line)).map(str::to_owned).collect();
    assert!(!is_root() || new.is_empty(), "{new:?}");
}
