//! From a text in Click's language to a graph that runs.
//!
//! `click` checks names, connections, push and pull; here each engine is made by its class from its arguments, and linked. All mistakes of
//! all engines are told together, each at its place. Nothing is opened: devices are names until somebody gives them packets.

use super::arguments::{ArgumentNames, Arguments, FromArgument, Net4, words_of};
use super::class::{BROUGHT_MAX, BroughtClass, BroughtClasses, EngineClass, Make, PlacedClass};
use super::engine::{Engine, GraphLink, Placed};
use super::engines;
use super::pattern::FlowPattern;
use super::placement::GraphPlace;
use super::scratch::Hop;
use super::table::Graph;
use crate::frame::PortId;
use crate::wire::ethernet::Mac;
use click::check::CheckedGraph;
use click::check_with;
use click::classes::{Bounds, Class, Classes, CodeError, Processing};
use click::cut::{FROM_REMOTE, Part, Parts, TO_REMOTE, cut};
use click::diagnostic::Diagnostic;
use click::graph::{Element, ElementPlace, Hop as ClickHop};
use std::collections::HashMap;

/// Engines of one graph, at most.
pub const GRAPH_MAX: usize = 4096;

/// What the language is told of the classes of this node. A text of somebody's has none of those that stand where connections are cut
/// ([`click::cut`]).
pub struct ClassTable {
    known: HashMap<String, Class>,
    bounds: Bounds,
}

impl Default for ClassTable {
    fn default() -> ClassTable {
        ClassTable::with(&BroughtClasses::default())
    }
}

impl ClassTable {
    /// The classes of this node, and those that extensions have brought.
    pub fn with(brought: &BroughtClasses) -> ClassTable {
        let others = brought.iter().filter(|class| class.marshals().is_none());
        let others = others.filter_map(|class| Some((class.name.clone(), ports(class).ok()?)));
        let mut table = ClassTable::of_parts();
        table.known.retain(|name, _| ![TO_REMOTE, FROM_REMOTE].contains(&name.as_str()));
        table.known.extend(others);
        table
    }

    /// The classes that parts have, which other nodes send.
    fn of_parts() -> ClassTable {
        let own = |name: &'static str| Some((name.to_owned(), interface(engines::class(name)?)?));
        ClassTable { known: engines::names().filter_map(own).collect(), bounds: Bounds::default() }
    }

    /// For texts of so many engines at most: more are not even counted.
    pub(super) fn within(self, most: usize) -> ClassTable {
        let bounds = if most < GRAPH_MAX { Bounds::of_elements(most) } else { Bounds::default() };
        ClassTable { bounds, ..self }
    }
}

/// Ports of a class of an extension: where it has several outputs, packets are pushed by all but the first. Through an order they are
/// pulled.
fn ports(class: &BroughtClass) -> Result<Class, CodeError> {
    Class::new(&class.ports)?.processing(if class.is_order { "l/l" } else { "a/ah" })
}

/// Ports of a class as the language has them.
fn interface(class: &EngineClass) -> Option<Class> {
    match &class.make {
        Make::Module { .. } => None,
        Make::Remark => Class::new("0/0").ok().map(Class::optional),
        Make::Element { codes: [ports, processing, flow], is_loose, .. } => {
            let made = Class::new(ports).and_then(|it| it.processing(processing)).and_then(|it| it.flow(flow)).ok()?;
            Some(if *is_loose { made.optional() } else { made })
        }
    }
}

impl Classes for ClassTable {
    fn class(&self, name: &str) -> Option<&Class> {
        self.known.get(name)
    }

    fn names(&self) -> Vec<&str> {
        self.known.keys().map(String::as_str).collect()
    }

    fn package(&self, name: &str) -> bool {
        // Features that other programs have in packages of their own, and this one always.
        matches!(name, "click" | "anode" | "userlevel")
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }
}

/// Engines that are made, at most, of a text that may have so many: whoever counts them then says how many are too many.
fn early(most: usize) -> usize {
    GRAPH_MAX.min(Bounds::of_elements(most).elements)
}

