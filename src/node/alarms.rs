//! Alarms: one line in the log for an attack that goes on. Example: "port 1 drops 4,000 packets a second under
//! `look-up-rate`, last from 10.0.0.9".
//!
//! ```text
//! drop ─▶ count and last source, of the port and reason ─▶ once a second: ten more than were told of, ten seconds ago? ─▶ one line
//! ```
//!
//! Counters have the numbers, but somebody has to be told to look. A drop costs a few words of memory here, in a table
//! with a place for each port and reason; nothing is written before the timer. What applications of this node have sent
//! came by no port, and has a row of its own. The last source is the claim of the packet or, on an overlay, its sender:
//! a hint.

use super::Cx;
use crate::core::reason::Reason;
use crate::frame::{Frame, Payer, PeerId, PortId};
use crate::topology::Topology;
use crate::wire::{Addr, capsule};

/// What others can cause as fast as they send.
const REASONS: [Reason; 24] = [
    Reason::EntryShare,
    Reason::Stranger,
    Reason::Unauthenticated,
    Reason::Unsigned,
    Reason::MacForged,
    Reason::MacReplayed,
    Reason::MalformedPacket,
    Reason::MalformedAnep,
    Reason::MalformedCapsule,
    Reason::MalformedFetch,
    Reason::MalformedRevocation,
    Reason::MalformedPlan,
    Reason::LinkAddress,
    Reason::LookUpRate,
    Reason::CodeShare,
    Reason::FetchRate,
    Reason::FetchUnowed,
    Reason::ServingFull,
    Reason::FetchFull,
    Reason::FetchTimeout,
    Reason::FetchUnpaid,
    Reason::RevocationRate,
    Reason::Fuel,
    Reason::PathFull,
];

/// Drops of one port and reason that are worth a line, beyond those told of.
const LEAST: u64 = 10;

/// Time between two lines of one port and reason, in nanoseconds.
const PAUSE: u64 = 10_000_000_000;

/// Who has caused a drop, as far as the packet says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A neighbour of an overlay.
    Peer(PeerId),
    /// An active node, by its address.
    Node(Addr),
    /// Where it came from.
    From(Addr, u16),
    /// An application of this node.
    Own,
}

/// The drops of one port and reason.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    count: u64,
    /// How many of them the log has told of, and when it did so last.
    told: u64,
    said: Option<u64>,
    last: Source,
}

/// What is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alarm {
    port: PortId,
    reason: Reason,
    /// Since the last line.
    drops: u64,
    last: Source,
}

/// The drops of all ports that may be attacks, and behind them those of what began here.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    places: Vec<[Place; REASONS.len()]>,
}

impl Alarms {
    /// For so many ports.
    pub(super) fn new(ports: usize) -> Alarms {
        Alarms { places: vec![Default::default(); ports + 1] }
    }

    /// There are so many ports from now on.
    pub(super) fn make_room(&mut self, ports: usize) {
        let own = self.places.pop().unwrap_or_default();
        self.places.resize(ports.max(self.places.len()), Default::default());
        self.places.push(own);
    }

    /// A frame is dropped.
    #[inline]
    pub(super) fn note(&mut self, frame: &Frame, reason: Reason) {
        if !REASONS.contains(&reason) {
            return;
        }
        let (last, port, own) = (source(frame, reason), usize::from(frame.port.0), self.places.len().saturating_sub(1));
        let row = match last {
            Source::Own => own,
            _ if port < own => port,
            // A port that is not there.
            _ => return,
        };
        if let Some(place) = self.place(row, reason) {
            place.count += 1;
            place.last = last;
        }
    }

    /// The same where no frame is dropped at once; `source`: as far as that is known.
    pub(super) fn note_of(&mut self, port: PortId, reason: Reason, source: Option<Source>) {
        if let Some(place) = self.place(port.0.into(), reason) {
            place.count += 1;
            place.last = source.unwrap_or(place.last);
        }
    }

    #[inline]
    fn place(&mut self, row: usize, reason: Reason) -> Option<&mut Place> {
        let at = REASONS.iter().position(|known| *known == reason)?;
        self.places.get_mut(row)?.get_mut(at)
    }

