//! Configurations as the broker offers and keeps them: it has read what operators gave, and knows what ran before.

use crate::broker::configurations::{Kept, Offer};
use crate::broker::{self, Request, Wanted};
use crate::trust::LinkSecret;
use model::wish::Ran;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// Secrets of neighbours, by their files.
pub type Keys = BTreeMap<PathBuf, LinkSecret>;

/// What the broker gives of a configuration.
pub fn offer(wanted: &Wanted) -> Result<Offer, String> {
    read(&Request::Offer(wanted.clone()))
}

/// The configurations that ran, the one that does last.
pub fn history() -> Result<Vec<Kept>, String> {
    read(&Request::History)
}

fn read<T: serde::de::DeserializeOwned>(request: &Request) -> Result<T, String> {
    let said = |error: io::Error| error.to_string();
    let mut text = Vec::new();
    File::from(broker::ask(request, &[]).and_then(|done| done.descriptor()).map_err(said)?)
        .read_to_end(&mut text)
        .map_err(said)?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// The configuration that ran before the one that does; of one that the node returned to, before that one ran first. One that
/// nobody has confirmed is never it: the return from it stands behind it.
pub fn one_before(history: &[Kept]) -> Result<u64, String> {
    let none = || "no other configuration has run before this one".to_owned();
    let at = first_run(history, history.len().checked_sub(1).ok_or_else(none)?).ok_or_else(none)?;
    let before = at.checked_sub(1).and_then(|at| first_run(history, at)).ok_or_else(none)?;
    Ok(history[before].number)
}

/// Where the configuration of a place ran first: a return leads to another one, which may be one too.
fn first_run(history: &[Kept], mut at: usize) -> Option<usize> {
    while let Some(number) = history[at].returns_to {
        at = history[..at].iter().position(|kept| kept.number == number)?;
    }
    Some(at)
}

/// Has the broker offer one that ran before the one that is taken back, by whom or by nobody.
pub fn offer_again(number: u64, taker: Option<&str>) -> Result<Kept, String> {
    let who = match taker {
        Some(who) => format!("{who}, who took the one before back"),
        None => "nobody: the one before was not confirmed".to_owned(),
    };
    offer(&Wanted::Again { number, who, returns: true }).map(|offer| offer.kept)
}

/// Tells the broker that one that ran before runs again.
pub fn hold_again(kept: Kept) -> Result<Kept, String> {
    let hold = Request::Hold { number: kept.number, partly: true };
    broker::ask(&hold, &[]).map(|_| kept).map_err(|error| error.to_string())
}

/// A configuration for people and programs: without its text.
pub fn shown(kept: Kept) -> Ran {
    let Kept { number, unix_s, who, source, partly, changes, .. } = kept;
    Ran { changes, number, partly, source, unix_s, who }
}

/// The secrets that were given with one.
pub fn keys_of(given: BTreeMap<PathBuf, (u32, String)>) -> Result<Keys, String> {
    let key = |(path, (id, digits)): (PathBuf, (u32, String))| {
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| format!("{}: no key", path.display()))?;
        Ok((path, LinkSecret { id, bytes }))
    };
    given.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration's number, and that to which it returns.
    type Numbers = (u64, Option<u64>);

    /// Configurations with these numbers.
    fn history(all: &[Numbers]) -> Vec<Kept> {
        let kept = |(number, returns_to): &Numbers| Kept {
            number: *number,
            unix_s: 0,
            who: String::new(),
            source: String::new(),
            partly: false,
            returns_to: *returns_to,
            changes: Vec::new(),
            text: String::new(),
        };
        all.iter().map(kept).collect()
    }

    #[test]
    fn one_that_nobody_confirmed_is_not_the_one_before() {
        let cases: [(&[Numbers], Option<u64>); 8] = [
            (&[], None),
            (&[(1, None)], None),
            (&[(1, None), (2, None)], Some(1)),
            // 3 was not confirmed, and then 6.
            (&[(1, None), (2, None), (3, None), (4, Some(2))], Some(1)),
            (&[(1, None), (2, None), (3, None), (4, Some(2)), (6, None), (7, Some(4))], Some(1)),
            (&[(1, None), (2, None), (3, Some(1))], None),
            (&[(1, None), (2, None), (3, Some(1)), (4, None)], Some(1)),
            // What it returned to is not kept any more.
            (&[(3, None), (4, Some(2))], None),
        ];
        for (all, expected) in cases {
            assert_eq!(one_before(&history(all)).ok(), expected, "{all:?}");
        }
    }
}
