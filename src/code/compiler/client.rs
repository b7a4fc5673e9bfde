//! The node's side of the compiler: starts it, and asks it for one module after the other on each lane.
//!
//! Answers are believed as little as modules: the length is bounded before the read, and the file is read when its
//! writer has ended. A lane with a senseless answer, or none in its time, is closed and opened anew.

use super::answer::{self, ANSWER};
use super::job::{CompilerLimits, CompilerOutput, Failure, Job, KILLED, WALL};
use super::server;
use crate::broker::{self, Helper, HelpersJail};
use crate::code::bundle::REPRESENTATION_MAX;
use crate::sys::fork::End;
use crate::sys::seqpacket::SeqPacket;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Added to a job's time by the clock, after which its lane counts as dead: the kernel ends the child before.
const GRACE: Duration = Duration::from_secs(2);

/// For how long the compiler may make itself ready, on a busy machine.
const WARMING: Duration = Duration::from_secs(30);

/// For how long a server may take to be there. Who takes longer has been stopped, or is about to end.
const OPENING: Duration = Duration::from_secs(5);

/// The compiler's processes.
#[derive(Debug)]
pub struct Compilers {
    program: PathBuf,
    limits: CompilerLimits,
    process: Mutex<Option<Process>>,
}

/// The first process, which forks servers.
#[derive(Debug)]
struct Process {
    /// Nothing: it is the broker's. Its servers and their children end with it.
    _jail: Option<HelpersJail>,
    socket: SeqPacket,
}

/// A way to the compiler for one job at a time.
#[derive(Debug)]
pub struct Lane {
    compilers: Arc<Compilers>,
    socket: Option<SeqPacket>,
}

impl Compilers {
    /// Compilers that run `program`, which is this one.
    pub fn new(program: PathBuf, limits: CompilerLimits) -> Arc<Compilers> {
        Arc::new(Compilers { program, limits, process: Mutex::new(None) })
    }

    /// What one job may use.
    pub fn limits(&self) -> &CompilerLimits {
        &self.limits
    }

    /// Starts the first process if it is not there, and waits until it is warm.
    pub fn warm(&self) -> io::Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::start(&self.program)?);
        }
        Ok(())
    }

    /// A lane of its own; nothing starts before the first job.
    pub fn lane(self: &Arc<Self>) -> Lane {
        Lane { compilers: self.clone(), socket: None }
    }

    /// Has a server forked, for which the first process is started if it is not there, or does not answer any more.
    fn open(&self) -> io::Result<SeqPacket> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(lane)) = process.as_ref().map(Process::lane) {
            return Ok(lane);
        }
        // What there is of it goes first.
        *process = None;
        process.insert(Process::start(&self.program)?).lane()
    }
}

impl Process {
    fn start(program: &Path) -> io::Result<Process> {
        let (jail, socket) = broker::helper(Helper::Compiler, program)?;
        let socket = SeqPacket::of(socket);
        if !socket.wait(WARMING)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the compiler was not ready in its time"));
        }
        let mut word = [0; 16];
        match socket.receive(&mut word)? {
            length if word[..length] == *server::READY => Ok(Process { _jail: jail, socket }),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the compiler ended at its start")),
        }
    }

    /// Has a server forked. That the message could be sent says nothing: who is being killed takes no more of them.
    fn lane(&self) -> io::Result<SeqPacket> {
        let (own, other) = SeqPacket::pair()?;
        self.socket.send_with(b"lane", &[other.as_fd()])?;
        drop(other);
        if !own.wait(OPENING)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the compiler does not answer"));
        }
        let mut word = [0; 8];
        match own.receive(&mut word)? {
            length if word[..length] == *server::OPEN => Ok(own),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the compiler has ended")),
        }
    }
}

