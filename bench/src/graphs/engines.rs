//! Engines without input and output, in this process: a hop, the IP path, and a thousand of them checked and made.
//!
//! A hop is the slope over chains of one to ten engines that count, paint and take nothing off: what they do is next to nothing. Packets
//! of 60 bytes come out of a pool, one by one or 32 together, and go back to it when the last engine has dropped them.

use std::cell::RefCell;

use anode::frame::{FRAME, Frame, FramePool, PortId};
use anode::graph::load::{ClassTable, load};
use anode::graph::scratch::Scratch;
use anode::graph::table::Graph;
use click::check;

use super::super::line::{ANEP_PORT, EGRESS, frame};
use super::super::micro::{COST, Micro};
use super::super::report::Report;
use super::super::series::{Series, Target};
use super::super::{Error, Settings};
use super::key;

/// Packets that come together.
const BATCH: usize = 32;
/// Engines of the shortest and of the longest chain.
const CHAINS: [usize; 5] = [1, 3, 5, 7, 10];
/// Engines of a large graph.
const MANY: usize = 1_000;

const HOPS: &str = "engines in a row";
const IP_PATH: &str = "IP path of 7 engines";
const LARGE: &str = "1,000 engines";

/// Targets, in nanoseconds and milliseconds.
const HOP_NS: f64 = 2.5;
const HOP_TOGETHER_NS: f64 = 1.0;
const IP_PATH_NS: f64 = 40.0;
const CHECKED_MS: f64 = 20.0;
const LOADED_MS: f64 = 50.0;

/// A graph, and a packet for it.
struct Stand {
    graph: Graph,
    pool: FramePool,
    scratch: Scratch,
    sample: Vec<u8>,
    together: Vec<Frame>,
    calls: usize,
}

impl Stand {
    fn new(text: &str) -> Result<Stand, Error> {
        let graph = load(text, &[]).map_err(|wrong| Error::Node(format!("{text}: {wrong:?}")))?;
        let (pool, scratch) = (FramePool::new(FRAME, 2 * BATCH), Scratch::default());
        let sample = frame(EGRESS.peer, ANEP_PORT, &[7; 18]);
        Ok(Stand { graph, pool, scratch, sample, together: Vec::with_capacity(BATCH), calls: 0 })
    }

    fn packet(&mut self) -> Frame {
        let mut frame = self.pool.take();
        frame.fill(&self.sample);
        frame.port = PortId(0);
        frame
    }

    fn one(&mut self) -> usize {
        let frame = self.packet();
        self.graph.receive(frame, 1, &mut self.pool, &mut self.scratch);
        self.end()
    }

    /// One of a batch that is taken through when its last one has come.
    fn of_batch(&mut self) -> usize {
        let frame = self.packet();
        self.together.push(frame);
        self.calls += 1;
        if !self.calls.is_multiple_of(BATCH) {
            return 0;
        }
        self.graph.receive_all(PortId(0), &mut self.together, 1, &mut self.pool, &mut self.scratch);
        self.end()
    }

    fn end(&mut self) -> usize {
        let ended = self.scratch.dropped.len();
        self.scratch.dropped.drain(..).for_each(|(frame, _)| self.pool.give(frame));
        ended
    }
}

/// Measures them.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut all = hops(settings)?;
    all.extend(ip_path(settings)?);
    all.extend(large(settings)?);
    let values = |regime: &str, variant: &str| all.values(&key(regime, variant, COST, "ns")).to_vec();
    let slope = |way: &dyn Fn(usize) -> String| {
        let (few, many) = (values(HOPS, &way(CHAINS[0])), values(HOPS, &way(CHAINS[CHAINS.len() - 1])));
        let hops = (CHAINS[CHAINS.len() - 1] - CHAINS[0]) as f64;
        few.iter().zip(&many).map(|(few, many)| (many - few) / hops).collect::<Vec<f64>>()
    };
    let milliseconds = |variant: &str| values(LARGE, variant).iter().map(|ns| ns / 1e6).collect::<Vec<f64>>();
    let mut add = |name: &str, values: &[f64], most| report.targets.extend(Target::at_most(name, values, most));
    add("a hop, packets one by one, ns", &slope(&alone), HOP_NS);
    add(&format!("a hop, {BATCH} packets together, ns"), &slope(&together), HOP_TOGETHER_NS);
    add(&format!("{IP_PATH}, one by one, ns"), &values(IP_PATH, ALONE), IP_PATH_NS);
    add(&format!("{LARGE} checked, ms"), &milliseconds(CHECKED), CHECKED_MS);
    add(&format!("{LARGE} checked and made, ms"), &milliseconds(LOADED), LOADED_MS);
    report.note(format!(
        "{HOPS}: Counter, Paint and Strip(0) by turns, between FromDevice and Discard. {IP_PATH}: Paint, Strip, CheckIPHeader, \
         StaticIPLookup, DecIPTTL, Counter, EtherEncap; with FromDevice, Discard, and the packet's bytes copied from a sample."
    ));
    Ok(all)
}

