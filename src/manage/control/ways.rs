//! Where packets go from here: what either half of the node says. Example: to 10.3.0.1 by the port `eth1` via 10.0.1.2.

use super::handle::Handle;
use crate::topology::NextHop;
use crate::wire::Addr;
use model::ways::{Lead, Way};

/// Addresses of one question: the worker looks for all of them at once.
const WAYS_MAX: usize = 256;

/// The way to each address.
pub(super) fn of(handle: &Handle, to: &[String]) -> Result<Vec<Way>, String> {
    if to.len() > WAYS_MAX {
        return Err(format!("{} addresses in one question, at most {WAYS_MAX}: ask for the rest after that", to.len()));
    }
    let to = to.iter().map(|text| text.parse()).collect::<Result<Vec<Addr>, _>>().map_err(|error| error.to_string())?;
    let (names, ways) = handle.with_node(move |node, _| {
        let ways: Vec<_> = to.iter().map(|to| node.way_to(*to)).collect();
        (node.ports().iter().map(|port| port.name.clone()).collect::<Vec<_>>(), ways)
    })?;
    let lead = |next: Option<NextHop>| {
        let port = next.and_then(|next| names.get(usize::from(next.port.0)).cloned());
        let via = next.and_then(|next| (!next.via.is_unspecified()).then(|| next.via.to_string()));
        Lead { port, via }
    };
    let told = |way: &crate::topology::Way| {
        let kernel = handle.half.as_ref().map(|half| half.route_to(way.to).map(lead)).transpose();
        let kernel = kernel.map_err(|error| error.to_string())?;
        Ok(Way { to: way.to.to_string(), here: way.here, leads: lead(way.next.filter(|_| !way.here)), kernel })
    };
    ways.iter().map(told).collect()
}