    /// What is to be said at `now`, in nanoseconds.
    fn due(&mut self, now: u64) -> impl Iterator<Item = Alarm> {
        let due = move |place: &Place| {
            place.count - place.told >= LEAST && place.said.is_none_or(|said| now.saturating_sub(said) >= PAUSE)
        };
        let ports = self.places.iter_mut().zip(0..);
        let places = ports.flat_map(|(port, number)| port.iter_mut().zip(REASONS).map(move |it| (number, it)));
        places.filter(move |(_, (place, _))| due(place)).map(move |(number, (place, reason))| {
            let drops = place.count - place.told;
            (place.told, place.said) = (place.count, Some(now));
            Alarm { port: PortId(number), reason, drops, last: place.last }
        })
    }
}

/// Who has sent a frame, as far as that shows without finding out more.
pub(super) fn source(frame: &Frame, reason: Reason) -> Source {
    if let Some((addr, port)) = frame.ends.source {
        return Source::From(addr, port);
    }
    if frame.peer != PeerId::NONE {
        return Source::Peer(frame.peer);
    }
    if !frame.sender.is_unspecified() {
        return Source::Node(frame.sender);
    }
    // Here the frame begins with a capsule, of a native port or of an application.
    let of_capsule = matches!(
        reason,
        Reason::Fuel
            | Reason::PathFull
            | Reason::CodeShare
            | Reason::FetchFull
            | Reason::FetchTimeout
            | Reason::FetchUnpaid
    );
    let header = of_capsule.then(|| capsule::Header::parse(frame.bytes()));
    match header {
        Some(Ok(header)) if !header.previous.is_unspecified() => Source::Node(header.previous),
        Some(Ok(_)) if frame.payer == Payer::NOBODY => Source::Own,
        _ => Source::Unknown,
    }
}

impl Source {
    /// For people.
    fn words(self, port: PortId, topology: &Topology) -> String {
        match self {
            Source::Unknown => "unknown".into(),
            Source::Peer(peer) => match topology.neighbours.of_peer(port, peer) {
                Some((_, known)) => format!("neighbour {}", known.addr),
                None => "unknown".into(),
            },
            Source::Node(addr) => format!("node {addr}"),
            Source::From(addr, number) => format!("{addr} port {number}"),
            Source::Own => "an application of this node".into(),
        }
    }
}

