//! More shapes of rules than masks: what the kernel says of a packet agrees with the user half, on every packet.

use super::super::patterns::{Pattern, behind};
use super::super::told::HeldShapes;
use super::*;
use crate::classify::headers::Layers;
use crate::classify::rule::{ANYWHERE, KeyTuple};
use crate::classify::shape::Shape;
use crate::classify::shapes::Demux;
use crate::contract::{self, CANDIDATES, KEYS, LISTED};
use crate::frame::PortId;
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{Addr, Prefix, ipv4, ipv6};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const DROP: u32 = 2;
const IN: PortId = PortId(0);

fn is_able() -> bool {
    let is_root = crate::sys::process::is_root();
    assert!(is_root || std::env::var_os("CI").is_none(), "loading programs needs root, and this must be run");
    if !is_root {
        println!("SKIPPED: loading programs needs root");
    }
    is_root
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// An address of few: so that blocks have packets.
    fn addr(&mut self, v4: bool) -> Addr {
        let mut bytes = [0; 16];
        bytes.iter_mut().for_each(|byte| *byte = [0, 1][self.below(8) as usize / 7]);
        if v4 {
            Addr::v4([10, bytes[1], bytes[2], bytes[3]])
        } else {
            Addr([&[0xfd][..], &bytes[1..]].concat().try_into().unwrap())
        }
    }

    fn block(&mut self) -> Prefix {
        match self.below(3) {
            0 => ANYWHERE,
            1 => Prefix::new(self.addr(true), 96 + self.below(33) as u8),
            _ => Prefix::new(self.addr(false), self.below(129) as u8),
        }
    }

    fn rule(&mut self) -> Rule {
        let layer = self.one(&[Layer::Ip, Layer::Ip, Layer::Udp, Layer::Udp, Layer::Tcp, Layer::Link]);
        let ports = matches!(layer, Layer::Udp | Layer::Tcp);
        let kind = match layer {
            // Of all IPv4 or IPv6 nothing would be left for others.
            Layer::Link => Some(0x88b5),
            Layer::Ip => self.one(&[None, Some(17), Some(6), Some(47)]),
            _ => None,
        };
        let port = |dice: &mut Dice| if ports { dice.one(&[None, Some(53), Some(80), Some(5000)]) } else { None };
        let (source_port, destination_port) = (port(self), port(self));
        let mut blocks = [self.block(), self.block()];
        if layer == Layer::Link {
            blocks = [ANYWHERE; 2];
        } else if blocks.iter().all(|block| block.length < 90) && source_port.or(destination_port).is_none() {
            blocks[1] = Prefix::new(self.addr(false), 128 - self.below(30) as u8);
        }
        let [source, destination] = blocks;
        Rule { port: None, layer, kind, source, destination, source_port, destination_port, key: vec![] }
    }

    fn frame(&mut self) -> Vec<u8> {
        let v4 = self.below(2) == 0;
        let protocol = self.one(&[17, 6, 47]);
        let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let ends = [self.addr(v4), self.addr(v4)];
        let ports = [self.one(&[53u16, 80, 5000, 9]), self.one(&[53u16, 80, 5000, 9])];
        frame(ethertype, ends, protocol, ports)
    }

    /// So many shapes.
    fn rules(&mut self, shapes: usize) -> Vec<Rule> {
        let (mut known, mut rules) = (BTreeSet::new(), Vec::new());
        while known.len() < shapes {
            let rule = self.rule();
            if !rules.contains(&rule) {
                known.insert(shaped(&rule, None).0);
                rules.push(rule);
            }
        }
        rules
    }
}

