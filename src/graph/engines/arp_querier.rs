//! Ethernet headers for IP packets: link addresses are asked for (RFC 826).

use crate::frame::Frame;
use crate::graph::arguments::{FromArgument, Ip4, Span64};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;
use crate::wire::arp;
use crate::wire::ethernet::{self, Mac, ethertype};
use std::collections::{HashMap, VecDeque};

/// `ARPQuerier`.
pub const CLASS: EngineClass = EngineClass {
    name: "ARPQuerier",
    doc: "Puts an Ethernet header in front of IP packets (input 0), asks for addresses that are not known, and \
          hears answers (input 1). ARPQuerier(IP, MAC, [CAPACITY], [TIMEOUT n]). Handlers: table, queries, \
          drops, length",
    make: Make::with("2/1-2", "h/h", "xy/x", |args| {
        let (ip, mac) = if args.count() == 1 {
            let name: String = args.must("NAME")?;
            (Ip4::read(&name, args.names), Mac::read(&name, args.names))
        } else {
            (args.must("IP"), args.must("ETH"))
        };
        if ip.is_none() || mac.is_none() {
            args.say_all("an address is missing", "as ARPQuerier(10.0.0.1, 00:11:22:33:44:55)");
            return None;
        }
        let (capacity, timeout) = (args.key("CAPACITY", 2048u32)?, args.key("TIMEOUT", Span64(300_000_000_000))?);
        args.ignore(&["ENTRY_CAPACITY", "ENTRY_PACKET_CAPACITY", "BROADCAST", "POLL_TIMEOUT", "TABLE"]);
        let capacity = capacity.min(CAPACITY_MAX);
        Some(Box::new(ArpQuerier { own: (ip?, mac?), capacity, timeout: timeout.0, ..ArpQuerier::default() }))
    }),
};

/// Packets that wait for answers at one time, and addresses that are known or asked for, at most.
const CAPACITY_MAX: u32 = 2048;

/// Packets that wait for one address, at most, and how long it is asked for.
const WAITING_MAX: usize = 8;
const PATIENCE: u64 = 3_000_000_000;

/// Time between two questions for the same address.
const AGAIN: u64 = 1_000_000_000;

#[derive(Default)]
struct Station {
    mac: Option<Mac>,
    /// When it was heard, or asked for at first.
    since: u64,
    asked: u64,
    waiting: VecDeque<Frame>,
}

struct ArpQuerier {
    own: (Ip4, Mac),
    capacity: u32,
    timeout: u64,
    stations: HashMap<Ip4, Station>,
    held: u64,
    drops: u64,
    queries: u64,
}

impl Default for ArpQuerier {
    fn default() -> ArpQuerier {
        let own = (Ip4::default(), Mac([0; 6]));
        ArpQuerier { own, capacity: 0, timeout: 0, stations: HashMap::new(), held: 0, drops: 0, queries: 0 }
    }
}

