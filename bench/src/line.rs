//! Three network namespaces in a line: the previous hop, the router, the next hop.
//!
//! ```text
//! s │ s0 ──▶ r0 │ r, the gateway │ r1 ──▶ d0 │ d
//! ```
//!
//! The namespaces have no name: a holder process keeps each, and leaves when its standard input closes. So they vanish with everything
//! in them however this process ends: return, panic, Ctrl-C or kill -9. Frames for the line are made here too.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::Error;
use super::compile::Programs;

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

/// The interface of the previous hop.
pub(crate) const S0: &str = "s0";
/// The interface of the next hop.
pub(crate) const D0: &str = "d0";
const S_MAC: &str = "02:00:00:00:01:01";
const R0_MAC: &str = "02:00:00:00:01:fe";
const R1_MAC: &str = "02:00:00:00:02:fe";
/// The neighbour behind r1. The interface d0 itself has another MAC address, so that the stack of namespace d lets go of each
/// frame at its first check, while the sink, which is an AF_PACKET socket, still sees it.
pub(crate) const D_MAC: &str = "02:00:00:00:02:01";
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

/// Another next hop, where datagrams go to two.
pub(crate) const OTHER_HOP: Ipv4Addr = Ipv4Addr::new(198, 18, 2, 2);

/// The network behind the next hop, a /16: further destinations.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);

/// Destinations by number: the first is the next hop, the others are behind it.
pub(crate) fn destination(number: u16) -> Ipv4Addr {
    if number == 0 { EGRESS.peer } else { Ipv4Addr::from(FAR.to_bits() + u32::from(number)) }
}

/// Bytes of IPv4 and UDP headers.
pub(crate) const IP_UDP: usize = 28;

/// "active-net" of the registry of ports.
pub(crate) const ANEP_PORT: u16 = 3322;
const TTL: u8 = 64;

/// The frame to a UDP port of `destination` as it leaves the previous hop: Ethernet, IPv4, UDP without checksum (RFC
/// 768 permits that for IPv4).
pub(crate) fn frame(destination: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
    between([INGRESS.mac, INGRESS.peer_mac], [INGRESS.peer, destination], port, payload)
}

/// The frame to the previous hop as it leaves the next one.
pub(crate) fn frame_back(port: u16, payload: &[u8]) -> Vec<u8> {
    between([EGRESS.mac, EGRESS.peer_mac], [EGRESS.peer, INGRESS.peer], port, payload)
}

/// To and from which link address, from and to which host.
fn between(macs: [&str; 2], ends: [Ipv4Addr; 2], port: u16, payload: &[u8]) -> Vec<u8> {
    let mut ip = Vec::with_capacity(20);
    ip.extend([0x45, 0]);
    ip.extend(((IP_UDP + payload.len()) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, TTL, 17, 0, 0]);
    ip.extend(ends.map(|end| end.octets()).as_flattened());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());

    let mut frame = Vec::with_capacity(14 + IP_UDP + payload.len());
    frame.extend(macs.map(mac_bytes).as_flattened());
    frame.extend([8, 0]);
    frame.extend(ip);
    for word in [port, port, (8 + payload.len()) as u16, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// Reads `02:…`; bytes that are no number count as 0 (the texts are constants above).
fn mac_bytes(text: &str) -> [u8; 6] {
    let mut bytes = [0; 6];
    for (byte, digits) in bytes.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    bytes
}

/// `ip -batch` lines for the namespaces s, r, d; those of r presume the other two. IPv6 stays silent; nothing but the
/// generator and the gateway ever sends.
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
    let far = format!("route add {FAR}/16 via {}\n", EGRESS.peer);
    let router = format!("link set lo up\n{}{}{far}", side(&INGRESS), side(&EGRESS));
    [pair(S0, S_MAC, "r0", R0_MAC), router, pair(D0, D0_MAC, "r1", R1_MAC)]
}

