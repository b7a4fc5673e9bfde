//! Compiles the C baselines of `bench/c` when a benchmark needs them.
//!
//! The sources are part of the binary, so that `anode bench` works away from the repository. They are compiled by
//! `cc -O2` (or `$CC`), those for the kernel by clang, into `$XDG_CACHE_HOME/anode/bench/HASH`, where HASH covers
//! sources, flags and the version of the compiler: a change of any compiles anew, anything else is found there.
//! Programs appear by rename, so two benchmarks may start at the same time.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::Error;
use anode::code::author::toolchain;

const FLAGS: [&str; 4] = ["-std=gnu11", "-O2", "-Wall", "-Wextra"];
/// Flags for programs for the kernel.
const KERNEL_FLAGS: [&str; 9] =
    ["--target=bpfel", "-mcpu=v3", "-O2", "-g0", "-Wall", "-Wextra", "-std=gnu17", "-ffreestanding", "-c"];
const HEADERS: [(&str, &str); 5] = [
    ("bench.h", include_str!("../c/bench.h")),
    ("frame.h", include_str!("../c/frame.h")),
    ("bpf.h", include_str!("../c/bpf.h")),
    ("hop.h", include_str!("../c/hop.h")),
    ("program.h", include_str!("../c/program.h")),
];
const SOURCES: [(&str, &str); 7] = [
    ("launch", include_str!("../c/launch.c")),
    ("burst", include_str!("../c/burst.c")),
    ("udpgw", include_str!("../c/udpgw.c")),
    ("packetgw", include_str!("../c/packetgw.c")),
    ("echo", include_str!("../c/echo.c")),
    ("rtt", include_str!("../c/rtt.c")),
    ("pace", include_str!("../c/pace.c")),
];
/// Programs that need the headers of a kernel with live frames (5.18).
const KERNEL_SOURCES: [(&str, &str); 8] = [
    ("flood", include_str!("../c/flood.c")),
    ("router", include_str!("../c/router.c")),
    ("children", include_str!("../c/children.c")),
    ("copier", include_str!("../c/copier.c")),
    ("pingpong", include_str!("../c/pingpong.c")),
    ("witness", include_str!("../c/witness.c")),
    ("stream", include_str!("../c/stream.c")),
    ("xdpgw", include_str!("../c/xdpgw.c")),
];
/// Programs for the kernel.
const OBJECTS: [(&str, &str); 4] = [
    ("flood.bpf", include_str!("../c/flood.bpf.c")),
    ("router.bpf", include_str!("../c/router.bpf.c")),
    ("copier.bpf", include_str!("../c/copier.bpf.c")),
    ("children.bpf", include_str!("../c/children.bpf.c")),
];

/// The compiled programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Starts a program in its place (namespace, CPU, scheduling class) and ties it to this process.
    pub(crate) launch: PathBuf,
    /// Burst generator and sink.
    pub(crate) burst: PathBuf,
    /// Plain UDP gateway.
    pub(crate) udpgw: PathBuf,
    /// Plain AF_PACKET forwarder.
    pub(crate) packetgw: PathBuf,
    /// Plain echo.
    pub(crate) echo: PathBuf,
    /// Asks it, and times the answers.
    pub(crate) rtt: PathBuf,
    /// Generator at a rate, and a sink that counts.
    pub(crate) pace: PathBuf,
    folder: PathBuf,
}

/// The compiled programs of in-kernel paths.
#[derive(Clone, Debug)]
pub(crate) struct KernelPrograms {
    /// Generator and sink.
    pub(crate) flood: PathBuf,
    /// Its programs in the kernel.
    pub(crate) flood_object: PathBuf,
    /// Attaches a forwarder.
    pub(crate) router: PathBuf,
    /// The forwarders.
    pub(crate) router_object: PathBuf,
    /// Attaches what sends children.
    pub(crate) children: PathBuf,
    /// The ways to do that.
    pub(crate) children_object: PathBuf,
    /// Puts a copy before a node's ingress.
    pub(crate) copier: PathBuf,
    /// The copy.
    pub(crate) copier_object: PathBuf,
    /// Both ends of a ping-pong.
    pub(crate) pingpong: PathBuf,
    /// Sees when capsules arrive.
    pub(crate) witness: PathBuf,
    /// Both ends of a TCP stream.
    pub(crate) stream: PathBuf,
    /// Plain AF_XDP forwarder.
    pub(crate) xdpgw: PathBuf,
}

