//! A-flows: domains whose functions the threads of the domain above them run.
//!
//! To the node one is a leaf domain like others, with a share of its own; who runs it is decided here ([`crate::crew::Flow`]). So all calls
//! about domains take a-flows.

use super::{code, object, spec, text};
use crate::crew::{self, Argument, Flow, ObjectFunction, ProcessDomain, THREADS_MAX};
use crate::error::Error;
use crate::layout;
use crate::message::{DomainSpec, Threads};
use crate::objects::{self, Credential, Place};
use core::ffi::{c_char, c_int, c_uint, c_void};

/// Milliseconds of the coarsest timers: a day.
const TIMER_MS_MAX: c_uint = 86_400_000;

/// An a-flow to be created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CFlowSpec {
    title: *const c_char,
    pool: *const c_void,
    cred: *const c_void,
    maxthreads: c_int,
    holdms: c_uint,
    ntimers: c_uint,
    timer_ms: c_uint,
    state: *mut c_void,
    endfunc: Option<ObjectFunction>,
}

layout::an_FlowSpec!(CFlowSpec);

/// What a program wants that says nothing.
const PLAIN: CFlowSpec = CFlowSpec {
    title: core::ptr::null(),
    pool: core::ptr::null(),
    cred: core::ptr::null(),
    maxthreads: 0,
    holdms: 0,
    ntimers: 0,
    timer_ms: 0,
    state: core::ptr::null_mut(),
    endfunc: None,
};

/// Creates an a-flow below a domain.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_flowCreate(
    mem: *mut c_void,
    parent: *mut c_void,
    flowspec: *const CFlowSpec,
) -> *mut c_void {
    let create = || {
        let (place, parent) = (Place::of(mem)?, objects::find::<ProcessDomain>(parent)?);
        parent.living()?;
        // SAFETY: the header asks for NULL or a specification.
        let given = if flowspec.is_null() { PLAIN } else { unsafe { spec(flowspec) }? };
        if !(0..=THREADS_MAX as c_int).contains(&given.maxthreads) || given.timer_ms > TIMER_MS_MAX {
            return Err(Error::Invalid);
        }
        let threads = Threads { max_threads: given.maxthreads.max(1) as u16, stack_bytes: 0, hold_ms: given.holdms };
        // SAFETY: as above.
        let title = if given.title.is_null() { "flow".into() } else { unsafe { text(given.title) }? };
        let mut node_spec = DomainSpec { title, threads, pool: None, role: None };
        if !given.pool.is_null() {
            node_spec.pool = Some(super::domain::pool_of(given.pool, &parent.session)?);
        }
        if !given.cred.is_null() {
            node_spec.role = Some(objects::find::<Credential>(given.cred)?.role.clone());
        }
        let state = Argument::of(given.state);
        let (timers_max, timer_ms) = (given.ntimers, given.timer_ms);
        let workers = parent.workers();
        super::domain::open_below(place, &parent, node_spec, false, |domain| {
            domain.ends = given.endfunc.map(|function| (function, state));
            domain.flow = Some(Flow { workers, state, timers_max, timer_ms, leaf: true });
        })
    };
    object(create())
}

/// Has a thread run a function for an a-flow.
#[unsafe(no_mangle)]
pub extern "C" fn an_flowRun(flow: *mut c_void, function: Option<ObjectFunction>) -> c_int {
    let run = || {
        let flow = objects::find::<ProcessDomain>(flow)?;
        flow.living()?;
        let function = function.ok_or(Error::Invalid)?;
        flow.session.desk().run_flow(&flow, function, state_of(&flow)?)
    };
    code(run())
}

/// The state of an a-flow, and of nothing else.
pub(super) fn state_of(flow: &ProcessDomain) -> Result<Argument, Error> {
    flow.flow.as_ref().filter(|flow| flow.leaf).map(|flow| flow.state).ok_or(Error::Invalid)
}

/// The state of an a-flow, or of that for which the calling thread works.
#[unsafe(no_mangle)]
pub extern "C" fn an_flowState(flow: *mut c_void) -> *mut c_void {
    let state = || {
        let state = match flow.is_null() {
            true => crew::own_flow_state().ok_or(Error::Invalid),
            false => state_of(&*objects::find::<ProcessDomain>(flow)?),
        };
        state.map(Argument::pointer)
    };
    object(state())
}
