//! The process of an environment, from fork to the first instruction of its program.
//!
//! The node starts this program anew, which gives away what an environment has not ([`crate::sys::confine`]) and becomes the
//! environment's program. So nothing runs between fork and exec but what the standard library does, and nothing of the node is inherited.

use super::Process;
use crate::sys::confine::{self, Confinement};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The first argument by which this program knows that it is to become an environment.
pub const ARGUMENT: &str = "environment-of-node";

/// Between what may be read and the command.
const SEPARATOR: &str = "--";

/// Where an environment finds its node: the path of this socket in the node's run directory.
const NODE: &str = "ANODE_NODEOS";
/// See [`NODE`].
const SOCKET: &str = "nodeos.sock";

/// What an environment has of the node's environment variables.
const PASSED: [&str; 3] = ["PATH", "LANG", "TZ"];

/// Starts the process of an environment, in a process group of its own. What it says comes by its standard error.
pub(super) fn start(environment: &Process, run_dir: &Path) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(ARGUMENT).arg(std::process::id().to_string()).arg(environment.data_bytes.to_string());
    command.args(reads(environment)).arg(SEPARATOR).args(&environment.command);
    command.env_clear().env(NODE, run_dir.join(SOCKET));
    for name in PASSED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.process_group(0).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn()
}

/// What it may read: what the configuration says, and where its program is.
fn reads(environment: &Process) -> Vec<PathBuf> {
    let program = environment.command.first().map(Path::new);
    let own = program.filter(|program| program.is_absolute()).and_then(Path::parent).map(Path::to_path_buf);
    environment.reads.iter().cloned().chain(own).collect()
}

/// Becomes an environment's program, in the process that `start` has started. Returns only why not.
pub fn serve(arguments: impl Iterator<Item = OsString>) -> io::Result<Infallible> {
    let mut arguments = arguments;
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "only a node starts environments");
    let (node, data_bytes) = number().zip(number()).ok_or_else(wrong)?;
    let reads = arguments.by_ref().take_while(|word| word != SEPARATOR).map(PathBuf::from).collect();
    let program = arguments.next().ok_or_else(wrong)?;
    let hidden = confine::enter(&Confinement { reads, data_bytes }, u32::try_from(node).map_err(|_| wrong())?)?;
    if !hidden {
        eprintln!("this kernel has no Landlock: files are protected by their owners alone");
    }
    let error = Command::new(&program).args(arguments).exec();
    Err(io::Error::new(error.kind(), format!("{}: {error}", program.to_string_lossy())))
}
