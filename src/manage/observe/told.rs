//! What the node counts in the words of the control protocol ([`model`]).
//!
//! Of what there may be many, each field is named here, so that none is forgotten; the rest is read as it is written.

use crate::core::common::account::Leased;
use crate::core::domain::{Activations, Counts, Usage};
use crate::core::log::Trap;
use crate::core::memory_pool::PoolStatus;
use crate::core::reason::{self, Reason};
use crate::kernel::KernelUsage;
use crate::manage::ee::StreamRow;
use crate::node::domains::{ChannelStatus, DomainStatus};
use crate::node::entry::EntryCounts;
use crate::node::status::{CodeStatus, HelloStatus, NeighbourStatus, PortStatus};
use crate::topology::gauge::{ClassCounts, InputCounts, PolicyCounts};
use crate::trust::grants::Grants;
use crate::trust::limits::{Limits, OverBudget};
use model::{domains, kernel, status};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is written as something else, read as this.
pub fn told<T: DeserializeOwned>(of: &impl Serialize) -> Result<T, String> {
    let value = serde_json::to_value(of).map_err(|error| error.to_string())?;
    serde_json::from_value(value)
        .map_err(|error| format!("the node cannot say it in the words of its protocol: {error}"))
}

/// Drops by the names of their reasons, and by those of the version before.
pub fn drops(of: &reason::Drops) -> status::Drops {
    let mut told = status::Drops::default();
    for (reason, count) in of.happened() {
        told.drops.insert(reason.name().into(), count);
        let was = reason.was().or_else(|| was_more(reason).then(|| reason.name()));
        if let Some(name) = was {
            *told.drops_before.entry(name.into()).or_default() += count;
        }
    }
    told
}

/// The same with former names that no reason has any more beside those of now: readers of the version before look there.
pub fn drops_of_before(of: &reason::Drops) -> status::Drops {
    let mut told = drops(of);
    let former: Vec<_> = told.drops_before.iter().filter(|(name, _)| !is_reason(name)).collect();
    let former: Vec<_> = former.into_iter().map(|(name, count)| (name.clone(), *count)).collect();
    told.drops.extend(former);
    told
}

/// Whether others were counted under the name of this one.
fn was_more(reason: Reason) -> bool {
    Reason::ALL.iter().any(|other| other.was() == Some(reason.name()))
}

/// Whether a name is a reason's.
pub fn is_reason(name: &str) -> bool {
    Reason::ALL.iter().any(|reason| reason.name() == name)
}

/// What a domain has used.
pub fn usage(of: &Usage) -> status::Usage {
    let Usage { packets, bytes, steps, cpu_ns, forwarded, delivered, made, counts } = of;
    let Counts {
        activations: Activations { events, exceptions },
        children,
        used,
        punted,
        state_entries,
        state_refused,
        state_failed,
        state_displaced,
        logs_suppressed,
        drops,
    } = counts;
    status::Usage {
        packets: *packets,
        bytes: *bytes,
        steps: *steps,
        cpu_ns: *cpu_ns,
        forwarded: *forwarded,
        delivered: *delivered,
        made: *made,
        activations: status::Activations { events: *events, exceptions: *exceptions },
        children: *children,
        used: *used,
        punted: *punted,
        lifted: *punted,
        state_entries: *state_entries,
        state_refused: *state_refused,
        state_failed: *state_failed,
        state_displaced: *state_displaced,
        logs_suppressed: *logs_suppressed,
        drops: drops_of_before(drops),
    }
}

fn limits(of: &Limits) -> status::Limits {
    let Limits {
        steps_per_packet,
        steps_per_second,
        kernel_us_per_second,
        packets_per_second,
        children_per_packet,
        state_entries,
        keep_ms_max,
        logs_per_second,
        memory_bytes,
        bpf_instructions,
        verified_instructions,
        over_budget,
        over_budget_s,
        removed_s,
    } = *of;
    let over_budget = match over_budget {
        OverBudget::Throttle => "throttle",
        OverBudget::Remove => "remove",
    };
    status::Limits {
        steps_per_packet,
        steps_per_second,
        kernel_us_per_second,
        packets_per_second,
        children_per_packet,
        state_entries,
        keep_ms_max,
        logs_per_second,
        memory_bytes,
        bpf_instructions,
        verified_instructions,
        over_budget: over_budget.into(),
        over_budget_s,
        removed_s,
    }
}

/// Where code has trapped, without what its source calls the place.
pub fn trap(of: &Trap) -> status::Trap {
    let (function, byte) = of.place.unzip();
    status::Trap { kind: of.kind.into(), function, byte, name: None, source: None }
}

