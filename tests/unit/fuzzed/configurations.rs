//! Configurations as somebody half wrote them, and the history that a broken disk left: each is read, or refused in words.
//!
//! Example: `packet = "eth0"` twice in a line, a table cut off in the middle, a key of another table. What is read differs from itself in
//! nothing, and what a running node takes over of it is a configuration again.

use super::{Dice, bend, cases};
use anode::broker::configurations::{Configurations, KEPT_MAX};
use anode::config::NodeFile;
use anode::config::difference::{between, without_restart};
use std::path::Path;

/// Bytes of the longest text.
const TEXT_MAX: usize = 8 << 10;

/// Texts that are right: those that other tests read.
fn texts() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut texts: Vec<Vec<u8>> =
        files.filter(|path| path.is_file()).map(|path| std::fs::read(path).unwrap()).collect();
    texts.sort_unstable();
    texts
}

/// A text whose lines are cut out, repeated, changed places with, or taken from another, so that most of them are still of TOML.
fn bend_lines(dice: &mut Dice, texts: &[Vec<u8>]) -> String {
    let lines_of = |text: &[u8]| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = lines_of(&texts[dice.below(texts.len() as u64) as usize]);
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(lines.len() as u64 + 1) as usize;
        let end = (at + dice.below(6) as usize).min(lines.len());
        match dice.below(5) {
            0 => drop(lines.drain(at..end)),
            1 => lines.extend_from_within(at..end),
            2 if end > at => lines.swap(at, end - 1),
            3 if at < lines.len() => lines[at] = number_changed(dice, &lines[at]),
            _ => {
                let others = lines_of(&texts[dice.below(texts.len() as u64) as usize]);
                let from = dice.below(others.len() as u64) as usize;
                drop(lines.splice(at..at, others[from..].iter().take(3).cloned()).collect::<Vec<_>>());
            }
        }
    }
    lines.join("\n")
}

/// A line with another number in the place of its last one.
fn number_changed(dice: &mut Dice, line: &str) -> String {
    const NUMBERS: [&str; 8] =
        ["0", "1", "-1", "65536", "4294967296", "18446744073709551615", "9223372036854775807", "1e9"];
    let rest = line.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("{rest}{}", NUMBERS[dice.below(8) as usize])
}

/// Reads it, and compares what was read with what runs; whether it was read.
fn look_at(text: &str, running: &NodeFile) -> bool {
    let file = match NodeFile::parse(text) {
        Ok(file) => file,
        Err(why) => {
            assert!(!why.to_string().is_empty() && why.to_string().len() < 2 * TEXT_MAX);
            return false;
        }
    };
    let Ok(same) = between(&file, &file) else { return true };
    assert_eq!(same, [], "it differs from itself");
    let Ok(changes) = between(running, &file) else { return true };
    if let Ok(kept) = without_restart(running, &file, &changes) {
        // What needs a restart was left out.
        let left = between(running, &kept).unwrap_or_default();
        let restart = left.iter().find(|change| change.part.is_none());
        assert!(restart.is_none(), "{}", restart.unwrap());
    }
    changes.iter().for_each(|change| assert!(!change.to_string().is_empty()));
    true
}

/// A node to whose configuration others are compared.
fn running() -> NodeFile {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations/all-keys.toml"));
    NodeFile::parse(&text.unwrap()).unwrap()
}

#[test]
fn a_configuration_that_somebody_half_wrote_is_read_or_refused_in_words() {
    let (dice, texts, running) = (&mut Dice::new(), texts(), running());
    let mut read = 0;
    for case in 0..cases() {
        let text = if case % 4 == 0 {
            String::from_utf8_lossy(&bend(dice, &texts)).into_owned()
        } else {
            bend_lines(dice, &texts)
        };
        let looked = std::panic::catch_unwind(|| look_at(&text, &running));
        read += usize::from(looked.unwrap_or_else(|_| panic!("fails with:\n{text}")));
    }
    assert!(read * 20 > cases(), "{read} of {} were read: hardly any", cases());
}

#[test]
fn a_history_that_a_broken_disk_left_keeps_no_node_from_starting() {
    let (dice, running) = (&mut Dice::new(), running());
    let place = tempfile::tempdir().unwrap();
    drop(Configurations::new(&running, place.path()).unwrap());
    let folder = place.path().join("configurations");
    let right = vec![std::fs::read(folder.join("1.json")).unwrap()];
    for _ in 0..cases() / 10 {
        for number in 1..=dice.below(KEPT_MAX as u64 + 5) {
            // As it is, of another number, and bent.
            let text = match dice.below(3) {
                0 => right[0].clone(),
                1 => {
                    let other = [number, u64::MAX, 0][dice.below(3) as usize];
                    String::from_utf8_lossy(&right[0]).replacen(":1,", &format!(":{other},"), 1).into_bytes()
                }
                _ => bend(dice, &right),
            };
            std::fs::write(folder.join(format!("{number}.json")), text).unwrap();
        }
        let mut all = Configurations::new(&running, place.path()).unwrap();
        let number = all.give(running.text.to_string(), "a file", "somebody").unwrap();
        all.hold(number, false).unwrap();
        assert!(std::fs::read_dir(&folder).unwrap().count() <= 2 * KEPT_MAX + 5, "the folder grows");
    }
}
