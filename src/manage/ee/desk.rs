//! The processes of environments, as the worker sees them: upcalls go to the shared memory of their host, and packets
//! from processes come in batches.
//!
//! The worker's time for these is charged to the process's domain. With `wfq`, a process above its share is left
//! waiting while others wait.

use super::accounts::Account;
use super::bills::{Billed, Bills};
use super::half::{Half, Sent, Taken};
use crate::core::reason::Reason;
use crate::node::moving::Moving;
use crate::node::{Node, Turn};
use crate::nodeos::interface::{DomainId, Error, HostId, NodeOs, Upcall};
use crate::sys::poll::Poll;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Packets of one process taken in one go, so that one cannot keep the worker.
const TAKEN_MAX: usize = 64;

/// How often a process may wake the node for nothing between two looks after all of them. Beyond that it is heard again at the
/// next; until then the node takes what it has when it is awake anyway.
const VAIN_MAX: u32 = 100;

/// Processes on their way to another worker.
pub struct MovedProcesses {
    halves: Vec<(HostId, Box<Half>)>,
    bills: Vec<Billed>,
}

/// The halves of all processes, by the places of their hosts.
pub struct Desk {
    halves: Vec<Option<Box<Half>>>,
    /// Those that were told something since they were notified last.
    told: Vec<HostId>,
    /// Whether processes wake the node with what they send.
    asleep: bool,
    /// What processes use of the processor.
    bills: Bills,
}

impl Default for Desk {
    fn default() -> Desk {
        Desk { halves: Vec::new(), told: Vec::new(), asleep: true, bills: Bills::default() }
    }
}

impl Desk {
    /// A process has connected; its waker has the token of its host behind `first`.
    pub fn attach(&mut self, host: HostId, half: Box<Half>, poll: &Poll, first: u64) -> io::Result<()> {
        let at = host.index();
        if self.halves.len() <= at {
            self.halves.resize_with(at + 1, || None);
        }
        poll.add_edge(half.waker(), first + at as u64)?;
        self.halves[at] = Some(half);
        Ok(())
    }

    /// Takes out the processes that run a domain which goes to another worker, and what they use.
    pub fn send_off(&mut self, moving: &Moving, poll: &Poll) -> MovedProcesses {
        let mut halves = Vec::new();
        for host in moving.hosts() {
            let Some(half) = self.halves.get_mut(host.index()).and_then(Option::take) else { continue };
            if !half.deaf {
                // It was added when it was attached.
                let _ = poll.remove(half.waker());
            }
            halves.push((host, half));
        }
        MovedProcesses { halves, bills: self.bills.send_off(|domain| moving.has(domain)) }
    }

    /// Takes in what another worker has sent off; wakers have the tokens of their hosts behind `first`.
    pub fn take_in(&mut self, MovedProcesses { halves, bills }: MovedProcesses, poll: &Poll, first: u64) {
        for (host, mut half) in halves {
            // What it has written meanwhile is looked at once.
            (half.marked, half.deaf, half.vain) = (true, false, 0);
            if let Err(error) = self.attach(host, half, poll, first) {
                tracing::warn!(%error, "what a process sends is not noticed");
            }
        }
        self.bills.take_in(bills);
    }

    /// What a process uses is charged from now on.
    pub fn open_account(&mut self, account: Arc<Account>) {
        self.bills.add(account);
    }

    /// Charges what processes used since the last time.
    #[inline]
    pub fn charge(&mut self, node: &mut Node, now: u64) {
        if self.bills.are_due() {
            self.bills.charge(node, now, |account| {
                let is_its = |half: &&mut Box<Half>| half.account.as_ref().is_some_and(|own| Arc::ptr_eq(own, account));
                self.halves.iter_mut().flatten().filter(is_its).map(|half| half.untaken()).sum()
            });
        }
    }

    /// A process has gone.
    /// Gives its domain if the node has given the process up.
    pub fn detach(&mut self, host: HostId, poll: &Poll) -> Option<DomainId> {
        let half = self.halves.get_mut(host.index()).and_then(Option::take)?;
        // It was added when it was attached.
        let _ = poll.remove(half.waker());
        half.broken().then_some(half.domain)
    }

    /// Gives all processes up: the node that had their domains is no more.
    #[cold]
    pub fn give_up(&mut self) {
        self.halves.iter_mut().flatten().for_each(|half| half.give_up());
        self.told.clear();
    }

    /// The process of the host at this place has written to its waker.
    pub fn mark(&mut self, host: u64) {
        if let Some(Some(half)) = self.halves.get_mut(host as usize) {
            half.marked = true;
        }
    }

    /// Looks at all processes at the next turn; whether they are asked to wake the node with what comes later.
    pub fn listen(&mut self, wakes: bool) {
        self.asleep = wakes;
        self.halves.iter_mut().flatten().for_each(|half| half.marked = true);
    }

    /// Whether something waits until a process has room for it.
    pub fn waits(&self) -> bool {
        self.halves.iter().flatten().any(|half| half.waits())
    }

