//! The invariants of the source tree, checked by reading it.
//!
//! Modules with I/O, clocks, `unsafe` or panics, imports among folders and files (`folders.rs`, `files.rs`), lengths of files and
//! functions, lines and words (`prose.rs`), names of types (`types.rs`), names in comments and pages (`names.rs`), clocks and
//! sleep in tests (`waits.rs`), and words that never stand in a file. ARCHITECTURE.md has the reasons. Every check is also run on a
//! bad sample and must complain, so that none passes by not looking.

use std::fs;
use std::path::{Path, PathBuf};

mod doors;
mod files;
mod folders;
mod names;
mod prose;
mod reasons;
mod source;
mod tables;
mod types;
mod waits;
mod way;
use source::Source;

/// Modules that turn bytes into values and decisions: no I/O and no clock.
const PURE: &[&str] = &[
    "src/contract/",
    "src/abi/",
    "src/wire/",
    "src/frame/",
    "src/classify/",
    "src/nodeos/",
    "src/graph/",
    "src/core/",
    "src/driver/",
    "plan/src/",
    "click/src/",
];
/// The state machine around them: it is told the time.
const CLOCKLESS: &[&str] = &[
    "src/contract/",
    "src/abi/",
    "src/wire/",
    "src/frame/",
    "src/classify/",
    "plan/src/",
    "click/src/",
    "src/node.rs",
    "src/node/",
    "src/ee/",
    "src/topology/",
    "src/schedule/",
    "src/nodeos/",
    "src/graph/",
    "src/core/",
    "src/driver/",
];
/// What runs for every packet.
const PACKET_PATH: &[&str] = &[
    "plan/src/",
    "src/contract/",
    "src/abi/",
    "src/wire/",
    "src/frame/",
    "src/classify/",
    "src/graph/",
    "src/schedule/",
    "src/ee/",
    "src/code/run/",
    "src/code/run.rs",
    "src/node.rs",
    "src/node/",
    "src/topology/",
    "src/nodeos/",
];
/// The only places with `unsafe`.
const UNSAFE_ALLOWED: &[&str] = &[
    "tests/allocation/",
    "tests/run/jail.rs",
    "src/sys/",
    "src/port/",
    "src/kernel/",
    "src/code/run/",
    "src/code/run.rs",
    "src/code/extension/native.rs",
    "libanode/",
];

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const MAIN_LINES_MAX: usize = 100;
/// Of a page of results, or of a figure in it.
const RESULT_BYTES_MAX: usize = 24_000;

const IO: &[&str] = &[
    "std::fs",
    "std::io",
    "std::os",
    "std::env",
    "std::process",
    "std::thread",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "libc",
    "rustix",
    "socket2",
    "crate::sys",
];
const CLOCKS: &[&str] = &["std::time", "Instant", "SystemTime", "rustix::time", "libc::clock_gettime"];
/// Hints for caches change nothing but time.
const NO_IO: &[&str] = &["crate::sys::cache"];
/// A length of time is not a clock.
const NO_CLOCK: &[&str] = &["std::time::Duration"];

/// What is wrong, where.
type Complaints = Vec<String>;

fn no_io_in_pure_modules(source: &Source) -> Complaints {
    if !source.is_in(PURE) {
        return vec![];
    }
    forbidden_paths(source, IO, NO_IO, "no I/O here: pass bytes or values in")
}

fn no_clock_in_the_state_machine(source: &Source) -> Complaints {
    if !source.is_in(CLOCKLESS) {
        return vec![];
    }
    forbidden_paths(source, CLOCKS, NO_CLOCK, "no clock here: take the time as an argument")
}

