//! From text to a checked graph: the whole front end in one call.
//!
//! Three steps, each only if the one before found nothing wrong: the form, then names and compounds, then ports. So a mistake is
//! not told again by what follows from it.

use crate::classes::Classes;
use crate::cut;
use crate::diagnostic::Diagnostic;
use crate::elaborate::{Loose, elaborate};
use crate::flow::{ElementPorts, infer};
use crate::graph::Graph;
use crate::mistakes::Mistakes;
use crate::syntax::parse;

/// What is known of a configuration.
#[derive(Debug)]
pub struct Checked {
    /// The flat graph with what is known of its ports, if nothing is wrong.
    pub graph: Option<CheckedGraph>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// A flat graph in which nothing is wrong but what its classes find in their arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedGraph {
    /// Elements and connections.
    pub graph: Graph,
    /// The ports of each element, in the same order.
    pub ports: Vec<ElementPorts>,
}

/// Checks a configuration.
pub fn check(source: &str, classes: &dyn Classes) -> Checked {
    check_with(source, classes, &[])
}

/// Checks a configuration with variables of the caller's, which go before those that it defines itself: name and value.
pub fn check_with(source: &str, classes: &dyn Classes, definitions: &[(&str, &str)]) -> Checked {
    let (graph, loose) = match flat(source, classes, definitions) {
        Ok(flat) => flat,
        Err(diagnostics) => return Checked { graph: None, diagnostics },
    };
    let mut mistakes = Mistakes::default();
    let ports = infer(&graph, classes, &loose, &mut mistakes);
    if mistakes.is_empty() {
        cut::check(&graph, &ports, &mut mistakes);
    }
    let diagnostics = mistakes.into_list();
    Checked { graph: diagnostics.is_empty().then_some(CheckedGraph { graph, ports }), diagnostics }
}

/// The flat graph of a configuration whose form and names are right, and its ports that end in a compound.
pub(crate) fn flat(
    source: &str,
    classes: &dyn Classes,
    definitions: &[(&str, &str)],
) -> Result<(Graph, Loose), Vec<Diagnostic>> {
    let parsed = parse(source);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let mut mistakes = Mistakes::default();
    let flat = elaborate(source, &parsed.statements, classes, definitions, &mut mistakes);
    if mistakes.is_empty() { Ok(flat) } else { Err(mistakes.into_list()) }
}
