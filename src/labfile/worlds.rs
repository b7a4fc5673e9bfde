//! What one world cannot do that another can. It is refused at its place, with what to write instead; nothing is left out silently.
//!
//! Example: a lab has no virtual time at which a node could crash, and the simulator no switch.

use super::file::{File, Kind};
use super::problem::{Result, problem};
use super::run::Carries;

/// Whether `anode lab` can do all that the file asks for. Traffic is no part of a lab: it is sent in one by commands.
pub(super) fn fits_lab(file: &File) -> Result<()> {
    if let Some(crash) = file.crash.first() {
        let remedy = "leave it to `anode sim run`, or end a node by hand: `anode node down LAB.NODE`";
        return problem(crash.span().start, "a lab has no time at which a node crashes", remedy);
    }
    if let Some(partition) = file.partition.first() {
        let remedy =
            "leave it to `anode sim run`, or cut a link by hand: `anode lab exec LAB NODE -- ip link set dev TO down`";
        return problem(partition.span().start, "a lab has no time at which links are cut", remedy);
    }
    if let Some(share) = file.ethernet_share.as_ref().filter(|share| *share.get_ref() < 1.0) {
        return problem(
            share.span().start,
            "all links of a lab carry Ethernet",
            "leave ethernet_share out, or write 1",
        );
    }
    for link in file.links.iter().chain(&file.line) {
        if link.get_ref().carries == Some(Carries::Overlay) {
            let remedy = "leave carries out, or give nodes udp ports: [nodes.NAME.anode]";
            return problem(link.span().start, "all links of a lab carry Ethernet", remedy);
        }
    }
    match &file.node {
        Some(node) if node.get_ref().prepare_ms.is_some() || node.get_ref().look_up_ms.is_some() => {
            let what = "prepare_ms and look_up_ms are times of the simulator; a lab's take what they take";
            problem(node.span().start, what, "leave them out")
        }
        _ => Ok(()),
    }
}

/// Whether `anode sim` can do all that the file asks for.
pub(crate) fn fits_simulator(file: &File) -> Result<()> {
    if let Some(statics) = file.static_neighbours.as_ref().filter(|statics| *statics.get_ref()) {
        let remedy = "leave static_neighbours out";
        return problem(statics.span().start, "simulated nodes resolve their neighbours themselves", remedy);
    }
    for (name, node) in &file.nodes {
        let at = name.span().start;
        let name = name.get_ref();
        if node.kind == Some(Kind::Switch) {
            let remedy = "join the nodes behind it by links, or use `anode lab up`";
            return problem(at, format!("'{name}' is a switch, and the simulator has none"), remedy);
        }
        let active = node.active.unwrap_or(file.topology.is_some());
        for (wrong, what, remedy) in [
            (!active, "is not active, and the simulator has only active nodes", "write active = true"),
            (
                node.anode.is_some(),
                "has an [anode] table, the configuration of a process",
                "write what all have into [node]",
            ),
            (!node.sysctls.is_empty(), "has sysctls, and the simulator has no kernel", "leave them out"),
            (!node.neighbours.is_empty(), "has neighbours; simulated nodes resolve them themselves", "leave them out"),
        ] {
            if wrong {
                return problem(at, format!("'{name}' {what}"), remedy);
            }
        }
    }
    Ok(())
}
