//! The part of `anode node check` on ports and on the tables that bound what others may use.

use super::super::words;
use crate::config::{NodeFile, PortFile};
use crate::manage::Planned;
use crate::node::entry::bytes_beside_others;
use crate::node::proofs::{Demands, NeighbourKey};
use crate::schedule::Share;
use crate::topology::{Neighbour, Port};
use model::status::Chosen;
use std::iter::zip;

mod meaning;

pub(super) use meaning::meaning;

/// A port and what stands beside it.
struct Seen<'a> {
    file: &'a PortFile,
    port: &'a Port,
    demands: Demands,
    /// What PLAN packets have of its ceiling.
    plan: u32,
    bytes_per_second: u64,
    /// What was chosen of the kernel half.
    chosen: Option<Chosen>,
    /// Whether its interface is not there.
    waits: bool,
}

fn seen<'a>(file: &'a NodeFile, planned: &'a Planned) -> impl Iterator<Item = Seen<'a>> {
    let ports = zip(&file.ports, &planned.config.ports);
    let rest = zip(&planned.guard.demands, planned.openings());
    zip(ports, rest).enumerate().map(|(at, ((of_file, port), (demands, opening)))| Seen {
        file: of_file,
        port,
        demands: *demands,
        plan: planned.plan.ceilings.get(at).map_or(u32::MAX, |most| *most).min(port.ceiling.unsigned),
        bytes_per_second: bytes_beside_others(file.entry.bytes_per_second, port.bits_per_second),
        chosen: planned.choices.at(at),
        waits: opening.interface().is_some_and(|interface| interface.index == 0),
    })
}

/// The keys of a neighbour, the one to send with first.
fn keys<'a>(planned: &'a Planned, of: &'a Neighbour) -> impl Iterator<Item = &'a NeighbourKey> {
    planned.guard.keys.iter().filter(move |key| (key.port, key.addr) == (of.port, of.addr))
}

