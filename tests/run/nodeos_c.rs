//! The C library against a node, without privileges: an overlay node with two ports that are each other's neighbours. A
//! packet that a channel sends by the first comes in by the second.
//!
//! Most tests are made twice: at a node with one worker, and at one with two, between which somebody moves the
//! programs' domains all the time.
//!
//! The programs are in `tests/nodeos/`; they are built with the system's C compiler and linked to the static library.

use crate::build::{Linked, build};
use crate::restless::Restless;
use crate::wait;
use anode::config::NodeFile;
use anode::manage::assemble;
use anode::manage::control::Handle;
use anode::manage::worker::Order;
use anode::sys::clock::process_cpu;
use libanode::seqpacket::SeqPacket;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

struct Node {
    /// Who moves domains; ends before the node does.
    restless: Option<Restless>,
    folder: tempfile::TempDir,
    handle: Handle,
}

/// The same at a node with one worker, and at one with two between which domains move.
fn at_both(test: impl Fn(&Node)) {
    test(&Node::start());
    let mut node = Node::configured("[cpu]\nworkers = 2\n");
    node.restless = Some(Restless::start(node.folder.path()));
    test(&node);
    let moves = node.restless.take().map_or(0, Restless::end);
    println!("{moves} moves");
}

impl Node {
    fn start() -> Node {
        Node::configured("")
    }

