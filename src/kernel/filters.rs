//! The maps of `bpf/filters.h` at the Linux stack, which say whether a frame is the node's, and their two readers:
//! guard and socket filter.

use super::foreign::{self, ForeignFlows};
use super::own;
use super::patterns::shaped;
use super::told::{LISTS, PATTERNS, RuleMaps, SHAPES, ToldRules};
use crate::broker::Place;
use crate::classify::filter::Watch;
use crate::classify::foreign::ForeignFlow;
use crate::classify::headers;
use crate::classify::rule::{Layer, Rule};
use crate::contract::{ON_LINK, ON_TRANSPORT, candidates, owners, pattern};
use crate::sys::bpf::{Link, Map, MapKind, MapShape, Program};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

pub(super) static GUARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));
pub(super) static FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.bpf.o"));

/// Who has the frames of a rule: the node alone, or the Linux stack too.
const TAKEN: u32 = 2;
const SHARED: u32 = 1;

/// The maps: masks, flows, lists of shapes, and candidates of a frame.
pub(super) const LAYOUT: [(&str, MapShape); 4] = [
    ("anode_shapes", SHAPES),
    ("anode_flows", MapShape { kind: MapKind::Hash, key: pattern::SIZE, value: owners::SIZE, entries: PATTERNS }),
    ("anode_lists", LISTS),
    ("anode_among", MapShape { kind: MapKind::PerCpuArray, key: 4, value: candidates::SIZE, entries: 1 }),
];

/// Which frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are the node's; the socket's also address resolution.
    All,
    /// The same without any channels.
    Own,
    /// Those of channels alone: an XDP program takes the others.
    Channels,
}

/// The rules of one interface.
#[derive(Debug)]
pub struct Filters {
    shapes: Map,
    flows: Map,
    lists: Map,
    among: Map,
    rules: ToldRules,
    /// How often each rule, of whichever port, is there for the node alone, and for the Linux stack too.
    wanted: HashMap<Rule, [u32; 2]>,
    /// Whether frames are taken at all.
    listens: bool,
    foreign: Arc<ForeignFlows>,
}

impl Filters {
    /// The rules of a node without channels.
    pub fn create() -> io::Result<Filters> {
        let [shapes, flows, lists, among] = LAYOUT.map(|(name, shape)| own::map(name, shape));
        let [known, now, count] = foreign::LAYOUT.map(|(name, shape)| own::map(name, shape));
        let mut filters = Filters {
            shapes: shapes?,
            flows: flows?,
            lists: lists?,
            among: among?,
            rules: ToldRules::new(|rule| shaped(rule, None)),
            wanted: HashMap::new(),
            listens: true,
            foreign: Arc::new(ForeignFlows::of([known?, now?, count?])),
        };
        filters.tell_masks()?;
        Ok(filters)
    }

    /// Has socket and guard take frames, or leave all to the Linux stack: both at the same moment.
    pub fn listen(&mut self, listens: bool) -> io::Result<()> {
        self.listens = listens;
        self.tell_masks()
    }

    /// Takes what is watched for, or does not any more. All others are taken throughout.
    pub fn change(&mut self, watch: &Watch, exists: bool) -> io::Result<()> {
        let Watch { rule, is_shared } = watch;
        if rule.layer == Layer::Anep {
            return Ok(());
        }
        // All packets here are of one port.
        let rule = &Rule { port: None, ..rule.clone() };
        let before = self.wanted.get(rule).copied().unwrap_or_default();
        let mut after = before;
        let count = &mut after[usize::from(*is_shared)];
        *count = if exists { *count + 1 } else { count.saturating_sub(1) };
        let told = self.want(rule, after);
        if told.is_err() && exists {
            // As if it had never been there.
            let _ = self.want(rule, before);
        }
        told
    }

    /// Frames of a rule are wanted so from now on.
    fn want(&mut self, rule: &Rule, wanted: [u32; 2]) -> io::Result<()> {
        let wanted = match wanted {
            [0, 0] => {
                self.wanted.remove(rule);
                0
            }
            [taken, shared] => {
                self.wanted.insert(rule.clone(), [taken, shared]);
                if taken > 0 { TAKEN } else { SHARED }
            }
        };
        let Some(changed) = self.rules.change(rule, wanted > 0) else { return Ok(()) };
        if wanted == SHARED {
            // The guard lets pass what has a number there.
            self.rules.give(rule, SHARED);
        }
        let maps = RuleMaps { shapes: &self.shapes, keys: &self.flows, lists: &self.lists };
        let told = self.rules.tell(&maps, &changed, self.listens);
        self.foreign.hold(self.rules.held());
        told
    }

    fn tell_masks(&mut self) -> io::Result<()> {
        let maps = RuleMaps { shapes: &self.shapes, keys: &self.flows, lists: &self.lists };
        self.rules.tell_masks(&maps, self.listens)
    }

    /// The flows of this interface that are foreign.
    pub fn foreign(&self) -> &Arc<ForeignFlows> {
        &self.foreign
    }

    /// No rule over taught protocols can hold for this flow. It is written down unless its packets may be a channel's by fixed fields.
    pub fn learn(&self, flow: &ForeignFlow) -> io::Result<()> {
        if self.is_taken(flow) {
            self.foreign.refuse();
            return Ok(());
        }
        self.foreign.learn(flow)
    }

    /// Whether the node alone has packets of a flow, by some key or any.
    fn is_taken(&self, flow: &ForeignFlow) -> bool {
        let has_ports = matches!(flow.protocol, headers::UDP | headers::TCP);
        let fields = |layer| {
            let kind = if layer == ON_LINK { flow.ethertype() } else { flow.protocol.into() };
            let mut value = [0; pattern::SIZE];
            pattern::SOURCE.put(&mut value, flow.source.0);
            pattern::DESTINATION.put(&mut value, flow.destination.0);
            pattern::SOURCE_PORT.put(&mut value, flow.ports[0].to_be_bytes());
            pattern::DESTINATION_PORT.put(&mut value, flow.ports[1].to_be_bytes());
            pattern::KIND.put(&mut value, kind.to_be_bytes());
            (layer != ON_TRANSPORT || has_ports).then_some(value)
        };
        self.rules.may_be(fields, |owner| owner != SHARED)
    }

    /// Whether no frames are taken beside those that are taken throughout.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The filter of an AF_PACKET socket.
    pub fn filter(&self, which: Which) -> io::Result<Program> {
        let name = match which {
            Which::All => "filter",
            Which::Own => "filter_plain",
            Which::Channels => "filter_channels",
        };
        self.load(name)
    }

    /// What takes the frames away from the Linux stack.
    pub fn guard(&self, which: Which) -> io::Result<Program> {
        let name = match which {
            Which::All => "guard",
            Which::Own => "guard_plain",
            Which::Channels => "guard_channels",
        };
        self.load(name)
    }

    /// The same at an interface, until what is given back goes.
    pub fn guard_at(&self, interface: u32, which: Which) -> io::Result<Link> {
        own::attach_at(&self.guard(which)?, interface, Place::Ingress)
    }

    pub(super) fn load(&self, name: &str) -> io::Result<Program> {
        own::load(name, |map| match map {
            "shapes_map" => Ok(self.shapes.as_fd()),
            "flows_map" => Ok(self.flows.as_fd()),
            "lists_map" => Ok(self.lists.as_fd()),
            "candidates_map" => Ok(self.among.as_fd()),
            _ => self.foreign.descriptor(map),
        })
    }
}

#[cfg(test)]
mod tests;
