//! Extensions as shared objects, for nodes whose operator trusts them. Example: a C compiler makes one of the same text as a module.
//!
//! An object is loaded anew for each instance, so that each has variables of its own. Nothing bounds it: no fuel, no memory limit, and a
//! fault in it is the node's. It resolves nothing against the node: `an_given` of the header is a table of what it may call.

#![allow(unsafe_code)]

use super::given::{BUFFER, CallFailure, FAILED, PASSING, draw, length_of};
use super::object::CALL;
use crate::sys::shared_object::SharedObject;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

/// A call of another extension: time and chance, fuel, and what goes there and comes back; how much fuel it took.
pub type CallsOther = Box<dyn FnMut((u64, u64), u64, &mut Vec<u8>) -> (Result<(), CallFailure>, u64) + Send>;

/// Who loads objects: not whoever needs an instance, since most threads of a node may not.
pub type LoadsObjects = Arc<dyn Fn(&Arc<[u8]>) -> io::Result<SharedObject> + Send + Sync>;

/// Why a node does not take one.
pub fn refused(name: &str) -> String {
    format!(
        "{name} is native code, and nothing bounds that in the node's process: [security] native_extensions = true lets it in"
    )
}

// SAFETY of a call: the object that it belongs to is loaded, and its table is in place.
type Function = unsafe extern "C" fn(u32) -> i32;

/// The table of the header.
#[repr(C)]
struct Given {
    size: u32,
    of: *mut Called,
    now: extern "C" fn(*mut Called) -> u64,
    random: extern "C" fn(*mut Called) -> u64,
    need: extern "C" fn(*mut Called, *const c_char, u32) -> i32,
}

/// What a function finds while it is called.
struct Called {
    now: u64,
    random: u64,
    /// What others may use that it calls.
    fuel: u64,
    links: Vec<(CString, CallsOther)>,
    buffer: NonNull<u8>,
}

/// An object that is ready.
pub struct NativeInstance {
    calls: Vec<Function>,
    called: NonNull<Called>,
    given: NonNull<Given>,
    bytes: u64,
    /// The code of all these, as long as somebody has them.
    object: Option<SharedObject>,
}

// SAFETY: nothing in it belongs to a thread; whoever has it is the only one that reaches what its pointers lead to.
unsafe impl Send for NativeInstance {}

impl NativeInstance {
    /// Of an object that [`super::object::manifest_of`] has read, and that is loaded for this instance alone: from so many bytes.
    pub fn new(
        (object, bytes): (SharedObject, usize),
        functions: &[&str],
        links: Vec<(CString, CallsOther)>,
    ) -> Result<NativeInstance, String> {
        let find = |name: &str| {
            let named = CString::new(name).ok();
            let found = named.and_then(|name| object.symbol(&name));
            found.ok_or_else(|| format!("it exports no {name}"))
        };
        let mut calls = Vec::new();
        for name in functions {
            let at = find(&format!("{CALL}{name}"))?;
            // SAFETY: the header gives functions of this name this type; who lets a native extension in trusts it to follow the header.
            calls.push(unsafe { core::mem::transmute::<*mut c_void, Function>(at.as_ptr()) });
        }
        let (buffer, place) = (find("an_buffer")?.cast(), find("an_given")?.cast::<*const Given>());
        // SAFETY: by the same rule it is a number of this size.
        let bytes_there = unsafe { find("an_given_bytes")?.cast::<u32>().read() };
        if bytes_there as usize != size_of::<Given>() {
            return Err("another anode/extension.h than this node's was its header: compile it anew".into());
        }
        let called = Called { now: 0, random: 0, fuel: 0, links, buffer };
        let called = NonNull::from(Box::leak(Box::new(called)));
        let size = size_of::<Given>() as u32;
        let given = Given { size, of: called.as_ptr(), now, random, need };
        let given = NonNull::from(Box::leak(Box::new(given)));
        // SAFETY: by the same rule `an_given` is a pointer to such a table. It lives as long as the object: both go with this instance.
        unsafe { place.write(given.as_ptr()) };
        Ok(NativeInstance { calls, called, given, bytes: bytes as u64, object: Some(object) })
    }

