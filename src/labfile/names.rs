//! Names of nodes in the configurations of others. Example: `route = [{ to = "b", via = "r" }]` in the place of two addresses.
//!
//! Where an address is asked for, a node's name stands for one of its addresses: the one on a link with this node, or else its first.

use super::problem::{Result, problem};
use super::topology::Node;
use crate::wire::{Addr, Prefix};
use toml::{Table, Value};

/// The tables of a configuration in which addresses are asked for, the key, and what stands behind the address.
const PLACES: [(&[&str], &str, Form); 4] = [
    (&["port", "neighbours"], "address", Form::Plain),
    (&["port", "neighbours"], "at", Form::WithPort),
    (&["route"], "via", Form::Plain),
    (&["route"], "to", Form::Block),
];

/// How an address is written.
#[derive(Clone, Copy)]
enum Form {
    /// `10.0.0.1`
    Plain,
    /// `10.0.0.1:3322`
    WithPort,
    /// `10.0.0.1/32`
    Block,
}

/// Writes addresses in the place of names; `places` are those of the nodes in the file.
pub(super) fn resolve(nodes: &mut [Node], places: &[usize]) -> Result<()> {
    let known = nodes.to_vec();
    for (node, at) in nodes.iter_mut().zip(places) {
        let Some(mut config) = node.anode.take() else { continue };
        for (path, key, form) in PLACES {
            each(&mut config, path, &mut |table| {
                let Some(Value::String(text)) = table.get_mut(key) else { return Ok(()) };
                if let Some(written) = written(text, form, node, &known) {
                    match written {
                        Some(written) => *text = written,
                        None => {
                            let what = format!(
                                "'{}' names '{text}' as {key}, which is neither an address nor a node",
                                node.name
                            );
                            return problem(*at, what, "correct the name");
                        }
                    }
                }
                Ok(())
            })?;
        }
        node.anode = Some(config);
    }
    Ok(())
}

/// Calls `change` for every table at the end of a path of tables and arrays of tables.
fn each(table: &mut Table, path: &[&str], change: &mut dyn FnMut(&mut Table) -> Result<()>) -> Result<()> {
    let Some((first, rest)) = path.split_first() else { return change(table) };
    match table.get_mut(*first) {
        Some(Value::Table(inner)) => each(inner, rest, change),
        Some(Value::Array(list)) => {
            list.iter_mut().filter_map(Value::as_table_mut).try_for_each(|inner| each(inner, rest, change))
        }
        _ => Ok(()),
    }
}

/// What to write for a text that is no address: nothing if it is one, and nothing inside if nobody is called so.
fn written(text: &str, form: Form, here: &Node, known: &[Node]) -> Option<Option<String>> {
    let (name, behind) = match form {
        Form::WithPort if text.parse::<std::net::SocketAddr>().is_err() => text.rsplit_once(':')?,
        Form::Plain if text.parse::<Addr>().is_err() => (text, ""),
        Form::Block if text.parse::<Prefix>().is_err() => (text, ""),
        _ => return None,
    };
    let node = known.iter().find(|node| node.name == name);
    let Some(addr) = node.and_then(|node| if matches!(form, Form::Block) { first(node) } else { nearest(node, here) })
    else {
        return Some(None);
    };
    Some(Some(match form {
        Form::Plain => addr.to_string(),
        Form::WithPort if addr.is_v4() => format!("{addr}:{behind}"),
        Form::WithPort => format!("[{addr}]:{behind}"),
        Form::Block => format!("{addr}/{}", if addr.is_v4() { 32 } else { 128 }),
    }))
}

fn first(node: &Node) -> Option<Addr> {
    node.all_addresses().next()
}

/// The address of a node that is on a link with another, or else its first.
fn nearest(node: &Node, here: &Node) -> Option<Addr> {
    let shared = |segment: usize| here.interfaces.iter().any(|end| end.segment == segment);
    let ends = node.interfaces.iter().filter(|end| shared(end.segment));
    ends.flat_map(|end| &end.addresses).map(|cidr| cidr.addr).next().or_else(|| first(node))
}