fn alone(engines: usize) -> String {
    format!("{engines}, one by one")
}

fn together(engines: usize) -> String {
    format!("{engines}, {BATCH} together")
}

const ALONE: &str = "one by one";
const TOGETHER: &str = "32 together";
const CHECKED: &str = "checked";
const LOADED: &str = "checked and made";

/// So many engines that do next to nothing.
fn chain(engines: usize) -> String {
    let classes = ["Counter", "Paint(3)", "Strip(0)"];
    let between = (0..engines).map(|at| format!(" -> {}", classes[at % classes.len()]));
    format!("FromDevice(a){} -> Discard;", between.collect::<String>())
}

fn hops(settings: &Settings) -> Result<Series, Error> {
    let mut stands = Vec::new();
    for engines in CHAINS {
        stands.push((alone(engines), false, RefCell::new(Stand::new(&chain(engines))?)));
        stands.push((together(engines), true, RefCell::new(Stand::new(&chain(engines))?)));
    }
    let mut micro = Micro::new(HOPS, None);
    for (name, is_together, stand) in &stands {
        micro = match is_together {
            true => micro.variant(name, || stand.borrow_mut().of_batch()),
            false => micro.variant(name, || stand.borrow_mut().one()),
        };
    }
    micro.run(settings)
}

/// The way of an IP packet through a small router.
const PATH: &str = "FromDevice(a) -> Paint(1) -> Strip(14) -> CheckIPHeader -> rt :: StaticIPLookup(198.18.1.0/24 1, 198.18.2.0/24 0) \
                    -> DecIPTTL -> Counter -> EtherEncap(0x800, 02:00:00:00:02:fe, 02:00:00:00:02:01) -> Discard; rt [1] -> Discard;";

fn ip_path(settings: &Settings) -> Result<Series, Error> {
    let [one, many] = [RefCell::new(Stand::new(PATH)?), RefCell::new(Stand::new(PATH)?)];
    Micro::new(IP_PATH, None)
        .variant(ALONE, || one.borrow_mut().one())
        .variant(TOGETHER, || many.borrow_mut().of_batch())
        .run(settings)
}

fn large(settings: &Settings) -> Result<Series, Error> {
    // FromDevice and Discard are engines too.
    let text = chain(MANY - 2);
    let classes = ClassTable::default();
    Micro::new(LARGE, None)
        .variant(CHECKED, || check(&text, &classes).graph.is_some())
        .variant(LOADED, || load(&text, &[]).is_ok())
        .run(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_pass_all_engines_one_by_one_and_together() {
        for (text, last) in [(chain(10), "Discard@12"), (PATH.to_owned(), "Counter@7")] {
            let mut stand = Stand::new(&text).unwrap();
            assert_eq!((0..BATCH).map(|_| stand.one()).sum::<usize>(), BATCH, "{text}");
            assert_eq!((0..BATCH).map(|_| stand.of_batch()).sum::<usize>(), BATCH, "{text}");
            let at = stand.graph.find(last).unwrap_or_else(|| panic!("{last} of {:?}", stand.graph.engines().len()));
            assert_eq!(stand.graph.read(at, "count").as_deref(), Some("64"), "{text}");
        }
    }

    #[test]
    fn a_large_graph_has_so_many_engines() {
        assert_eq!(load(&chain(MANY - 2), &[]).map(|graph| graph.engines().len()).ok(), Some(MANY));
    }
}
