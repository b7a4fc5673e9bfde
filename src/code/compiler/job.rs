//! A job for a compiler (module, tier, limits), and its result.

use crate::code::bundle::REPRESENTATION_MAX;
use crate::code::run::Tier;
use core::fmt;
use serde::Deserialize;

/// Bytes before the module in a message.
const HEAD: usize = 20;

/// Bytes of the longest message.
pub(super) const MESSAGE: usize = HEAD + REPRESENTATION_MAX;

/// What the compiled module is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Code of capsules, in a tier.
    Capsule(Tier),
    /// A service of PLAN.
    Service,
}

/// What one job may use. The hard limits of compiling: a module that needs more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompilerLimits {
    /// Milliseconds of CPU time.
    pub cpu_ms: u32,
    /// Mebibytes of memory beyond those of the idle compiler.
    pub memory_mib: u32,
    /// Mebibytes of machine code with what belongs to it.
    pub output_mib: u32,
    /// Milliseconds that may pass, on a busy machine or for a compiler that hangs.
    pub wall_ms: u32,
}

impl Default for CompilerLimits {
    fn default() -> CompilerLimits {
        CompilerLimits { cpu_ms: 250, memory_mib: 64, output_mib: 8, wall_ms: 20_000 }
    }
}

/// A module to be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job<'a> {
    /// What for.
    pub purpose: Purpose,
    /// Its bytes, at most [`REPRESENTATION_MAX`].
    pub module: &'a [u8],
}

/// What a compiler made of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerOutput {
    /// What `wasmtime::Module::deserialize` takes.
    pub artifact: Vec<u8>,
    /// Microseconds of CPU time that it took.
    pub cpu_us: u64,
}

/// Why there is no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The compiler does not take the module: its words.
    Refused(String),
    /// The module needs more than a job may use: the limit's name and value.
    Limit(&'static str, u64),
    /// The compiler broke on it: the signal or status.
    Broken(i32),
    /// There is no compiler, which is nobody's fault who sends code.
    Gone(String),
}

impl Failure {
    /// Whether that says something of the machine and nothing of the module: it was too busy, or had no memory and killed the child.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(self, Failure::Gone(_) | Failure::Limit(WALL, _) | Failure::Broken(KILLED))
    }
}

/// The signal that nobody can hold off.
pub(super) const KILLED: i32 = 9;
/// The limit of time by the clock.
pub(super) const WALL: &str = "wall_ms";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why) => write!(f, "the wasm compiler refuses the module: {why}"),
            Failure::Limit(name, value) => {
                write!(f, "compiling it takes more than [compiler] {name} = {value}; make its functions smaller")
            }
            Failure::Broken(KILLED) => {
                f.write_str("the wasm compiler was killed at it, for want of memory or by somebody; it is tried again")
            }
            Failure::Broken(status) => write!(f, "the wasm compiler broke on it ({status}); please report this"),
            Failure::Gone(why) => write!(f, "there is no wasm compiler: {why}"),
        }
    }
}

impl core::error::Error for Failure {}

impl Job<'_> {
    /// Purpose, limits, then the module.
    pub fn encode(&self, limits: &CompilerLimits) -> Vec<u8> {
        let purpose = match self.purpose {
            Purpose::Capsule(Tier::Fast) => 0u32,
            Purpose::Capsule(Tier::Optimised) => 1,
            Purpose::Service => 2,
        };
        let head = [purpose, limits.cpu_ms, limits.memory_mib, limits.output_mib, limits.wall_ms];
        head.iter().flat_map(|word| word.to_ne_bytes()).chain(self.module.iter().copied()).collect()
    }

    /// Reads a message of the node's.
    pub fn decode(message: &[u8]) -> Option<(Job<'_>, CompilerLimits)> {
        let (head, module) = message.split_at_checked(HEAD).filter(|_| message.len() <= MESSAGE)?;
        let mut words = head.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
        let purpose = match words.next()? {
            0 => Purpose::Capsule(Tier::Fast),
            1 => Purpose::Capsule(Tier::Optimised),
            2 => Purpose::Service,
            _ => return None,
        };
        let [cpu_ms, memory_mib, output_mib, wall_ms] = [words.next()?, words.next()?, words.next()?, words.next()?];
        Some((Job { purpose, module }, CompilerLimits { cpu_ms, memory_mib, output_mib, wall_ms }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way_and_half_of_one_is_refused() {
        let limits = CompilerLimits { cpu_ms: 1, memory_mib: 2, output_mib: 3, wall_ms: 4 };
        for purpose in [Purpose::Capsule(Tier::Fast), Purpose::Capsule(Tier::Optimised), Purpose::Service] {
            let message = Job { purpose, module: b"\0asm" }.encode(&limits);
            let (job, there) = Job::decode(&message).unwrap();
            assert_eq!((job.purpose, job.module, there), (purpose, &b"\0asm"[..], limits));
            assert!((0..HEAD).all(|end| Job::decode(&message[..end]).is_none()));
        }
        assert!(Job::decode(&[9; HEAD]).is_none());
        assert!(Job::decode(&[0; MESSAGE]).is_some() && Job::decode(&[0; MESSAGE + 1]).is_none());
    }
}
