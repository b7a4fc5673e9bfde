//! Where a graph runs: as one program in the kernel if it can and may, else here. Its form here is there in either case, and has what the
//! program leaves alone: packets with anything unusual in them, and what begins in the graph.

use super::swapping::{Before, Inlet};
use super::{Running, RunningGraphs};
use crate::core::domain::DomainId;
use crate::frame::PortId;
use crate::graph::door::GraphSlot;
use crate::graph::fused::{FusedPart, Fusion, WalkEnd, Walked, must_be_fused};
use crate::graph::half::LoadedGraph;
use crate::graph::placement::GraphPlace;
use crate::graph::running::GraphGeneration;
use crate::node::{Cx, Node};
use crate::nodeos::interface::InChanId;

/// The channels among what a graph takes.
fn channels(doors: &[(String, Inlet)]) -> impl Iterator<Item = (&str, InChanId)> {
    doors.iter().filter_map(|(take, door)| match door {
        Inlet::Channel(channel) => Some((take.as_str(), *channel)),
        Inlet::Hears(_) | Inlet::Waits => None,
    })
}

/// A generation that is about to run, and where.
pub(super) struct Placed {
    /// The program's place, if it has one.
    pub slot: Option<GraphSlot>,
    /// Why it has none; or why some of its packets go up.
    pub why: String,
}

/// Causes that are said of one program, at most.
const CAUSES: usize = 4;

/// Why packets of a program go up.
fn raised(part: Option<&FusedPart>) -> String {
    let all = part.map_or(&[][..], |part| &part.fusion.raised);
    let more = all.len().saturating_sub(CAUSES);
    let said = all.iter().take(CAUSES).cloned().collect::<Vec<_>>().join("; ");
    if more > 0 { format!("{said}; and {more} more") } else { said }
}

/// The way of a packet through the program of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramWalk {
    /// The graph.
    pub graph: String,
    /// The names of the engines that it meets, in their order.
    pub engines: Vec<String>,
    /// Where it ends there.
    pub end: WalkEnd,
}

impl Node {
    /// Starts the program of a generation, if it is to have one, and has its channels lead there. If it cannot, all is as before.
    /// An error: it may run in the kernel only, and cannot.
    pub(super) fn place_graph(
        &mut self,
        wanted: GraphPlace,
        generation: &mut GraphGeneration,
        before: &Before,
        doors: &[(String, Inlet)],
    ) -> Result<Placed, String> {
        let why = match wanted {
            GraphPlace::User => "it is to run in user space".to_owned(),
            GraphPlace::Auto | GraphPlace::Kernel => {
                let loaded = self.load_graph(wanted, generation, before);
                match loaded.and_then(|slot| self.start_program(slot, before.domain, doors)) {
                    Ok(slot) => return Ok(Placed { slot: Some(slot), why: raised(generation.kernel()) }),
                    Err(why) => why,
                }
            }
        };
        generation.set_kernel(None);
        if wanted == GraphPlace::Kernel {
            return Err(format!("it cannot run in the kernel: {why}; place = \"auto\" runs it in user space then"));
        }
        if let Some(engine) = must_be_fused(&generation.graph) {
            return Err(format!("{engine} is to be @kernel, which cannot be: {why}; @auto has it where it can be"));
        }
        Ok(Placed { slot: None, why })
    }

    fn load_graph(
        &mut self,
        wanted: GraphPlace,
        generation: &mut GraphGeneration,
        before: &Before,
    ) -> Result<GraphSlot, String> {
        self.may_load(before.domain)?;
        let fusion = generation.fuse(wanted)?;
        fusion.has_all_of(&generation.graph)?;
        let (slot, part) = self.load_fusion(before.slot, fusion)?;
        generation.set_kernel(Some(part));
        Ok(slot)
    }

    /// Whether a graph's domain may have a program.
    fn may_load(&mut self, domain: DomainId) -> Result<(), String> {
        let cx = &mut self.cx;
        let role = cx.core.domains.of(domain).map(|domain| domain.role.clone()).ok_or("its domain has ended")?;
        if let Some(why) = role.keeps_out_of_kernel() {
            return Err(why);
        }
        if cx.graphs.halves.is_empty() {
            return Err("no port of this node has a kernel half (kernel = true)".into());
        }
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let others = graphs.map_or(0, |graphs| graphs.in_kernel(&role.name, domain));
        if others >= usize::from(role.grants.kernel_programs) {
            let most = role.grants.kernel_programs;
            return Err(format!("the role {} has {most} programs in the kernel (grants.kernel_programs)", role.name));
        }
        Ok(())
    }