    /// With more lines at the end of its configuration.
    fn configured(more: &str) -> Node {
        crate::gate::pass();
        let sockets: Vec<_> = (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let at: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        drop(sockets);
        let folder = tempfile::tempdir().unwrap();
        let port = |own: usize, other: usize| {
            format!(
                "[[port]]\nudp = \"{}\"\naddress = [\"10.0.{own}.1/24\"]\n\
                 neighbours = [{{ address = \"10.0.{own}.2\", at = \"{}\" }}]\n",
                at[own], at[other]
            )
        };
        let text = format!(
            "name = \"n\"\nrun_dir = {:?}\nfiles = {:?}\n{}{}[[role]]\nname = \"ee\"\n[role.grants]\nchannels = 64\ndomains = 64\n\
             threads = 8\nbandwidth = 1_000_000_000\nmemory_bytes = 67_108_864\nevents = 1000\n\
             files = 10\nfile_bytes = 1_000_000\n{more}",
            folder.path(),
            folder.path().join("files"),
            port(0, 1),
            port(1, 0)
        );
        let file = NodeFile::parse(&text).unwrap();
        let (ready, started) = channel();
        std::thread::spawn(move || {
            let node = assemble(&file).unwrap();
            ready.send(node.handle()).unwrap();
            node.run().unwrap();
        });
        Node { restless: None, folder, handle: started.recv().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("nodeos.sock")
    }

    /// What is counted of connections of processes.
    fn connections(&self) -> serde_json::Value {
        let mut ask = Command::new(env!("CARGO_BIN_EXE_anode"));
        let told = ask.args(["node", "status", "--json"]).arg(self.folder.path()).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        status["connections"]["environments"].clone()
    }

    /// Waits until it is so; the node's status tells of it.
    fn until(&self, is_so: impl Fn() -> bool) {
        wait::told(self.folder.path(), "status", |_| is_so().then_some(()));
    }

    /// Runs a program of `tests/nodeos/` at the node.
    fn run(&self, name: &str, flags: &[&str]) {
        let program = build(&format!("tests/nodeos/{name}.c"), self.folder.path(), flags, Linked::Static);
        let output = Command::new(&program).env("ANODE_NODEOS", self.socket()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.ends_with("ok\n"), "{}\n{said}\n{complaints}", output.status);
        print!("{said}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.restless = None;
        // It may have failed already.
        let _ = self.handle.order(Order::Stop);
    }
}

#[test]
fn every_bad_argument_gives_its_error() {
    at_both(|node| node.run("arguments", &["-O1"]));
}

#[test]
fn specifications_live_for_one_call() {
    at_both(|node| node.run("specifications", &["-O1", "-g", "-fsanitize=address"]));
}

#[test]
fn events_functions_and_files_do_what_the_header_says() {
    at_both(|node| node.run("services", &["-O1"]));
}

#[test]
fn soft_state_of_domains_is_changed_in_one_step() {
    at_both(|node| node.run("state", &["-O1", "-pthread"]));
}

#[test]
fn stores_are_shared_watched_and_seen_as_they_were() {
    at_both(|node| node.run("stores", &["-O1", "-pthread"]));
}

#[test]
fn a_flows_take_turns_at_the_threads_of_the_domain_above_them() {
    at_both(|node| node.run("flows", &["-O1", "-pthread"]));
}

#[test]
fn packets_go_on_into_other_channels_of_their_program() {
    at_both(|node| node.run("passes", &["-O1", "-g", "-pthread", "-fsanitize=address"]));
}

#[test]
fn a_hundred_thousand_a_flows_are_at_one_node() {
    let role = "[[role]]\nname = \"wide\"\n[role.grants]\nchannels = 2\ndomains = 100_001\n\
                bandwidth = 1_000_000_000\nmemory_bytes = 8_388_608\n";
    let node = Node::configured(role);
    node.run("flows_many", &["-O1", "-pthread"]);
    // All that the process had ends with it.
    node.until(|| {
        let tree = node.handle.with_node(|node, _| node.domain_tree()).unwrap();
        tree.iter().all(|domain| domain.role != "wide")
    });
}

#[test]
fn a_program_tells_packets_apart_by_protocols_of_its_own() {
    Node::start().run("classifier", &["-O1", "-g", "-fsanitize=address"]);
}

#[test]
fn who_does_nothing_but_call_is_answered_and_slowed() {
    let node = Node::start();
    // What costs less than a quarter of a CPU, since the machine is busy with something else, is not slowed.
    let patience = wait::Patience::new();
    while node.connections()["slowed"].as_u64().unwrap() == 0 {
        node.run("calls", &["-O1"]);
        patience.left(|| node.connections().to_string());
    }
}

#[test]
fn who_does_nothing_but_connect_pays_for_it() {
    let node = Node::start();
    (0..200).for_each(|_| drop(SeqPacket::connect(&node.socket()).unwrap()));
    node.until(|| node.connections()["cost_ns"].as_u64() > Some(0));
}

#[test]
fn calls_about_files_are_billed_to_their_domain() {
    let node = Node::start();
    let program = build("tests/nodeos/reads.c", node.folder.path(), &["-O1"], Linked::Static);
    let mut command = Command::new(&program);
    command.env("ANODE_NODEOS", node.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = command.spawn().unwrap();
    let mut said = BufReader::new(reader.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    // Its last call was about a file, and it makes no other. What it uses itself is charged a little later.
    node.until(|| {
        let tree = node.handle.with_node(|node, _| node.domain_tree()).unwrap();
        let billed = tree.iter().find(|domain| domain.role == "ee").unwrap().usage.cpu_ns;
        billed > process_cpu(reader.id()).unwrap() + 10_000_000
    });
    drop(reader.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), "ok");
    assert!(reader.wait().unwrap().success());
}

#[test]
fn a_thread_that_hangs_takes_its_domain_with_it_and_nothing_else() {
    at_both(|node| node.run("threads", &["-O1"]));
}

#[test]
fn a_node_and_a_process_that_poll_sleep_in_the_end_and_lose_nothing() {
    Node::configured("[xdp]\nbusy_poll_us = 300\n").run("polling", &["-O1"]);
}

#[test]
fn what_has_ended_runs_nothing_whoever_ended_it() {
    at_both(|node| node.run("ending", &["-O1", "-g", "-pthread", "-fsanitize=address"]));
}

#[test]
fn a_process_without_memory_or_threads_is_told_so_and_lives() {
    at_both(|node| node.run("memory", &["-O1", "-pthread"]));
}

#[test]
fn calls_that_race_with_destruction_give_errors() {
    at_both(|node| node.run("race", &["-O1", "-pthread"]));
}
