//! The counter tree of a node, put together from what its parts say: [`model::status::Status`].

use super::Snapshot;
use super::told::{self, told};
use crate::core::ledger::Unaccounted;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::kernel::{self, ForeignCounts, HeldShapes};
use crate::manage::account::{self, Total};
use crate::manage::control::Handle;
use crate::manage::follow::{LinkState, LinkStatus};
use crate::manage::followed::FollowedHosts;
use crate::manage::ports::ForeignPorts;
use crate::node::status::Status;
use model::status;
use std::sync::Arc;

impl Handle {
    /// What the node, its kernel half, its sockets and its workers say of themselves.
    pub fn status(&self) -> Result<status::Status, String> {
        self.status_of().map(|(status, _)| status)
    }

    /// The same with the snapshot that it was made from.
    pub(super) fn status_of(&self) -> Result<(status::Status, Arc<Snapshot>), String> {
        let snapshot = self.snapshot()?;
        let node = &snapshot.status;
        let links = self.links.as_ref().map(|links| links.status()).unwrap_or_default();
        let half = self.kernel_half().map(|half| half.status());
        let lost = Unaccounted {
            kernel: half.as_ref().map_or(0, |half| half.balance.unaccounted().unsigned_abs()),
            ..node.unaccounted_by
        };
        let mut dropped = node.drops.clone();
        dropped.count_many(Reason::Undelivered, half.as_ref().map_or(0, |half| half.undelivered));
        let status = status::Status {
            node: node.node.clone(),
            versions: super::versions::versions(),
            uptime_s: self.observed.begun.elapsed().as_secs(),
            ports: ports(node, &links, self.foreign.as_deref()),
            balance: told(&node.balance)?,
            unaccounted: lost.total(),
            unaccounted_by: told(&lost)?,
            drops: told::drops_of_before(&dropped),
            codes: node.codes.iter().map(|code| self.code(code, half.as_ref())).collect(),
            domains: account::by_domain(node, half.as_ref()).iter().map(of_domain).collect(),
            fetch: told(&node.fetch)?,
            credentials: told(&node.credentials)?,
            revocations: told(&node.revocations)?,
            hellos: (!node.hellos.is_none()).then(|| told(&node.hellos)).transpose()?,
            neighbours: node.neighbours.iter().map(told::neighbour).collect(),
            routes: node.routes as u64,
            applications: node.applications.clone(),
            stores: told(&node.stores)?,
            plan: node.plan.as_ref().map(told).transpose()?,
            kernel: half.as_ref().map(of_kernel).transpose()?,
            connections: self.connections.status(),
            streams: self.streams.totals().status(),
            graph_calls: self.graph_calls.status(),
            graph_wishes: told(&node.graph_wishes)?,
            http: self.http.status(),
            configuration: self.applier.as_ref().map(|applier| applier.standing()),
            loader: told(&self.shelf.status()?)?,
            rule_hosts: self.hosts().map(FollowedHosts::counts).filter(|counts| counts.hosts > 0),
            xdp: self
                .sockets
                .as_ref()
                .map(|sockets| sockets.status())
                .filter(|all| !all.is_empty())
                .map(|all| told(&all))
                .transpose()?,
            rules: self.rules.as_ref().map(|report| told(&report.rules())).transpose()?,
            links: told(&links)?,
            followed: self.rules.as_ref().map(|report| report.followed()),
            cpu: self.cpu.as_ref().map(|cpu| told(&cpu.status())).transpose()?,
            sandbox: crate::broker::sandbox::entered().as_ref().map(told).transpose()?,
            workers: self.worker_status(&snapshot.workers).iter().map(told).collect::<Result<_, _>>()?,
        };
        Ok((status, snapshot))
    }

    /// A code with what both halves have used, and where it has trapped last in words of its source.
    fn code(&self, code: &crate::node::status::CodeStatus, half: Option<&kernel::Status>) -> status::Code {
        let mut known = told::code(code);
        known.total = code.domain.map(|_| total(&Total::of(code, half)));
        if let Some(trap) = &mut known.trap {
            self.sources.complete(&code.name, trap);
        }
        known
    }
}

fn total(of: &Total) -> status::Total {
    let Total { packets, bytes, steps, forwarded, delivered, children, drops } = of;
    status::Total {
        packets: *packets,
        bytes: *bytes,
        steps: *steps,
        forwarded: *forwarded,
        delivered: *delivered,
        children: *children,
        drops: told::drops_of_before(drops),
    }
}

fn of_domain(of: &account::DomainTotal) -> status::DomainTotal {
    let account::DomainTotal { domain, codes, total: used, unaccounted } = of;
    status::DomainTotal { domain: *domain, codes: codes.clone(), total: total(used), unaccounted: *unaccounted }
}

fn of_kernel(half: &kernel::Status) -> Result<model::kernel::Kernel, String> {
    let mut kernel: model::kernel::Kernel = told(half)?;
    // Under its former name too.
    kernel.counts.lifted = kernel.counts.punted;
    Ok(kernel)
}

/// What was done about foreign flows, if there were any.
fn of_foreign(of: &ForeignCounts, refused: u64) -> Option<status::Foreign> {
    let ForeignCounts { flows, learned, evicted, refused: waiting, spared } = *of;
    let foreign = status::Foreign { flows, learned, evicted, refused: refused + waiting, spared };
    (foreign != status::Foreign::default()).then_some(foreign)
}

/// The ports, with what their interfaces have dropped themselves, before the node had it or behind it. Nothing where the system does
/// not say. One that waits for its interface has no carrier.
fn ports(node: &Status, links: &[LinkStatus], foreign: Option<&ForeignPorts>) -> Vec<status::Port> {
    let interfaces = crate::sys::netlink::doing().unwrap_or_default();
    let with = |(number, port): (u16, status::Port)| {
        let link = links.iter().find(|link| link.port == number);
        let interface = match link {
            Some(link) if link.state != LinkState::There => {
                Some(status::Interface { carrier: Some(false), ..status::Interface::default() })
            }
            // A port may be called otherwise than its interface.
            _ => interfaces.get(link.map_or(&port.name, |link| &link.interface)).map(|interface| status::Interface {
                dropped_in: interface.dropped_in,
                dropped_out: interface.dropped_out,
                carrier: interface.carrier,
            }),
        };
        let held = foreign.and_then(|foreign| foreign.held(PortId(number))).filter(HeldShapes::is_merged);
        let merged =
            held.map(|HeldShapes { shapes, masks }| status::Merged { shapes: shapes as u64, masks: masks as u64 });
        let foreign = foreign.and_then(|foreign| foreign.counts(PortId(number)));
        let refused = node.ports.get(usize::from(number)).map_or(0, |port| port.gauge.foreign_refused);
        let foreign = foreign.and_then(|counts| of_foreign(&counts, refused));
        status::Port { interface, foreign, merged, number: Some(number), ..port }
    };
    // A vacant place has no name.
    let there = (0..).zip(&node.ports).filter(|(_, port)| !port.name.is_empty());
    there.map(|(number, port)| with((number, told::port(port)))).collect()
}
