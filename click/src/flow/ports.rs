//! The ports of all elements in one row, and whether as many are connected as the classes ask for.

use crate::classes::{Class, Classes, Processing};
use crate::diagnostic::Diagnostic;
use crate::elaborate::Loose;
use crate::graph::{Connection, Element, Graph, Hop};
use crate::mistakes::Mistakes;
use core::ops::Range;

/// A port in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub hop: Hop,
    pub output: bool,
}

/// All ports: each element's inputs, then its outputs.
pub(super) struct Ports<'a> {
    pub graph: &'a Graph,
    /// The class of each element.
    classes: Vec<Option<&'a Class>>,
    /// Where each element's inputs and outputs begin, and where the last ones end.
    begins: Vec<usize>,
    pub row: Vec<Place>,
    /// The connections of each port.
    pub connections: Vec<Vec<usize>>,
}

/// How a port is written: `a [1]`, `[1] b`.
pub(super) fn written(element: &Element, place: Place) -> String {
    let port = place.hop.port;
    if place.output { format!("{} [{port}]", element.name) } else { format!("[{port}] {}", element.name) }
}

fn counted(count: u32, word: &str) -> String {
    match count {
        0 => format!("no {word}"),
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

impl<'a> Ports<'a> {
    pub(super) fn new(graph: &'a Graph, all: &'a dyn Classes) -> Ports<'a> {
        let mut used = vec![[0u32; 2]; graph.elements.len()];
        for Connection { from, to, .. } in &graph.connections {
            used[from.element][1] = used[from.element][1].max(from.port + 1);
            used[to.element][0] = used[to.element][0].max(to.port + 1);
        }
        let classes: Vec<_> = graph.elements.iter().map(|element| all.class(&element.class)).collect();
        let (mut row, mut begins) = (Vec::new(), vec![0]);
        for (element, (class, used)) in classes.iter().zip(&used).enumerate() {
            let least = |output: bool| class.map_or(0, |class| least(class, used, output));
            for (output, count) in [(false, used[0].max(least(false))), (true, used[1].max(least(true)))] {
                row.extend((0..count).map(|port| Place { hop: Hop { element, port }, output }));
                begins.push(row.len());
            }
        }
        let mut ports = Ports { graph, classes, begins, connections: vec![Vec::new(); row.len()], row };
        for (at, Connection { from, to, .. }) in graph.connections.iter().enumerate() {
            for place in [ports.index(*from, true), ports.index(*to, false)] {
                ports.connections[place].push(at);
            }
        }
        ports
    }

    /// The places of an element's inputs or outputs.
    pub(super) fn of(&self, element: usize, output: bool) -> Range<usize> {
        let at = 2 * element + usize::from(output);
        self.begins[at]..self.begins[at + 1]
    }

    pub(super) fn index(&self, hop: Hop, output: bool) -> usize {
        self.of(hop.element, output).start + hop.port as usize
    }

    pub(super) fn class(&self, element: usize) -> Option<&'a Class> {
        self.classes[element]
    }

    pub(super) fn element(&self, place: Place) -> &'a Element {
        &self.graph.elements[place.hop.element]
    }

    /// Whether as many ports are connected as the classes ask for.
    pub(super) fn check(&self, loose: &Loose, mistakes: &mut Mistakes) {
        for (element, class) in self.classes.iter().enumerate() {
            let Some(class) = class else { continue };
            let inputs = self.of(element, false).len() as u32;
            for output in [false, true] {
                let range = self.of(element, output);
                let counts = if output { class.outputs } else { class.inputs };
                let (_, most) = counts.bounds(inputs);
                if let Some(most) = most.filter(|most| range.len() > *most as usize) {
                    self.too_many(range, most, mistakes);
                } else if !class.optional {
                    self.not_connected(range, loose, mistakes);
                }
            }
        }
    }

    fn too_many(&self, range: Range<usize>, most: u32, mistakes: &mut Mistakes) {
        let Some(place) = range.end.checked_sub(1).map(|last| self.row[last]) else { return };
        let element = self.element(place);
        let word = if place.output { "output" } else { "input" };
        let span = self.connections[range.end - 1].first().map(|at| self.graph.connections[*at].span);
        let message = format!("'{}' has no {word} {}", element.name, place.hop.port);
        let label = format!("class {} has {} here", element.class, counted(most, word));
        let what = Diagnostic::new(span.unwrap_or(element.span), message, label);
        let hint = format!("connect fewer of its {word}s, or use another class");
        mistakes.add(what.other(element.span, "declared here").hint(hint));
    }

    /// One message for all ports of a side that are not connected.
    fn not_connected(&self, range: Range<usize>, loose: &Loose, mistakes: &mut Mistakes) {
        let free: Vec<usize> = range.filter(|at| self.connections[*at].is_empty()).collect();
        let Some(place) = free.first().map(|at| self.row[*at]) else { return };
        let element = self.element(place);
        let word = if place.output { "output" } else { "input" };
        let numbers: Vec<String> = free.iter().take(8).map(|at| self.row[*at].hop.port.to_string()).collect();
        let more = if free.len() > numbers.len() { ", …" } else { "" };
        let (plural, are) = if free.len() > 1 { ("s", "are") } else { ("", "is") };
        let list = numbers.join(", ");
        let message = format!("{word}{plural} {list}{more} of '{}' {are} not connected", element.name);
        let them = if free.len() > 1 { "them" } else { "it" };
        let what = Diagnostic::new(element.span, message, format!("class {} needs {them}", element.class));
        let what = match element.within.filter(|within| *within != element.span) {
            Some(within) => what.other(within, "in the compound that is used here"),
            None => what,
        };
        let hint = match (loose.end(place.hop, place.output), place.output) {
            (Some(end), false) => format!("it is behind '{end}', to which nothing is connected from outside"),
            (Some(end), true) => format!("it is before '{end}', behind which nothing is connected outside"),
            (None, false) => format!("connect it: … -> {}", written(element, place)),
            (None, true) => format!("connect it: {} -> …", written(element, place)),
        };
        mistakes.add(what.hint(hint));
    }

    /// What is pushed goes to one input, and what is pulled comes from one output.
    pub(super) fn check_shared(&self, processing: &[Processing], mistakes: &mut Mistakes) {
        for (at, place) in self.row.iter().enumerate() {
            let [first, second, ..] = self.connections[at][..] else { continue };
            let pushes = processing[at] == Processing::Push;
            if pushes != place.output {
                continue;
            }
            let (word, hint) = match place.output {
                true => ("push output", "a Tee gives copies of items to several"),
                false => ("pull input", "a scheduler takes items from several in turn"),
            };
            let element = self.element(*place);
            let message = format!("the {word} '{}' is connected twice", written(element, *place));
            let [first, second] = [first, second].map(|at| self.graph.connections[at]);
            let end = |connection: Connection| {
                let (hop, output) = if place.output { (connection.to, false) } else { (connection.from, true) };
                let place = Place { hop, output };
                format!("with '{}'", written(self.element(place), place))
            };
            let what = Diagnostic::new(second.span, message, end(second));
            mistakes.add(what.other(first.span, end(first)).hint(hint));
        }
    }
}

/// The least number of ports that must be there, connected or not.
fn least(class: &Class, used: &[u32; 2], output: bool) -> u32 {
    if class.optional {
        return 0;
    }
    let inputs = class.inputs.bounds(0).0.max(used[0]);
    if output { class.outputs.bounds(inputs).0 } else { inputs }
}
