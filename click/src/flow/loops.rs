//! Circles that no item leaves: `c :: Counter -> c`.
//!
//! If each element of a circle has one output alone, and pushes, what enters the circle goes round for ever, and calls do not end.
//! A queue ends the circle, and so does an element with a second output. Pulling backwards it is the same with inputs.

use super::ports::{Place, Ports};
use crate::classes::Processing;
use crate::diagnostic::Diagnostic;
use crate::mistakes::Mistakes;

/// Elements of a circle that are named.
const NAMED_MAX: usize = 8;

/// What an element does with whatever comes: the port it comes by, the one it goes to, and the connection behind that.
struct Step {
    port: usize,
    connection: usize,
    next: usize,
}

/// Finds circles of pushes, and of pulls.
pub(super) fn check(ports: &Ports<'_>, processing: &[Processing], mistakes: &mut Mistakes) {
    for what in [Processing::Push, Processing::Pull] {
        let forward = what == Processing::Push;
        let steps: Vec<Option<Step>> = (0..ports.graph.elements.len())
            .map(|element| {
                let mut range = ports.of(element, forward);
                let (port, more) = (range.next()?, range.next());
                let [connection] = ports.connections[port][..] else { return None };
                let link = ports.graph.connections[connection];
                let next = if forward { ports.index(link.to, false) } else { ports.index(link.from, true) };
                (more.is_none() && processing[port] == what).then_some(Step { port, connection, next })
            })
            .collect();
        circles(ports, &steps, what, mistakes);
    }
}

fn circles(ports: &Ports<'_>, steps: &[Option<Step>], what: Processing, mistakes: &mut Mistakes) {
    // In which search an element was seen: each is seen once.
    let mut seen = vec![0usize; steps.len()];
    for start in 0..steps.len() {
        let mut at = start;
        let mut way = Vec::new();
        while seen[at] == 0 {
            seen[at] = start + 1;
            way.push(at);
            match next(ports, steps, at) {
                Some(next) => at = next,
                None => break,
            }
        }
        let closes = seen[at] == start + 1 && next(ports, steps, at).is_some();
        let Some(begin) = way.iter().position(|other| *other == at).filter(|_| closes) else { continue };
        let circle = way.get(begin..).unwrap_or_default();
        if circle.last().and_then(|last| next(ports, steps, *last)) == Some(at) {
            mistakes.add(told(ports, steps, circle, what));
        }
    }
}

/// The element behind one, if whatever comes there by this way goes on.
fn next(ports: &Ports<'_>, steps: &[Option<Step>], at: usize) -> Option<usize> {
    let step = steps[at].as_ref()?;
    let Place { hop, output } = ports.row[step.next];
    let onward = steps[hop.element].as_ref()?;
    let behind = ports.row[onward.port].hop.port as usize;
    let (input, output) = if output { (behind, hop.port as usize) } else { (hop.port as usize, behind) };
    ports.class(hop.element)?.flow.leads(input, output).then_some(hop.element)
}

fn told(ports: &Ports<'_>, steps: &[Option<Step>], circle: &[usize], what: Processing) -> Diagnostic {
    let name = |at: &usize| ports.graph.elements[*at].name.clone();
    let mut names: Vec<String> = circle.iter().take(NAMED_MAX).map(name).collect();
    if circle.len() > NAMED_MAX {
        names.push("…".to_owned());
    }
    names.extend(circle.first().map(name));
    if what == Processing::Pull {
        names.reverse();
    }
    let span =
        circle.last().and_then(|at| steps[*at].as_ref()).map(|step| ports.graph.connections[step.connection].span);
    let label = match what {
        Processing::Push => "what is pushed in never leaves",
        Processing::Pull => "whoever pulls gets nothing",
    };
    let what = Diagnostic::new(span.unwrap_or_default(), format!("a circle: {}", names.join(" -> ")), label);
    what.hint("put a queue into it, or an element with a second way out")
}
