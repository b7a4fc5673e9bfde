//! TCP streams through a router and to it (`bench/c/stream.c`), with all interfaces' offloads as they are or without
//! segmentation, and named in the result.
//!
//! ```text
//! s: sender ──▶ s0 ── r0 │router│ r1 ── d0 ──▶ d: receiver          through
//! s: sender ──▶ s0 ── r0 │router: receiver│                         to
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::super::compile::Programs;
use super::super::dialogue::Dialogue;
use super::super::flood::{FORWARDING, Flood, Variant, softirq_thread};
use super::super::gateway::Running;
use super::super::line::{D_MAC, D0, EGRESS, INGRESS, Line, S0};
use super::super::place::{Cpus, Site, launch};
use super::super::report::Report;
use super::super::series::{Key, Series};
use super::super::{Error, Settings};

/// What a stream carries in a second.
pub(super) const SPEED: &str = "speed of the stream";
const CPU: &str = "CPU per KiB, both ends included";
const NODE_CPU: &str = "the node's process, CPU per KiB";

/// Bytes of a connection, and connections of each kind in a round.
const BYTES: u64 = 32 << 20;
const QUICK_BYTES: u64 = 8 << 20;
const SLICES: usize = 4;

const KINDS: [&str; 2] = ["TCP stream through the router", "TCP stream to the router"];

/// What the interfaces' drivers do with segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offloads {
    /// What they do unless somebody says otherwise.
    AsTheyAre,
    /// Nothing: every packet is as long as the link carries.
    Off,
}

impl Offloads {
    /// A kind of streams under these.
    fn of(self, kind: &str) -> String {
        match self {
            Offloads::AsTheyAre => kind.to_owned(),
            Offloads::Off => format!("{kind}, offloads off"),
        }
    }

    /// What `ethtool -K` is told.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Offloads::AsTheyAre => &["gro", "on"],
            Offloads::Off => &["gro", "on", "tso", "off", "gso", "off"],
        }
    }
}

/// The offloads that decide what a stream costs, as ethtool calls them.
const OFFLOADS: [&str; 5] = [
    "rx-checksumming",
    "tx-checksumming",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
];

/// A router between hosts that have addresses.
struct Place {
    streams: [Dialogue; 2],
    site: Site,
}

impl Place {
    fn new(programs: &Programs, program: &std::path::Path, cpus: Cpus, offloads: Offloads) -> Result<Place, Error> {
        let line = Line::new(programs)?;
        line.r.run("sh", &["-c", FORWARDING], "")?;
        let host = |interface: &str, own, router| {
            format!("addr add {own}/24 dev {interface}\nroute add default via {router} dev {interface}\n")
        };
        line.s.run("ip", &["-batch", "-"], &host(S0, INGRESS.peer, INGRESS.address))?;
        // Here the next hop is to take what comes.
        let own = format!("link set {D0} address {D_MAC}\n{}", host(D0, EGRESS.peer, EGRESS.address));
        line.d.run("ip", &["-batch", "-"], &own)?;
        for (holder, interface) in ends(&line) {
            holder.run("ethtool", &[&["-K", interface], offloads.settings()].concat(), "")?;
        }
        let stream = |to: OsString, address: std::net::Ipv4Addr| {
            let softirq = softirq_thread(cpus.generator).to_string();
            let arguments: [OsString; 4] = [line.s.netns(), to, address.to_string().into(), softirq.into()];
            match Dialogue::start(launch(programs, cpus.generator, None), program, &arguments)? {
                (dialogue, said) if said == "ready" => Ok(dialogue),
                (_, said) => Err(Error::Protocol(said)),
            }
        };
        let streams = [stream(line.d.netns(), EGRESS.peer)?, stream(line.r.netns(), INGRESS.address)?];
        Ok(Place { streams, site: Site::packet(line, programs, cpus)? })
    }

    /// One connection of a kind: CPU time and wall-clock time in nanoseconds.
    fn run(&mut self, kind: usize, bytes: u64) -> Result<[u64; 2], Error> {
        let line = self.streams[kind].ask(&format!("run {bytes}"))?;
        let numbers = || {
            let words: Option<Vec<u64>> = line.strip_prefix("run ")?.split(' ').map(|word| word.parse().ok()).collect();
            <[u64; 3]>::try_from(words?).ok()
        };
        match numbers() {
            Some([done, cpu, wall]) if done == bytes => Ok([cpu, wall]),
            _ => Err(Error::Protocol(line)),
        }
    }

    /// Each of [`OFFLOADS`] at each interface.
    fn offloads(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut all = BTreeMap::new();
        let line = self.site.line.as_ref();
        for (holder, interface) in line.into_iter().flat_map(ends) {
            let text = holder.output("ethtool", &["-k", interface])?;
            let states = text.lines().filter_map(|line| line.split_once(": "));
            for (name, state) in states.filter(|(name, _)| OFFLOADS.contains(name)) {
                all.insert(format!("{interface} {name}"), state.trim_end_matches(" [fixed]").to_owned());
            }
        }
        Ok(all)
    }
}