/// A code, without what both halves have used together.
pub fn code(of: &CodeStatus) -> status::Code {
    let CodeStatus {
        name,
        title,
        state,
        why,
        principal,
        signer_revoked,
        role,
        credential_refused,
        representation,
        tier,
        domain,
        limits: of_domain,
        usage: used,
        trap: trapped,
        unaccounted,
        kernel,
    } = of;
    status::Code {
        name: name.clone(),
        title: title.clone(),
        state: (*state).into(),
        why: why.clone(),
        principal: principal.clone(),
        signer_revoked: *signer_revoked,
        role: role.clone(),
        credential_refused: credential_refused.clone(),
        representation: representation.map(|kind| kind.to_string()),
        tier: tier.clone(),
        domain: *domain,
        limits: of_domain.as_ref().map(limits),
        usage: used.as_ref().map(usage),
        total: None,
        trap: trapped.as_ref().map(trap),
        unaccounted: *unaccounted,
        kernel: kernel.clone(),
    }
}

/// What a neighbour has used.
fn entry(of: &EntryCounts) -> status::Entry {
    let EntryCounts { worker_ns, refused, displaced } = *of;
    status::Entry { worker_ns, refused, displaced }
}

/// A neighbour.
pub fn neighbour(of: &NeighbourStatus) -> status::Neighbour {
    let NeighbourStatus { addr, port, keys, hello, entry: used } = of;
    let hello = hello.map(|HelloStatus { age_ms, heard_ns }| status::Hello { age_ms, heard_ns });
    let (addr, port, keys) = (addr.to_string(), port.clone(), keys.clone());
    status::Neighbour { addr, port, keys, hello, entry: used.as_ref().map(entry) }
}

/// A port, without what its interface says.
pub fn port(of: &PortStatus) -> status::Port {
    let PortStatus { name, addresses, bound_max, signed_bound_max, demands, gauge, unaccounted, strangers } = of;
    status::Port {
        name: name.clone(),
        number: None,
        addresses: addresses.iter().map(ToString::to_string).collect(),
        bound_max: *bound_max,
        signed_bound_max: *signed_bound_max,
        demands: demands.iter().map(|demand| (*demand).to_owned()).collect(),
        received: gauge.received,
        received_bytes: gauge.received_bytes,
        not_ours: gauge.not_ours,
        missed: gauge.missed,
        clamped: gauge.clamped,
        unknown_keys: gauge.unknown_keys,
        sent: gauge.sent,
        refused: gauge.refused,
        sent_bytes: gauge.sent_bytes,
        queued_bytes: gauge.queued_bytes,
        load_permille: gauge.load_permille,
        classes: gauge.classes.iter().map(class).collect(),
        policies: gauge.policies.iter().map(policy).collect(),
        input: gauge.input.map(input),
        unaccounted: *unaccounted,
        strangers: entry(strangers),
        interface: None,
        foreign: None,
        merged: None,
    }
}

/// A class of a port's discipline.
fn class((name, counts): &(Box<str>, ClassCounts)) -> status::PortClass {
    let ClassCounts { sent, sent_bytes, full, early, waiting } = *counts;
    status::PortClass { name: name.to_string(), sent, sent_bytes, full, early, waiting }
}

/// What was taken in of a port by an order of ports.
fn input(counts: InputCounts) -> status::PortInput {
    let InputCounts { part, batches, frames, failed } = counts;
    let (weight, priority) = part.unzip();
    status::PortInput { weight, priority, batches, frames, failed }
}

/// What an extension decides in a port's discipline.
fn policy((class, counts): &(Box<str>, PolicyCounts)) -> status::PortPolicy {
    let PolicyCounts { name, calls, failed, fuel } = counts;
    let class = Some(class.to_string()).filter(|class| !class.is_empty());
    status::PortPolicy { class, name: name.to_string(), calls: *calls, failed: *failed, fuel: *fuel }
}

/// A code in the kernel half.
pub fn in_kernel(of: &KernelUsage) -> kernel::KernelUsage {
    let KernelUsage {
        packets,
        children,
        bytes,
        forwarded,
        passed_up,
        dropped_by_code,
        dropped_for_verdict,
        dropped_over_budget,
        time_ns,
    } = *of;
    kernel::KernelUsage {
        packets,
        children,
        bytes,
        forwarded,
        passed_up,
        dropped_by_code,
        dropped_for_verdict,
        dropped_over_budget,
        time_ns,
    }
}

