//! Places in which a gateway is measured: between two loopback sockets, or between two veth pairs in own namespaces.
//!
//! ```text
//! udp:     burst 127.0.0.1:A ──▶ 127.0.0.1:GATEWAY ──▶ 127.0.0.1:B burst
//! packet:  burst s0 ──▶ r0 │gateway in namespace r, ip_forward off│ r1 ──▶ d0 burst
//! ```
//!
//! A place owns the generator, which is also the sink ([`super::burst`]), and whatever must be taken down afterwards. The namespaces
//! have no name: a holder process keeps each, and leaves when its standard input closes. So they vanish with everything in them
//! however this process ends: return, panic, Ctrl-C or kill -9.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Error;
use super::burst::Generator;
use super::compile::Programs;
use super::gateway::Running;

/// CPUs on which generator and gateway run. On one CPU everything is serial, so batches form alike in every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    /// CPU of generator and sink.
    pub(crate) generator: usize,
    /// CPU of the gateway.
    pub(crate) gateway: usize,
}

/// One end of a packet place as the gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Interface in the namespace of the gateway.
    pub(crate) interface: &'static str,
    /// Address of the gateway there, a /24.
    pub(crate) address: Ipv4Addr,
    /// MAC address of the gateway there.
    pub(crate) mac: &'static str,
    /// Address of the neighbour.
    pub(crate) peer: Ipv4Addr,
    /// MAC address of the neighbour (a permanent neighbour entry exists).
    pub(crate) peer_mac: &'static str,
}

/// What a gateway must know to stand in a place.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Datagrams come from `previous` to `listen` and must leave for `next`.
    Udp { listen: SocketAddr, previous: SocketAddr, next: SocketAddr },
    /// Frames come in on one interface and must leave on the other.
    Packet { ingress: Side, egress: Side },
}

/// A place.
#[derive(Debug)]
pub(crate) struct Place {
    /// How packets come and go.
    pub(crate) way: Way,
    /// Generator and sink.
    pub(crate) generator: Generator,
    /// An empty folder for the gateway's files; removed with the place.
    pub(crate) scratch: Scratch,
    programs: Programs,
    cpus: Cpus,
    netns: Option<OsString>,
    _holders: Vec<Holder>,
}

const S_MAC: &str = "02:00:00:00:01:01";
const R0_MAC: &str = "02:00:00:00:01:fe";
const R1_MAC: &str = "02:00:00:00:02:fe";
/// The neighbour behind r1. The interface d0 itself has another MAC address, so that the stack of namespace d lets go of each
/// frame at its first check, while the sink, which is an AF_PACKET socket, still sees it.
const D_MAC: &str = "02:00:00:00:02:01";
const D0_MAC: &str = "02:00:00:00:02:02";

/// The side of the previous hop, in addresses of the benchmark network (RFC 2544); its peer is the source of every packet.
pub(crate) const INGRESS: Side = Side {
    interface: "r0",
    address: Ipv4Addr::new(198, 18, 1, 254),
    mac: R0_MAC,
    peer: Ipv4Addr::new(198, 18, 1, 1),
    peer_mac: S_MAC,
};
/// The side of the next hop; its peer is the destination of every packet.
pub(crate) const EGRESS: Side = Side {
    interface: "r1",
    address: Ipv4Addr::new(198, 18, 2, 254),
    mac: R1_MAC,
    peer: Ipv4Addr::new(198, 18, 2, 1),
    peer_mac: D_MAC,
};

impl Place {
    /// A place between loopback sockets; needs no privilege.
    pub(crate) fn udp(programs: &Programs, cpus: Cpus) -> Result<Place, Error> {
        let listen = free_port()?;
        let arguments = ["udp".into(), listen.to_string().into()];
        let (generator, ports) = Generator::start(launch(programs, cpus.generator, None), &programs.burst, &arguments)?;
        let [previous, next] = ports[..] else { return Err(Error::Protocol("burst named no ports".into())) };
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let way = Way::Udp { listen, previous: at(previous), next: at(next) };
        Place::assemble(way, generator, programs, cpus, Vec::new())
    }

