//! What is taught to a node, while packets pass: protocols, and which of the rules that hold get a packet.
//!
//! All rules over taught protocols are read again, each in the place that it had. One whose protocols are taught no more holds for nothing
//! until they are again. What ports watch for is told anew, what is new before what is old, so that no frame is missed between.

use super::output::{Effect, Turn};
use super::{Cx, Node};
use crate::classify::filter::{Filter, TaughtRule};
use crate::classify::taught::classifier::MatchMode;
use crate::graph::taught::Classifying;
use std::sync::Arc;

impl Node {
    /// What the operator says of classifying; to be said before the first packet, and later by [`Node::amend`].
    pub fn set_classifying(&mut self, classifying: Classifying) {
        self.cx.graphs.channels.taught.set(classifying);
    }

    /// What it says.
    pub fn classifying(&self) -> &Classifying {
        self.cx.graphs.channels.taught.classifying()
    }

    /// Channels whose rules could not be read with these protocols and words, and why.
    pub fn unreadable(&self, classifying: &Classifying) -> Vec<String> {
        let all = self.cx.graphs.channels.taught.unreadable(classifying);
        all.into_iter().map(|(taker, rule, why)| format!("channel {}, {}: {why}", taker.channel.0, rule.text)).collect()
    }
}

impl Cx {
    /// The operator says something else of classifying.
    pub(super) fn teach(&mut self, turn: &mut Turn<'_>, classifying: Classifying) {
        let (protocols, words, mode) = (classifying.protocols.clone(), classifying.words.clone(), classifying.mode);
        let before = self.graphs.channels.taught.classifying().mode;
        self.graphs.channels.taught.set(classifying);
        turn.out.effects.push(Effect::NoneForeign);
        for (id, rule) in self.graphs.channels.own_taught() {
            let read = TaughtRule::read(&rule.text, rule.language, (rule.port, rule.layer), &protocols, &words);
            let Ok(read) = read else { continue };
            let read = Filter::Taught(Arc::new(read));
            turn.out.watch(read.clone(), true);
            turn.out.watch(Filter::Taught(rule), false);
            self.graphs.channels.renew_filter(id, read);
        }
        if (before == MatchMode::All) == (mode == MatchMode::All) {
            return;
        }
        // What rules may have as well passes by no other half.
        match mode {
            MatchMode::All => drop(self.graphs.rest_doors(&mut self.core, |_| true)),
            MatchMode::First | MatchMode::Best => self.graphs.resume_doors(&mut self.core, |_| true),
        }
        let cuts: Vec<_> = self.graphs.channels.cuts.iter().map(|(id, _)| id).collect();
        for cut in cuts {
            match mode {
                MatchMode::All => self.graphs.end_cut(&mut self.core, cut),
                MatchMode::First | MatchMode::Best => self.graphs.begin_cut(&mut self.core, cut),
            }
        }
    }
}
