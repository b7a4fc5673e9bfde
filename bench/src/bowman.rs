//! `anode bench bowman`: the classifier of taught protocols, output disciplines, and a-flows.
//!
//! Example: the first of 1,024 rules that holds for a packet of
//! a flow that is not known, beside a matcher that compares all rules one by one.
//!
//! Rules are like those of access lists, and those of the tables I and II of Bowman's paper (Merugu et al., INFOCOM 2000): all that hold
//! are wanted there, and flows are not known. Packets are in memory, parsed for each call; nothing is received or sent.

mod disciplines;
mod flows;
mod forwarding;
mod nftables;
mod parts;
pub(crate) mod sets;

use std::cell::RefCell;

use anode::classify::taught::classifier::{Classifier, Glance, MatchMode};
use anode::classify::taught::pattern::{NoNames, Wanted};
use anode::classify::taught::protocols::Protocols;
use anode::classify::taught::text::{self, Vocabulary};

use super::micro::{COST, Micro};
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use sets::{APPLICATION, AccessRule, Chance, access_list, application, packets, random_rules};

/// Rules of small and large sets.
const FEW: usize = 1_024;
const MANY: usize = 100_000;
const QUICK_MANY: usize = 20_000;
/// Flows that are known, that are not, and many.
const KNOWN: usize = 64;
const UNKNOWN: usize = 4_096;
const CROWD: usize = 100_000;
/// Packets that a busy port hands over together.
const BATCH: usize = 32;
/// Fields of the best rule in table II.
const FIELDS: usize = 11;

/// Targets, in nanoseconds, and ratios.
const KNOWN_NS: f64 = 40.0;
const KNOWN_GROWTH: f64 = 1.3;
const CROWD_NS: f64 = 120.0;
const FIRST_NS: f64 = 500.0;
const FIRST_GROWTH: f64 = 2.5;
const ADDED_NS: f64 = 10_000.0;
const TABLE_NS: f64 = 1_000.0;
const FIELD_NS: f64 = 10.0;

const KNOWN_REGIME: &str = "known flows";
const FIRST_REGIME: &str = "unknown flows, first match";
const TABLE_1: &str = "table I: all matches";
const TABLE_2: &str = "table II: all matches, 32 rules";
const CHANGE: &str = "changes";
const CHANGED: &str = "a rule added and removed";
const LINEAR: &str = "rules one by one, 1,024";

/// A classifier, and packets for it in turn.
struct Stand {
    classifier: Classifier<()>,
    packets: Vec<Vec<u8>>,
    next: usize,
}

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let many = if settings.quick { QUICK_MANY } else { MANY };
    let mut all = known(settings, many)?;
    all.extend(first(settings, many)?);
    all.extend(tables(settings)?);
    all.extend(changes(settings, many)?);
    targets(&all, many, report);
    all.extend(disciplines::run(settings, report)?);
    all.extend(parts::run(settings)?);
    all.extend(flows::run(settings, report)?);
    all.extend(nftables::run(settings, report)?);
    all.extend(forwarding::run(settings, report)?);
    let baselines = [&known_flows(KNOWN, 1), LINEAR, &rules(1), &fields(1), CHANGED, parts::BASELINE];
    report.rows = all.rows(&[&baselines[..], flows::BASELINES, nftables::BASELINES, forwarding::BASELINES].concat());
    report.note(format!(
        "Parse and classify: Ethernet, IPv4 with its checksum, UDP or TCP. Known flows come one by one, or {BATCH} together, read \
         first and then answered; unknown ones in random order of {UNKNOWN}, the flow cache off."
    ));
    report.note(
        "Nine of ten packets are made for one of the rules. The linear matcher knows its five fields at compile time.",
    );
    report.note(
        "Table I: rules of about six fields over Ethernet, IP, UDP and an application's header, which is taught.",
    );
    Ok(())
}

