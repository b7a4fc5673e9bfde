//! Trusted environments in the node's own process: the other tests' programs in C, and the examples, built as shared
//! objects.

use crate::build::{Linked, build};
use crate::running::{ANODE, HOSTS, PATIENCE, Running};
use crate::wait;
use anode::manage::client::Control;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// For how long an answer is waited for before the question is asked again.
const ANSWER: Duration = Duration::from_millis(50);

/// What the node grants environments that it trusts.
const ROLE: &str = "[[role]]\nname = \"ee\"\nrepresentations = [\"native\"]\n[role.grants]\nchannels = 64\ndomains = 64\n\
                    threads = 8\nbandwidth = 1_000_000_000\nmemory_bytes = 67_108_864\nevents = 1000\nfiles = 10\nfile_bytes = 1_000_000\n";

fn ee(name: &str, object: &Path, arguments: &[&str]) -> String {
    let words: Vec<&str> = std::iter::once(object.to_str().unwrap()).chain(arguments.iter().copied()).collect();
    format!("[[ee]]\nname = \"{name}\"\nrole = \"ee\"\nrestart = \"never\"\nlibrary = {words:?}\n")
}

/// An overlay node with two ports that are each other's neighbours, and one environment.
struct Node {
    process: Child,
    dir: tempfile::TempDir,
}

impl Node {
    /// With one worker.
    fn start(object: &str, arguments: &[&str]) -> Node {
        Node::configured(object, arguments, "")
    }

    /// With two, of which the second has the environment.
    fn at_second_worker(object: &str, arguments: &[&str]) -> Node {
        Node::configured(object, arguments, "worker = 1\n[cpu]\nworkers = 2\n")
    }

