//! A node as a gateway: `anode node run`, configured for the place it stands in, with the capsule's code in its store.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Error;
use super::gateway::{Gateway, Running};
use super::line::{EGRESS, INGRESS, IP_UDP, OTHER_HOP, S0, Side};
use super::place::{Site, Way};
use super::programs;
use anode::code::bundle::Bundle;
use anode::config::NodeFile;
use anode::manage::client::{ClientError, Control};
use anode::wire::{Addr, anep, capsule};
use model::code::Made;
use model::domains::Domains;
use model::graphs::Handler;
use model::revoked::Ended;
use model::status::Status;
use model::{Ask, Cut, Taken};
use serde::de::DeserializeOwned;

/// For how long a node may take to come up, or a capsule to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(5);

/// Bytes of a datagram's payload in an IP packet of 1500.
const LARGEST: usize = 1500 - IP_UDP;
/// Bytes of Ethernet, IPv4 and UDP headers.
const FRAME_HEADERS: usize = 42;

/// The whole node process.
pub(crate) struct NodeGateway<'a> {
    name: &'static str,
    bundles: &'a [Bundle],
    /// Lines of its configuration: its own, and those of each `[[port]]`.
    options: [String; 2],
    /// Whether PLAN packets are sent.
    plan: bool,
    /// Ends of a cut-through channel of its.
    cut: Option<[&'static str; 2]>,
    /// Whether an environment of its sends on what it gets.
    passes_on: bool,
    /// A graph of its, and what is written to one of its handlers when it is up.
    graph: Option<(&'static str, Option<(&'static str, String)>)>,
}

impl<'a> NodeGateway<'a> {
    /// A node that knows this code.
    pub(crate) fn new(name: &'static str, bundles: &'a [Bundle]) -> NodeGateway<'a> {
        NodeGateway {
            name,
            bundles,
            options: Default::default(),
            plan: false,
            cut: None,
            passes_on: false,
            graph: None,
        }
    }

    /// The same with more lines in its configuration: some of its own, some in each of its `[[port]]`s.
    pub(crate) fn configured(self, own: &str, port: &str) -> NodeGateway<'a> {
        NodeGateway { options: [own.into(), port.into()], ..self }
    }

    /// The same for PLAN packets that it routes.
    pub(crate) fn forwards_plan(self) -> NodeGateway<'a> {
        NodeGateway { plan: true, ..self }
    }

    /// The same with a cut-through channel between these, in a role called "cut".
    pub(crate) fn cut(self, from: &'static str, to: &'static str) -> NodeGateway<'a> {
        NodeGateway { cut: Some([from, to]), ..self }
    }

    /// The same with an environment that sends on the payload of what it gets.
    pub(crate) fn passes_on(self) -> NodeGateway<'a> {
        NodeGateway { passes_on: true, ..self }
    }

    /// The same with a graph that forwards, one of whose handlers is written to when it is up.
    pub(crate) fn writes(self, graph: &'static str, what: Option<(&'static str, String)>) -> NodeGateway<'a> {
        NodeGateway { graph: Some((graph, what)), ..self }
    }

    /// Whether datagrams go through a channel of its.
    pub(crate) fn has_channels(&self) -> bool {
        self.cut.is_some() || self.passes_on
    }

    /// Its name in tables.
    pub(crate) fn title(&self) -> &'static str {
        self.name
    }

    /// The code that it knows.
    pub(crate) fn codes(&self) -> &'a [Bundle] {
        self.bundles
    }

    /// Why a node refuses to be configured so; `None` if it does not.
    pub(crate) fn refusal(&self) -> Option<String> {
        NodeFile::parse(&native("/run".as_ref(), &INGRESS, &EGRESS, &self.options)).err().map(|error| error.to_string())
    }
}

