//! Runs clang for both targets, in a directory of its own that is removed afterwards.
//!
//! The header is the one this binary was built with, so program and node speak the same version.
//! The flags are in [`super::toolchain`].

use super::Error;
use super::lines::Names;
use super::toolchain::{self, BPF, COMMON, DEBUG, LINK, NATIVE, NATIVE_LINK, STRIP, WASM};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const HEADER: &str = include_str!("../../../sdk/anode/capsule.h");

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
            None => toolchain::find().ok_or_else(|| Error::NoClang { tried: "clang".into() })?,
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

    /// The same as [`Clang::bpf_object`] with debugging information. What it says has been said.
    pub(super) fn bpf_traced(&mut self, source: &Path) -> Result<Vec<u8>, Error> {
        self.quietly(|clang| clang.compile("bpf", &[&BPF[..], &[DEBUG]].concat(), source, "bpf.g.o"))
    }

    /// The same as [`Clang::wasm_object`] and [`Clang::wasm_link`] with debugging information.
    pub(super) fn wasm_traced(&mut self, source: &Path) -> Result<Vec<u8>, Error> {
        self.quietly(|clang| {
            clang.compile("wasm32", &[&WASM[..], &[DEBUG]].concat(), source, "wasm.g.o")?;
            let mut arguments: Vec<OsString> = LINK.iter().filter(|flag| **flag != STRIP).map(Into::into).collect();
            arguments.push(clang.directory.join("wasm.g.o").into());
            clang.run("wasm32", arguments, "module.g.wasm")
        })
    }

    fn quietly<T>(&mut self, work: impl FnOnce(&mut Clang) -> T) -> T {
        let said = self.warnings.len();
        let done = work(self);
        self.warnings.truncate(said);
        done
    }

    /// How names of files are shortened.
    pub(super) fn names(&self, source: &Path) -> Names {
        Names::new(source, Some(&self.directory))
    }

    /// Compiles for this processor; the object file's bytes.
    pub(super) fn native_object(&mut self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("native", &NATIVE, source, "native.o")
    }

    /// Links what [`Clang::native_object`] made with this table in C; the shared object's bytes.
    pub(super) fn native_link(&mut self, table: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join("table.c");
        fs::write(&path, table).map_err(|cause| Error::Temporary { path: path.clone(), cause })?;
        let flags = COMMON.iter().chain(&NATIVE).chain(&NATIVE_LINK);
        let mut arguments: Vec<OsString> = flags.map(Into::into).collect();
        arguments.extend([self.directory.join("native.o").into(), path.into()]);
        self.run("native", arguments, "native.so")
    }

    /// What the compiler said without refusing; the same warning for all targets once.
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
        if toolchain::lacks_linker(&said) {
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

/// A new directory that only this user can enter.
pub(super) fn directory() -> Result<PathBuf, Error> {
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
