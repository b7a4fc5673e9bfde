//! What the workers of a node say together: sums of their counters, and what each has done.

use super::handle::Handle;
use crate::core::ledger::Balance;
use crate::core::log::Line;
use crate::frame::WorkerId;
use crate::manage::cpu::{CpuStatus, Report};
use crate::manage::worker::Order;
use crate::manage::worker::crew::Way;
use crate::node::domains::DomainStatus;
use crate::node::status::Status;
use crate::node::{Node, Turn};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// One worker of several.
#[derive(Serialize)]
pub(super) struct WorkerStatus {
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

    /// The counters of all workers together, and what each has done if there are several.
    pub(super) fn counters(&self) -> Result<(Status, Vec<WorkerStatus>), String> {
        let each = self.with_each(|node, turn| {
            node.settle_cuts();
            (node.status_within(&turn.out.frames), node.waiting())
        })?;
        let reports = self.cpu.iter().chain(&self.others.reports).map(Some).chain(std::iter::repeat(None));
        let of_each = each.iter().zip(reports).enumerate().map(|(worker, ((status, waiting), report))| WorkerStatus {
            worker,
            balance: status.balance,
            waiting: *waiting,
            cpu: report.map(|report| report.status()),
        });
        let workers = if each.len() > 1 { of_each.collect() } else { Vec::new() };
        let mut all = each.into_iter().map(|(status, _)| status);
        let mut sum = all.next().ok_or("the node is going down")?;
        all.for_each(|more| sum.add(&more));
        Ok((sum, workers))
    }

    /// The domains of all workers, those of codes with what was used at each.
    pub(in crate::manage) fn domain_tree(&self) -> Result<Vec<DomainStatus>, String> {
        let mut each = self
            .with_each(|node, _| {
                node.settle_cuts();
                node.domain_tree()
            })?
            .into_iter();
        let mut first = each.next().unwrap_or_default();
        for more in each {
            let (codes, others): (Vec<_>, Vec<_>) = more.into_iter().partition(|more| more.code.is_some());
            for more in codes {
                first.iter_mut().filter(|own| own.code == more.code).for_each(|own| own.add(&more));
            }
            // Those that are this worker's: each worker has the node's own, below which they are.
            let own: Vec<_> = others.into_iter().filter(|domain| domain.worker.is_some()).collect();
            let above = own.first().and_then(|top| first.iter().position(|domain| Some(domain.id) == top.parent));
            let at = above.map_or(first.len(), |above| above + 1);
            first.splice(at..at, own);
        }
        Ok(first)
    }

    /// What mobile code has logged lately, at whatever worker.
    pub(super) fn lines(&self) -> Result<Vec<Line>, String> {
        let mut lines: Vec<Line> = self.with_each(|node, _| node.log())?.into_iter().flatten().collect();
        lines.sort_by_key(|line| line.at);
        Ok(lines)
    }
}
