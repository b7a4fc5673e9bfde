//! What forwards between the flood's two ends: Linux, a forwarder in XDP written by hand, or a node.
//!
//! A variant that this machine or this program does not have says why ([`Variant::missing`]) and is left out with a note.

use std::ffi::OsString;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::Error;
use super::super::compile::KernelPrograms;
use super::super::gateway::{Gateway, Running, unchanged};
use super::super::node::{NodeGateway, PATIENCE};
use super::flood::Channel;

const AGAIN: Duration = Duration::from_millis(2);
/// CPU time that a process may spend on each frame of a probe: an eighth of what its forwarding would cost at least.
const PROBE_NS: u64 = 150;
/// The share of a CPU that a process may use for itself meanwhile: clocks, timers.
const IDLE_SHARE: u64 = 200;
/// Time that a router may take to get one more code ready.
const PER_CODE: Duration = Duration::from_millis(50);

/// A way through the router.
pub(super) struct Variant<'a> {
    /// Its name in tables.
    pub(super) name: &'static str,
    way: Way<'a>,
}

enum Way<'a> {
    /// The kernel's own, no program of ours.
    Linux,
    /// A program of `benches/c/router.bpf.c`.
    Xdp { programs: &'a KernelPrograms, section: &'static str },
    /// A node.
    Node(NodeGateway<'a>),
}

impl<'a> Variant<'a> {
    /// Linux forwards.
    pub(super) fn linux(name: &'static str) -> Variant<'a> {
        Variant { name, way: Way::Linux }
    }

    /// An XDP program sees the packets first.
    pub(super) fn xdp(name: &'static str, programs: &'a KernelPrograms, section: &'static str) -> Variant<'a> {
        Variant { name, way: Way::Xdp { programs, section } }
    }

    /// `anode node run`, with the packet ports and options of this gateway.
    pub(super) fn node(gateway: NodeGateway<'a>) -> Variant<'a> {
        Variant { name: gateway.title(), way: Way::Node(gateway) }
    }

    /// Why it cannot be measured; `None` if it can be tried.
    pub(super) fn missing(&self) -> Option<String> {
        match &self.way {
            // The last line of the configuration's error says what, those before show where.
            Way::Node(gateway) => Some(gateway.refusal()?.lines().last()?.into()),
            _ => None,
        }
    }

    /// Whether a process of ours decides about packets, and could forward them itself.
    pub(super) fn is_node(&self) -> bool {
        matches!(self.way, Way::Node(_))
    }

    /// Whether nothing arrives by design.
    pub(super) fn drops(&self) -> bool {
        matches!(self.way, Way::Xdp { section: "drop", .. })
    }

    /// Starts it; what it needs is there when this returns.
    pub(super) fn start(&self, channel: &Channel) -> Result<Option<Running>, Error> {
        channel.offload(matches!(self.way, Way::Linux))?;
        match &self.way {
            Way::Linux => Ok(None),
            Way::Node(gateway) => gateway.start(&channel.site).map(Some),
            Way::Xdp { programs, section } => {
                let arguments: [OsString; 4] =
                    [programs.router_object.clone().into(), section.into(), "r0".into(), "r1".into()];
                let mut running = channel.site.spawn(&programs.router, &arguments)?;
                let limit = Instant::now() + PATIENCE;
                while !running.has_said("ready") {
                    if running.has_ended() || Instant::now() > limit {
                        return Err(running.silent(self.name));
                    }
                    sleep(AGAIN);
                }
                Ok(Some(running))
            }
        }
    }

    /// Waits until frames come through without a process that forwards them, and looks at one of them.
    pub(super) fn warm(
        &self,
        channel: &mut Channel,
        running: Option<&mut Running>,
        codes: u16,
        sent: &[u8],
    ) -> Result<(), Error> {
        if self.drops() {
            return channel.probe().map(drop);
        }
        let limit = Instant::now() + PATIENCE + PER_CODE * u32::from(codes);
        let spent = || running.as_ref().map_or(0, |running| running.cpu_ns());
        while Instant::now() < limit {
            let (before, began) = (spent(), Instant::now());
            let arrived = channel.probe()?;
            let idle_ns = u64::from(channel.probed()) * PROBE_NS + began.elapsed().as_nanos() as u64 / IDLE_SHARE;
            if let Some(arrived) = arrived.filter(|_| spent().saturating_sub(before) < idle_ns) {
                let wrong = |what| Error::Wrong { gateway: self.name.into(), what };
                return self.check(sent, &arrived).map_err(wrong);
            }
        }
        let state = "there is no process".into();
        let nothing = Error::Silent { gateway: self.name.into(), state, log: "".into() };
        Err(running.map_or(nothing, |running| running.silent(self.name)))
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        match &self.way {
            Way::Node(gateway) => gateway.check(sent, arrived),
            _ => unchanged(sent, arrived),
        }
    }
}
