//! The loader: a process of its own that has the kernel verify mobile code, and can do nothing else.
//!
//! ```text
//! node ── code, constants, map descriptors ──▶ loader: checks, links ── bpf(2) ──▶ verifier
//!      ◀───────── program descriptor, or the verifier's words ────┘
//! ```
//!
//! It is a function of this program, called [`ARGUMENT`], in a jail ([`crate::sys::jail`]): a user of its own with `CAP_BPF` and
//! `CAP_NET_ADMIN`, no files, no network, three handfuls of system calls. The kernel verifies for it as for somebody who may not read
//! kernel memory, which is what mobile code must not learn (docs/kernel-half.md).

mod message;

pub use message::{WORDS, Wanted, read_words, words};

use super::half::environment;
use super::types;
use crate::broker::{self, Helper, HelpersJail};
use crate::code::bundle::Program as Code;
use crate::code::check;
use crate::code::link::{self, LinkEnvironment};
use crate::sys::bpf::{Functions, Hook, Program, Types};
use crate::sys::fork::end_after;
use crate::sys::jail;
use crate::sys::seqpacket::SeqPacket;
use message::MESSAGE;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the loader is called among the functions of this program that run in jails.
pub const ARGUMENT: &str = "kernel-loader";

/// The same, for code that a role trusts.
pub const TRUSTED: &str = "kernel-loader-trusted";

/// What linking and verifying one program may take of a CPU.
const CPU: Duration = Duration::from_secs(10);

/// For how long the node waits for that, on a busy machine or for a loader that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way to the loader.
#[derive(Debug)]
pub struct Loader {
    program: PathBuf,
    trusted: bool,
    process: Mutex<Option<Process>>,
}

#[derive(Debug)]
struct Process {
    /// Nothing: it is the broker's.
    _jail: Option<HelpersJail>,
    socket: SeqPacket,
}

impl Loader {
    /// A loader that runs `program`, this one; of trusted code or of others'.
    pub fn new(program: PathBuf, trusted: bool) -> Loader {
        Loader { program, trusted, process: Mutex::new(None) }
    }

    /// Starts the process, so that the first program does not wait for that.
    pub fn start(&self) -> io::Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::start(&self.program, self.trusted)?);
        }
        Ok(())
    }

    /// Has a program verified and loaded. An error carries the verifier's words.
    pub fn load(&self, wanted: &Wanted<'_>) -> io::Result<Program> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::start(&self.program, self.trusted)?);
        }
        let Some(running) = process.as_ref() else { return Err(io::Error::other("no loader")) };
        match running.ask(wanted) {
            Ok(answer) => answer,
            // It is not to be trusted any more; the next program gets another.
            Err(error) => {
                *process = None;
                Err(io::Error::new(error.kind(), format!("the loader failed and was ended: {error}")))
            }
        }
    }
}

impl Process {
    fn start(program: &Path, trusted: bool) -> io::Result<Process> {
        let kind = if trusted { Helper::TrustedLoader } else { Helper::Loader };
        let (jail, socket) = broker::helper(kind, program)?;
        Ok(Process { _jail: jail, socket: SeqPacket::of(socket) })
    }

    /// Asks for a program. The outer error is the loader's, the inner one the verifier's.
    fn ask(&self, wanted: &Wanted<'_>) -> io::Result<io::Result<Program>> {
        self.socket.send_with(&wanted.encode(), &wanted.maps)?;
        if !self.socket.wait(PATIENCE)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {} s", PATIENCE.as_secs())));
        }
        let mut words = [0; WORDS];
        let (length, descriptors) = self.socket.receive_with(&mut words)?;
        if length == 0 {
            let why = format!("somebody has killed it, or a program took it {} s of a CPU", CPU.as_secs());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        Ok(match descriptors.into_iter().next() {
            Some(program) => Ok(Program::adopt(program)),
            None => Err(io::Error::other(read_words(&words[..length]))),
        })
    }
}

/// The loader's own side, in its jail: serves the node behind `socket` until it goes. What it may have loaded its capabilities say.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let socket = SeqPacket::of(socket);
    let environment = environment()?;
    jail::apply_seccomp("kernel-loader")?;
    // One byte more than any wish has, so that what is cut off is none.
    let mut message = vec![0; MESSAGE + 1];
    loop {
        let (length, maps) = socket.receive_with(&mut message)?;
        if length == 0 {
            return Ok(());
        }
        let wanted = Wanted::decode(&message[..length]).ok_or(io::ErrorKind::InvalidData)?;
        let maps: Vec<BorrowedFd<'_>> = maps.iter().map(AsFd::as_fd).collect();
        end_after(CPU)?;
        match load(&environment, &Wanted { maps, ..wanted }) {
            Ok(program) => socket.send_with(b"loaded", &[program.as_fd()])?,
            Err(error) => socket.send_with(words(&error.to_string()), &[])?,
        }
    }
}

/// Links code, as it passes the checks that every code must pass, and has the result verified. So nothing is loaded here but what was
/// linked here, whoever asks.
fn load(environment: &LinkEnvironment, wanted: &Wanted<'_>) -> io::Result<Program> {
    check::bpf(&wanted.code).map_err(|refusal| io::Error::other(refusal.to_string()))?;
    let code = Code::parse(&wanted.code).map_err(|error| io::Error::other(error.to_string()))?;
    let linked =
        link::link(environment, &code, wanted.constants).map_err(|error| io::Error::other(error.to_string()))?;
    if linked.maps.len() != wanted.maps.len() {
        return Err(io::Error::other(format!("{} maps, not {}", linked.maps.len(), wanted.maps.len())));
    }
    let (types, list) = types::describe(&linked, wanted.constants.window);
    let types = Types::load(&types)?;
    let functions = Functions { types: &types, list: &list };
    Program::load(Hook::Xdp, "anode_capsule", &linked.bytes(), &wanted.maps, Some(functions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::link::Constants;

    const CONSTANTS: Constants = Constants { slot: 1, window: 16, sets: 4, keep_ms: 1000, children: 2 };

    #[test]
    fn what_no_check_accepts_is_not_loaded() {
        let environment = environment().unwrap();
        // A helper of the kernel's, called as if it were linked already: r0 = bpf_get_prandom_u32(); exit.
        let code: [[u8; 8]; 2] = [[0x85, 0, 0, 0, 7, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        for code in [code.as_flattened().to_vec(), vec![0; 64], Vec::new()] {
            let refused = load(&environment, &Wanted { code, constants: CONSTANTS, maps: Vec::new() });
            assert!(refused.is_err_and(|error| error.raw_os_error().is_none()), "the kernel was not even asked");
        }
    }
}
