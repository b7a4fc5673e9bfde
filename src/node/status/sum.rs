//! The counters of several workers of a node as one: each is the sum of theirs.

use super::Status;
use crate::core::domain::Usage;
use crate::core::ledger::Unaccounted;
use crate::core::reason::Drops;
use crate::node::domains::DomainStatus;
use crate::node::entry::EntryCounts;
use crate::topology::Gauge;

impl Status {
    /// Adds what another worker has counted. What the first alone has stays: codes on their way, neighbours, applications.
    pub fn add(&mut self, other: &Status) {
        for (port, more) in self.ports.iter_mut().zip(&other.ports) {
            port.gauge.add(&more.gauge);
            port.unaccounted += more.unaccounted;
            port.strangers.add(more.strangers);
        }
        self.balance = self.balance.with(&other.balance);
        self.unaccounted_by.add(&other.unaccounted_by);
        self.drops.add(&other.drops);
        for code in &mut self.codes {
            let Some(more) = other.codes.iter().find(|more| more.name == code.name) else { continue };
            if let (Some(usage), Some(more)) = (&mut code.usage, &more.usage) {
                usage.add(more);
            }
            code.trap = code.trap.or(more.trap);
            code.unaccounted = code.unaccounted.map(|own| own + more.unaccounted.unwrap_or(0));
        }
        for near in &mut self.neighbours {
            let same = other.neighbours.iter().find(|more| (more.addr, &more.port) == (near.addr, &near.port));
            if let (Some(entry), Some(more)) = (&mut near.entry, same.and_then(|more| more.entry)) {
                entry.add(more);
            }
        }
    }
}

impl DomainStatus {
    /// Adds what the domain of the same code has used at another worker.
    pub fn add(&mut self, other: &DomainStatus) {
        self.usage.add(&other.usage);
        self.unaccounted += other.unaccounted;
        self.missed_deadlines += other.missed_deadlines;
    }
}

impl EntryCounts {
    fn add(&mut self, other: EntryCounts) {
        self.worker_ns += other.worker_ns;
        self.refused += other.refused;
        self.displaced += other.displaced;
    }
}

impl Unaccounted {
    fn add(&mut self, other: &Unaccounted) {
        let Unaccounted { node, ports, domains, environments, cuts, kernel } = other;
        self.node += node;
        self.ports += ports;
        self.domains += domains;
        self.environments += environments;
        self.cuts += cuts;
        self.kernel += kernel;
    }
}

impl Usage {
    /// Adds what was used elsewhere.
    pub fn add(&mut self, other: &Usage) {
        let Usage { packets, bytes, steps, cpu_ns, forwarded, delivered, made, counts } = other;
        let sums = [
            (&mut self.packets, packets),
            (&mut self.bytes, bytes),
            (&mut self.steps, steps),
            (&mut self.cpu_ns, cpu_ns),
            (&mut self.forwarded, forwarded),
            (&mut self.delivered, delivered),
            (&mut self.made, made),
            (&mut self.counts.activations.events, &counts.activations.events),
            (&mut self.counts.activations.exceptions, &counts.activations.exceptions),
            (&mut self.counts.children, &counts.children),
            (&mut self.counts.used, &counts.used),
            (&mut self.counts.punted, &counts.punted),
            (&mut self.counts.state_refused, &counts.state_refused),
            (&mut self.counts.state_failed, &counts.state_failed),
            (&mut self.counts.state_displaced, &counts.state_displaced),
            (&mut self.counts.logs_suppressed, &counts.logs_suppressed),
        ];
        for (sum, more) in sums {
            *sum = sum.wrapping_add(*more);
        }
        self.counts.state_entries += counts.state_entries;
        Drops::add(&mut self.counts.drops, &counts.drops);
    }
}

impl Gauge {
    fn add(&mut self, other: &Gauge) {
        let sums = [
            (&mut self.received, other.received),
            (&mut self.received_bytes, other.received_bytes),
            (&mut self.not_ours, other.not_ours),
            (&mut self.foreign_refused, other.foreign_refused),
            (&mut self.taken, other.taken),
            (&mut self.turned_away, other.turned_away),
            (&mut self.missed, other.missed),
            (&mut self.clamped, other.clamped),
            (&mut self.unknown_keys, other.unknown_keys),
            (&mut self.sent, other.sent),
            (&mut self.refused, other.refused),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.left, other.left),
        ];
        for (sum, more) in sums {
            *sum = sum.wrapping_add(more);
        }
        if let (Some(own), Some(more)) = (&mut self.input, other.input) {
            own.batches += more.batches;
            own.failed += more.failed;
            own.frames += more.frames;
        }
        self.queued = self.queued.or(other.queued).map(|_| self.queued.unwrap_or(0) + other.queued.unwrap_or(0));
        self.queued_bytes += other.queued_bytes;
        self.load_permille = (self.load_permille + other.load_permille).min(1000);
    }
}
