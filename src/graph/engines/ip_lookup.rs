//! Routes: the longest prefix that holds.

use crate::contract::plan::FusedNext;
use crate::frame::Frame;
use crate::graph::arguments::{ArgumentNames, Arguments, FromArgument, Ip4, Net4, mask_of, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use std::collections::BTreeMap;

/// `LinearIPLookup`.
pub const CLASS: EngineClass = EngineClass {
    name: "LinearIPLookup",
    doc: "Sends packets to the output of the longest prefix that holds the address where they go next, and \
          notes its gateway. LinearIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...). Handlers: table, add, remove \
          (write)",
    make: Make::with("1/-", "h/h", "x/x", make),
};

/// Routes of one engine, at most.
const ROUTES_MAX: usize = 1 << 17;

/// Bytes that one takes, with its stretches.
const ROUTE_BYTES: u64 = 64;

/// Routes of one that is in the kernel, at most: it tries them one behind the other.
const KERNEL_ROUTES_MAX: usize = 64;

/// A gateway, and an output.
type Way = (Option<Ip4>, u16);

/// Routes, and the same as stretches of addresses that go one way: where each begins, and its way. A look-up halves the stretches.
struct IpLookup {
    /// By network and length: of two that begin together the wider one comes first.
    routes: BTreeMap<(u32, u8), Way>,
    begins: Vec<u32>,
    ways: Vec<Option<Way>>,
}

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (mut routes, mut wrong) = (BTreeMap::new(), false);
    for argument in args.rest() {
        match read(&words_of(argument), args.names) {
            Some((net, Some(way))) if routes.len() < ROUTES_MAX => {
                wrong |= !args.leads(argument, way.1);
                routes.insert(key(net), way);
            }
            _ => {
                args.say(argument, format!("'{}' is no route", argument.text), "as 10.0.0.0/8 10.0.0.1 1, or 0/0 1");
                wrong = true;
            }
        }
    }
    (!wrong).then(|| Box::new(IpLookup::new(routes)) as Box<dyn Engine>)
}

/// A route in words: a network, a gateway that may be missing, an output.
fn read(words: &[&str], names: &ArgumentNames) -> Option<(Net4, Option<Way>)> {
    let net = |word: &str| {
        Net4::read(word, names).or_else(|| (word == "0/0").then(|| Net4 { address: Ip4::default(), length: 0 }))
    };
    let gateway = |word: &str| match word {
        "-" | "0.0.0.0" => Some(None),
        word => Ip4::read(word, names).map(Some),
    };
    match *words {
        [to, output] => Some((net(to)?, Some((None, output.parse().ok()?)))),
        [to, by, output] => Some((net(to)?, Some((gateway(by)?, output.parse().ok()?)))),
        [to] => Some((net(to)?, None)),
        _ => None,
    }
}

/// A network as routes are sorted by.
fn key(net: Net4) -> (u32, u8) {
    (u32::from_be_bytes(net.address.0) & net.mask(), net.length)
}

/// The last address of a network.
fn last_of((network, length): (u32, u8)) -> u32 {
    network | !mask_of(length)
}

impl IpLookup {
    fn new(routes: BTreeMap<(u32, u8), Way>) -> IpLookup {
        let mut table = IpLookup { routes, begins: vec![0], ways: vec![None] };
        table.stretch((0, 0));
        table
    }

    fn add(&mut self, net: Net4, way: Way) {
        self.routes.insert(key(net), way);
        self.stretch(key(net));
    }

    fn remove(&mut self, net: Net4) -> bool {
        let gone = self.routes.remove(&key(net)).is_some();
        if gone {
            self.stretch(key(net));
        }
        gone
    }

    /// The stretches of a network are made anew, since one of its routes has come or gone.
    fn stretch(&mut self, (first, length): (u32, u8)) {
        let last = last_of((first, length));
        let behind = last.checked_add(1).map(|next| (next, self.way_of(next)));
        let around = (0..length).rev().find_map(|length| self.routes.get(&(first & mask_of(length), length)).copied());
        let (mut found, mut open) = (vec![(first, around)], vec![(last, around)]);
        let mut begin = |at: u32, way: Option<Way>| {
            if found.last().is_some_and(|(before, _)| *before == at) {
                found.pop();
            }
            found.push((at, way));
        };
        for (net, way) in self.routes.range((first, length)..=(last, 32)) {
            close(&mut open, net.0, &mut begin);
            begin(net.0, Some(*way));
            open.push((last_of(*net), Some(*way)));
        }
        close(&mut open, last, &mut begin);
        let from = self.begins.partition_point(|begin| *begin < first);
        let to = self.begins.partition_point(|begin| *begin <= last);
        let to = to + usize::from(behind.is_some_and(|(next, _)| self.begins.get(to) == Some(&next)));
        found.extend(behind);
        // What goes the way of what is before it begins nothing.
        found.dedup_by_key(|(_, way)| *way);
        let before = from.checked_sub(1).and_then(|at| self.ways.get(at));
        if before.is_some_and(|before| found.first().is_some_and(|(_, way)| way == before)) {
            found.remove(0);
        }
        self.begins.splice(from..to, found.iter().map(|(begin, _)| *begin));
        self.ways.splice(from..to, found.iter().map(|(_, way)| *way));
    }

    /// The way of an address.
    #[inline]
    fn way_of(&self, to: u32) -> Option<Way> {
        let behind = self.begins.partition_point(|begin| *begin <= to);
        self.ways.get(behind.wrapping_sub(1)).copied().flatten()
    }

