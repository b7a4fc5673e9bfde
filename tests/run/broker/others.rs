//! Others of the host against a starting node: they hold locks, and leave processes and files.

use super::needs_root;
use crate::single::{Node, anode, write_config};
use crate::wait;
use anode::broker::acts::Acts;
use anode::broker::configurations::Configurations;
use anode::broker::given::{DISCOVERIES_MAX, LISTENERS_MAX, PACKETS_MAX, UDP_MAX, XDP_MAX};
use anode::broker::{Pin, PinRequest, Request, Shape};
use anode::config::NodeFile;
use anode::kernel::pins::SETS_MAX;
use anode::sys::privileges::standing;
use rustix::fs::{FlockOperation, Mode, flock};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A user that is nobody's.
const STRANGER: u32 = 12_345;

fn user_of(node: &Node) -> u32 {
    standing(&format!("/proc/{}", node.process.id())).unwrap().user
}

/// What everybody can read everybody can lock.
#[test]
fn nobody_delays_a_start_by_a_lock() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Vec::new();
    for name in ["run", "store", "files"] {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        held.push(File::open(&path).unwrap());
        // As an older version has left it.
        fs::write(path.join("lock"), "").unwrap();
        fs::set_permissions(path.join("lock"), fs::Permissions::from_mode(0o644)).unwrap();
        held.push(File::open(path.join("lock")).unwrap());
    }
    fs::create_dir(dir.path().join("store/objects")).unwrap();
    fs::create_dir(dir.path().join("files/spaces")).unwrap();
    for lock in &held {
        flock(lock, FlockOperation::LockExclusive).unwrap();
    }
    let node = Node::start_in(dir, "");
    for name in ["run/lock", "store/lock", "files/lock"] {
        let facts = fs::symlink_metadata(node.dir.path().join(name)).unwrap();
        assert_eq!(facts.mode() & 0o777, 0o600, "{name}");
    }
    let second = anode(&["node", "run"], &node.dir.path().join("node.toml")).output().unwrap();
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(why.contains("a node is running with"), "{why}");
}

/// Ends with its value.
struct Left(std::process::Child);

impl Drop for Left {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_user_of_whom_a_process_lives_on_is_no_nodes() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    if fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("anode:")) {
        println!("SKIPPED: somebody has made a user for all nodes");
        return;
    }
    let node = Node::start("");
    let before = user_of(&node);
    let dir = node.down();
    let mut left = Command::new("setsid");
    let left = Left(left.args(["sleep", "1000"]).uid(before).gid(before).spawn().unwrap());
    let node = Node::start_in(dir, "");
    let now = user_of(&node);
    assert_ne!(now, before);
    let said = format!("processes of user {before} live on");
    assert!(node.log().contains(&said), "{}", node.log());
    assert_eq!(fs::metadata(node.dir.path().join("store/objects")).unwrap().uid(), now, "what is kept goes with it");
    drop(left);
}

#[test]
fn files_and_pipes_of_others_are_no_captures() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap");
    let config = |dir: &Path, path: &Path| {
        let file = write_config(dir, "");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("address = [", &format!("pcap = {path:?}\naddress = ["))).unwrap();
    };
    let tried = |path: &Path| {
        let fresh = tempfile::tempdir().unwrap();
        config(fresh.path(), path);
        let file = fresh.path().join("node.toml");
        let checked = anode(&["node", "check"], &file).output().unwrap();
        assert!(!checked.status.success(), "what a start refuses a check does");
        let done = anode(&["node", "run"], &file).output().unwrap();
        assert!(!done.status.success(), "it started");
        String::from_utf8(done.stderr).unwrap()
    };
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let why = tried(&open.join("frames.pcap"));
    assert!(why.contains("pcap = ") && why.contains("others can write to"), "{why}");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let why = tried(&path);
    assert!(why.contains("this is no file"), "{why}");
    fs::remove_file(&path).unwrap();
    fs::write(dir.path().join("other"), "").unwrap();
    std::os::unix::fs::symlink(dir.path().join("other"), &path).unwrap();
    let why = tried(&path);
    assert!(why.contains("this is no file"), "{why}");
    fs::remove_file(&path).unwrap();
    fs::hard_link(dir.path().join("other"), &path).unwrap();
    let why = tried(&path);
    assert!(why.contains("has another name"), "{why}");
    fs::remove_file(&path).unwrap();
    if needs_root() {
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        let why = tried(&path);
        assert!(why.contains("belongs to user 12345"), "{why}");
        assert_eq!(fs::metadata(&path).unwrap().uid(), STRANGER, "it stays whose it is");
        fs::remove_file(&path).unwrap();
    }
    // What a node has made it takes again.
    for _ in 0..2 {
        let fresh = tempfile::tempdir().unwrap();
        let file = write_config(fresh.path(), "");
        let text = fs::read_to_string(&file).unwrap();
        let more =
            text.split_once("[[port]]\n").unwrap().1.replace("address = [", &format!("pcap = {path:?}\naddress = ["));
        let port = format!("[[port]]\n{}", more.replace("10.9.9.1", "10.9.8.1"));
        let node = Node::start_in(fresh, &port);
        assert_eq!(fs::metadata(&path).unwrap().uid(), user_of(&node));
        node.down();
    }
}

