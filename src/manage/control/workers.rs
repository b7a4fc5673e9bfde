//! What the workers of a node say together: sums of their counters, and what each has done.

use super::handle::Handle;
use crate::core::ledger::Balance;
use crate::core::log::Line;
use crate::frame::WorkerId;
use crate::manage::cpu::{CpuStatus, Report};
use crate::manage::observe::OfWorker;
use crate::manage::watchdog::Rounds;
use crate::manage::worker::crew::Way;
use crate::manage::worker::{Order, Placing};
use crate::node::{Node, Turn};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// One worker of several.
#[derive(Serialize)]
pub(in crate::manage) struct WorkerStatus {
    /// Its number; the first is 0.
    worker: usize,
    /// What became of its frames. `handed` is what it has handed to the first worker, less what it has taken over.
    balance: Balance,
    /// Packets that wait for their turn.
    waiting: usize,
    /// What it has of a CPU.
    cpu: Option<CpuStatus>,
}

/// The workers beyond the first: ways to them, and what they have of a CPU.
#[derive(Clone, Default)]
pub(crate) struct Others {
    pub ways: Vec<Way>,
    pub reports: Vec<Arc<Report>>,
}

impl Handle {
    /// The same with the workers beyond the first.
    pub(crate) fn with_others(self, others: Others) -> Handle {
        Handle { others, ..self }
    }

    /// The rounds of all workers, the first one's first.
    pub(in crate::manage) fn rounds(&self) -> impl Iterator<Item = Arc<Rounds>> {
        self.cpu.iter().chain(&self.others.reports).map(|report| report.rounds())
    }

    /// Gives each worker one of these orders, the first one the first.
    pub(in crate::manage) fn order_all(&self, mut orders: impl Iterator<Item = Order>) -> Result<(), String> {
        orders.next().map_or(Ok(()), |order| self.order(order))?;
        self.others.ways.iter().zip(orders).for_each(|(way, order)| way.order(order));
        Ok(())
    }

    /// Lets each worker do something, the first one first, and waits for what comes of it.
    pub(in crate::manage) fn with_each<R: Send + 'static>(
        &self,
        work: impl Fn(&mut Node, &mut Turn<'_>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, String> {
        let asked = self.others.ways.iter().map(|way| {
            let (work, (reply, answer)) = (work.clone(), channel());
            way.order(Order::Do(Box::new(move |node, turn| {
                // Whoever asked may have gone away meanwhile.
                let _ = reply.send(work(node, turn));
            })));
            answer
        });
        let asked: Vec<_> = asked.collect();
        let mut all = vec![self.with_node(work)?];
        for answer in asked {
            all.push(answer.recv().map_err(|_| "the node is going down")?);
        }
        Ok(all)
    }

    /// Gives each worker an order, which knows its number and how many there are.
    pub(in crate::manage) fn order_each(&self, order: impl Fn(WorkerId, WorkerId) -> Order) -> Result<(), String> {
        let workers = self.others.ways.len() as WorkerId + 1;
        self.order(order(0, workers))?;
        self.others.ways.iter().zip(1..).for_each(|(way, id)| way.order(order(id, workers)));
        Ok(())
    }

    /// Gives each worker its sockets at places of ports, the first one the first.
    pub(in crate::manage) fn place(&self, each: impl Iterator<Item = Placing>) -> Result<(), String> {
        self.order_all(each.map(|placing| Order::Place(Box::new(placing))))
    }

    /// What each worker has done, if there are several.
    pub(in crate::manage) fn worker_status(&self, each: &[OfWorker]) -> Vec<WorkerStatus> {
        if each.len() < 2 {
            return Vec::new();
        }
        let reports = self.cpu.iter().chain(&self.others.reports).map(Some).chain(std::iter::repeat(None));
        let of_each = each.iter().zip(reports).enumerate().map(|(worker, (of, report))| WorkerStatus {
            worker,
            balance: of.balance,
            waiting: of.waiting,
            cpu: report.map(|report| report.status()),
        });
        of_each.collect()
    }

    /// What mobile code has logged lately, at whatever worker.
    pub(super) fn lines(&self) -> Result<Vec<Line>, String> {
        let mut lines: Vec<Line> = self.with_each(|node, _| node.log())?.into_iter().flatten().collect();
        lines.sort_by_key(|line| line.at);
        Ok(lines)
    }
}
