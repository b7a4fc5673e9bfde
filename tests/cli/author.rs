//! Verdicts at the author's desk: wrong programs and what `anode code check` says of each (`tests/author`).
//!
//! `NAME.c` is wrong, `NAME.said` is what is said of it, and `NAME.mended.c` follows the remedy. A message names cause, place
//! and remedy once, the status is 1, and nothing stays behind. `ANODE_BLESS=1` writes what is said again. Needs clang;
//! samples whose first line says so are refused by the kernel's verifier, which takes root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the first line of a sample says that needs root.
const NEEDS_ROOT: &str = "// The verifier of the kernel";

/// The compiler whose words are kept.
const CLANG: &str = "clang version 14.";

struct Answer {
    status: i32,
    out: String,
    err: String,
}

/// Runs the program in a directory, with a place of its own for what is not to stay, and looks whether anything does.
fn anode(directory: &Path, arguments: &[&str]) -> Answer {
    let scratch = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_anode"))
        .args(arguments)
        .current_dir(directory)
        .env("TMPDIR", scratch.path())
        .env("XDG_DATA_HOME", directory.join("data"))
        .output()
        .unwrap();
    assert_eq!(names(scratch.path()), BTreeSet::new(), "{arguments:?} leaves something behind");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Answer { status: run.status.code().unwrap(), out: text(&run.stdout), err: text(&run.stderr) }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Checks a text as a file of this name, alone in a directory.
fn check(name: &str, text: &str, more: &[&str]) -> Answer {
    let directory = tempfile::tempdir().unwrap();
    let file = format!("{name}.c");
    fs::write(directory.path().join(&file), text).unwrap();
    let answer = anode(directory.path(), &[&["code", "check", "--no-lint", &file], more].concat());
    assert_eq!(names(directory.path()), BTreeSet::from([file]), "{name} leaves something behind");
    answer
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/author")
}

/// A sample, and what is said of it.
struct Sample {
    name: String,
    wrong: String,
    mended: String,
    said: Answer,
}

/// The samples that can be tried here.
fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let wrong = names(&folder()).into_iter().filter(|name| name.ends_with(".c") && !name.ends_with(".mended.c"));
        let read = |name: String| {
            let name = name.trim_end_matches(".c").to_owned();
            let text = |ending: &str| fs::read_to_string(folder().join(format!("{name}.{ending}"))).unwrap();
            (name.clone(), text("c"), text("mended.c"))
        };
        let all: Vec<_> = wrong.map(read).collect();
        assert!(all.len() >= 20, "{} samples", all.len());
        let (tried, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, wrong, _)| is_root() || !wrong.starts_with(NEEDS_ROOT));
        if !left.is_empty() {
            eprintln!("SKIPPED: {} samples are the verifier's, which is asked as root only", left.len());
            assert!(std::env::var_os("CI").is_none(), "nothing is skipped in continuous integration");
        }
        let said = |(name, wrong, mended): (String, String, String)| {
            let said = check(&name, &wrong, &[]);
            Sample { name, wrong, mended, said }
        };
        tried.into_iter().map(said).collect()
    })
}

/// Whether the words of a sample are those that are kept: compilers and kernels differ in theirs.
fn is_as_kept(sample: &Sample, kept: &str) -> bool {
    let clang = anode::code::author::toolchain::find().unwrap();
    let version = String::from_utf8(Command::new(clang).arg("--version").output().unwrap().stdout).unwrap();
    // Of other compilers and of verifiers the place and the remedy.
    let lasting = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("    ") && !line.starts_with("  instruction: "));
        let place = |line: &str| line.split(": ").take(2).collect::<Vec<_>>().join(": ");
        lines.map(|line| if line.starts_with("anode: ") { place(line) } else { line.to_owned() }).collect::<Vec<_>>()
    };
    if version.contains(CLANG) && !sample.wrong.starts_with(NEEDS_ROOT) {
        sample.said.err == kept
    } else {
        lasting(&sample.said.err).first() == lasting(kept).first()
    }
}

/// The causes that an answer names: lines that are neither a remedy, an instruction nor a part of the source.
fn causes(said: &str) -> Vec<&str> {
    said.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect()
}

/// A cause without its place.
fn without_place(cause: &str) -> &str {
    cause.trim_start_matches("anode: ").split_once(": ").map_or(cause, |(_, what)| what)
}

