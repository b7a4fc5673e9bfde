//! Nodes as real processes without privileges: an overlay of UDP sockets on the loopback interface.

use crate::wait::{self, PATIENCE};
use anode::apps::PING;
use anode::manage::client::{Attachment, Control};
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// A line of nodes n1, n2 …, each a process.
struct Line {
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
    /// How many each of its nodes may have.
    descriptors: u32,
}

impl Line {
    fn start(count: usize) -> Line {
        crate::gate::pass();
        // The sockets are held until all ports are known, so they differ.
        let sockets: Vec<_> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let ports = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        drop(sockets);
        let mut line = Line { folder: tempfile::tempdir().unwrap(), ports, nodes: Vec::new(), descriptors: 1024 };
        for at in 0..count {
            line.nodes.push(None);
            line.run(at);
        }
        line
    }

    fn dir(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("n{at}"))
    }

    fn log(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("n{at}.log"))
    }

    fn store(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("store{at}"))
    }

    fn addr(at: usize) -> Addr {
        Addr::v4([10, 0, 0, at as u8 + 1])
    }

    fn run(&mut self, at: usize) {
        let near = [at.checked_sub(1), (at + 1 < self.ports.len()).then_some(at + 1)];
        let near: Vec<usize> = near.into_iter().flatten().collect();
        let neighbours: Vec<String> = near
            .iter()
            .map(|&n| format!("{{ address = \"{}\", at = \"127.0.0.1:{}\" }}", Line::addr(n), self.ports[n]))
            .collect();
        let mut config = format!(
            "name = \"n{at}\"\nrun_dir = {:?}\nstore = {:?}\n[[port]]\nudp = \"127.0.0.1:{}\"\naddress = [\"{}/24\"]\n\
             pcap = {:?}\nneighbours = [{}]\n",
            self.dir(at),
            self.store(at),
            self.ports[at],
            Line::addr(at),
            self.folder.path().join(format!("n{at}.pcap")),
            neighbours.join(", ")
        );
        for to in (0..self.ports.len()).filter(|to| to.abs_diff(at) > 1) {
            let via = if to > at { at + 1 } else { at - 1 };
            config += &format!("[[route]]\nto = \"{}/32\"\nvia = \"{}\"\n", Line::addr(to), Line::addr(via));
        }
        let file = self.folder.path().join(format!("n{at}.toml"));
        std::fs::write(&file, config).unwrap();
        // Nobody but root with CAP_SYS_RESOURCE changes the limits of a node that runs.
        let limited = format!("ulimit -n {}; exec \"$0\" \"$@\"", self.descriptors);
        let mut command = Command::new("sh");
        command.args(["-c", &limited, ANODE, "node", "run"]).arg(&file).stderr(File::create(self.log(at)).unwrap());
        let child = command.spawn().unwrap();
        self.nodes[at] = Some(child);
        let log = || std::fs::read_to_string(self.log(at)).unwrap();
        wait::control(&self.dir(at), self.nodes[at].as_ref(), log);
    }

    fn kill(&mut self, at: usize) {
        let mut child = self.nodes[at].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn status(&self, at: usize) -> Value {
        crate::running::accounted(Control::connect(&self.dir(at)).unwrap().status().unwrap())
    }

    fn ping(&self, from: usize, to: usize) -> Option<capsule::Header> {
        let dir = self.dir(from);
        let code = Control::connect(&dir).unwrap().add_code(&PING.bundle().unwrap()).unwrap();
        let mut seat = Attachment::attach(&dir, 0).unwrap();
        seat.send(&header(code, seat.port(), Line::addr(to)), &[0; 64]).unwrap();
        seat.receive(PATIENCE).unwrap().map(|(header, _)| header)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn header(code: Digest, app_port: u16, destination: Addr) -> capsule::Header {
    let (previous, source) = (Addr::UNSPECIFIED, Addr::UNSPECIFIED);
    capsule::Header { app_port, bound: 20, code, previous, source, destination }
}

/// The files of a store's objects.
fn objects(store: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![store.join("objects")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

#[test]
fn code_travels_along_a_line_and_the_stores_keep_it() {
    let mut line = Line::start(3);
    assert_eq!(line.ping(0, 2).unwrap().source, Line::addr(2));
    for at in 0..3 {
        assert_eq!(line.status(at)["codes"][0]["title"], "ping");
    }
    // Without its previous hop the last node still has the code on disk, after kill -9.
    line.kill(2);
    line.run(2);
    line.kill(0);
    line.run(0);
    assert!(line.ping(0, 2).is_some());
    let first = std::fs::read(line.folder.path().join("n1.pcap")).unwrap();
    assert_eq!(first[..4], 0x0a0d_0d0au32.to_ne_bytes(), "pcapng");
}

#[test]
fn code_that_rots_on_disk_is_fetched_again() {
    let mut line = Line::start(2);
    assert!(line.ping(0, 1).is_some());
    // A manifest and a representation, which are written while the capsule goes on.
    wait::told(&line.dir(1), "status", |_| (objects(&line.store(1)).len() >= 2).then_some(()));
    line.kill(1);
    let files = objects(&line.store(1));
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        bytes[10] ^= 1;
        std::fs::write(file, bytes).unwrap();
    }
    line.run(1);
    assert!(line.ping(0, 1).is_some());
    let status = line.status(1);
    assert_eq!(status["codes"][0]["state"], "ready", "{status}");
    assert_eq!(status["drops"], Value::Object(Default::default()), "{status}");
}

#[test]
fn applications_share_a_node_and_are_refused_with_a_reason() {
    let line = Line::start(1);
    let dir = line.dir(0);
    let mut first = Attachment::attach(&dir, 700).unwrap();
    assert_eq!((first.port(), first.address()), (700, Line::addr(0)));
    let refused = Attachment::attach(&dir, 700).err().unwrap().to_string();
    assert!(refused.contains("700 is in use"), "{refused}");
    drop(Attachment::attach(&dir, 701).unwrap());

    let code = Control::connect(&dir).unwrap().add_code(&PING.bundle().unwrap()).unwrap();
    let forged = capsule::Header { source: Addr::v4([9, 9, 9, 9]), ..header(code, 700, Line::addr(0)) };
    first.send(&forged, &[0; 64]).unwrap();
    let refused = first.receive(PATIENCE).unwrap_err().to_string();
    assert!(refused.contains("source"), "{refused}");

    // To the node itself: it comes straight back.
    first.send(&header(code, 700, Line::addr(0)), &[0; 64]).unwrap();
    assert!(first.receive(PATIENCE).unwrap().is_some());

    // Of a code nobody has: counted, and the node goes on.
    first.send(&header(Digest([7; 32]), 700, Line::addr(0)), &[0; 64]).unwrap();
    first.send(&header(code, 700, Line::addr(0)), &[0; 64]).unwrap();
    assert!(first.receive(PATIENCE).unwrap().is_some());
    // The look into the store happens beside; what it finds is counted when it is known.
    wait::told(&dir, "status", |status| (status["drops"]["code-unknown"] == 1).then_some(()));
}

#[test]
fn removed_code_runs_no_more_and_can_come_back() {
    let line = Line::start(2);
    assert!(line.ping(0, 1).is_some());
    let code = PING.bundle().unwrap().name();
    Control::connect(&line.dir(1)).unwrap().remove_code(&code).unwrap();
    assert_eq!(line.status(1)["codes"], Value::Array(vec![]));
    assert!(line.ping(0, 1).is_some(), "fetched again from the previous hop");
}

#[test]
fn a_second_node_does_not_take_a_running_ones_place() {
    let line = Line::start(1);
    let output = Command::new(ANODE).args(["node", "run"]).arg(line.folder.path().join("n0.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a node is running"));
    assert!(Control::connect(&line.dir(0)).is_ok());
}

#[test]
fn control_refuses_what_it_does_not_understand() {
    let line = Line::start(1);
    let mut control = Control::connect(&line.dir(0)).unwrap();
    for (ask, part) in [
        (serde_json::json!({"do": "dance"}), "not understood"),
        (serde_json::json!({"do": "add-code", "bundle": "zz"}), "hexadecimal"),
        (serde_json::json!({"do": "add-code", "bundle": "00ff"}), ""),
        (serde_json::json!({"do": "remove-code", "name": "x"}), "64 hexadecimal"),
    ] {
        let error = control.ask(&ask).unwrap_err().to_string();
        assert!(error.contains(part), "{ask}: {error}");
    }
    assert_eq!(control.status().unwrap()["node"], "n0");
}

#[test]
fn wrong_usage_and_refusals_have_their_own_exit_status() {
    let status = |arguments: &[&str]| Command::new(ANODE).args(arguments).output().unwrap().status.code();
    assert_eq!(status(&["node"]), Some(2));
    assert_eq!(status(&["dance"]), Some(2));
    assert_eq!(status(&["node", "status", "/nowhere/at/all"]), Some(1));
    assert_eq!(status(&["--version"]), Some(0));
}

#[test]
fn a_node_without_descriptors_turns_applications_away_and_takes_them_again() {
    let mut line = Line::start(1);
    line.kill(0);
    line.descriptors = 64;
    line.run(0);
    let mut seats = Vec::new();
    let refused = loop {
        match Attachment::attach(&line.dir(0), 0) {
            Ok(seat) => seats.push(seat),
            Err(error) => break error.to_string(),
        }
        assert!(seats.len() < 100);
    };
    assert!(!refused.contains("no answer"), "the connection was closed at once: {refused}");
    drop(seats);
    wait::told(&line.dir(0), "status", |_| Attachment::attach(&line.dir(0), 0).ok());
    assert_eq!(line.status(0)["node"], "n0");
}

#[test]
fn strangers_that_go_on_are_named_in_the_log_once() {
    let line = Line::start(1);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = stranger.local_addr().unwrap().port();
    let mut packet = [0; 8 + capsule::HEADER];
    anep::emit_basic(&mut packet, anep::type_id::CAPSULE, capsule::HEADER).unwrap();
    header(Digest([7; 32]), 1, Line::addr(0)).emit(&mut packet[8..]).unwrap();
    let lines = wait::told(&line.dir(0), "status", |_| {
        for _ in 0..10 {
            stranger.send_to(&packet, ("127.0.0.1", line.ports[0])).unwrap();
        }
        let log = std::fs::read_to_string(line.log(0)).unwrap();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("stranger")).map(str::to_owned).collect();
        Some(lines).filter(|lines| !lines.is_empty())
    });
    assert!(lines.len() == 1 && lines[0].contains(&format!("127.0.0.1 port {from}")), "{lines:?}");
}
