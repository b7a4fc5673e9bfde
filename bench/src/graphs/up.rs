//! What it costs that an engine is not in the kernel: the same graph twice, in which the place of one engine differs. Where that is
//! `@user` the program in the kernel finds out that the packet is for it, and hands the packet up; the node's process has it there.
//!
//! ```text
//! r0 ▶ program of the graph: IPClassifier ─▶ Counter @kernel ─▶ Discard
//!                                         └▶ up ▶ socket ▶ the node's process: IPClassifier ─▶ Counter @user ─▶ Discard
//! ```
//!
//! The figure is the difference of both in CPU time for a packet: of the kernel's thread that receives on r0, and of the whole process. All
//! that begins with handing it up is in it: the socket, waking up, the domain's turn, and the engines again. Nothing leaves, so that
//! sending is not in it. Generator and router have a CPU each; bursts have pauses in which the process falls asleep.

use std::time::Instant;

use model::Ask;
use model::graphs::{Graph, Shown};

use super::super::compile::{KernelPrograms, Programs};
use super::super::flood::{Channel, Rhythm, Stream, rest};
use super::super::gateway::{Gateway, Running, end_all};
use super::super::line::IP_UDP;
use super::super::node::{NodeGateway, PATIENCE, Up};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::kernel::ROLE;

/// Bytes of an item, which a datagram carries, and at most so many microseconds each.
const ITEMS: [(usize, f64); 2] = [(64, 0.4), (1472, 0.8)];

/// Packets of a burst, of a slice, and slices of each node and size in a round.
const BURST: u32 = 64;
const SLICE: u32 = 4096;
const SLICES: usize = 8;
const QUICK_SLICES: usize = 3;

/// A slice of which some were lost was disturbed by others, and is sent again so often at most.
const TRIES: usize = 4;

/// Sockets by which packets go up: what ports say, and the names of both nodes.
const SOCKETS: [(&str, &str, [&str; 2]); 2] = [
    ("AF_PACKET", "kernel = true", ["in the kernel", "up, by AF_PACKET"]),
    ("AF_XDP", "kernel = true\nxdp = true", ["in the kernel, AF_XDP sockets there", "up, by AF_XDP"]),
];

/// The places of the engine, in the order of their names.
const PLACES: [&str; 2] = ["@kernel", "@user"];

const METRIC: &str = "receiving thread and node, CPU per packet";
const GRAPH: &str = "up";

/// A node with its line, and the figures of a slice.
struct Stand {
    channel: Channel,
    node: Option<(Running, Up)>,
}

/// Measures it.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let two = Settings { two_cpus: true, ..settings.clone() };
    let cpus = two.cpus();
    if cpus.generator == cpus.gateway {
        report.note("SKIPPED kernel to user space: there is only one CPU for generator and router.");
        return Ok(Series::default());
    }
    let mut stands = Vec::new();
    for _ in 0..SOCKETS.len() * PLACES.len() {
        match Stand::new(&programs, &kernel, &two) {
            Ok(stand) => stands.push(stand),
            Err(error) => {
                report.note(format!("SKIPPED kernel to user space: {error}."));
                return Ok(Series::default());
            }
        }
    }
    let mut series = Series::default();
    two.rounds("up", |round| {
        stands.rotate_left(1);
        one_round(round, settings.quick, &mut stands, &mut series)?;
        end_all(stands.iter_mut().filter_map(|stand| stand.node.take()).map(|(running, _)| running));
        rest(report);
        Ok(())
    })?;
    report.targets.extend(judge(&series));
    report.note(format!(
        "Kernel to user space: bursts of {BURST} datagrams of 64 and 1472 bytes, which are packets of 92 and 1500. AF_XDP in copy mode at \
         veth interfaces."
    ));
    Ok(series)
}

/// Each socket and item: what `@user` costs beyond `@kernel`, in microseconds.
fn judge(series: &Series) -> Vec<Target> {
    let mut targets = Vec::new();
    for (socket, _, [there, up]) in SOCKETS {
        for (item, most) in ITEMS {
            let pairs = series.values(&key(up, item)).iter().zip(series.values(&key(there, item)));
            let values: Vec<f64> = pairs.map(|(up, there)| (up - there) / 1e3).collect();
            let name = format!("kernel to user space by {socket}, an item of {item} bytes, µs");
            targets.extend(Target::at_most(name, &values, most));
        }
    }
    targets
}

fn stream(item: usize) -> Stream {
    Stream { rhythm: Rhythm::Fair, ..Stream::ordinary(item + IP_UDP, BURST).summed() }
}

fn key(variant: &str, item: usize) -> Key {
    let stream = stream(item);
    Key { variant: variant.into(), size: Some(stream.size as u32), regime: stream.regime(), metric: METRIC, unit: "ns" }
}

/// All nodes, each with its name.
fn gateways() -> impl Iterator<Item = NodeGateway<'static>> {
    SOCKETS.into_iter().flat_map(|(_, port, names)| {
        names.into_iter().zip(PLACES).map(move |(name, place)| {
            let graph = format!(
                "{ROLE}[[graph]]\nname = \"{GRAPH}\"\nrole = \"graphs\"\ntake = [\"r0/ip *\"]\ntext = '''{}'''\n",
                text(place)
            );
            NodeGateway::new(name, &[]).configured(&graph, port)
        })
    })
}