fn frame(ethertype: u16, [from, to]: [Addr; 2], protocol: u8, [source, destination]: [u16; 2]) -> Vec<u8> {
    let mut segment = vec![0; 24];
    segment[..2].copy_from_slice(&source.to_be_bytes());
    segment[2..4].copy_from_slice(&destination.to_be_bytes());
    if protocol == 17 {
        segment[5] = 24;
    } else {
        segment[12] = 0x50;
    }
    let mut bytes = vec![0; if ethertype == ethertype::IPV4 { 34 } else { 54 }];
    ethernet::Repr { destination: Mac([0; 6]), source: Mac([4; 6]), tag: None, ethertype }.emit(&mut bytes).unwrap();
    match (from.bytes_v4(), to.bytes_v4()) {
        (Some(from), Some(to)) => {
            ipv4::Repr::new(from, to, protocol, 64, segment.len()).emit(&mut bytes[14..]).unwrap();
        }
        _ => drop(ipv6::Repr::new(from, to, protocol, 64, segment.len()).emit(&mut bytes[14..]).unwrap()),
    }
    bytes.extend(segment);
    bytes
}

/// What a table finds as `bpf/channel.h` looks: the number of the most specific shape, and 1; and of what it does not know the same.
fn look(rules: &ToldRules, layers: &Layers) -> (u32, u32) {
    let fields = |layer| fields(layers, layer);
    let has = |shape: Shape| {
        fields(shape.kernel_layer()).is_some_and(|all| !rules.table.keys(&(shape, behind(&all, shape))).is_empty())
    };
    let (mut found, mut more, mut among) = (0, 0, Vec::new());
    for (mask, merged) in rules.table.groups().masks() {
        if !merged {
            found = found.max(if has(mask) { mask.number() + 1 } else { 0 });
            continue;
        }
        let Some(all) = fields(mask.kernel_layer()) else { continue };
        for (at, shape) in rules.table.list(&behind(&all, mask)).enumerate() {
            if at >= LISTED as usize || among.len() >= CANDIDATES as usize {
                more = more.max(shape.number() + 1);
                break;
            }
            among.push(shape);
        }
    }
    let listed = among.into_iter().filter(|shape| has(*shape)).map(|shape| shape.number() + 1).max();
    (found.max(listed.unwrap_or(0)), more)
}

fn fields(layers: &Layers, layer: u32) -> Option<Pattern> {
    let mut value = [0; pattern::SIZE];
    if layer == ON_LINK {
        pattern::KIND.put(&mut value, layers.ethertype.to_be_bytes());
        return Some(value);
    }
    let ip = layers.ip.as_ref()?;
    pattern::SOURCE.put(&mut value, ip.source.0);
    pattern::DESTINATION.put(&mut value, ip.destination.0);
    pattern::KIND.put(&mut value, u16::from(ip.protocol).to_be_bytes());
    if layer == ON_TRANSPORT {
        let ports = ip.transport.as_ref()?;
        pattern::SOURCE_PORT.put(&mut value, ports.source.to_be_bytes());
        pattern::DESTINATION_PORT.put(&mut value, ports.destination.to_be_bytes());
    }
    Some(value)
}

/// The user half's table, and each rule alone.
struct User {
    demux: Demux<u32>,
    alone: Vec<Demux<u32>>,
}

impl User {
    fn of(rules: &[Rule]) -> User {
        let alone = |rule: &Rule| {
            let mut demux = Demux::with_secret(7);
            demux.add(rule, number(rule)).unwrap();
            demux
        };
        User { demux: Demux::with_secret(7), alone: rules.iter().map(alone).collect() }
    }

    /// The number of the most specific shape of which a rule that is there holds, and 1; the table finds the same.
    fn finds(&self, there: &[bool], layers: &Layers, bytes: &[u8]) -> u32 {
        let find = |demux: &Demux<u32>| demux.find(IN, layers, bytes).map_or(0, |found| found.owner + 1);
        let all = self.alone.iter().zip(there).filter(|(_, there)| **there);
        let most = all.map(|(alone, _)| find(alone)).max().unwrap_or(0);
        assert_eq!(find(&self.demux), most, "{bytes:02x?}");
        most
    }
}

fn number(rule: &Rule) -> u32 {
    shaped(rule, None).0.number()
}

