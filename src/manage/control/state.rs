//! Soft state of a code, for whoever looks for a fault: pages of keys and values.
//!
//! A page of the node's own table is copied in a turn of the worker, which looks at 4,096 places at most. What a code
//! shares with its kernel half is read by the thread of the connection. There a set is locked for as long as a copy of
//! four entries takes, and nobody else waits.

use super::Handle;
use crate::core::kept::{KeptValue, Page, Refused, StateFound, number};
use crate::wire::Digest;
use model::code;

/// A page of a code's state, from a place on.
pub(super) fn page(handle: &Handle, name: &str, from: u64) -> Result<code::Page, String> {
    let digest: Digest = name.parse().map_err(|error: crate::wire::DigestError| error.to_string())?;
    let found = handle.with_node(move |node, turn| (node.state_page(turn.now, &digest, from), turn.now))?;
    let absent = || format!("{name:.12} does not run here: anode node status lists the codes that do");
    let (page, half, now) = match found {
        (Some(StateFound::Page(page)), now) => (page, "user", now),
        (Some(StateFound::Elsewhere(shared, now)), _) => (shared.page(from, now).map_err(in_words)?, "both", now),
        (None, _) => return Err(absent()),
    };
    Ok(answer(&page, half, now))
}

fn in_words(why: Refused) -> String {
    match why {
        Refused::Failed => "the kernel does not give the state of this code".into(),
        Refused::Full | Refused::Changed => format!("the state of this code cannot be read: {why:?}"),
    }
}

fn answer(page: &Page, half: &str, now: u64) -> code::Page {
    let entry = |kept: &KeptValue| code::Entry {
        key: kept.key,
        value: hex::encode(kept.value),
        number: number(&kept.value),
        expires_ms: kept.until.saturating_sub(now) / 1_000_000,
    };
    code::Page { half: half.into(), entries: page.entries.iter().map(entry).collect(), next: page.next }
}
