//! The application-level exchange (figures 5.4 and 5.5), and the bandwidth service between three nodes (figure 5.6).
//!
//! ```text
//! application ─▶ PLAN port of the first node ─▶ in the middle: plain C, or a node ─▶ last node ─▶ PLAN port ─▶ application
//! ```
//!
//! Every packet is evaluated at the first node, which sends what the program makes; the one in the middle forwards; at
//! the last node the chunk delivers its blob to the application. The ends are the same nodes whoever is in the middle,
//! so the rate that plain C there carries without loss is what the ends and their applications can do with the best of
//! all switches between. Ends and applications share a CPU, the middle has one of its own.

use super::super::compile::Programs;
use super::super::gateway::{Gateway, Running};
use super::super::line::{EGRESS, INGRESS};
use super::super::node::{NodeGateway, Up, failed};
use super::super::place::{Cpus, Site, Way, free_port};
use super::super::plain::PlainC;
use super::super::programs;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::packets::host;
use super::{PLAIN, ROUTER};
use anode::apps::plan::{Local, Script, packet};
use anode::manage::client::plan::{PlanPort, Told};
use anode::sys::realtime;
use plan::value::{Host, Value};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packets, and bytes of their blobs.
const COUNT: u32 = 80_000;
const COUNT_QUICK: u32 = 10_000;
const LOAD: usize = 600;

/// Of the rate that plain C in the middle carries without loss.
const FACTOR: f64 = 0.8;

/// Rates between which that is sought, and steps.
const RATES: (f64, f64) = (5_000.0, 400_000.0);
const STEPS: usize = 7;
/// How much slower than asked for the application may have injected.
const LATE: f64 = 1.05;

/// Packets that are injected together.
const CHUNK: u32 = 8;
/// The number as which the receiver listens.
const LISTENS: u32 = 7;
/// After so long a silence no more is expected.
const SILENCE: Duration = Duration::from_millis(300);

/// Packets of the bandwidth service, and how many a second.
const SERVICE_COUNT: u32 = 100_000;
const SERVICE_COUNT_QUICK: u32 = 10_000;
const SERVICE_RATE: u32 = 50_000;

const REGIME: &str = "application-level exchange, 3 nodes";
const DELIVERED: &str = "share delivered";

/// A sender of the bandwidth service pays for all of its packets at once.
const BOUND: &str = "[plan]\nbound_max = 4000000000\nopen = [\"bandwidthReceive\", \"bandwidthSend\"]";

/// What every packet is: evaluated where it is injected, delivered where it goes.
const PROGRAM: &str = "fun go(dest : host, to : port, load : blob) : unit =
  OnRemote(|deliver|(to, load), dest, getRB(), defaultRoute)";

/// Three nodes in a line; the one in the middle may be plain C.
struct Chain {
    dirs: [PathBuf; 2],
    /// The middle first: its neighbours notice nothing.
    _running: Vec<Running>,
    _sites: [Site; 2],
    cpu: usize,
}

/// The configuration of an end of the line.
fn end(dir: &Path, own: std::net::Ipv4Addr, other: std::net::Ipv4Addr, ports: [SocketAddr; 2]) -> String {
    let ([listen, at], middle) = (ports, EGRESS.address);
    format!(
        "name = \"end\"\nrun_dir = {dir:?}\n{BOUND}\n[[route]]\nto = \"{other}/32\"\nvia = \"{middle}\"\n\
         [[port]]\nudp = \"{listen}\"\nmtu = 1472\naddress = [\"{own}/24\"]\nneighbours = [{{ address = \"{middle}\", at = \"{at}\" }}]\n"
    )
}

impl Chain {
    fn new(programs: &Programs, cpus: Cpus, middle: &dyn Gateway) -> Result<Chain, Error> {
        let [first, between, last] = [free_port()?, free_port()?, free_port()?];
        let way = Way::Udp { listen: between, previous: first, next: last, other: None };
        let site = Site::udp(way.clone(), programs, cpus)?;
        let ends = Site::udp(way, programs, Cpus { gateway: cpus.generator, ..cpus })?;
        let mut running = vec![middle.start(&site)?];
        let dirs = ["first", "last"].map(|name| ends.scratch.path().join(name));
        let texts = [
            end(&dirs[0], INGRESS.peer, EGRESS.peer, [first, between]),
            end(&dirs[1], EGRESS.peer, INGRESS.peer, [last, between]),
        ];
        for (dir, text) in dirs.iter().zip(texts) {
            let config = dir.with_extension("toml");
            std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            let mut node =
                ends.spawn_in(None, &name, &programs::node()?, &["node".into(), "run".into(), config.into()])?;
            Up::wait(dir).map_err(|_| node.silent("a node at an end"))?;
            running.push(node);
        }
        Ok(Chain { dirs, _running: running, _sites: [site, ends], cpu: cpus.generator })
    }

