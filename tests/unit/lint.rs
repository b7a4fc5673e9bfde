//! The second opinion of `anode code check`: PREVAIL as a process of its own.
//!
//! If it is installed (`cargo install prevail`) the real one is asked; what it does when it fails, hangs, floods or is missing is
//! shown by processes that do just that. Its words as documented stand in a script, for hosts without it.

use anode::code::author::lint::{Lint, Prevail, lint};
use anode::code::author::{self, AuthorOptions};
use anode::code::bundle::{Bundle, Insn, Kind, Program};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn guest(name: &str) -> Bundle {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/guests/{name}.c"));
    author::build(&source, &AuthorOptions::default()).unwrap()
}

fn asked(program: PathBuf, patience: Duration, bundle: &Bundle) -> Lint {
    let bytes = bundle.representation(Kind::Bpf).unwrap();
    let line = |at| bundle.lines()?.find(Kind::Bpf, at);
    lint(&Prevail { program, patience }, bytes, bundle.manifest().window(), line).unwrap()
}

/// A process that does what `script` says.
fn script(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("prevail");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join("prevail")).find(|program| program.is_file())
}

#[test]
fn the_real_one_passes_good_code_and_points_at_what_it_doubts() {
    let Some(prevail) = installed() else {
        return println!("SKIPPED: prevail is not installed (cargo install prevail)");
    };
    let patience = Duration::from_secs(60);
    for name in ["forward", "ping", "calls", "state", "changes", "symbols"] {
        let said = asked(prevail.clone(), patience, &guest(name));
        assert!(matches!(said, Lint::Passes { .. }), "{name}: {said}");
    }
    // Behind the window: `r0 = *(u32 *)(r2 + 4096)`.
    let insn = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    let code = vec![insn(0xb7, 0, 0, 0, 1), insn(0x61, 0, 2, 4096, 0), insn(0x95, 0, 0, 0, 0)];
    let program = Program { symbols: Vec::new(), code };
    let bad = Bundle::build("bad", 8, &[(Kind::Bpf, program.encode().into())], None).unwrap();
    let Lint::Doubts { instruction, .. } = asked(prevail, patience, &bad) else { panic!("it passes") };
    assert_eq!(instruction.as_deref(), Some("1: r0 = *(u32 *)(r2 + 4096)"));
}

#[test]
fn its_words_are_understood() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = guest("ping");
    let said = |words: &str| {
        let program = script(directory.path(), &format!("cat <<'END'\n{words}\nEND"));
        asked(program, Duration::from_secs(60), &bundle)
    };
    let passes = "PASS: xdp/capsule (terminates within 17 loop iterations)";
    assert_eq!(said(passes), Lint::Passes { rounds: Some(17) });
    assert_eq!(said("PASS: xdp/capsule"), Lint::Passes { rounds: None });
    let Lint::Doubts { why, instruction, source } =
        said("FAIL: xdp/capsule\n17/20: Upper bound must be at most 5 (r1)\nHint: x")
    else {
        panic!("not understood")
    };
    assert_eq!(why, "Upper bound must be at most 5 (r1)");
    assert!(instruction.unwrap().starts_with("2: ") && source.unwrap().contains(".c:"), "behind 18 of the runner's");
    let Lint::Failed { why } = said("error: unsupported function: an_x") else { panic!("not understood") };
    assert!(why.contains("unsupported function"));
}

#[test]
fn whatever_it_does_it_ends_and_the_check_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = guest("forward");
    let long = Duration::from_secs(60);
    assert_eq!(asked("/nonexistent/prevail".into(), long, &bundle), Lint::Absent);
    assert!(asked("/nonexistent/prevail".into(), long, &bundle).to_string().contains("not installed"));
    let hangs = script(directory.path(), "exec sleep 1000");
    let Lint::Failed { why } = asked(hangs, Duration::from_millis(1), &bundle) else { panic!("it hangs") };
    assert!(why.contains("took longer"), "{why}");
    let floods = script(directory.path(), "yes 'FAIL: x' | head -c 10000000; kill -SEGV $$");
    assert!(matches!(asked(floods, long, &bundle), Lint::Doubts { .. }));
    let silent = script(directory.path(), "exit 3");
    assert_eq!(asked(silent, long, &bundle), Lint::Failed { why: "it said nothing".into() });
}
