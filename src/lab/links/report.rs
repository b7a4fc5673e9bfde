//! What has crossed the shaped links of a lab, and what waits there now.

use std::collections::BTreeMap;

use serde::Serialize;

use super::spec::{Spec, SpecEnd};
use crate::lab::Error;
use crate::labfile::topology::Topology;
use crate::link::LinkQuality;
use crate::link::meter::{Count, Meters};
use crate::sys::clock::Clock;

/// One direction of a shaped link.
#[derive(Clone, Debug, Serialize)]
pub struct Crossing {
    /// Number of the link in the file, from 0.
    pub link: usize,
    /// The node and the interface by which frames come.
    pub from: String,
    /// The node and the interface to which they go.
    pub to: String,
    /// What the link is like.
    pub quality: LinkQuality,
    /// Bytes that wait.
    pub queued_bytes: u32,
    /// Share of the last full window of 100 ms in which it was busy, in thousandths; absent if its rate has no limit.
    pub load_permille: Option<u32>,
    /// What was counted, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Both directions of every shaped link.
pub(in crate::lab) fn crossings(topology: &Topology) -> Result<Vec<Crossing>, Error> {
    let spec = Spec::of(topology);
    if spec.links.is_empty() {
        return Ok(Vec::new());
    }
    let path = super::meters(&topology.name);
    let meters = Meters::open(&path).map_err(|source| Error::File { path, source })?;
    let now = Clock::since(0).now();
    let both = spec.links.iter().flat_map(|link| {
        let [a, b] = &link.ends;
        [(link, a, b), (link, b, a)]
    });
    let crossing = |(link, from, to): (&super::spec::SpecLink, &SpecEnd, &SpecEnd)| {
        let place = meters.find(&from.meter)?;
        let line = meters.line(place).unwrap_or_default();
        Some(Crossing {
            link: link.number,
            from: from.meter.clone(),
            to: to.meter.clone(),
            quality: link.quality,
            queued_bytes: line.queued(now),
            load_permille: line.load(now),
            counts: Count::ALL.iter().map(|(count, name)| (*name, meters.count(place, *count))).collect(),
        })
    };
    Ok(both.filter_map(crossing).collect())
}