/// The graph, with this place of the engine.
fn text(place: &str) -> String {
    format!(
        "FromDevice(r0) -> MarkIPHeader(14) -> i :: IPClassifier(udp dst port 9, -) -> Counter {place} -> Discard; i [1] -> Discard;"
    )
}

/// The nodes are started anew, and take turns in short slices, forwards and backwards, for each item.
fn one_round(round: usize, quick: bool, stands: &mut [Stand], series: &mut Series) -> Result<(), Error> {
    let gateways: Vec<_> = gateways().collect();
    for (stand, gateway) in stands.iter_mut().zip(&gateways) {
        stand.start(gateway)?;
    }
    for (item, _) in ITEMS {
        for (stand, (gateway, place)) in stands.iter_mut().zip(gateways.iter().zip(PLACES.iter().cycle())) {
            stand.warm(item, gateway.title(), *place == "@kernel")?;
        }
        let mut sums = vec![(0, 0); stands.len()];
        for slice in 0..if quick { QUICK_SLICES } else { SLICES } {
            for step in 0..stands.len() {
                let at = if (round + slice).is_multiple_of(2) { step } else { stands.len() - 1 - step };
                let (packets, ns) = stands[at].slice(gateways[at].title())?;
                sums[at] = (sums[at].0 + packets, sums[at].1 + ns);
            }
        }
        for (gateway, (packets, ns)) in gateways.iter().zip(sums) {
            series.push(key(gateway.title(), item), ns as f64 / packets.max(1) as f64);
        }
    }
    Ok(())
}

impl Stand {
    fn new(programs: &Programs, kernel: &KernelPrograms, settings: &Settings) -> Result<Stand, Error> {
        Ok(Stand { channel: Channel::new(programs, kernel, settings.cpus(), Rhythm::Fair)?, node: None })
    }

    fn start(&mut self, gateway: &NodeGateway<'_>) -> Result<(), Error> {
        let running = self.channel.with_router(|channel| gateway.start(&channel.site))?;
        let up = Up::wait(&self.channel.site.scratch.path().join("run"))?;
        self.node = Some((running, up));
        Ok(())
    }

    /// Packets that have come to the graph, in both halves and in the kernel.
    fn came(&mut self) -> Result<(u64, u64), Error> {
        let (_, up) = self.node.as_mut().ok_or_else(|| Error::Node("it has ended".into()))?;
        let Shown { graph: Graph { came, kernel_packets, .. }, .. } = up.asked(&Ask::Graph { name: GRAPH.into() })?;
        Ok((came, kernel_packets))
    }

    /// Sends so many; whether all came, how many of them in the kernel, and CPU time.
    fn send(&mut self, count: u32) -> Result<(bool, u64, u64), Error> {
        let before = self.came()?;
        let spent = |stand: &Stand| stand.node.as_ref().map_or(0, |(running, _)| running.cpu_ns());
        let process = spent(self);
        let (flow, _) = self.channel.run(count, BURST)?;
        let process = spent(self).saturating_sub(process);
        let after = self.came()?;
        Ok((after.0 - before.0 == flow.sent, after.1 - before.1, flow.cpu_ns + process))
    }

    /// Frames of this item are sent until all come, to the half that is to have them.
    fn warm(&mut self, item: usize, name: &str, in_kernel: bool) -> Result<(), Error> {
        self.channel.load(&stream(item), &[])?;
        let (limit, probed) = (Instant::now() + PATIENCE, self.channel.probed());
        loop {
            let (whole, there, _) = self.send(probed)?;
            if whole && there == if in_kernel { probed.into() } else { 0 } {
                return Ok(());
            }
            if Instant::now() > limit {
                let what = format!("of {probed} packets {there} passed its graph in the kernel; all came: {whole}");
                return Err(Error::Wrong { gateway: name.into(), what });
            }
        }
    }

    /// Packets, and CPU time of all.
    fn slice(&mut self, name: &str) -> Result<(u64, u64), Error> {
        for _ in 0..TRIES {
            if let (true, _, ns) = self.send(SLICE)? {
                return Ok((SLICE.into(), ns));
            }
        }
        Err(Error::Wrong { gateway: name.into(), what: format!("of {SLICE} packets some never came, {TRIES} times") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_are_configured_as_a_node_reads_it() {
        assert_eq!(gateways().filter_map(|gateway| gateway.refusal()).next(), None);
        assert_eq!(gateways().count(), SOCKETS.len() * PLACES.len());
    }

    #[test]
    fn the_difference_of_both_places_is_judged() {
        let mut series = Series::default();
        for _ in 0..5 {
            for (variant, ns) in [("in the kernel", 300.0), ("up, by AF_PACKET", 900.0)] {
                series.push(key(variant, 1472), ns);
            }
        }
        let targets = judge(&series);
        assert_eq!(targets.iter().map(|target| target.met).collect::<Vec<_>>(), [true]);
        assert!(targets[0].name.contains("AF_PACKET, an item of 1472 bytes"));
    }
}