/// What a broker checks requests against.
pub fn configurations(file: &NodeFile, run_dir: &Path) -> Arc<Mutex<Configurations>> {
    Arc::new(Mutex::new(Configurations::new(file, run_dir).unwrap()))
}

#[test]
fn a_port_has_so_many_sockets_and_no_more() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let any = "127.0.0.1:0".parse().unwrap();
    let config = "name = \"a\"\n[[port]]\npacket = \"lo\"\nxdp = true\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = \
                  [\"10.0.0.1/24\"]\n[plan]\ntcp = \"127.0.0.1:0\"\n";
    let file = NodeFile::parse(config).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let acts = Acts::new(configurations(&file, dir.path()), dir.path().into(), None, std::process::id() as i32);
    let packet = Request::Packet { interface: 1, kind: 0x0806, longest: 1664, ring: 0, beside: false };
    let kinds = [
        (packet, PACKETS_MAX, "lo has"),
        (Request::Discovery { interface: 1 }, DISCOVERIES_MAX, "lo has"),
        (Request::Xdp { busy_poll_us: 0 }, XDP_MAX, "the node has"),
        (Request::Udp { at: any, shared: false }, UDP_MAX, "127.0.0.1:0 has"),
        (Request::Tcp { at: any }, LISTENERS_MAX, "127.0.0.1:0 has"),
    ];
    for (request, most, words) in kinds {
        let mut had = Vec::new();
        let why = loop {
            match acts.carry_out(&request, &[]) {
                // A host without IPv6 has none of these.
                Ok(done) if done.is_without() => break None,
                Ok(done) => had.push(done),
                Err(error) => break Some(error.to_string()),
            }
            assert!(had.len() <= 4 * most, "as many as are asked for");
        };
        let Some(why) = why else { continue };
        assert_eq!(had.len(), most);
        assert!(why.contains(&format!("the broker refuses: {words}")) && why.contains("at most"), "{why}");
        had.truncate(most - 1);
        let others = "a child that another test has just begun has what is closed too, until it is another program";
        wait::unannounced(others, || acts.carry_out(&request, &[]).map(drop).map_err(|error| error.to_string()));
    }
}

/// What is pinned outlives whoever asked for it.
#[test]
fn the_file_system_of_a_node_has_so_many_names_and_no_more() {
    if !needs_root() {
        return;
    }
    let file = NodeFile::parse("name = \"a\"\n[[port]]\npacket = \"lo\"\n[sizes]\ncodes = 8\n").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let acts = Acts::new(configurations(&file, dir.path()), dir.path().into(), None, std::process::id() as i32);
    acts.carry_out(&Request::Pins(PinRequest::Open), &[]).unwrap();
    let shape = Shape { kind: 2, key: 4, value: 4, entries: 1 };
    let map = acts.carry_out(&Request::Map { name: "zero_map".into(), shape }, &[]).unwrap().descriptor().unwrap();
    let asked = |request: PinRequest| {
        let with = matches!(request, PinRequest::Keep(_)).then(|| map.try_clone().unwrap());
        acts.carry_out(&Request::Pins(request), with.as_slice()).map(drop).map_err(|error| error.to_string())
    };
    let sets = (1..=100).take_while(|set| asked(PinRequest::Make { set: *set }).is_ok()).count();
    assert_eq!(sets, SETS_MAX);
    let keep = |number: usize| PinRequest::Keep(Pin { set: Some(1), name: format!("map-{number}") });
    let names = (0..1000).take_while(|number| asked(keep(*number)).is_ok()).count();
    assert_eq!(names, 8 + 256);
    let why = asked(keep(names)).unwrap_err();
    assert!(why.contains("the broker refuses: there are 264 names"), "{why}");
    assert_eq!(asked(keep(0)), Ok(()), "one takes its own place");
    for set in 1..=sets as u32 {
        asked(PinRequest::Remove { set }).unwrap();
    }
    asked(PinRequest::Close).unwrap();
}

/// What an operator's user has kept is no stranger's.
#[test]
fn a_node_of_a_user_that_was_named_comes_back_to_what_it_has_kept() {
    crate::gate::pass();
    if !needs_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let named = format!("[security]\nuser = {STRANGER}\n");
    let mut dir = Node::start_in(dir, &named).down();
    for _ in 0..2 {
        let node = Node::start_in(dir, &named);
        assert_eq!(fs::metadata(node.dir.path().join("store")).unwrap().uid(), STRANGER);
        dir = node.down();
    }
}