fn targets(all: &Series, many: usize, report: &mut Report) {
    let values = |regime, variant: &str| all.values(&key(regime, variant)).to_vec();
    let mut add = |name: String, values: &[f64], most| report.targets.extend(Target::at_most(name, values, most));
    add(format!("known flow of {KNOWN}, {many} rules, ns"), &values(KNOWN_REGIME, &known_flows(KNOWN, many)), KNOWN_NS);
    let ratios =
        all.ratios(&key(KNOWN_REGIME, &known_flows(KNOWN, many)), &known_flows(KNOWN, many), &known_flows(KNOWN, 1));
    add("the same / with 1 rule".into(), &ratios, KNOWN_GROWTH);
    add(
        format!("known flow of {CROWD} in batches of {BATCH}, ns"),
        &values(KNOWN_REGIME, &known_flows(CROWD, many)),
        CROWD_NS,
    );
    add(format!("unknown flow, {FEW} rules, ns"), &values(FIRST_REGIME, &rules(FEW)), FIRST_NS);
    let ratios = all.ratios(&key(FIRST_REGIME, &rules(many)), &rules(many), &rules(FEW));
    add(format!("the same with {many} rules / with {FEW}"), &ratios, FIRST_GROWTH);
    add(format!("{TABLE_1} of {FEW} rules, ns"), &values(TABLE_1, &rules(FEW)), TABLE_NS);
    let (one, last) = (values(TABLE_2, &fields(1)), values(TABLE_2, &fields(FIELDS)));
    let steps: Vec<_> = one.iter().zip(&last).map(|(one, last)| (last - one) / (FIELDS - 1) as f64).collect();
    add(format!("{TABLE_2}: a field more, ns"), &steps, FIELD_NS);
    add(format!("{CHANGED} at {many} rules, ns"), &values(CHANGE, CHANGED), ADDED_NS);
}

fn key(regime: &str, variant: &str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric: COST, unit: "ns" }
}

fn known_flows(count: usize, rules: usize) -> String {
    format!("{count} flows{}, {rules} rules", if count > KNOWN { " in batches" } else { "" })
}

fn rules(count: usize) -> String {
    format!("{count} rules")
}

fn fields(count: usize) -> String {
    format!("{count} fields")
}

impl Stand {
    fn new(texts: &[String], packets: Vec<Vec<u8>>, mode: MatchMode, flows: usize) -> Result<Stand, Error> {
        let mut classifier = Classifier::new(Protocols::standard(), "ethernet", mode, flows, 7).map_err(Error::Node)?;
        classifier.teach(APPLICATION).map_err(|mistake| Error::Node(mistake.what))?;
        let mut stand = Stand { classifier, packets, next: 0 };
        for (order, text) in texts.iter().enumerate() {
            let wanted = stand.read(text)?;
            stand.classifier.add(&wanted, order as u32, ()).map_err(Error::Node)?;
        }
        stand.classifier.settle();
        Ok(stand)
    }

    fn read(&self, text: &str) -> Result<Wanted, Error> {
        let (protocols, root) = (self.classifier.protocols(), self.classifier.root());
        let mut known = Vocabulary { protocols, root, names: &mut NoNames };
        text::rule(text, &mut known).map_err(|mistake| Error::Node(mistake.show("rule", text)))
    }

    fn one(&mut self) -> usize {
        self.next = if self.next + 1 < self.packets.len() { self.next + 1 } else { 0 };
        self.classifier.find(&self.packets[self.next]).len()
    }

    /// One of a batch that is classified when its first one is asked for.
    fn of_batch(&mut self) -> usize {
        self.next = if self.next + 1 < self.packets.len() / BATCH * BATCH { self.next + 1 } else { 0 };
        if !self.next.is_multiple_of(BATCH) {
            return 0;
        }
        let batch = &self.packets[self.next..self.next + BATCH];
        let mut glances = [Glance::default(); BATCH];
        for (packet, glance) in batch.iter().zip(&mut glances) {
            self.classifier.read(packet, glance);
            self.classifier.foresee(glance);
        }
        batch.iter().zip(&glances).map(|(packet, glance)| self.classifier.answer(glance, packet).len()).sum()
    }
}

