//! The compiler's own side: engines, servers of lanes, and the child that compiles.

use super::job::{ANSWER, Job, MESSAGE, Purpose, WORDS};
use crate::code::run::engine::{self, Tier};
use crate::sys::fork::{self, Bounds, End, Ended, Forker};
use crate::sys::jail;
use crate::sys::seqpacket::SeqPacket;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;
use wasmtime::Engine;

/// By how much compilers give way to the node's other threads.
const NICE: i32 = 5;

/// First byte of what a child leaves: machine code follows, or the compiler's words.
pub(super) const CODE: u8 = 0;
pub(super) const REFUSAL: u8 = 1;

/// What the first process says when it is warm.
pub(super) const READY: &[u8] = b"ready";

/// Compiled at the start, so that no job pays for what is done once.
const SMALL: &str = "(module (memory 1 1) (func (export \"f\") (param i32 i32) (result i32) (local i64)
    (loop (br_if 0 (i32.load (local.get 0)))) (i32.add (local.get 0) (local.get 1))))";

/// The engines, one for each purpose.
struct Engines {
    fast: Engine,
    optimised: Engine,
    service: Engine,
}

impl Engines {
    fn new() -> wasmtime::Result<Engines> {
        let engines = Engines {
            fast: Engine::new(&engine::capsule(true, Tier::Fast))?,
            optimised: Engine::new(&engine::capsule(true, Tier::Optimised))?,
            service: Engine::new(&engine::service())?,
        };
        let small = wat::parse_str(SMALL)?;
        for engine in [&engines.fast, &engines.optimised, &engines.service] {
            engine.precompile_module(&small)?;
        }
        Ok(engines)
    }

    fn of(&self, purpose: Purpose) -> &Engine {
        match purpose {
            Purpose::Capsule(Tier::Fast) => &self.fast,
            Purpose::Capsule(Tier::Optimised) => &self.optimised,
            Purpose::Service => &self.service,
        }
    }
}

/// Serves the node behind `socket` until it goes: forks a server for each lane that it hands over.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    // Packets go first where there is not enough of the CPU for both.
    fork::give_way(NICE)?;
    // A panic is told in words; its way to them needs no files.
    std::panic::set_hook(Box::new(|_| {}));
    let engines = Engines::new().map_err(|error| io::Error::other(format!("{error:#}")))?;
    let forker = Forker::new(jail::load_seccomp("compile-job")?);
    jail::apply_seccomp("compiler")?;
    let socket = SeqPacket::of(socket);
    socket.send(READY)?;
    loop {
        let mut message = [0; 8];
        let (length, lanes) = socket.receive_with(&mut message)?;
        if length == 0 {
            return Ok(());
        }
        for lane in lanes {
            forker.fork_off(socket.as_fd(), || serve_lane(&SeqPacket::of(lane), &engines, &forker))?;
        }
    }
}

/// One job after the other, each in a child of its own, until the node closes the lane.
fn serve_lane(lane: &SeqPacket, engines: &Engines, forker: &Forker) -> io::Result<()> {
    let mut message = vec![0; MESSAGE];
    loop {
        let (length, outputs) = lane.receive_with(&mut message)?;
        if length == 0 {
            return Ok(());
        }
        let (job, limits) = Job::decode(&message[..length]).ok_or(io::ErrorKind::InvalidData)?;
        let output = outputs.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
        let bounds = Bounds {
            cpu: Duration::from_millis(u64::from(limits.cpu_ms)),
            memory: u64::from(limits.memory_mib) << 20,
            file: u64::from(limits.output_mib) << 20,
            wall: Duration::from_millis(u64::from(limits.wall_ms)),
        };
        let engine = engines.of(job.purpose);
        let mut file = File::from(output);
        let ended = forker.run(bounds, lane.as_fd(), || compile(engine, job.module, &mut file))?;
        drop(file);
        lane.send(&answer(&ended))?;
    }
}

/// What the child does, and all that it does.
fn compile(engine: &Engine, module: &[u8], output: &mut File) {
    let work = || engine.precompile_module(module).map_err(|error| format!("{error:#}"));
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let done = done.unwrap_or_else(|_| Err("it failed on it; please report this".into()));
    // What cannot be written is missing when the node reads it, or has ended this process.
    let _ = match &done {
        Ok(code) => output.write_all(&[CODE]).and_then(|()| output.write_all(code)),
        Err(why) => {
            output.write_all(&[REFUSAL]).and_then(|()| output.write_all(&why.as_bytes()[..why.len().min(WORDS)]))
        }
    };
}

/// How a child ended, its CPU time in microseconds, its memory in kibibytes: a word each.
fn answer(ended: &Ended) -> [u8; ANSWER] {
    let (end, status): (u32, i32) = match ended.end {
        End::Done => (0, 0),
        End::Cpu => (1, 0),
        End::Memory => (2, 0),
        End::File => (3, 0),
        End::Wall => (4, 0),
        End::Broken(status) => (5, status),
    };
    let words = [u64::from(end) << 32 | u64::from(status as u32), ended.cpu_us, ended.peak_kib];
    let mut answer = [0; ANSWER];
    answer.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_ne_bytes());
    answer
}

/// Reads an answer.
pub(super) fn read(answer: &[u8]) -> Option<Ended> {
    let words: &[[u8; 8]; 3] = answer.as_chunks().0.try_into().ok()?;
    let [first, cpu_us, peak_kib] = words.map(u64::from_ne_bytes);
    let end = match first >> 32 {
        0 => End::Done,
        1 => End::Cpu,
        2 => End::Memory,
        3 => End::File,
        4 => End::Wall,
        5 => End::Broken(first as u32 as i32),
        _ => return None,
    };
    Some(Ended { end, cpu_us, peak_kib })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_child_ended_survives_the_way() {
        for end in [End::Done, End::Cpu, End::Memory, End::File, End::Wall, End::Broken(-1), End::Broken(31)] {
            let ended = Ended { end, cpu_us: 1 << 40, peak_kib: 7 };
            assert_eq!(read(&answer(&ended)), Some(ended));
        }
        assert!(read(&[0; 23]).is_none() && read(&[9; ANSWER]).is_none());
    }
}
