//! From the syntax tree to the flat graph.
//!
//! ```text
//! statements ─▶ resolve ─▶ scopes ─▶ expand ─▶ nodes and links ─▶ tunnels ─▶ elements and connections
//!               names, classes,      a copy of each compound      what goes in at one end
//!               chains to links      where it is used             comes out at the other
//! ```
//!
//! Names are looked up once in each compound, not once for each copy of it, so a mistake in a compound is told once. Texts come
//! from strangers: a few lines can stand for millions of elements, so what comes out is bounded.

mod connect;
mod declare;
mod expand;
mod overload;
mod resolve;
mod scope;
mod tunnels;

use crate::arguments::{self, Argument};
use crate::classes::{Classes, nearest};
use crate::diagnostic::Diagnostic;
use crate::graph::Graph;
use crate::mistakes::Mistakes;
use crate::span::Span;
use crate::syntax::ast::{Statement, StatementKind};
use crate::text::Text;

pub(crate) use tunnels::Loose;

/// The flat graph of statements, and its ports that end in a compound; mistakes are added to those that are known.
pub(crate) fn elaborate(
    source: &str,
    statements: &[Statement],
    classes: &dyn Classes,
    definitions: &[(&str, &str)],
    mistakes: &mut Mistakes,
) -> (Graph, Loose) {
    let scopes = resolve::resolve(source, statements, classes, mistakes);
    if !mistakes.is_empty() {
        return (Graph::default(), Loose::default());
    }
    let bounds = classes.bounds();
    let flat = expand::expand(&scopes, definitions, bounds, mistakes);
    let (mut graph, loose) = tunnels::join(flat, bounds, mistakes);
    // Those in braces or parentheses are refused before.
    for statement in statements {
        match statement.kind {
            StatementKind::Require(span) => {
                let found = packages(source, span, mistakes);
                missing(&found, classes, mistakes);
                graph.requirements.extend(found);
            }
            StatementKind::Provide(span) => graph.provisions.extend(packages(source, span, mistakes)),
            _ => {}
        }
    }
    (graph, loose)
}

/// Whether a name means itself without quotes.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:@+".contains(&byte);
    !name.is_empty() && name.bytes().all(plain)
}

/// The names in `require(a, package b)`.
fn packages(source: &str, span: Span, mistakes: &mut Mistakes) -> Vec<Argument> {
    let text = Text::inside(source, span);
    let mut found = Vec::new();
    for (_, mut argument) in arguments::parts(&text) {
        let words = arguments::words(&argument.text);
        let name = match words[..] {
            [] => continue,
            ["package", name] | [name] if name != "library" && name != "package" => name.to_owned(),
            ["library", ..] => {
                let what = Diagnostic::new(argument.span, "libraries cannot be required", "a graph is one file");
                mistakes.add(what.hint("write what is needed of the library into this file"));
                continue;
            }
            _ => {
                let what = Diagnostic::new(argument.span, "this names no package", "expected one name");
                mistakes.add(what.hint("write require(name) or require(package name)"));
                continue;
            }
        };
        // Quotes are allowed around it, and stay where they are needed.
        let bare = arguments::bytes(&name).and_then(|name| String::from_utf8(name).ok());
        argument.text = bare.filter(|name| is_plain(name)).unwrap_or(name);
        found.push(argument);
    }
    found
}

fn missing(found: &[Argument], classes: &dyn Classes, mistakes: &mut Mistakes) {
    // The word asks Click to squeeze space out of configurations, which means the same with and without.
    let known = |name: &str| name == "compact_config" || classes.package(name);
    for argument in found.iter().filter(|argument| !known(&argument.text)) {
        let message = format!("the package '{}' is not here", argument.text.escape_debug());
        let what = Diagnostic::new(argument.span, message, "required here");
        let hint = match nearest(&argument.text, classes.names()) {
            Some(class) => format!("'{class}' is a class, which needs no package"),
            None => "leave it out if the graph needs nothing of it".to_owned(),
        };
        mistakes.add(what.hint(hint));
    }
}
