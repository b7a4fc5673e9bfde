//! Runs clang for both targets, in a directory of its own that is removed afterwards.
//!
//! The header is the one this binary was built with, so program and node speak the same version.
//! The flags leave nothing to the version of clang that would change the meaning: plain
//! WebAssembly plus mutable globals and sign extension, BPF instructions of version 3, no debug
//! information, no paths in the output.

use super::Error;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const HEADER: &str = include_str!("../../../sdk/anode/capsule.h");

/// Bytes of stack of a wasm program; bpf has 512.
const STACK: &str = "-Wl,-z,stack-size=1024";

const COMMON: [&str; 7] =
    ["-O2", "-std=gnu17", "-ffreestanding", "-Wall", "-Wextra", "-fno-ident", "-fno-asynchronous-unwind-tables"];
const WASM: [&str; 5] = ["--target=wasm32", "-mcpu=mvp", "-mmutable-globals", "-msign-ext", "-fvisibility=hidden"];
const BPF: [&str; 4] = ["--target=bpfel", "-mcpu=v3", "-ffunction-sections", "-fno-jump-tables"];
const LINK: [&str; 11] = [
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
    STACK,
];

/// The newest version of clang that is looked for by number.
const NEWEST: u32 = 30;
const OLDEST: u32 = 14;

/// A compiler and its working directory.
pub(super) struct Clang {
    program: PathBuf,
    directory: PathBuf,
    warnings: Vec<String>,
}

impl Clang {
    /// Finds the compiler and makes the directory.
    pub(super) fn new(program: Option<&Path>) -> Result<Clang, Error> {
        let program = match program {
            Some(program) => program.into(),
            None => find()?,
        };
        let clang = Clang { program, directory: directory()?, warnings: Vec::new() };
        let sdk = clang.directory.join("anode");
        fs::create_dir(&sdk)
            .and_then(|()| fs::write(sdk.join("capsule.h"), HEADER))
            .map_err(|cause| Error::Temporary { path: sdk, cause })?;
        Ok(clang)
    }

    /// Compiles for wasm32; the object file's bytes.
    pub(super) fn wasm_object(&mut self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("wasm32", &WASM, source, "wasm.o")
    }

    /// Links what [`Clang::wasm_object`] made; the module's bytes.
    pub(super) fn wasm_link(&mut self) -> Result<Vec<u8>, Error> {
        let mut arguments: Vec<OsString> = LINK.iter().map(Into::into).collect();
        arguments.push(self.directory.join("wasm.o").into());
        self.run("wasm32", arguments, "module.wasm")
    }

    /// Compiles for bpf; the object file's bytes.
    pub(super) fn bpf_object(&mut self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("bpf", &BPF, source, "bpf.o")
    }

    /// What the compiler said without refusing; the same warning for both targets once.
    pub(super) fn warnings(&self) -> String {
        let mut warnings = self.warnings.clone();
        warnings.dedup();
        warnings.concat()
    }

    fn compile(&mut self, target: &'static str, flags: &[&str], source: &Path, output: &str) -> Result<Vec<u8>, Error> {
        fs::metadata(source).map_err(|cause| Error::Unreadable { path: source.into(), cause })?;
        let mut arguments: Vec<OsString> = COMMON.iter().chain(flags).map(Into::into).collect();
        arguments.push("-I".into());
        arguments.push(self.directory.clone().into());
        // A name that begins with a dash is a file too.
        let source = if source.is_absolute() { source.into() } else { Path::new(".").join(source) };
        arguments.extend(["-c".into(), source.into()]);
        self.run(target, arguments, output)
    }

    fn run(&mut self, target: &'static str, arguments: Vec<OsString>, output: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(output);
        let result = Command::new(&self.program)
            .args(arguments)
            .arg("-o")
            .arg(&path)
            .env("LC_ALL", "C")
            .output()
            .map_err(|cause| Error::NoClang { tried: format!("{}: {cause}", self.program.display()) })?;
        let said = String::from_utf8_lossy(&result.stderr).replace(&format!("{}/", self.directory.display()), "");
        if result.status.success() {
            self.warnings.push(said);
            return fs::read(&path).map_err(|cause| Error::Temporary { path, cause });
        }
        if said.contains("wasm-ld") && (said.contains("unable to execute") || said.contains("posix_spawn")) {
            return Err(Error::NoLinker { output: said });
        }
        Err(Error::Compile { target, output: said })
    }
}

impl Drop for Clang {
    fn drop(&mut self) {
        // Nothing depends on it: a directory that stays behind is only untidy.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// `clang`, or the newest `clang-N` on the path.
fn find() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    core::iter::once("clang".to_owned())
        .chain((OLDEST..=NEWEST).rev().map(|version| format!("clang-{version}")))
        .find_map(|name| directories.iter().map(|directory| directory.join(&name)).find(|program| program.is_file()))
        .ok_or_else(|| Error::NoClang { tried: "clang".into() })
}

/// A new directory that only this user can enter.
fn directory() -> Result<PathBuf, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anode-code-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(Error::Temporary { path, cause }),
        }
    }
}
