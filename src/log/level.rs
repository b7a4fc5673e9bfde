//! How grave a line must be to be written: changed while the node runs.
//!
//! The level at the start is that of `ANODE_LOG`, or `info`. What is set later is one level for all, and some for parts of the program, by
//! the beginning of their targets.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Parts that may have a level of their own.
const PARTS_MAX: usize = 16;

/// Levels, from the gravest.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Parts of the program, by the beginnings of whose targets levels are set: its modules.
const PARTS: [&str; 31] = [
    "abi", "apps", "asked", "broker", "classify", "cli", "code", "config", "core", "counted", "driver", "ee", "frame",
    "graph", "kernel", "lab", "labfile", "link", "log", "manage", "node", "nodeos", "port", "schedule", "seen", "sim",
    "sys", "topology", "trust", "wire", "contract",
];

/// Sets the directives of the filter that is in use.
type Change = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// What was set.
#[derive(Debug, Default)]
struct Levels {
    all: Option<String>,
    parts: BTreeMap<String, String>,
}

static LEVELS_NOW: Mutex<Levels> = Mutex::new(Levels { all: None, parts: BTreeMap::new() });

/// How the filter of this process is changed.
pub fn is_changed_by(change: Change) {
    // A process has one log.
    let _ = CHANGE.set(change);
}

impl Levels {
    fn set(&mut self, level: &str, part: Option<&str>) -> Result<(), String> {
        let level = level.to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            return Err(format!("'{level}' is no level: {}", LEVELS.join(", ")));
        }
        let Some(part) = part else {
            (self.all, self.parts) = (Some(level), BTreeMap::new());
            return Ok(());
        };
        if !is_part(part) {
            return Err(format!(
                "'{part}' is no part of the program: write anode::node, or another beginning of a target; there are anode::{}",
                PARTS.join(", ")
            ));
        }
        if !self.parts.contains_key(part) && self.parts.len() == PARTS_MAX {
            return Err(format!("{PARTS_MAX} parts have levels of their own already: set one for all first"));
        }
        self.parts.insert(part.into(), level);
        Ok(())
    }

    /// As the filter reads it.
    fn directives(&self) -> String {
        let parts = self.parts.iter().map(|(part, level)| format!("{part}={level}"));
        self.all.iter().cloned().chain(parts).collect::<Vec<_>>().join(",")
    }
}

/// Whether targets of this program may begin so: with the name of a module, whatever is below it.
fn is_part(part: &str) -> bool {
    let is_plain = part.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b':'));
    let mut names = part.split("::");
    let known = names.next() == Some("anode") && names.next().is_none_or(|module| PARTS.contains(&module));
    is_plain && known && part.len() <= 64
}

/// Writes lines of this level and graver ones from now on, of all or of one part; says what is in use then.
pub fn set(level: &str, part: Option<&str>) -> Result<String, String> {
    let change = CHANGE.get().ok_or("the log of this process cannot be changed")?;
    let mut levels = LEVELS_NOW.lock().unwrap_or_else(PoisonError::into_inner);
    levels.set(level, part)?;
    levels.all.get_or_insert_with(|| "info".into());
    let directives = levels.directives();
    change(&directives)?;
    Ok(directives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_modules_of_the_program_and_the_targets_beside_them() {
        let all = include_str!("../lib.rs").lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        // A module that is named nowhere could not be listened to.
        for module in all.filter(|module| *module != "clean") {
            assert!(is_part(&format!("anode::{module}")), "{module}");
        }
        assert!([crate::log::ASKED, crate::log::COUNTED].iter().all(|target| is_part(target)));
    }

    #[test]
    fn a_level_is_of_all_or_of_a_part_and_words_that_are_none_are_refused() {
        let mut levels = Levels::default();
        levels.set("Warn", None).unwrap();
        levels.set("debug", Some("anode::node")).unwrap();
        levels.set("trace", Some("anode::manage")).unwrap();
        assert_eq!(levels.directives(), "warn,anode::manage=trace,anode::node=debug");
        for part in ["a=trace,b", "", "[{x}]", "nosuch", "anode::nosuch", "anode::node=trace,anode::log"] {
            assert!(levels.set("info", Some(part)).unwrap_err().contains("there are anode::abi, "), "{part}");
        }
        assert!(levels.set("loud", None).is_err());
        for number in 0..2 * PARTS_MAX {
            let _ = levels.set("info", Some(&format!("anode::manage::{}", "a".repeat(1 + number))));
        }
        assert_eq!(levels.parts.len(), PARTS_MAX);
        levels.set("info", None).unwrap();
        assert_eq!(levels.directives(), "info");
    }
}