/// A part of a graph that is to be at another node.
pub struct AwayPart {
    /// The node as the text names it.
    pub node: String,
    /// The part's own text.
    pub text: String,
    /// Its engines.
    pub graph: Graph,
}

/// Reads a text, and makes what is at this node, and the parts that are to be at others; each may have so many engines. `place`: where the
/// whole is to be.
pub fn load_parts(
    text: &str,
    place: GraphPlace,
    brought: &BroughtClasses,
    most: usize,
) -> Result<(Graph, Vec<AwayPart>), Vec<Diagnostic>> {
    let checked = check_with(text, &ClassTable::with(brought).within(most), &[]);
    let Some(whole) = checked.graph else { return Err(checked.diagnostics) };
    let elements = &whole.graph.elements;
    let mut wrong: Vec<_> = elements.iter().filter_map(|element| stays(element, brought)).collect();
    wrong.extend(elements.iter().filter_map(|element| fits(element, place)));
    let is_for_all =
        |element: &Element| engines::class(&element.class).is_some_and(|class| matches!(class.make, Make::Remark));
    let Parts { here, away } = cut(&whole, is_for_all);
    let here = build(&here, brought, early(most)).map_err(|found| wrong.extend(found));
    let mut parts = Vec::new();
    for Part { node, graph } in away {
        match build(&graph, brought, early(most)) {
            Ok(made) => parts.push(AwayPart { node, text: graph.graph.to_string(), graph: made }),
            // What is said for all parts is wrong in each.
            Err(found) => found.into_iter().for_each(|one| {
                if !wrong.contains(&one) {
                    wrong.push(one);
                }
            }),
        }
    }
    here.ok().filter(|_| wrong.is_empty()).map(|here| (here, parts)).ok_or(wrong)
}

/// Says that an engine of an extension is not for another node.
fn stays(element: &Element, brought: &BroughtClasses) -> Option<Diagnostic> {
    let (node, class) = (element.node()?, brought.class(&element.class)?);
    let what = format!("'{}' is of a class of an extension, which {node} does not have", element.name);
    let wrong = Diagnostic::new(element.span, what, class.about.clone());
    Some(wrong.hint("leave @remote out here: engines of extensions run where these are loaded"))
}

/// Which half of this node is to have an element.
fn half(element: &Element) -> GraphPlace {
    match &element.place {
        Some(ElementPlace::Kernel) => GraphPlace::Kernel,
        Some(ElementPlace::User) => GraphPlace::User,
        Some(ElementPlace::Auto | ElementPlace::Remote(_)) | None => GraphPlace::Auto,
    }
}

/// Says that an element's place is none in the place of the whole.
fn fits(element: &Element, place: GraphPlace) -> Option<Diagnostic> {
    let whole = match (place, half(element)) {
        (GraphPlace::User, GraphPlace::Kernel) => "in user space",
        (GraphPlace::Kernel, GraphPlace::User) => "in the kernel with all engines",
        _ => return None,
    };
    let own = element.place.as_ref()?;
    let what = format!("'{}' is to be {own}, and the graph {whole}", element.name);
    let wrong = Diagnostic::new(element.span, what, format!("of class {}", element.class));
    Some(wrong.hint("place = \"auto\" has each engine where it is to be"))
}

/// Reads a part that another node has sent, and that may have so many engines: all of it is here, and what it is connected with is there.
pub fn load_part(text: &str, most: usize) -> Result<Graph, Vec<Diagnostic>> {
    let checked = check_with(text, &ClassTable::of_parts().within(most), &[]);
    let Some(part) = checked.graph else { return Err(checked.diagnostics) };
    match part.graph.elements.iter().find(|element| element.place.is_some()) {
        Some(away) => {
            Err(vec![Diagnostic::new(away.span, "a part has no places of its own", "this is to be elsewhere")])
        }
        None => build(&part, &BroughtClasses::default(), early(most)),
    }
}

/// Reads a text as one graph at one place, with variables of the caller's: name and value.
pub fn load(text: &str, variables: &[(&str, &str)]) -> Result<Graph, Vec<Diagnostic>> {
    load_with(text, variables, &BroughtClasses::default())
}

