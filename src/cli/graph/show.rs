//! What a graph is, and what classes there are.

use super::{Variables, complain, read};
use crate::clean;
use crate::graph::class::{BroughtClass, BroughtClasses, Make};
use crate::graph::engines;
use crate::graph::load::ClassTable;
use crate::manage::client::{Control, run_dir};
use anyhow::Result;
use click::check::CheckedGraph;
use click::check_with;
use click::classes::Processing;
use model::Ask;
use model::extensions::{Extension, OfferedEngine};
use std::path::Path;
use std::sync::Arc;

/// Shows the flat graph, with how packets go through each port: `h` pushed, `l` pulled.
pub(super) fn show(file: &Path, variables: &Variables) -> Result<bool> {
    let text = read(file)?;
    let checked = check_with(&text, &ClassTable::default(), &variables.pairs()?);
    let Some(checked) = checked.graph else {
        complain(file, &text, &checked.diagnostics);
        return Ok(false);
    };
    lines(&checked).iter().for_each(|line| crate::say!("{line}"));
    Ok(true)
}

/// The same lines of a text; nothing if something is wrong with it.
pub(super) fn flat(text: &str, classes: &BroughtClasses) -> Option<Vec<String>> {
    check_with(text, &ClassTable::with(classes), &[]).graph.map(|checked| lines(&checked))
}

/// A line for each engine, and one for each connection.
fn lines(checked: &CheckedGraph) -> Vec<String> {
    let mut all = Vec::new();
    for (element, ports) in checked.graph.elements.iter().zip(&checked.ports) {
        let letters = |side: &[click::flow::Port]| -> String {
            side.iter().map(|port| if port.processing == Processing::Push { 'h' } else { 'l' }).collect()
        };
        let arguments: Vec<_> = element.arguments.iter().map(|argument| argument.text.as_str()).collect();
        let arguments = if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
        let place = element.place.as_ref().map_or(String::new(), |place| format!(" {place}"));
        let (inputs, outputs) = (letters(&ports.inputs), letters(&ports.outputs));
        all.push(format!("{} :: {}{arguments}{place}  {inputs}/{outputs}", element.name, element.class));
    }
    for connection in &checked.graph.connections {
        let name = |element: usize| checked.graph.elements.get(element).map_or("", |element| element.name.as_str());
        let (from, to) = (connection.from, connection.to);
        all.push(format!("{} [{}] -> [{}] {}", name(from.element), from.port, to.port, name(to.element)));
    }
    all
}

/// The classes of engines that extensions of a node bring.
fn brought(node: &str) -> Result<Vec<OfferedEngine>> {
    let all: Vec<Extension> = Control::connect(&run_dir(node))?.asked(&Ask::Extensions)?;
    Ok(all.into_iter().flat_map(|extension| extension.engines).collect())
}

/// The same for texts that are checked before the node is asked; none if it does not say.
pub(super) fn of_node(node: &str) -> BroughtClasses {
    let class = |of: &OfferedEngine| {
        let (extension, class) = of.name.split_once('/')?;
        Some(Arc::new(BroughtClass::new(extension, (class, &of.ports, of.order, &of.about), None)))
    };
    BroughtClasses::new(brought(node).unwrap_or_default().iter().filter_map(class).collect())
}

/// Says what a class does, or which there are; of a node, if one is named.
pub(super) fn doc(class: Option<&str>, node: Option<&str>) -> Result<bool> {
    let others = node.map(brought).transpose()?.unwrap_or_default();
    let first = |doc: &str| doc.split(". ").next().unwrap_or(doc).to_owned();
    let Some(name) = class else {
        let own = engines::names().map(|name| (name, engines::class(name).map_or("", |class| class.doc)));
        let mut all: Vec<_> = own.chain(others.iter().map(|of| (&*of.name, &*of.about))).collect();
        all.sort_unstable();
        all.iter().for_each(|(name, doc)| crate::say!("{:<22} {}", clean::line(name), clean::line(&first(doc))));
        return Ok(true);
    };
    if let Some(OfferedEngine { name, ports, about, .. }) = others.iter().find(|of| of.name == name) {
        crate::say!("{}: ports {}, of an extension", clean::line(name), clean::line(ports));
        about.split(". ").for_each(|sentence| crate::say!("  {}", clean::line(sentence.trim_end_matches('.'))));
        crate::say!("  handlers count, failed, fuel");
        return Ok(true);
    }
    let Some(class) = engines::class(name) else {
        crate::say_err!("anode: there is no class {name}: `anode graph doc` shows all");
        return Ok(false);
    };
    let codes = match &class.make {
        Make::Element { codes: [ports, processing, flow], .. } => {
            format!("ports {ports}, processing {processing}, flow {flow}")
        }
        Make::Module { .. } => "an engine of channels".to_owned(),
        Make::Remark => "no engine: it is read before others are made".to_owned(),
    };
    crate::say!("{}: {codes}", class.name);
    class.doc.split(". ").for_each(|sentence| crate::say!("  {}", sentence.trim_end_matches('.')));
    Ok(true)
}
