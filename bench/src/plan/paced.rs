//! The router-level exchange (figures 5.6 to 5.9): packets of the bandwidth service at a rate that nobody slows down.
//!
//! ```text
//! udp:     pace 127.0.0.1:A ──▶ 127.0.0.1:B gateway ──▶ 127.0.0.1:C counted
//! packet:  pace s0 ──▶ r0 gateway r1 ──▶ d0, counted
//! ```
//!
//! Generator and gateway have a CPU each. First the rate is found that plain C forwards without loss; then all gateways
//! get the same number of packets at parts and multiples of it. Beyond what a gateway can do, its goodput says whether
//! it still does that: a livelock is one that spends its time on packets that are lost afterwards.

use super::super::compile::Programs;
use super::super::dialogue::Dialogue;
use super::super::gateway::{Gateway, Running};
use super::super::line::{D_MAC, D0, Line, S0};
use super::super::node::{NodeGateway, PATIENCE};
use super::super::place::{Cpus, Site, Way, free_port, ip_length, launch};
use super::super::plain::PlainC;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::packets::counted;
use super::switch::{Mode, Switch};
use super::{PLAIN, ROUTER};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Bytes of an IP packet, and packets: the paper's.
const SIZE: usize = 750;
const COUNT: u32 = 100_000;
const COUNT_QUICK: u32 = 20_000;
/// Packets of the lighter load (figure 5.9).
const FEW: u32 = 1000;

/// Of the rate that plain C forwards without loss.
const FACTORS: [f64; 5] = [0.5, 0.8, 1.0, 1.5, 2.0];
/// At these all must arrive.
const WHOLE: [f64; 2] = [0.5, 0.8];
/// Goodput at the highest of these over the peak.
const GOODPUT: f64 = 0.9;

/// Rates between which the loss-free one is sought, and steps.
const RATES: (f64, f64) = (40_000.0, 2_000_000.0);
const STEPS: usize = 8;
/// How much slower than asked for the generator may have been.
const LATE: f64 = 1.05;
/// Times a rate must be without loss.
const SURE: usize = 3;

/// Generator, sink, and the site of the gateway between.
struct Road {
    dialogue: Dialogue,
    site: Site,
    cpus: Cpus,
}

/// What came of some packets at a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    sent: u64,
    arrived: u64,
    sending_ns: u64,
    all_ns: u64,
    cpu_ns: u64,
}

impl Passed {
    fn parse(line: &str) -> Option<Passed> {
        let mut numbers = line.strip_prefix("run ")?.split(' ').map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Passed { sent: next()?, arrived: next()?, sending_ns: next()?, all_ns: next()?, cpu_ns: next()? })
    }

    fn share(&self, count: u32) -> f64 {
        self.arrived as f64 / f64::from(count)
    }

    /// Packets a second that arrived.
    fn goodput(&self) -> f64 {
        self.arrived as f64 * 1e9 / self.all_ns.max(1) as f64
    }

    /// Packets a second that were sent.
    fn offered(&self) -> f64 {
        self.sent as f64 * 1e9 / self.sending_ns.max(1) as f64
    }
}

impl Road {
    fn udp(programs: &Programs, cpus: Cpus) -> Result<Road, Error> {
        let listen = free_port()?;
        let arguments = ["udp".into(), listen.to_string().into()];
        let (dialogue, line) = Dialogue::start(launch(programs, cpus.generator, None), &programs.pace, &arguments)?;
        let ports: Vec<u16> = line.split(' ').filter_map(|port| port.parse().ok()).collect();
        let [previous, next] = ports[..] else { return Err(Error::Protocol(line)) };
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let way = Way::Udp { listen, previous: at(previous), next: at(next), other: None };
        Ok(Road { dialogue, site: Site::udp(way, programs, cpus)?, cpus })
    }

    fn packet(programs: &Programs, cpus: Cpus) -> Result<Road, Error> {
        let line = Line::new(programs)?;
        let arguments = ["packet".into(), line.s.netns(), S0.into(), line.d.netns(), D0.into(), D_MAC.into()];
        match Dialogue::start(launch(programs, cpus.generator, None), &programs.pace, &arguments)? {
            (dialogue, said) if said == "ready" => {
                Ok(Road { dialogue, site: Site::packet(line, programs, cpus)?, cpus })
            }
            (_, said) => Err(Error::Protocol(said)),
        }
    }

    fn load(&mut self, payload: &[u8]) -> Result<(), Error> {
        let bytes = self.site.dress(payload);
        match self.dialogue.ask(&format!("load {}", hex::encode(bytes)))?.as_str() {
            "ok" => Ok(()),
            other => Err(Error::Protocol(other.into())),
        }
    }

