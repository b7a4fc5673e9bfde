//! What a graph is, and what classes there are.

use super::{Variables, complain, read};
use crate::graph::class::Make;
use crate::graph::engines;
use crate::graph::load::ClassTable;
use anyhow::Result;
use click::check::CheckedGraph;
use click::check_with;
use click::classes::Processing;
use std::path::Path;

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
pub(super) fn flat(text: &str) -> Option<Vec<String>> {
    check_with(text, &ClassTable::default(), &[]).graph.map(|checked| lines(&checked))
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
        let (inputs, outputs) = (letters(&ports.inputs), letters(&ports.outputs));
        all.push(format!("{} :: {}{arguments}  {inputs}/{outputs}", element.name, element.class));
    }
    for connection in &checked.graph.connections {
        let name = |element: usize| checked.graph.elements.get(element).map_or("", |element| element.name.as_str());
        let (from, to) = (connection.from, connection.to);
        all.push(format!("{} [{}] -> [{}] {}", name(from.element), from.port, to.port, name(to.element)));
    }
    all
}

/// Says what a class does, or which there are.
pub(super) fn doc(class: Option<&str>) -> Result<bool> {
    let Some(name) = class else {
        let mut names: Vec<_> = engines::names().collect();
        names.sort_unstable();
        for name in names {
            let doc = engines::class(name).map_or("", |class| class.doc);
            crate::say!("{name:<22} {}", doc.split(". ").next().unwrap_or(doc));
        }
        return Ok(true);
    };
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
