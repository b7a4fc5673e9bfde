//! What processes use, charged by the worker to their domains, and what their groups are to weigh.
//!
//! What a process used is known 10 ms late, so its packets are paid for when it gets them, at what its packets took on
//! average, and the difference when it is known. Example: packets of a process take 200 µs of its own and 2 µs of the
//! worker. Its domain's turn costs 2 µs, and is billed 200 more at the end of the round; so it has a packet for each
//! forty of somebody's that cost 5 µs, and not 200 for 202 of them.
//!
//! The order of packets cannot give a process the processor: that is the kernel's. So its group weighs what the process
//! is to have beside the worker, which weighs 100. A process that is given packets weighs half as much again ([`MORE`])
//! unless it is far ahead, since the order bounds it. One that computes without packets is bounded by its weight alone.
//! Example: of 10 ms of a CPU, environments of weight 300 in the worker are to have 3, one of weight 700 in a process 7,
//! of which the worker used 1 for its packets. So the worker is to have 4, the process 6, and its
//! group weighs 150, or 225.

use super::accounts::Account;
use crate::core::domain::DomainId;
use crate::node::Node;
use crate::schedule::Standing;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the worker weighs for the kernel.
const WORKER: f64 = 100.0;

/// What a group weighs beyond its share while its packets come and do not wait for others.
const MORE: f64 = 1.5;

/// The worker has a ninth of the processor at least, since packets of processes go through it too.
const LEAST: f64 = 0.125;

/// Of how many looks means are.
const LOOKS: f64 = 8.0;

/// What a packet is expected to take as long as that is not known, in nanoseconds: so a process gets few before it is.
const EXPECTED_FIRST: f64 = 1e6;

/// The most that a packet is expected to take, and the most that is paid for packets that a process still has: nanoseconds.
const EXPECTED_MAX: f64 = 1e7;
const PAID_MAX: u64 = 1_000_000_000;

/// The accounts of all processes, as the worker charges them.
#[derive(Default)]
pub struct Bills {
    list: Vec<Billed>,
    /// Readings that were charged.
    readings: u64,
    /// The mean weight of the environments that run in the worker and have work.
    inside: f64,
    /// What the worker had worked at the last look, and the mean of what it works and all processes use in one.
    worked: u64,
    total: f64,
}

/// One of them.
pub struct Billed {
    account: Arc<Account>,
    /// What was used and is charged.
    charged: u64,
    paid: Paid,
    /// Whose turns they were that had moved it so far at the last look, and the mean of what the worker works for it in one.
    moved: Option<(DomainId, u64)>,
    work: f64,
}

/// What the domain of a process has paid for packets that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Paid {
    /// Packets, as counted when they were paid for.
    told: u64,
    /// Packets since the last look.
    lately: u64,
    /// Mean packets and nanoseconds of a look, and what a packet took when there were some.
    packets: f64,
    used: f64,
    each: f64,
    /// What was paid for and not used yet.
    ahead: u64,
    /// What was paid for and is not used any more: it comes off what is paid next.
    credit: u64,
}

impl Bills {
    /// One more, unless it is here already: that of a process with another connection.
    pub fn add(&mut self, account: Arc<Account>) {
        if self.list.iter().any(|billed| Arc::ptr_eq(&billed.account, &account)) {
            return;
        }
        self.list.push(Billed { account, charged: 0, paid: Paid::default(), moved: None, work: 0.0 });
    }

    /// Takes out those whose domain goes to another worker.
    pub fn send_off(&mut self, goes: impl Fn(DomainId) -> bool) -> Vec<Billed> {
        self.list.extract_if(.., |billed| goes(billed.account.domain())).collect()
    }

    /// Takes in what another worker has sent off.
    pub fn take_in(&mut self, billed: Vec<Billed>) {
        // How far its domain had been moved there says nothing of here.
        self.list.extend(billed.into_iter().map(|billed| Billed { moved: None, ..billed }));
    }

