//! Compiles the C of the crate with clang into `OUT_DIR`. That is programs for the kernel, and the shipped applications
//! (`apps/*.c`) for wasm32 and bpf, with the flags of `anode code build`. It also generates Rust constants from
//! `bpf/contract.bpf.c` (`src/contract`).

#[path = "src/contract/btf.rs"]
mod btf;
// The checks of structures are for the C library alone.
#[allow(dead_code)]
#[path = "src/contract/constants.rs"]
mod constants;
// The flags of native code are the command's alone.
#[allow(dead_code)]
#[path = "src/code/author/toolchain.rs"]
mod toolchain;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Flags for programs for the kernel.
const KERNEL: [&str; 6] = ["--target=bpfel", "-mcpu=v3", "-O2", "-g0", "-Wall", "-Wextra"];

/// Flags for the contract, which is no program: with debugging information.
const CONTRACT: [&str; 9] =
    ["--target=bpfel", "-mcpu=v3", "-O2", "-g", "-ffreestanding", "-Wall", "-Wextra", "-I", "sdk"];

fn main() -> ExitCode {
    for watched in ["build.rs", "apps", "bpf", "sdk/anode", "src/code/author/toolchain.rs", "src/contract"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    // Trusted environments in the node's process call the functions of the C library, which is part of the program.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=an_*");
    match compile_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            for line in why.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn compile_all() -> Result<(), String> {
    let clang = match env::var_os("CLANG") {
        Some(program) => PathBuf::from(program),
        None => toolchain::find().ok_or_else(|| format!("clang is missing; {}", toolchain::REMEDY))?,
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in [
        "guard", "raise", "route", "filter", "ingress", "learn", "runner", "sender", "act", "family", "later", "seen",
        "seen_out", "egress", "sockets", "found", "cut", "graph", "refused", "state", "vectors",
    ] {
        let (source, object) = (format!("bpf/{name}.bpf.c"), out.join(format!("{name}.bpf.o")));
        run(&clang, KERNEL.iter().chain(&["-c", &source]), &object.to_string_lossy())?;
    }
    write_contract(&clang, &out)?;
    let entries = fs::read_dir("apps").map_err(|error| format!("apps: {error}"))?;
    for entry in entries {
        let source = entry.map_err(|error| format!("apps: {error}"))?.path();
        if source.extension().is_some_and(|ending| ending == "c") {
            compile_app(&clang, &source, &out)?;
        }
    }
    Ok(())
}

/// What `bpf/contract.bpf.c` says, as Rust.
fn write_contract(clang: &Path, out: &Path) -> Result<(), String> {
    let object = out.join("contract.bpf.o");
    run(clang, CONTRACT.iter().chain(&["-c", "bpf/contract.bpf.c"]), &object.to_string_lossy())?;
    let bytes = fs::read(&object).map_err(|error| format!("{}: {error}", object.display()))?;
    let text = btf::Types::of(&bytes).and_then(|types| constants::constants(&types));
    let text = text.map_err(|error| format!("bpf/contract.bpf.c: {error}"))?;
    fs::write(out.join("contract.rs"), text).map_err(|error| format!("contract.rs: {error}"))
}

/// A capsule: linked for wasm32, an object file for bpf.
fn compile_app(clang: &Path, source: &Path, out: &Path) -> Result<(), String> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let at = |ending: &str| out.join(format!("{name}.{ending}")).to_string_lossy().into_owned();
    let text = source.to_string_lossy().into_owned();
    let unlinked = at("wasm.o");
    let compile = ["-I", "sdk", "-c", &text];
    run(clang, toolchain::COMMON.iter().chain(&toolchain::WASM).chain(&compile), &unlinked)?;
    run(clang, toolchain::COMMON.iter().chain(&toolchain::BPF).chain(&compile), &at("bpf.o"))?;
    run(clang, toolchain::LINK.iter().chain(&[unlinked.as_str()]), &at("wasm"))
}

fn run<'a>(clang: &Path, arguments: impl Iterator<Item = &'a &'a str>, output: &str) -> Result<(), String> {
    let result = Command::new(clang).args(arguments).args(["-Werror", "-o", output]).env("LC_ALL", "C").output();
    let result = result.map_err(|error| format!("cannot run {}: {error}; {}", clang.display(), toolchain::REMEDY))?;
    let said = String::from_utf8_lossy(&result.stderr);
    if result.status.success() {
        Ok(())
    } else if toolchain::lacks_linker(&said) {
        Err(format!("clang finds no linker for wasm; {}", toolchain::REMEDY))
    } else {
        Err(format!("clang failed:\n{said}"))
    }
}
