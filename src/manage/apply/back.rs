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
    /// Back from what nobody has confirmed to what ran before: its time is over, or an operator takes it back. What cannot be is tried
    /// again soon.
    pub(super) fn go_back(&mut self, taker: Option<&str>) -> Result<(), String> {
        let Some(before) = self.before.take() else { return Ok(()) };
        let (given, returned) = (before.who.clone(), self.return_to(&before, taker));
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

    /// Gives the number of what runs then.
    fn return_to(&mut self, before: &Before, taker: Option<&str>) -> Result<Option<u64>, String> {
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
        // First of all: what the broker has then is no more than an operator has given.
        let held = offered.and_then(hold_again);
        if let Err(why) = &held {
            tracing::warn!(why, "the broker does not know that the node has gone back");
        }
        prepared.carry_out(&mut self.parts)?;
        self.parts.file = file;
        if let Ok(kept) = &held {
            let in_force = self.in_force(&kept.text, kept.partly);
            self.parts.handle.was_configured(&in_force, self.parts.file.store.as_deref());
        }
        Ok(held.ok().map(|kept| kept.number).or(number))
    }
}
