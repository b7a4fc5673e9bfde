//! Ethernet headers for IP packets: link addresses are asked for (RFC 826).

use crate::contract::plan::{FOUND_BYTES, FusedKey, FusedStep};
use crate::frame::Frame;
use crate::graph::arguments::{ArgumentNames, FromArgument, Ip4, Span64};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{EngineTable, FusedAt, FusedBody, FusedLabel, Holds, KEY, NoForm, TableEntry, Tried};
use crate::graph::packet;
use crate::wire::arp;
use crate::wire::ethernet::{self, Mac, ethertype};
use std::collections::{HashMap, VecDeque};

#[cfg(test)]
mod tests;

/// `ARPQuerier`.
pub const CLASS: EngineClass = EngineClass {
    name: "ARPQuerier",
    doc: "Puts an Ethernet header in front of IP packets (input 0), asks for addresses that are not known, and \
          hears answers (input 1). ARPQuerier(IP, MAC, [CAPACITY], [TIMEOUT n]), with 0 for who is once known and \
          stays so. Handlers: table, queries, drops, length, insert (write: IP MAC)",
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
        let timeout = if timeout.0 == 0 { u64::MAX } else { timeout.0 };
        Some(Box::new(ArpQuerier { own: (ip?, mac?), capacity, timeout, ..ArpQuerier::default() }))
    }),
};

/// Packets that wait for answers at one time, and addresses that are known or asked for, at most.
const CAPACITY_MAX: u32 = 2048;

/// Bytes that one takes, with what the table has free.
const STATION_BYTES: u64 = 128;

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
    /// Whether its packets need not come here, and when that was tried last.
    in_kernel: bool,
    tried: Tried,
}

struct ArpQuerier {
    own: (Ip4, Mac),
    capacity: u32,
    timeout: u64,
    stations: HashMap<Ip4, Station>,
    /// When a packet was seen last.
    now: u64,
    /// Before then nobody can be forgotten: a full table is not looked through for each address that it has no room for.
    forgets_at: u64,
    held: u64,
    drops: u64,
    queries: u64,
    /// Where its program in the kernel looks stations up.
    table: Option<EngineTable>,
}

impl Default for ArpQuerier {
    fn default() -> ArpQuerier {
        let own = (Ip4::default(), Mac([0; 6]));
        let stations = HashMap::new();
        let (held, drops, queries, table) = (0, 0, 0, None);
        ArpQuerier { own, capacity: 0, timeout: 0, stations, now: 0, forgets_at: 0, held, drops, queries, table }
    }
}

