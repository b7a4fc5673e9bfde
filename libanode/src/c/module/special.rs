//! Calls that are not the same for modules: what they give is in the module's memory, or its one thread does what the library's threads do.

use super::super::flow::state_of;
use super::super::{code, object};
use super::{Call, FAILED, Fault, Gives, Kind, Module, VALUES_MAX, carry_out, entries, lend, packets, put_at};
use crate::crew::{self, Argument, ProcessDomain};
use crate::error::Error;
use crate::objects;
use crate::session::Session;
use core::cell::RefCell;
use core::ffi::{CStr, c_void};

/// Bytes of a module's memory that the library uses: texts of errors, and behind them what is shown to functions.
pub(super) const SCRATCH: u32 = 64 << 10;
/// See [`SCRATCH`].
const TEXTS: u32 = 4096;

/// How a call is made, with our values.
type Run = fn(&Call, &mut dyn Module, &[u64; VALUES_MAX]) -> u64;

/// A call, as it is made for modules.
#[derive(Clone, Copy)]
pub struct Bound {
    call: &'static Call,
    run: Run,
}

impl Bound {
    /// That of a call of the header.
    pub fn of(call: &'static Call) -> Bound {
        let run: Run = match call.name {
            "an_strerror" => |call, module, values| {
                let text = (call.run)(values) as *const core::ffi::c_char;
                // SAFETY: the library gives strings that live for ever.
                let text = unsafe { CStr::from_ptr(text) };
                kept(module, text.to_bytes_with_nul()).unwrap_or(0).into()
            },
            "an_pktbufData" => |_, module, values| {
                let data = packets::data(module, values[0]);
                object(data.map(|at| at as usize as *mut c_void)) as u64
            },
            "an_outchanSend" => |call, module, values| match packets::settle(module, values[2]) {
                Ok(()) => lend(module, || (call.run)(values)),
                Err(_) => refused(Error::Invalid),
            },
            "an_nodeConnect" => |call, module, values| match packets::is_connected() {
                true => object(Err(Error::Limit)) as u64,
                false => connect(lend(module, || (call.run)(values))),
            },
            "an_nodeDisconnect" => |call, module, values| {
                let result = lend(module, || (call.run)(values));
                if result == 0 {
                    packets::disconnect();
                }
                result
            },
            "an_flowRun" => |_, module, values| lend(module, || as_code(run_flow(values[0], values[1]))),
            "an_domainWait" => |_, module, values| lend(module, || as_code(wait(values[0]))),
            _ => |call, module, values| lend(module, || (call.run)(values)),
        };
        Bound { call, run }
    }

    /// Makes it.
    pub fn carry_out(&self, module: &mut dyn Module, given: &[u64]) -> Result<u64, Fault> {
        carry_out(self.call, module, given, |module, values| (self.run)(self.call, module, values))
    }

    /// Whether each value that it takes has 64 bits.
    pub fn takes(&self) -> impl Iterator<Item = bool> {
        self.call.takes.iter().map(|kind| matches!(kind, Kind::Long))
    }

    /// Whether it gives something.
    pub fn gives(&self) -> bool {
        self.call.gives != Gives::Nothing
    }
}

fn as_code(result: Result<(), Error>) -> u64 {
    code(result) as u64
}

fn refused(error: Error) -> u64 {
    as_code(Err(error))
}

/// Knows the connection that has begun.
fn connect(name: u64) -> u64 {
    let Ok(session) = objects::find::<Session>(name as *const c_void) else { return name };
    match packets::connect(session.clone()) {
        Ok(()) => name,
        Err(error) => {
            session.disconnect();
            object(Err(error)) as u64
        }
    }
}

/// The function is called with the a-flow's state, and its number goes where that of the function for the end is.
fn run_flow(flow: u64, function: u64) -> Result<(), Error> {
    let flow = objects::find::<ProcessDomain>(flow as *const c_void)?;
    flow.living()?;
    let state = state_of(&flow)?.0 as u32;
    if function == 0 {
        return Err(Error::Invalid);
    }
    let packed = Argument((function << 32 | u64::from(state)) as usize);
    flow.session.desk().run_flow(&flow, entries::an_FlowFunc, packed)
}

/// Runs all functions of the module's domains until one has ended.
fn wait(domain: u64) -> Result<(), Error> {
    let domain = objects::find::<ProcessDomain>(domain as *const c_void)?;
    if crew::is_of_a_crew() {
        return Err(Error::Invalid);
    }
    let session = &domain.session;
    let first = session.first().ok_or(Error::Stale)?;
    let first = objects::find::<ProcessDomain>(first as *const c_void)?;
    let stops = || domain.living().is_err() || FAILED.get();
    while !stops() {
        match session.desk().serve_unless(&first, None, &stops) {
            Ok(()) | Err(Error::Stale | Error::Ended) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What the library has in a module's memory.
#[derive(Default)]
struct Scratch {
    /// Where it begins, and how much is used of what is shown, and of the texts.
    at: Option<u32>,
    used: u32,
    kept: u32,
    /// Each with its place.
    texts: Vec<(Vec<u8>, u32)>,
}

thread_local! {
    static SCRATCH_USED: RefCell<Scratch> = RefCell::default();
}

/// Where all of it begins.
fn first(module: &mut dyn Module) -> Option<u32> {
    if let Some(at) = SCRATCH_USED.with_borrow(|scratch| scratch.at) {
        return Some(at);
    }
    let at = module.grow(SCRATCH)?;
    SCRATCH_USED.with_borrow_mut(|scratch| scratch.at = Some(at));
    Some(at)
}

/// Room for so many bytes, and what to say when it is not needed any more.
pub(super) fn shown(module: &mut dyn Module, bytes: usize) -> Option<(u32, u32)> {
    let first = first(module)?;
    SCRATCH_USED.with_borrow_mut(|scratch| {
        let before = scratch.used;
        let used = before.checked_add(u32::try_from(bytes).ok()?.next_multiple_of(16))?;
        scratch.used = Some(used).filter(|used| *used <= SCRATCH - TEXTS)?;
        Some((first + TEXTS + before, before))
    })
}

/// It is not needed any more, nor what was asked for later.
pub(super) fn hide(before: u32) {
    SCRATCH_USED.with_borrow_mut(|scratch| scratch.used = before);
}

/// Keeps a text in the module's memory for ever.
fn kept(module: &mut dyn Module, text: &[u8]) -> Option<u32> {
    let known = |scratch: &Scratch| scratch.texts.iter().find(|(known, _)| known == text).map(|(_, at)| *at);
    if let Some(at) = SCRATCH_USED.with_borrow(known) {
        return Some(at);
    }
    let first = first(module)?;
    let kept = SCRATCH_USED.with_borrow(|scratch| scratch.kept);
    let (at, end) = (first + kept, kept + u32::try_from(text.len()).ok()?);
    if end > TEXTS {
        return None;
    }
    put_at(module, at, text).ok()?;
    SCRATCH_USED.with_borrow_mut(|scratch| {
        scratch.kept = end;
        scratch.texts.push((text.to_vec(), at));
    });
    Some(at)
}
