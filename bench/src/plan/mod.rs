//! `anode bench plan`: the cost of packets that are programs, after the papers' measurements of PLAN.
//!
//! | figure of the thesis on PLAN and the OSKit | here |
//! |---|---|
//! | 5.2 latency: PLAN, ICMP, C; table 5.2 | [`latency`]: round trips over UDP and AF_PACKET; upcalls and queues |
//! | 5.3 evaluating the ping packet | [`micro`], without I/O |
//! | 5.4, 5.5 application-level exchange | [`exchange`]: three nodes, an application at each end |
//! | 5.6 to 5.8 exchange of routers, with queues and upcalls | [`paced`], [`switch`]; bursts below; service in [`exchange`] |
//! | 5.9 under lighter load | [`paced`], 1,000 packets |
//!
//! The gateways here compare a node that routes PLAN packets with programs in C that forward unread, by CPU per packet.

mod exchange;
mod latency;
mod micro;
mod paced;
mod packets;
mod switch;

use super::compile::Programs;
use super::gateway::{GATEWAY_CPU, Gateway, Load, SHARE, SHARE_UNIT, compare};
use super::node::NodeGateway;
use super::place::Place;
use super::plain::PlainC;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use switch::Mode;

const PLAIN: &str = "plain C";
const ROUTER: &str = "PLAN router";

/// A node that routes, over plain C: CPU per packet.
const ROUTER_RATIO: f64 = 1.3;
/// Evaluating the ping packet, in nanoseconds.
const PING_NS: f64 = 1000.0;
/// Parsing and checking 200 lines, in nanoseconds.
const CHECK_NS: f64 = 2e6;

/// Rounds in a full run, of what takes seconds each and of the rest: all of it takes some minutes.
const LONG_ROUNDS: usize = 5;
const ROUNDS: usize = 10;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let micro = micro::run(settings)?;
    let values = |variant: &str| micro.values(&micro::key(variant)).to_vec();
    report.targets.extend(Target::at_most("the ping packet, evaluated, ns", &values(micro::PING), PING_NS));
    report.targets.extend(Target::at_most("200 lines parsed and checked, ns", &values(micro::CHECK), CHECK_NS));
    let mut all = micro;
    let at_most = |rounds| Settings { round_count: settings.round_count.min(rounds), ..settings.clone() };
    let (settings, long) = (&at_most(ROUNDS), at_most(LONG_ROUNDS));
    all.extend(latency::run(settings, &programs, report)?);
    all.extend(paced::run(&long, &programs, report)?);
    all.extend(exchange::run(&long, &programs, report)?);
    all.extend(gateways(settings, &programs, report)?);
    report.rows = all.rows(&[PLAIN, latency::ECHO, Mode::Upcalls.name(), micro::FRAME]);
    report.note("Packets with code carry it whole: the generator is no node and does not learn that it need not.");
    Ok(())
}

/// The node as a gateway beside plain C, by loss-free bursts of the bandwidth service's packets and of packets with code.
fn gateways(settings: &Settings, programs: &Programs, report: &mut Report) -> Result<Series, Error> {
    let node = NodeGateway::new(ROUTER, &[]).forwards_plan();
    let plain = PlainC::new(programs, PLAIN, 0);
    let gateways: [&dyn Gateway; 2] = [&plain, &node];
    let cpus = settings.cpus();
    let mut all = Series::default();
    for (with, packet) in [("", packets::counted as fn(usize) -> _), (", with code", packets::coded)] {
        let sizes: &[usize] = if settings.quick { &[750] } else { &[256, 750, 1400] };
        let loads = sizes.iter().map(|length| Ok(Load::new(128, packet(*length)?)));
        let loads = loads.collect::<Result<Vec<Load>, Error>>()?;
        let udp = compare(settings, &format!("udp{with}"), &gateways, &loads, &|| Place::udp(programs, cpus))?;
        judge(&udp, report);
        all.extend(udp);
        match compare(settings, &format!("packet{with}"), &gateways, &loads, &|| Place::packet(programs, cpus)) {
            Ok(packet) => {
                judge(&packet, report);
                all.extend(packet);
            }
            Err(Error::NoNamespace) => report.note(format!("SKIPPED packet{with}: {}.", Error::NoNamespace)),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn judge(series: &Series, report: &mut Report) {
    let of_plain = |key: &&Key| key.variant == PLAIN && key.metric == GATEWAY_CPU;
    for key in series.keys().filter(of_plain) {
        let place = format!("{}, {} B", key.regime, key.size.unwrap_or_default());
        let name = format!("{place}: {ROUTER} / {PLAIN}");
        report.targets.extend(Target::at_most(name, &series.ratios(key, ROUTER, PLAIN), ROUTER_RATIO));
        let share = Key { variant: ROUTER.into(), metric: SHARE, unit: SHARE_UNIT, ..key.clone() };
        report.targets.extend(Target::at_least(format!("{place}: share routed"), series.values(&share), 1.0));
    }
}