    /// With these lines behind those of the environment.
    fn configured(object: &str, arguments: &[&str], more: &str) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let object = build(object, dir.path(), &["-O1", "-pthread"], Linked::Here);
        let sockets: Vec<_> = (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let at: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        drop(sockets);
        let port = |own: usize, other: usize| {
            format!(
                "[[port]]\nudp = \"{}\"\naddress = [\"10.0.{own}.1/24\"]\n\
                 neighbours = [{{ address = \"10.0.{own}.2\", at = \"{}\" }}]\n",
                at[own], at[other]
            )
        };
        let path = |name: &str| dir.path().join(name);
        let text = format!(
            "name = \"n\"\nrun_dir = {:?}\nfiles = {:?}\n{}{}{ROLE}{}{more}",
            path("run"),
            path("files"),
            port(0, 1),
            port(1, 0),
            ee("object", &object, arguments)
        );
        std::fs::write(path("node.toml"), text).unwrap();
        let log = std::fs::File::create(path("log")).unwrap();
        let mut command = Command::new(ANODE);
        command.args(["node", "run"]).arg(path("node.toml")).stdin(Stdio::null());
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let node = Node { process, dir };
        wait::control(&node.run_dir(), Some(&node.process), || std::fs::read_to_string(node.log()).unwrap());
        node
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Waits until the environment has ended, and expects it to be content.
    fn await_end(&self) {
        let ended = |environment: &Value| environment["state"] == "ended";
        let environment = wait::environment(&self.run_dir(), "object", ended);
        let said = std::fs::read_to_string(self.log()).unwrap();
        assert_eq!(environment["ended"], "status 0", "{said}");
        assert_eq!(environment["failures"], 0);
        // What it had has gone, and the node is there.
        let all = Control::connect(&self.run_dir()).unwrap().ask(&json!({"do": "domains"})).unwrap();
        let titles: Vec<_> = all["domains"].as_array().unwrap().iter().map(|domain| domain["title"].clone()).collect();
        assert_eq!(titles, ["node", "management", "capsules", "plan"]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_bad_argument_gives_the_error_that_it_gives_a_process() {
    Node::start("tests/nodeos/arguments.c", &[]).await_end();
    Node::at_second_worker("tests/nodeos/arguments.c", &[]).await_end();
}

#[test]
fn events_functions_and_files_do_what_the_header_says() {
    Node::start("tests/nodeos/services.c", &[]).await_end();
    Node::at_second_worker("tests/nodeos/services.c", &[]).await_end();
}

#[test]
fn calls_that_race_with_destruction_give_errors() {
    Node::start("tests/nodeos/race.c", &[]).await_end();
    Node::at_second_worker("tests/nodeos/race.c", &[]).await_end();
}

#[test]
fn an_object_changes_soft_state_as_a_process_does() {
    Node::start("tests/nodeos/state.c", &[]).await_end();
    Node::at_second_worker("tests/nodeos/state.c", &[]).await_end();
}

#[test]
fn packets_go_on_into_other_channels_of_an_object() {
    Node::start("tests/nodeos/passes.c", &[]).await_end();
    Node::at_second_worker("tests/nodeos/passes.c", &[]).await_end();
}

#[test]
fn what_is_no_program_is_said_and_the_node_goes_on() {
    let node = Node::start("tests/nodeos/object_without_main.c", &[]);
    let ended = |environment: &Value| environment["state"] == "ended";
    let environment = wait::environment(&node.run_dir(), "object", ended);
    assert!(environment["ended"].as_str().unwrap().contains("no main function"), "{environment}");
    assert_eq!(environment["failures"], 1);
}

/// The lab with an example in the router's process, which runs.
fn beside(name: &str, example: &str, arguments: &[&str]) -> Option<(Running, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let object = build(&format!("examples/nodeos/{example}.c"), folder.path(), &["-O2"], Linked::Here);
    let net = beside_by(name, &format!("{ROLE}{}", ee(example, &object, arguments)))?;
    Some((net, folder))
}

/// The same with these lines in the router's configuration.
fn beside_by(name: &str, text: &str) -> Option<Running> {
    let adjust = |_: &str, config: &mut toml::Table| config.extend(text.parse::<toml::Table>().unwrap());
    let net = Running::up_with(name, HOSTS, &adjust)?;
    wait::channel(net.dir("r"), "in");
    Some(net)
}

/// What docs/nodeos.md shows of an environment in the node's process, where the object has this path.
fn shown(object: &Path) -> String {
    const SHOWN: &str = "/usr/lib/anode/forwarder.so";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/nodeos.md")).unwrap();
    let (_, part) = text.split_once("## Environments in the node's process").unwrap();
    let (_, part) = part.split_once("```toml\n").unwrap();
    let (shown, _) = part.split_once("```").unwrap();
    assert!(shown.contains(SHOWN), "{shown}");
    shown.replace(SHOWN, object.to_str().unwrap())
}

fn socket(net: &Running, node: &str, at: &str) -> UdpSocket {
    let socket = net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends a message. Linux may refuse the first packet of a new channel, which the environment has all the same; the
/// next call is told of that, and sends nothing.
fn send(socket: &UdpSocket, message: &[u8]) {
    match socket.send(message) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => socket.send(message),
        result => result,
    }
    .unwrap();
}

/// What comes back for a message.
fn exchange(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 2048];
    send(socket, message);
    let length = match socket.recv(&mut buffer) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => socket.recv(&mut buffer),
        result => result,
    };
    buffer[..length.unwrap()].to_vec()
}

#[test]
fn the_smallest_forwarder_forwards_without_leaving_the_node_as_the_page_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let object = build("examples/nodeos/forwarder.c", folder.path(), &["-O2"], Linked::Here);
    let Some(net) = beside_by("ofwd", &shown(&object)) else { return };
    let (a, b) = (socket(&net, "a", "10.0.1.1:4000"), socket(&net, "b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    let mut buffer = [0; 2048];
    // Linux may have the first packets of a new channel: what comes of several is no part of the test.
    b.set_read_timeout(Some(ANSWER)).unwrap();
    wait::unannounced("a channel does not say from when on Linux leaves it its packets", || {
        let _ = a.send(b"first");
        b.recv_from(&mut buffer).map_err(|error| error.to_string())
    });
    while b.recv_from(&mut buffer).is_ok() {}
    b.set_read_timeout(Some(PATIENCE)).unwrap();
    for size in [1, 64, 512, 1400] {
        for round in 0..100u8 {
            let sent = vec![round; size];
            send(&a, &sent);
            let (length, from) = b.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.to_string()), (&sent[..], "10.0.2.1:6000".into()));
        }
    }
}

#[test]
fn an_active_path_in_the_node_edits_payloads_until_an_operator_ends_its_domain() {
    let arguments = ["ee", "4", "if0/ip/udp", "10.0.1.2:5000", "if0/ip/udp", "*:5000 -> *:*"];
    let Some((net, _folder)) = beside("opath", "active_path", &arguments) else { return };
    let a = socket(&net, "a", "10.0.1.1:4000");
    a.connect("10.0.1.2:5000").unwrap();
    let mut buffer = [0; 64];
    a.set_read_timeout(Some(ANSWER)).unwrap();
    wait::unannounced("a channel does not say from when on Linux leaves it its packets", || {
        let _ = a.send(b"Uare you there?");
        a.recv(&mut buffer).map_err(|error| error.to_string())
    });
    // Linux may have refused some of them, and the environment answered all the same.
    while !matches!(a.recv(&mut buffer), Err(why) if why.kind() == ErrorKind::WouldBlock) {}
    a.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(exchange(&a, b"Uare you there?"), b"UARE YOU THERE?");
    let mut numbers: Vec<u64> = Vec::new();
    for _ in 0..20 {
        for _ in 0..64 {
            send(&a, b"N");
        }
        for _ in 0..64 {
            let length = a.recv(&mut buffer).unwrap();
            if buffer[0] == b'N' {
                numbers.push(u64::from_be_bytes(buffer[1..length].try_into().unwrap()));
            }
        }
    }
    assert!(numbers.len() > 1000 && numbers.is_sorted_by(|one, next| one + 1 == *next), "each packet once, in order");
    let running = wait::environment(net.dir("r"), "active_path", |it| it["state"] == "running");
    let done = net.control("r").ask(&json!({"do": "kill-domain", "domain": running["domain"]})).unwrap();
    assert_eq!((&done["domains"], &done["channels"]), (&json!(1), &json!(2)), "{done}");
    wait::environment(net.dir("r"), "active_path", |it| it["state"] == "killed");
    // The port is the Linux stack's again, where nobody listens.
    a.set_read_timeout(Some(ANSWER)).unwrap();
    let refused = |_| {
        let answer = a.send(b"x").and_then(|_| a.recv(&mut buffer));
        answer.is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused).then_some(())
    };
    wait::told(net.dir("r"), "channels", refused);
}