impl Programs {
    /// Compiles what is not there yet.
    pub(crate) fn ready() -> Result<Programs, Error> {
        Programs::ready_with(&compiler(), &cache())
    }

    fn ready_with(cc: &OsString, cache: &Path) -> Result<Programs, Error> {
        let version =
            Command::new(cc).arg("--version").output().map_err(|cause| Error::NoCompiler { cc: cc.clone(), cause })?;
        let folder = cache.join(fingerprint(&version.stdout));
        let failed = |cause| Error::Write { path: folder.clone(), cause };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        for (name, source) in SOURCES {
            compile(cc, &FLAGS, &folder, name, source)?;
        }
        let at = |name: &str| folder.join(name);
        Ok(Programs {
            launch: at("launch"),
            burst: at("burst"),
            udpgw: at("udpgw"),
            packetgw: at("packetgw"),
            echo: at("echo"),
            rtt: at("rtt"),
            pace: at("pace"),
            folder,
        })
    }

    /// Compiles what in-kernel paths need and is not there yet.
    pub(crate) fn kernel(&self) -> Result<KernelPrograms, Error> {
        for (name, source) in KERNEL_SOURCES {
            compile(&compiler(), &FLAGS, &self.folder, name, source)?;
        }
        let clang = toolchain::find().unwrap_or_else(|| "clang".into()).into_os_string();
        for (name, source) in OBJECTS {
            compile(&clang, &KERNEL_FLAGS, &self.folder, name, source)?;
        }
        let at = |name: &str| self.folder.join(name);
        Ok(KernelPrograms {
            flood: at("flood"),
            flood_object: at("flood.bpf"),
            router: at("router"),
            router_object: at("router.bpf"),
            children: at("children"),
            children_object: at("children.bpf"),
            copier: at("copier"),
            copier_object: at("copier.bpf"),
            pingpong: at("pingpong"),
            witness: at("witness"),
            stream: at("stream"),
            xdpgw: at("xdpgw"),
        })
    }
}

impl Programs {
    /// The scheduling class under which `launch` starts programs here.
    pub(crate) fn scheduling_class(&self) -> &'static str {
        let stat = Command::new(&self.launch).args(["-s", "cat", "/proc/self/stat"]).output();
        let stat = stat.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        // proc_pid_stat(5): the policy is field 41, thus the 39th after the name in parentheses.
        match stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38)) {
            Some("1") => "SCHED_FIFO",
            Some("3") => "SCHED_BATCH (foreign processes may cut batches: run as root for SCHED_FIFO)",
            _ => "an unknown scheduling class",
        }
    }
}

/// The C compiler: `$CC` or `cc`.
pub(crate) fn compiler() -> OsString {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into())
}

/// The folder of this user for things that can be made again. Never a shared one: its programs are run.
fn cache() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(|| PathBuf::from("target")).join("anode/bench")
}

fn fingerprint(compiler_version: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(compiler_version);
    for flag in FLAGS.iter().chain(&KERNEL_FLAGS) {
        hash.update(flag);
    }
    for (name, text) in SOURCES.iter().chain(&HEADERS).chain(&KERNEL_SOURCES).chain(&OBJECTS) {
        hash.update(name);
        hash.update(text);
    }
    hex::encode(&hash.finalize()[..12])
}