    fn run(&mut self, pid: u32, rate: f64, count: u32) -> Result<Passed, Error> {
        let line = self.dialogue.ask(&format!("run {pid} {} {count}", rate as u32))?;
        Passed::parse(&line).ok_or(Error::Protocol(line))
    }

    /// Sends a little until all of it arrives.
    fn warm(&mut self, one: &mut Forwarder) -> Result<(), Error> {
        const LITTLE: u32 = 2000;
        let limit = Instant::now() + PATIENCE;
        while Instant::now() < limit && !one.process.as_mut().is_some_and(Running::has_ended) {
            if self.run(0, RATES.0, LITTLE)?.arrived == u64::from(LITTLE) {
                return Ok(());
            }
        }
        let nothing = || Error::Silent { gateway: one.name.into(), state: "packets are lost".into(), log: "".into() };
        Err(one.process.as_mut().map_or_else(nothing, |process| process.silent(one.name)))
    }

    /// The highest rate at which nothing is lost, about.
    fn loss_free(&mut self, pid: u32, count: u32) -> Result<f64, Error> {
        let (mut low, mut high) = RATES;
        for _ in 0..STEPS {
            let middle = (low * high).sqrt();
            if self.is_whole(pid, middle, count)? { low = middle } else { high = middle }
        }
        let mut sure = 0;
        while sure < SURE && low > RATES.0 {
            if self.is_whole(pid, low, count)? { sure += 1 } else { (low, sure) = (low * 0.97, 0) }
        }
        Ok(low)
    }

    fn is_whole(&mut self, pid: u32, rate: f64, count: u32) -> Result<bool, Error> {
        let passed = self.run(pid, rate, count)?;
        Ok(passed.arrived == u64::from(count) && passed.offered() * LATE >= rate)
    }
}

/// Who forwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Router,
    Switch(Mode),
}

/// A gateway at work; it ends when this is dropped.
struct Forwarder {
    name: &'static str,
    process: Option<Running>,
    _switch: Option<Switch>,
}

impl Forwarder {
    fn start(kind: Kind, road: &Road, programs: &Programs) -> Result<Forwarder, Error> {
        let process = |name, running| Forwarder { name, process: Some(running), _switch: None };
        Ok(match kind {
            Kind::Plain => process(PLAIN, PlainC::new(programs, PLAIN, 0).start(&road.site)?),
            Kind::Router => process(ROUTER, NodeGateway::new(ROUTER, &[]).forwards_plan().start(&road.site)?),
            Kind::Switch(mode) => {
                let switch = Switch::start(mode, &road.site.way, road.cpus.gateway)?;
                Forwarder { name: mode.name(), process: None, _switch: Some(switch) }
            }
        })
    }

    /// Its process, 0 for this one.
    fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Running::pid)
    }
}