    /// A place between two veth pairs in three new namespaces; needs root.
    pub(crate) fn packet(programs: &Programs, cpus: Cpus) -> Result<Place, Error> {
        let hold = || Holder::start(programs);
        let (s, r, d) = (hold()?, hold()?, hold()?);
        let [for_s, for_r, for_d] = plan(r.pid());
        s.ip(programs, &for_s)?;
        d.ip(programs, &for_d)?;
        r.ip(programs, &for_r)?;
        let arguments = ["packet".into(), s.netns(), "s0".into(), d.netns(), "d0".into(), D_MAC.into()];
        let (generator, _) = Generator::start(launch(programs, cpus.generator, None), &programs.burst, &arguments)?;
        let way = Way::Packet { ingress: INGRESS, egress: EGRESS };
        Place::assemble(way, generator, programs, cpus, vec![r, s, d])
    }

    fn assemble(
        way: Way,
        generator: Generator,
        programs: &Programs,
        cpus: Cpus,
        holders: Vec<Holder>,
    ) -> Result<Place, Error> {
        let netns = holders.first().map(Holder::netns);
        let scratch = Scratch::new()?;
        Ok(Place { way, generator, scratch, programs: programs.clone(), cpus, netns, _holders: holders })
    }

    /// Starts a gateway's program here: in the right namespace, on the right CPU, and bound to end with this process. What it
    /// prints goes to a file that errors quote.
    pub(crate) fn spawn(&self, program: &Path, arguments: &[OsString]) -> Result<Running, Error> {
        let log = self.scratch.path().join("log");
        let file = File::create(&log).map_err(|cause| Error::Write { path: log.clone(), cause })?;
        let copy = file.try_clone().map_err(|cause| Error::Write { path: log.clone(), cause })?;
        let mut command = launch(&self.programs, self.cpus.gateway, self.netns.as_deref());
        command.arg(program).args(arguments).stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = command.spawn().map_err(|cause| Error::Start { program: program.into(), cause })?;
        Ok(Running::new(child, log))
    }

    /// Turns a UDP payload into what the generator of this place sends: itself, or a whole frame to the gateway.
    pub(crate) fn dress(&self, payload: &[u8]) -> Vec<u8> {
        match &self.way {
            Way::Udp { .. } => payload.to_vec(),
            Way::Packet { ingress, egress } => frame(ingress, egress, payload),
        }
    }
}

/// Octets of the IP packet around a UDP payload.
pub(crate) fn ip_length(payload: &[u8]) -> u32 {
    payload.len() as u32 + IP_UDP as u32
}

const IP_UDP: usize = 28;
/// "active-net" of the registry of ports.
const PORT: u16 = 3322;
const TTL: u8 = 64;

