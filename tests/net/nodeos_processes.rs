//! Environments in processes of their own, on real interfaces: the examples in C beside a node as a process. The node
//! and others survive when such a process is killed, hangs or lies.

use crate::build::{Linked, build};
use crate::running::{HOSTS, PATIENCE, Running};
use crate::wait;
use libanode::entry::{Message, Span};
use libanode::memory::Memory;
use libanode::message::{Answer, Call, ChanSpec, DomainSpec, MESSAGE_MAX, Threads, VERSION};
use libanode::ring::{Cells, Producer};
use libanode::seqpacket::SeqPacket;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// For how long an answer is waited for before the question is asked again.
const ANSWER: Duration = Duration::from_millis(50);

/// What the node grants environments.
pub const ROLE: &str = "[[role]]\nname = \"ee\"\n[role.grants]\nchannels = 16\ndomains = 16\nthreads = 8\n\
                    bandwidth = 1_000_000_000\nmemory_bytes = 67_108_864\n";

pub struct Line {
    pub net: Running,
    folder: tempfile::TempDir,
}

/// A process of an environment's; killed when it goes.
pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Line {
    fn start(name: &str) -> Option<Line> {
        Line::start_with(name, ROLE)
    }

    /// With these lines in the configurations of its nodes.
    pub fn start_with(name: &str, lines: &str) -> Option<Line> {
        let adjust = |_: &str, config: &mut toml::Table| config.extend(lines.parse::<toml::Table>().unwrap());
        let net = Running::up_with(name, HOSTS, &adjust)?;
        Some(Line { net, folder: tempfile::tempdir().unwrap() })
    }

    fn path(&self) -> PathBuf {
        self.net.dir("r").join("nodeos.sock")
    }

    /// Starts an example and waits until it says that it is ready.
    pub fn run(&self, example: &str, linked: Linked, arguments: &[&str]) -> Process {
        self.run_file(&format!("examples/nodeos/{example}.c"), linked, arguments)
    }

    /// The same with the program of a file.
    pub fn run_file(&self, source: &str, linked: Linked, arguments: &[&str]) -> Process {
        let program = build(source, self.folder.path(), &["-O2"], linked);
        let mut command = self.net.lab.command("r", program.to_str().unwrap()).unwrap();
        // Else the library would be found beside the program of this build, where it may be that of another.
        command.env("ANODE_NODEOS", self.path()).env_remove("LD_LIBRARY_PATH");
        command.args(arguments).stdout(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        process
    }

    pub fn socket(&self, node: &str, at: &str) -> UdpSocket {
        let socket = self.net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Waits until the Linux stack has the port again, so that nobody listens there.
    fn await_refusal(&self, socket: &UdpSocket) {
        // The ports have forgotten the channel when it is not listed any more.
        wait::told(self.net.dir("r"), "channels", |_| is_refused(socket).then_some(()));
    }
}

/// Whether nobody listens where a socket sends to; one that listens does not answer this.
fn is_refused(socket: &UdpSocket) -> bool {
    let refused =
        |result: std::io::Result<usize>| result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    // An error of the packet before may be told now.
    let is = refused(socket.send(b"anybody?")) || refused(socket.recv(&mut [0; 64]));
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    is
}

fn exchange(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 2048];
    socket.send(message).unwrap();
    let length = socket.recv(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

/// Sends a packet that the active path puts in capitals, and expects it so.
fn lives(socket: &UdpSocket) {
    // Somebody may have been refused before.
    let _ = socket.take_error();
    assert_eq!(exchange(socket, b"Uare you there?"), b"UARE YOU THERE?");
}

const PATH: [&str; 4] = ["if0/ip/udp", "10.0.1.2:5000", "if0/ip/udp", "*:5000 -> *:*"];

fn active_path(threads: &str) -> Vec<&str> {
    [&["ee", threads], &PATH[..]].concat()
}

#[test]
fn the_smallest_forwarder_forwards() {
    let Some(line) = Line::start("fwd") else { return };
    let arguments = ["ee", "if0/ip/udp", "10.0.1.2:5000", "if1/ip/udp", "*:6000 -> 10.0.2.2:7000"];
    let forwarder = line.run("forwarder", Linked::Shared, &arguments);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    let mut buffer = [0; 2048];
    for size in [1, 64, 512, 1400] {
        for round in 0..100u8 {
            let sent = vec![round; size];
            a.send(&sent).unwrap();
            let (length, from) = b.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.to_string()), (&sent[..], "10.0.2.1:6000".into()));
        }
    }
    drop(forwarder);
    line.await_refusal(&a);
}

#[test]
fn an_active_path_edits_payloads_with_several_threads() {
    let Some(line) = Line::start("path") else { return };
    let _path = line.run("active_path", Linked::Static, &active_path("4"));
    let a = line.socket("a", "10.0.1.1:4000");
    a.connect("10.0.1.2:5000").unwrap();
    lives(&a);
    assert_eq!(exchange(&a, b"as it is"), b"as it is");
    a.send(b"X").unwrap();
    // The one that is dropped counts too, before or behind: two threads may have them.
    let first = u64::from_be_bytes(exchange(&a, b"N")[1..].try_into().unwrap());
    assert!(matches!(first, 3 | 4), "{first}");
    // Bursts that fit into the buffers: nothing is lost, whatever the order in which threads work.
    let mut numbers: Vec<u64> = Vec::new();
    for _ in 0..20 {
        for _ in 0..64 {
            a.send(b"N").unwrap();
        }
        for _ in 0..64 {
            let mut buffer = [0; 64];
            let length = a.recv(&mut buffer).unwrap();
            numbers.push(u64::from_be_bytes(buffer[1..length].try_into().unwrap()));
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (5..5 + 20 * 64).collect::<Vec<u64>>(), "each packet once");
}

#[test]
fn a_process_that_is_killed_takes_what_it_had_with_it_and_nothing_else() {
    let Some(line) = Line::start("kill") else { return };
    let other = ["ee", "1", "if0/ip/udp", "10.0.1.2:5001", "if0/ip/udp", "*:5001 -> *:*"];
    let _other = line.run("active_path", Linked::Static, &other);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("a", "10.0.1.1:4001"));
    a.connect("10.0.1.2:5000").unwrap();
    b.connect("10.0.1.2:5001").unwrap();
    for _ in 0..10 {
        let mut process = line.run("active_path", Linked::Static, &active_path("2"));
        lives(&a);
        // In the middle of its work.
        (0..64).for_each(|_| drop(a.send(b"Ux")));
        process.0.kill().unwrap();
        process.0.wait().unwrap();
        line.await_refusal(&a);
        // Answers to the burst came before the refusal.
        a.set_nonblocking(true).unwrap();
        while !a.recv(&mut [0; 64]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {}
        a.set_nonblocking(false).unwrap();
        lives(&b);
    }
}

#[test]
fn a_process_that_the_node_starts_acts_in_the_domain_of_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("examples/nodeos/active_path.c", folder.path(), &["-O2"], Linked::Static);
    let mut command = vec![program.to_str().unwrap().to_owned()];
    command.extend(active_path("2").into_iter().map(str::to_owned));
    let adjust = |_: &str, config: &mut toml::Table| {
        config.extend(ROLE.parse::<toml::Table>().unwrap());
        let text = format!("[[ee]]\nname = \"path\"\nrole = \"ee\"\ncommand = {command:?}\n");
        config.extend(text.parse::<toml::Table>().unwrap());
    };
    let Some(net) = Running::up_with("ees", HOSTS, &adjust) else { return };
    let line = Line { net, folder };
    let a = line.socket("a", "10.0.1.1:4000");
    a.connect("10.0.1.2:5000").unwrap();
    // The channel may be there a moment before Linux has left the port to it.
    wait::channel(line.net.dir("r"), "in");
    a.set_read_timeout(Some(ANSWER)).unwrap();
    let mut buffer = [0; 64];
    line.net.until("r", || a.send(b"Uhello").and_then(|_| a.recv(&mut buffer)).ok());
    assert_eq!(&buffer[..6], b"UHELLO");
}

#[test]
fn a_process_that_stops_reading_loses_its_own_packets_only() {
    let Some(line) = Line::start("hang") else { return };
    let process = line.run("active_path", Linked::Static, &active_path("1"));
    let other = ["ee", "1", "if0/ip/udp", "10.0.1.2:5001", "if0/ip/udp", "*:5001 -> *:*"];
    let _other = line.run("active_path", Linked::Static, &other);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("a", "10.0.1.1:4001"));
    a.connect("10.0.1.2:5000").unwrap();
    b.connect("10.0.1.2:5001").unwrap();
    lives(&a);
    let pid = rustix::process::Pid::from_child(&process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    for _ in 0..40 {
        for _ in 0..64 {
            a.send(b"Ux").unwrap();
        }
        lives(&b);
    }
    let full = |status: &serde_json::Value| status["drops"]["channel-full"].as_u64() > Some(0);
    line.net.await_status("r", full);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    // What waited comes now, and then all is as before.
    let mut buffer = [0; 64];
    while a.recv(&mut buffer).is_ok_and(|length| &buffer[..length] != b"U!") {
        a.send(b"U!").unwrap();
    }
}

/// A process that speaks for itself, without the library's good manners.
struct Liar {
    socket: SeqPacket,
    memory: Arc<Memory>,
    wake: OwnedFd,
    domain: u32,
}

impl Liar {
    fn connect(line: &Line) -> Liar {
        let socket = SeqPacket::connect(&line.path()).unwrap();
        let threads = Threads { max_threads: 1, ..Threads::default() };
        let domain = DomainSpec { title: "liar".into(), threads, pool: None, role: Some("ee".into()) };
        let mut message = Vec::new();
        Call::Hello { version: VERSION, domain }.encode(0, &mut message);
        socket.send(&message).unwrap();
        message.resize(MESSAGE_MAX, 0);
        let (length, descriptors) = socket.receive_with(&mut message).unwrap();
        let (_, Answer::Welcome { domain, geometry, .. }) = Answer::decode(&message[..length]).unwrap() else {
            panic!("not welcome")
        };
        let [memory, wake] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
        Liar { socket, memory: Memory::map(memory.as_fd(), geometry).unwrap(), wake, domain }
    }

    fn call(&self, call: &Call) -> Answer {
        let mut message = Vec::new();
        call.encode(1, &mut message);
        self.socket.send(&message).unwrap();
        message.resize(MESSAGE_MAX, 0);
        let length = self.socket.receive(&mut message).unwrap();
        Answer::decode(&message[..length]).unwrap().1
    }

    fn channel(&self, protocol: &str, address: &str, into: bool) -> u32 {
        let (protocol, address, domain) = (protocol.into(), address.into(), self.domain);
        let spec = ChanSpec { protocol, address, buffers: 64, ..ChanSpec::default() };
        let call = if into { Call::InChanCreate { domain, spec } } else { Call::OutChanCreate { domain, spec } };
        match self.call(&call) {
            Answer::Object { name } => name,
            other => panic!("{other:?}"),
        }
    }

    fn wake(&self) {
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).unwrap();
    }
}

