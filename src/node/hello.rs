//! Hellos: neighbours are known before they speak.
//!
//! ```text
//! once an interval, for each port where it is on ─▶ each configured neighbour; natively, everybody on the link
//! a hello ─▶ whose? ─▶ rate? ─▶ table of neighbours, until three of its intervals are over
//! ```
//!
//! A neighbour that says hello gets an index for `an_neighbour` in both halves, as one that has sent a capsule does. It
//! gets no route, and no answer: a hello causes no frame. Who it is counts as far as for a request for code
//! (`Cx::fetch_peer`): the peer of an overlay port, natively the IP source on the link, with a proof where one is
//! demanded. A message to everybody proves nothing to anybody. So a port that demands proofs sends none.
//!
//! What strangers share is the rate of new names: a name that is known has a rate of its own. So whoever floods a link with
//! hellos, in whatever names, keeps no neighbour from being heard again.

use super::environment::{Environment, OwnType, PacketKind};
use super::founding::secret;
use super::output::{Ingress, Turn};
use super::rates::Rates;
use super::receiving::say_neighbour;
use super::status::{HelloCounts, HelloStatus, Status};
use super::{Cx, Node};
use crate::classify::Native;
use crate::code::fetch::Source;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, PeerId, PortId};
use crate::topology::{Neighbour, NextHop, Port};
use crate::wire::hello::{Hello, INTERVAL_MAX, LENGTH};
use crate::wire::{Addr, Prefix, anep, plan};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A tenth of a second: the unit of intervals, in nanoseconds.
pub const TENTH: u64 = 100_000_000;
/// Intervals of silence after which a neighbour is forgotten.
const INTERVALS: u64 = 3;
/// New names that all strangers of a port may bring together in a second, and at once twice as many: a link of 256 neighbours, twice.
const PER_SECOND: u64 = 512;
/// What one neighbour may say in a second.
const EACH: u64 = 8;
/// What a hello of a neighbour with a share of its own takes of as much.
const OF_ONE: u64 = PER_SECOND / EACH;
/// Nanoseconds between two hellos of one name of a stranger, and how many may come at once.
const APART: u64 = 1_000_000_000 / EACH;
const AT_ONCE: u64 = 2 * EACH;
/// Neighbours of which the last hello is known.
const KNOWN_MAX: usize = crate::topology::neighbours::NEIGHBOURS_MAX;

/// A port that says hello.
#[derive(Clone, Copy)]
struct Saying {
    port: PortId,
    /// Tenths of a second.
    interval: u16,
    next: u64,
}

/// The last hello of a neighbour.
#[derive(Clone, Copy)]
struct Said {
    port: PortId,
    addr: Addr,
    age: u64,
    at: u64,
    until: u64,
    /// Until when its share is used up.
    used: u64,
}

impl Said {
    /// Whether the name may say another one; that is to be used next.
    fn may(&self, now: u64) -> Option<u64> {
        (self.used < now + AT_ONCE * APART).then(|| self.used.max(now) + APART)
    }
}

/// The environment of hellos.
pub(super) struct Hellos {
    saying: Vec<Saying>,
    said: Vec<Said>,
    rates: Rates<Ingress>,
    /// For the moments alone: code never learns of these numbers.
    chance: Xoshiro256PlusPlus,
    /// When the node began; nothing before its first hello.
    born: Option<u64>,
    counts: HelloCounts,
}

impl Environment for Hellos {
    fn types(&self) -> (&'static [OwnType], Option<crate::core::domain::DomainId>) {
        (&[OwnType { kind: PacketKind::Anep(anep::type_id::HELLO), waits: false }], None)
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: PacketKind, frame: Frame, native: Option<&Native>) {
        // The work is the node's own.
        cx.on_domain(turn.now, cx.control.management);
        match self.heard(cx, turn.now, &frame, native) {
            Ok(()) => cx.use_up(turn, frame),
            Err(reason) => cx.drop(turn, frame, reason),
        }
    }