/// The frame as it leaves the previous hop: Ethernet, IPv4, UDP without checksum (RFC 768 permits that for IPv4).
fn frame(ingress: &Side, egress: &Side, payload: &[u8]) -> Vec<u8> {
    let mut ip = Vec::with_capacity(20);
    ip.extend([0x45, 0]);
    ip.extend((ip_length(payload) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, TTL, 17, 0, 0]);
    ip.extend(ingress.peer.octets());
    ip.extend(egress.peer.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());

    let mut frame = Vec::with_capacity(14 + IP_UDP + payload.len());
    frame.extend(mac_octets(ingress.mac).into_iter().chain(mac_octets(ingress.peer_mac)));
    frame.extend([8, 0]);
    frame.extend(ip);
    for word in [PORT, PORT, (8 + payload.len()) as u16, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// Reads `02:…`; octets that are no number count as 0 (the texts are constants above).
fn mac_octets(text: &str) -> [u8; 6] {
    let mut octets = [0; 6];
    for (octet, digits) in octets.iter_mut().zip(text.split(':')) {
        *octet = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    octets
}

/// `ip -batch` lines for the namespaces s, r, d; those of r presume the other two. IPv6 stays silent; nothing but the generator and the gateway ever sends.
fn plan(r_pid: u32) -> [String; 3] {
    let pair = |name: &str, mac: &str, peer: &str, peer_mac: &str| {
        format!(
            "link add {name} address {mac} type veth peer name {peer} netns {r_pid} address {peer_mac}\n\
             link set {name} addrgenmode none\nlink set {name} up\n"
        )
    };
    let side = |side: &Side| {
        let Side { interface, address, peer, peer_mac, .. } = side;
        format!(
            "link set {interface} addrgenmode none\nlink set {interface} up\naddr add {address}/24 dev {interface}\n\
             neigh replace {peer} lladdr {peer_mac} dev {interface} nud permanent\n"
        )
    };
    let router = format!("link set lo up\n{}{}", side(&INGRESS), side(&EGRESS));
    [pair("s0", S_MAC, "r0", R0_MAC), router, pair("d0", D0_MAC, "r1", R1_MAC)]
}

fn launch(programs: &Programs, cpu: usize, netns: Option<&OsStr>) -> Command {
    let mut command = Command::new(&programs.launch);
    command.arg("-s").arg("-c").arg(cpu.to_string());
    if let Some(netns) = netns {
        command.arg("-n").arg(netns);
    }
    command
}

/// A port of 127.0.0.1 that nobody has.
pub(crate) fn free_port() -> Result<SocketAddr, Error> {
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    probe.map_err(|cause| Error::Protocol(format!("no free UDP port on 127.0.0.1: {cause}")))
}

/// A process that keeps a namespace alive.
#[derive(Debug)]
struct Holder {
    child: Child,
}

impl Holder {
    fn start(programs: &Programs) -> Result<Holder, Error> {
        let mut command = Command::new(&programs.launch);
        command.arg("-H").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|cause| Error::Start { program: programs.launch.clone(), cause })?;
        let mut holder = Holder { child };
        let mut line = String::new();
        if let Some(output) = holder.child.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        if line.trim() == "ready" { Ok(holder) } else { Err(Error::NoNamespace) }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn netns(&self) -> OsString {
        format!("/proc/{}/ns/net", self.pid()).into()
    }

    fn ip(&self, programs: &Programs, lines: &str) -> Result<(), Error> {
        let mut command = Command::new(&programs.launch);
        command.arg("-n").arg(self.netns()).args(["ip", "-batch", "-"]);
        let missing = |cause| Error::Start { program: "ip".into(), cause };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(missing)?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(lines.as_bytes()).map_err(missing)?;
        }
        let output = child.wait_with_output().map_err(missing)?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(Error::Interfaces(log)) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A private folder. It goes when dropped, and also when this process is killed: a shell waits for its input to close and removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    janitor: Child,
}

const JANITOR: &str = r#"trap "" INT TERM HUP; read -r _; rm -rf -- "$1""#;

impl Scratch {
    /// Makes a new one among the temporary files.
    pub(crate) fn new() -> Result<Scratch, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anode-bench.{}.{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|cause| Error::Write { path: path.clone(), cause })?;
        let mut shell = Command::new("sh");
        shell.args(["-c", JANITOR, "sh"]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::null());
        let janitor = shell.spawn().map_err(|cause| Error::Start { program: "sh".into(), cause })?;
        Ok(Scratch { path, janitor })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_to_the_gateway_with_a_right_ip_checksum() {
        let frame = frame(&INGRESS, &EGRESS, &[7; 100]);
        assert_eq!(frame.len(), 14 + 128);
        assert_eq!(frame[..6], [2, 0, 0, 0, 1, 0xfe]);
        let sum: u32 = frame[14..34].chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(frame[36..38], PORT.to_be_bytes());
    }

    #[test]
    fn both_pairs_exist_before_the_router_uses_them() {
        let [s, r, d] = plan(42);
        assert!(s.contains("peer name r0 netns 42") && d.contains("peer name r1 netns 42"));
        assert!(r.contains("neigh replace 198.18.2.1 lladdr 02:00:00:00:02:01 dev r1"));
    }

    #[test]
    fn a_scratch_folder_is_gone_afterwards() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        assert!(path.is_dir());
        drop(scratch);
        assert!(!path.exists());
    }
}