/// The three namespaces, with interfaces and addresses.
#[derive(Debug)]
pub(crate) struct Line {
    /// The router's.
    pub(crate) r: Holder,
    /// The previous hop's.
    pub(crate) s: Holder,
    /// The next hop's.
    pub(crate) d: Holder,
}

impl Line {
    /// Makes them; needs root.
    pub(crate) fn new(programs: &Programs) -> Result<Line, Error> {
        let hold = || Holder::start(programs);
        let (s, r, d) = (hold()?, hold()?, hold()?);
        let [for_s, for_r, for_d] = plan(r.pid());
        s.ip(&for_s)?;
        d.ip(&for_d)?;
        r.ip(&for_r)?;
        Ok(Line { r, s, d })
    }

    /// The ends without the router: their interfaces are peers.
    pub(crate) fn direct(programs: &Programs) -> Result<Line, Error> {
        let hold = || Holder::start(programs);
        let (s, r, d) = (hold()?, hold()?, hold()?);
        s.ip(&format!("link add {S0} address {S_MAC} type veth peer name {D0} netns {} address {D0_MAC}\n", d.pid()))?;
        for (holder, interface) in [(&s, S0), (&d, D0)] {
            holder.ip(&format!("link set {interface} addrgenmode none\nlink set {interface} up\n"))?;
        }
        Ok(Line { r, s, d })
    }
}

/// A process that keeps a namespace alive.
#[derive(Debug)]
pub(crate) struct Holder {
    child: Child,
    launch: PathBuf,
}

impl Holder {
    fn start(programs: &Programs) -> Result<Holder, Error> {
        let mut command = Command::new(&programs.launch);
        command.arg("-H").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|cause| Error::Start { program: programs.launch.clone(), cause })?;
        let mut holder = Holder { child, launch: programs.launch.clone() };
        let mut line = String::new();
        if let Some(output) = holder.child.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        if line.trim() == "ready" { Ok(holder) } else { Err(Error::NoNamespace) }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file of the namespace.
    pub(crate) fn netns(&self) -> OsString {
        format!("/proc/{}/ns/net", self.pid()).into()
    }

    /// A file of /proc/net as it is inside.
    pub(crate) fn proc_net(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(format!("/proc/{}/net/{file}", self.pid())).ok()
    }

    /// Runs a program inside with this standard input; what it complains about is the error.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<(), Error> {
        let mut command = Command::new(&self.launch);
        command.arg("-n").arg(self.netns()).arg(program).args(arguments);
        let missing = |cause| Error::Start { program: program.into(), cause };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(missing)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that ended early says why in its status.
            let _ = pipe.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(missing)?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(Error::Interfaces(log)) }
    }

    /// Runs a program inside; gives what it prints.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(&self.launch);
        command.arg("-n").arg(self.netns()).arg(program).args(arguments).stdin(Stdio::null());
        let output = command.output().map_err(|cause| Error::Start { program: program.into(), cause })?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Interfaces(log))
        }
    }

    fn ip(&self, lines: &str) -> Result<(), Error> {
        self.run("ip", &["-batch", "-"], lines)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_to_the_gateway_with_a_right_ip_checksum() {
        let frame = frame(EGRESS.peer, ANEP_PORT, &[7; 100]);
        assert_eq!(frame.len(), 14 + 128);
        assert_eq!(frame[..6], [2, 0, 0, 0, 1, 0xfe]);
        let sum: u32 = frame[14..34].chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(frame[36..38], ANEP_PORT.to_be_bytes());
    }

    #[test]
    fn both_pairs_exist_before_the_router_uses_them() {
        let [s, r, d] = plan(42);
        assert!(s.contains("peer name r0 netns 42") && d.contains("peer name r1 netns 42"));
        assert!(r.contains("neigh replace 198.18.2.1 lladdr 02:00:00:00:02:01 dev r1"));
    }
}
