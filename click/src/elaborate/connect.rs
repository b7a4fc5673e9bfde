//! Chains to links: which port is connected to which.
//!
//! `a -> b, c` connects `a [0]` with both. `a [0, 1] => [0] b, [0] c` connects the first with the first and the second with the
//! second. `a [0-] => [0, 1, 2] b` has as many outputs as are needed. A side without ports is open with `=>`, else it is port 0.

use super::scope::{Link, Node};
use crate::diagnostic::Diagnostic;
use crate::mistakes::Mistakes;
use crate::span::Span;
use crate::syntax::PORT_MAX;
use crate::syntax::ast::{Arrow, Ports};

/// An element in a chain, with its ports on both sides.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub node: usize,
    pub inputs: Option<Ports>,
    pub outputs: Option<Ports>,
    pub span: Span,
}

/// One side of an arrow.
struct Side<'a> {
    ends: Vec<(usize, Option<&'a Ports>)>,
    word: &'static str,
    /// Ports at least, and whether there may be more.
    least: usize,
    open: usize,
}

impl<'a> Side<'a> {
    fn new(ends: Vec<(usize, Option<&'a Ports>)>, word: &'static str) -> Side<'a> {
        let least = ends.iter().map(|(_, ports)| ports.map_or(1, |ports| ports.list.len())).sum();
        let open = ends.iter().filter(|(_, ports)| ports.is_some_and(|ports| ports.open)).count();
        Side { ends, word, least, open }
    }

    /// The ports in order, so many.
    fn ports(&self, count: usize) -> Vec<(usize, u32)> {
        let mut more = count.saturating_sub(self.least);
        let mut found = Vec::new();
        for (node, ports) in &self.ends {
            let list = ports.map_or(&[0][..], |ports| &ports.list);
            found.extend(list.iter().map(|port| (*node, *port)));
            let open = ports.map_or(self.open > 0, |ports| ports.open);
            if open {
                let last = list.last().copied().unwrap_or(0);
                found.extend((1..=more as u32).map(|above| (*node, last + above)));
                more = 0;
            }
        }
        found
    }
}

/// The links between two sets.
pub(super) fn connect(from: &[End], to: &[End], arrow: (Arrow, Span), mistakes: &mut Mistakes) -> Vec<Link> {
    let mut outputs = Side::new(from.iter().map(|end| (end.node, end.outputs.as_ref())).collect(), "outputs");
    let mut inputs = Side::new(to.iter().map(|end| (end.node, end.inputs.as_ref())).collect(), "inputs");
    let (arrow, span) = arrow;
    let mut wrong = |message: String, label: &str, hint: &str| {
        mistakes.add(Diagnostic::new(span, message, label).hint(hint));
        Vec::new()
    };
    if outputs.open + inputs.open > 1 {
        let hint = "give the numbers on one side: a [0-] => [0-3] b";
        return wrong("open ports on both sides".into(), "how many are they?", hint);
    }
    if arrow == Arrow::Each {
        let (out, ins) = (outputs.least, inputs.least);
        open_unnamed(&mut outputs, ins);
        open_unnamed(&mut inputs, out);
    }
    let steps = |side: &Side| side.least > 1 || side.open > 0;
    if steps(&outputs) && steps(&inputs) {
        if arrow == Arrow::One {
            let message = "'->' between many outputs and many inputs".to_owned();
            return wrong(message, "which one to which?", "write '=>' to connect the first to the first, and so on");
        }
        for (few, many) in [(&outputs, &inputs), (&inputs, &outputs)] {
            if few.least < many.least && few.open == 0 {
                let message = format!("{} {} for {} {}", few.least, few.word, many.least, many.word);
                return wrong(message, "expected as many on both sides", "write each port: a [0, 1] => [0, 1] b");
            }
        }
    }
    let count = outputs.least.max(inputs.least);
    let above = |side: &Side| side.open > 0 && count > PORT_MAX as usize;
    if above(&outputs) || above(&inputs) {
        return wrong("too many ports".into(), "how many are they?", &format!("ports have numbers up to {PORT_MAX}"));
    }
    let (outputs, inputs) = (outputs.ports(count), inputs.ports(count));
    let one = |side: &[(usize, u32)], at: usize| side.get(if side.len() == 1 { 0 } else { at }).copied();
    let pairs = (0..outputs.len().max(inputs.len())).map(|at| (one(&outputs, at), one(&inputs, at)));
    pairs.filter_map(|(from, to)| Some(Link { from: from?, to: to?, span })).collect()
}

/// With `=>`, an element alone without ports has as many as the other side has.
fn open_unnamed(side: &mut Side<'_>, other: usize) {
    if side.least == 1 && other > 1 && matches!(side.ends[..], [(_, None)]) {
        side.open = 1;
    }
}

/// Ports that no arrow is beside.
pub(super) fn useless(ports: Option<&Ports>, word: &str, end: &str, mistakes: &mut Mistakes) {
    if let Some(ports) = ports {
        let what =
            Diagnostic::new(ports.span, format!("{word} ports at the {end} of a chain"), "no arrow is beside them");
        mistakes.add(what.hint("leave them out, or connect them"));
    }
}

/// Takes links into account, but for those that begin or end where none can.
pub(super) fn admit(links: Vec<Link>, nodes: &mut [Node], ends: &[End], mistakes: &mut Mistakes) -> Vec<Link> {
    let place = |node: usize, or: Span| ends.iter().find(|end| end.node == node).map_or(or, |end| end.span);
    let mut kept = Vec::new();
    for link in links {
        let ((from, output), (to, input)) = (link.from, link.to);
        let (Some(source), Some(target)) = (nodes.get(from), nodes.get(to)) else { continue };
        if !source.can_leave {
            let message = format!("nothing comes out of '{}'", source.name);
            let what = Diagnostic::new(place(from, link.span), message, "expected behind an arrow only");
            mistakes.add(what.hint("what comes from outside begins at 'input', or at the exit of a tunnel"));
            continue;
        }
        if !target.can_enter {
            let message = format!("nothing goes into '{}'", target.name);
            let what = Diagnostic::new(place(to, link.span), message, "expected before an arrow only");
            mistakes.add(what.hint("what goes outside ends at 'output', or at the entrance of a tunnel"));
            continue;
        }
        if let Some(source) = nodes.get_mut(from) {
            source.used[1] = source.used[1].max(output + 1);
        }
        if let Some(target) = nodes.get_mut(to) {
            target.used[0] = target.used[0].max(input + 1);
        }
        kept.push(link);
    }
    kept
}
