//! The way back from a configuration that nobody has confirmed, or that an operator takes back.
//!
//! It is that of any other configuration. What cannot be taken back at once is tried again soon. A configuration with a graph that cannot
//! run goes the same way at once.

use super::offered::{Keys, hold_again, offer_again};
use super::prepared::Prepared;
use super::reach::Reach;
use super::wish::Standing;
use super::{AGAIN, Applying, Before};
use crate::config::difference;
use crate::manage::graphs::RefusedGraph;
use crate::sys::lock::lock;
use std::time::Instant;

impl Applying {
    /// Back from what nobody has confirmed to what ran before: its time is over, or an operator takes it back. What cannot be is tried
    /// again soon.
    pub(super) fn go_back(&mut self, taker: Option<&str>) -> Result<(), String> {
        let Some(before) = self.before.take() else { return Ok(()) };
        let (given, returned) = (before.who.clone(), self.return_to(&before, taker, None));
        match returned {
            Ok(number) => {
                let mut board = lock(&self.shared.board);
                board.deadline = None;
                board.standing.reverted += u64::from(taker.is_none());
                board.standing.number = number;
                board.standing.who = Some(match taker {
                    Some(who) => format!("{who}, who took that of {given} back"),
                    None => format!("nobody confirmed the one of {given}"),
                });
                match taker {
                    Some(who) => tracing::info!(
                        event = "node",
                        who,
                        number,
                        given,
                        "a configuration that waited to be confirmed was taken back: the one before it runs again"
                    ),
                    None => tracing::warn!(
                        event = "node",
                        who = given,
                        number,
                        "nobody has confirmed the configuration: the one before it runs again"
                    ),
                }
                Ok(())
            }
            Err(why) => {
                tracing::error!(who = given, why, "the configuration is not taken back yet that nobody has confirmed");
                let deadline = Instant::now() + AGAIN;
                lock(&self.shared.board).deadline = Some(deadline);
                self.before = Some(Before { deadline, ..before });
                Err(why)
            }
        }
    }

    /// Back from a configuration with a graph that cannot run: gives why it cannot, and what has come of it.
    pub(super) fn take_back(&mut self, before: Before, standing: Standing, refused: RefusedGraph) -> String {
        let why = refused.why.clone();
        let returned = self.return_to(&before, Some("the node"), Some(refused));
        let mut board = lock(&self.shared.board);
        match returned {
            Ok(number) => {
                (board.standing, board.deadline) = (Standing { number, ..standing }, None);
                self.before = None;
                format!("{why}; what ran before this configuration runs again")
            }
            Err(error) => {
                let deadline = Instant::now() + AGAIN;
                board.deadline = Some(deadline);
                self.before = Some(Before { deadline, ..before });
                format!("{why}; the configuration before is tried again soon, since it cannot run now: {error}")
            }
        }
    }

    /// Gives the number of what runs then; `refused`: graphs run as they did before that, and environments have not changed.
    fn return_to(
        &mut self,
        before: &Before,
        taker: Option<&str>,
        refused: Option<RefusedGraph>,
    ) -> Result<Option<u64>, String> {
        let Before { file, guard, number, .. } = before;
        let (guard, number) = (guard.clone(), *number);
        // Each port has its place again: who has it now was not there before.
        let file = file.clone().placed_again(&self.parts.file);
        let changes = difference::between(&self.parts.file, &file).map_err(|error| error.to_string())?;
        let offered = number.ok_or_else(|| "it has no number".to_owned()).and_then(|number| offer_again(number, taker));
        let _reach = match &offered {
            Ok(kept) => Reach::of(kept.number, true, &changes)?,
            Err(_) => Reach::default(),
        };
        let mut prepared = Prepared::of(&self.parts, &file, &changes, &Keys::new(), false)?;
        prepared.amendment.guard = Some(guard);
        // Whoever has parts of them may be gone meanwhile: nothing here waits for that.
        let graphs = prepared.graphs.iter_mut().flat_map(|(all, _)| all);
        graphs.for_each(|graph| graph.waits = true);
        if let Some(refused) = refused {
            (prepared.graphs, prepared.environments) = (Some(refused.before(&prepared.classes(&self.parts))?), None);
        }
        // First of all: what the broker has then is no more than an operator has given.
        let held = offered.and_then(hold_again);
        if let Err(why) = &held {
            tracing::warn!(why, "the broker does not know that the node has gone back");
        }
        if let Some(refused) = prepared.carry_out(&mut self.parts)? {
            tracing::error!(why = refused.why, "a graph does not run again as it did");
        }
        self.parts.file = file;
        if let Ok(kept) = &held {
            let in_force = self.in_force(&kept.text, kept.partly);
            self.parts.handle.was_configured(&in_force, self.parts.file.store.as_deref());
        }
        Ok(held.ok().map(|kept| kept.number).or(number))
    }
}