/// The lab with an honest process, and with sockets that speak to whoever has port 5000, and to the honest one.
fn beside(name: &str) -> Option<(Line, Process, UdpSocket, UdpSocket)> {
    let line = Line::start(name)?;
    let other = ["ee", "1", "if0/ip/udp", "10.0.1.2:5001", "if0/ip/udp", "*:5001 -> *:*"];
    let other = line.run("active_path", Linked::Static, &other);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("a", "10.0.1.1:4001"));
    a.connect("10.0.1.2:5000").unwrap();
    b.connect("10.0.1.2:5001").unwrap();
    lives(&b);
    Some((line, other, a, b))
}

#[test]
fn entries_that_mean_nothing_are_counted_and_no_more() {
    let Some((line, _other, a, b)) = beside("entries") else { return };
    // Of buffers and bytes that are not there, of channels of others.
    let liar = Liar::connect(&line);
    let out = liar.channel("if0/ip/udp", "*:5000 -> 10.0.1.1:4000", false);
    let geometry = liar.memory.geometry();
    let mut down = Producer::new(liar.memory.clone(), geometry.down());
    let packet = |buffer: u16, offset: u16, length: u16, channel: u32| {
        let span = Span { buffer, offset, length };
        Message::Packet { span, channel, domain: 0, source: None, destination: None }.entry()
    };
    let own = geometry.buffers_node as u16;
    let lies = [
        [u64::MAX; 8],
        [0; 8],
        packet(0, 0, 10, out),
        packet(u16::MAX, 0, 10, out),
        packet(own, 2000, 100, out),
        packet(own, u16::MAX, u16::MAX, out),
        packet(own, 0, 10, out ^ 0xffff_0000),
        packet(own, 0, 10, u32::MAX),
        Message::Ended { domain: 0 }.entry(),
    ];
    for lie in lies {
        assert_eq!(down.push(&lie), Ok(true));
    }
    liar.wake();
    let of = |status: &serde_json::Value, name: &str| status["drops"][name].as_u64().unwrap_or(0);
    let counted = |status: &serde_json::Value| of(status, "process-nonsense") + of(status, "process-denied");
    let status = line.net.await_status("r", |status| counted(status) == lies.len() as u64);
    assert_eq!(of(&status, "process-denied"), 2, "channels that are gone, or nobody's");
    assert_eq!(status["drops_before"]["process-nonsense"], lies.len(), "in the version before all were one");
    // The same process can still send a packet that is one.
    assert!(liar.memory.copy_in(own.into(), 0, b"honest"));
    down.push(&packet(own, 0, 6, out)).unwrap();
    liar.wake();
    let mut buffer = [0; 64];
    assert_eq!(a.recv(&mut buffer).map(|length| buffer[..length].to_vec()).unwrap(), b"honest");
    lives(&b);
}

