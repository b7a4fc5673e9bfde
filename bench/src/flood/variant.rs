//! The forwarder between the flood's two ends: Linux, a forwarder in XDP written by hand, or a node.
//!
//! A variant that this machine or this program does not have says why ([`Variant::missing`]) and is left out with a note.

use std::cell::RefCell;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::Error;
use super::super::compile::KernelPrograms;
use super::super::gateway::{Gateway, Running};
use super::super::line::{ANEP_PORT, destination};
use super::super::node::{NodeGateway, PATIENCE};
use super::super::place::Site;
use super::super::plain::unchanged;
use super::super::programs;
use super::{Channel, Rhythm, filter, offload, shape};
use anode::code::bundle::Bundle;
use anode::wire::{Addr, anep, capsule};

const AGAIN: Duration = Duration::from_millis(2);
/// CPU time that a process may spend on each frame of a probe: an eighth of what its forwarding would cost at least.
const PROBE_NS: u64 = 150;
/// Behind a probe that did not come through whole: code that spent its budget on it may have it back.
const PAUSE: Duration = Duration::from_millis(30);
/// The share of a CPU that a process may use for itself meanwhile: clocks, timers.
const IDLE_SHARE: u64 = 200;
/// Time that a router may take to get one more code ready.
const PER_CODE: Duration = Duration::from_millis(50);

/// A way through the router.
pub(crate) struct Variant<'a> {
    /// Its name in tables.
    pub(crate) name: &'static str,
    way: Way<'a>,
    /// Packets that leave for one that comes in.
    pub(crate) copies: u32,
    /// Whether a process forwards, which in a flood would not get its turn.
    by_process: bool,
    /// Whether r0 has GRO without an XDP program.
    gro: bool,
    /// The token bucket of Linux before r1, as `tc` is told it.
    bucket: Option<&'a str>,
    /// Rules of nftables in the router, as `nft` is told them, after which all others are gone.
    rules: Option<String>,
    /// What puts a copy of each packet before the node's ingress, if that is wanted.
    copier: Option<&'a KernelPrograms>,
    /// Whether somebody captures at the node while it is measured, and who.
    captured: bool,
    listener: RefCell<Option<Running>>,
}

enum Way<'a> {
    /// The kernel's own, no program of ours.
    Linux,
    /// A program of `bench/c/router.bpf.c`.
    Xdp { programs: &'a KernelPrograms, section: &'static str },
    /// A program of `bench/c/children.bpf.c`.
    Children { programs: &'a KernelPrograms, way: &'static str },
    /// A node.
    Node(NodeGateway<'a>),
}

impl<'a> Variant<'a> {
    /// Linux forwards.
    pub(crate) fn linux(name: &'static str) -> Variant<'a> {
        Variant { gro: true, ..Variant::new(name, Way::Linux) }
    }

    fn new(name: &'static str, way: Way<'a>) -> Variant<'a> {
        Variant {
            name,
            way,
            copies: 1,
            by_process: false,
            gro: false,
            bucket: None,
            rules: None,
            copier: None,
            captured: false,
            listener: RefCell::new(None),
        }
    }

    /// The same through a token bucket of its own, as `tc` is told it.
    pub(crate) fn through(self, bucket: &'a str) -> Variant<'a> {
        Variant { bucket: Some(bucket), ..self }
    }

    /// The same with these rules of nftables and no others.
    pub(crate) fn filtered(self, rules: String) -> Variant<'a> {
        Variant { rules: Some(rules), ..self }
    }

    /// An XDP program sees the packets first.
    pub(crate) fn xdp(name: &'static str, programs: &'a KernelPrograms, section: &'static str) -> Variant<'a> {
        Variant::new(name, Way::Xdp { programs, section })
    }

    /// The kernel sends so many children for each packet.
    pub(crate) fn children(
        name: &'static str,
        programs: &'a KernelPrograms,
        way: &'static str,
        copies: u32,
    ) -> Variant<'a> {
        Variant { copies, ..Variant::new(name, Way::Children { programs, way }) }
    }