    /// Bytes of its file: what its variables have besides nobody counts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Calls a function, as a module's: only what others take that it calls is counted.
    pub fn call(
        &mut self,
        at: usize,
        (now, random): (u64, u64),
        fuel: u64,
        exchange: &mut Vec<u8>,
    ) -> (Result<(), CallFailure>, u64) {
        let Some(function) = self.calls.get(at) else { return (Err(CallFailure::Broken), 0) };
        if exchange.len() > BUFFER {
            return (Err(CallFailure::TooBig), 0);
        }
        let called = self.called.as_ptr();
        // SAFETY: it is there as long as `self`, and no function runs that has it. The buffer has as many bytes as the header says.
        let buffer = unsafe {
            ((*called).now, (*called).random, (*called).fuel) = (now, random, fuel);
            (*called).buffer
        };
        // SAFETY: as above; both are apart.
        unsafe { buffer.copy_from_nonoverlapping(NonNull::from(exchange.as_slice()).cast(), exchange.len()) };
        // SAFETY: the object is loaded, and its table in place.
        let returned = unsafe { function(exchange.len() as u32) };
        // SAFETY: no function runs any more.
        let taken = fuel - unsafe { (*called).fuel }.min(fuel);
        exchange.clear();
        let result = length_of(returned).map(|length| {
            // SAFETY: so many bytes of the buffer are there, and nobody writes them now.
            exchange.extend_from_slice(unsafe { core::slice::from_raw_parts(buffer.as_ptr(), length) });
        });
        (result, taken)
    }
}

impl Drop for NativeInstance {
    fn drop(&mut self) {
        // What it does as it goes may still look at its table.
        self.object = None;
        // SAFETY: both came out of boxes, and the object that knew of them is gone.
        drop(unsafe { (Box::from_raw(self.given.as_ptr()), Box::from_raw(self.called.as_ptr())) });
    }
}

extern "C" fn now(called: *mut Called) -> u64 {
    // SAFETY: the object passes on what its table has, which is there as long as the object.
    unsafe { (*called).now }
}

extern "C" fn random(called: *mut Called) -> u64 {
    // SAFETY: as above; the instance is called by one thread at a time.
    unsafe { draw(&mut (*called).random) }
}

/// A call of another extension: what is in the buffer goes to it, and its result comes back there.
extern "C" fn need(called: *mut Called, name: *const c_char, length: u32) -> i32 {
    // SAFETY: as above; the name is one of the header's, which end with NUL.
    let (called, name) = unsafe { (&mut *called, CStr::from_ptr(name)) };
    let other = called.links.iter_mut().find(|(known, _)| known.as_c_str() == name);
    let Some((_, other)) = other else { return FAILED };
    let length = (length as usize).min(BUFFER);
    // SAFETY: the buffer has so many bytes, and the function that has called waits.
    let mut exchange = unsafe { core::slice::from_raw_parts(called.buffer.as_ptr(), length) }.to_vec();
    called.fuel = called.fuel.saturating_sub(PASSING + exchange.len() as u64);
    let chance = draw(&mut called.random);
    let (result, taken) = other((called.now, chance), called.fuel, &mut exchange);
    called.fuel = called.fuel.saturating_sub(taken);
    match result {
        Ok(()) => called.put(&exchange),
        Err(failure) => failure.code(),
    }
}

impl Called {
    /// Puts a result of no more bytes than it has into the buffer; how many these are.
    fn put(&self, result: &[u8]) -> i32 {
        let length = result.len().min(BUFFER);
        // SAFETY: the buffer has so many bytes, and the function that has called waits.
        unsafe { self.buffer.copy_from_nonoverlapping(NonNull::from(result).cast(), length) };
        length as i32
    }
}