impl Engine for ArpQuerier {
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if input == 1 {
            self.hear(&frame, cx);
            return Pushed::Used(frame);
        }
        let to = match frame.notes.next {
            [0, 0, 0, 0] => packet::ends(&frame).map(|(_, to)| to),
            next => Some(Ip4(next)),
        };
        let Some(to) = to else { return Pushed::thrown(frame) };
        if to.0 == [255; 4] {
            return self.seal(frame, Mac::BROADCAST);
        }
        if to.0[0] & 0xf0 == 0xe0 {
            return self.seal(frame, Mac([1, 0, 0x5e, to.0[1] & 0x7f, to.0[2], to.0[3]]));
        }
        let (now, timeout) = (cx.now, self.timeout);
        match self.stations.get(&to).and_then(|station| station.mac.filter(|_| station.since + timeout > now)) {
            Some(mac) => self.seal(frame, mac),
            None => self.wait(frame, to, cx),
        }
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.stations.values_mut().flat_map(|station| station.waiting.drain(..)).for_each(give);
        self.held = 0;
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "queries" => Some(self.queries.to_string()),
            "drops" => Some(self.drops.to_string()),
            "length" => Some(self.held.to_string()),
            "table" => {
                let known = self.stations.iter().filter_map(|(ip, station)| Some(format!("{ip} {}", station.mac?)));
                let mut lines: Vec<_> = known.collect();
                lines.sort();
                Some(lines.join("\n"))
            }
            _ => None,
        }
    }

    /// Who is known, and what waits for those who are not, if it has the same addresses and as much room.
    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<ArpQuerier>())
            && before.own == self.own
            && before.capacity <= self.capacity
        {
            self.stations = core::mem::take(&mut before.stations);
            self.held = core::mem::take(&mut before.held);
            (self.drops, self.queries) = (before.drops, before.queries);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

impl ArpQuerier {
    /// An Ethernet header in front of an IP packet.
    fn seal(&self, mut frame: Frame, to: Mac) -> Pushed {
        let at = packet::ip_at(&frame);
        frame.strip(at);
        let head = ethernet::Repr { destination: to, source: self.own.1, tag: None, ethertype: ethertype::IPV4 };
        match frame.prepend(ethernet::HEADER).map(|room| head.emit(room)) {
            Some(Ok(_)) => Pushed::To(0, frame),
            _ => Pushed::thrown(frame),
        }
    }

    /// A packet waits until its receiver has answered.
    fn wait(&mut self, frame: Frame, to: Ip4, cx: &mut GraphCx<'_>) -> Pushed {
        if self.stations.len() >= self.capacity as usize && !self.stations.contains_key(&to) {
            self.forget(cx);
        }
        if self.stations.len() >= self.capacity as usize && !self.stations.contains_key(&to) {
            self.drops += 1;
            return Pushed::thrown(frame);
        }
        let station = self.stations.entry(to).or_default();
        if station.mac.take().is_some() || station.waiting.is_empty() && station.since + PATIENCE <= cx.now {
            (station.since, station.asked) = (cx.now, 0);
        }
        let is_full = station.waiting.len() >= WAITING_MAX || self.held >= u64::from(self.capacity);
        if is_full && let Some(oldest) = station.waiting.pop_front() {
            (self.drops, self.held) = (self.drops + 1, self.held - 1);
            cx.throw(oldest);
        }
        station.waiting.push_back(frame);
        self.held += 1;
        let asks = station.asked == 0 || station.asked + AGAIN <= cx.now;
        if asks {
            station.asked = cx.now.max(1);
            self.ask(to, cx);
        }
        Pushed::Kept
    }

    /// Forgets who is not known any more, and who has not answered for long, with what waits for those.
    fn forget(&mut self, cx: &mut GraphCx<'_>) {
        let (now, timeout, own) = (cx.now, self.timeout, &mut self.held);
        let mut given_up = 0;
        self.stations.retain(|_, station| {
            let patience = if station.mac.is_some() { timeout } else { PATIENCE };
            let stays = station.since + patience > now;
            if !stays {
                given_up += station.waiting.len() as u64;
                *own -= station.waiting.len() as u64;
                station.waiting.drain(..).for_each(|frame| cx.throw(frame));
            }
            stays
        });
        self.drops += given_up;
    }

    fn ask(&mut self, to: Ip4, cx: &mut GraphCx<'_>) {
        self.queries += 1;
        let mut frame = cx.begin();
        frame.received(ethernet::HEADER + arp::LENGTH);
        let head =
            ethernet::Repr { destination: Mac::BROADCAST, source: self.own.1, tag: None, ethertype: ethertype::ARP };
        let question = arp::Repr {
            operation: arp::Operation::Request,
            sender_mac: self.own.1,
            sender_ip: self.own.0.0,
            target_mac: Mac([0; 6]),
            target_ip: to.0,
        };
        let bytes = frame.bytes_mut();
        let written =
            head.emit(bytes).is_ok() && bytes.get_mut(ethernet::HEADER..).is_some_and(|it| question.emit(it).is_ok());
        if written {
            let output = u16::from(cx.has_output(1));
            cx.emit(output, frame);
        } else {
            cx.throw(frame);
        }
    }

    /// Somebody has answered: what waits for it leaves.
    fn hear(&mut self, frame: &Frame, cx: &mut GraphCx<'_>) {
        let said = frame.bytes().get(ethernet::HEADER..).map(arp::Repr::parse);
        let Some(Ok(said)) = said.filter(|_| frame.bytes().get(12..14) == Some(&[8, 6])) else { return };
        // Only who was asked for is believed.
        let Some(station) = self.stations.get_mut(&Ip4(said.sender_ip)) else { return };
        if said.operation != arp::Operation::Reply || said.sender_mac.is_group() {
            return;
        }
        (station.mac, station.since) = (Some(said.sender_mac), cx.now);
        let waiting = core::mem::take(&mut station.waiting);
        self.held -= waiting.len() as u64;
        for frame in waiting {
            match self.seal(frame, said.sender_mac) {
                Pushed::To(output, frame) => cx.emit(output, frame),
                Pushed::Dropped(frame, _) => cx.throw(frame),
                Pushed::Kept | Pushed::Used(_) => {}
            }
        }
    }
}
