//! Builds programs in C against `sdk/anode/nodeos.h` and the library of this build.
#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program has the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// In itself.
    Static,
    /// Beside itself.
    Shared,
    /// In the node, whose process it is for: a shared object.
    Here,
    /// In the node, that runs it as a module.
    Module,
}

/// How clang makes a module, as docs/nodeos.md says it.
const MODULE: [&str; 5] = [
    "--target=wasm32",
    "-mbulk-memory",
    "-O2",
    "-nostdlib",
    "-Wl,--no-entry,--stack-first,--allow-undefined,--export=__main_argc_argv,--export-table",
];

/// Where the library is: beside the programs of the tests.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().to_owned();
    assert!(folder.join("libanode1.so").exists(), "the library is built with what depends on it: {}", folder.display());
    folder
}

/// Builds the program of a file into a folder.
pub fn build(source: &str, into: &Path, flags: &[&str], linked: Linked) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = into.join(Path::new(source).file_stem().unwrap());
    match linked {
        Linked::Here => program.set_extension("so"),
        Linked::Module => program.set_extension("wasm"),
        Linked::Static | Linked::Shared => false,
    };
    let library = library();
    let is_module = linked == Linked::Module;
    let clang = std::env::var("CLANG").unwrap_or("clang".into());
    let mut command = Command::new(if is_module { &clang } else { "cc" });
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("sdk")).args(flags);
    command.arg("-o").arg(&program).arg(root.join(source));
    match linked {
        Linked::Static => command.arg(library.join("libanode1.a")).args(["-lpthread", "-ldl", "-lm"]),
        Linked::Here => command.args(["-shared", "-fPIC", "-DHERE"]),
        Linked::Module => command.args(MODULE).arg("-isystem").arg(root.join("sdk/module")),
        Linked::Shared => {
            command.arg("-L").arg(&library).arg("-lanode1").arg(format!("-Wl,-rpath,{}", library.display()))
        }
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    program
}
