//! Compiles the C that the crate carries: programs for the kernel, with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    compile(
        Path::new("bpf/guard.bpf.c"),
        &out.join("guard.bpf.o"),
        &["--target=bpfel", "-mcpu=v3", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-c"],
    );
}

fn compile(source: &Path, object: &Path, flags: &[&str]) {
    println!("cargo::rerun-if-changed={}", source.display());
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    match Command::new(&clang).args(flags).arg(source).arg("-o").arg(object).status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("clang could not compile {}: {status}", source.display()),
        Err(error) => {
            panic!("cannot run {}: {error}. Install clang and lld (Debian: apt install clang lld).", clang.display())
        }
    }
}
