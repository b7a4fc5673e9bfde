//! Names of files and of things in pages and comments: each exists. Example of a complaint: `README.md:3: nothing is called old_name`.
//!
//! A name of a file may leave out the folders before it. A name in backquotes is a thing's if it has an underscore, a `::` or a capital
//! inside; all its words stand somewhere in the code. Names of other projects and of a reader's own files are in lists.

use super::source::words;
use super::{Complaints, paths, texts};
use std::collections::BTreeSet;

/// Endings of files that are ours.
const ENDINGS: &[&str] = &[".rs", ".c", ".h", ".md", ".py", ".toml", ".json", ".plan"];

/// What stands for a name, what is made by the build, and headers of Linux.
const STANDS_FOR: &[&str] =
    &["NAME", "ANODE_SOURCE", "PROCESSOR", "OUT_DIR", "/x.rs", "/x.md", "visit/", "count/", "linux/", "fuzz/corpus"];

/// Files of a reader, and of nobody.
const ELSEWHERE: &[&str] = &["hop.rs", "a.rs"];

/// Folders of the project's root: what begins with one is a file or a folder.
const ROOTS: &[&str] =
    &["src/", "tests/", "bpf/", "sdk/", "libanode/", "plan/src/", "click/src/", "bench/src/", "clients/", "fuzz/"];

/// Beginnings of names of Linux.
const OF_LINUX: &[&str] = &[
    "BPF_",
    "XDP_",
    "ETH_",
    "NETDEV_",
    "GENL_",
    "ICMP6_",
    "RT_",
    "RTM_",
    "RTN_",
    "RTNH_",
    "NHA_",
    "bpf_",
    "no_new_privs",
];

/// Names of the other implementation, and of no particular thing.
const OTHERS: &[&str] = &["an_moab_setup", "ani_moab_shutdown", "get_"];

/// What exists.
struct Known {
    /// Files and folders, also without the folders before them.
    places: BTreeSet<String>,
    /// Words of the code.
    words: BTreeSet<String>,
}

fn is_comment(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    let kinds: &[&str] = if path.ends_with(".rs") { &["//"] } else { &["/*", "* ", "*/", "//"] };
    kinds.iter().any(|kind| line.starts_with(kind))
}

fn is_code(path: &str) -> bool {
    [".rs", ".c", ".h"].iter().any(|ending| path.ends_with(ending))
}

impl Known {
    fn of(paths: &[String], texts: &[(String, String)]) -> Known {
        let (mut places, mut known) = (BTreeSet::new(), BTreeSet::new());
        for path in paths {
            let parts: Vec<_> = path.split('/').collect();
            for from in 0..parts.len() {
                places.extend((from + 1..=parts.len()).map(|to| parts[from..to].join("/")));
            }
        }
        for (path, text) in texts {
            if !path.ends_with(".md") {
                let lines = text.lines().filter(|line| !is_code(path) || !is_comment(path, line));
                known.extend(lines.flat_map(words).map(str::to_owned));
            }
        }
        Known { places, words: known }
    }

    /// The names of files in a line that are none's.
    fn no_files<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let is_part = |c: char| c.is_alphanumeric() || "/._-".contains(c);
        let names = line.split(|c| !is_part(c)).map(|name| name.trim_end_matches(['.', '/']));
        let names = names.map(|name| name.trim_start_matches("./").trim_start_matches("../"));
        let is_file = |name: &&str| {
            let ends =
                ENDINGS.iter().any(|ending| name.ends_with(ending)) && name.contains('/') || name.ends_with(".rs");
            ends || ROOTS.iter().any(|root| name.starts_with(root))
        };
        let stands_for = |name: &str| {
            name.starts_with('/') || ELSEWHERE.contains(&name) || STANDS_FOR.iter().any(|word| name.contains(word))
        };
        names.filter(is_file).filter(|name| !stands_for(name) && !self.places.contains(*name)).collect()
    }

    /// The names of things in a line that are nothing's.
    fn no_things<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let line = if line.contains("```") { "" } else { line };
        let quoted = line.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches("()"));
        let is_thing = |name: &&str| {
            let plain = name.replace("::", "").chars().all(|c| c.is_alphanumeric() || c == '_');
            let inside = name.chars().zip(name.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
            let of_linux = OF_LINUX.iter().any(|start| name.starts_with(start));
            plain && (name.contains(['_', ':']) || inside) && !of_linux && !OTHERS.contains(name)
        };
        // The C calls a map without its ending, and Linux shows programs with the project's name.
        let has = |word: &str| {
            self.words.contains(word)
                || self.words.contains(&format!("{word}_map"))
                || word.strip_prefix("anode_").is_some_and(|word| self.words.contains(word))
        };
        quoted.filter(is_thing).filter(|name| !words(name).all(has)).collect()
    }

    fn complaints(&self, path: &str, text: &str) -> Complaints {
        let is_page = path.ends_with(".md") && !path.starts_with("bench-results/");
        let mut found = vec![];
        for (at, line) in text.lines().enumerate() {
            let is_read = is_page || is_code(path) && is_comment(path, line);
            if !is_read {
                continue;
            }
            found.extend(self.no_files(line).iter().map(|name| format!("{path}:{}: no file {name}", at + 1)));
            found
                .extend(self.no_things(line).iter().map(|name| format!("{path}:{}: nothing is called {name}", at + 1)));
        }
        found
    }
}

#[test]
fn what_pages_and_comments_name_exists() {
    let texts = texts();
    let known = Known::of(&paths(), &texts);
    assert!(known.places.contains("tidy/names.rs") && known.words.contains("no_things"), "the tree was not found");
    let found: Vec<_> = texts.iter().flat_map(|(path, text)| known.complaints(path, text)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn names_of_nothing_are_found() {
    let text = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let code = "// old_name\nfn emit_it(x: FlowKey) { \"code_map\" }";
    let texts = [text("src/wire/udp.rs", code), text("docs/wire.md", "only_here")];
    let known = Known::of(&texts.each_ref().map(|(path, _)| path.clone()), &texts);
    let count = |path: &str, text: &str| known.complaints(path, text).len();
    let good =
        "see wire/udp.rs, `src/wire`, docs/wire.md. `FlowKey::emit_it()`, `code`, `XDP_REDIRECT`, src/NAME.rs, `a b_c`";
    assert_eq!(count("a.md", good), 0);
    for bad in [
        "see wire/tcp.rs",
        "src/wires/ has it",
        "(docs/wires.md)",
        "tcp.rs",
        "`old_name`",
        "`FlowKey::gone`",
        "`FlowKeys`",
    ] {
        assert_eq!([count("a.md", bad), count("a.rs", &format!("    /// {bad}"))], [1, 1], "{bad}");
        assert_eq!([count("a.rs", bad), count("bench-results/a.md", bad)], [0, 0], "{bad}");
    }
    assert_eq!(count("a.md", "`only_here`"), 1, "pages are no code");
}