    /// Bills packets that processes were given since the last time.
    #[inline]
    pub fn charge_told(&mut self, node: &mut Node, now: u64) {
        for billed in &mut self.list {
            let cost = billed.paid.tell(billed.account.told.load(Ordering::Relaxed));
            if cost > 0 {
                node.bill_apart(billed.account.domain(), cost, now);
            }
        }
    }

    /// Whether something was read that is not charged yet.
    #[inline]
    pub fn are_due(&mut self) -> bool {
        let readings = self.list.first().map_or(self.readings, |first| first.account.readings.load(Ordering::Acquire));
        core::mem::replace(&mut self.readings, readings) != readings
    }

    /// Charges what was read since the last time; to be called before packets come in, so that those who wait have
    /// waited for the processor. `left` says how many packets the processes of an account were given and have not taken
    /// yet.
    #[cold]
    pub fn charge(&mut self, node: &mut Node, now: u64, mut left: impl FnMut(&Arc<Account>) -> u64) {
        self.list.retain(|billed| !billed.account.gone.load(Ordering::Relaxed));
        let worked = node.work_so_far();
        let mut total = worked.saturating_sub(core::mem::replace(&mut self.worked, worked));
        for billed in &mut self.list {
            let used = billed.account.used.load(Ordering::Relaxed);
            let used = used.saturating_sub(core::mem::replace(&mut billed.charged, used));
            total += used;
            node.used_apart(billed.account.domain(), used);
            let cost = billed.paid.look(used, left(&billed.account));
            if cost > 0 {
                node.bill_apart(billed.account.domain(), cost, now);
            }
        }
        self.total += (total as f64 - self.total) / LOOKS;
        self.weigh(node);
    }

    /// Says what groups are to weigh.
    fn weigh(&mut self, node: &mut Node) {
        let standings: Vec<_> = self.list.iter().map(|billed| node.standing(billed.account.domain())).collect();
        let weight = |only: fn(&&Standing) -> bool| {
            standings.iter().flatten().filter(only).map(|standing| f64::from(standing.weight)).sum::<f64>()
        };
        let inside = f64::from(node.served_weight()) - weight(|standing| standing.served);
        node.begin_interval();
        self.inside += (inside.max(0.0) - self.inside) / LOOKS;
        for (billed, standing) in self.list.iter_mut().zip(&standings) {
            let domain = billed.account.domain();
            let before = billed.moved.filter(|(of, _)| *of == domain);
            let work = standing.zip(before).map_or(0, |(standing, (_, moved))| standing.worked_since(moved));
            billed.moved = standing.map(|standing| (domain, standing.moved)).or(before);
            billed.work += (work as f64 - billed.work) / LOOKS;
        }
        let part = self.total / (self.inside + weight(|_| true)).max(1.0);
        let works: f64 = self.list.iter().map(|billed| billed.work).sum();
        let worker = (part * self.inside + works).max(self.total * LEAST);
        for (billed, standing) in self.list.iter().zip(standings) {
            let more =
                if billed.paid.has_packets() && !standing.is_some_and(|standing| standing.ahead) { MORE } else { 1.0 };
            let wish = standing.map_or(0, |standing| wish(standing.weight, part, billed.work, worker, more));
            billed.account.wish.store(wish, Ordering::Relaxed);
        }
    }
}

impl Paid {
    /// So many packets were told so far: what is to be paid for those that were not paid for.
    #[inline]
    fn tell(&mut self, told: u64) -> u64 {
        let packets = told.wrapping_sub(core::mem::replace(&mut self.told, told));
        if packets == 0 {
            return 0;
        }
        self.lately += packets;
        // What is not remembered is not billed either: it would be paid again when it is used.
        let cost = ((self.expected() * packets as f64) as u64).min(PAID_MAX - self.ahead);
        self.ahead += cost;
        let credit = self.credit.min(cost);
        self.credit -= credit;
        cost - credit
    }

    /// Whether packets come, one in two looks at least.
    fn has_packets(&self) -> bool {
        self.packets > 0.5
    }

