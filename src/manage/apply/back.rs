//! The way back from a configuration that nobody has confirmed, or that an operator takes back.
//!
//! It is that of any other configuration. What cannot be taken back at once is tried again soon.

use super::applier::lock;
use super::offered::{Keys, hold_again, offer_again};
use super::prepared::Prepared;
use super::reach::Reach;
use super::{AGAIN, Applying, Before};
use crate::config::difference;
use std::time::Instant;

impl Applying {
    /// Nobody has confirmed what runs: back to what ran before. What cannot be is tried again soon.
    pub(super) fn go_back(&mut self) -> Result<(), String> {
        let Some(before) = self.before.take() else { return Ok(()) };
        let (who, returned) = (before.who.clone(), self.return_to(&before));
        match returned {
            Ok(number) => {
                let mut board = lock(&self.shared.board);
                board.deadline = None;
                board.standing.reverted += 1;
                board.standing.number = number;
                board.standing.who = Some("nobody confirmed the one of ".to_owned() + &who);
                tracing::warn!(
                    event = "node",
                    who,
                    number,
                    "nobody has confirmed the configuration: the one before it runs again"
                );
                Ok(())
            }
            Err(why) => {
                tracing::error!(who, why, "the configuration is not taken back yet that nobody has confirmed");
                let deadline = Instant::now() + AGAIN;
                lock(&self.shared.board).deadline = Some(deadline);
                self.before = Some(Before { deadline, ..before });
                Err(why)
            }
        }
    }

    /// Gives the number of what runs then.
    fn return_to(&mut self, before: &Before) -> Result<Option<u64>, String> {
        let Before { file, guard, number, .. } = before;
        let (guard, number) = (guard.clone(), *number);
        // Each port has its place again: who has it now was not there before.
        let file = file.clone().placed_again(&self.parts.file);
        let changes = difference::between(&self.parts.file, &file).map_err(|error| error.to_string())?;
        let offered = number.ok_or_else(|| "it has no number".to_owned()).and_then(offer_again);
        let _reach = match &offered {
            Ok(kept) => Reach::of(kept.number, true, &changes)?,
            Err(_) => Reach::default(),
        };
        let mut prepared = Prepared::of(&self.parts, &file, &changes, &Keys::new(), false)?;
        prepared.amendment.guard = Some(guard);
        // First of all: what the broker has then is no more than an operator has given.
        let held = offered.and_then(hold_again);
        match &held {
            Ok(kept) => self.parts.handle.was_configured(&kept.text, file.store.as_deref()),
            Err(why) => tracing::warn!(why, "the broker does not know that the node has gone back"),
        }
        prepared.carry_out(&mut self.parts)?;
        self.parts.file = file;
        Ok(held.ok().map(|kept| kept.number).or(number))
    }
}