/// What an active path answers at an application port, once it is there; Linux may have the first packets of a new channel.
fn answers(socket: &UdpSocket, port: u16) {
    let mut buffer = [0; 64];
    socket.connect(("10.0.1.2", port)).unwrap();
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    wait::unannounced("a channel does not say from when on Linux leaves it its packets", || {
        let _ = socket.send(b"Uthere?");
        socket.recv(&mut buffer).map_err(|error| error.to_string())
    });
    assert_eq!(&buffer[..7], b"UTHERE?");
    // Answers to questions that were asked again.
    while socket.recv(&mut buffer).is_ok() {}
}

/// By configurations that are applied: an object of another directory alone is not to be had without a restart.
#[test]
fn an_environment_in_the_node_comes_changes_and_goes_while_another_runs_on() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let object = build("examples/nodeos/active_path.c", folder.path(), &["-O2"], Linked::Here);
    let path = |name: &str, object: &Path, port: u16| {
        let (own, back) = (format!("10.0.1.2:{port}"), format!("*:{port} -> *:*"));
        ee(name, object, &["ee", "4", "if0/ip/udp", &own, "if0/ip/udp", &back])
    };
    let first = path("first", &object, 5000);
    let Some(net) = beside_by("olive", &format!("{ROLE}{first}")) else { return };
    let begin = std::fs::read_to_string(net.dir("r").join("node.toml")).unwrap();
    let apply = |environments: &str| {
        let mut config: toml::Table = begin.parse().unwrap();
        config.extend(environments.parse::<toml::Table>().unwrap());
        let file = net.dir("r").join("other.toml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(ANODE);
        let output = command.args(["node", "apply"]).arg(file).arg("--node").arg(net.dir("r")).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let environments = || net.control("r").ask(&json!({"do": "domains"})).unwrap()["environments"].clone();
    let (a, other) = (socket(&net, "a", "10.0.1.1:4000"), socket(&net, "a", "10.0.1.1:4001"));
    answers(&a, 5000);
    a.set_read_timeout(Some(PATIENCE)).unwrap();
    let before = environments()[0].clone();
    let over = std::sync::atomic::AtomicBool::new(false);
    let exchanged = std::thread::scope(|scope| {
        // One question at a time, each of which must be answered.
        let asking = scope.spawn(|| {
            let mut count = 0u32;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let question = format!("U{count}x");
                assert_eq!(exchange(&a, question.as_bytes()), question.to_uppercase().as_bytes());
                count += 1;
            }
            count
        });
        for port in [5001, 5002] {
            let (done, said) = apply(&format!("{first}{}", path("late", &object, port)));
            assert!(done, "{said}");
            wait::environment(net.dir("r"), "late", |it| it["state"] == "running");
            answers(&other, port);
        }
        let moved = elsewhere.path().join("moved.so");
        std::fs::copy(&object, &moved).unwrap();
        let (done, said) = apply(&format!("{first}{}", path("late", &moved, 5002)));
        assert!(!done && said.contains("need a restart"), "{said}");
        answers(&other, 5002);
        let (done, said) = apply(&first);
        assert!(done, "{said}");
        wait::told(net.dir("r"), "domains", |_| (environments().as_array().unwrap().len() == 1).then_some(()));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        asking.join().unwrap()
    });
    assert!(exchanged > 0);
    assert_eq!(environments()[0], before, "it has run on in its domain, and was not started again");
}
