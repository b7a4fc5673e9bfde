//! Compares the library's structures with those of `sdk/anode/nodeos.h`: clang compiles `contract.c`, and its layouts
//! become checks and numbers (`src/layout.rs`). The header's calls become the binding of modules (`build/calls.rs`).

#[path = "../src/contract/btf.rs"]
mod btf;
#[path = "build/calls.rs"]
mod calls;
// Constants of places are for the node alone.
#[allow(dead_code)]
#[path = "../src/contract/constants.rs"]
mod constants;
// No program is linked here.
#[allow(dead_code)]
#[path = "../src/code/author/toolchain.rs"]
mod toolchain;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Flags for both targets.
const COMMON: [&str; 6] = ["-ffreestanding", "-Wall", "-Wextra", "-Werror", "-I", "../sdk"];

fn main() -> ExitCode {
    for watched in [
        "build.rs",
        "build",
        "contract.c",
        "../sdk/anode/nodeos.h",
        "../src/contract",
        "../src/code/author/toolchain.rs",
    ] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    match write_layout().and_then(|()| write_calls()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            why.lines().for_each(|line| println!("cargo::error={line}"));
            ExitCode::FAILURE
        }
    }
}

fn clang() -> Result<PathBuf, String> {
    match env::var_os("CLANG") {
        Some(program) => Ok(PathBuf::from(program)),
        None => toolchain::find().ok_or_else(|| format!("clang is missing; {}", toolchain::REMEDY)),
    }
}

fn write_layout() -> Result<(), String> {
    let clang = clang()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (object, again) = (out.join("contract.o"), out.join("contract.c"));
    // Only the target of bpf has type information of this form …
    run(&clang, &["--target=bpfel", "-g", "-O2", "-c", "contract.c", "-o", &object.to_string_lossy()])?;
    let bytes = fs::read(&object).map_err(|error| format!("{}: {error}", object.display()))?;
    let said = |error| format!("libanode/contract.c: {error}");
    let types = btf::Types::of(&bytes).map_err(said)?;
    let text = constants::checks(&types).and_then(|checks| Ok(checks + &constants::numbers(&types)?));
    fs::write(out.join("layout.rs"), text.map_err(said)?).map_err(|error| format!("layout.rs: {error}"))?;
    // … and the target of this build lays all of it out alike.
    let text = format!("#include <anode/nodeos.h>\n{}", constants::assertions(&types).map_err(said)?);
    fs::write(&again, text).map_err(|error| format!("{}: {error}", again.display()))?;
    let target = format!("--target={}", env::var("TARGET").unwrap_or_default());
    run(&clang, &[&target, "-fsyntax-only", &again.to_string_lossy()])
}

fn write_calls() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let header = fs::read_to_string("../sdk/anode/nodeos.h").map_err(|error| format!("nodeos.h: {error}"))?;
    let (table, asserted) = calls::table(&header).map_err(|error| format!("sdk/anode/nodeos.h: {error}"))?;
    for (text, target) in asserted.iter().zip(["wasm32".into(), env::var("TARGET").unwrap_or_default()]) {
        let file = out.join("calls.c");
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        run(&clang()?, &[&format!("--target={target}"), "-fsyntax-only", &file.to_string_lossy()])?;
    }
    fs::write(out.join("calls.rs"), table).map_err(|error| format!("calls.rs: {error}"))
}

fn run(clang: &Path, arguments: &[&str]) -> Result<(), String> {
    let result = Command::new(clang).args(COMMON).args(arguments).env("LC_ALL", "C").output();
    let result = result.map_err(|error| format!("cannot run {}: {error}; {}", clang.display(), toolchain::REMEDY))?;
    let said = String::from_utf8_lossy(&result.stderr);
    if result.status.success() { Ok(()) } else { Err(format!("clang failed:\n{said}")) }
}
