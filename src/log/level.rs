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
        let is_plain = part.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b':'));
        if !is_plain || part.is_empty() || part.len() > 64 {
            return Err(format!(
                "'{part}' is no part of the program: write the beginning of a target, such as anode::node"
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
    fn a_level_is_of_all_or_of_a_part_and_words_that_are_none_are_refused() {
        let mut levels = Levels::default();
        levels.set("Warn", None).unwrap();
        levels.set("debug", Some("anode::node")).unwrap();
        levels.set("trace", Some("anode::manage")).unwrap();
        assert_eq!(levels.directives(), "warn,anode::manage=trace,anode::node=debug");
        for (level, part) in [("loud", None), ("info", Some("a=trace,b")), ("info", Some("")), ("info", Some("[{x}]"))]
        {
            assert!(levels.set(level, part).is_err(), "{level} {part:?}");
        }
        for number in 0..2 * PARTS_MAX {
            let _ = levels.set("info", Some(&"a".repeat(1 + number)));
        }
        assert_eq!(levels.parts.len(), PARTS_MAX);
        levels.set("info", None).unwrap();
        assert_eq!(levels.directives(), "info");
    }
}
