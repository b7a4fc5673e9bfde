//! Lines and words of the project's texts. Example of a complaint: `docs/x.md:3: an eighth of 64 bits is a byte here`.
//!
//! A byte has one name, lines fit beside each other on a screen, and what has the field's name has no other one.

use super::{Complaints, texts};

/// Characters of a line.
const LINE_MAX: usize = 140;

/// Words of a sentence of a file's first paragraph.
const WORDS_MAX: usize = 30;

/// The kinds of files that people read.
const KINDS: &[&str] = &[".rs", ".c", ".h", ".md", ".py"];

/// Former names, in two pieces, so that this list does not find itself; and what has the name now.
const FORMER: &[([&str; 2], &str)] = &[
    (["near", "_map"], "neighbour_places_map"),
    (["struct ", "near"], "struct neighbour"),
    (["known", "_map"], "flow_cache_map"),
    (["struct ", "known"], "struct cached_flow"),
    (["bro", "od"], "replicas"),
    (["bro", "ods"], "replicas"),
    (["bro", "ods_map"], "replicas_map"),
    (["doors", "_map"], "program_slots_map"),
    (["Doo", "r"], "LocalSocket or Acceptor"),
    (["Doo", "rs"], "ProgramSlots"),
    (["lifted", "_map"], "punt_counts_map"),
    (["LI", "FT"], "PUNT"),
    (["struct ", "lifted"], "struct punt_counts"),
];

/// Whether `name` stands in a line as a whole word.
fn has(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part))
}

/// Whether a line may be long: of a table, which cannot go on in the next one, or of a page that a benchmark wrote.
fn may_be_long(path: &str, line: &str) -> bool {
    path.ends_with(".md") && (line.trim_start().starts_with('|') || path.starts_with("bench-results/"))
}

fn complaints(path: &str, text: &str) -> Complaints {
    let byte = ["oct", "et"].concat();
    // The standard library's name of a method of addresses.
    let method = format!(".{byte}s()");
    let mut found = vec![];
    for (at, line) in text.lines().enumerate() {
        let mut complain = |what: String| found.push(format!("{path}:{}: {what}", at + 1));
        if line.replace(&method, "").to_lowercase().contains(&byte) {
            complain("an eighth of 64 bits is a byte here".into());
        }
        if !KINDS.iter().any(|kind| path.ends_with(kind)) {
            continue;
        }
        let length = line.chars().count();
        if length > LINE_MAX && !may_be_long(path, line) {
            complain(format!("{length} characters, at most {LINE_MAX}"));
        }
        for (pieces, now) in FORMER {
            let name = pieces.concat();
            if has(line, &name) {
                complain(format!("{name} is a former name: {now}"));
            }
        }
    }
    found
}

/// The first paragraph of a Rust file's opening, in one line.
fn first_paragraph(text: &str) -> String {
    let opening = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    opening.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Sentences of a first paragraph that nobody understands at first reading.
fn long_sentences(path: &str, text: &str) -> Complaints {
    let opening = first_paragraph(text);
    let words = |sentence: &str| sentence.split(' ').filter(|word| word.contains(char::is_alphanumeric)).count();
    let sentences = opening.split_inclusive(['.', '!', '?']);
    let mut found = vec![];
    let mut sentence = String::new();
    for part in sentences {
        // A point inside of a word, as in `a.rs`, ends nothing.
        let ends = opening[part.as_ptr() as usize - opening.as_ptr() as usize + part.len()..].starts_with([' ', ')']);
        sentence += part;
        if ends {
            found.push(core::mem::take(&mut sentence));
        }
    }
    found.push(sentence);
    let long = found.into_iter().map(|sentence| (words(&sentence), sentence)).filter(|(count, _)| *count > WORDS_MAX);
    long.map(|(count, sentence)| format!("{path}: {count} words, at most {WORDS_MAX}: {sentence}")).collect()
}

#[test]
fn first_paragraphs_are_understood_at_first_reading() {
    let sources = super::sources();
    let ours = sources.iter().filter(|source| source.path.contains("src/"));
    let found: Vec<_> = ours.flat_map(|source| long_sentences(&source.path, &source.text)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn long_sentences_of_first_paragraphs_are_found() {
    let count = |text: &str| long_sentences("src/a.rs", text).len();
    let of = |words: usize| format!("{}.", vec!["word"; words].join(" "));
    assert_eq!(count(&format!("//! {}\n//! More.\n", of(WORDS_MAX + 1))), 1);
    assert_eq!(count(&format!("//! {} {}\n", of(WORDS_MAX), of(WORDS_MAX))), 0, "two sentences");
    assert_eq!(count(&format!("//! {}\n//! {}\n", "see a.rs and", of(WORDS_MAX))), 1, "no end inside of a word");
    assert_eq!(count(&format!("//! Short.\n//!\n//! {}\n", of(50))), 0, "the first paragraph only");
}

#[test]
fn lines_are_short_and_things_have_one_name() {
    let texts = texts();
    assert!(texts.iter().any(|(path, _)| path == "README.md"), "the tree was not found");
    let found: Vec<_> = texts.iter().flat_map(|(path, text)| complaints(path, text)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn long_lines_and_former_names_are_found() {
    let count = |path: &str, text: &str| complaints(path, text).len();
    for pieces in [["16 Oct", "ets"], ["an oct", "et"], ["by_oct", "ets"], ["OCT", "ETS"]] {
        assert_eq!(count("a.rs", &pieces.concat()), 1, "{pieces:?}");
    }
    assert_eq!(count("a.rs", &["v4.oct", "ets()"].concat()), 0, "the library's");
    for (pieces, _) in FORMER {
        assert_eq!(count("a.h", &format!("in {}.", pieces.concat())), 1, "{pieces:?}");
    }
    assert_eq!(count("a.md", "the node is near, the flow is known, as a door is"), 0, "ordinary words");
    let row = format!("| {} |", "x".repeat(LINE_MAX));
    assert_eq!([count("a.md", &row), count("a.rs", &row), count("a.json", &row)], [0, 1, 0]);
    let long = "x ".repeat(LINE_MAX);
    assert_eq!([count("a.md", &long), count("bench-results/a.md", &long)], [1, 0]);
    assert_eq!(count("a.py", &"é".repeat(LINE_MAX)), 0, "characters, not bytes");
}
