//! Channels of domains on real interfaces, in a node that runs in the test's process: packets of the Linux stack's neighbours
//! come to an environment and go on from it, and what is no channel's stays with Linux.

#[path = "running/mod.rs"]
mod running;

use anode::manage::assemble;
use anode::manage::config::NodeFile;
use anode::manage::control::Handle;
use anode::manage::worker::Order;
use anode::node::hosts::Environment;
use anode::nodeos::grants::Grants;
use anode::nodeos::interface::{ChanSpec, DomainId, Error, InChanId, KeyTuple, NodeOs, OutChanId, Upcall};
use anode::trust::Role;
use running::{PATIENCE, Running};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::mpsc::{Sender, channel};

const LINE: &str = r#"
name = "t"
nodes.a = {}
nodes.r = {}
nodes.b = {}
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
"#;

/// A role of environments that channels are granted to.
fn role() -> Role {
    let grants = Grants { channels: 16, bandwidth: 1 << 30, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

/// Answers nobody; sends what comes in capitals, and says what became of it.
struct Capitals {
    out: Option<OutChanId>,
    told: Sender<String>,
}

impl Environment for Capitals {
    fn upcall(&mut self, os: &mut dyn NodeOs, _: DomainId, upcall: Upcall) {
        let Upcall::Packet { mut frame, ends, .. } = upcall else { return };
        frame.bytes_mut().make_ascii_uppercase();
        let sent = match self.out {
            Some(out) => os.outchan_send(out, None, frame).map_err(|(_, error)| error.name().to_owned()),
            None => Err("no channel".into()),
        };
        let (from, to) = (ends.source.unwrap(), ends.destination.unwrap());
        let _ = self.told.send(format!("{}:{} {sent:?} from {}", to.0, to.1, from.0));
    }
}

/// A node in namespace r, in this process.
struct Node {
    net: Running,
    handle: Handle,
    dir: tempfile::TempDir,
}

impl Node {
    fn start(name: &str) -> Option<Node> {
        Node::start_with(name, "")
    }

    /// The same, with this line for each port.
    fn start_with(name: &str, port: &str) -> Option<Node> {
        let net = Running::build(name, LINE)?;
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "name = \"r\"\nrun_dir = \"{}\"\nroutes = \"kernel\"\n[[port]]\npacket = \"to-a\"\n{port}\n[[port]]\npacket = \"to-b\"\n{port}\n",
            dir.path().display()
        );
        let file = NodeFile::parse(&text).unwrap();
        let (ready, started) = channel();
        let run = move || {
            // The node is where its worker is: in a thread of this namespace.
            std::thread::spawn(move || {
                let node = assemble(&file).unwrap();
                ready.send(node.handle()).unwrap();
                node.run().unwrap();
            });
        };
        net.lab.enter("r", run).unwrap();
        Some(Node { net, handle: started.recv_timeout(PATIENCE).unwrap(), dir })
    }

    fn with<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn NodeOs) -> R + Send + 'static,
        as_domain: DomainId,
    ) -> R {
        let result = self.handle.with_node(move |node, turn| work(&mut node.os(turn, as_domain))).unwrap();
        // The ports know of channels that have come and gone.
        self.handle.settle().unwrap();
        result
    }

    /// An environment that sends in capitals to b's port 7000.
    fn capitals(&self) -> (DomainId, std::sync::mpsc::Receiver<String>) {
        let (told, tells) = channel();
        let domain = self.handle.with_node(move |node, turn| {
            // The environment's channel exists once its domain does.
            let (_, domain) =
                node.attach("capitals", &role(), Box::new(Capitals { out: None, told: told.clone() })).unwrap();
            let out = ChanSpec {
                protocol: "if1/ip/udp".into(),
                address: "*:6000 -> 10.0.2.2:7000".into(),
                ..ChanSpec::default()
            };
            let out = node.os(turn, domain).outchan_create(domain, &out).unwrap();
            node.replace_environment(domain, Box::new(Capitals { out: Some(out), told }));
            domain
        });
        (domain.unwrap(), tells)
    }

    fn listen(&self, domain: DomainId, spec: ChanSpec) -> Result<InChanId, Error> {
        self.with(move |os| os.inchan_create(domain, &spec), domain)
    }

    fn socket(&self, node: &str, at: &str) -> UdpSocket {
        let socket = self.net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have failed already.
        let _ = self.handle.order(Order::Stop);
    }
}

fn udp(address: &str, key: Vec<KeyTuple>) -> ChanSpec {
    ChanSpec { protocol: "if0/ip/udp".into(), address: address.into(), key, ..ChanSpec::default() }
}