/// Measures the exchange over both kinds of ports.
pub(super) fn run(settings: &Settings, programs: &Programs, report: &mut Report) -> Result<Series, Error> {
    let settings = Settings { two_cpus: true, ..settings.clone() };
    let cpus = settings.cpus();
    if cpus.generator == cpus.gateway {
        report.note("SKIPPED router-level exchange: generator and gateway need a CPU each.");
        return Ok(Series::default());
    }
    let mut all = Series::default();
    let udp = [Kind::Plain, Kind::Router, Kind::Switch(Mode::Upcalls), Kind::Switch(Mode::Queues)];
    let places = [("udp", &udp[..]), ("packet", &udp[..2])];
    for (place, kinds) in places.into_iter().take(if settings.quick { 1 } else { 2 }) {
        let make = || if place == "udp" { Road::udp(programs, cpus) } else { Road::packet(programs, cpus) };
        match compare(&settings, programs, (place, kinds), &make) {
            Ok(exchange) => all.extend(exchange.judged(place, count(&settings), report)),
            Err(Error::NoNamespace) => report.note(format!("SKIPPED {place} exchange: {}.", Error::NoNamespace)),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// What was measured at one kind of port.
#[derive(Default)]
struct Exchange {
    series: Series,
    /// Goodput of the node at the highest rate over its peak, by round.
    kept: Vec<f64>,
    /// Rates that plain C forwards without loss, by round.
    rate: f64,
}

fn count(settings: &Settings) -> u32 {
    if settings.quick { COUNT_QUICK } else { COUNT }
}

fn regime(place: &str, count: u32, factor: f64) -> String {
    format!("{place}, {count} packets at {factor} × plain C's loss-free rate")
}

fn key(variant: &str, regime: &str, metric: &'static str, unit: &'static str) -> Key {
    let size = Some(SIZE as u32);
    Key { variant: variant.into(), size, regime: regime.into(), metric, unit }
}

const DELIVERED: &str = "share delivered";
const PER_SECOND: &str = "packets/s";

fn compare(
    settings: &Settings,
    programs: &Programs,
    (place, kinds): (&str, &[Kind]),
    make: &dyn Fn() -> Result<Road, Error>,
) -> Result<Exchange, Error> {
    let payload = counted(SIZE)?;
    let most = count(settings);
    debug_assert_eq!(ip_length(&payload) as usize, SIZE);
    let mut roads = kinds.iter().map(|_| make()).collect::<Result<Vec<Road>, Error>>()?;
    let mut exchange = Exchange::default();
    settings.rounds(&format!("{place}, router-level exchange"), |round| {
        roads.rotate_left(1);
        let mut gateways = Vec::new();
        for (kind, road) in kinds.iter().zip(&mut roads) {
            let mut gateway = Forwarder::start(*kind, road, programs)?;
            road.load(&payload)?;
            road.warm(&mut gateway)?;
            gateways.push(gateway);
        }
        if exchange.rate == 0.0 {
            exchange.rate = roads[0].loss_free(gateways[0].pid(), most)?;
        }
        let mut goodput = vec![Vec::new(); kinds.len()];
        let loads = FACTORS.iter().map(|factor| (most, *factor)).chain([(FEW, 2.0)]);
        for (count, factor) in loads {
            for step in 0..kinds.len() {
                let at = if round.is_multiple_of(2) { step } else { kinds.len() - 1 - step };
                let passed = roads[at].run(gateways[at].pid(), factor * exchange.rate, count)?;
                exchange.push(gateways[at].name, &regime(place, count, factor), count, &passed);
                if count == most {
                    goodput[at].push(passed.goodput());
                }
            }
        }
        let node = kinds.iter().position(|kind| *kind == Kind::Router).map(|at| &goodput[at]);
        let peak = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        for (gateway, all) in gateways.iter().zip(&goodput) {
            let regime = format!("{place}, {most} packets at the rate that suits best");
            exchange.series.push(key(gateway.name, &regime, "throughput", PER_SECOND), peak(all));
        }
        exchange.kept.extend(node.and_then(|all| Some(*all.last()? / peak(all))));
        Ok(())
    })?;
    Ok(exchange)
}

impl Exchange {
    fn push(&mut self, name: &str, regime: &str, count: u32, passed: &Passed) {
        let mut add = |metric, unit, value| self.series.push(key(name, regime, metric, unit), value);
        add(DELIVERED, "of 1", passed.share(count));
        add("goodput", PER_SECOND, passed.goodput());
        add("offered", PER_SECOND, passed.offered());
        if passed.cpu_ns > 0 {
            let per_packet = passed.cpu_ns as f64 / passed.arrived.max(1) as f64;
            add("gateway CPU per delivered packet, two CPUs", "ns", per_packet);
        }
    }

    fn judged(self, place: &str, count: u32, report: &mut Report) -> Series {
        for factor in WHOLE {
            let regime = regime(place, count, factor);
            let shares = self.series.values(&key(ROUTER, &regime, DELIVERED, "of 1")).to_vec();
            report.targets.extend(Target::at_least(format!("{regime}: share delivered"), &shares, 1.0));
        }
        let name = format!("{}: goodput / its peak", regime(place, count, 2.0));
        report.targets.extend(Target::at_least(name, &self.kept, GOODPUT));
        report.note(format!(
            "Router-level exchange, {place}: plain C forwards {:.0} packets/s of {SIZE} B without loss; generator and \
             gateway have a CPU each.",
            self.rate
        ));
        self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_line_is_read_whole_or_not_at_all() {
        let passed = Passed::parse("run 100 50 1000 2000 300").unwrap();
        assert_eq!((passed.share(100), passed.goodput(), passed.offered()), (0.5, 25e6, 100e6));
        for bad in ["", "run 1 2 3 4", "run a 2 3 4 5", "ok"] {
            assert_eq!(Passed::parse(bad), None, "{bad}");
        }
    }

    /// What arrives is counted, over UDP, through plain C and through layers with queues.
    #[test]
    fn packets_at_a_low_rate_all_arrive_and_are_counted() {
        let programs = Programs::ready().unwrap();
        let settings = Settings { two_cpus: true, ..Settings::quiet(1) };
        for kind in [Kind::Plain, Kind::Switch(Mode::Upcalls), Kind::Switch(Mode::Queues)] {
            let mut road = Road::udp(&programs, settings.cpus()).unwrap();
            let mut gateway = Forwarder::start(kind, &road, &programs).unwrap();
            road.load(&counted(SIZE).unwrap()).unwrap();
            road.warm(&mut gateway).unwrap();
        }
    }
}