#[test]
fn every_wrong_program_is_refused_with_cause_place_and_remedy() {
    let mut wrong = Vec::new();
    for sample in samples() {
        let Sample { name, said, .. } = sample;
        let path = folder().join(format!("{name}.said"));
        if std::env::var_os("ANODE_BLESS").is_some() {
            fs::write(&path, &said.err).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let causes = causes(&said.err);
        let unique: BTreeSet<&str> = causes.iter().map(|cause| without_place(cause)).collect();
        let place = format!("{name}.c:");
        let has_line = |cause: &&str| {
            cause.split_once(&place).is_some_and(|(_, rest)| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        for (holds, what) in [
            (said.status == 1, "the status"),
            (is_as_kept(sample, &kept), "the words"),
            (said.err.contains("remedy: "), "no remedy"),
            (!causes.is_empty() && causes.iter().all(has_line), "no line"),
            (unique.len() == causes.len(), "twice"),
        ] {
            if !holds {
                wrong.push(format!("{name}: {what}: status {}\n{}", said.status, said.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn following_a_remedy_never_gives_the_message_again() {
    let mut wrong = Vec::new();
    for Sample { name, wrong: text, mended, said: before } in samples() {
        let mut after = vec![("the mended source", check(name, mended, &[]))];
        if before.err.contains("--only wasm") {
            after.push(("--only wasm", check(name, text, &["--only", "wasm"])));
        }
        for (what, after) in after {
            let again = causes(&before.err).iter().any(|cause| after.err.contains(without_place(cause)));
            if after.status != 0 || again || !after.out.contains("user_half: yes") {
                wrong.push(format!("{name}, {what}: status {}\n{}{}", after.status, after.out, after.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn capsule(payload: &str, before: &str, body: &str) -> String {
    format!(
        "#include <anode/capsule.h>\n{before}\nstruct p {{ {payload} }};\nAN_CAPSULE(p, struct p)\n{{\n    {body}\n    \
         return an_forward();\n}}\n"
    )
}

#[test]
fn a_verdict_is_given_for_each_half() {
    let text = capsule("be32 load;", "", "w->payload.load = an_be32(an_link_load(0));");
    let said = check("load", &text, &[]);
    let no = "kernel_half: no, an_link_load is not there (load.c:6): the code runs in the user half";
    assert!(
        said.status == 0 && said.out.contains("user_half: yes") && said.out.contains(no),
        "{}{}",
        said.out,
        said.err
    );
    let said = check("load", &text, &["--json"]);
    let value: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&value["user_half"]["runs"], &value["kernel_half"]["lacks"]), (&true.into(), &"an_link_load".into()));
    let said = check("load", &text, &["--only", "bpf"]);
    assert!(said.out.contains("user_half: no, it has no wasm representation"), "{}{}", said.out, said.err);
    let said = check("plain", &capsule("u32 n;", "", "w->payload.n++;"), &["--no-verifier"]);
    assert!(
        said.out.contains("kernel_half: yes by the checks of this program; its verifier was not asked"),
        "{}",
        said.out
    );
    if is_root() {
        let said = check("plain", &capsule("u32 n;", "", "w->payload.n++;"), &[]);
        assert!(
            said.status == 0 && said.out.contains("kernel_half: yes, its verifier goes through"),
            "{}{}",
            said.out,
            said.err
        );
    }
}

#[test]
fn the_natural_loop_over_a_window_is_taken_by_both_halves() {
    let body = "u32 sum = 0;\n    AN_EACH(i, w->payload.n, 8)\n        sum += an_be32(w->payload.hop[i]);\n    \
                w->payload.sum = an_be32(sum);";
    let said = check("each", &capsule("u8 n; u8 pad[3]; be32 sum; be32 hop[8];", "", body), &[]);
    assert!(
        said.status == 0 && said.err.is_empty() && said.out.contains("kernel_half: yes"),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn what_is_odd_and_allowed_is_said_once_with_its_line() {
    let gap = check("gap", &capsule("u8 n; be32 x;", "", "w->payload.n++;"), &[]);
    let warning = "gap.c:3: warning: padding struct 'struct p' with 3 bytes to align 'x' [-Wpadded]";
    assert!(gap.status == 0 && gap.err.starts_with(warning) && gap.err.matches("warning").count() == 1, "{}", gap.err);
    assert!(gap.err.contains("remedy: fill the gap by name"), "{}", gap.err);
    let odd = check("odd", &capsule("u8 n;", "", "w->payload.n++;"), &[]);
    assert!(odd.status == 0 && odd.err.is_empty(), "a window of one byte has no gap: {}", odd.err);
    let kept = capsule("u8 n;", "static u32 counter;", "w->payload.n = (u8)counter++;");
    let kept = check("kept", &kept, &["--only", "wasm"]);
    let warning = "kept.c:2: warning: 'counter' begins every packet with its first value";
    assert!(kept.status == 0 && kept.err.starts_with(warning), "{}", kept.err);
    let constant =
        capsule("u8 n;", "static const u8 table[4] = { 1, 2, 3, 9 };", "w->payload.n = table[w->payload.n & 3];");
    let constant = check("constant", &constant, &["--only", "wasm"]);
    assert!(constant.status == 0 && constant.err.is_empty(), "{}", constant.err);
}

#[test]
fn a_new_project_is_tested_and_known_to_compilers() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("data");
    let paths = std::env::join_paths(
        [Path::new(env!("CARGO_BIN_EXE_anode")).parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let made = anode(directory.path(), &["code", "new", "count"]);
    assert_eq!((made.status, made.out.trim()), (0, "./count"), "{}", made.err);
    let project = directory.path().join("count");
    let run = |program: &str, arguments: &[&str]| {
        let run = Command::new(program)
            .args(arguments)
            .current_dir(&project)
            .env("PATH", paths.as_ref().unwrap())
            .env("XDG_DATA_HOME", &home)
            .output()
            .unwrap();
        let said = [run.stdout, run.stderr].concat();
        (run.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let tested = run("./test.sh", &[]);
    assert!(tested.0 && tested.1.contains("delivered"), "{}", tested.1);
    let clang = anode::code::author::toolchain::find().unwrap();
    let flags = ["-fsyntax-only", "@compile_flags.txt", "count.c"];
    assert_eq!(run(clang.to_str().unwrap(), &flags), (true, String::new()));
    // What loses a capsule fails the test: a test that cannot fail is none.
    let source = fs::read_to_string(project.join("count.c")).unwrap();
    fs::write(project.join("count.c"), source.replace("return an_deliver()", "return an_drop()")).unwrap();
    let tested = run("./test.sh", &[]);
    assert!(!tested.0, "{}", tested.1);
    let sdk = anode(directory.path(), &["code", "sdk-path"]);
    assert!(Path::new(sdk.out.trim()).join("anode/capsule.h").is_file(), "{}", sdk.out);
    for (name, why) in
        [("count", "cannot be made"), ("9lives", "no name of a function"), ("a/b", "no name of a function")]
    {
        let said = anode(directory.path(), &["code", "new", name]);
        assert!(said.status == 1 && said.err.contains(why), "{name}: {}", said.err);
    }
}
