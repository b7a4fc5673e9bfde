//! Finds clang and calls it, for `anode code build` and, through `build.rs`, for the shipped applications. So both make
//! the same bytes of the same source.
//!
//! The flags leave nothing to the version of clang that would change the meaning: plain WebAssembly plus mutable
//! globals, sign extension and vectors, BPF instructions of version 3, no debug information, no paths in the output.
//! Uses the standard library only.

use std::path::PathBuf;

/// Flags of both targets.
pub(crate) const COMMON: [&str; 12] = [
    "-O2",
    "-std=gnu17",
    "-ffreestanding",
    "-Wall",
    "-Wextra",
    // What a payload has between its members would travel unset.
    "-Wpadded",
    "-Werror=return-type",
    "-Werror=implicit-function-declaration",
    "-Werror=vla",
    "-fno-crash-diagnostics",
    "-fno-ident",
    "-fno-asynchronous-unwind-tables",
];

/// Flags for an object file for wasm32.
pub(crate) const WASM: [&str; 6] =
    ["--target=wasm32", "-mcpu=mvp", "-mmutable-globals", "-msign-ext", "-msimd128", "-fvisibility=hidden"];

/// Flags for an object file for bpf.
pub(crate) const BPF: [&str; 4] = ["--target=bpfel", "-mcpu=v3", "-ffunction-sections", "-fno-jump-tables"];

/// The flag for debugging information: only lines are taken of it.
pub(crate) const DEBUG: &str = "-g";

/// What is left out of [`LINK`] to keep it.
pub(crate) const STRIP: &str = "-Wl,--strip-all";

/// Flags for an object file for this processor.
pub(crate) const NATIVE: [&str; 5] =
    ["-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-fno-jump-tables", "-DAN_NATIVE"];

/// Flags for linking that with its table to a shared object that needs nobody.
pub(crate) const NATIVE_LINK: [&str; 10] = [
    "-shared",
    "-nostdlib",
    "-fuse-ld=lld",
    "-Wl,--no-undefined",
    "-Wl,--build-id=none",
    "-Wl,--strip-all",
    "-Wl,--gc-sections",
    "-Wl,-z,now",
    "-Wl,-z,noexecstack",
    "-Wl,-z,max-page-size=4096",
];

/// Flags for linking the object file for wasm32 to a module; 1024 bytes of stack (bpf has 512).
pub(crate) const LINK: [&str; 11] = [
    "--target=wasm32",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--stack-first",
    "-Wl,--gc-sections",
    "-Wl,--strip-all",
    "-Wl,--export=capsule",
    "-Wl,--export=an_arena",
    "-Wl,--export=__stack_pointer",
    "-Wl,--export=__heap_base",
    "-Wl,-z,stack-size=1024",
];

/// What to do if there is no clang or no linker.
pub(crate) const REMEDY: &str = "install it: apt-get install clang lld";

/// The versions of clang that are looked for by number.
const VERSIONS: core::ops::RangeInclusive<u32> = 14..=30;

/// `clang`, or the newest `clang-N` on the path.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    core::iter::once("clang".to_owned())
        .chain(VERSIONS.rev().map(|version| format!("clang-{version}")))
        .find_map(|name| directories.iter().map(|directory| directory.join(&name)).find(|program| program.is_file()))
}

/// Whether what clang said means that it found no linker for wasm.
pub(crate) fn lacks_linker(said: &str) -> bool {
    (said.contains("wasm-ld") || said.contains("lld"))
        && (said.contains("unable to execute") || said.contains("posix_spawn") || said.contains("invalid linker name"))
}
