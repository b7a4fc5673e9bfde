//! `anode node apply`, `confirm`, `history` and `rollback`: other configurations for a running node.
//!
//! The difference is printed before anything happens, and the node applies it only to what it was made to: whoever
//! comes in between makes the second refuse.

use crate::broker::configurations::TEXT_MAX;
use crate::broker::operator;
use crate::clean;
use crate::config::NodeFile;
use crate::config::whole::read_whole;
use crate::manage::apply::CONFIRM_MAX;
use crate::manage::client::{Control, run_dir};
use model::Ask;
use model::wish::{Confirmed, Difference, Ran, Wish};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// How a configuration is taken over.
#[derive(clap::Args)]
pub(super) struct Manner {
    /// Only print what would change, and why the node would refuse it
    #[arg(long)]
    dry_run: bool,
    /// Leave out what needs a restart, and apply the rest
    #[arg(long)]
    partly: bool,
    /// Go back to what runs now unless `anode node confirm` comes in time: 60s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    confirm_within: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A time with its unit, in milliseconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a number with ms, s, m or h, as in 60s".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a number with ms, s, m or h, as in 60s".to_owned())?;
    number
        .checked_mul(factor)
        .filter(|ms| (1..=CONFIRM_MAX.as_millis()).contains(&u128::from(*ms)))
        .ok_or_else(|| "from 1ms to 24h".into())
}

/// Applies a file to the node that it describes, or to another one by name or run directory.
pub(super) fn apply(path: &Path, node: Option<&str>, manner: &Manner) -> anyhow::Result<()> {
    let text = read_whole(path, TEXT_MAX)?;
    let shown = path.display().to_string();
    let file = NodeFile::parse(&text).map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
    let dir = match node {
        Some(node) => run_dir(node),
        None => file.run_dir.clone().unwrap_or_else(|| run_dir(&file.name)),
    };
    let mut control = Control::connect(&dir)?;
    let source = std::path::absolute(path).map_or(shown, |path| path.display().to_string());
    let number = operator::give(&dir, &text, &source).map_err(|why| anyhow::anyhow!("the node refuses: {why}"))?;
    let wish = |dry_run: bool, base: Option<u64>| {
        let (partly, confirm_within_ms, rehearse) = (manner.partly, manner.confirm_within, manner.dry_run);
        Wish::Apply { number, base, dry_run, rehearse, partly, confirm_within_ms }
    };
    let difference = ask(&mut control, wish(true, None))?;
    // Where no name leads to it, its directory does.
    let called = node.map_or_else(
        || if run_dir(&file.name) == dir { file.name.clone() } else { dir.display().to_string() },
        str::to_owned,
    );
    conclude((&mut control, &called), &difference, manner, |base| wish(false, Some(base)))
}

/// Goes back to a configuration that ran before.
pub(super) fn rollback(node: &str, to: Option<u64>, manner: &Manner) -> anyhow::Result<()> {
    let mut control = Control::connect(&run_dir(node))?;
    let wish = |dry_run: bool, base: Option<u64>| {
        let (partly, confirm_within_ms, rehearse) = (manner.partly, manner.confirm_within, manner.dry_run);
        Wish::Rollback { to, base, dry_run, rehearse, partly, confirm_within_ms }
    };
    let difference = ask(&mut control, wish(true, None))?;
    conclude((&mut control, node), &difference, manner, |base| wish(false, Some(base)))
}