impl Lane {
    /// Opens the lane, so that the first job does not wait for that.
    pub fn open(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(self.compilers.open()?);
        }
        Ok(())
    }

    /// Has a module compiled. A compiler that is gone is started once more.
    pub fn compile(&mut self, job: &Job<'_>) -> Result<CompilerOutput, Failure> {
        if job.module.len() > REPRESENTATION_MAX {
            return Err(Failure::Refused(format!("it has more than {REPRESENTATION_MAX} bytes")));
        }
        let asked = self.ask(job).or_else(|_| {
            self.socket = None;
            self.ask(job)
        });
        asked.unwrap_or_else(|error| {
            self.socket = None;
            Err(Failure::Gone(error.to_string()))
        })
    }

    /// The outer error is the lane's, the inner one the module's.
    fn ask(&mut self, job: &Job<'_>) -> io::Result<Result<CompilerOutput, Failure>> {
        self.open()?;
        let limits = self.compilers.limits;
        let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
        let output = File::from(memfd_create("anode-code", MemfdFlags::CLOEXEC)?);
        socket.send_with(&job.encode(&limits), &[output.as_fd()])?;
        if !socket.wait(Duration::from_millis(u64::from(limits.wall_ms)) + GRACE)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in its time"));
        }
        let mut answer = [0; ANSWER + 1];
        let length = socket.receive(&mut answer)?;
        let ended = answer::decode(&answer[..length]).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(match failure(ended.end, ended.cpu_us, &limits) {
            Some(failure) => Err(failure),
            None => collect(output, &limits)?.map(|artifact| CompilerOutput { artifact, cpu_us: ended.cpu_us }),
        })
    }
}

/// What it means that a child with these limits has ended so, having used so many microseconds; nothing: it has done its work.
fn failure(end: End, cpu_us: u64, limits: &CompilerLimits) -> Option<Failure> {
    let limit = |name, value: u32| Some(Failure::Limit(name, u64::from(value)));
    match end {
        End::Done => None,
        End::Cpu => limit("cpu_ms", limits.cpu_ms),
        End::Memory => limit("memory_mib", limits.memory_mib),
        End::File => limit("output_mib", limits.output_mib),
        End::Wall => limit(WALL, limits.wall_ms),
        // Whoever got around its timer is killed by the limit behind it.
        End::Broken(KILLED) if cpu_us >= u64::from(limits.cpu_ms) * 1000 => limit("cpu_ms", limits.cpu_ms),
        End::Broken(status) => Some(Failure::Broken(status)),
    }
}

/// What a child has left, which nobody changes any more.
fn collect(mut output: File, limits: &CompilerLimits) -> io::Result<Result<Vec<u8>, Failure>> {
    output.rewind()?;
    let most = u64::from(limits.output_mib) << 20;
    let mut left = Vec::new();
    output.take(most).read_to_end(&mut left)?;
    Ok(answer::found(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_killed_within_its_time_is_not_to_blame_and_who_is_beyond_it_is() {
        let limits = CompilerLimits { cpu_ms: 250, memory_mib: 64, output_mib: 8, wall_ms: 20_000 };
        for (end, cpu_us, words, of_the_machine) in [
            (End::Broken(9), 249_999, "killed at it, for want of memory or by somebody", true),
            (End::Broken(9), 250_000, "[compiler] cpu_ms = 250", false),
            (End::Cpu, 250_000, "[compiler] cpu_ms = 250", false),
            (End::Memory, 1, "[compiler] memory_mib = 64", false),
            (End::File, 1, "[compiler] output_mib = 8", false),
            (End::Wall, 1, "[compiler] wall_ms = 20000", true),
            (End::Broken(11), 1, "broke on it (11); please report this", false),
            (End::Broken(-1), 1, "broke on it (-1); please report this", false),
        ] {
            let failure = failure(end, cpu_us, &limits).unwrap();
            assert!(failure.to_string().contains(words), "{end:?}: {failure}");
            assert_eq!(failure.is_of_the_machine(), of_the_machine, "{end:?}");
        }
        assert_eq!(failure(End::Done, u64::MAX, &limits), None);
    }
}
