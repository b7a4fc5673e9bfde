//! Ours for a module's functions: each has the name of its type in the header, and calls the function whose number is in its argument.
//!
//! They are called like functions of a program in C. Of a thread to which no module is lent none is called: that is the one that sees the
//! connection end, and then the module is told by its next call.

#![allow(non_snake_case, reason = "the header's names")]

use super::{Module, Value, put_at, special, there, with_lent};
use crate::crew::CEnds;
use core::ffi::{c_int, c_void};

/// Calls a function of a module with values.
type Calls<'a> = dyn FnMut(&mut dyn Module, &[Value]) -> Option<u32> + 'a;

/// Calls the function whose number and argument are in `packed`.
fn enter(
    packed: *mut c_void,
    watched: bool,
    work: impl FnOnce(&mut dyn Module, &mut Calls<'_>, Value) -> Option<u32>,
) -> u32 {
    let packed = packed as u64;
    let function = (packed >> 32) as u32;
    let call = &mut |module: &mut dyn Module, values: &[Value]| module.call(function, values, watched);
    with_lent(|module| work(module, call, Value::I32(packed as u32))).unwrap_or(0)
}

/// Gives a module bytes for as long as a function runs.
fn showing(
    module: &mut dyn Module,
    bytes: &[u8],
    work: impl FnOnce(&mut dyn Module, Value) -> Option<u32>,
) -> Option<u32> {
    let (at, before) = special::shown(module, bytes.len())?;
    put_at(module, at, bytes).ok()?;
    let result = work(module, Value::I32(at));
    special::hide(before);
    result
}

fn object(name: *mut c_void) -> Value {
    Value::I32(there(name as u64))
}

pub extern "C" fn an_ChanRecvFunc(chan: *mut c_void, packet: *mut c_void, ends: *const CEnds, arg: *mut c_void) {
    enter(arg, true, |module, call, arg| {
        // SAFETY: the library gives both ends of a packet for as long as this runs; they are plain bytes.
        let bytes = unsafe { core::slice::from_raw_parts(ends.cast::<u8>(), size_of::<CEnds>()) };
        showing(module, bytes, |module, ends| call(module, &[object(chan), object(packet), ends, arg]))
    });
}

pub extern "C" fn an_EventFunc(event: *mut c_void, arg: *mut c_void) {
    enter(arg, true, |module, call, arg| call(module, &[object(event), arg]));
}

pub extern "C" fn an_DomainEndFunc(domain: *mut c_void, arg: *mut c_void) {
    an_EventFunc(domain, arg);
}

pub extern "C" fn an_WatchFunc(watch: *mut c_void, arg: *mut c_void) {
    an_EventFunc(watch, arg);
}

pub extern "C" fn an_FlowFunc(flow: *mut c_void, state: *mut c_void) {
    enter(state, false, |module, call, state| call(module, &[object(flow), state]));
}

pub extern "C" fn an_OverrunFunc(pool: *mut c_void, deadline_ns: u64, arg: *mut c_void) {
    enter(arg, true, |module, call, arg| call(module, &[object(pool), Value::I64(deadline_ns), arg]));
}

pub extern "C" fn an_ThreadFunc(arg: *mut c_void) {
    enter(arg, false, |module, call, arg| call(module, &[arg]));
}

pub extern "C" fn an_StoreKeyFunc(
    key: *const c_void,
    keybytes: usize,
    bytes: usize,
    version: u64,
    arg: *mut c_void,
) -> c_int {
    enter(arg, true, |module, call, arg| {
        // SAFETY: the library gives a key of so many bytes for as long as this runs.
        let key = unsafe { core::slice::from_raw_parts(key.cast::<u8>(), keybytes) };
        let sizes = [keybytes, bytes].map(|size| Value::I32(size as u32));
        showing(module, key, |module, key| call(module, &[key, sizes[0], sizes[1], Value::I64(version), arg]))
    }) as c_int
}

pub extern "C" fn an_StoreChangeFunc(
    key: *const c_void,
    keybytes: usize,
    version: u64,
    deleted: c_int,
    arg: *mut c_void,
) {
    enter(arg, true, |module, call, arg| {
        // SAFETY: as above.
        let key = unsafe { core::slice::from_raw_parts(key.cast::<u8>(), keybytes) };
        let (size, deleted) = (Value::I32(keybytes as u32), Value::I32(deleted as u32));
        showing(module, key, |module, key| call(module, &[key, size, Value::I64(version), deleted, arg]))
    });
}
