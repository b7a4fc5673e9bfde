//! The loader: a process of its own that has mobile code verified, and can do nothing else.
//!
//! ```text
//! node ── instructions, types, map descriptors ──▶ loader ── bpf(2) ──▶ verifier
//!      ◀───────── program descriptor, or the verifier's words ────┘
//! ```
//!
//! It is this program again, started with [`ARGUMENT`], in the jail of [`crate::sys::jail`]: `CAP_BPF` and
//! `CAP_NET_ADMIN`, no files, three handfuls of system calls. The kernel verifies for it as for somebody who may not read
//! kernel memory, which is what mobile code must not learn (docs/kernel-half.md).

use crate::sys::bpf::{Functions, Hook, Program, Types};
use crate::sys::jail;
use crate::sys::seqpacket::SeqPacket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The argument that makes this program the loader.
pub const ARGUMENT: &str = "kernel-loader";

/// Octets of a message.
const MESSAGE: usize = 160 << 10;

/// Octets of the words of a refusal.
const WORDS: usize = 4 << 10;

/// For how long the verifier may think about one program.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program to load, with all that it is made of.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Its instructions.
    pub code: Vec<u8>,
    /// Type information.
    pub types: Vec<u8>,
    /// First instruction and type of every function.
    pub functions: Vec<[u32; 2]>,
    /// The maps that it refers to by index.
    pub maps: Vec<BorrowedFd<'a>>,
}

/// The way to the loader.
#[derive(Debug)]
pub struct Loader {
    program: PathBuf,
    process: Mutex<Option<Process>>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    socket: SeqPacket,
}

impl Loader {
    /// A loader that runs `program`, this one.
    pub fn new(program: PathBuf) -> Loader {
        Loader { program, process: Mutex::new(None) }
    }

    /// Starts the process, so that the first program does not wait for that.
    pub fn start(&self) -> io::Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::start(&self.program)?);
        }
        Ok(())
    }

    /// Has a program verified and loaded. An error carries the verifier's words.
    pub fn load(&self, wanted: &Wanted<'_>) -> io::Result<Program> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::start(&self.program)?);
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
    fn start(program: &PathBuf) -> io::Result<Process> {
        let (socket, other) = SeqPacket::pair()?;
        let mut command = Command::new(program);
        command.arg(ARGUMENT).env_clear().stdin(Stdio::from(other)).stdout(Stdio::null());
        let child = command.spawn()?;
        Ok(Process { child, socket })
    }

    /// Asks for a program. The outer error is the loader's, the inner one the verifier's.
    fn ask(&self, wanted: &Wanted<'_>) -> io::Result<io::Result<Program>> {
        self.socket.send_with(&wanted.encode(), &wanted.maps)?;
        if !self.socket.wait(PATIENCE)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 10 s"));
        }
        let mut words = [0; WORDS];
        let (length, descriptors) = self.socket.receive_with(&mut words)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(match descriptors.into_iter().next() {
            Some(program) => Ok(Program::adopt(program)),
            None => Err(io::Error::other(String::from_utf8_lossy(&words[..length]).into_owned())),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Wanted<'_> {
    /// Lengths of code, types and functions in octets, then these.
    fn encode(&self) -> Vec<u8> {
        let functions: Vec<u8> = self.functions.as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let lengths = [self.code.len(), self.types.len(), functions.len()];
        let lengths = lengths.iter().flat_map(|length| (*length as u32).to_ne_bytes());
        lengths.chain(self.code.iter().chain(&self.types).chain(&functions).copied()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Wanted<'static>> {
        let (lengths, mut rest) = bytes.split_at_checked(12)?;
        let mut parts = [&[][..]; 3];
        for (part, length) in parts.iter_mut().zip(lengths.as_chunks::<4>().0) {
            (*part, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        }
        let [code, types, functions] = parts;
        let pair = |pair: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *pair;
            [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
        };
        let functions = functions.as_chunks::<8>().0.iter().map(pair).collect();
        Some(Wanted { code: code.to_vec(), types: types.to_vec(), functions, maps: Vec::new() })
    }
}

/// The loader's own side: serves the node behind `socket` until it goes.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let socket = SeqPacket::of(socket);
    jail::enter()?;
    let mut message = vec![0; MESSAGE];
    loop {
        let (length, maps) = socket.receive_with(&mut message)?;
        if length == 0 {
            return Ok(());
        }
        let wanted = Wanted::decode(&message[..length]).ok_or(io::ErrorKind::InvalidData)?;
        let maps: Vec<BorrowedFd<'_>> = maps.iter().map(AsFd::as_fd).collect();
        match load(&Wanted { maps, ..wanted }) {
            Ok(program) => socket.send_with(b"loaded", &[program.as_fd()])?,
            Err(error) => {
                let words = error.to_string();
                let words = words.as_bytes();
                socket.send_with(&words[..words.len().min(WORDS)], &[])?;
            }
        }
    }
}

/// Loads a program with all rights that the calling process has.
pub fn load(wanted: &Wanted<'_>) -> io::Result<Program> {
    let types = Types::load(&wanted.types)?;
    let functions = Functions { types: &types, list: &wanted.functions };
    Program::load(Hook::Xdp, "anode_capsule", &wanted.code, &wanted.maps, Some(functions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_survives_the_way() {
        let wanted =
            Wanted { code: vec![1; 16], types: vec![2; 5], functions: vec![[0, 3], [7, 4]], ..Wanted::default() };
        let there = Wanted::decode(&wanted.encode()).unwrap();
        assert_eq!((there.code, there.types, there.functions), (wanted.code, wanted.types, wanted.functions));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let bytes = Wanted { code: vec![1; 16], ..Wanted::default() }.encode();
        assert!((0..bytes.len()).all(|end| Wanted::decode(&bytes[..end]).is_none()));
    }
}
