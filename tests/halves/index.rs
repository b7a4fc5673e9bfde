//! Checks documents that name samples, files and tests: everything named must exist.
//!
//! In a table's row, what is in backquotes is a path if it has a `/`, else a sample or a test. A test follows the path
//! of its file: `` `tests/x.rs` name_of_the_test ``, with or without backquotes. What defends follows its file in the
//! same way: a function, a constant or a type.

use super::sample::Stage;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The cells of each row of a document's tables, headings and rules left out.
fn rows(text: &str) -> Vec<(usize, Vec<&str>)> {
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with("| ") && line.contains('`'));
    rows.map(|(at, line)| (at + 1, line.trim_matches('|').split(" | ").map(str::trim).collect())).collect()
}

/// What is in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a file has a test of this name: a function with `#[test]` among the attributes and comments above it.
fn has_test(file: &str, name: &str) -> bool {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let begins = format!("fn {name}(");
    let is_test = |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.into_iter().any(|line| *line == "#[test]")
    };
    lines.iter().enumerate().any(|(at, line)| line.starts_with(&begins) && is_test(at))
}

/// Words of a cell, and no marks between them.
fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split([' ', ',', '`', ';']).filter(|word| !word.is_empty())
}

/// Paths in a cell that are not there.
fn absent(cell: &str) -> Vec<String> {
    let paths = words(cell).filter(|word| word.contains('/') && !root().join(word).exists());
    paths.map(|path| format!("there is no {path}")).collect()
}

/// The same, and the tests behind paths that their files do not have.
fn missing(cell: &str) -> Vec<String> {
    let (mut file, mut missing) = ("", absent(cell));
    for word in words(cell) {
        if word.contains('/') {
            file = word;
        } else if word.contains('_') && file.ends_with(".rs") && !has_test(file, word) {
            missing.push(format!("{file} has no test {word}"));
        }
    }
    missing
}

/// What the files of a cell lack: each that is no folder is followed by a name that it defines, before its tests.
fn undefined(cell: &str) -> Vec<String> {
    let mut words = cell.split([' ', ',', '`']).filter(|word| !word.is_empty()).peekable();
    let mut wrong = Vec::new();
    while let Some(file) = words.next() {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        match words.next_if(|word| !word.contains('/')) {
            Some(name) if defines(file, text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default(), name) => {}
            Some(name) => wrong.push(format!("{file} does not define {name}")),
            None => wrong.push(format!("what of {file} defends is not named")),
        }
    }
    wrong
}

fn defines(file: &str, text: &str, name: &str) -> bool {
    let is_other = |c: char| !c.is_alphanumeric() && c != '_';
    let words: Vec<&str> = text.split(is_other).filter(|word| !word.is_empty()).collect();
    const BEFORE: [&str; 8] = ["fn", "const", "static", "struct", "enum", "trait", "type", "mod"];
    match file.ends_with(".h") || file.ends_with(".c") {
        true => text.contains(&format!(" {name}(")) || text.contains(&format!("*{name}(")),
        false => words.windows(2).any(|pair| BEFORE.contains(&pair[0]) && pair[1] == name),
    }
}

/// What an index of samples names wrongly: `stage` gives the stage of a sample that is there.
pub fn of_samples(document: &str, stage: impl Fn(&str) -> Option<Stage>) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut wrong = Vec::new();
    for (line, cells) in rows(&text) {
        let told = cells.get(1).copied().unwrap_or_default();
        // A test may stand in the cell behind that of its file.
        wrong.extend(missing(&cells.join(" ")).into_iter().map(|why| format!("{document}:{line}: {why}")));
        for cell in &cells {
            for name in quoted(cell).filter(|name| !name.contains(['/', '_'])) {
                match stage(name) {
                    None => wrong.push(format!("{document}:{line}: there is no sample {name}")),
                    Some(stage) if !told.contains(&format!("{stage:?}").to_lowercase()) => {
                        wrong.push(format!("{document}:{line}: {name} ends at {stage:?}"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    wrong
}

/// What a document with rows of `defence | file | test` names wrongly: each row needs a file and a test.
pub fn of_tests(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    judge(document, &text)
}

fn judge(document: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, cells) in rows(text) {
        let [_, file, test] = cells[..] else {
            wrong.push(format!("{document}:{line}: a defence has a file and a test"));
            continue;
        };
        let named = quoted(test).any(|name| name.contains('/')) && test.contains('_');
        if !named || quoted(file).next().is_none() {
            wrong.push(format!("{document}:{line}: names no file, or no test"));
        }
        wrong.extend(
            [absent(file), undefined(file), missing(test)]
                .concat()
                .into_iter()
                .map(|why| format!("{document}:{line}: {why}")),
        );
    }
    wrong
}

/// Whether bad rows are complained about, and good ones not.
pub fn notices_what_is_not_there() -> bool {
    let row = |file: &str, test: &str| judge("x", &format!("| a defence | {file} | {test} |")).len();
    let test = "`tests/halves/hostile.rs` what_the_documents_name_is_there";
    row("`src/lib.rs` log, `src/sys/jail/seccomp`", test) == 0
        && row("`bpf/ceiling.h` is_below, `src/log.rs` may_write", test) == 0
        && row("`src/nowhere.rs` log", test) == 1
        && row("`src/lib.rs`", test) == 1
        && row("`src/lib.rs` nothing", test) == 1
        && row("`src/log.rs` nobody_waits_for_who_does_not_read", test) == 1
        && row("`src/lib.rs` log", "`tests/halves/hostile.rs` what_is_not_a_test") == 1
        && row("`src/lib.rs` log", "`tests/halves/hostile.rs`") == 1
        // A function that helps tests is none, though it is there.
        && row("`src/lib.rs` log", "`tests/halves/index.rs` has_test") == 1
}
