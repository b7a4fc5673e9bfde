//! The result of a simulation in the words of `model`, of which `anode schema simulated` is made.

use crate::core::reason::Drops;
use crate::manage::observe::told::usage_now;
use crate::sim::report::{CodeTotals, Report, Totals};
use model::simulated;
use std::collections::BTreeMap;

/// All of it.
pub(super) fn told(of: &Report) -> simulated::Report {
    let Report { seed, nodes, links, virtual_s, totals, alive, fetching, hops_mean, latency, codes } = of;
    simulated::Report {
        seed: *seed,
        nodes: *nodes as u64,
        links: *links as u64,
        virtual_s: *virtual_s,
        totals: sums(totals),
        alive: *alive,
        fetching: *fetching as u64,
        hops_mean: *hops_mean,
        latency: *latency,
        codes: codes.iter().map(|(name, of)| (name.clone(), code(of))).collect(),
    }
}

fn sums(of: &Totals) -> simulated::Totals {
    let Totals {
        injected,
        refused,
        children,
        doubled,
        forged,
        delivered,
        dropped,
        lost,
        packet_hops,
        steps,
        fetch,
        messages_dropped,
        crashes,
    } = of;
    simulated::Totals {
        injected: *injected,
        refused: *refused,
        children: *children,
        doubled: *doubled,
        forged: *forged,
        delivered: *delivered,
        dropped: by_reason(dropped),
        lost: lost.clone(),
        packet_hops: *packet_hops,
        steps: *steps,
        fetch: fetch.clone(),
        messages_dropped: by_reason(messages_dropped),
        crashes: *crashes,
    }
}

fn by_reason(of: &Drops) -> BTreeMap<String, u64> {
    of.happened().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

fn code(of: &CodeTotals) -> simulated::CodeTotals {
    let CodeTotals { title, nodes, usage } = of;
    simulated::CodeTotals { title: title.clone(), nodes: *nodes, usage: usage_now(usage) }
}