    /// Tells a process what happens to one of its domains.
    #[inline]
    pub fn tell(&mut self, host: HostId, domain: DomainId, upcall: Upcall, node: &mut Node, turn: &mut Turn<'_>) {
        let Some(Some(half)) = self.halves.get_mut(host.index()) else {
            if let Upcall::Packet { frame, .. } = upcall {
                node.refused_by_process(turn, frame, Reason::HostGone, domain);
            }
            return;
        };
        match half.tell(turn.now, domain, upcall) {
            Some((frame, Ok(()))) => {
                if let Some(account) = &half.account {
                    account.told.fetch_add(1, Ordering::Relaxed);
                }
                turn.out.pool.give(frame);
            }
            Some((frame, Err(reason))) => node.refused_by_process(turn, frame, reason, domain),
            None => {}
        }
        if self.told.last() != Some(&host) {
            self.told.push(host);
        }
    }

    /// Wakes the processes that were told something and sleep. What that costs them their domains pay.
    #[inline]
    pub fn notify(&mut self, node: &mut Node, now: u64) {
        self.bills.charge_told(node, now);
        for host in self.told.drain(..) {
            if let Some(Some(half)) = self.halves.get_mut(host.index()) {
                half.notify();
            }
        }
    }

    /// Tries again what waits.
    pub fn notify_waiting(&mut self) {
        self.halves.iter_mut().flatten().filter(|half| half.waits()).for_each(|half| half.notify());
    }

    /// Takes what processes that were marked send; true if there is more.
    pub fn take(&mut self, node: &mut Node, turn: &mut Turn<'_>, poll: &Poll) -> bool {
        let mut more = false;
        for half in self.halves.iter_mut().flatten().filter(|half| half.marked || half.deaf) {
            if node.has_had_its_share(half.domain) {
                // What it has sent waits where it is, until others have had theirs.
                more = true;
                continue;
            }
            let began = node.work_so_far();
            let (taken, rest) = take_from(half, self.asleep, node, turn);
            let cost = node.work_so_far().saturating_sub(began);
            node.worked_for(half.domain, cost, turn.now);
            half.vain += u32::from(taken == 0 && half.marked && self.asleep);
            half.marked = rest;
            more |= rest;
            if half.vain > VAIN_MAX && !half.deaf {
                half.deaf = poll.remove(half.waker()).is_ok();
            }
        }
        more
    }

    /// Listens again to those that were not heard, and ends domains whose threads hang; to be called now and then.
    pub fn look_after(&mut self, node: &mut Node, turn: &mut Turn<'_>, poll: &Poll, first: u64) {
        for (at, half) in self.halves.iter_mut().enumerate() {
            let Some(half) = half else { continue };
            let own = half.domain;
            for domain in half.look_at_threads(turn.now, |domain| node.thread_limit(own, domain)) {
                node.end_hung(turn, domain);
            }
            half.vain = 0;
            if half.deaf && poll.add_edge(half.waker(), first + at as u64).is_ok() {
                (half.deaf, half.marked) = (false, true);
            }
        }
    }
}

/// Takes a batch from one process: how many, and whether there may be more.
fn take_from(half: &mut Half, wakes: bool, node: &mut Node, turn: &mut Turn<'_>) -> (usize, bool) {
    for taken in 0..TAKEN_MAX {
        match half.take(wakes) {
            Some(Taken::Sent(sent)) => send(half, &sent, node, turn),
            Some(Taken::Nonsense) => {
                let frame = turn.out.pool.take();
                node.refuse_to_send(turn, frame, Reason::ProcessNonsense, half.domain);
                half.note_nonsense(turn.now);
            }
            None => return (taken, false),
        }
    }
    (TAKEN_MAX, true)
}

/// Sends a packet of a process in its name.
fn send(half: &mut Half, sent: &Sent, node: &mut Node, turn: &mut Turn<'_>) {
    let domain = half.domain;
    let sending = node.with_os(turn, domain, |os| {
        let owner = os.owner_of_out(sent.channel)?;
        let mut frame = os.packet_alloc(owner)?;
        let refused = match half.copy(sent, &mut frame) {
            true => os.outchan_send(sent.channel, sent.to, frame).err(),
            false => Some((frame, Error::TooBig)),
        };
        if let Some((frame, error)) = refused {
            os.refuse(owner, frame, reason(error));
        }
        Ok(())
    });
    if let Err(error) = sending {
        let frame = turn.out.pool.take();
        node.refuse_to_send(turn, frame, reason(error), domain);
    }
    half.done(sent);
}

/// Under which reason a packet is dropped that could not be sent.
fn reason(error: Error) -> Reason {
    match error {
        Error::TooBig => Reason::TooBig,
        Error::Unknown => Reason::NoRoute,
        Error::Again => Reason::Bandwidth,
        Error::Limit => Reason::MemoryFull,
        Error::Invalid => Reason::MalformedOutgoing,
        _ => Reason::ProcessDenied,
    }
}