    /// Loads a program into the place that its graph has, or a new one.
    fn load_fusion(&mut self, before: Option<GraphSlot>, fusion: Fusion) -> Result<(GraphSlot, FusedPart), String> {
        let halves = self.cx.graphs.halves.iter_mut().enumerate();
        let mut why = "the kernel half of this node has no graphs".to_owned();
        for (half, it) in halves.filter(|(half, _)| before.is_none_or(|slot| slot.half == *half)) {
            match it.load_graph(before.map(|slot| slot.place), &fusion.plan) {
                Ok(Some(LoadedGraph { place, words, table })) => {
                    return Ok((GraphSlot { half, place }, FusedPart::new(fusion, words, table)));
                }
                Ok(None) => {}
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// A graph that runs here goes to the kernel, if it may and can by now.
    fn enter_kernel(&mut self, name: &str) {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let graph = graphs.and_then(|graphs| graphs.find(name));
        let graph = graph.filter(|graph| graph.slot.is_none() && graph.spec.place != GraphPlace::User);
        let Some(graph) = graph else { return };
        let (domain, doors, fused) = (graph.domain, graph.doors.clone(), graph.now.fuse(GraphPlace::Auto));
        let loaded = self.may_load(domain).and(fused).and_then(|fusion| self.load_fusion(None, fusion));
        let started = loaded.and_then(|(slot, part)| Ok((self.start_program(slot, domain, &doors)?, part)));
        self.ask(|graphs: &mut RunningGraphs, _| {
            let Some(graph) = graphs.at(domain).and_then(|at| graphs.list.get_mut(at)) else { return };
            match started {
                Ok((slot, part)) => {
                    (graph.slot, graph.why) = (Some(slot), raised(Some(&part)));
                    graph.now.set_kernel(Some(part));
                }
                Err(why) => graph.why = why,
            }
        });
    }

    /// Has the channels lead to a place that do not yet, and the program that was loaded for it run there.
    fn start_program(
        &mut self,
        slot: GraphSlot,
        domain: DomainId,
        doors: &[(String, Inlet)],
    ) -> Result<GraphSlot, String> {
        let cx = &mut self.cx;
        let mut led = Vec::new();
        let mut started = cx.lead_doors(slot, domain, doors, &mut led);
        if let (Ok(()), Some(half)) = (&started, cx.graphs.halves.get_mut(slot.half)) {
            started = half.run_graph(slot.place);
        }
        if started.is_err() {
            led.into_iter().for_each(|channel| cx.graphs.close_door(&mut cx.core, channel));
            cx.discard_program(slot);
        }
        started.map(|()| slot)
    }

    /// A graph that had a program there has none any more: all its packets come here.
    pub(super) fn leave_kernel(&mut self, now: u64, slot: GraphSlot, domain: DomainId, doors: &[(String, Inlet)]) {
        let cx = &mut self.cx;
        for (_, channel) in channels(doors) {
            cx.graphs.close_door(&mut cx.core, channel);
        }
        cx.graphs.share_no_more(&mut cx.core, domain, now);
        cx.end_program(slot);
    }

    /// The engines of all graphs know what the kernel has counted.
    pub(super) fn settle_graphs(&mut self) {
        self.ask(|graphs: &mut RunningGraphs, cx| graphs.list.iter_mut().for_each(|graph| graph.settle_kernel(cx)));
    }

    /// What the program of a domain's graph does with a plain packet that comes in by a port.
    pub(in crate::node) fn walk_program(&self, domain: DomainId, port: PortId, bytes: &[u8]) -> Option<ProgramWalk> {
        let graphs: &RunningGraphs = self.environments.get()?;
        let graph = graphs.list.get(graphs.at(domain)?).filter(|graph| graph.slot.is_some())?;
        let Walked { engines, end } = graph.now.kernel()?.walk(port, bytes)?;
        let all = graph.now.graph.engines();
        let named = engines.iter().filter_map(|at| all.get(usize::from(*at))).map(|placed| placed.name.to_string());
        Some(ProgramWalk { graph: graph.spec.name.clone(), engines: named.collect(), end })
    }

    /// Those of one graph do.
    pub(super) fn settle_graph(&mut self, name: &str) {
        self.ask(|graphs: &mut RunningGraphs, cx| {
            graphs.list.iter_mut().filter(|graph| graph.spec.name == name).for_each(|graph| graph.settle_kernel(cx));
        });
    }

    /// Ports of a graph are others: its program knows them, and its new channels lead there. If it has none, it may have one now.
    pub(super) fn rebind_program(&mut self, now: u64, domain: DomainId) {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let graph = graphs.and_then(|graphs| graphs.list.get(graphs.at(domain)?));
        let Some(graph) = graph else { return };
        let (name, led) = (graph.spec.name.clone(), graph.slot.map(|slot| (slot, graph.doors.clone())));
        if let Some((slot, doors)) = led {
            let cx = &mut self.cx;
            for (take, channel) in channels(&doors) {
                if let Err(why) = cx.graphs.open_door(&mut cx.core, channel, domain, slot) {
                    tracing::warn!(node = cx.core.name, why, take, "packets of a graph stay in user space");
                }
            }
        }
        self.renew_program(now, &name);
    }

    /// An engine of a graph is another one than before: so is its part in the kernel.
    pub(super) fn renew_program(&mut self, now: u64, name: &str) {
        let graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let Some(graph) = graphs.and_then(|graphs| graphs.list.iter_mut().find(|graph| graph.spec.name == name)) else {
            return;
        };
        let Some((slot, part)) = graph.slot.zip(graph.now.kernel()) else { return self.enter_kernel(name) };
        // What has been placed whole may be in parts from now on: an engine that was written to is not refused.
        let fused = graph.now.fuse(GraphPlace::Auto);
        if fused.as_ref().is_ok_and(|fusion| fusion.plan == part.fusion.plan) {
            return;
        }
        let (domain, doors) = (graph.domain, graph.doors.clone());
        let renewed = fused.and_then(|fusion| self.replace_program(slot, fusion));
        let part = renewed.as_ref().ok().cloned();
        self.ask(|graphs: &mut RunningGraphs, cx| {
            let Some(graph) = graphs.at(domain).and_then(|at| graphs.list.get_mut(at)) else { return };
            graph.settle_kernel(cx);
            graph.why = raised(part.as_ref());
            if let Some(old) = graph.now.set_kernel(part) {
                graph.parts_before.push_back((old, now + super::OLDER_FOR));
                graph.end_parts(now);
            }
        });
        let Err(why) = renewed else { return };
        self.leave_kernel(now, slot, domain, &doors);
        self.ask(|graphs: &mut RunningGraphs, _| {
            if let Some(graph) = graphs.at(domain).and_then(|at| graphs.list.get_mut(at)) {
                (graph.slot, graph.why) = (None, why);
            }
        });
    }

    fn replace_program(&mut self, slot: GraphSlot, fusion: Fusion) -> Result<FusedPart, String> {
        let half = self.cx.graphs.halves.get_mut(slot.half).ok_or("there is no kernel half")?;
        let loaded = half.load_graph(Some(slot.place), &fusion.plan)?;
        let loaded = loaded.ok_or("the kernel half of this node has no graphs")?;
        half.run_graph(slot.place)?;
        Ok(FusedPart::new(fusion, loaded.words, loaded.table))
    }
}

impl Cx {
    /// Has the channels lead to a place that do not yet: these are put into `led`.
    fn lead_doors(
        &mut self,
        slot: GraphSlot,
        domain: DomainId,
        doors: &[(String, Inlet)],
        led: &mut Vec<InChanId>,
    ) -> Result<(), String> {
        if channels(doors).next().is_none() {
            return Err("nothing that it takes comes by the kernel".into());
        }
        for (take, channel) in channels(doors) {
            let opened = self.graphs.open_door(&mut self.core, channel, domain, slot);
            if opened.map_err(|why| format!("take: '{take}': {why}"))? {
                led.push(channel);
            }
        }
        Ok(())
    }

    /// The program that was made last for a place is not to run.
    pub(super) fn discard_program(&mut self, slot: GraphSlot) {
        self.graphs.halves.get_mut(slot.half).into_iter().for_each(|half| half.discard_graph(slot.place));
    }

    /// No program runs there from now on.
    pub(super) fn end_program(&mut self, slot: GraphSlot) {
        self.graphs.halves.get_mut(slot.half).into_iter().for_each(|half| half.end_graph(slot.place));
    }
}

impl RunningGraphs {
    /// Graphs of other domains of a role that have a program in the kernel.
    fn in_kernel(&self, role: &str, but: DomainId) -> usize {
        let counts = |graph: &&Running| graph.slot.is_some() && graph.domain != but && graph.spec.role == role;
        self.list.iter().filter(counts).count()
    }
}

impl Running {
    /// Takes over what the kernel has counted: for the graph, and for its engines.
    pub(super) fn settle_kernel(&mut self, cx: &mut Cx) {
        let Running { now, older, parts_before, traffic, domain, kernel_packets, .. } = self;
        let more = cx.graphs.take_passed(&mut cx.core, *domain);
        traffic.came += more.packets;
        *kernel_packets += more.packets;
        traffic.left += more.sent;
        traffic.dropped += more.over_domain + more.broken;
        let (kernel, graph) = now.kernel_and_graph();
        for (part, _) in parts_before.iter_mut() {
            part.settle(graph, None);
        }
        for (before, _) in older.iter_mut() {
            if let (Some(part), own) = before.kernel_and_graph() {
                part.settle(own, Some(graph));
            }
            before.count_late_in(graph);
        }
        if let Some(part) = kernel {
            part.settle(graph, None);
        }
    }

    /// Programs before go that no packet is in any more.
    pub(super) fn end_parts(&mut self, now: u64) {
        while self.parts_before.len() > super::OLDER_MAX
            || self.parts_before.front().is_some_and(|(_, until)| *until <= now)
        {
            self.parts_before.pop_front();
        }
    }
}