impl Engine for ArpQuerier {
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        self.now = cx.now;
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
        let known = self.stations.get(&to).filter(|station| station.since.saturating_add(timeout) > now);
        match known.and_then(|station| Some((station.mac?, station.waiting.is_empty()))) {
            Some((mac, true)) => {
                self.show(to, mac, now);
                self.seal(frame, mac)
            }
            Some((mac, false)) => {
                self.release(to, mac, cx);
                self.seal(frame, mac)
            }
            None => self.wait(frame, to, cx),
        }
    }

    fn keeps(&self) -> Option<u64> {
        Some(self.stations.len() as u64 * STATION_BYTES)
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

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        if handler != "insert" {
            return None;
        }
        let names = ArgumentNames::default();
        let mut words = value.split_whitespace();
        let (ip, mac, rest) = (words.next(), words.next(), words.next());
        let read = ip.and_then(|ip| Ip4::read(ip, &names)).zip(mac.and_then(|mac| Mac::read(mac, &names)));
        Some(match read.filter(|_| rest.is_none()) {
            None => Err("an address and who has it: as 10.0.0.2 00:11:22:33:44:55".to_owned()),
            Some((ip, _)) if self.is_full() && !self.stations.contains_key(&ip) => {
                Err(format!("it knows or asks for {} addresses, which are all it may", self.capacity))
            }
            Some((ip, mac)) => {
                let station = self.stations.entry(ip).or_default();
                // What waits for it leaves before the next packet to it.
                (station.mac, station.since) = (Some(mac), self.now);
                self.hide(ip);
                Ok(())
            }
        })
    }

    fn meet_table(&mut self, table: Option<EngineTable>) {
        self.table = table;
        self.forget_shown();
    }

    fn kernel(&self, input: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if input == 1 {
            return Err(NoForm::Because("answers are heard in user space".to_owned()));
        }
        at.plain_ip()?;
        let sealed = body.to(0, FusedAt { first: 0, ..at })?;
        let own = [&self.own.1.0[..], &ethertype::IPV4.to_be_bytes()].concat();
        let sealed = body.steps(vec![FusedStep::PutFound(0, 6), FusedStep::Put(6, own)], sealed)?;
        let next = FusedKey::Next(at.next.unwrap_or(at.receiver()));
        let why = "it asks there for stations that it does not know";
        let (found, up) = (body.look_up(next, &[sealed], why)?, body.up(why)?);
        body.is_v4(at, found, up)
    }

    /// Who is known, and what waits for those who are not, if it has the same addresses and as much room.
    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<ArpQuerier>())
            && before.own == self.own
            && before.capacity <= self.capacity
        {
            self.stations = core::mem::take(&mut before.stations);
            self.held = core::mem::take(&mut before.held);
            self.forget_shown();
            (self.drops, self.queries) = (before.drops, before.queries);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

impl ArpQuerier {
    fn key(station: Ip4) -> [u8; KEY] {
        let mut key = [0; KEY];
        key[..4].copy_from_slice(&station.0);
        key
    }

    /// Packets to a station that is known need not come here.
    fn show(&mut self, to: Ip4, mac: Mac, now: u64) {
        let Some((table, station)) = self.table.as_ref().zip(self.stations.get_mut(&to)) else { return };
        if !station.in_kernel && station.tried.is_due(now) {
            let mut bytes = [0; FOUND_BYTES];
            bytes[..6].copy_from_slice(&mac.0);
            let until = station.since.saturating_add(self.timeout);
            let holds = if until == u64::MAX { Holds::Ever } else { Holds::For(until.saturating_sub(now)) };
            station.in_kernel = table.put(ArpQuerier::key(to), &TableEntry { bytes, holds, ..TableEntry::default() });
            station.tried.note(now);
        }
    }

    /// None of them is in the table yet.
    fn forget_shown(&mut self) {
        for station in self.stations.values_mut() {
            (station.in_kernel, station.tried) = (false, Tried::default());
        }
    }

    /// Who has a station's address may be another one now.
    fn hide(&mut self, to: Ip4) {
        if let Some((table, station)) = self.table.as_ref().zip(self.stations.get_mut(&to))
            && core::mem::take(&mut station.in_kernel)
        {
            station.tried = Tried::default();
            table.remove(ArpQuerier::key(to));
        }
    }

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
        if self.is_full() && !self.stations.contains_key(&to) {
            if self.forgets_at <= cx.now {
                self.forget(cx);
            }
            if self.is_full() {
                self.drops += 1;
                return Pushed::thrown(frame);
            }
        }
        self.hide(to);
        self.forgets_at = self.forgets_at.min(cx.now.saturating_add(PATIENCE));
        let station = self.stations.entry(to).or_default();
        let gave_up = station.waiting.is_empty() && station.since + PATIENCE <= cx.now;
        if station.mac.take().is_some() || station.asked == 0 || gave_up {
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

    fn is_full(&self) -> bool {
        self.stations.len() >= self.capacity as usize
    }

    /// Forgets who is not known any more, and who has not answered for long, with what waits for those.
    fn forget(&mut self, cx: &mut GraphCx<'_>) {
        let (now, timeout, own, table) = (cx.now, self.timeout, &mut self.held, &self.table);
        let (mut given_up, mut next) = (0, u64::MAX);
        self.stations.retain(|ip, station| {
            let patience = if station.mac.is_some() { timeout } else { PATIENCE };
            let until = station.since.saturating_add(patience);
            if until > now {
                next = next.min(until);
                return true;
            }
            table.iter().filter(|_| station.in_kernel).for_each(|table| table.remove(ArpQuerier::key(*ip)));
            given_up += station.waiting.len() as u64;
            *own -= station.waiting.len() as u64;
            station.waiting.drain(..).for_each(|frame| cx.throw(frame));
            false
        });
        self.drops += given_up;
        self.forgets_at = next;
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
        self.hide(Ip4(said.sender_ip));
        self.release(Ip4(said.sender_ip), said.sender_mac, cx);
    }

    /// What has waited for an address leaves.
    fn release(&mut self, to: Ip4, mac: Mac, cx: &mut GraphCx<'_>) {
        let waiting = self.stations.get_mut(&to).map(|station| core::mem::take(&mut station.waiting));
        for frame in waiting.unwrap_or_default() {
            self.held -= 1;
            match self.seal(frame, mac) {
                Pushed::To(output, frame) => cx.emit(output, frame),
                Pushed::Dropped(frame, _) => cx.throw(frame),
                Pushed::Kept | Pushed::Used(_) => {}
            }
        }
    }
}