/// Whether the Linux stack of r answers that nobody listens where `socket` is connected to.
fn is_refused(socket: &UdpSocket, message: &[u8]) -> bool {
    socket.send(message).unwrap();
    socket.recv(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn packets_of_a_channel_come_to_its_environment_and_go_on_and_others_stay_with_linux() {
    let Some(node) = Node::start("chan") else { return };
    use_channel(&node);
}

#[test]
fn behind_the_kernel_half_every_frame_is_looked_at_only_while_there_are_channels() {
    let Some(node) = Node::start_with("chank", "kernel = true") else { return };
    // Sockets by their Ethernet type (packet(7)): 3 is all of them.
    let types = |node: &Node| {
        let text = node.net.shell("r", "cat /proc/net/packet");
        let mut types: Vec<String> =
            text.lines().skip(1).map(|line| line.split_whitespace().nth(3).unwrap().into()).collect();
        types.sort_unstable();
        types
    };
    let narrow = ["0806", "0806", "88b5", "88b5"];
    assert_eq!(types(&node), narrow);
    use_channel(&node);
    assert_eq!(types(&node), narrow, "the channel has ended");
    let (domain, _tells) = node.capitals();
    let channel = node.listen(domain, udp("10.0.1.2:5000", vec![])).unwrap();
    assert_eq!(types(&node), ["0003", "0806", "0806", "88b5", "88b5"], "at the port of the channel alone");
    let more = node.listen(domain, udp("10.0.1.2:5001", vec![])).unwrap();
    node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
    assert_eq!(types(&node), ["0003", "0806", "0806", "88b5", "88b5"], "one is left");
    node.with(move |os| os.inchan_destroy(more), domain).unwrap();
    assert_eq!(types(&node), narrow);
    use_channel(&node);
}

/// Uses a channel that was not there, and is not there afterwards.
fn use_channel(node: &Node) {
    let (domain, tells) = node.capitals();
    let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    assert!(is_refused(&a, b"before"), "there is no channel yet");
    let key = vec![KeyTuple { offset: 1, length: 2, value: 0x6561, mask: 0xffff }];
    let channel = node.listen(domain, udp("10.0.1.2:5000", key.clone())).unwrap();
    assert_eq!(node.listen(domain, udp("10.0.1.2:5000", key)), Err(Error::Exists));
    for word in ["heard", "read", "bear"] {
        a.send(word.as_bytes()).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.to_string()), (word.to_uppercase().as_bytes(), "10.0.2.1:6000".into()));
        assert_eq!(tells.recv_timeout(PATIENCE).unwrap(), "10.0.1.2:5000 Ok(()) from 10.0.1.1");
    }
    assert!(is_refused(&a, b"other"), "the key does not hold");
    a.connect("10.0.1.2:5001").unwrap();
    assert!(is_refused(&a, b"heard"), "another port");
    node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
    a.connect("10.0.1.2:5000").unwrap();
    assert!(is_refused(&a, b"heard"), "the channel is no more");
    assert_eq!(node.with(move |os| os.inchan_destroy(channel), domain), Err(Error::Stale));
}

#[test]
fn what_a_domain_had_ends_with_it() {
    let Some(node) = Node::start("term") else { return };
    let (domain, _tells) = node.capitals();
    let (other, _others) = node.capitals();
    node.listen(domain, udp("*:5000", vec![])).unwrap();
    node.listen(other, udp("*:5001", vec![])).unwrap();
    assert_eq!(node.with(move |os| os.domain_terminate(other), domain), Err(Error::Denied), "not below it");
    let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    a.send(b"x").unwrap();
    b.recv(&mut [0; 4]).unwrap();
    node.with(move |os| os.domain_terminate(domain), domain).unwrap();
    assert!(is_refused(&a, b"x"), "nothing comes to a domain that has ended");
    assert_eq!(node.listen(domain, udp("*:5002", vec![])), Err(Error::Stale));
    a.connect("10.0.1.2:5001").unwrap();
    a.send(b"x").unwrap();
    b.recv(&mut [0; 4]).expect("the other goes on");
}

#[test]
fn a_cut_through_channel_forwards_without_anybodys_code() {
    let Some(node) = Node::start("cut") else { return };
    let (domain, _tells) = node.capitals();
    let ip = |port: &str, address: &str| ChanSpec {
        protocol: format!("{port}/ip"),
        address: address.into(),
        ..ChanSpec::default()
    };
    for (from, to, net) in [("if0", "if1", "10.0.2.0/24"), ("if1", "if0", "10.0.1.0/24")] {
        let (from, to) = (ip(from, net), ip(to, "* proto 17"));
        let cut = node.with(
            move |os| {
                let (from, to) = (os.inchan_create(domain, &from)?, os.outchan_create(domain, &to)?);
                os.cutchan_create(from, to)?;
                os.cutchan_create(from, to)
            },
            domain,
        );
        assert_eq!(cut, Err(Error::Exists), "one cut for each incoming channel");
    }
    let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.2.2:7000").unwrap();
    for round in 0..50u8 {
        a.send(&[round; 8]).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.to_string()), (&[round; 8][..], "10.0.1.1:4000".into()));
        b.send_to(b"back", from).unwrap();
        assert_eq!(a.recv(&mut buffer).unwrap(), 4);
    }
    let counts = node.handle.with_node(|node, _| node.channel_counts()).unwrap();
    assert_eq!(counts.cut, 100, "each way went through the cut");
    assert!(node.dir.path().join("control.sock").exists());
}