    fn next_timer(&self) -> u64 {
        self.saying.iter().map(|saying| saying.next).min().unwrap_or(u64::MAX)
    }

    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        for at in 0..self.saying.len() {
            let Saying { port, interval, next } = self.saying[at];
            if next <= turn.now {
                // Never two within an interval, and not all nodes of a link at once.
                let pause = u64::from(interval) * TENTH;
                self.saying[at].next = turn.now + pause + self.chance.next_u64() % (pause / 4).max(1);
                self.say(cx, turn, port, interval);
            }
        }
    }

    fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let now = turn.now;
        if self.said.iter().any(|said| said.until <= now) {
            self.said.retain(|said| said.until > now);
            cx.core.topology.neighbours.forget_silent(now);
        }
        if self.said.len() == KNOWN_MAX {
            // Others have their places among the neighbours.
            self.said.retain(|said| cx.core.topology.neighbours.index(said.port, said.addr).is_some());
        }
    }

    fn status(&self, _: &Cx, status: &mut Status) {
        status.hellos = self.counts;
    }
}

impl Node {
    /// A port says hello from now on, and listens for it: once in so many tenths of a second, 1 to [`INTERVAL_MAX`].
    pub fn say_hello(&mut self, now: u64, port: PortId, interval: u16) {
        let interval = interval.clamp(1, INTERVAL_MAX);
        self.ask(|hellos: &mut Hellos, _| {
            hellos.born.get_or_insert(now);
            hellos.saying.retain(|saying| saying.port != port);
            let next = now + hellos.chance.next_u64() % (u64::from(interval) * TENTH / 4);
            hellos.saying.push(Saying { port, interval, next });
        });
    }
}

impl Node {
    /// A port says none from now on.
    pub fn say_no_hello(&mut self, port: PortId) {
        self.ask(|hellos: &mut Hellos, _| hellos.saying.retain(|saying| saying.port != port));
    }

    /// The interval of each port that says hello, in tenths of a second.
    pub fn hellos(&self) -> Vec<(PortId, u16)> {
        let saying = self.environments.get().map(|hellos: &Hellos| &hellos.saying[..]).unwrap_or_default();
        saying.iter().map(|saying| (saying.port, saying.interval)).collect()
    }
}

impl Hellos {
    /// The last one of a neighbour.
    pub(super) fn last_of(&self, port: PortId, addr: Addr) -> Option<HelloStatus> {
        let said = self.said.iter().find(|said| (said.port, said.addr) == (port, addr))?;
        Some(HelloStatus { age_ms: said.age / 1_000_000, heard_ns: said.at })
    }

    /// None are said yet.
    pub(super) fn new(seed: u64) -> Hellos {
        Hellos {
            saying: Vec::new(),
            said: Vec::new(),
            rates: Rates::new(PER_SECOND, 2 * PER_SECOND),
            chance: Xoshiro256PlusPlus::from_seed(secret(seed, b"hellos")),
            born: None,
            counts: HelloCounts::default(),
        }
    }

    /// A hello has come in: it begins the frame.
    fn heard(&mut self, cx: &mut Cx, now: u64, frame: &Frame, native: Option<&Native>) -> Result<(), Reason> {
        if !self.saying.iter().any(|saying| saying.port == frame.port) {
            return Err(Reason::UnknownType);
        }
        let hello = Hello::parse(frame.bytes()).map_err(|_| Reason::MalformedHello)?;
        let from = sender(cx, frame, &hello, native).ok_or(Reason::HelloForeign)?;
        let known = self.said.iter().position(|known| (known.port, known.addr) == (from.port, from.addr));
        let of_one = frame.peer != PeerId::NONE || frame.authenticated;
        let used = match known.and_then(|at| self.said.get(at)) {
            Some(said) if !of_one => said.may(now),
            _ => self.rates.charge(now, Ingress::of(frame), if of_one { OF_ONE } else { 1 }).then_some(now),
        };
        let used = used.ok_or(Reason::HelloRate)?;
        let until = now + INTERVALS * u64::from(hello.interval) * TENTH;
        let neighbours = &mut cx.core.topology.neighbours;
        let index = match neighbours.index(from.port, from.addr) {
            Some(index) => Some(index),
            None => {
                say_neighbour(&cx.core.name, from.addr);
                neighbours.learn_until(Neighbour { addr: from.addr, port: from.port, peer: from.peer }, now, until)
            }
        };
        // Who found no place in the table of neighbours has none here.
        let Some(index) = index else { return Err(Reason::HelloRate) };
        neighbours.hear_until(index, now, until);
        let said = Said { port: from.port, addr: from.addr, age: hello.age, at: now, until, used };
        match known {
            Some(at) => self.said[at] = said,
            None if self.said.len() < KNOWN_MAX => self.said.push(said),
            None => {}
        }
        self.counts.heard += 1;
        Ok(())
    }

