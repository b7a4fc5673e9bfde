//! Surveys of the node, in slices: rows are copied between two batches of packets, for a third of 50 µs.
//!
//! Who asks decides how often ([`crate::manage::observe`]); a slice is as long whoever asks, and however much there is to be copied.

use super::Worker;
use crate::node::survey::{SLICE_NS, Survey};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;

/// Surveys under way; the first one is worked on.
#[derive(Default)]
pub(super) struct Slices(VecDeque<(Box<Survey>, Sender<Box<Survey>>)>);

impl Slices {
    /// Whether there are any.
    #[inline]
    pub(super) fn are_under_way(&self) -> bool {
        !self.0.is_empty()
    }

    /// One more, and to whom it goes when it is done.
    pub(super) fn add(&mut self, survey: Box<Survey>, answer: Sender<Box<Survey>>) {
        self.0.push_back((survey, answer));
    }
}

impl Worker {
    /// Goes on with the first survey for a slice.
    #[cold]
    pub(super) fn survey(&mut self) {
        let (begun, clock) = (self.read(), self.clock);
        let Some((survey, _)) = self.surveys.0.front_mut() else { return };
        let is_over = || clock.now() >= begun + SLICE_NS;
        let done = self.driver.node.survey(survey, &self.driver.out.frames, is_over);
        let spent = clock.now() - begun;
        survey.spent(spent);
        self.cpu.sliced(spent);
        if let Some((survey, answer)) = done.then(|| self.surveys.0.pop_front()).flatten() {
            // Whoever asked may have gone away meanwhile.
            let _ = answer.send(survey);
        }
    }
}
