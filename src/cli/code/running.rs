//! Code of a running node: given to it, taken out, and the soft state that it keeps there.
//!
//! Example: `anode code add r1 ping.anb` checks the bundle as a node does, and the node keeps it in its store from then
//! on. The node's loader judges and verifies it with its first capsule, as any other code.

use super::{Place, Print, read};
use crate::clean;
use crate::code::bundle::Bundle;
use crate::code::check as rules;
use crate::manage::client::{Control, run_dir};
use anyhow::{Context as _, Result, bail, ensure};
use model::Ask;
use model::code::{Entry, Named, Page, Removed, State};
use model::status::{Code, Status};
use std::path::Path;

/// A bundle that a node would take.
pub(super) fn checked(file: &Path) -> Result<Bundle> {
    let bundle = read(file)?;
    rules::check(&bundle).with_context(|| file.display().to_string())?;
    Ok(bundle)
}

/// Gives a node a bundle.
pub(super) fn add(node: &str, file: &Path, place: &Place, print: &Print) -> Result<()> {
    ensure!(place.store.is_none(), "a running node has its own store: leave out NODE, or --store");
    let bundle = checked(file)?;
    let name = Control::connect(&run_dir(node))?.add_code(&bundle)?;
    print.show(&Named { name: name.to_string() });
    Ok(())
}

/// Takes code out of a node and its store.
pub(super) fn remove(node: &str, name: &str, place: &Place, print: &Print) -> Result<()> {
    ensure!(place.store.is_none(), "a running node has its own store: leave out NODE, or --store");
    let mut control = Control::connect(&run_dir(node))?;
    let name = resolve(&mut control, name)?;
    let removed: Removed = control.asked(&Ask::RemoveCode { name: name.clone() })?;
    if print.is_json() {
        print.show(&removed);
        return Ok(());
    }
    crate::say!("removed {name}");
    if removed.was_known {
        let dropped = removed.dropped;
        crate::say!(
            "it ran or was refused here: its soft state is gone, and {dropped} packets that waited for their turn were \
             dropped (code-gone); the next capsule has it fetched from its neighbour, unless it was revoked"
        );
    }
    Ok(())
}

/// Prints the soft state of a code at a node, page by page.
pub(super) fn state(node: &str, code: &str, print: &Print) -> Result<()> {
    let mut control = Control::connect(&run_dir(node))?;
    let name = resolve(&mut control, code)?;
    let (mut from, mut all, mut count) = (0, Vec::new(), 0);
    loop {
        let page: Page = control.asked(&Ask::State { code: name.clone(), from })?;
        count += page.entries.len();
        if print.is_json() {
            all.extend(page.entries);
        } else {
            page.entries.iter().for_each(say);
        }
        if let Some(next) = page.next {
            from = next;
            continue;
        }
        if print.is_json() {
            print.show(&State { code: name, entries: all, half: page.half });
        } else {
            let half = if page.half == "both" { "both halves" } else { "the user half" };
            crate::say!("{count} entries of {name:.12} in {half}");
        }
        return Ok(());
    }
}

/// One entry: the key, the value in hexadecimal without the zeroes at its end, the number in it, and the time left.
fn say(Entry { key, value, number, expires_ms }: &Entry) {
    let end = value.trim_end_matches('0').len().next_multiple_of(2).max(16);
    let (shown, left) = (clean::printed(value.get(..end).unwrap_or(value)), *expires_ms as f64 / 1e3);
    crate::say!("key {key:016x}  value {shown}  number {number}  {left} s left");
}

/// The name of a code that a node knows by its first digits or its title; a whole name is taken as it is.
fn resolve(control: &mut Control, text: &str) -> Result<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if digits.len() == 64 {
        return Ok(digits);
    }
    ensure!(!digits.is_empty(), "a name has at least one digit");
    let status: Status = control.asked(&Ask::Status)?;
    let is = |code: &&Code| code.title == text || code.name.starts_with(&digits);
    let found: Vec<_> = status.codes.iter().filter(is).map(|code| code.name.as_str()).collect();
    match found[..] {
        [one] => Ok(one.to_owned()),
        [] => {
            bail!("no code of this node is named {text}; anode node status lists those that have run or were refused")
        }
        _ => bail!("{} codes of this node are named {text}; write more digits of the name", found.len()),
    }
}