#[test]
fn counters_that_cannot_be_end_the_session() {
    let Some((line, _other, a, b)) = beside("counters") else { return };
    let geometry = Liar::connect(&line).memory.geometry();
    let mut buffer = [0; 64];
    for ring in [geometry.down(), geometry.up(), geometry.back()] {
        let liar = Liar::connect(&line);
        liar.channel("if0/ip/udp", "10.0.1.2:5000", true);
        for at in [ring.base, ring.base + 16] {
            liar.memory.store(at, u64::MAX / 2, Ordering::SeqCst);
        }
        liar.wake();
        // Packets come for it, more than there are buffers.
        line.net.until("r", || {
            (0..64).for_each(|_| drop(a.send(b"x")));
            liar.socket.wait(Duration::ZERO).unwrap().then_some(())
        });
        assert_eq!(liar.socket.receive(&mut buffer).unwrap(), 0, "the connection has been shut");
        line.await_refusal(&a);
        lives(&b);
    }
}

#[test]
fn nonsense_on_the_socket_ends_the_session_and_names_of_others_are_refused() {
    let Some((line, _other, _a, b)) = beside("nonsense") else { return };
    let mut buffer = [0; 64];
    for nonsense in [&[][..], &[0; 64], &[1, 2, 3]] {
        let liar = Liar::connect(&line);
        liar.socket.send(nonsense).unwrap();
        assert_eq!(liar.socket.receive(&mut buffer).unwrap(), 0);
        lives(&b);
    }
    let silent = Liar::connect(&line);
    for fake in [u32::MAX, 0, silent.domain ^ 1] {
        assert!(matches!(silent.call(&Call::DomainTerminate { domain: fake }), Answer::Refused { .. }));
        assert!(matches!(silent.call(&Call::InChanDestroy { channel: fake }), Answer::Refused { .. }));
    }
    lives(&b);
}
