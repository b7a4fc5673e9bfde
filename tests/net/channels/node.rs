//! A node between two hosts that runs in the test's process, and an environment that answers in capitals.

use crate::running::{PATIENCE, Running};
use crate::wait;
use anode::config::NodeFile;
use anode::core::reason::Reason;
use anode::manage::assemble;
use anode::manage::control::Handle;
use anode::manage::worker::Order;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, CutChanId, DomainId, Error, InChanId, NetSpec, NodeOs, OutChanId, Upcall};
use anode::trust::Role;
use anode::trust::grants::Grants;
use std::net::UdpSocket;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

pub const LINE: &str = r#"
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

/// The kinds of ports: what looks at frames first, and how they come to the node.
pub const PORTS: [(&str, &str); 4] =
    [("p", ""), ("k", "kernel = true"), ("x", "xdp = true"), ("b", "kernel = true\nxdp = true")];

/// A role of environments that channels are granted to.
pub fn role() -> Role {
    let grants = Grants { channels: 16, bandwidth: 1 << 30, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

/// Answers nobody; sends what comes in capitals, and says what became of it.
pub struct Capitals {
    pub out: Option<OutChanId>,
    pub told: Sender<String>,
}

impl InProcess for Capitals {
    fn upcall(&mut self, os: &mut dyn NodeOs, _: DomainId, upcall: Upcall) {
        let Upcall::Packet { mut frame, .. } = upcall else { return };
        let ends = frame.ends;
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
pub struct Node {
    pub net: Running,
    pub handle: Handle,
    pub worker: Option<JoinHandle<()>>,
    pub dir: tempfile::TempDir,
}

impl Node {
    /// With ports that have these lines of configuration.
    pub fn start(name: &str, ports: &str) -> Option<Node> {
        Node::start_on(name, ports, "")
    }

    /// The same after a script in its namespace.
    pub fn start_on(name: &str, ports: &str, script: &str) -> Option<Node> {
        let net = Running::build(name, LINE)?;
        // Linux refuses a host's datagrams once a second.
        net.shell("r", "sysctl -qw net.ipv4.icmp_ratelimit=0");
        net.shell("r", script);
        let dir = tempfile::tempdir().unwrap();
        let port = |interface: &str| format!("[[port]]\npacket = \"{interface}\"\n{ports}\n");
        let text = format!(
            "name = \"r\"\nrun_dir = \"{}\"\nroutes = \"kernel\"\n{}{}",
            dir.path().display(),
            port("to-a"),
            port("to-b")
        );
        let file = NodeFile::parse(&text).unwrap();
        let (ready, started) = channel();
        let run = move || {
            // The node is where its worker is: in a thread of this namespace.
            std::thread::spawn(move || {
                let node = assemble(&file).unwrap();
                ready.send(node.handle()).unwrap();
                node.run().unwrap();
            })
        };
        let worker = Some(net.lab.enter("r", run).unwrap());
        Some(Node { net, handle: started.recv_timeout(PATIENCE).unwrap(), worker, dir })
    }

    pub fn with<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn NodeOs) -> R + Send + 'static,
        as_domain: DomainId,
    ) -> R {
        let result = self.handle.with_node(move |node, turn| node.with_os(turn, as_domain, |os| work(os))).unwrap();
        // The ports know of channels that have come and gone.
        self.handle.settle().unwrap();
        result
    }

    /// An environment that sends in capitals to b's port 7000.
    pub fn capitals(&self) -> (DomainId, std::sync::mpsc::Receiver<String>) {
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
            let out = node.with_os(turn, domain, |os| os.outchan_create(domain, &out)).unwrap();
            node.replace_environment(domain, Box::new(Capitals { out: Some(out), told }));
            domain
        });
        (domain.unwrap(), tells)
    }

    /// An environment that says what comes, and keeps it.
    pub fn listener(&self) -> (DomainId, std::sync::mpsc::Receiver<(Vec<u8>, String)>) {
        let (told, tells) = channel();
        let attach = move |node: &mut anode::node::Node, _: &mut anode::node::Turn<'_>| {
            node.attach("listener", &role(), Box::new(Listener { told })).unwrap().1
        };
        (self.handle.with_node(attach).unwrap(), tells)
    }

    pub fn listen(&self, domain: DomainId, spec: ChanSpec) -> Result<InChanId, Error> {
        self.with(move |os| os.inchan_create(domain, &spec), domain)
    }

    pub fn socket(&self, node: &str, at: &str) -> UdpSocket {
        let socket = self.net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

impl Node {
    /// What has gone through the channels, by kind and in the order of their names.
    pub fn traffic(&self, kind: &'static str) -> Vec<(u64, u64, Option<u64>)> {
        let list = self.handle.with_node(|node, _| node.channel_list()).unwrap();
        let of = list.into_iter().filter(|channel| channel.kind == kind);
        of.map(|channel| (channel.traffic.packets, channel.traffic.dropped, channel.in_kernel)).collect()
    }

    /// A cut-through channel between two ends.
    pub fn cut(&self, domain: DomainId, from: [&'static str; 2], to: [&'static str; 2], bandwidth: u64) -> CutChanId {
        let net = NetSpec { bandwidth, ..NetSpec::default() };
        let spec = |[protocol, address]: [&str; 2]| ChanSpec {
            protocol: protocol.into(),
            address: address.into(),
            ..ChanSpec::default()
        };
        let work = move |os: &mut dyn NodeOs| {
            let from = os.inchan_create(domain, &spec(from)).unwrap();
            let to = os.outchan_create(domain, &ChanSpec { net, ..spec(to) }).unwrap();
            os.cutchan_create(from, to).unwrap()
        };
        self.with(work, domain)
    }

    /// Packets that were cut through, and those of them in the kernel.
    pub fn cut_through(&self) -> (u64, u64) {
        let each = self.traffic("cut");
        (each.iter().map(|cut| cut.0).sum(), each.iter().filter_map(|cut| cut.2).sum())
    }

    pub fn drops(&self, reason: Reason) -> u64 {
        self.handle.with_node(move |node, _| node.drops().of(reason)).unwrap()
    }

    /// Waits until something is so of which the node's status may tell.
    pub fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        wait::told(self.dir.path(), "status", |_| look())
    }

    /// Waits until so many are counted: what comes later on the flow may go by another half, and be there first.
    pub fn await_drops(&self, reason: Reason, count: u64) {
        self.until(|| (self.drops(reason) >= count).then_some(()));
        assert_eq!(self.drops(reason), count, "{reason:?}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have failed already.
        let _ = self.handle.order(Order::Stop);
        // It takes out of the kernel what it has put there.
        let _ = self.worker.take().map(JoinHandle::join);
    }
}

/// Says what came to a channel.
pub struct Listener {
    pub told: Sender<(Vec<u8>, String)>,
}

impl InProcess for Listener {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        let ends = frame.ends;
        let (from, to) = (ends.source.unwrap(), ends.destination.unwrap());
        let _ = self.told.send((frame.bytes().to_vec(), format!("{}:{} -> {}:{}", from.0, from.1, to.0, to.1)));
        os.packet_free(domain, frame);
    }
}