/// The same where extensions have brought classes.
pub fn load_with(text: &str, variables: &[(&str, &str)], brought: &BroughtClasses) -> Result<Graph, Vec<Diagnostic>> {
    let checked = check_with(text, &ClassTable::with(brought), variables);
    match checked.graph {
        Some(graph) => build(&graph, brought, GRAPH_MAX),
        None => Err(checked.diagnostics),
    }
}

/// Makes the engines of a checked graph, so many at most, and links them.
pub fn build(checked: &CheckedGraph, brought: &BroughtClasses, most: usize) -> Result<Graph, Vec<Diagnostic>> {
    let elements = &checked.graph.elements;
    let mut wrong = Vec::new();
    if let Some(beyond) = elements.get(most) {
        let what = format!("more than {most} elements");
        return Err(vec![Diagnostic::new(beyond.span, what, "this is one too many")]);
    }
    let names = names_of(elements, &mut wrong);
    let others = elements.iter().filter(|element| brought.class(&element.class).is_some());
    if let Some(beyond) = others.clone().nth(BROUGHT_MAX) {
        let what = format!("more than {BROUGHT_MAX} engines of extensions");
        return Err(vec![Diagnostic::new(beyond.span, what, "this is one too many")]);
    }
    let mut graph = Graph::default();
    // The number of each element's engine; remarks have none.
    let mut numbers = vec![None; elements.len()];
    for ((element, ports), number) in elements.iter().zip(&checked.ports).zip(&mut numbers) {
        let Some((class, engine)) = (match brought.class(&element.class) {
            Some(class) => Some((PlacedClass::Brought(class.clone()), of_extension(class, element, &mut wrong))),
            None => own(element, (ports.inputs.len() as u16, ports.outputs.len() as u16), &names, &mut wrong),
        }) else {
            continue;
        };
        let Some(engine) = engine else { continue };
        let at = graph.engines.len() as u16;
        *number = Some(at);
        let pulls = ports.inputs.iter().any(|port| port.processing == Processing::Pull);
        let pushes = ports.outputs.iter().any(|port| port.processing == Processing::Push);
        let is_task = matches!(class.make(), Some(Make::Element { is_task: true, .. }));
        if is_task && (pulls || pushes) {
            graph.tasks.push(at);
        }
        if engine.keeps().is_some() {
            graph.keepers.push(at);
        }
        let links = ports.outputs.iter().map(|_| GraphLink { to: Hop::End, packets: 0 }).collect();
        let before = ports.inputs.iter().map(|_| (u16::MAX, 0)).collect();
        let (name, engine, place) = (element.name.as_str().into(), Some(engine), half(element));
        graph.engines.push(Placed { class, name, engine, links, before, place });
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    link(&mut graph, checked, &numbers);
    meet(&mut graph);
    Ok(graph)
}

/// An engine that may be made, with its class.
type Made = (PlacedClass, Option<Box<dyn Engine>>);

/// The engine of an element whose class is the node's own; nothing of a remark, and no engine if something is wrong.
fn own(element: &Element, count: (u16, u16), names: &ArgumentNames, wrong: &mut Vec<Diagnostic>) -> Option<Made> {
    let class = engines::class(&element.class)?;
    let Make::Element { make, .. } = &class.make else { return None };
    let about = (element.name.as_str(), element.class.as_str(), element.span);
    let before = wrong.len();
    let mut args = Arguments::new(&element.arguments, about, count, names, wrong);
    let engine = make(&mut args);
    if engine.is_some() {
        args.end();
    }
    if engine.is_none() && wrong.len() == before {
        let what = format!("'{}' cannot be made", element.name);
        wrong.push(Diagnostic::new(element.span, what, format!("arguments of class {}", element.class)));
    }
    Some((PlacedClass::Own(class), engine))
}

/// The same of a class that an extension has brought.
fn of_extension(class: &BroughtClass, element: &Element, wrong: &mut Vec<Diagnostic>) -> Option<Box<dyn Engine>> {
    let arguments: Vec<_> = element.arguments.iter().map(|argument| argument.text.as_str()).collect();
    let made = class.engine(&arguments.join(", "));
    let said =
        |why| Diagnostic::new(element.span, format!("'{}' cannot be made: {why}", element.name), class.about.clone());
    made.map_err(|why| wrong.push(said(why))).ok()
}

fn link(graph: &mut Graph, checked: &CheckedGraph, numbers: &[Option<u16>]) {
    let number = |hop: &ClickHop| numbers.get(hop.element).copied().flatten();
    for connection in &checked.graph.connections {
        let (Some(from), Some(to)) = (number(&connection.from), number(&connection.to)) else { continue };
        let (output, input) = (connection.from.port as u16, connection.to.port as u16);
        let processing = checked.ports.get(connection.from.element).and_then(|it| it.outputs.get(usize::from(output)));
        let pushes = processing.is_none_or(|port| port.processing == Processing::Push);
        if pushes {
            let links = graph.engines.get_mut(usize::from(from)).map(|placed| &mut placed.links);
            if let Some(link) = links.and_then(|links| links.get_mut(usize::from(output))) {
                link.to = Hop::Engine(to, input);
            }
        } else if let Some(before) = graph.engines.get_mut(usize::from(to)).map(|placed| &mut placed.before) {
            before.iter_mut().skip(input.into()).take(1).for_each(|place| *place = (from, output));
        }
    }
    // A packet that leaves by a last output to which nothing is connected is dropped as by one that there is not.
}

/// Engines at the edges learn the numbers of their places.
fn meet(graph: &mut Graph) {
    let Graph { engines, entrances, places, .. } = graph;
    for (at, placed) in (0..).zip(engines) {
        let port: Option<PortId> = placed.engine.as_mut().and_then(|engine| engine.meet(places));
        entrances.extend(port.map(|port| (port, at)));
    }
}

/// What names stand for: what remarks say, and engines.
fn names_of(elements: &[Element], wrong: &mut Vec<Diagnostic>) -> ArgumentNames {
    let class = |written: &str| engines::class(written).map_or(written, |class| class.name).to_owned();
    let engines = elements.iter().map(|element| (element.name.clone(), class(&element.class))).collect();
    let mut names = ArgumentNames { engines, ..ArgumentNames::default() };
    addresses(elements, &mut names, wrong);
    for argument in elements.iter().filter(|it| it.class == "IPRewriterPatterns").flat_map(|it| &it.arguments) {
        let words = words_of(argument);
        let Some((name, ends)) = words.split_first() else { continue };
        let known = names.patterns.contains_key(*name).then(|| format!("the pattern '{name}' stands twice"));
        match known.map_or_else(|| FlowPattern::read(ends, &names).map(drop), Err) {
            Ok(()) => {
                drop(names.patterns.insert((*name).to_owned(), ends.iter().map(|&word| word.to_owned()).collect()))
            }
            Err(why) => wrong.push(argument.wrong(why, "as NAME 192.0.2.1 1024-65535 - -")),
        }
    }
    names
}

/// The names that `AddressInfo` gives.
fn addresses(elements: &[Element], names: &mut ArgumentNames, wrong: &mut Vec<Diagnostic>) {
    for argument in elements.iter().filter(|it| it.class == "AddressInfo").flat_map(|it| &it.arguments) {
        let words = words_of(argument);
        let Some((name, values)) = words.split_first() else { continue };
        for value in values {
            let plain = ArgumentNames::default();
            if let Some(mac) = Mac::read(value, &plain) {
                names.ethernet.insert((*name).to_owned(), mac);
            } else if let Some(net) = Net4::read(value, names) {
                let has_length = value.contains('/');
                let known = names.ip.get(*name).copied();
                let length = if has_length { net.length } else { known.map_or(32, |(_, length)| length) };
                let address = if has_length && known.is_some() { known.unwrap_or_default().0 } else { net.address.0 };
                names.ip.insert((*name).to_owned(), (address, length));
            } else if let Some(mac) = Mac::read(value, names) {
                names.ethernet.insert((*name).to_owned(), mac);
            } else {
                wrong
                    .push(argument.wrong(format!("'{value}' is no address"), "an IPv4 or Ethernet address, or a name"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