    /// Has an application inject so many packets at a rate; gives how many arrived, and the rate at which they were injected.
    fn exchange(&self, script: &Script, rate: f64, count: u32) -> Result<(u64, f64), Error> {
        let mut last = PlanPort::attach(&self.dirs[1], LISTENS).map_err(failed)?;
        let mut first = PlanPort::attach(&self.dirs[0], 0).map_err(failed)?;
        let load = Value::Blob(vec![0x5a; LOAD].into());
        let arguments = [Value::Host(host(EGRESS.peer)), Value::Port(last.port()), load];
        let chunk = script.chunk("go", arguments).ok_or_else(|| Error::Guest("there is no function go".into()))?;
        let bytes = packet(chunk, 3).bytes().ok_or_else(|| Error::Guest("the packet cannot be made".into()))?;
        let receiver = apart(self.cpu, move || -> Result<u64, Error> {
            let mut arrived = 0;
            while arrived < u64::from(count) {
                match last.receive(SILENCE).map_err(failed)? {
                    Some(Told::Delivered(..)) => arrived += 1,
                    Some(other) => return Err(Error::Node(format!("{other:?} came, not a blob"))),
                    None if arrived > 0 => break,
                    None => return Ok(0),
                }
            }
            Ok(arrived)
        })?;
        let sender = apart(self.cpu, move || -> Result<f64, Error> {
            let (began, gap) = (Instant::now(), Duration::from_secs_f64(f64::from(CHUNK) / rate));
            for burst in 0..count.div_ceil(CHUNK) {
                let wait = (began + gap * burst).saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                for _ in 0..CHUNK.min(count - burst * CHUNK) {
                    first.inject(&bytes).map_err(failed)?;
                }
            }
            Ok(f64::from(count) / began.elapsed().as_secs_f64())
        })?;
        let rate = join(sender)?;
        Ok((join(receiver)?, rate))
    }

    /// Exchanges until all of a few arrive: codes and routes are where they are needed.
    fn warm(&self, script: &Script) -> Result<(), Error> {
        const FEW: u32 = 500;
        for _ in 0..20 {
            if self.exchange(script, RATES.0, FEW)?.0 == u64::from(FEW) {
                return Ok(());
            }
        }
        Err(Error::Node("three nodes in a line lose packets at any rate".into()))
    }

