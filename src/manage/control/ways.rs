//! Where packets go from here: what either half of the node says. Example: to 10.3.0.1 by the port `eth1` via 10.0.1.2.

use super::handle::Handle;
use crate::topology::NextHop;
use crate::wire::Addr;
use serde_json::{Value, json};

/// Addresses of one question: the worker looks for all of them at once.
const WAYS_MAX: usize = 256;

/// The way to each address.
pub(super) fn of(handle: &Handle, to: &[Addr]) -> Result<Value, String> {
    if to.len() > WAYS_MAX {
        return Err(format!("{} addresses in one question, at most {WAYS_MAX}: ask for the rest after that", to.len()));
    }
    let asked = to.to_vec();
    let (names, ways) = handle.with_node(move |node, _| {
        let ways: Vec<_> = asked.iter().map(|to| node.way_to(*to)).collect();
        (node.ports().iter().map(|port| port.name.clone()).collect::<Vec<_>>(), ways)
    })?;
    let hop = |next: Option<NextHop>| {
        let name = |next: &NextHop| names.get(usize::from(next.port.0));
        let via = |next: &NextHop| (!next.via.is_unspecified()).then_some(next.via);
        json!({ "port": next.as_ref().and_then(name), "via": next.as_ref().and_then(via) })
    };
    let each = ways.iter().map(|way| {
        let mut told = hop(way.next.filter(|_| !way.here));
        told["to"] = json!(way.to);
        told["here"] = json!(way.here);
        if let Some(half) = &handle.half {
            told["kernel"] = hop(half.route_to(way.to).map_err(|error| error.to_string())?);
        }
        Ok(told)
    });
    each.collect::<Result<Vec<_>, String>>().map(Value::from)
}
