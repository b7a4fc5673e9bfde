//! An upgrade under traffic: another version of the program takes over a node of root's, and gives it back, and every
//! packet arrives once.
//!
//! The older program is the one that `ANODE_OLD` names, which a soak builds from an older commit (`tools/older.sh`).
//! Without it this program stands in for it: what it leaves becomes root's, and of what it leaves pinned a map is
//! missing, as if it had another shape.

use crate::pace::Pace;
use crate::running::{ANODE, HOSTS, PATIENCE, Running, guest, in_kernel};
use crate::sender::{Sender, WARM, receiver};
use crate::wait;
use anode::manage::client::Control;
use anode::wire::Digest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time between two capsules, and between two datagrams. An older program lets 16 capsules wait for code that it reads from its store.
const GAP: Duration = Duration::from_millis(2);

/// Packets that pass before a node is stopped, and after the next one has come.
const BETWEEN: u32 = 100;

/// What capsules carry (`tests/guests/state.c`): to add one to a number in soft state and to have what comes of it,
/// where there are zeros. A mark is behind it.
const PAYLOAD: [u8; 88] = {
    let mut payload = [0; 88];
    (payload[0], payload[6], payload[8], payload[24]) = (3, 0xff, 7, 1);
    payload
};
const RESULT: usize = 16;

/// How a process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is told to leave the kernel half.
    Told,
    /// It is killed.
    Killed,
}

/// A program for the node.
#[derive(Clone)]
struct Version {
    program: PathBuf,
    /// Whether what it leaves is to look as if it were root's and of other shapes.
    strange: bool,
    /// Whether it gives root away, and lets no capsule pass without its code.
    new: bool,
}

fn older() -> Version {
    match std::env::var_os("ANODE_OLD") {
        Some(program) => Version { program: program.into(), strange: false, new: false },
        None => Version { strange: true, ..newer() },
    }
}

fn newer() -> Version {
    Version { program: ANODE.into(), strange: false, new: true }
}

/// Node r, by one program after the other.
struct Node {
    net: Running,
    store: tempfile::TempDir,
    process: Option<Child>,
    starts: u32,
}

impl Node {
    /// With its configuration, not started yet.
    fn new(name: &str) -> Option<Node> {
        let net = Running::build(name, HOSTS)?;
        Some(Node { net, store: tempfile::tempdir().unwrap(), process: None, starts: 0 })
    }

    fn dir(&self) -> PathBuf {
        let lab = self.net.lab.topology();
        anode::config::default_run_dir(&format!("{}.r", lab.name))
    }

    fn log(&self) -> PathBuf {
        self.store.path().join(format!("log-{}", self.starts))
    }

