//! The contract of the two halves (`src/contract`) for the parsers, as the node's own build makes it.

#[path = "../src/contract/btf.rs"]
mod btf;
// The checks of structures are for the C library alone.
#[allow(dead_code)]
#[path = "../src/contract/constants.rs"]
mod constants;

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    for watched in ["build.rs", "../bpf", "../sdk/anode", "../src/contract"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    let object = out.join("contract.bpf.o");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let flags = ["--target=bpfel", "-mcpu=v3", "-O2", "-g", "-ffreestanding", "-I", "../sdk", "-c"];
    let done = Command::new(clang).args(flags).arg("../bpf/contract.bpf.c").arg("-o").arg(&object).status();
    assert!(done.expect("clang is there").success(), "clang failed");
    let bytes = fs::read(object).expect("clang has written it");
    let text = btf::Types::of(&bytes).and_then(|types| constants::constants(&types));
    fs::write(out.join("contract.rs"), text.expect("the contract can be read")).expect("there is room");
}