    /// Says hello by one port: to each configured neighbour, and natively to everybody on the link.
    fn say(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, port: PortId, interval: u16) {
        let topology = &cx.core.topology;
        let Some(config) = topology.port(port) else { return };
        let native = matches!(config.link, Link::Ethernet { .. });
        let all = native && !cx.demands(port).mac;
        let here = |known: &&Neighbour| known.port == port && cx.expects(known.addr, port);
        // Everybody on the link is told together.
        let apart = |known: &&Neighbour| !(all && config.on_link(known.addr) && !cx.has_key(port, known.addr));
        let known = topology.neighbours.iter().filter(here).filter(apart);
        let mut to: Vec<Source> = known.map(|known| Source { port, peer: known.peer, addr: known.addr }).collect();
        // In one family alone: a neighbour is one, however many addresses it has.
        let everybody = known_as(config).filter(|_| all).map(|own| (plan::everybody(own.is_v4()), own));
        to.extend(everybody.map(|(group, _)| Source { port, peer: PeerId::NONE, addr: group }));
        let age = turn.now.saturating_sub(self.born.unwrap_or(turn.now));
        for to in to {
            let Some(config) = cx.core.topology.port(port) else { return };
            let group = everybody.filter(|(group, _)| *group == to.addr);
            let own = group.map_or_else(|| config.address_towards(to.addr), |(_, own)| own);
            let hello = Hello { interval, age, address: own };
            let mut frame = turn.out.pool.take();
            if !matches!(hello.emit(frame.room()), Ok(LENGTH)) {
                turn.out.pool.give(frame);
                continue;
            }
            frame.received(LENGTH);
            self.counts.said += 1;
            if group.is_some() {
                cx.send_to_everybody(turn, frame, anep::type_id::HELLO, own, NextHop { port, via: to.addr });
            } else {
                cx.send_to_neighbour(turn, frame, anep::type_id::HELLO, to);
            }
        }
    }
}

/// Who says hello, as far as it is to be believed: of an overlay port its peer, natively a neighbour or somebody on the
/// link whose packet has this address as its source, for this node or for everybody.
fn sender(cx: &Cx, frame: &Frame, hello: &Hello, native: Option<&Native>) -> Option<Source> {
    let own = cx.core.topology.is_own(hello.address);
    let from = match native {
        Some(native) if plan::is_everybody(native.destination) => {
            let on_link = cx.core.topology.port(frame.port).is_some_and(|port| port.on_link(native.source));
            let proved = !frame.authenticated || frame.sender == native.source;
            (on_link && proved).then_some(Source { port: frame.port, peer: PeerId::NONE, addr: native.source })?
        }
        _ => cx.fetch_peer(frame, hello.address, native)?,
    };
    (!own && from.addr == hello.address).then_some(from)
}

/// The address by which everybody on a link knows the node: the port's first in a subnet of the link, a link-local one if there is no
/// other. Not one of the host's loopback interface or of a tunnel, which nobody there would believe, and which is none of theirs to know.
fn known_as(port: &Port) -> Option<Addr> {
    let mut on_link =
        port.addresses.iter().filter(|(addr, subnet)| *subnet != Prefix::host(*addr)).map(|(addr, _)| *addr);
    let first = on_link.clone().next();
    on_link.find(|addr| !addr.is_link_local()).or(first)
}

impl Cx {
    /// Sends a message of this node to everybody on an Ethernet link, and no further.
    fn send_to_everybody(&mut self, turn: &mut Turn<'_>, mut frame: Frame, type_id: u16, own: Addr, to: NextHop) {
        self.core.ledger.made += 1;
        frame.envelope = Envelope { hop_limit: 1, ..Envelope::FRESH };
        if let Err((frame, reason)) = self.send(turn, frame, type_id, (to, PeerId::NONE), own, to.via) {
            self.drop(turn, frame, reason);
        }
    }
}