    /// `anode node run`, with the packet ports and options of this gateway.
    pub(crate) fn node(gateway: NodeGateway<'a>) -> Variant<'a> {
        Variant::new(gateway.title(), Way::Node(gateway))
    }

    /// The same, whose process sends so many children for each packet.
    pub(crate) fn node_with_children(gateway: NodeGateway<'a>, copies: u32) -> Variant<'a> {
        Variant { copies, by_process: true, ..Variant::node(gateway) }
    }

    /// The same, whose kernel half sends so many children for each packet.
    pub(crate) fn kernel_with_children(gateway: NodeGateway<'a>, copies: u32) -> Variant<'a> {
        Variant { copies, ..Variant::node(gateway) }
    }

    /// The same with GRO at the ingress, so that Linux sees what comes in whether or not there is a program.
    pub(crate) fn with_gro(self) -> Variant<'a> {
        Variant { gro: true, ..self }
    }

    /// The same, which copies every packet out of its frame and back before it looks at it.
    pub(crate) fn with_extra_copy(self, programs: &'a KernelPrograms) -> Variant<'a> {
        Variant { copier: Some(programs), ..self }
    }

    /// The same while somebody captures all that the node sees.
    pub(crate) fn captured(self) -> Variant<'a> {
        Variant { captured: true, ..self }
    }

    /// Whether it can be measured so.
    pub(crate) fn is_for(&self, rhythm: Rhythm) -> bool {
        rhythm == Rhythm::Fair || !self.by_process
    }

    /// Why it cannot be measured; `None` if it can be tried.
    pub(crate) fn missing(&self) -> Option<String> {
        match &self.way {
            // The last line of the configuration's error says what, those before show where.
            Way::Node(gateway) => Some(gateway.refusal()?.lines().last()?.into()),
            _ => None,
        }
    }

    /// The code of its capsules, if it has some of its own.
    pub(crate) fn bundles(&self) -> Option<&'a [Bundle]> {
        match &self.way {
            Way::Node(gateway) => Some(gateway.codes()).filter(|bundles| !bundles.is_empty()),
            _ => None,
        }
    }

    /// Whether a process of ours decides about packets, and could forward them itself.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self.way, Way::Node(_))
    }

    /// Whether a process forwards, not the kernel.
    pub(crate) fn is_by_process(&self) -> bool {
        self.by_process
    }

    /// A node whose process forwards.
    pub(crate) fn node_in_user_space(gateway: NodeGateway<'a>) -> Variant<'a> {
        Variant::node_with_children(gateway, 1)
    }

    /// Whether nothing arrives by design.
    pub(crate) fn drops(&self) -> bool {
        matches!(self.way, Way::Xdp { section: "drop", .. })
    }

    /// Starts it; what it needs is there when this returns.
    pub(crate) fn start(&self, site: &Site) -> Result<Option<Running>, Error> {
        offload(site, self.gro)?;
        self.bucket.map_or(Ok(()), |bucket| shape(site, bucket))?;
        self.rules.as_ref().map_or(Ok(()), |rules| filter(site, rules))?;
        match &self.way {
            Way::Linux => Ok(None),
            Way::Node(gateway) => {
                let node = gateway.start(site)?;
                let Some(programs) = self.copier else { return Ok(Some(node)) };
                let pins = site.scratch.path().join("run/bpf").to_string_lossy().into_owned();
                let copier = self.attach(site, &programs.copier, &programs.copier_object, &[pins, "r0".into()])?;
                Ok(Some(node.beside(copier)))
            }
            Way::Xdp { programs, section } => {
                let words = [section.to_string(), "r0".into(), "r1".into()];
                self.attach(site, &programs.router, &programs.router_object, &words).map(Some)
            }
            Way::Children { programs, way } => {
                let to = destination(1).to_string();
                let words = [way.to_string(), self.copies.to_string(), to, "r0".into(), "r1".into()];
                self.attach(site, &programs.children, &programs.children_object, &words).map(Some)
            }
        }
    }

    /// Starts a program of ours that attaches what is in an object file, and waits until it has.
    fn attach(&self, site: &Site, program: &Path, object: &Path, words: &[String]) -> Result<Running, Error> {
        let words = words.iter().map(OsString::from);
        let arguments: Vec<OsString> = std::iter::once(object.into()).chain(words).collect();
        self.ready(site.spawn(program, &arguments)?, "ready")
    }

    /// Starts `anode capture` for all that the node sees, and waits until the node tells it.
    fn listen(&self, site: &Site) -> Result<Running, Error> {
        let arguments = ["capture".into(), site.scratch.path().join("run").into(), "-w".into(), "/dev/null".into()];
        self.ready(site.spawn_ordinary("capture", &programs::node()?, &arguments)?, "capturing at")
    }

    /// Ends the capture, if there is one: packets that it has seen, and records that it has missed.
    pub(crate) fn heard(&self) -> Option<[u64; 2]> {
        let said = self.listener.take()?.end();
        counts(said.lines().last()?)
    }

    /// Waits until a program has said that it is ready.
    fn ready(&self, mut running: Running, words: &str) -> Result<Running, Error> {
        let limit = Instant::now() + PATIENCE;
        while !running.has_said(words) {
            if running.has_ended() || Instant::now() > limit {
                return Err(running.silent(self.name));
            }
            sleep(AGAIN);
        }
        Ok(running)
    }

    /// Waits until frames come through without a process that forwards them, and looks at one of them. From then on somebody captures,
    /// if that is what is measured: a process that tells of frames is not to be taken for one that forwards them.
    pub(crate) fn warm(
        &self,
        channel: &mut Channel,
        running: Option<&mut Running>,
        codes: u16,
        sent: &[u8],
    ) -> Result<(), Error> {
        self.listener.take();
        self.wait_until_warm(channel, running, codes, sent)?;
        if self.captured {
            self.listener.replace(Some(self.listen(&channel.site)?));
        }
        Ok(())
    }

    fn wait_until_warm(
        &self,
        channel: &mut Channel,
        running: Option<&mut Running>,
        codes: u16,
        sent: &[u8],
    ) -> Result<(), Error> {
        if self.drops() {
            return channel.probe(1).map(drop);
        }
        let limit = Instant::now() + PATIENCE + PER_CODE * u32::from(codes);
        let spent = || running.as_ref().map_or(0, |running| running.cpu_ns());
        while Instant::now() < limit {
            let (before, began) = (spent(), Instant::now());
            let arrived = channel.probe(self.copies)?;
            let idle_ns = u64::from(channel.probed()) * PROBE_NS + began.elapsed().as_nanos() as u64 / IDLE_SHARE;
            if let Some(arrived) = arrived.filter(|_| self.by_process || spent().saturating_sub(before) < idle_ns) {
                let wrong = |what| Error::Wrong { gateway: self.name.into(), what };
                return self.check(sent, &arrived).map_err(wrong);
            }
            std::thread::sleep(PAUSE);
        }
        let state = "there is no process".into();
        let nothing = Error::Silent { gateway: self.name.into(), state, log: "".into() };
        Err(running.map_or(nothing, |running| running.silent(self.name)))
    }

    /// Whether what came out of it is right.
    pub(crate) fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        match &self.way {
            _ if self.copies > 1 => is_child(sent, arrived),
            Way::Node(gateway) if is_capsule(sent) || gateway.has_channels() => gateway.check(sent, arrived),
            _ => unchanged(sent, arrived),
        }
    }
}

