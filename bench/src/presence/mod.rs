//! `anode bench presence`: the cost of a node for traffic that is not for it.
//!
//! No capsule comes. Ordinary packets are forwarded by Linux through a router, and TCP streams go through it and to it,
//! while a node is there with its kernel half, with AF_XDP sockets alone, or with native ports alone (socket filter and
//! guard). A bare program that passes everything is what the first two are compared with, since the hook as such
//! changes offloads and the way of frames; native ports need no such hook and are compared with no program at all. Both
//! are beside both all the same. One whose ports have `kernel = "auto"` is compared with no program too: it has the hook
//! only where that costs nothing, and so are all with the offloads of a veth as they are, and without.

mod stream;

use super::compile::Programs;
use super::flood::{Channel, Flood, Rhythm, Stream, Variant};
use super::gateway::TOTAL_CPU;
use super::node::NodeGateway;
use super::report::Report;
use super::series::{Series, Target};
use super::{Error, Settings};
use stream::Offloads;

const NONE: &str = "no program";
const PASS: &str = "XDP_PASS";
const HALF: &str = "node, kernel half";
const SOCKETS: &str = "node, AF_XDP";
const PORTS: &str = "node, native ports";
const AUTO: &str = "node, kernel = \"auto\"";

/// What the presence may cost a forwarded packet, and what must be left of a stream's speed.
const FORWARDED: f64 = 1.03;
const STREAMED: f64 = 0.97;

/// Each node with what has the same offloads but no node.
const PAIRS: [(&str, &str); 4] = [(HALF, PASS), (SOCKETS, PASS), (PORTS, NONE), (AUTO, NONE)];

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let flood = Flood { settings, programs: &programs, kernel: &kernel };
    let variants = || {
        let half = NodeGateway::new(HALF, &[]).configured("routes = \"kernel\"", "kernel = true");
        let all = vec![
            Variant::linux(NONE),
            Variant::xdp(PASS, &kernel, "pass"),
            Variant::node(half),
            Variant::node(NodeGateway::new(SOCKETS, &[]).configured("routes = \"kernel\"", "xdp = true")),
            Variant::node(NodeGateway::new(PORTS, &[]).configured("routes = \"kernel\"", "")),
            Variant::node(NodeGateway::new(AUTO, &[]).configured("routes = \"kernel\"", "kernel = \"auto\"")),
        ];
        all.into_iter().map(Variant::with_gro).collect::<Vec<_>>()
    };
    if let Err(error) = Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED: {error}."));
        return Ok(());
    }
    let sizes: &[usize] = if settings.quick { &[128] } else { &[128, 1500] };
    let streams: Vec<Stream> = sizes.iter().map(|size| Stream::ordinary(*size, 64)).collect();
    let mut all = flood.measure(variants(), &streams, &[], report)?;
    for offloads in [Offloads::AsTheyAre, Offloads::Off] {
        all.extend(stream::run(&flood, &variants(), offloads, report)?);
    }
    judge(&all, report);
    report.rows = all.rows(&[PASS, NONE]);
    let class = programs.scheduling_class();
    report.note(format!(
        "Both ends and the router run in one process on one CPU under {class}: a stream's speed is what one CPU can do for all three."
    ));
    Ok(())
}

/// The targets: each node beside what is like it, in every circumstance.
fn judge(series: &Series, report: &mut Report) {
    for (node, bare) in PAIRS {
        for key in series.keys().filter(|key| key.variant == node) {
            let name = match key.size {
                Some(size) => format!("{}, {size} B: {node} / {bare}", key.regime),
                None => format!("{}: {node} / {bare}", key.regime),
            };
            let ratios = series.ratios(key, node, bare);
            report.targets.extend(match key.metric {
                TOTAL_CPU => Target::at_most(name, &ratios, FORWARDED),
                stream::SPEED => Target::at_least(name, &ratios, STREAMED),
                _ => None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::Key;
    use super::*;

    #[test]
    fn each_node_is_judged_beside_what_has_its_offloads() {
        let mut series = Series::default();
        let regime = Stream::ordinary(128, 64).regime();
        for _ in 0..30 {
            for (variant, ns, speed) in [
                (NONE, 500.0, 9.0),
                (PASS, 1000.0, 5.0),
                (HALF, 1010.0, 4.5),
                (SOCKETS, 1040.0, 4.9),
                (PORTS, 501.0, 8.9),
            ] {
                let key =
                    |metric, unit| Key { variant: variant.into(), size: None, regime: regime.clone(), metric, unit };
                series.push(key(TOTAL_CPU, "ns"), ns);
                series.push(key(stream::SPEED, "Gbit/s"), speed);
            }
        }
        let mut report = Report::new("presence", 1);
        judge(&series, &mut report);
        let met: Vec<bool> = report.targets.iter().map(|target| target.met).collect();
        assert_eq!(met, [true, false, false, true, true, true]);
    }
}