fn no_panics_in_the_packet_path(source: &Source) -> Complaints {
    if !source.is_in(PACKET_PATH) || source.is_test() {
        return vec![];
    }
    let words = [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err(", "todo!(", "unimplemented!(", "dbg!("];
    let lines = source.live.lines().enumerate();
    let found =
        lines.flat_map(|(at, line)| words.iter().filter(move |word| line.contains(**word)).map(move |w| (at, w)));
    found
        .map(|(at, word)| source.complain(at, &format!("{word} in the packet path: drop with a reason instead")))
        .collect()
}

/// Where threads of a running node are started; the broker's have the list of its process.
const NODE: &[&str] = &["src/manage", "src/kernel", "src/code/compiler", "src/port", "src/trust", "src/topology"];

fn threads_of_nodes_have_lists(source: &Source) -> Complaints {
    if !source.is_in(NODE) || source.is_test() {
        return vec![];
    }
    let words = ["thread::Builder", "thread::spawn", "thread::scope"];
    let lines = source.live.lines().enumerate();
    let found = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(at, _)| source.complain(at, "a thread without a list: start it by crate::sys::threads")).collect()
}

fn unsafe_only_where_allowed_and_argued(source: &Source) -> Complaints {
    let mut complaints = vec![];
    for (at, line) in source.code.lines().enumerate() {
        // A name that is exported can only clash with another; all of the C library begin with an_.
        let exports = source.path.starts_with("libanode/src/c/") && line.trim() == "#[unsafe(no_mangle)]";
        if exports || !source::words(line).any(|word| word == "unsafe") {
            continue;
        }
        if !source.is_in(UNSAFE_ALLOWED) {
            complaints.push(source.complain(at, "unsafe outside the modules that may have it"));
        } else if !source.is_argued(at) {
            complaints.push(source.complain(at, "unsafe without a SAFETY comment before it"));
        }
    }
    complaints
}

/// What commands print goes through `clean`.
fn commands_print_clean(source: &Source) -> Complaints {
    if !source.is_in(&["src/cli/", "bench/src/"]) || source.is_test() {
        return vec![];
    }
    let raw = |line: &str| ["print!(", "println!("].iter().any(|word| line.contains(word));
    let lines = source.live.lines().enumerate().filter(|(_, line)| raw(line));
    lines.map(|(at, _)| source.complain(at, "prints past src/clean.rs: use say! or say_err!")).collect()
}

fn files_and_functions_are_short(source: &Source) -> Complaints {
    let lines = source.text.lines().count();
    let limit = if source.path == "src/main.rs" { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let mut complaints = vec![];
    if lines > limit {
        complaints.push(source.complain(0, &format!("{lines} lines, at most {limit}: find a better cut")));
    }
    for (at, name, length) in source.functions() {
        if length > FUNCTION_LINES_MAX {
            let what = format!("function {name} has {length} lines, at most {FUNCTION_LINES_MAX}");
            complaints.push(source.complain(at, &what));
        }
    }
    complaints
}

fn every_file_opens_with_prose(source: &Source) -> Complaints {
    let opens = source.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 8);
    if opens { vec![] } else { vec![source.complain(0, "the file does not open with //! prose")] }
}

fn no_word_that_does_not_belong(path: &str, text: &str) -> Complaints {
    // In two pieces, so that this list does not find itself.
    let postponed = [["TO", "DO"], ["FIX", "ME"], ["X", "XX"]];
    let elsewhere = [
        ["/wo", "rk/"],
        ["DESIGN", ".md"],
        ["DESIGN", " §"],
        ["notes/", "kernel"],
        ["notes/", "style"],
        ["seeds/", "0"],
        ["work", "tree"],
        ["clau", "de"],
        ["anthro", "pic"],
        ["language", " model"],
        ["sub", "agent"],
    ];
    let mut complaints = vec![];
    for (at, line) in text.lines().enumerate() {
        for pieces in postponed {
            let word = pieces.concat();
            if source::words(line).any(|found| found == word) {
                complaints.push(format!("{path}:{}: {word}: do it, or open an issue", at + 1));
            }
        }
        let lower = line.to_lowercase();
        for pieces in elsewhere {
            let word = pieces.concat();
            if lower.contains(&word.to_lowercase()) {
                complaints.push(format!("{path}:{}: '{word}' is no part of this project", at + 1));
            }
        }
    }
    complaints
}

fn forbidden_paths(source: &Source, forbidden: &[&str], allowed: &[&str], remedy: &str) -> Complaints {
    let is = |path: &str, prefix: &str| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let paths = source.paths();
    let found = paths.iter().filter(|(_, path)| {
        forbidden.iter().any(|prefix| is(path, prefix)) && !allowed.iter().any(|prefix| is(path, prefix))
    });
    found.map(|(line, path)| source.complain(*line, &format!("{path}: {remedy}"))).collect()
}

const CHECKS: &[fn(&Source) -> Complaints] = &[
    no_io_in_pure_modules,
    no_clock_in_the_state_machine,
    no_panics_in_the_packet_path,
    threads_of_nodes_have_lists,
    unsafe_only_where_allowed_and_argued,
    commands_print_clean,
    files_and_functions_are_short,
    every_file_opens_with_prose,
];

/// Every file of the project below `folder`, with its path from the root.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    const NOT_OURS: &[&str] = &["target", ".git", "corpus", "artifacts", "__pycache__", "node_modules"];
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// The files of the project, by their paths from the root.
fn paths() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![];
    files(root, &mut found);
    found.iter().filter_map(|path| Some(path.strip_prefix(root).ok()?.to_string_lossy().into_owned())).collect()
}

/// The texts of the project: path from the root, and contents.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: String| fs::read_to_string(root.join(&path)).ok().map(|text| (path, text));
    paths().into_iter().filter_map(text).collect()
}

/// The Rust sources of the project.
fn sources() -> Vec<Source> {
    let texts = texts().into_iter().filter(|(path, _)| path.ends_with(".rs"));
    let sources: Vec<_> = texts.map(|(path, text)| Source::new(&path, &text)).collect();
    for known in ["src/wire/mod.rs", "plan/src/lib.rs"] {
        assert!(sources.iter().any(|source| source.path == known), "the tree was not found: {known}");
    }
    sources
}

#[test]
fn the_source_tree_keeps_its_invariants() {
    let sources = sources();
    let complaints: Vec<_> = sources.iter().flat_map(|source| CHECKS.iter().flat_map(|check| check(source))).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn no_file_has_a_word_that_does_not_belong() {
    let texts = texts();
    assert!(texts.iter().any(|(path, _)| path == "Cargo.toml"), "the tree was not found");
    let complaints: Vec<_> = texts.iter().flat_map(|(path, text)| no_word_that_does_not_belong(path, text)).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn kernel_and_mobile_c_and_python_files_are_short() {
    let kinds = [".c", ".h", ".py", ".plan"];
    let long = |(path, text): &&(String, String)| {
        let limit = if path == "bpf/ingress.bpf.c" { 200 } else { FILE_LINES_MAX };
        kinds.iter().any(|kind| path.ends_with(kind)) && text.lines().count() > limit
    };
    let texts = texts();
    let found: Vec<_> = texts.iter().filter(long).map(|(path, _)| path).collect();
    assert!(found.is_empty(), "too long: {found:?}");
}

/// What is wrong with the names and lengths of committed results: a page and at most two small figures a benchmark.
fn results_that_are_no_page(files: &[(&str, usize)]) -> Complaints {
    let pages: Vec<&str> = files.iter().filter_map(|(name, _)| name.strip_suffix(".md")).collect();
    let mut complaints = vec![];
    for (name, bytes) in files.iter().filter(|(_, bytes)| *bytes > RESULT_BYTES_MAX) {
        complaints.push(format!("{name}: {bytes} bytes, at most {RESULT_BYTES_MAX}"));
    }
    let figures = |page: &str| {
        let names = files.iter().filter_map(|(name, _)| name.strip_suffix(".svg"));
        names.filter(|name| *name == page || name.starts_with(&format!("{page}-"))).count()
    };
    complaints
        .extend(pages.iter().filter(|page| figures(page) > 2).map(|page| format!("{page}: more than two figures")));
    let owned: usize = pages.iter().map(|page| 1 + figures(page)).sum();
    if owned != files.len() {
        complaints.push(format!("{} files are neither a page nor a figure of one", files.len() - owned));
    }
    complaints
}

#[test]
fn results_are_a_page_and_at_most_two_small_figures_a_benchmark() {
    let texts = texts();
    let ignored = |name: &str| name.ends_with(".json") || name.ends_with("-against.md");
    let found: Vec<(&str, usize)> = texts
        .iter()
        .filter_map(|(path, text)| Some((path.strip_prefix("bench-results/")?, text.len())))
        .filter(|(name, _)| !ignored(name))
        .collect();
    assert!(found.iter().any(|(name, _)| *name == "capsules.md"), "the results were not found");
    let complaints = results_that_are_no_page(&found);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    let (_, rules) = texts.iter().find(|(path, _)| path == ".gitignore").unwrap();
    for rule in ["/bench-results/*.json", "/bench-results/*-against.md"] {
        assert!(rules.lines().any(|line| line == rule), "{rule}");
    }
}

#[test]
fn results_that_nobody_would_read_are_found() {
    let good = [("a.md", 9), ("a.svg", 9), ("a-b.svg", 9)];
    assert!(results_that_are_no_page(&good).is_empty());
    let more = |file| results_that_are_no_page(&[&good[..], &[file]].concat()).len();
    assert_eq!(
        [more(("a-c.svg", 9)), more(("c.svg", 9)), more(("b.csv", 9)), more(("b.md", RESULT_BYTES_MAX + 1))],
        [1; 4]
    );
}

/// How many complaints `check` has about `text` in the file `path`.
fn complaints(check: fn(&Source) -> Complaints, path: &str, text: &str) -> usize {
    check(&Source::new(path, text)).len()
}

#[test]
fn io_in_a_pure_module_is_found() {
    let count = |path: &str, text: &str| complaints(no_io_in_pure_modules, path, text);
    for bad in [
        "use std::fs;",
        "use std::{net::{IpAddr, UdpSocket}, fmt};",
        "fn f() { std::fs::read(\"x\"); }",
        "use crate::sys::Clock;",
        "use {libc as c};",
        "pub use rustix::net;",
    ] {
        assert_eq!(count("src/wire/x.rs", bad), 1, "{bad}");
        assert_eq!(count("src/classify/x.rs", bad), 1, "{bad}");
        assert_eq!(count("src/port/x.rs", bad), 0, "{bad}");
    }
    let good = "use std::net::IpAddr; // std::fs\nconst TEXT: &str = \"std::fs\";\nfn libc_like() {}";
    assert_eq!(count("src/wire/x.rs", good), 0);
    assert_eq!(count("src/wire/x.rs", "#[cfg(test)]\nmod tests { use std::fs; }"), 0);
}

#[test]
fn a_clock_in_the_state_machine_is_found() {
    let count = |path: &str, text: &str| complaints(no_clock_in_the_state_machine, path, text);
    for bad in ["use std::time::{Duration, Instant};", "use std::time;", "fn f() { std::time::SystemTime::now(); }"] {
        assert_eq!(count("src/node.rs", bad), 1, "{bad}");
        assert_eq!(count("src/wire/x.rs", bad), 1, "{bad}");
        assert_eq!(count("src/sys/x.rs", bad), 0, "{bad}");
    }
    assert_eq!(count("src/ee/x.rs", "use std::time::Duration;"), 0);
}

#[test]
fn a_panic_in_the_packet_path_is_found() {
    let count = |path: &str, text: &str| complaints(no_panics_in_the_packet_path, path, text);
    for bad in ["x.unwrap();", "x\n    .expect(\"y\");", "todo!()"] {
        let bad = format!("fn f() {{ {bad} }}");
        assert_eq!(count("src/node.rs", &bad), 1, "{bad}");
        assert_eq!(count("src/code/run/wasm.rs", &bad), 1, "{bad}");
        assert_eq!(count("src/manage/mod.rs", &bad), 0, "{bad}");
        assert_eq!(count("src/ee/plan/tests.rs", &bad), 0, "{bad}");
        let tested = format!("#[cfg(test)]\nmod tests {{ const B: &str = \"}}\"; {bad} }}\n");
        assert_eq!(count("src/node.rs", &tested), 0, "{bad}");
        assert_eq!(count("src/node.rs", &format!("{tested}{bad}")), 1, "{bad}");
    }
    let good = "// x.unwrap()\n#[expect(dead_code)]\nfn f() { x.unwrap_or(1); let s = r#\"y.unwrap()\"#; }";
    assert_eq!(count("src/node.rs", good), 0);
}

#[test]
fn a_thread_without_a_list_is_found() {
    let count = |path: &str, text: &str| complaints(threads_of_nodes_have_lists, path, text);
    for bad in ["std::thread::spawn(work);", "thread::Builder::new().name(\"x\".into()).spawn(work)?;"] {
        assert_eq!(count("src/manage/x.rs", bad), 1, "{bad}");
        assert_eq!(count("bench/src/x.rs", bad), 0, "{bad}");
    }
    assert_eq!(count("src/manage/x.rs", "threads::start(\"x\", Duty::Store, work)?;"), 0);
    assert_eq!(count("src/manage/x.rs", "#[cfg(test)]\nmod tests { fn f() { std::thread::spawn(work); } }"), 0);
}

#[test]
fn unsafe_without_leave_or_argument_is_found() {
    let count = |path: &str, text: &str| complaints(unsafe_only_where_allowed_and_argued, path, text);
    let bare = "fn f() {\n    let x = 1;\n    unsafe { g() }\n}";
    let argued = "fn f() {\n    // SAFETY: g is harmless.\n    let x =\n        unsafe { g() };\n}";
    assert_eq!(count("src/sys/x.rs", bare), 1);
    assert_eq!(count("src/sys/x.rs", argued), 0);
    assert_eq!(count("src/wire/x.rs", argued), 1);
    let stale = "// SAFETY: of another one.\nlet y = unsafe { a() };\nlet x = unsafe { b() };";
    assert_eq!(count("src/port/x.rs", stale), 1);
    let documented = "/// Does it.\n///\n/// # Safety\n/// The pointer is valid.\n#[inline]\npub unsafe fn f() {}";
    assert_eq!(count("src/code/run/x.rs", documented), 0);
    assert_eq!(count("src/node.rs", "#![deny(unsafe_code)] // no unsafe here\nconst A: &str = \"unsafe\";"), 0);
}

#[test]
fn a_command_that_prints_raw_is_found() {
    let count = |path: &str, text: &str| complaints(commands_print_clean, path, text);
    for bad in ["println!(\"x\");", "eprint!(\"x\");", "{ print!(\"{x}\") }"] {
        assert_eq!(count("src/cli/x.rs", bad), 1, "{bad}");
        assert_eq!(count("bench/src/x.rs", bad), 1, "{bad}");
        assert_eq!(count("src/node/x.rs", bad), 0, "{bad}");
    }
    assert_eq!(count("src/cli/x.rs", "crate::say!(\"x\"); crate::say_err!(\"println!(\"); // print!("), 0);
}

#[test]
fn long_files_and_functions_are_found() {
    let count = |path, text: &str| complaints(files_and_functions_are_short, path, text);
    assert_eq!(count("src/a.rs", &"//\n".repeat(FILE_LINES_MAX)), 0);
    assert_eq!(count("src/a.rs", &"//\n".repeat(FILE_LINES_MAX + 1)), 1);
    assert_eq!(count("src/main.rs", &"//\n".repeat(MAIN_LINES_MAX + 1)), 1);
    let function = |lines: usize| format!("fn f() {{\n{}}}\n", "a();\n".repeat(lines - 2));
    assert_eq!(count("src/a.rs", &function(FUNCTION_LINES_MAX)), 0);
    assert_eq!(count("src/a.rs", &function(FUNCTION_LINES_MAX + 1)), 1);
    assert_eq!(count("src/a.rs", &format!("trait T {{ fn g(&self); }}\n{}", function(FUNCTION_LINES_MAX))), 0);
}

#[test]
fn a_file_without_opening_is_found() {
    let count = |text| complaints(every_file_opens_with_prose, "src/a.rs", text);
    assert_eq!(count("//! What this is.\nfn f() {}"), 0);
    assert_eq!(count("fn f() {}\n//! Too late."), 1);
    assert_eq!(count("//!\nfn f() {}"), 1);
    assert_eq!(count(""), 1);
}

#[test]
fn words_that_do_not_belong_are_found() {
    for pieces in [["// TO", "DO: later"], ["FIX", "ME"], ["see /wo", "rk/x"], ["Clau", "de"], ["as in DESIGN", ".md"]]
    {
        assert_eq!(no_word_that_does_not_belong("a", &pieces.concat()).len(), 1, "{pieces:?}");
    }
    assert_eq!(no_word_that_does_not_belong("a", "a network/worker/todo list, framework").len(), 0);
}
