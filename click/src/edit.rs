//! Changes of a graph that runs: connections that go, elements that go, and connections that come, in one step.
//!
//! ```text
//! a -> b                     disconnect "a -> b", connect "a -> c :: Counter -> b"
//! a -> c :: Counter -> b     disconnect "a -> c -> b", remove "c", connect "a -> b"
//! ```
//!
//! The text becomes its flat graph, in which each element has the name that is shown for it, and that without what goes and with what
//! comes is the new text. What it means is checked as every text is ([`check()`](crate::check())).

use crate::check;
use crate::classes::{Classes, nearest};
use crate::diagnostic::Diagnostic;
use crate::graph::{Connection, Graph};
use std::fmt::Write as _;

/// Changes of one step, at most.
pub const CHANGES_MAX: usize = 256;

/// What changes, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// Connections that go, as chains: `a [1] -> b -> c`.
    pub disconnect: &'a [String],
    /// Elements that go, with what is connected to them.
    pub remove: &'a [String],
    /// Statements that come: connections, with the elements that they declare.
    pub connect: &'a [String],
}

/// The parts of an edit as programs say it: chains with semicolons between them, names of elements with spaces, and statements.
pub fn parts([disconnect, remove, connect]: [&str; 3]) -> [Vec<String>; 3] {
    let list = |text: &str, ends: &[char]| {
        let parts = text.split(ends).map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    // Statements are the language's to tell apart.
    let connect = if connect.trim().is_empty() { Vec::new() } else { vec![connect.to_owned()] };
    [list(disconnect, &[';']), list(remove, &[' ', ',', '\n', '\t']), connect]
}

/// Why a graph is not changed.
#[derive(Debug)]
pub enum Refused {
    /// A text that is read for it is wrong: the text, and its mistakes.
    Text(String, Vec<Diagnostic>),
    /// It asks for what is not there.
    Absent(String),
}

/// The text of a graph after a change.
pub fn edit(source: &str, classes: &dyn Classes, edit: Edit<'_>) -> Result<String, Refused> {
    let Edit { disconnect, remove, connect } = edit;
    if disconnect.len() + remove.len() + connect.len() > CHANGES_MAX {
        return Err(Refused::Absent(format!("at most {CHANGES_MAX} changes are made in one step")));
    }
    let mut graph = flat(source.to_owned(), classes)?;
    for wanted in named(&graph, disconnect, classes)? {
        take_out(&mut graph, &wanted)?;
    }
    for name in remove {
        remove_element(&mut graph, name)?;
    }
    let mut text = graph.to_string();
    for statement in connect {
        let _ = writeln!(text, "{};", statement.trim().trim_end_matches(';'));
    }
    Ok(text)
}

/// The flat graph of a text.
fn flat(source: String, classes: &dyn Classes) -> Result<Graph, Refused> {
    check::flat(&source, classes, &[]).map(|(graph, _)| graph).map_err(|wrong| Refused::Text(source, wrong))
}

/// The connections of chains of elements that are there: all are read at once, since a graph may be large.
fn named(graph: &Graph, chains: &[String], classes: &dyn Classes) -> Result<Vec<Connection>, Refused> {
    if chains.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(chain) = chains.iter().find(|chain| !chain.contains("->") && !chain.contains("=>")) {
        return Err(Refused::Absent(format!("'{chain}' is no connection: 'a -> b' is")));
    }
    let bare = Graph { connections: Vec::new(), ..graph.clone() };
    let read = flat(format!("{bare}{};\n", chains.join(";\n")), classes)?;
    match read.elements.get(graph.elements.len()) {
        Some(new) => Err(absent(graph, &new.name)),
        None => Ok(read.connections),
    }
}

fn absent(graph: &Graph, wanted: &str) -> Refused {
    let near = nearest(wanted, graph.elements.iter().map(|element| &*element.name));
    let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    Refused::Absent(format!("'{wanted}' is no element of the graph{near}"))
}

fn take_out(graph: &mut Graph, wanted: &Connection) -> Result<(), Refused> {
    let is = |known: &Connection| (known.from, known.to) == (wanted.from, wanted.to);
    let Some(at) = graph.connections.iter().position(is) else {
        let (from, to) = (graph.name(wanted.from), graph.name(wanted.to));
        let leads = graph.connections.iter().find(|known| known.from == wanted.from);
        let leads =
            leads.map_or("nowhere".into(), |known| format!("to '{}' [{}]", graph.name(known.to), known.to.port));
        return Err(Refused::Absent(format!(
            "'{from}' [{}] -> [{}] '{to}' is no connection of the graph: that output leads {leads}",
            wanted.from.port, wanted.to.port
        )));
    };
    graph.connections.remove(at);
    Ok(())
}

fn remove_element(graph: &mut Graph, wanted: &str) -> Result<(), Refused> {
    let Some(at) = graph.elements.iter().position(|element| element.name == wanted) else {
        return Err(absent(graph, wanted));
    };
    graph.elements.remove(at);
    graph.connections.retain(|known| known.from.element != at && known.to.element != at);
    for known in &mut graph.connections {
        for hop in [&mut known.from, &mut known.to] {
            hop.element -= usize::from(hop.element > at);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::{Class, Table};

    fn table() -> Table {
        let mut table = Table::default();
        for (name, ports, processing) in [
            ("From", "0/1", "h"),
            ("To", "1/0", "h"),
            ("Counter", "1/1", "a"),
            ("Switch", "1/-", "h"),
            ("Queue", "1-/1", "h/l"),
        ] {
            table.add(name, Class::new(ports).unwrap().processing(processing).unwrap());
        }
        table
    }

    fn edited(text: &str, disconnect: &[&str], remove: &[&str], connect: &[&str]) -> Result<String, String> {
        let [disconnect, remove, connect] =
            [disconnect, remove, connect].map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        let all = Edit { disconnect: &disconnect, remove: &remove, connect: &connect };
        let text = edit(text, &table(), all).map_err(|refused| match refused {
            Refused::Text(_, wrong) => wrong[0].message.clone(),
            Refused::Absent(why) => why,
        })?;
        let checked = crate::check(&text, &table());
        match checked.graph {
            Some(graph) => Ok(graph.graph.to_string()),
            None => Err(checked.diagnostics[0].message.clone()),
        }
    }

    const TEXT: &str = "f :: From -> Counter -> c :: { input -> Counter -> output } -> t :: To; // out";

    #[test]
    fn connections_come_and_go_in_one_step() {
        let between = edited(TEXT, &["f -> Counter@2"], &[], &["f -> x :: Counter -> Counter@2"]).unwrap();
        assert_eq!(
            between,
            "f :: From;\nCounter@2 :: Counter;\nt :: To;\nc/Counter@1 :: Counter;\nx :: Counter;\nf -> x;\nCounter@2 -> \
             c/Counter@1;\nc/Counter@1 -> t;\nx -> Counter@2;\n"
        );
        let gone = edited(&between, &["f -> x -> Counter@2"], &["x"], &["f -> Counter@2;"]).unwrap();
        assert_eq!(edited(TEXT, &[], &[], &[]).unwrap(), gone);
        assert_eq!(
            edited(&gone, &[], &["c/Counter@1", "Counter@2"], &["f -> t"]).unwrap(),
            "f :: From;\nt :: To;\nf -> t;\n"
        );
        let switch = "f :: From -> s :: Switch; s [0] -> a :: To; s [1] -> b :: To;";
        let crossed = edited(switch, &["s [0] -> a", "s [1] -> b"], &[], &["s [1] -> a", "s -> b"]).unwrap();
        assert!(crossed.contains("s -> b;\ns [1] -> a;\n"), "{crossed}");
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (disconnect, remove, connect, said) in [
            (
                &["f -> t"][..],
                &[][..],
                &[][..],
                "'f' [0] -> [0] 't' is no connection of the graph: that output leads to 'Counter@2' [0]",
            ),
            (&["f [1] -> t"], &[], &[], "'f' [1] -> [0] 't' is no connection of the graph: that output leads nowhere"),
            (&["f -> Counter"], &[], &[], "'Counter@5' is no element of the graph"),
            (&["f"], &[], &[], "'f' is no connection: 'a -> b' is"),
            (&["f -> Cuonter@2"], &[], &[], "unknown class 'Cuonter@2'"),
            (&["f -> "], &[], &[], "unexpected ';'"),
            (&[], &["Counter@3"], &[], "'Counter@3' is no element of the graph; did you mean 'Counter@2'?"),
            (&[], &[], &["f -> Quue -> t"], "unknown class 'Quue'"),
            (&[], &[], &["f -> t"], "'f [0]' is connected twice"),
            (&["f -> Counter@2"], &[], &[], "output 0 of 'f' is not connected"),
        ] {
            let why = edited(TEXT, disconnect, remove, connect).unwrap_err();
            assert!(why.contains(said), "{disconnect:?} {remove:?} {connect:?}: {why}");
        }
        let many = vec!["f -> t"; CHANGES_MAX + 1];
        assert!(edited(TEXT, &many, &[], &[]).unwrap_err().contains("at most 256"));
    }
}