/// A number of bytes as people read it.
fn megabytes(bytes: u64) -> String {
    let text = format!("{:.3}", bytes as f64 / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Seen<'_> {
    fn line(&self, share: f64) -> String {
        let Seen { file, port, demands, .. } = self;
        let addresses: Vec<_> = port.addresses.iter().map(|(addr, _)| addr.to_string()).collect();
        let default = |written: bool| if written { "" } else { " (default)" };
        let plan =
            if self.plan < port.ceiling.unsigned { format!(" ({} of PLAN, [plan])", self.plan) } else { String::new() };
        let half = match &self.chosen {
            Some(Chosen { kernel: true, why, .. }) => format!(", kernel half by choice ({why})"),
            Some(Chosen { kernel: false, why, .. }) => format!(", no kernel half by choice ({why})"),
            None if file.kernel.may() => ", kernel half".to_owned(),
            None => String::new(),
        };
        let sockets = if file.xdp { ", AF_XDP" } else { "" };
        let is = if self.waits {
            "waits for its interface".to_owned()
        } else {
            format!("{}{half}{sockets}, mtu {}, {}", port.link, port.mtu, addresses.join(", "))
        };
        let demands = if demands.any() { format!("; demands {demands}") } else { String::new() };
        format!(
            "port {}: {is}; bound {}{}{plan}, signed {}{}{demands}; a neighbour has {share} of the worker \
             and {} MB/s beside others",
            port.name,
            port.ceiling.unsigned,
            default(file.bound_max.is_some()),
            port.ceiling.signed,
            default(file.signed_bound_max.is_some()),
            megabytes(self.bytes_per_second),
        )
    }
}

/// A line for each port, and for each neighbour of the file.
pub(super) fn ports(file: &NodeFile, planned: &Planned) -> Vec<String> {
    let ports = seen(file, planned).map(|port| port.line(file.entry.share));
    let neighbours = planned.config.neighbours.iter().map(|neighbour| {
        let numbers: Vec<_> = keys(planned, neighbour).map(|key| format!("{:08x}", key.id)).collect();
        let demanded = planned.guard.demands.get(usize::from(neighbour.port.0)).is_some_and(|demands| demands.mac);
        let proves = words::keys(&numbers, demanded);
        let port = planned.config.ports.get(usize::from(neighbour.port.0)).map_or("?", |port| &port.name);
        format!("neighbour {} behind port {port}{proves}", neighbour.addr)
    });
    ports.chain(neighbours).collect()
}

/// A line for each table that bounds something.
pub(super) fn tables(file: &NodeFile, planned: &Planned) -> Vec<String> {
    let NodeFile { entry, compiler, cpu, .. } = file;
    let affinity: Vec<_> = cpu.affinity.iter().map(usize::to_string).collect();
    let (workers, each) = match planned.room().workers(cpu) {
        1 => ("one worker".to_owned(), ""),
        workers => (format!("{workers} workers"), " each"),
    };
    let mut lines = vec![
        format!("entry: beside others a neighbour has {} of a worker, {} ms at once", entry.share, entry.burst_ms),
        format!(
            "cpu: {workers}, {}, {} of one CPU{each}{}{}",
            cpu.scheduler.unwrap_or_default().name(),
            if cpu.share == 1.0 { "all".to_owned() } else { cpu.share.to_string() },
            if cpu.realtime { format!(", real-time priority {}", cpu.priority) } else { String::new() },
            if affinity.is_empty() { String::new() } else { format!(", on {}", affinity.join(" ")) },
        ),
        format!(
            "compiler: a module has {} ms of CPU, {} MiB, {} ms by the clock, {} MiB of output; {} at a time",
            compiler.cpu_ms, compiler.memory_mib, compiler.wall_ms, compiler.output_mib, compiler.jobs
        ),
    ];
    lines.extend(input(file, planned));
    lines.extend(plan(file, planned));
    lines
}

/// From which port frames are taken next.
fn input(file: &NodeFile, planned: &Planned) -> Option<String> {
    let spec = file.input().ok().flatten()?;
    let by_priority = spec.is_by_priority();
    if spec.extension().is_some() {
        let ports: Vec<_> = planned.config.ports.iter().map(|port| &*port.name).collect();
        let name = spec.order.name();
        return Some(format!("input: the next frames are taken as {name} says; its inputs: {}", ports.join(", ")));
    }
    let part = |(share, port): (&Share, &Port)| {
        format!("{} {}", port.name, if by_priority { share.priority.into() } else { share.weight })
    };
    let parts: Vec<_> = zip(&spec.shares, &planned.config.ports).map(part).collect();
    let what = if by_priority { "priorities" } else { "weights" };
    Some(format!("input: the next frames are taken by {}; {what}: {}", spec.order.name(), parts.join(", ")))
}

/// What PLAN packets may call here.
fn plan(file: &NodeFile, planned: &Planned) -> Vec<String> {
    let config = &planned.plan;
    if !config.enabled {
        return vec!["plan: not spoken here".into()];
    }
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let restricted = list(config.restricted.iter().map(|name| name.as_str()).collect());
    let open = list(file.plan.open.iter().map(String::as_str).collect());
    let mut lines =
        vec![format!("plan: applications' bound {}; restricted: {restricted}; open: {open}", config.bound_max)];
    lines.extend(config.principals.iter().map(|principal| {
        let services = list(principal.services.iter().map(|name| name.as_str()).collect());
        format!("plan principal {} in the role {}, services {services}", principal.name, principal.role)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bounds_others_is_said_with_where_it_comes_from() {
        let port = |more: &str| {
            format!("[[port]]\nname = \"west\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/24\"]\n{more}")
        };
        let lines = |text: &str| {
            let file = NodeFile::parse(&format!("name = \"n\"\n{text}")).unwrap();
            let planned = Planned::of(&file).unwrap();
            [ports(&file, &planned), tables(&file, &planned)].concat().join("\n")
        };
        for (text, said) in [
            (
                port("bits_per_second = 100_000_000\n"),
                "port west: overlay, mtu 1452, 10.8.0.1; bound 64 (default), signed 4096 (default); a neighbour has \
                 0.5 of the worker and 6.25 MB/s",
            ),
            (
                port("bound_max = 8\ndemand = [\"signed-code\"]\n"),
                "bound 8, signed 4096 (default); demands signed-code;",
            ),
            (port("[plan]\nbound_max = 8\n"), "bound 64 (default) (8 of PLAN, [plan]), signed"),
            (
                port("[plan]\nbound_max = 8\n"),
                "plan: applications' bound 8; restricted: bandwidthReceive, bandwidthSend; open: none",
            ),
            (port("[plan]\nopen = [\"bandwidthSend\"]\n"), "restricted: bandwidthReceive; open: bandwidthSend"),
            (port("[plan]\nenabled = false\n"), "plan: not spoken here"),
            (port("[entry]\nshare = 0.25\nbytes_per_second = 1_500_000\n"), "0.25 of the worker and 1.5 MB/s"),
            (port("[entry]\nburst_ms = 7\n"), "entry: beside others a neighbour has 0.5 of a worker, 7 ms at once"),
            (port("[cpu]\nscheduler = \"fifo\"\naffinity = [0]\n"), "cpu: one worker, fifo, all of one CPU, on 0"),
            (port("[cpu]\nworkers = 3\nshare = 0.5\n"), "cpu: 3 workers, wfq, 0.5 of one CPU each"),
            (
                port("[compiler]\ncpu_ms = 9\n"),
                "compiler: a module has 9 ms of CPU, 64 MiB, 20000 ms by the clock, 8 MiB of output; 2 at a time",
            ),
        ] {
            let found = lines(&text);
            assert!(found.contains(said), "{said}\n{found}");
        }
    }
}
