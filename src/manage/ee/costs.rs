//! What a process's connections cost the node: paid for by who has them, from the first moment of a thread to its last.
//!
//! Example: a process connects, says hello and closes, again and again. Each time costs the node a thread, and its worker
//! the beginning and the end of a domain. So both count, not calls alone: [`super::seats`] says how much of it one holder
//! may cause, and who owes waits. The domain pays too: the worker's time at once, a thread's as soon as it is worth an
//! order to the worker.

use super::Acceptor;
use super::seats::Holder;
use crate::core::domain::DomainId;
use crate::manage::control::Handle;
use crate::manage::homes::Home;
use crate::node::{Node, Turn};
use crate::sys::clock::{Clock, thread_cpu};
use std::cell::{Cell, RefCell};

/// Nanoseconds of a thread that its domain is billed by an order of their own. Less waits for a call that the worker carries out.
const WORTH_AN_ORDER: u64 = 1_000_000;

/// What a thread that serves one holder costs.
pub struct Costs {
    handle: Handle,
    /// Where the domains are that it calls for.
    home: RefCell<Home>,
    clock: Clock,
    seats: super::Seats,
    holder: Holder,
    /// CPU time of this thread that is counted.
    counted: Cell<u64>,
    /// That of the worker for it which is not counted yet, and what is counted and no domain has been billed for.
    worked: Cell<u64>,
    unbilled: Cell<u64>,
}

impl Costs {
    /// Those of the calling thread since it began.
    pub fn of_thread(acceptor: &Acceptor, holder: Holder) -> Costs {
        let home = match holder {
            Holder::Environment(domain) => acceptor.handle.homes().of(domain),
            Holder::User(_) => Home::default(),
        };
        Costs {
            handle: acceptor.handle.clone(),
            home: RefCell::new(home),
            clock: acceptor.clock,
            seats: acceptor.seats.clone(),
            holder,
            counted: Cell::new(0),
            worked: Cell::new(0),
            unbilled: Cell::new(0),
        }
    }

    /// It calls for a domain of its own from now on.
    pub fn move_in(&self, home: Home) {
        self.home.replace(home);
    }

    /// Whose they are.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Where the domains are that it calls for.
    pub fn home(&self) -> Home {
        self.home.borrow().clone()
    }

    /// Lets the worker do something at the expense of a domain, which pays for what is unbilled too. Without one that is paid later.
    pub fn with_node<R: Send + 'static>(
        &self,
        payer: Option<DomainId>,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        self.with_node_settled(payer, false, work)
    }

    /// The same, and waits until what follows from it is carried out, if that is wanted.
    pub fn with_node_settled<R: Send + 'static>(
        &self,
        payer: Option<DomainId>,
        settles: bool,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let beside = self.unbilled.take();
        let measured = move |node: &mut Node, turn: &mut Turn<'_>| {
            let before = node.work_so_far();
            if let Some(payer) = payer.filter(|_| beside > 0) {
                node.worked_for(payer, beside, turn.now);
            }
            let result = work(node, turn);
            let cost = node.work_so_far().saturating_sub(before);
            if let Some(payer) = payer {
                node.worked_for(payer, cost, turn.now);
            }
            (result, cost)
        };
        let (result, cost) = match settles {
            true => self.handle.with_home_settled(&self.home(), measured)?,
            false => self.handle.with_home(&self.home(), measured)?,
        };
        self.worked.set(self.worked.get() + cost);
        if payer.is_none() {
            self.unbilled.set(beside + cost);
        }
        Ok(result)
    }

    /// Lets the first worker do something, wherever the domains are; they pay for it with the next call.
    pub fn with_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let (result, cost) = self.handle.with_node(move |node, turn| {
            let before = node.work_so_far();
            let result = work(node, turn);
            (result, node.work_so_far().saturating_sub(before))
        })?;
        self.worked.set(self.worked.get() + cost);
        self.unbilled.set(self.unbilled.get() + cost);
        Ok(result)
    }

    /// Counts what this thread has cost since the last time, and waits if its holder owes for it.
    pub fn pay(&self, payer: Option<DomainId>) {
        self.settle(payer, WORTH_AN_ORDER);
    }

    /// The same where the thread ends: nothing is left to be billed later.
    pub fn end(&self, payer: Option<DomainId>) {
        self.settle(payer, 0);
    }

    fn settle(&self, payer: Option<DomainId>, most: u64) {
        let used = thread_cpu();
        let here = used.saturating_sub(self.counted.replace(used));
        self.unbilled.set(self.unbilled.get() + here);
        if payer.is_some() && self.unbilled.get() > most {
            // When the node goes down nobody is billed any more.
            let _ = self.with_node(payer, |_, _| ());
        }
        if let Some(pause) = self.seats.called(self.holder, self.clock.now(), here + self.worked.take()) {
            std::thread::sleep(pause);
        }
    }
}