/// Prints a difference and has it applied, unless it is only to be printed.
fn conclude(
    (control, node): (&mut Control, &str),
    difference: &Difference,
    manner: &Manner,
    wish: impl FnOnce(u64) -> Wish,
) -> anyhow::Result<()> {
    if !manner.json {
        print(difference);
    }
    let done = match manner.dry_run {
        true => difference.clone(),
        // Programs are told the difference too if it is refused, as people were.
        false => ask(control, wish(difference.number.unwrap_or(0))).inspect_err(|_| {
            if manner.json {
                crate::say!("{}", serde_json::to_string_pretty(difference).unwrap_or_default());
            }
        })?,
    };
    if manner.json {
        crate::say!("{}", serde_json::to_string_pretty(&done)?);
        return as_applied(&done);
    }
    let number = done.number.unwrap_or(0);
    match (manner.dry_run, done.applied, done.confirm_within_ms) {
        (true, ..) => crate::say!("nothing is changed: this was a dry run"),
        (_, false, _) if !done.changes.is_empty() => {
            crate::say!("nothing is changed: all of it needs a restart");
        }
        (_, false, _) => crate::say!("nothing is changed: the node runs this already"),
        (_, _, Some(ms)) => crate::say!(
            "applied as configuration {number}; it is taken back in {} s unless confirmed: anode node confirm {node} {number}",
            ms.div_ceil(1000)
        ),
        _ => crate::say!("applied as configuration {number}"),
    }
    as_applied(&done)
}

/// A dry run ends as what it was of would.
fn as_applied(done: &Difference) -> anyhow::Result<()> {
    done.refused.as_ref().map_or(Ok(()), |why| Err(anyhow::anyhow!("the node would refuse it: {why}")))
}

/// What changes, and what of it needs a restart.
fn print(difference: &Difference) {
    for change in &difference.changes {
        let restart = match (change.needs_restart, &change.why) {
            (false, _) => String::new(),
            (true, None) => "   (needs a restart)".into(),
            (true, Some(why)) => format!("   (needs a restart: {})", clean::shown(why)),
        };
        crate::say!("{}{restart}", clean::shown(&change.line));
    }
}

/// The configuration of this number stays.
pub(super) fn confirm(node: &str, number: u64) -> anyhow::Result<()> {
    let done: Confirmed = ask(&mut Control::connect(&run_dir(node))?, Wish::Confirm { number })?;
    crate::say!("configuration {} stays", done.number.unwrap_or(0));
    Ok(())
}

/// Prints the configurations that ran.
pub(super) fn history(node: &str, as_json: bool) -> anyhow::Result<()> {
    let history: Vec<Ran> = ask(&mut Control::connect(&run_dir(node))?, Wish::History)?;
    if as_json {
        crate::say!("{}", serde_json::to_string_pretty(&history)?);
        return Ok(());
    }
    for Ran { changes, number, partly, source, unix_s, who } in &history {
        let partly = if *partly { ", in part" } else { "" };
        let (who, source) = (clean::shown(who), clean::shown(source));
        crate::say!("{number} {} by {who}: {source}{partly}", utc(*unix_s));
        for line in changes {
            crate::say!("    {}", clean::shown(line));
        }
    }
    Ok(())
}

/// A time for people, from seconds since 1970: `2026-05-01 12:00:00 UTC`.
fn utc(unix_s: u64) -> String {
    let (mut days, second) = (unix_s / 86_400, unix_s % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

fn ask<T: DeserializeOwned>(control: &mut Control, what: Wish) -> anyhow::Result<T> {
    Ok(control.asked(&Ask::Configure { what })?)
}

/// What is applied, and where.
#[derive(clap::Args)]
pub(super) struct ApplyArgs {
    /// The configuration, in TOML (docs/node.md)
    config: PathBuf,
    /// The node's name, or its run directory; by default the one that the configuration is of
    #[arg(long)]
    node: Option<String>,
    #[command(flatten)]
    manner: Manner,
}

impl ApplyArgs {
    /// Applies it.
    pub fn run(&self) -> anyhow::Result<()> {
        apply(&self.config, self.node.as_deref(), &self.manner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let all = ["60s", "250ms", "5m", "1h"].map(|text| milliseconds(text).unwrap());
        assert_eq!(all, [60_000, 250, 300_000, 3_600_000]);
        for text in ["60", "s", "1d", "-1s", "99999999999999999999s", "9999999999999999h", "", "0s", "1000h"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_that_of_the_calendar() {
        let all = [0, 951_782_400, 1_735_689_599, 4_102_444_800].map(utc);
        let said = ["1970-01-01 00:00:00", "2000-02-29 00:00:00", "2024-12-31 23:59:59", "2100-01-01 00:00:00"];
        assert_eq!(all, said.map(|text| format!("{text} UTC")));
    }
}