    fn start(&mut self, version: &Version) {
        let lab = self.net.lab.topology();
        let node = lab.nodes.iter().find(|node| node.name == "r").unwrap();
        let mut config = anode::lab::nodes::configuration(&lab.name, node);
        in_kernel("r", &mut config);
        for port in config["port"].as_array_mut().unwrap() {
            // Not known to all versions.
            port.as_table_mut().unwrap().remove("bound_max");
        }
        config.insert("store".into(), self.store.path().join("store").display().to_string().into());
        let file = self.store.path().join("node.toml");
        fs::write(&file, config.to_string()).unwrap();
        self.starts += 1;
        let log = File::create(self.log()).unwrap();
        let mut command = self.net.lab.command("r", &version.program).unwrap();
        command.args(["node", "run"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        wait::control(&self.dir(), self.process.as_ref(), || fs::read_to_string(self.log()).unwrap_or_default());
    }

    fn status(&self) -> Value {
        crate::running::accounted(Control::connect(&self.dir()).unwrap().status().unwrap())
    }

    /// Capsules that the kernel half has run and sent on.
    fn forwarded(status: &Value) -> u64 {
        status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64().unwrap_or(0)
    }

    /// Waits until there are so many in all, and sends at every look.
    fn await_kernel(&self, enough: u64, mut send: impl FnMut()) {
        let version = match self.process {
            // An older program knows no request that waits.
            Some(_) if std::env::var_os("ANODE_OLD").is_some() => return self.await_old_kernel(enough, send),
            _ => self.dir(),
        };
        wait::told(&version, "status", |status| {
            send();
            (Node::forwarded(&status) >= enough).then_some(())
        });
    }

    fn await_old_kernel(&self, enough: u64, mut send: impl FnMut()) {
        wait::unannounced("an older program tells nobody of its counters", || {
            send();
            let there = Node::forwarded(&self.status());
            if there >= enough { Ok(()) } else { Err(format!("{there} capsules in the kernel half")) }
        });
    }

    fn stop(&mut self, version: &Version, end: End) {
        let mut process = self.process.take().unwrap();
        match end {
            End::Told => {
                let mut command = Command::new(&version.program);
                let done = command.args(["node", "down", "--keep-kernel"]).arg(self.dir()).output().unwrap();
                assert!(done.status.success(), "{done:?}");
            }
            End::Killed => process.kill().unwrap(),
        }
        process.wait().unwrap();
        if version.strange {
            let sets = fs::read_dir(self.dir().join("bpf")).unwrap().flatten();
            for set in sets.filter(|entry| entry.file_name().to_string_lossy().starts_with("set-")) {
                fs::remove_file(set.path().join("neighbour_places_map")).unwrap();
            }
            let owned = Command::new("chown").args(["-R", "0:0"]).arg(self.store.path().join("store")).status();
            assert!(owned.unwrap().success());
        }
    }

    /// Ends it, and all that it has attached.
    fn down(&mut self, version: &Version) {
        let done = Command::new(&version.program).args(["node", "down"]).arg(self.dir()).output().unwrap();
        assert!(done.status.success() && self.process.take().unwrap().wait().unwrap().success(), "{done:?}");
    }

    /// One that gives root away has what it keeps for its own user; one that stays root is root.
    fn check_whose(&self, version: &Version) {
        let owner = |path: PathBuf| fs::metadata(path).unwrap().uid();
        let own = owner(format!("/proc/{}", self.process.as_ref().unwrap().id()).into());
        assert_eq!(own != 0, version.new, "it is user {own}");
        assert!(!version.new || owner(self.store.path().join("store/objects")) == own, "the store is not its own");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        // Also what an older version has left.
        let _ = Command::new(ANODE).args(["node", "down"]).arg(self.dir()).output();
        let _ = fs::remove_dir_all(self.dir());
    }
}

/// What came of a stream of numbered packets: how often each, and what the code made of it; zero: it was not run.
#[derive(Debug, Default)]
struct Came(BTreeMap<u32, (u32, u64)>);

impl Came {
    /// Each of so many came, once.
    fn check(&self, what: &str, sent: u32) {
        let missing: Vec<u32> = (0..sent).filter(|mark| !self.0.contains_key(mark)).collect();
        let twice = self.0.values().filter(|(times, _)| *times > 1).count();
        println!("{what}: {sent} sent, {} lost, {twice} twice, {} not run", missing.len(), self.not_run(0..sent).len());
        let some = &missing[..missing.len().min(9)];
        assert!(
            missing.is_empty() && twice == 0,
            "{what}: {} of {sent} missing ({some:?}), {twice} twice",
            missing.len()
        );
    }

    fn not_run(&self, during: Range<u32>) -> Vec<u32> {
        self.0.range(during).filter(|(_, (_, made))| *made == 0).map(|(mark, _)| *mark).collect()
    }

    /// While one version took another's place the code was run on each, and its soft state stayed.
    fn check_change(&self, during: Range<u32>) {
        let plain = self.not_run(during.clone());
        assert!(
            plain.is_empty(),
            "what was there before serves until the next one is ready: not {plain:?} of {during:?}"
        );
        let made = || self.0.range(during.clone()).map(|(_, (_, made))| *made);
        assert!(
            made().min() == made().next(),
            "its soft state begins anew in {during:?}: {:?}",
            made().collect::<Vec<_>>()
        );
    }
}

/// Takes marks off a socket until all that were sent have come, or none comes any more.
fn collect(far: &UdpSocket, pace: &Pace, capsules: bool) -> Came {
    let (mut came, mut buffer) = (Came::default(), [0; 2048]);
    while !pace.has_ended() || came.0.len() < pace.sent() as usize {
        let Ok(length) = far.recv(&mut buffer) else { break };
        let (rest, mark) = buffer[..length].split_last_chunk().unwrap();
        let made = || u64::from_be_bytes(*rest[rest.len() - PAYLOAD.len() + RESULT..].first_chunk().unwrap());
        let mark = u32::from_be_bytes(*mark);
        if mark != WARM {
            let (times, _) = came.0.entry(mark).or_insert((0, if capsules { made() } else { 1 }));
            *times += 1;
        }
    }
    came
}

/// Runs these versions one after the other while capsules and datagrams pass, each of which must come once. Where the
/// next one is new, no capsule passes without its code.
fn upgrade(name: &str, versions: &[Version], end: End) -> Option<Node> {
    let mut node = Node::new(name)?;
    let bundle = guest("state");
    node.start(&versions[0]);
    let code: Digest = Control::connect(&node.dir()).unwrap().add_code(&bundle).unwrap();
    let (mut sender, far) = (Sender::of(&node.net, code, "10.0.2.2", &PAYLOAD), receiver(&node.net, "b", "10.0.2.2"));
    let beside = |at: &str, addr: &str| node.net.lab.enter(at, || UdpSocket::bind(addr).unwrap()).unwrap();
    let (near, other) = (beside("a", "10.0.1.1:0"), beside("b", "10.0.2.2:7777"));
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    node.await_kernel(21, || sender.send(WARM));
    let (sent, beside) = (Pace::apart(GAP), Pace::apart(GAP));
    // Between which capsules one version has followed another.
    let mut changes = Vec::new();
    let (capsules, datagrams) = std::thread::scope(|scope| {
        let capsules = scope.spawn(|| collect(&far, &sent, true));
        let datagrams = scope.spawn(|| collect(&other, &beside, false));
        scope.spawn(|| sent.run(|mark| sender.send(mark)));
        scope.spawn(|| {
            beside.run(|mark| {
                near.send_to(&mark.to_be_bytes(), "10.0.2.2:7777").unwrap();
            });
        });
        // A failure must not leave the others waiting for an end.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for pair in versions.windows(2) {
                let begin = sent.await_more(BETWEEN);
                node.stop(&pair[0], end);
                sent.await_more(BETWEEN);
                node.start(&pair[1]);
                node.await_kernel(Node::forwarded(&node.status()) + u64::from(BETWEEN), || ());
                changes.push((begin..sent.sent(), pair[1].new));
                node.check_whose(&pair[1]);
            }
        }));
        sent.stop();
        beside.stop();
        let came = (capsules.join().unwrap(), datagrams.join().unwrap());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        came
    });
    datagrams.check("datagrams", beside.sent());
    capsules.check("capsules", sent.sent());
    changes.into_iter().filter(|(_, new)| *new).for_each(|(during, _)| capsules.check_change(during));
    Some(node)
}

fn up_and_back(name: &str, end: End) {
    let (old, new) = (older(), newer());
    let Some(mut node) = upgrade(name, &[old.clone(), new.clone(), old, new.clone()], end) else { return };
    node.down(&new);
    assert!(!node.dir().join("bpf").exists(), "nothing is left pinned");
}

#[test]
fn an_upgrade_from_a_node_of_roots_and_back_loses_nothing() {
    up_and_back("upg", End::Told);
}

#[test]
fn an_upgrade_from_a_node_of_roots_that_was_killed_and_back_loses_nothing() {
    up_and_back("upk", End::Killed);
}

#[test]
fn what_drivers_were_told_is_given_back_by_an_older_version_too() {
    let (old, new) = (older(), newer());
    let Some(mut node) = Node::new("upd") else { return };
    let told = |node: &Node| node.net.shell("r", "ethtool -k to-a; ethtool -k to-b");
    let before = told(&node);
    node.start(&new);
    assert_ne!(told(&node), before, "the driver leaves tags in frames");
    node.stop(&new, End::Told);
    node.start(&old);
    node.down(&old);
    assert_eq!(told(&node), before);
}