fn grants(of: &Grants) -> domains::Grants {
    let Grants {
        weight,
        priority,
        deadline_us,
        memory_bytes,
        threads,
        thread_ms,
        channels,
        bandwidth,
        events,
        domains,
        files,
        file_bytes,
        kernel_programs,
        graph_parts,
        processes,
        cpu_percent,
        host_network,
    } = *of;
    domains::Grants {
        weight,
        priority,
        deadline_us,
        memory_bytes,
        threads,
        thread_ms,
        channels,
        bandwidth,
        events,
        domains,
        files,
        file_bytes,
        kernel_programs,
        graph_parts,
        processes,
        cpu_percent,
        host_network,
    }
}

fn pool(of: &PoolStatus) -> domains::Pool {
    let PoolStatus { limit_bytes, held_bytes, peak_bytes, overruns, refused, domains } = *of;
    domains::Pool { limit_bytes, held_bytes, peak_bytes, overruns, refused, domains: domains as u64 }
}

fn leased(of: &Leased) -> domains::Leased {
    let Leased { leased_packets, out_packets, out_packets_max, charged_steps, out_steps } = *of;
    domains::Leased { leased_packets, out_packets, out_packets_max, charged_steps, out_steps }
}

/// A domain, with what its code has used in the kernel half, and the files that it has open.
pub fn domain(of: &DomainStatus, kernel: Option<&KernelUsage>, open_files: usize) -> domains::Domain {
    let DomainStatus {
        id,
        parent,
        title,
        role,
        host,
        worker,
        grants: granted,
        usage: used,
        budget,
        unaccounted,
        missed_deadlines,
        memory_bytes,
        memory,
        channels,
        code,
    } = of;
    domains::Domain {
        id: *id,
        parent: *parent,
        title: title.clone(),
        role: role.clone(),
        host: *host,
        worker: *worker,
        grants: grants(granted),
        usage: usage_now(used),
        budget: budget.as_ref().map(leased),
        unaccounted: *unaccounted,
        missed_deadlines: *missed_deadlines,
        memory_bytes: *memory_bytes,
        memory: memory.as_ref().map(pool),
        channels: *channels as u64,
        code: code.clone(),
        kernel: kernel.map(in_kernel),
        open_files: open_files as u64,
    }
}

/// Drops under the names of now alone.
/// What a domain has used, under the names of now alone.
pub fn usage_now(of: &Usage) -> status::Usage {
    let drops = status::Drops { drops_before: Default::default(), ..drops(&of.counts.drops) };
    status::Usage { lifted: 0, drops, ..usage(of) }
}

/// A channel.
pub fn channel(of: &ChannelStatus) -> domains::Channel {
    let ChannelStatus { id, kind, domain, title, protocol, address, port, traffic, in_kernel, idle } = of;
    domains::Channel {
        id: *id,
        kind: (*kind).into(),
        domain: *domain,
        title: title.clone(),
        protocol: protocol.clone(),
        address: address.clone(),
        port: port.clone(),
        packets: traffic.packets,
        bytes: traffic.bytes,
        dropped: traffic.dropped,
        in_kernel: *in_kernel,
        idle: idle.clone(),
    }
}

/// A TCP stream, or a channel that listens for some.
pub fn stream(of: &StreamRow) -> domains::Channel {
    let [accepted, bytes, refused] = of.counts;
    domains::Channel {
        id: of.number,
        kind: of.kind.into(),
        domain: of.domain.0,
        title: of.title.to_string(),
        protocol: "tcp".into(),
        address: of.address.clone(),
        port: None,
        packets: accepted,
        bytes,
        dropped: refused,
        in_kernel: None,
        idle: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_name_has_the_sum_of_its_reasons() {
        let mut counted = reason::Drops::default();
        for (name, count) in
            [("malformed-anep", 2), ("malformed-plan", 3), ("no-route", 5), ("no-port", 1), ("code", 7)]
        {
            let reason = Reason::ALL.iter().find(|reason| reason.name() == name).unwrap();
            counted.count_many(*reason, count);
        }
        let told = drops_of_before(&counted);
        assert_eq!(told.drops["malformed"], 5);
        assert_eq!(told.drops["no-route"], 5, "a name that is still a reason's means that reason");
        let before: Vec<_> = told.drops_before.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(before, [("malformed", 5), ("no-route", 6)]);
        assert!(!drops(&counted).drops.contains_key("malformed"));
    }

    #[test]
    fn former_names_are_those_of_the_version_before() {
        for name in ["malformed", "channel-full", "reassembly", "waiting", "path-ended"] {
            assert!(!is_reason(name) && Reason::ALL.iter().any(|reason| reason.was() == Some(name)), "{name}");
        }
    }
}