fn texts(rules: &[AccessRule]) -> Vec<String> {
    rules.iter().map(AccessRule::text).collect()
}

fn known(settings: &Settings, many: usize) -> Result<Series, Error> {
    let mut stands = Vec::new();
    for (flow_count, rule_count) in [(KNOWN, 1), (KNOWN, many), (CROWD, 1), (CROWD, many)] {
        let mut chance = Chance::new(5);
        let rules = access_list(rule_count, &mut chance);
        let packets = packets(&rules, flow_count, &mut chance);
        let mut stand = Stand::new(&texts(&rules), packets, MatchMode::First, flow_count)?;
        // Each has been seen before: else a round would have first packets of flows among it.
        for _ in 0..flow_count {
            stand.one();
        }
        stands.push((known_flows(flow_count, rule_count), flow_count, RefCell::new(stand)));
    }
    let mut micro = Micro::new(KNOWN_REGIME, None);
    for (name, count, stand) in &stands {
        micro = match *count > KNOWN {
            true => micro.variant(name, || stand.borrow_mut().of_batch()),
            false => micro.variant(name, || stand.borrow_mut().one()),
        };
    }
    micro.run(settings)
}

fn first(settings: &Settings, many: usize) -> Result<Series, Error> {
    let mut stands = Vec::new();
    for count in [1, FEW, many] {
        let mut chance = Chance::new(5);
        let list = access_list(count, &mut chance);
        let packets = packets(&list, UNKNOWN, &mut chance);
        stands.push((rules(count), RefCell::new(Stand::new(&texts(&list), packets, MatchMode::First, 0)?)));
    }
    let mut chance = Chance::new(5);
    let list = access_list(FEW, &mut chance);
    let (sample, mut next) = (packets(&list, UNKNOWN, &mut chance), 0);
    let mut micro = Micro::new(FIRST_REGIME, None);
    for (name, stand) in &stands {
        micro = micro.variant(name, || stand.borrow_mut().one());
    }
    let micro = micro.variant(LINEAR, || {
        next = (next + 1) % UNKNOWN;
        linear(&list, &sample[next])
    });
    micro.run(settings)
}

/// The first rule that holds, by comparing all before it.
fn linear(rules: &[AccessRule], packet: &[u8]) -> Option<usize> {
    let head: &[u8; 38] = packet.first_chunk()?;
    if head[12..15] != [8, 0, 0x45] || head[20] & 0x3f != 0 || head[21] != 0 {
        return None;
    }
    let addr = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (ends, ports, protocol) = ([addr(26), addr(30)], [port(34), port(36)], head[23]);
    rules.iter().position(|rule| {
        let is = |at: usize| {
            let (wanted, length) = rule.ends[at];
            let (low, high) = rule.ports[at];
            let differs = (ends[at] ^ wanted).checked_shr(32 - length).unwrap_or(0);
            differs == 0 && (low..=high).contains(&ports[at])
        };
        is(0) && is(1) && rule.protocol.is_none_or(|wanted| wanted == protocol)
    })
}

fn tables(settings: &Settings) -> Result<Series, Error> {
    let mut stands = Vec::new();
    for count in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, FEW] {
        let mut chance = Chance::new(5);
        let texts = random_rules(count, &mut chance);
        let packets = (0..UNKNOWN).map(|_| application(&mut chance)).collect();
        stands.push((rules(count), RefCell::new(Stand::new(&texts, packets, MatchMode::All, 0)?)));
    }
    let mut micro = Micro::new(TABLE_1, None);
    for (name, stand) in &stands {
        micro = micro.variant(name, || stand.borrow_mut().one());
    }
    let mut series = micro.run(settings)?;
    let mut stands = Vec::new();
    for count in 1..=FIELDS {
        let stand = Stand::new(&nested(count), vec![application(&mut Chance::new(9))], MatchMode::All, 0)?;
        stands.push((fields(count), RefCell::new(stand)));
    }
    let mut micro = Micro::new(TABLE_2, None);
    for (name, stand) in &stands {
        micro = micro.variant(name, || stand.borrow_mut().one());
    }
    series.extend(micro.run(settings)?);
    Ok(series)
}