#[test]
fn a_table_of_any_shapes_finds_what_the_user_half_does_or_says_that_it_is_in_doubt() {
    let (mut found, mut doubts) = (0, 0);
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let rules = dice.rules([17, 21, 60, 200][seed as usize % 4]);
        let (mut told, mut user) = (ToldRules::new(|rule| shaped(rule, None)), User::of(&rules));
        let mut there = vec![false; rules.len()];
        for step in 0..rules.len() * 3 {
            // First all come, then they come and go.
            let at = if step < rules.len() { step } else { dice.below(rules.len() as u64) as usize };
            there[at] = !there[at];
            told.change(&rules[at], there[at]).unwrap();
            match there[at] {
                true => user.demux.add(&rules[at], number(&rules[at])).unwrap(),
                false => user.demux.remove(&rules[at], number(&rules[at])),
            }
            assert_eq!(told.held().is_merged(), told.held().shapes > contract::SHAPES as usize);
            let bytes = dice.frame();
            let layers = Layers::of(&bytes).unwrap();
            let (is, (seen, more)) = (user.finds(&there, &layers, &bytes), look(&told, &layers));
            assert!(seen == is || seen < is && is <= more, "seed {seed}, step {step}: {is}, {seen}, {more}");
            found += u32::from(is > 0);
            doubts += u32::from(more > seen);
        }
    }
    assert!(found > 500 && doubts < 50, "{found} found, {doubts} in doubt");
}

#[test]
fn the_programs_agree_with_the_user_half_about_every_packet_of_any_shapes() {
    if !is_able() {
        return;
    }
    let (mut taken, mut left, mut doubts) = (0, 0, 0);
    for (seed, shapes) in [(1, 17), (2, 40), (3, 200)] {
        let mut dice = Dice(seed);
        let rules = dice.rules(shapes);
        let (mut filters, mut user) = (Filters::create().unwrap(), User::of(&rules));
        let there = vec![true; rules.len()];
        let [guard, socket] = ["guard_channels", "filter_channels"].map(|name| filters.load(name).unwrap());
        for rule in &rules {
            filters.change(&Watch { rule: rule.clone(), is_shared: false }, true).unwrap();
            user.demux.add(rule, number(rule)).unwrap();
        }
        assert_eq!(filters.foreign.held(), HeldShapes { shapes, masks: shapes.min(contract::SHAPES as usize) });
        for _ in 0..1500 {
            let mut bytes = dice.frame();
            let layers = Layers::of(&bytes).unwrap();
            let is = user.finds(&there, &layers, &bytes) > 0;
            let (seen, more) = look(&filters.rules, &layers);
            let mut up = [&[0; 12][..], &bytes[12..14], &bytes].concat();
            let drops = guard.run_on(&mut bytes).unwrap() == DROP;
            let copies = socket.run_on(&mut up).unwrap() != 0;
            assert_eq!((drops, copies), (seen > 0, seen > 0 || more > 0), "{bytes:02x?}");
            assert!(drops == is || more > 0 && is && !drops, "{bytes:02x?}");
            (taken, left) = (taken + u32::from(drops), left + u32::from(!copies));
            doubts += u32::from(more > seen);
        }
        for rule in &rules {
            filters.change(&Watch { rule: rule.clone(), is_shared: false }, false).unwrap();
        }
        assert!(filters.is_empty());
    }
    assert!(taken > 500 && left > 500 && doubts < 100, "{taken} taken, {left} left, {doubts} in doubt");
}

/// The address of hosts here.
const HERE: Addr = Addr([0xfd; 16]);

/// Blocks that differ from that address in their last bit alone: more than there are candidates are near it, and none has it.
fn beside() -> Vec<Rule> {
    let block = |length: u8| {
        let mut bytes = HERE.0;
        bytes[usize::from(length - 1) / 8] ^= 0x80 >> ((length - 1) % 8);
        Prefix::new(Addr(bytes), length)
    };
    let to = |length| Rule {
        port: None,
        layer: Layer::Udp,
        kind: None,
        source: ANYWHERE,
        destination: block(length),
        source_port: None,
        destination_port: None,
        key: vec![],
    };
    (1..=128).map(to).collect()
}