/// The interfaces that a stream passes, and where they are.
fn ends(line: &Line) -> [(&super::super::line::Holder, &'static str); 4] {
    [(&line.s, S0), (&line.r, INGRESS.interface), (&line.r, EGRESS.interface), (&line.d, D0)]
}

/// Measures both kinds of streams under each of the variants.
pub(super) fn run(
    flood: &Flood<'_>,
    variants: &[Variant<'_>],
    offloads: Offloads,
    report: &mut Report,
) -> Result<Series, Error> {
    let Flood { settings, programs, kernel } = *flood;
    let make = || Place::new(programs, &kernel.stream, settings.cpus(), offloads);
    let mut places = variants.iter().map(|_| make()).collect::<Result<Vec<Place>, Error>>()?;
    let mut series = Series::default();
    let mut told = Vec::new();
    settings.rounds("streams", |round| {
        places.rotate_left(1);
        let started = variants.iter().zip(&places).map(|(variant, place)| variant.start(&place.site));
        let started = started.collect::<Result<Vec<Option<Running>>, Error>>()?;
        if told.is_empty() {
            for (variant, place) in variants.iter().zip(&places) {
                told.push((variant.name, place.offloads()?));
            }
        }
        for (kind, name) in KINDS.into_iter().enumerate() {
            one_round(round, settings, (&mut places, &started), kind, |at, metric, unit, value| {
                let (variant, regime) = (&variants[at], offloads.of(name));
                if metric == NODE_CPU && !variant.is_node() {
                    return;
                }
                let variant = variant.name.into();
                series.push(Key { variant, size: None, regime, metric, unit }, value);
            })?;
        }
        Ok(())
    })?;
    let set = if offloads == Offloads::Off { "Segmentation off everywhere. " } else { "" };
    report.notes.extend(compared(&told).into_iter().map(|note| format!("{set}{note}")));
    Ok(series)
}

/// Alternates between the places.
fn one_round(
    round: usize,
    settings: &Settings,
    (places, started): (&mut [Place], &[Option<Running>]),
    kind: usize,
    mut push: impl FnMut(usize, &'static str, &'static str, f64),
) -> Result<(), Error> {
    let bytes = if settings.quick { QUICK_BYTES } else { BYTES };
    let mut sums = vec![[0; 3]; places.len()];
    for place in places.iter_mut() {
        place.run(kind, QUICK_BYTES)?;
    }
    for slice in 0..SLICES {
        for step in 0..places.len() {
            let at = if (round + slice).is_multiple_of(2) { step } else { places.len() - 1 - step };
            let spent = || started[at].as_ref().map_or(0, Running::cpu_ns);
            let before = spent();
            let [cpu, wall] = places[at].run(kind, bytes)?;
            let times = [cpu, wall, spent().saturating_sub(before)];
            sums[at].iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        }
    }
    let carried = (bytes * SLICES as u64) as f64;
    for (at, [cpu, wall, process]) in sums.into_iter().enumerate() {
        push(at, SPEED, "Gbit/s", carried * 8.0 / wall as f64);
        push(at, CPU, "ns", cpu as f64 * 1024.0 / carried);
        push(at, NODE_CPU, "ns", process as f64 * 1024.0 / carried);
    }
    Ok(())
}

/// The offloads in words: of the first variant all, of the others what differs from those before.
fn compared(told: &[(&str, BTreeMap<String, String>)]) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, (name, offloads)) in told.iter().enumerate() {
        let same = told[..at].iter().find(|(_, other)| other == offloads);
        notes.push(match (same, told.first()) {
            (Some((other, _)), _) => format!("Offloads with {name}: identical to {other}."),
            (None, Some((first, base))) if at > 0 => {
                let changed = offloads.iter().filter(|(what, state)| base.get(*what) != Some(state));
                let changed: Vec<String> = changed.map(|(what, state)| format!("{what} {state}")).collect();
                format!("Offloads with {name}: as with {first} but {}.", changed.join(", "))
            }
            _ => {
                let all: Vec<String> = offloads.iter().map(|(what, state)| format!("{what} {state}")).collect();
                format!("Offloads with {name}: {}.", all.join(", "))
            }
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_that_differ_are_said() {
        let with =
            |state: &str| BTreeMap::from([("s0 tso".to_owned(), state.to_owned()), ("r0 gro".into(), "on".into())]);
        let notes = compared(&[("none", with("on")), ("pass", with("off")), ("node", with("off"))]);
        assert_eq!(
            notes,
            [
                "Offloads with none: r0 gro on, s0 tso on.",
                "Offloads with pass: as with none but s0 tso off.",
                "Offloads with node: identical to pass."
            ]
        );
    }
}