    /// Nanoseconds that a packet takes.
    fn expected(&self) -> f64 {
        if self.each > 0.0 { self.each } else { EXPECTED_FIRST }
    }

    /// So much was used since the last look, and so many packets are left: what is to be paid that is not yet.
    fn look(&mut self, used: u64, left: u64) -> u64 {
        self.packets += (core::mem::take(&mut self.lately) as f64 - self.packets) / LOOKS;
        self.used += (used as f64 - self.used) / LOOKS;
        if used > 0 && self.has_packets() {
            self.each = (self.used / self.packets).min(EXPECTED_MAX);
        }
        let due = used.saturating_sub(self.ahead);
        self.ahead = self.ahead.saturating_sub(used);
        // What was too much comes back, but not all at once: a packet that was taken need not be done.
        let much = self.ahead.saturating_sub((self.expected() * left as f64) as u64);
        let back = if used == 0 && left == 0 { much } else { much / LOOKS as u64 };
        self.ahead -= back;
        self.credit = (self.credit + back).min(PAID_MAX);
        let credit = self.credit.min(due);
        self.credit -= credit;
        due - credit
    }
}

/// What a group is to weigh, where each part of weight is to have `part` nanoseconds in a look, of which the worker
/// uses `work` for it, and has `worker` in all; `more`: times what that comes to.
fn wish(weight: u32, part: f64, work: f64, worker: f64, more: f64) -> u32 {
    let share = f64::from(weight) * part;
    // However much the worker does for it, there is something left.
    let own = (share - work).max(share * LEAST);
    if worker < 1.0 { weight } else { (own / worker * WORKER * more).round().clamp(1.0, 10_000.0) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_group_weighs_its_share_beside_the_worker() {
        // Of 10 ms: 7 for a weight of 700, of which the worker has one.
        assert_eq!([1.0, MORE].map(|more| wish(700, 1e4, 1e6, 4e6, more)), [150, 225]);
        assert_eq!(wish(700, 1e4, 1e9, 4e6, 1.0), 22, "an eighth is left");
        assert_eq!(wish(70, 0.0, 0.0, 0.0, 1.0), 70, "nobody works");
        assert_eq!((wish(10_000, 1e4, 0.0, 1.0, 1.0), wish(1, 1.0, 0.0, 1e9, 1.0)), (10_000, 1));
    }

    #[test]
    fn all_that_is_used_is_paid_and_nothing_twice() {
        let (mut paid, mut cost, mut used, mut told) = (Paid::default(), 0, 0, 0);
        for round in 0..1000u64 {
            // Five packets of 2 ms each look, later fifty of 100 µs.
            let (packets, each) = if round < 500 { (5, 2 * MS) } else { (50, MS / 10) };
            told += packets;
            cost += paid.tell(told);
            used += packets * each;
            cost += paid.look(packets * each, 0);
        }
        assert!(cost >= used && cost - used <= 5 * MS, "{cost} {used}");
        assert!((paid.expected() - 1e5).abs() < 1e3);
        let before = cost;
        // What was paid too much comes off what is paid next.
        cost += paid.look(0, 0);
        assert_eq!((cost, paid.ahead), (before, 0));
        assert!(cost - paid.credit <= used + 5 * MS, "{cost} {used}");
    }

    #[test]
    fn what_is_paid_beforehand_has_a_bound_and_is_paid_once() {
        let mut paid = Paid::default();
        let (packets, used) = (5000, 5000 * MS);
        let before = paid.tell(packets);
        assert_eq!((before, paid.ahead), (PAID_MAX, PAID_MAX), "no more than is remembered");
        assert_eq!(before + paid.look(used, 0), used, "the rest when it was used, and nothing twice");
    }

    #[test]
    fn who_computes_without_packets_pays_when_it_has() {
        let mut paid = Paid::default();
        assert_eq!([10, 10, 0].map(|used| paid.look(used * MS, 0)), [10 * MS, 10 * MS, 0]);
        paid.tell(1);
        assert!(paid.expected() <= EXPECTED_MAX);
    }
}