    /// The highest rate at which nothing is lost and the application is not kept waiting, about.
    fn loss_free(&self, script: &Script, count: u32) -> Result<f64, Error> {
        let (mut low, mut high) = RATES;
        for _ in 0..STEPS {
            let middle = (low * high).sqrt();
            let (arrived, rate) = self.exchange(script, middle, count)?;
            if arrived == u64::from(count) && rate * LATE >= middle { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// Has the first node's bandwidth service send to the last one's meter; gives the share that was counted, and how many a second.
    fn service(&self, count: u32, rate: u32) -> Result<(f64, f64), Error> {
        let script =
            Script::new("bandwidth", include_str!("../../../apps/plan/bandwidth.plan")).map_err(Error::Guest)?;
        let mut port = PlanPort::attach(&self.dirs[0], 0).map_err(failed)?;
        let mut local = Local { addresses: vec![Host(host(INGRESS.peer).0)], ..Local::default() };
        let to = EGRESS.peer;
        let mut call = |call: &str, bound: u32| -> Result<(), Error> {
            let chunk = script.first(call, &mut local).map_err(|why| Error::Guest(why.to_string()))?;
            let bytes = packet(chunk, bound).bytes().ok_or_else(|| Error::Guest("a call is too long".into()))?;
            port.inject(&bytes).map_err(failed)
        };
        call(
            &format!("measure(hd thisHost(), getHostByName(\"{to}\"), \"bench\", {count}, {LOAD}, {rate}, 3)"),
            3 * count + 60,
        )?;
        std::thread::sleep(Duration::from_secs_f64(f64::from(count) / f64::from(rate)) + SILENCE);
        // The report goes there, and comes back.
        let asked = format!("ask(hd thisHost(), getHostByName(\"{to}\"), \"bench\")");
        let ask = format!(
            "{}\nfun ask(home : host, dest : host, name : string) : unit =\n  OnRemote(|report|(home, name), dest, \
             getRB(), defaultRoute)\n",
            include_str!("../../../apps/plan/bandwidth.plan")
        );
        let ask = Script::new("ask", &ask).map_err(Error::Guest)?;
        let chunk = ask.first(&asked, &mut local).map_err(|why| Error::Guest(why.to_string()))?;
        port.inject(&packet(chunk, 10).bytes().unwrap_or_default()).map_err(failed)?;
        let said = match port.receive(Duration::from_secs(5)).map_err(failed)? {
            Some(Told::Printed(said)) => said,
            other => return Err(Error::Node(format!("the bandwidth service says {other:?}"))),
        };
        let numbers: Vec<f64> =
            said.trim_matches(['(', ')']).split(", ").filter_map(|number| number.parse().ok()).collect();
        let [packets, _, milliseconds] = numbers[..] else { return Err(Error::Node(said)) };
        Ok((packets / f64::from(count), packets * 1000.0 / milliseconds.max(1.0)))
    }
}

/// Runs something in a thread on a CPU, in the class of the nodes beside it.
fn apart<T: Send + 'static>(
    cpu: usize,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<JoinHandle<Result<T, Error>>, Error> {
    let run = move || {
        // Without the right to real-time the nodes are ordinary processes too.
        let _ = realtime::pin(&[cpu]).and_then(|()| realtime::be_realtime(1));
        work()
    };
    std::thread::Builder::new().spawn(run).map_err(|error| Error::Node(error.to_string()))
}

fn join<T>(thread: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    thread.join().map_err(|_| Error::Node("an application of the benchmark panicked".into()))?
}

fn key(variant: &str, regime: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric, unit }
}

/// Measures both, with plain C and with a node in the middle.
pub(super) fn run(settings: &Settings, programs: &Programs, report: &mut Report) -> Result<Series, Error> {
    let settings = Settings { two_cpus: true, ..settings.clone() };
    let cpus = settings.cpus();
    let (count, service) = if settings.quick { (COUNT_QUICK, SERVICE_COUNT_QUICK) } else { (COUNT, SERVICE_COUNT) };
    let script = Script::new("go", PROGRAM).map_err(Error::Guest)?;
    let (plain, node) =
        (PlainC::new(programs, PLAIN, 0), NodeGateway::new(ROUTER, &[]).forwards_plan().configured(BOUND, ""));
    let gateways: [&dyn Gateway; 2] = [&plain, &node];
    let regime = format!("{REGIME}, {count} packets at {FACTOR} × the loss-free rate with plain C");
    let service_regime = format!("bandwidth service, 3 nodes, {service} packets at {SERVICE_RATE}/s");
    let (mut series, mut rate) = (Series::default(), 0.0);
    settings.rounds(REGIME, |round| {
        for step in 0..gateways.len() {
            let at = if round.is_multiple_of(2) { step } else { gateways.len() - 1 - step };
            let name = gateways[at].name();
            let chain = Chain::new(programs, cpus, gateways[at])?;
            chain.warm(&script)?;
            if rate == 0.0 {
                rate = chain.loss_free(&script, count)?;
            }
            let (arrived, injected) = chain.exchange(&script, FACTOR * rate, count)?;
            series.push(key(name, &regime, DELIVERED, "of 1"), arrived as f64 / f64::from(count));
            series.push(key(name, &regime, "injected", "packets/s"), injected);
            // Plain C forwards one way only, and the service answers.
            if name == ROUTER {
                let (share, goodput) = chain.service(service, SERVICE_RATE)?;
                series.push(key(name, &service_regime, DELIVERED, "of 1"), share);
                series.push(key(name, &service_regime, "goodput", "packets/s"), goodput);
            }
        }
        Ok(())
    })?;
    let shares = series.values(&key(ROUTER, &regime, DELIVERED, "of 1")).to_vec();
    report.targets.extend(Target::at_least(format!("{regime}: share delivered"), &shares, 1.0));
    report.note(format!(
        "Application-level exchange: three nodes, plain C as the one in the middle, carry {rate:.0} packets/s without loss."
    ));
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anode::config::NodeFile;
    use anode::wire::Addr;
    use std::net::IpAddr;

    #[test]
    fn an_end_of_the_line_knows_the_other_by_the_middle() {
        let ports = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let text = end("/tmp/x".as_ref(), INGRESS.peer, EGRESS.peer, ports);
        let (config, _) = NodeFile::parse(&text).unwrap().plan().unwrap();
        let next = config.routes.next_hop(Addr::from(IpAddr::V4(EGRESS.peer))).unwrap();
        assert_eq!(next.via, Addr::from(IpAddr::V4(EGRESS.address)));
    }

    #[test]
    fn the_program_of_the_exchange_is_one() {
        let script = Script::new("go", PROGRAM).unwrap();
        assert!(script.chunk("go", [Value::Unit, Value::Unit, Value::Unit]).is_some());
    }
}