impl Gateway for NodeGateway<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn bundles(&self) -> &[Bundle] {
        self.bundles
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let dir = site.scratch.path().join("run");
        let config = site.scratch.path().join("node.toml");
        let text = match &site.way {
            Way::Udp { listen, previous, next, other } => {
                overlay(&dir, *listen, [Some(*previous), Some(*next), *other], &self.options[0])
            }
            Way::Packet { ingress, egress } => native(&dir, ingress, egress, &self.options),
        };
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        if let (Some(_), Some(line)) = (&self.graph, &site.line) {
            // Both of a graph's devices take what is redirected to them, though nothing goes back here.
            line.s.run("ethtool", &["-K", S0, "gro", "on"], "")?;
        }
        let mut running = site.spawn(&programs::node()?, &["node".into(), "run".into(), config.into()])?;
        let mut up = Up::wait(&dir).map_err(|_| running.silent(self.name))?;
        for bundle in self.bundles {
            up.add(bundle)?;
        }
        if let Some([from, to]) = self.cut {
            up.cut(from, to)?;
        }
        if let Some((name, Some((handler, value)))) = &self.graph {
            let (name, handler, value) = ((*name).into(), (*handler).into(), value.clone());
            let _: Handler = up.asked(&Ask::WriteGraph { name, handler, value })?;
        }
        Ok(running)
    }

    /// A hop spends one of the bound and enters itself as the previous node; natively the hop limit goes down too.
    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        let at = if sent.len() >= FRAME_HEADERS && sent[12..14] == [8, 0] { FRAME_HEADERS } else { 0 };
        if self.has_channels() {
            return check_cut(sent, arrived);
        }
        if self.plan {
            return check_plan(&sent[at..], &arrived[at..]);
        }
        let parse = |bytes: &[u8]| {
            let anep = anep::Packet::new_checked(&bytes[at..]).map_err(|error| error.to_string())?;
            capsule::Header::parse(anep.payload()).map_err(|error| error.to_string())
        };
        if sent.len() != arrived.len() {
            return Err(format!("{} bytes came out of {}", arrived.len(), sent.len()));
        }
        let (before, after) = (parse(sent)?, parse(arrived)?);
        let own = Addr::from(IpAddr::V4(EGRESS.address));
        let expected = capsule::Header { bound: before.bound - 1, previous: own, ..before };
        let (start, end) = (at + anep::HEADER + capsule::HEADER, sent.len() - 4);
        if after != expected || (start < end && sent[start..end] != arrived[start..end]) {
            return Err(format!("{after:?} came out, not {expected:?}, or another payload"));
        }
        Ok(())
    }
}

/// A datagram that was cut through has its receiver and its payload, and a right sum if it had one.
fn check_cut(sent: &[u8], arrived: &[u8]) -> Result<(), String> {
    const RECEIVER: core::ops::Range<usize> = 30..34;
    let right = arrived.len() == sent.len()
        && arrived[RECEIVER] == sent[RECEIVER]
        && arrived[36..40] == sent[36..40]
        && arrived[FRAME_HEADERS..] == sent[FRAME_HEADERS..];
    let header = anode::wire::ipv4::Packet::new_checked(&arrived[14..]).map_err(|error| error.to_string())?;
    let datagram = anode::wire::udp::Packet::new_checked(header.payload()).map_err(|error| error.to_string())?;
    let summed = header.verify_checksum() && datagram.verify_checksum(header.source(), header.destination());
    if right && summed { Ok(()) } else { Err(format!("{arrived:02x?} came out of {sent:02x?}")) }
}

/// A hop spends one of a PLAN packet's bound and enters the node as the previous one.
fn check_plan(sent: &[u8], arrived: &[u8]) -> Result<(), String> {
    let mut expected = sent.get(anep::HEADER..).unwrap_or(&[]).to_vec();
    let own = plan::value::Host(Addr::from(IpAddr::V4(EGRESS.address)).0);
    let spent = plan::packet::ViewMut::new_checked(&mut expected).is_some_and(|mut view| view.spend(1, own));
    let (end, arrived) = (expected.len().saturating_sub(4), arrived.get(anep::HEADER..).unwrap_or(&[]));
    match spent && arrived.get(..end) == expected.get(..end) && arrived.len() == expected.len() {
        true => Ok(()),
        false => Err(format!("{arrived:02x?} came out, not {expected:02x?}")),
    }
}

/// The socket side of a node that is up.
pub(crate) struct Up {
    /// Its run directory.
    pub(crate) dir: PathBuf,
    control: Control,
}

