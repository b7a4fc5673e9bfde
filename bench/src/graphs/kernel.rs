//! Graphs in the kernel beside XDP written by hand: what it costs to pass one, what each engine adds, and the router of sixteen elements.
//!
//! Generator, router and sink are those of `anode bench paths`. All graphs put an Ethernet header in front, as the program by hand does.

use super::super::compile::Programs;
use super::super::flood::{Channel, Flood, Rhythm, Stream, Variant};
use super::super::gateway::TOTAL_CPU;
use super::super::line::EGRESS;
use super::super::node::NodeGateway;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::router::{TEXT, known};

/// Variants.
pub(super) const BY_HAND: &str = "XDP with next-hop cache";
const THROUGH: &str = "graph, entry to exit";
const ENGINES: &str = "graph, 10 engines between";
const ROUTER: &str = "router of 16 elements";

/// Targets: nanoseconds, and a ratio.
const THROUGH_NS: f64 = 8.0;
const ENGINE_NS: f64 = 2.0;
const OF_BY_HAND: f64 = 1.3;

/// Bytes of IP packets, and packets that enter together.
const SIZE: usize = 92;
const BURST: u32 = 64;

/// What the router takes.
const BOTH: &str = "r0/ip *\", \"r1/ip *";

/// Engines between.
const COUNT: usize = 10;

/// The role of the graphs: no bound is in the way.
pub(super) const ROLE: &str = "routes = \"kernel\"\n[[role]]\nname = \"graphs\"\n\
                    limits = { packets_per_second = 1_000_000_000, steps_per_second = 1_000_000_000_000 }\n\
                    grants = { channels = 16, bandwidth = 100_000_000_000, memory_bytes = 67_108_864, kernel_programs = 4 }\n";

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    if let Err(error) = Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED graphs in the kernel: {error}."));
        return Ok(Series::default());
    }
    let insert = Some(("arp1.insert", known()));
    let variants = vec![
        Variant::xdp(BY_HAND, &kernel, "cache"),
        Variant::node(node(THROUGH, "r0/ip *", &through(0))),
        Variant::node(node(ENGINES, "r0/ip *", &through(COUNT))),
        Variant::node(node(ROUTER, BOTH, TEXT).writes("router", insert)),
    ];
    let series =
        Flood { settings, programs: &programs, kernel: &kernel }.measure(variants, &[stream()], &[], report)?;
    let more = |variant: &str, than: &str, parts: f64| -> Vec<f64> {
        let both = series.values(&key(variant)).iter().zip(series.values(&key(than)));
        both.map(|(one, other)| (one - other) / parts).collect()
    };
    let targets = [
        Target::at_most(format!("{THROUGH}, beyond {BY_HAND}, ns"), &more(THROUGH, BY_HAND, 1.0), THROUGH_NS),
        Target::at_most("an engine in the kernel, each of 10, ns", &more(ENGINES, THROUGH, COUNT as f64), ENGINE_NS),
        Target::at_most(
            format!("{ROUTER}, in the kernel / {BY_HAND}"),
            &series.ratios(&key(ROUTER), ROUTER, BY_HAND),
            OF_BY_HAND,
        ),
    ];
    report.targets.extend(targets.into_iter().flatten());
    report.note(
        "In the kernel: Counter, Paint and Strip(0) by turns between entry and exit. What a graph costs beyond XDP by hand has the search \
         for its channel, the budget and the bandwidth of its domain, and counts in it.",
    );
    Ok(series)
}

fn stream() -> Stream {
    Stream::ordinary(SIZE, BURST).summed()
}

fn key(variant: &str) -> Key {
    Key { variant: variant.into(), size: Some(SIZE as u32), regime: stream().regime(), metric: TOTAL_CPU, unit: "ns" }
}

/// From entry to exit, with so many engines between them.
fn through(engines: usize) -> String {
    let between = ["Counter", "Paint(7)", "Strip(0)"].iter().cycle().take(engines);
    let between: String = between.map(|engine| format!(" -> {engine}")).collect();
    let (mac, peer) = (EGRESS.mac, EGRESS.peer_mac);
    format!("FromDevice(r0){between} -> Strip(14) -> EtherEncap(0x800, {mac}, {peer}) -> Queue -> ToDevice(r1);")
}

/// A node with a graph in the kernel.
fn node(name: &'static str, take: &str, text: &str) -> NodeGateway<'static> {
    let graph = format!(
        "{ROLE}[[graph]]\nname = \"router\"\nrole = \"graphs\"\nplace = \"auto\"\ntake = [\"{take}\"]\ntext = '''{text}'''\n"
    );
    NodeGateway::new(name, &[]).configured(&graph, "kernel = true").writes("router", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_are_configured_as_a_node_reads_it() {
        for text in [through(0), through(COUNT)] {
            assert_eq!(node(THROUGH, "r0/ip *", &text).refusal(), None);
        }
        assert_eq!(node(ROUTER, BOTH, TEXT).refusal(), None);
    }
}