/// 32 rules, of which those of one to so many fields hold for one packet, each within the one before.
fn nested(count: usize) -> Vec<String> {
    const TESTS: [(&str, &str); FIELDS] = [
        ("ethernet", "src = 02:00:00:00:00:02"),
        ("ethernet", "dst = 02:00:00:00:00:01"),
        ("ip", "ttl = 64"),
        ("ip", "tos = 0"),
        ("ip", "src = 10.0.0.0/24"),
        ("ip", "dst = 10.0.0.0/24"),
        ("udp", "dport = 2001"),
        ("udp", "sport = 0..3"),
        ("udp", "length = 20"),
        ("app", "kind = 0..3"),
        ("app", "stream = 0..3"),
    ];
    let rule = |fields: usize| {
        let mut text = String::from("[");
        for header in ["ethernet", "ip", "udp", "app"] {
            let tests = TESTS[..fields].iter().filter(|(of, _)| *of == header).map(|(_, test)| format!("({test})"));
            text += &format!("{header} {} | ", tests.collect::<String>());
        }
        text + "*]"
    };
    let others = (count..32).map(|other| format!("[ethernet | ip | udp | app (frame = {}) | *]", 1000 + other));
    (1..=count).map(rule).chain(others).collect()
}

fn changes(settings: &Settings, many: usize) -> Result<Series, Error> {
    let mut chance = Chance::new(5);
    let list = access_list(many, &mut chance);
    let mut stand = Stand::new(&texts(&list), vec![], MatchMode::First, KNOWN)?;
    let new: Vec<_> =
        access_list(KNOWN, &mut chance).iter().map(|rule| stand.read(&rule.text())).collect::<Result<_, _>>()?;
    let mut next = 0;
    let micro = Micro::new(CHANGE, None).variant(CHANGED, || {
        next = (next + 1) % new.len();
        let added = stand.classifier.add(&new[next], 0, ());
        added.ok().and_then(|number| stand.classifier.remove(number))
    });
    micro.run(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classifier_and_the_linear_matcher_find_the_same() {
        let mut chance = Chance::new(3);
        let list = access_list(300, &mut chance);
        let packets = packets(&list, 500, &mut chance);
        let mut stand = Stand::new(&texts(&list), vec![], MatchMode::First, 0).unwrap();
        let mut found = 0;
        for packet in &packets {
            let first = stand.classifier.find(packet).first().map(|number| *number as usize);
            assert_eq!(first, linear(&list, packet));
            found += usize::from(first.is_some());
        }
        assert!(found > 400, "{found}");
    }

    #[test]
    fn rules_of_table_ii_hold_within_each_other() {
        for count in [1, 5, FIELDS] {
            let mut stand =
                Stand::new(&nested(count), vec![application(&mut Chance::new(9))], MatchMode::All, 0).unwrap();
            assert_eq!(stand.one(), count);
        }
    }

    #[test]
    fn a_batch_is_all_packets_once() {
        let mut chance = Chance::new(3);
        let packets = (0..2 * BATCH).map(|_| application(&mut chance)).collect();
        let mut stand = Stand::new(&["[udp | *]".to_owned()], packets, MatchMode::First, 64).unwrap();
        assert_eq!((0..2 * BATCH).map(|_| stand.of_batch()).sum::<usize>(), 2 * BATCH);
    }
}
