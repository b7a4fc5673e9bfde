//! Runs clang for both targets, in a directory of its own that is removed afterwards.
//!
//! The header is the one this binary was built with, so program and node speak the same version.
//! The flags are in [`super::toolchain`].

use super::Error;
use super::names::Names;
use super::said::{self, Said};
use super::toolchain::{self, BPF, COMMON, DEBUG, LINK, NATIVE, NATIVE_LINK, STRIP, WASM};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const HEADER: &str = include_str!("../../../sdk/anode/capsule.h");
/// The same of extensions, for whoever calls a compiler himself.
const OF_EXTENSIONS: &str = include_str!("../../../sdk/anode/extension.h");

/// A compiler and its working directory. Several of its runs at once are as good as one after the other.
pub(super) struct Clang {
    program: PathBuf,
    directory: PathBuf,
    names: Names,
    warnings: Mutex<Vec<Said>>,
}

impl Clang {
    /// Finds the compiler for a source and makes the directory.
    pub(super) fn new(program: Option<&Path>, source: &Path) -> Result<Clang, Error> {
        let program = match program {
            Some(program) => program.into(),
            None => toolchain::find().ok_or_else(|| Error::NoClang { tried: "clang".into() })?,
        };
        let directory = directory()?;
        let names = Names::new(source, Some(&directory));
        let clang = Clang { program, directory, names, warnings: Mutex::default() };
        write_header(&clang.directory).map_err(|(path, cause)| Error::Temporary { path, cause })?;
        Ok(clang)
    }

    /// Compiles for wasm32; the object file's bytes.
    pub(super) fn wasm_object(&self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("wasm32", &WASM, source, "wasm.o")
    }

    /// Links what [`Clang::wasm_object`] made; the module's bytes.
    pub(super) fn wasm_link(&self) -> Result<Vec<u8>, Error> {
        let mut arguments: Vec<OsString> = LINK.iter().map(Into::into).collect();
        arguments.push(self.directory.join("wasm.o").into());
        self.run("wasm32", arguments, "module.wasm")
    }

    /// Compiles for bpf; the object file's bytes.
    pub(super) fn bpf_object(&self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("bpf", &BPF, source, "bpf.o")
    }

    /// The same as [`Clang::bpf_object`] with debugging information.
    pub(super) fn bpf_traced(&self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("bpf", &[&BPF[..], &[DEBUG]].concat(), source, "bpf.g.o")
    }

    /// The same as [`Clang::wasm_object`] and [`Clang::wasm_link`] with debugging information.
    pub(super) fn wasm_traced(&self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("wasm32", &[&WASM[..], &[DEBUG]].concat(), source, "wasm.g.o")?;
        let mut arguments: Vec<OsString> = LINK.iter().filter(|flag| **flag != STRIP).map(Into::into).collect();
        arguments.push(self.directory.join("wasm.g.o").into());
        self.run("wasm32", arguments, "module.g.wasm")
    }

    /// How names of files are shortened.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Compiles for this processor; the object file's bytes.
    pub(super) fn native_object(&self, source: &Path) -> Result<Vec<u8>, Error> {
        self.compile("native", &NATIVE, source, "native.o")
    }

    /// Links what [`Clang::native_object`] made with this table in C; the shared object's bytes.
    pub(super) fn native_link(&self, table: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join("table.c");
        fs::write(&path, table).map_err(|cause| Error::Temporary { path: path.clone(), cause })?;
        let flags = COMMON.iter().chain(&NATIVE).chain(&NATIVE_LINK);
        let mut arguments: Vec<OsString> = flags.map(Into::into).collect();
        arguments.extend([self.directory.join("native.o").into(), path.into()]);
        self.run("native", arguments, "native.so")
    }

    /// What the compiler said without refusing, each warning once, whatever it is compiled for.
    pub(super) fn warnings(&self) -> String {
        said::show(&self.warnings.lock().unwrap_or_else(PoisonError::into_inner), false, None)
    }

    fn compile(&self, target: &'static str, flags: &[&str], source: &Path, output: &str) -> Result<Vec<u8>, Error> {
        fs::metadata(source).map_err(|cause| Error::Unreadable { path: source.into(), cause })?;
        let mut arguments: Vec<OsString> = COMMON.iter().chain(flags).map(Into::into).collect();
        arguments.push("-I".into());
        arguments.push(self.directory.clone().into());
        // A name that begins with a dash is a file too.
        let source = if source.is_absolute() { source.into() } else { Path::new(".").join(source) };
        arguments.extend(["-c".into(), source.into()]);
        self.run(target, arguments, output)
    }

    fn run(&self, target: &'static str, arguments: Vec<OsString>, output: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(output);
        let result = Command::new(&self.program)
            .args(arguments)
            .arg("-o")
            .arg(&path)
            .env("LC_ALL", "C")
            .output()
            .map_err(|cause| Error::NoClang { tried: format!("{}: {cause}", self.program.display()) })?;
        let output = String::from_utf8_lossy(&result.stderr).replace(&format!("{}/", self.directory.display()), "");
        let said = said::read(&output, &self.names);
        if result.status.success() {
            self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
            return fs::read(&path).map_err(|cause| Error::Temporary { path, cause });
        }
        if toolchain::lacks_linker(&output) {
            return Err(Error::NoLinker { output });
        }
        let shown = said::show(&said, true, None);
        let output = if shown.is_empty() { output } else { shown };
        Err(Error::Compile { target, output, said })
    }
}

impl Drop for Clang {
    fn drop(&mut self) {
        // Nothing depends on it: a directory that stays behind is only untidy.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Puts the headers where `-I DIRECTORY` finds them, and gives that of capsules; the file that cannot be written is in an error.
pub fn write_header(directory: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    let sdk = directory.join("anode");
    let written = |name: &str, text: &str| {
        let path = sdk.join(name);
        match fs::create_dir_all(&sdk).and_then(|()| fs::write(&path, text)) {
            Ok(()) => Ok(path),
            Err(cause) => Err((path, cause)),
        }
    };
    written("extension.h", OF_EXTENSIONS)?;
    written("capsule.h", HEADER)
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
