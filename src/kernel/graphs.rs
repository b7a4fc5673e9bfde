//! Programs of graphs: one for each, in a map of programs by the graph's place. An update of the map is the step from one generation to
//! the next, for all that the graph takes.
//!
//! ```text
//! plan ─▶ program, beside the one that runs ─▶ graphs_map[place] ─▶ the one before goes when its last packet has left it
//! ```
//!
//! Each generation has a map of its own in which it counts; who reads it keeps it as long as wanted. Like all maps of channels these are
//! pinned nowhere: without this process the user half has nobody, and the packets are Linux's.

use super::channels::{Before, KernelChannels};
use super::graph_table::{KernelTable, TABLE_MAP};
use super::layout::GRAPH_MAP;
use super::maps::sums;
use super::own;
use crate::contract::plan::{FusedEnd, KernelPlan};
use crate::contract::{GRAPH_WORDS, GRAPHS};
use crate::frame::PortId;
use crate::graph::fused::{GraphTable, GraphWords};
use crate::graph::half::LoadedGraph;
use crate::sys::bpf::{Map, Program};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

pub(super) static GRAPH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/graph.bpf.o"));

/// The places of graphs, by their numbers.
#[derive(Default)]
pub(super) struct KernelGraphs {
    places: Vec<Option<GraphPlace>>,
}

/// A place that a graph has: the program that is to run next, and whether one runs.
#[derive(Default)]
struct GraphPlace {
    next: Option<Program>,
    runs: bool,
}

/// The words of a generation.
#[derive(Debug)]
struct CountedWords(Map);

impl GraphWords for CountedWords {
    fn read(&self) -> Vec<u64> {
        sums::<{ GRAPH_WORDS as usize }>(&self.0, 0).map_or(Vec::new(), |sums| sums.to_vec())
    }
}

impl KernelGraphs {
    fn of(&mut self, place: u32) -> Option<&mut GraphPlace> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// A place for a graph that has none yet.
    fn take(&mut self) -> Option<u32> {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or(self.places.len());
        if place >= GRAPHS as usize {
            return None;
        }
        self.places.resize_with(self.places.len().max(place + 1), || None);
        self.places[place] = Some(GraphPlace::default());
        Some(place as u32)
    }
}

impl KernelChannels {
    /// A plan with interfaces in the place of ports.
    fn with_interfaces(&self, plan: &KernelPlan) -> io::Result<KernelPlan> {
        let interface = |port: u32| {
            let known = u16::try_from(port).ok().and_then(|port| self.interfaces.get(&PortId(port)));
            known
                .copied()
                .ok_or_else(|| io::Error::other("one of its devices has no kernel half (kernel = true of a port)"))
        };
        let entries = plan.entries.iter().map(|(port, block)| Ok((interface(*port)?, *block)));
        let exits = plan.exits.iter().map(|port| interface(*port));
        Ok(KernelPlan {
            entries: entries.collect::<io::Result<_>>()?,
            exits: exits.collect::<io::Result<_>>()?,
            blocks: plan.blocks.clone(),
        })
    }

    pub(super) fn load_program(&mut self, place: Option<u32>, plan: &KernelPlan) -> io::Result<Option<LoadedGraph>> {
        let Before::Half(half) = &self.before else { return Ok(None) };
        let plan = self.with_interfaces(plan)?;
        let words = own::map(GRAPH_MAP.0, GRAPH_MAP.1)?;
        let looks = plan.blocks.iter().any(|block| matches!(block.end, FusedEnd::Find { .. }));
        let table = looks.then(|| own::map(TABLE_MAP.0, TABLE_MAP.1)).transpose()?;
        let find = |name: &str| match (name, &table) {
            _ if name == GRAPH_MAP.0 => Ok(words.as_fd()),
            (_, Some(table)) if name == TABLE_MAP.0 => Ok(table.as_fd()),
            _ => self.maps.descriptor(name).or_else(|_| half.maps().descriptor(name)),
        };
        let program = own::graph(&plan, find)?;
        let full =
            || io::Error::other(format!("{GRAPHS} graphs are in the kernel, which is all that there is room for"));
        let place = place.or_else(|| self.graphs.take()).ok_or_else(full)?;
        let known = self.graphs.of(place).ok_or_else(|| io::Error::other("no graph has this place"))?;
        known.next = Some(program);
        let table = table.map(|map| Arc::new(KernelTable(map)) as Arc<dyn GraphTable>);
        Ok(Some(LoadedGraph { place, words: Arc::new(CountedWords(words)), table }))
    }

    pub(super) fn run_program(&mut self, place: u32) -> io::Result<()> {
        let Some(next) = self.graphs.of(place).and_then(|known| known.next.take()) else { return Ok(()) };
        let map = self.maps.of("graphs_map")?;
        map.set(&place.to_ne_bytes(), &next.as_fd().as_raw_fd().to_ne_bytes())?;
        if let Some(known) = self.graphs.of(place) {
            known.runs = true;
        }
        Ok(())
    }

    pub(super) fn discard_program(&mut self, place: u32) {
        let Some(known) = self.graphs.of(place) else { return };
        known.next = None;
        if !known.runs {
            self.end_program(place);
        }
    }

    pub(super) fn end_program(&mut self, place: u32) {
        let Some(known) = self.graphs.places.get_mut(place as usize) else { return };
        if known.take().is_some_and(|known| known.runs) {
            // It is there.
            let _ = self.maps.of("graphs_map").and_then(|map| map.remove(&place.to_ne_bytes()));
        }
    }
}