/// The last line of a capture: `12 packets, 3 missed`.
fn counts(line: &str) -> Option<[u64; 2]> {
    let (seen, missed) = line.strip_suffix(" missed")?.split_once(" packets, ")?;
    Some([seen.parse().ok()?, missed.parse().ok()?])
}

/// Bytes of a frame before its IP header's checksum and behind its capsule header.
const KEPT: [usize; 2] = [24, 42 + anep::HEADER + capsule::HEADER];

fn is_capsule(frame: &[u8]) -> bool {
    frame.get(36..38) == Some(&ANEP_PORT.to_be_bytes())
}

/// Whether a frame is the first child of another: to its own destination, with its part of the bound, and the same payload.
fn is_child(sent: &[u8], arrived: &[u8]) -> Result<(), String> {
    let to = destination(1);
    let header = |frame: &[u8]| capsule::Header::parse(frame.get(KEPT[1] - capsule::HEADER..)?).ok();
    let same = arrived.len() == sent.len()
        && arrived[12..KEPT[0] - 2] == sent[12..KEPT[0] - 2]
        && arrived[KEPT[1]..sent.len() - 4] == sent[KEPT[1]..sent.len() - 4];
    let sum: u32 = arrived
        .get(14..34)
        .unwrap_or_default()
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    match header(arrived) {
        Some(child) if same && (sum & 0xffff) + (sum >> 16) == 0xffff => {
            let right =
                child.bound == 1 && child.destination == Addr::from(IpAddr::V4(to)) && arrived[30..34] == to.octets();
            if right { Ok(()) } else { Err(format!("{child:?} came out, no child to {to}")) }
        }
        _ => Err("another packet came out".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn a_capture_says_what_it_has_seen_and_missed() {
        assert_eq!(counts("12 packets, 3 missed"), Some([12, 3]));
        for other in ["", "12 packets", "x packets, 3 missed", "anode: 12 packets, 3 missed"] {
            assert_eq!(counts(other), None, "{other}");
        }
    }
}