/// Compiles an environment of a node as a shared object in this folder, which whoever the node becomes may read.
pub(crate) fn environment(folder: &Path, name: &str, source: &str) -> Result<PathBuf, Error> {
    let (object, file) = (folder.join(name).with_extension("so"), folder.join(name).with_extension("c"));
    let header = (folder.join("nodeos.h"), include_str!("../../sdk/anode/nodeos.h"));
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder, open).map_err(|cause| Error::Write { path: folder.into(), cause })?;
    for (path, text) in [(file.clone(), source), header] {
        fs::write(&path, text).map_err(|cause| Error::Write { path, cause })?;
    }
    let cc = compiler();
    let mut command = Command::new(&cc);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]).args([&object, &file]);
    let output = command.output().map_err(|cause| Error::NoCompiler { cc, cause })?;
    match output.status.success() {
        true => Ok(object),
        false => Err(Error::Compile { name: name.into(), log: String::from_utf8_lossy(&output.stderr).into_owned() }),
    }
}

/// Compiles `source` to the program `name` in `folder`, unless it is there.
fn compile(cc: &OsString, flags: &[&str], folder: &Path, name: &str, source: &str) -> Result<(), Error> {
    if folder.join(name).exists() {
        return Ok(());
    }
    // Nobody else's, also not another thread's.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let work = folder.join(format!("build.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let failed = |cause| Error::Write { path: work.clone(), cause };
    fs::create_dir_all(&work).map_err(failed)?;
    for (header, text) in HEADERS {
        fs::write(work.join(header), text).map_err(failed)?;
    }
    let (input, output) = (work.join(format!("{name}.c")), work.join(name));
    fs::write(&input, source).map_err(failed)?;
    let run = Command::new(cc).args(flags).arg("-o").arg(&output).arg(&input).output();
    let run = run.map_err(|cause| Error::NoCompiler { cc: cc.clone(), cause })?;
    if !run.status.success() {
        let log = String::from_utf8_lossy(&run.stderr).into_owned();
        return Err(Error::Compile { name: name.into(), log });
    }
    fs::rename(&output, folder.join(name)).map_err(failed)?;
    fs::remove_dir_all(&work).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_compiled_once_and_without_warnings() {
        let cache = tempfile::tempdir().unwrap();
        let first = Programs::ready_with(&compiler(), cache.path()).unwrap();
        let made = first.burst.metadata().unwrap().modified().unwrap();
        let second = Programs::ready_with(&compiler(), cache.path()).unwrap();
        assert_eq!(second.burst.metadata().unwrap().modified().unwrap(), made);
        let folder = first.launch.parent().unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), SOURCES.len(), "nothing but the programs is left");
    }

    #[test]
    fn programs_for_the_kernel_are_compiled_without_warnings() {
        let cache = tempfile::tempdir().unwrap();
        let kernel = Programs::ready_with(&compiler(), cache.path()).unwrap().kernel().unwrap();
        for made in [kernel.flood, kernel.flood_object, kernel.router, kernel.router_object, kernel.xdpgw] {
            assert!(made.exists(), "{}", made.display());
        }
    }

    #[test]
    fn threads_that_start_together_do_not_meet() {
        let cache = tempfile::tempdir().unwrap();
        let ready = || Programs::ready_with(&compiler(), cache.path());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ready)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_ok()));
        });
    }

    #[test]
    fn programs_are_started_in_a_class_that_keeps_batches() {
        let cache = tempfile::tempdir().unwrap();
        let class = Programs::ready_with(&compiler(), cache.path()).unwrap().scheduling_class();
        assert!(class.starts_with("SCHED_"), "{class}");
    }

    #[test]
    fn a_missing_compiler_is_named_with_the_remedy() {
        let cache = tempfile::tempdir().unwrap();
        let error = Programs::ready_with(&"/nonexistent/cc".into(), cache.path()).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/cc") && error.contains("install"), "{error}");
    }

    #[test]
    fn the_log_of_the_compiler_is_part_of_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = compile(&compiler(), &FLAGS, folder.path(), "bad", "int main( {").unwrap_err().to_string();
        assert!(error.contains("bad") && error.contains("error:"), "{error}");
    }
}
