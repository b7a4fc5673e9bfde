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

/// The configuration that ran before the one that does; of one that the node returned to, before that one ran first.
pub fn one_before(history: &[Kept]) -> Result<u64, String> {
    let none = || "no other configuration has run before this one".to_owned();
    let last = history.last().ok_or_else(none)?;
    let runs = last.returns_to.unwrap_or(last.number);
    let at = history.iter().position(|kept| kept.number == runs).ok_or_else(none)?;
    let before = at.checked_sub(1).and_then(|at| history.get(at)).ok_or_else(none)?;
    // Several in a row may have returned to it.
    Ok(before.returns_to.unwrap_or(before.number))
}

/// Has the broker offer one that ran before.
pub fn offer_again(number: u64) -> Result<Kept, String> {
    let who = "nobody: the one before was not confirmed".into();
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
