//! Queues of the loader's thread: look-ups, which are quick, and judgements, which can take milliseconds each.
//!
//! Both have turns ([`Turns`]), by the payer of their cause. A few look-ups are done before each judgement. So a
//! look-up waits for one judgement of another payer at most, and a judgement for a few look-ups. Judgements count by
//! their time.

use super::turns::{QueueStatus, Turns};
use crate::node::{Cause, Ingress};
use crate::wire::Digest;

/// Look-ups, and judgings, that can wait for their turn.
const JOBS_MAX: usize = 1024;

/// Look-ups that are done before a judging.
const LOOK_UPS: usize = 16;

/// Both queues; `J` is what is to be judged, or done for the operator.
pub(super) struct Queues<J> {
    look_ups: Turns<Digest>,
    jobs: Turns<J>,
    /// Look-ups since the last judging.
    done: usize,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<J> {
    /// Look into the store.
    LookUp(Digest),
    /// Do this, and tell [`Queues::took`] how long it took.
    Job(Ingress, J),
}

impl<J> Queues<J> {
    pub(super) fn new() -> Queues<J> {
        Queues { look_ups: Turns::new(JOBS_MAX), jobs: Turns::new(JOBS_MAX), done: 0 }
    }

    /// A look-up waits for its turn: gives the one that has no place.
    pub(super) fn look_up(&mut self, ingress: Ingress, digest: Digest) -> Option<Digest> {
        self.look_ups.push(Cause { ingress, principal: None }, digest)
    }

    /// A job waits for its turn: gives the one that has no place.
    pub(super) fn push(&mut self, cause: Cause, job: J) -> Option<J> {
        self.jobs.push(cause, job)
    }

    /// What is next, if anything waits.
    pub(super) fn next(&mut self) -> Option<Next<J>> {
        if self.done < LOOK_UPS || self.jobs.is_empty() {
            self.done += 1;
            if let Some((_, digest)) = self.look_ups.next(|_| true) {
                return Some(Next::LookUp(digest));
            }
        }
        self.done = 0;
        self.jobs.next(|_| true).map(|(ingress, job)| Next::Job(ingress, job))
    }

    /// A job of this ingress took so many nanoseconds.
    pub(super) fn took(&mut self, ingress: Ingress, nanoseconds: u64) {
        self.jobs.spent(ingress, nanoseconds);
    }

    /// What waits, by ingress: look-ups, jobs.
    pub(super) fn status(&self) -> (Vec<QueueStatus>, Vec<QueueStatus>) {
        (self.look_ups.status(), self.jobs.status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PortId};

    fn row(row: u16) -> Ingress {
        Ingress::Port(PortId(0), Payer(row))
    }

    #[test]
    fn a_look_up_waits_for_no_judgings_and_judgings_for_a_few_look_ups() {
        let mut queues = Queues::new();
        for number in 0..50 {
            queues.push(Cause { ingress: row(number), principal: None }, number);
        }
        for number in 0..100u8 {
            queues.look_up(row(0), Digest([number; 32]));
        }
        queues.look_up(row(7), Digest([200; 32]));
        let order: Vec<_> = std::iter::from_fn(|| queues.next()).collect();
        assert_eq!(order.len(), 151);
        assert_eq!(order[..2], [Next::LookUp(Digest([0; 32])), Next::LookUp(Digest([200; 32]))], "in turn");
        let judged = order.iter().take(LOOK_UPS + 1).filter(|next| matches!(next, Next::Job(..))).count();
        assert_eq!(judged, 1, "{order:?}");
    }
}
