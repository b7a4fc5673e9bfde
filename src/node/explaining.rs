//! What the node would do with a frame that came in by a port, for people: whose it is, and why each rule over taught protocols holds or
//! not. Nothing is done with it, and nothing counted.

use super::Node;
use super::batch::Seen;
use crate::classify::Class;
use crate::classify::headers::Layers;
use crate::classify::shapes::Found;
use crate::classify::taught::classifier::{MatchMode, RuleNumber};
use crate::classify::taught::trace::Trace;
use crate::frame::{Frame, PeerId, PortId};
use crate::graph::Taker;
use crate::node::graphs::ProgramWalk;

/// What a frame is to a node.
pub struct Explained {
    /// Whose it is.
    pub whose: &'static str,
    /// Its headers, and the rules of its port.
    pub trace: Trace,
    /// Of each rule there its channel, the title of that one's domain, and its text.
    pub rules: Vec<(RuleNumber, u32, String, String)>,
    /// The rules there that hold for nothing, each in the same way, and why: a host has not been found, or a protocol is taught no more.
    pub idle: Vec<(u32, String, String, String)>,
    /// The channels that get it.
    pub channels: Vec<u32>,
    /// What the program of its graph in the kernel does with it, if it is plain.
    pub program: Option<ProgramWalk>,
}

impl Node {
    /// What the node would do with these bytes, come in by a port.
    pub fn explain(&mut self, port: PortId, bytes: &[u8]) -> Explained {
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (port, PeerId::NONE);
        let mut seen = Seen::Nowhere;
        self.cx.see(&mut frame, &mut seen);
        let fixed = if let Seen::Channel(found) = &seen { Some(found.owner) } else { None };
        let taught = &mut self.cx.graphs.channels.taught;
        let mode = taught.classifying().mode;
        let (trace, of_rules) = taught.explain(port, bytes);
        let idle = taught.all_idle(port);
        let whose = whose(&seen);
        let mut takers: Vec<Taker> = Vec::new();
        if whose.is_none() && (fixed.is_none() || mode == MatchMode::All) {
            let layers = Layers::of(bytes);
            let has = |layer| layers.as_ref().and_then(|it| Found::at(layer, it, bytes.len(), ())).is_some();
            let wanted = trace.answer.iter().filter_map(|number| of_rules.iter().find(|(rule, ..)| rule == number));
            takers.extend(wanted.filter(|(_, _, rule)| has(rule.layer)).map(|(_, taker, _)| *taker));
        }
        takers.extend(fixed);
        let title = |taker: &Taker| {
            let known = self.cx.core.domains.by_id(taker.domain);
            known.map_or_else(|| format!("of worker {}", taker.worker), |domain| domain.title.clone())
        };
        let rules = of_rules
            .iter()
            .map(|(number, taker, rule)| (*number, taker.channel.0, title(taker), rule.text.to_string()));
        let idle =
            idle.iter().map(|(taker, rule, why)| (taker.channel.0, title(taker), rule.text.to_string(), why.clone()));
        Explained {
            idle: idle.collect(),
            whose: whose.unwrap_or(if takers.is_empty() { "the Linux stack's" } else { "of channels" }),
            rules: rules.collect(),
            program: fixed.and_then(|taker| self.walk_program(taker.domain, port, bytes)),
            channels: takers.iter().map(|taker| taker.channel.0).collect(),
            trace,
        }
    }
}

/// Whose a frame is that no channel is asked of.
fn whose(seen: &Seen) -> Option<&'static str> {
    match seen {
        Seen::Nowhere => Some("of no port"),
        Seen::PassedUp => Some("the kernel half's word to the node"),
        Seen::Channel(_) | Seen::Class(Ok(Class::NotOurs(_))) => None,
        Seen::Class(Ok(Class::Anep(..))) => Some("the node's own: ANEP"),
        Seen::Class(Ok(Class::Arp(_) | Class::Discovery(..))) => Some("the node's own: address resolution"),
        Seen::Class(Err(_)) => Some("the node's own, and malformed"),
    }
}