    /// The way of a route in the kernel, or that of packets without one.
    fn way(&self, way: Option<Way>, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        match way {
            Some((gateway, output)) => {
                let next = gateway.map(|gateway| FusedNext::Known(gateway.0)).or(at.next);
                body.to(output, FusedAt { next, ..at })
            }
            None => body.drop(),
        }
    }

    #[inline]
    fn find(&self, to: Ip4) -> Option<Way> {
        self.way_of(u32::from_be_bytes(to.0))
    }
}

impl Engine for IpLookup {
    fn keeps(&self) -> Option<u64> {
        Some(self.routes.len() as u64 * ROUTE_BYTES)
    }

    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match self.find(Ip4(frame.notes.next)) {
            Some((gateway, output)) => {
                if let Some(gateway) = gateway {
                    frame.notes.next = gateway.0;
                }
                Pushed::To(output, frame)
            }
            None => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let place = match at.next {
            None => return self.way(self.find(Ip4::default()), at, body),
            Some(FusedNext::Known(to)) => return self.way(self.find(Ip4(to)), at, body),
            Some(FusedNext::Frame(place)) => place,
            Some(FusedNext::Flow(_)) => return body.up("the addresses of flows are looked up there"),
        };
        if self.routes.len() > KERNEL_ROUTES_MAX {
            return Err(NoForm::Because(format!("it has more than {KERNEL_ROUTES_MAX} routes")));
        }
        let (mut label, v4) = (body.drop()?, FusedAt { is_v4: true, ..at });
        // The shortest prefixes are asked for last, so they are made first.
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_by_key(|((_, length), _)| *length);
        for ((to, length), way) in routes {
            let found = self.way(Some(*way), v4, body)?;
            label = body.bytes_are(place, (&to.to_be_bytes(), &mask_of(*length).to_be_bytes()), found, label)?;
        }
        if at.is_v4 {
            return Ok(label);
        }
        let other = body.up("packets of IPv6 are no matter of IPv4's routes")?;
        body.is_v4(at, label, other)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "table").then(|| {
            let line = |((to, length), (gateway, output)): (&(u32, u8), &Way)| {
                let gateway = gateway.map_or("-".to_owned(), |gateway| gateway.to_string());
                format!("{}/{length} {gateway} {output}", Ip4(to.to_be_bytes()))
            };
            let mut lines: Vec<_> = self.routes.iter().map(line).collect();
            lines.sort();
            lines.join("\n")
        })
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        let words: Vec<_> = value.split_whitespace().collect();
        let read = read(&words, &ArgumentNames::default()).ok_or("no route: as 10.0.0.0/8 10.0.0.1 1".to_owned());
        match (handler, read) {
            ("add" | "set", Ok((net, Some(way)))) if self.routes.len() < ROUTES_MAX => self.add(net, way),
            ("remove", Ok((net, _))) if self.remove(net) => {}
            ("add" | "set", Ok(_)) => return Some(Err(format!("no output, or more than {ROUTES_MAX} routes"))),
            ("remove", Ok(_)) => return Some(Err("there is no such route".to_owned())),
            ("add" | "set" | "remove", Err(error)) => return Some(Err(error)),
            _ => return None,
        }
        Some(Ok(()))
    }
}

/// Networks end that do so before this address: behind each, what is around it goes on.
fn close(open: &mut Vec<(u32, Option<Way>)>, before: u32, begin: &mut impl FnMut(u32, Option<Way>)) {
    while let [.., (_, around), (last, _)] = open[..]
        && last < before
    {
        begin(last + 1, around);
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// The longest of the routes that hold an address, each looked at.
    fn slowly(routes: &BTreeMap<(u32, u8), Way>, to: u32) -> Option<Way> {
        let holds = |((network, length), _): &(&(u32, u8), &Way)| to & mask_of(*length) == *network;
        routes.iter().filter(holds).max_by_key(|((_, length), _)| *length).map(|(_, way)| *way)
    }

    #[test]
    fn stretches_say_what_the_routes_say_as_these_come_and_go() {
        let seed = 31;
        println!("seed {seed}");
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        for bits in [4, 8, 32] {
            let mut table = IpLookup::new(BTreeMap::new());
            for turn in 0..400 {
                let word = chance.next_u64();
                // Networks lie in each other, and touch the first and the last address.
                let address = (word as u32) << (32 - bits);
                let length = (word >> 32) as u8 % (bits as u8 + 1);
                let net = Net4 { address: Ip4(address.to_be_bytes()), length };
                if word >> 40 & 3 == 0 {
                    let was = table.routes.contains_key(&key(net));
                    assert_eq!(table.remove(net), was);
                } else {
                    table.add(net, (None, turn as u16));
                }
                let (first, last) = (key(net).0, last_of(key(net)));
                for to in
                    [0, u32::MAX, first, last, first.wrapping_sub(1), last.wrapping_add(1), address, chance.next_u32()]
                {
                    assert_eq!(table.way_of(to), slowly(&table.routes, to), "{bits} {turn} {to:x}");
                }
                assert!(table.begins.is_sorted_by(|one, next| one < next) && table.begins.len() == table.ways.len());
                assert!(table.ways.windows(2).all(|two| two[0] != two[1]), "a stretch ends where another way begins");
                assert!(table.begins.len() <= 2 * table.routes.len() + 1);
                assert_eq!(
                    IpLookup::new(table.routes.clone()).find(Ip4(address.to_be_bytes())),
                    table.find(Ip4(address.to_be_bytes()))
                );
            }
        }
    }
}
