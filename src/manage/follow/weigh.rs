//! Ports with `kernel = "auto"` while the node runs: what was chosen of them ([`choice`](super::choice)) is looked at
//! again every few seconds, and carried out.
//!
//! A look takes one list of interfaces, the node's own counters and those of the kernel half, however much traffic there
//! is. A change is carried out where ports are looked at (`links`), as if its configuration said so.

use super::choice::{Choice, Counted, Host, LOOK, has, put};
use super::{Follower, interface_of};
use crate::config::Plan;
use crate::config::half::KernelWish;
use crate::frame::{Link, PortId};
use crate::manage::kernel;
use crate::manage::worker::Order;
use crate::sys::netlink::{self, Doing};
use anyhow::Result;
use std::collections::HashMap;
use std::time::Instant;

impl Follower {
    /// Puts what was chosen into the plan of a port, whose interface is judged if it is another one; says whether the interface
    /// is the one before, and has the other.
    pub(super) fn choose(&mut self, at: usize, plan: &mut Plan) -> bool {
        let interface = interface_of(plan);
        if interface == 0 || self.file.ports[at].kernel != KernelWish::Auto {
            return false;
        }
        let together = &mut self.seen.together;
        let choice = self.seen.ports[at].choice.get_or_insert_with(Choice::new);
        // The first time it is said in any case.
        let is_new = self.seen.looks_at_traffic.is_none() || choice.interface != interface;
        if choice.interface != interface {
            choice.judge(&Host::now(&self.file, self.half.is_some()), at, interface, together);
        }
        put(plan, choice.with);
        let switched = interface == interface_of(&self.plans[at]) && choice.with != has(&self.plans[at]);
        choice.changes += u64::from(switched);
        self.links.chose(PortId(at as u16), choice.told(together));
        if is_new || switched {
            let (port, why, kernel) = (&self.config.ports[at].name, choice.why(together), choice.with);
            let said = if kernel { "the kernel half stands there by choice" } else { "no kernel half there by choice" };
            tracing::info!(event = "link", port, kernel, why, "{said}");
        }
        switched
    }

    /// From now on traffic is looked at, if there is a port by choice.
    pub(super) fn begin_to_weigh(&mut self) {
        let some = self.seen.ports.iter().any(|port| port.choice.is_some());
        if some && self.seen.looks_at_traffic.is_none() {
            self.seen.looks_at_traffic = Some(Instant::now() + LOOK);
        }
    }

    /// Looks at links and traffic of ports by choice, if it is time to; says whether one is to be another. An error: the node
    /// is gone.
    pub(super) fn weigh(&mut self) -> Result<bool> {
        if self.seen.looks_at_traffic.is_none_or(|due| due > Instant::now()) {
            return Ok(false);
        }
        self.seen.looks_at_traffic = None;
        self.begin_to_weigh();
        if self.seen.looks_at_traffic.is_none() {
            return Ok(false);
        }
        let (own, in_kernel) = (self.own_frames()?, self.ended_in_kernel());
        let Ok(doing) = netlink::doing() else { return Ok(false) };
        let by_index: HashMap<u32, &Doing> = doing.values().map(|doing| (doing.index, doing)).collect();
        let mut sums = [0; 2];
        for (at, port) in self.seen.ports.iter_mut().enumerate() {
            let interface = interface_of(&self.plans[at]);
            let (Some(choice), Some(doing)) = (&mut port.choice, by_index.get(&interface)) else { continue };
            let own = own.get(at).copied().unwrap_or_default();
            let in_kernel = in_kernel.get(at).copied().unwrap_or_default();
            let counted = Counted { received: doing.received, own, in_kernel };
            let more = choice.count(counted, self.config.ports[at].mtu);
            sums = [sums[0] + more[0], sums[1] + more[1]];
        }
        self.seen.together.weigh(sums[0], sums[1]);
        Ok(self.judge_all())
    }

    /// Judges all links anew; says whether a port is to be another.
    pub(super) fn judge_all(&mut self) -> bool {
        let (host, mut turned) = (Host::now(&self.file, self.half.is_some()), false);
        for (at, port) in self.seen.ports.iter_mut().enumerate() {
            let (Some(choice), interface @ 1..) = (&mut port.choice, interface_of(&self.plans[at])) else { continue };
            choice.judge(&host, at, interface, &mut self.seen.together);
            turned |= choice.with != has(&self.plans[at]);
            self.links.chose(PortId(at as u16), choice.told(&self.seen.together));
        }
        turned
    }

    /// The node's own frames of each port, and bytes of all it has had, over all workers.
    fn own_frames(&self) -> Result<Vec<[u64; 2]>> {
        let each = self.handle.with_each(|node, _| node.own_frames()).map_err(anyhow::Error::msg)?;
        let mut sums = vec![[0; 2]; self.plans.len()];
        for of_worker in each {
            for (sum, own) in sums.iter_mut().zip(of_worker) {
                (sum[0], sum[1]) = (sum[0] + own[0], sum[1] + own[1]);
            }
        }
        Ok(sums)
    }

    /// Capsules of each port that have ended in the kernel half, which counts them over all ports: each has a part as large
    /// as that of the time that was charged.
    fn ended_in_kernel(&mut self) -> Vec<u64> {
        let Some(half) = &self.half else { return Vec::new() };
        let Ok((ended, charged)) = half.ended_here(self.plans.len() as u32) else { return Vec::new() };
        let before = core::mem::replace(&mut self.seen.in_kernel, (ended, charged.clone()));
        let spent = |at: usize| charged[at].saturating_sub(before.1.get(at).copied().unwrap_or(0));
        let all: u64 = (0..charged.len()).map(spent).sum();
        let new = u128::from(ended.saturating_sub(before.0));
        let part = |at| (new * u128::from(spent(at)) / u128::from(all.max(1))) as u64;
        self.seen.by_port.resize(charged.len(), 0);
        self.seen.by_port.iter_mut().enumerate().for_each(|(at, sum)| *sum += part(at));
        self.seen.by_port.clone()
    }

    /// The kernel half comes before the interface of a port, or goes, while the port stays what it is. What takes frames behind it is
    /// there before it goes, and what it gives up has no socket for a moment when it comes.
    pub(super) fn switch(&mut self, at: usize, plan: Plan) -> Result<()> {
        let (id, interface, mut stands) = (PortId(at as u16), interface_of(&plan), false);
        let port = &self.config.ports[at];
        if let (true, Some(half), Link::Ethernet { mac, .. }) = (has(&plan), self.half.as_deref(), port.link) {
            let entry = kernel::entry(at as u32, interface, mac, port, &self.seen.redirected);
            stands = half.follow(entry, true).unwrap_or_else(|error| {
                tracing::warn!(event = "link", port = port.name, %error, "no kernel half here: capsules run in user space");
                false
            });
        }
        if stands {
            kernel::leave_tags(&self.settings, interface);
        }
        let order = Order::Reopen { port: id, interface, program: stands, mtu: port.mtu };
        self.handle.order(order).map_err(anyhow::Error::msg)?;
        self.wait_for_workers()?;
        if let (false, Some(half)) = (has(&plan), self.half.as_deref()) {
            let left = half.leave(at as u32).and_then(|_| kernel::take_tags(&self.settings, interface));
            if let Err(error) = left {
                tracing::warn!(event = "link", port = port.name, %error, "something of the kernel half stays here");
            }
        }
        self.plans[at] = plan;
        Ok(())
    }
}
