//! Marks: what goes by the way of packets from worker to worker, and says that those before it are where they should be.
//!
//! Example: worker 1 has handed 20 capsules to worker 0, and a mark behind them. Worker 0 gives the mark back when the 20 have run and
//! have left by their ports: so long it keeps it here, and looks every [`PAUSE`].

use super::handing::{Handed, HandedAs};
use super::output::Turn;
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::frame::{Frame, WorkerId};

/// Time between two looks at marks that wait, in nanoseconds.
const PAUSE: u64 = 20_000;

/// What goes by the way of packets, and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which worker waits for it, and what that one knows it by.
    pub(super) of: WorkerId,
    pub(super) number: u32,
    /// Who has the domains now.
    pub(super) to: WorkerId,
    /// Whether packets before it leave the node where it goes first: it waits there until they have.
    pub(super) leave: bool,
    /// Where it has been.
    pub(super) stage: MarkStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkStage {
    Begun,
    AtOld,
    AtNew,
}

/// A mark that waits for what came before it.
struct Waiting {
    mark: Mark,
    /// Domains of which packets wait for their turn, with what has come of each.
    domains: Vec<(DomainId, u64)>,
    /// Frames that leave by each port before it, once all have had their turn.
    ports: Option<Vec<u64>>,
}

/// Marks that wait.
#[derive(Default)]
pub(super) struct Marks {
    waiting: Vec<Waiting>,
    look: u64,
}

impl Marks {
    /// When they are to be looked at.
    pub(super) fn next_look(&self) -> u64 {
        if self.waiting.is_empty() { u64::MAX } else { self.look }
    }
}

impl Cx {
    pub(super) fn send_mark(&mut self, turn: &mut Turn<'_>, to: WorkerId, mark: Mark) {
        // No packet, but it goes where packets go, in a frame as they do.
        let frame: Frame = turn.out.pool.take();
        turn.out.handed.push(Handed { to, what: HandedAs::Mark(mark), frame });
    }

    /// Whether all packets have had their turn that waited when a mark came.
    fn have_run(&self, domains: &[(DomainId, u64)]) -> bool {
        domains.iter().all(|(id, came)| {
            let waiting = self.order.paths.waiting_of(*id);
            let now = self.core.domains.by_id(*id).map(|domain| domain.came().saturating_sub(waiting));
            waiting == 0 || now.is_none_or(|now| now >= *came)
        })
    }

    /// Whether so many frames have left each port.
    fn have_left(&self, frames: &[u64]) -> bool {
        self.core
            .gauges
            .iter()
            .zip(frames)
            .all(|(gauge, frames)| gauge.queued.unwrap_or(0) == 0 || gauge.left >= *frames)
    }

    /// Gives back those marks that need not wait any more.
    pub(super) fn look_at_marks(&mut self, turn: &mut Turn<'_>) {
        if self.control.workers.turns.marks.next_look() > turn.now {
            return;
        }
        self.control.workers.turns.marks.look = turn.now + PAUSE;
        for mut waiting in core::mem::take(&mut self.control.workers.turns.marks.waiting) {
            if waiting.ports.is_none() && self.have_run(&waiting.domains) {
                let ahead = self.core.gauges.iter().map(|gauge| gauge.left + u64::from(gauge.queued.unwrap_or(0)));
                waiting.ports = Some(ahead.collect());
            }
            match &waiting.ports {
                Some(frames) if self.have_left(frames) => {
                    self.send_mark(turn, waiting.mark.of, Mark { stage: MarkStage::AtOld, ..waiting.mark });
                }
                _ => self.control.workers.turns.marks.waiting.push(waiting),
            }
        }
    }
}

impl Node {
    /// A mark has come.
    #[cold]
    pub(super) fn take_mark(&mut self, turn: &mut Turn<'_>, mark: Mark) {
        let own = self.cx.control.workers.id();
        match mark.stage {
            MarkStage::Begun if mark.leave => {
                let domains = self.cx.order.paths.waiting_domains();
                let domains = domains.filter_map(|id| Some((id, self.cx.core.domains.by_id(id)?.came()))).collect();
                let marks = &mut self.cx.control.workers.turns.marks;
                if marks.waiting.is_empty() {
                    marks.look = turn.now + PAUSE;
                }
                marks.waiting.push(Waiting { mark, domains, ports: None });
            }
            MarkStage::Begun => self.cx.send_mark(turn, mark.to, Mark { stage: MarkStage::AtOld, ..mark }),
            MarkStage::AtOld if mark.of != own => {
                self.cx.send_mark(turn, mark.of, Mark { stage: MarkStage::AtNew, ..mark })
            }
            MarkStage::AtOld | MarkStage::AtNew => self.end_turn_of(turn, mark.number),
        }
    }
}