impl Cx {
    /// Says what is dropped and goes on to be, a line for each port and reason in `PAUSE`.
    pub(super) fn raise_alarms(&mut self, now: u64) {
        let topology = &self.core.topology;
        for Alarm { port, reason, drops, last } in self.control.alarms.due(now) {
            let name = if last == Source::Own { "none" } else { topology.port(port).map_or("?", |port| &port.name) };
            let (reason_name, last) = (reason.name(), last.words(port, topology));
            tracing::warn!(
                node = self.core.name,
                port = name,
                reason = reason_name,
                drops,
                last,
                "dropped: {}",
                reason.help()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Digest;

    fn frame(port: u16, peer: PeerId) -> Frame {
        let mut frame = Frame::from_bytes(&[0; 8]);
        (frame.port, frame.peer) = (PortId(port), peer);
        frame
    }

    #[test]
    fn an_attack_is_said_once_in_ten_seconds_for_each_port_and_reason_with_its_last_source() {
        let mut alarms = Alarms::new(2);
        let said = |alarms: &mut Alarms, second: u64| alarms.due(second * 1_000_000_000).collect::<Vec<_>>();
        for _ in 0..LEAST - 1 {
            alarms.note(&frame(1, PeerId(3)), Reason::Fuel);
        }
        alarms.note(&frame(1, PeerId(3)), Reason::NoRoute);
        alarms.note(&frame(9, PeerId(3)), Reason::Fuel);
        assert_eq!(said(&mut alarms, 1), [], "a few are no attack, and not every reason is one");
        alarms.note(&frame(1, PeerId(4)), Reason::Fuel);
        let mut stranger = frame(0, PeerId::NONE);
        stranger.ends.source = Some((Addr::v4([192, 0, 2, 1]), 7));
        (0..50).for_each(|_| alarms.note(&stranger, Reason::Stranger));
        let of = |port, reason, drops, last| Alarm { port: PortId(port), reason, drops, last };
        let stranger_line = of(0, Reason::Stranger, 50, Source::From(Addr::v4([192, 0, 2, 1]), 7));
        assert_eq!(said(&mut alarms, 2), [stranger_line, of(1, Reason::Fuel, 10, Source::Peer(PeerId(4)))]);
        (0..1000).for_each(|_| alarms.note(&frame(1, PeerId(3)), Reason::Fuel));
        assert_eq!((3..12).map(|second| said(&mut alarms, second).len()).sum::<usize>(), 0);
        assert_eq!(said(&mut alarms, 12), [of(1, Reason::Fuel, 1000, Source::Peer(PeerId(3)))]);
        assert_eq!(said(&mut alarms, 99), []);
    }

    #[test]
    fn what_strangers_cause_as_fast_as_they_send_is_an_attack() {
        use Reason::{FetchFull, FetchRate, FetchTimeout, FetchUnpaid};
        use Reason::{LookUpRate, MalformedAnep, RevocationRate, Unauthenticated, Unsigned};
        let of_code = [LookUpRate, FetchRate, FetchFull, FetchTimeout, FetchUnpaid];
        for reason in of_code.into_iter().chain([Unauthenticated, Unsigned, MalformedAnep, RevocationRate]) {
            let mut alarms = Alarms::new(1);
            (0..LEAST).for_each(|_| alarms.note(&frame(0, PeerId(3)), reason));
            let said: Vec<_> = alarms.due(1).map(|alarm| (alarm.reason, alarm.drops)).collect();
            assert_eq!(said, [(reason, LEAST)]);
        }
    }

    #[test]
    fn codes_that_give_way_are_said_with_the_last_that_is_known_to_have_brought_one() {
        let (mut alarms, from) = (Alarms::new(2), Source::Node(Addr::v4([192, 0, 2, 7])));
        alarms.note_of(PortId(1), Reason::CodeShare, Some(from));
        (1..LEAST).for_each(|_| alarms.note_of(PortId(1), Reason::CodeShare, None));
        let said: Vec<_> = alarms.due(1).map(|alarm| (alarm.port, alarm.reason, alarm.drops, alarm.last)).collect();
        assert_eq!(said, [(PortId(1), Reason::CodeShare, LEAST, from)]);
    }

    #[test]
    fn the_source_is_what_the_packet_shows() {
        let mut native = frame(0, PeerId::NONE);
        assert_eq!(source(&native, Reason::Fuel), Source::Unknown);
        native.sender = Addr::v4([10, 0, 0, 1]);
        assert_eq!(source(&native, Reason::MacForged), Source::Node(native.sender));
        let header = capsule::Header {
            app_port: 1,
            bound: 1,
            code: Digest::of(b""),
            previous: Addr::v4([10, 0, 0, 9]),
            source: Addr::v4([10, 0, 0, 8]),
            destination: Addr::v4([10, 0, 0, 7]),
        };
        let mut bytes = [0; capsule::HEADER];
        header.emit(&mut bytes).unwrap();
        let mut capsule = Frame::from_bytes(&bytes);
        capsule.peer = PeerId::NONE;
        assert_eq!(source(&capsule, Reason::Fuel), Source::Node(header.previous));
        assert_eq!(source(&capsule, Reason::FetchTimeout), Source::Node(header.previous));
        assert_eq!(source(&capsule, Reason::EntryShare), Source::Unknown, "there it may be anything");
    }

    /// Their frames have a port all the same: the first one.
    #[test]
    fn what_an_application_of_this_node_floods_is_blamed_on_no_port() {
        let own = capsule::Header {
            app_port: 1,
            bound: 1,
            code: Digest::of(b""),
            previous: Addr::UNSPECIFIED,
            source: Addr::v4([10, 0, 0, 8]),
            destination: Addr::v4([10, 0, 0, 7]),
        };
        let mut bytes = [0; capsule::HEADER];
        own.emit(&mut bytes).unwrap();
        let mut alarms = Alarms::new(2);
        let injected = Frame::from_bytes(&bytes);
        (0..LEAST).for_each(|_| alarms.note(&injected, Reason::FetchFull));
        // One of a neighbour's that looks alike is the neighbour's.
        let mut alike = Frame::from_bytes(&bytes);
        alike.payer = Payer(0);
        (0..LEAST).for_each(|_| alarms.note(&alike, Reason::FetchFull));
        let said: Vec<_> = alarms.due(1).map(|alarm| (alarm.port, alarm.drops, alarm.last)).collect();
        assert_eq!(said, [(PortId(0), LEAST, Source::Unknown), (PortId(2), LEAST, Source::Own)]);
    }
}
