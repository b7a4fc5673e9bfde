//! The IP router that Click's authors have published, written anew: sixteen elements are on a packet's way from interface to interface.
//!
//! The same text runs as a graph of a node and in Click's user-level program, beside plain C that forwards and looks at nothing. Link
//! addresses of the next hops are known.

use std::ffi::OsString;
use std::path::PathBuf;

use model::Ask;
use model::graphs::Handler;

use super::super::compile::Programs;
use super::super::gateway::{GATEWAY_CPU, Gateway, Load, Running, compare};
use super::super::line::EGRESS;
use super::super::node::{NodeGateway, Up};
use super::super::place::{Place, Site};
use super::super::plain::{PlainC, unchanged};
use super::super::report::Report;
use super::super::series::{Series, Target};
use super::super::{Error, Settings};
use super::ROLE;

/// Variants.
pub(super) const PLAIN: &str = "plain C";
pub(super) const CLICK: &str = "Click";
const GRAPH: &str = "graph of a node";

/// The variable that has a path to Click's user-level program.
const VARIABLE: &str = "CLICK";

/// What a graph may cost of what Click does.
const OF_CLICK: f64 = 0.6;

/// For which port the datagrams are: another one than that of capsules.
const PORT: u16 = 7_000;

/// The text, of two interfaces: addresses are those of the place.
pub(super) const TEXT: &str = include_str!("router.click");

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let click = std::env::var_os(VARIABLE).map(|path| Click(path.into()));
    let plain = PlainC::new(&programs, PLAIN, 0);
    let mut gateways: Vec<&dyn Gateway> = vec![&plain, &GraphNode];
    match &click {
        Some(click) => gateways.push(click),
        None => report.note(format!(
            "Click had no turns: the variable {VARIABLE} has no path to its user-level program (another one than Debian's click)."
        )),
    }
    let bursts: &[u32] = if settings.quick { &[128] } else { &[128, 16, 1] };
    let loads: Vec<Load> = bursts.iter().map(|burst| Load::new(*burst, vec![0x5a; 100])).collect();
    let make = || {
        let mut place = Place::packet(&programs, settings.cpus())?;
        place.site.port = PORT;
        Ok(place)
    };
    let series = compare(settings, "IP router, packet", &gateways, &loads, &make)?;
    let of_click = series.keys().filter(|key| key.variant == GRAPH && key.metric == GATEWAY_CPU);
    for key in of_click.filter(|_| click.is_some()) {
        let ratios = series.ratios(key, GRAPH, CLICK);
        report.targets.extend(Target::at_most(format!("{}: {GRAPH} / {CLICK}", key.regime), &ratios, OF_CLICK));
    }
    Ok(series)
}

/// What the querier for the next hop is told: nobody there answers.
pub(super) fn known() -> String {
    format!("{} {}", EGRESS.peer, EGRESS.peer_mac)
}

/// A node that runs the text.
struct GraphNode;

impl Gateway for GraphNode {
    fn name(&self) -> &str {
        GRAPH
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let graph = format!(
            "{ROLE}[[graph]]\nname = \"router\"\nrole = \"graphs\"\ntake = [\"r0/ip *\", \"r1/ip *\"]\ntext = '''{TEXT}'''\n"
        );
        let running = NodeGateway::new(GRAPH, &[]).configured(&graph, "").start(site)?;
        let mut up = Up::wait(&site.scratch.path().join("run"))?;
        let insert = Ask::WriteGraph { name: "router".into(), handler: "arp1.insert".into(), value: known() };
        let _: Handler = up.asked(&insert)?;
        Ok(running)
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        unchanged(sent, arrived)
    }
}

/// Click's user-level program.
struct Click(PathBuf);

impl Gateway for Click {
    fn name(&self) -> &str {
        CLICK
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let path = site.scratch.path().join("router.click");
        let text = format!("{TEXT}\nScript(write arp1.insert {});\n", known());
        std::fs::write(&path, text).map_err(|cause| Error::Write { path: path.clone(), cause })?;
        site.spawn(&self.0, &[OsString::from(path)])
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        unchanged(sent, arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anode::graph::swap::GraphWire;
    use anode::graph::table::Graph;

    /// Engines from one to another, both counted, by the way of what is neither wrong nor for the router.
    fn way(graph: &Graph, from: &str, to: &str) -> usize {
        let (mut at, end, wires) = (graph.find(from).unwrap(), graph.find(to).unwrap(), graph.wires());
        let mut count = 1;
        while at != end {
            let class = graph.engines()[usize::from(at)].class.name();
            let output = match class {
                "Classifier" | "LinearIPLookup" => 2,
                _ => 0,
            };
            let next = |wire: &&GraphWire| wire.from == (at, output);
            at = wires.iter().find(next).unwrap_or_else(|| panic!("nothing behind {class}")).to.0;
            count += 1;
        }
        count
    }

    #[test]
    fn sixteen_engines_are_on_the_way() {
        let graph = anode::graph::load::load(TEXT, &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        assert_eq!(way(&graph, "in0/from", "to1"), 16);
    }
}
