//! The compiler's own side: engines, servers of lanes, and the child that compiles one module.

use super::answer;
use super::job::{Job, MESSAGE, Purpose};
use crate::code::run::{Tier, engine};
use crate::sys::fork::{self, Bounds, Forker};
use crate::sys::jail;
use crate::sys::seqpacket::SeqPacket;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;
use wasmtime::Engine;

/// By how much compilers give way to the node's other threads.
const NICE: i32 = 5;

/// What the first process says when it is warm.
pub(super) const READY: &[u8] = b"ready";

/// What a server says when its lane is there.
pub(super) const OPEN: &[u8] = b"open";

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
    // One byte more than any job has, so that what is cut off is none.
    let mut message = vec![0; MESSAGE + 1];
    lane.send(OPEN)?;
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
        lane.send(&answer::encode(&ended))?;
    }
}

/// What the child does, and all that it does.
fn compile(engine: &Engine, module: &[u8], output: &mut File) {
    let work = || engine.precompile_module(module).map_err(|error| format!("{error:#}"));
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let done = done.unwrap_or_else(|_| Err("it failed on it; please report this".into()));
    // What cannot be written is missing when the node reads it, or has ended this process.
    let _ = answer::leave(done.as_deref().map_err(String::as_str), output);
}
