//! What a running node would do with a frame, for operators.

use crate::classify::taught::trace::{TracedHeader, TracedRule};
use crate::frame::{Link, PortId};
use crate::node::Node;
use crate::node::explaining::Explained;
use crate::node::graphs::{ProgramWalk, WalkEnd};
use model::programs::{Field, Frame, Header, ProgramWay, Rule};

/// The way of a packet through the program of a graph.
fn program(walk: &ProgramWalk) -> ProgramWay {
    let ProgramWalk { graph, engines, end } = walk;
    let (end, leaves) = match end {
        WalkEnd::Up => ("up", None),
        WalkEnd::Dropped => ("dropped", None),
        WalkEnd::Leaves(_, bytes) => ("leaves", Some(hex::encode(bytes))),
    };
    ProgramWay { graph: graph.clone(), engines: engines.clone(), end: end.to_owned(), leaves }
}

/// A header of a packet.
pub(crate) fn header(header: &TracedHeader) -> Header {
    let field = |(name, value): &(String, String)| Field { name: name.clone(), value: value.clone() };
    Header {
        name: header.name.clone(),
        start: header.start as u64,
        inner: header.inner as u64,
        end: header.end as u64,
        fields: header.fields.iter().map(field).collect(),
    }
}

/// What a frame is that comes in by a port; by the first one that is a link, if none is named.
pub(super) fn of(node: &mut Node, port: Option<String>, bytes: &[u8]) -> Result<Frame, String> {
    let port = find(node, port)?;
    Ok(told(&node.explain(port, bytes)))
}

fn find(node: &Node, port: Option<String>) -> Result<PortId, String> {
    let ports = node.ports();
    let at = match &port {
        Some(name) => ports.iter().position(|port| port.name == *name),
        None => Some(ports.iter().position(|port| port.link != Link::Overlay).unwrap_or(0)),
    };
    let names: Vec<_> = ports.iter().map(|port| &*port.name).collect();
    let unknown = || format!("no port is called {}; there are {}", port.unwrap_or_default(), names.join(", "));
    at.map(|at| PortId(at as u16)).ok_or_else(unknown)
}

fn told(explained: &Explained) -> Frame {
    let rule = |rule: &TracedRule| {
        let of = explained.rules.iter().find(|(number, ..)| *number == rule.number);
        let (channel, domain, text) =
            of.map_or((None, None, None), |(_, channel, domain, text)| (Some(*channel), Some(domain), Some(text)));
        Rule {
            line: 0,
            holds: rule.holds,
            why: rule.why.clone(),
            channel: channel.map(u64::from),
            domain: domain.cloned(),
            text: text.cloned(),
        }
    };
    let idle = |(channel, domain, text, why): &(u32, String, String, String)| Rule {
        line: 0,
        holds: false,
        why: format!("it holds for nothing now: {why}"),
        channel: Some((*channel).into()),
        domain: Some(domain.clone()),
        text: Some(text.clone()),
    };
    Frame {
        headers: explained.trace.headers.iter().map(header).collect(),
        stop: explained.trace.stop.clone(),
        rules: explained.trace.rules.iter().map(rule).chain(explained.idle.iter().map(idle)).collect(),
        answer: Vec::new(),
        whose: Some(explained.whose.to_owned()),
        program: explained.program.as_ref().map(program),
        channels: Some(explained.channels.iter().map(|channel| u64::from(*channel)).collect()),
    }
}