impl Up {
    /// Waits until the node with this run directory answers.
    pub(crate) fn wait(dir: &Path) -> Result<Up, Error> {
        let limit = Instant::now() + PATIENCE;
        loop {
            match Control::connect(dir) {
                Ok(control) => return Ok(Up { dir: dir.into(), control }),
                Err(ClientError::NotRunning(..)) if Instant::now() < limit => std::thread::sleep(AGAIN),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Whether capsules of this code have run in its kernel half.
    pub(crate) fn runs_in_kernel(&mut self, bundle: &Bundle) -> Result<bool, Error> {
        let status = self.status()?;
        let name = bundle.name().to_string();
        let codes = status.kernel.iter().flat_map(|half| &half.codes);
        Ok(codes.filter(|code| code.name == name).any(|code| code.usage.packets > 0))
    }

    /// How code was compiled that is ready.
    pub(crate) fn tier(&mut self, bundle: &Bundle) -> Result<Option<String>, Error> {
        let status = self.status()?;
        let name = bundle.name().to_string();
        Ok(status.codes.into_iter().find(|code| code.name == name).and_then(|code| code.tier))
    }

    /// Its counters.
    pub(crate) fn status(&mut self) -> Result<Status, Error> {
        self.asked(&Ask::Status)
    }

    /// What it says to a request.
    pub(crate) fn asked<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, Error> {
        self.control.asked(ask).map_err(failed)
    }

    /// Revokes code as the operator; gives the time until the answer.
    pub(crate) fn revoke(&mut self, bundle: &Bundle) -> Result<Duration, Error> {
        let ask = Ask::Revoke(Taken::Here { what: "code".into(), name: bundle.name().to_string() });
        let began = Instant::now();
        let ended: Ended = self.asked(&ask)?;
        let took = began.elapsed();
        match ended {
            Ended { codes: 1, remembered: true, .. } => Ok(took),
            _ => Err(Error::Node(format!("code was not revoked: {ended:?}"))),
        }
    }

    /// Makes a cut-through channel: protocol and address of each end.
    fn cut(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let end =
            |text: &str| text.split_once(' ').map_or([text.to_owned(), String::new()], |(a, b)| [a.into(), b.into()]);
        let (title, role) = ("cut".to_owned(), "cut".to_owned());
        let wanted = Ask::Cut(Cut { title, role, from: end(from), to: end(to), bandwidth: 0 });
        self.asked::<Made>(&wanted).map(drop)
    }

    /// The process of its environment, once that runs.
    pub(crate) fn environment_pid(&mut self) -> Result<u32, Error> {
        let limit = Instant::now() + PATIENCE;
        loop {
            let all: Domains = self.asked(&Ask::Domains)?;
            let environment = all.environments.first();
            match environment.and_then(|environment| environment.pid) {
                // Behind process 1 of its jail, if that is what is known.
                Some(pid) => return Ok(child_of(pid).unwrap_or(pid)),
                None if Instant::now() < limit && environment.is_some_and(|it| it.state == "waiting") => {
                    std::thread::sleep(AGAIN);
                }
                None => return Err(Error::Node(format!("its environment does not run: {environment:?}"))),
            }
        }
    }

    /// Puts code into its store.
    pub(crate) fn add(&mut self, bundle: &Bundle) -> Result<(), Error> {
        self.control.add_code(bundle).map(drop).map_err(failed)
    }
}

/// What a client of a node said, as an error of the benchmark.
pub(crate) fn failed(error: ClientError) -> Error {
    Error::Node(error.to_string())
}

/// Where the previous hop is, the next one, and the other next one.
fn overlay(dir: &Path, listen: SocketAddr, at: [Option<SocketAddr>; 3], own: &str) -> String {
    let neighbours = [INGRESS.peer, EGRESS.peer, OTHER_HOP].into_iter().zip(at);
    let known =
        neighbours.filter_map(|(address, at)| Some(format!("{{ address = \"{address}\", at = \"{}\" }},\n", at?)));
    format!(
        "name = \"bench\"\nrun_dir = {dir:?}\n{own}\n[[port]]\nudp = \"{listen}\"\nmtu = {LARGEST}\naddress = [\"{}/24\"]\nneighbours = [\n\
         {}]\n",
        EGRESS.address,
        known.collect::<String>()
    )
}

fn native(dir: &Path, ingress: &Side, egress: &Side, [own, option]: &[String; 2]) -> String {
    let port = |side: &Side| format!("[[port]]\npacket = \"{}\"\n{option}\n", side.interface);
    // On disk there is room for a thousand codes.
    let store = dir.join("store");
    format!("name = \"bench\"\nrun_dir = {dir:?}\nstore = {store:?}\n{own}\n{}{}", port(ingress), port(egress))
}

/// The first child of a process.
fn child_of(process: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlay_configuration_is_one() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        for other in [None, Some(at(4))] {
            let text = overlay("/tmp/x".as_ref(), at(1), [Some(at(2)), Some(at(3)), other], "");
            let (config, _) = NodeFile::parse(&text).unwrap().plan().unwrap();
            let via = |hop| config.routes.next_hop(Addr::from(IpAddr::V4(hop))).map(|next| next.via);
            assert_eq!(via(EGRESS.peer), Some(Addr::from(IpAddr::V4(EGRESS.peer))));
            assert_eq!(config.neighbours.len(), if other.is_some() { 3 } else { 2 });
        }
    }

    #[test]
    fn an_unknown_port_option_is_refused_with_its_name() {
        assert_eq!(NodeGateway::new("plain", &[]).refusal(), None);
        let refusal = NodeGateway::new("odd", &[]).configured("", "no-such-option = 1").refusal().unwrap();
        assert!(refusal.contains("no-such-option"), "{refusal}");
    }
}