#[test]
fn what_is_in_doubt_comes_up_and_stays_the_stacks_and_does_so_once() {
    if !is_able() {
        return;
    }
    let mut filters = Filters::create().unwrap();
    let [guard, socket] = ["guard_channels", "filter_channels"].map(|name| filters.load(name).unwrap());
    let watch = |rule: &Rule| Watch { rule: rule.clone(), is_shared: false };
    beside().iter().for_each(|rule| filters.change(&watch(rule), true).unwrap());
    let others = frame(ethertype::IPV6, [HERE; 2], 17, [4000, 5000]);
    let flow = ForeignFlow::of(&others).unwrap();
    let run = |filters: &Filters, expected: (bool, bool)| {
        let mut up = [&[0; 12][..], &others[12..14], &others].concat();
        let drops = guard.run_on(&mut others.clone()).unwrap() == DROP;
        let copies = socket.run_on(&mut up).unwrap() != 0;
        assert_eq!((drops, copies), expected, "{:?}", filters.foreign.held());
    };
    let (seen, more) = look(&filters.rules, &Layers::of(&others).unwrap());
    assert!(seen == 0 && more > 0, "{seen}, {more}");
    run(&filters, (false, true));
    filters.learn(&flow).unwrap();
    assert_eq!(filters.foreign.counts().learned, 1, "no rule can hold for it");
    run(&filters, (false, false));
    // Its own rule comes.
    let own = Rule { destination_port: Some(5000), destination: Prefix::host(HERE), ..beside()[0].clone() };
    filters.foreign.watch(&own).unwrap();
    filters.change(&watch(&own), true).unwrap();
    run(&filters, (true, true));
}

#[test]
fn more_keys_than_the_kernel_holds_leave_the_others_in_doubt() {
    if !is_able() {
        return;
    }
    let mut filters = Filters::create().unwrap();
    let [guard, socket] = ["guard_channels", "filter_channels"].map(|name| filters.load(name).unwrap());
    let keyed = |value: u64| {
        let key = vec![KeyTuple { offset: 0, length: 1, value, mask: 0xff }];
        Rule { key, destination_port: Some(5000), destination: ANYWHERE, ..beside()[0].clone() }
    };
    let all = u64::from(KEYS) + 3;
    for value in 0..all {
        filters.change(&Watch { rule: keyed(value), is_shared: false }, true).unwrap();
    }
    for value in 0..all {
        let mut bytes = frame(ethertype::IPV6, [HERE; 2], 17, [4000, 5000]);
        bytes[62] = value as u8;
        let mut up = [&[0; 12][..], &bytes[12..14], &bytes].concat();
        assert_eq!(guard.run_on(&mut bytes).unwrap() == DROP, value < u64::from(KEYS), "{value}");
        assert!(socket.run_on(&mut up).unwrap() != 0, "{value}");
    }
}

#[test]
fn no_packet_of_a_rule_is_missed_while_shapes_come_and_go() {
    if !is_able() {
        return;
    }
    let mut filters = Filters::create().unwrap();
    let guard = filters.load("guard_channels").unwrap();
    let mut dice = Dice(5);
    let rules: Vec<Rule> = dice.rules(60).into_iter().filter(|rule| rule.layer != Layer::Link).collect();
    let own = Rule { destination_port: Some(5000), destination: ANYWHERE, ..beside()[0].clone() };
    let own = Rule { source: Prefix::new(HERE, 77), ..own };
    filters.change(&Watch { rule: own, is_shared: false }, true).unwrap();
    let (ends, runs) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = frame(ethertype::IPV6, [HERE; 2], 17, [4000, 5000]);
            while !ends.load(SeqCst) {
                let drops = guard.run_on(&mut bytes.clone()).unwrap() == DROP;
                if !drops {
                    ends.store(true, SeqCst);
                    panic!("a packet was missed");
                }
                runs.fetch_add(1, SeqCst);
            }
        });
        for round in 0..6 {
            for rule in &rules {
                if ends.load(SeqCst) {
                    return;
                }
                filters.change(&Watch { rule: rule.clone(), is_shared: false }, round % 2 == 0).unwrap();
            }
        }
        while !ends.load(SeqCst) && runs.load(SeqCst) < 100 {
            std::hint::spin_loop();
        }
        ends.store(true, SeqCst);
    });
}
