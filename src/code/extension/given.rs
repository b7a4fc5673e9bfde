//! The functions that modules import of the node ([`super::imports`] has their table), and what these find of it.

use super::imports::{Gives, OWN};
use crate::clean::shown;
use crate::core::bucket::TokenBucket;
use wasmtime::{Caller, Linker, Memory, StoreLimits, bail};

/// Bytes of a module's buffer.
pub const BUFFER: usize = 4096;

/// Fuel that a call of another's costs, besides one for each byte.
pub(super) const PASSING: u64 = 200;

/// What calls raise, as `anode/extension.h` has it: there is none of that name or number, or what was given means nothing.
pub const NOT_FOUND: i32 = -1;
/// It says no.
pub const REFUSED: i32 = -2;
/// No such host is there.
pub const NO_SUCH_HOST: i32 = -3;
/// There is no room for it.
pub const TOO_BIG: i32 = -4;
/// A call of another extension, or of the node, has failed.
pub const FAILED: i32 = -5;

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// It says no, with this number.
    Raised(i32),
    /// Its arguments are too long.
    TooBig,
    /// It used its fuel up.
    Fuel,
    /// It failed.
    Broken,
}

impl CallFailure {
    /// What another extension is told that has called.
    pub(super) fn code(self) -> i32 {
        match self {
            CallFailure::Raised(code) => code,
            CallFailure::TooBig => TOO_BIG,
            CallFailure::Fuel | CallFailure::Broken => FAILED,
        }
    }
}

/// The length of a result, as a function returns it.
pub(super) fn length_of(returned: i32) -> Result<usize, CallFailure> {
    match usize::try_from(returned) {
        Err(_) => Err(CallFailure::Raised(returned)),
        Ok(length) if length > BUFFER => Err(CallFailure::Broken),
        Ok(length) => Ok(length),
    }
}

/// Lines that a module says in a second, and at once.
const LINES_PER_SECOND: u64 = 1;
const LINES_AT_ONCE: u64 = 8;

/// Bytes of a line, as the header says.
const LINE_MAX: usize = 1024;

/// Numbers of the header.
const AN_OK: i32 = 0;
const AN_EINVAL: i32 = 1;
const AN_EAGAIN: i32 = 9;

/// Where a module's values go there and back.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub memory: Memory,
    pub at: usize,
}

/// What a call finds of its node.
pub(super) struct Host {
    pub now: u64,
    pub random: u64,
    pub limits: StoreLimits,
    /// Nothing until all is set up.
    pub buffer: Option<Buffer>,
    /// Why the last call of the header failed.
    error: i32,
    lines: TokenBucket,
    /// Lines since the last one that were too many.
    unsaid: u64,
}

impl Host {
    pub fn new(limits: StoreLimits) -> Host {
        let lines = TokenBucket::new(LINES_PER_SECOND, LINES_AT_ONCE);
        Host { now: 0, random: 0, limits, buffer: None, error: AN_OK, lines, unsaid: 0 }
    }

    /// Of one random number for the call many.
    pub fn draw(&mut self) -> u64 {
        draw(&mut self.random)
    }

    /// What a call of the header gives.
    fn gives(&mut self, error: i32) -> i32 {
        self.error = error;
        error
    }
}

/// The next number of many that one makes (splitmix64).
pub(super) fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Makes all of them functions.
pub(super) fn bind(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    OWN.iter().try_for_each(|own| {
        let bind = match own.gives {
            Gives::Now => bind_now,
            Gives::Random => bind_random,
            Gives::Time => bind_time,
            Gives::Line => bind_say,
            Gives::Error => bind_error,
        };
        bind(linker, own.module, own.name)
    })
}

fn bind_now(linker: &mut Linker<Host>, module: &'static str, name: &'static str) -> wasmtime::Result<()> {
    linker.func_wrap(module, name, |caller: Caller<'_, Host>| caller.data().now).map(drop)
}

fn bind_random(linker: &mut Linker<Host>, module: &'static str, name: &'static str) -> wasmtime::Result<()> {
    linker.func_wrap(module, name, |mut caller: Caller<'_, Host>| caller.data_mut().draw()).map(drop)
}

fn bind_time(linker: &mut Linker<Host>, module: &'static str, name: &'static str) -> wasmtime::Result<()> {
    linker.func_wrap(module, name, time_now).map(drop)
}

fn bind_say(linker: &mut Linker<Host>, module: &'static str, name: &'static str) -> wasmtime::Result<()> {
    linker.func_wrap(module, name, say).map(drop)
}

fn bind_error(linker: &mut Linker<Host>, module: &'static str, name: &'static str) -> wasmtime::Result<()> {
    linker.func_wrap(module, name, |caller: Caller<'_, Host>| caller.data().error).map(drop)
}

/// `an_timeNow`: of the node that calls, which is NULL.
fn time_now(mut caller: Caller<'_, Host>, node: u32, to: u32) -> wasmtime::Result<i32> {
    let Some(Buffer { memory, .. }) = caller.data().buffer else { bail!("a call before all is set up") };
    if node != 0 || to == 0 {
        return Ok(caller.data_mut().gives(AN_EINVAL));
    }
    let now = caller.data().now.to_le_bytes();
    memory.write(&mut caller, to as usize, &now)?;
    Ok(caller.data_mut().gives(AN_OK))
}

/// `an_say`: a line for the log, so many in a second.
fn say(mut caller: Caller<'_, Host>, line: u32) -> wasmtime::Result<i32> {
    let Some(Buffer { memory, .. }) = caller.data().buffer else { bail!("a call before all is set up") };
    let left = caller.get_fuel()?.checked_sub(PASSING + LINE_MAX as u64);
    caller.set_fuel(left.unwrap_or(0))?;
    if left.is_none() {
        bail!("all fuel is used up");
    }
    let Some(rest) = memory.data(&caller).get(line as usize..) else { bail!("a line outside memory") };
    let end = rest.iter().take(LINE_MAX + 1).position(|byte| *byte == 0);
    let (Some(end), true) = (end, line != 0) else { return Ok(caller.data_mut().gives(AN_EINVAL)) };
    let text = rest.get(..end).map(<[u8]>::to_vec).unwrap_or_default();
    let host = caller.data_mut();
    if !host.lines.take(host.now, 1) {
        host.unsaid += 1;
        return Ok(host.gives(AN_EAGAIN));
    }
    let unsaid = core::mem::take(&mut host.unsaid);
    tracing::info!(unsaid, line = %shown(&text), "a module says");
    Ok(host.gives(AN_OK))
}
