//! The functions of `sdk/anode/nodeos.h`, as C calls them. The header has their meaning.
//!
//! Here is only what has to do with C: pointers become values, results become codes. A function that creates gives the object or NULL,
//! and then `an_error` says why; the others give 0 or the code. Specifications are read once, at the beginning of the call, and never
//! written or kept.

mod channel;
mod classifier;
mod domain;
mod file;
mod flow;
mod graph;
mod memory;
pub mod module;
mod node;
mod packet;
mod state;
mod store;
mod stream;

pub use classifier::OwnClassifier;

use crate::error::Error;
use crate::message::TEXT_MAX;
use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};

thread_local! {
    static LAST: Cell<u8> = const { Cell::new(0) };
}

/// The code of a result, remembered for `an_error`.
fn code(result: Result<(), Error>) -> c_int {
    let code = result.err().map_or(0, |error| error as u8);
    LAST.set(code);
    code.into()
}

/// The object that was created, or NULL.
fn object(result: Result<*mut c_void, Error>) -> *mut c_void {
    let object = *result.as_ref().unwrap_or(&core::ptr::null_mut());
    code(result.map(drop));
    object
}

/// A text of a program's.
///
/// # Safety
/// The pointer is NULL or leads to a string that ends with NUL and stays as it is during the call.
unsafe fn text(from: *const c_char) -> Result<String, Error> {
    if from.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise, and it is not NULL.
    let text = unsafe { CStr::from_ptr(from) };
    let text = text.to_str().map_err(|_| Error::Invalid)?;
    if text.len() > TEXT_MAX { Err(Error::Invalid) } else { Ok(text.into()) }
}

/// A text of any length of a program's.
///
/// # Safety
/// The pointer is NULL or leads to a string that ends with NUL and stays as it is during the call.
unsafe fn long_text<'a>(from: *const c_char) -> Result<&'a str, Error> {
    if from.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise, and it is not NULL.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| Error::Invalid)
}

/// A specification of a program's.
///
/// # Safety
/// The pointer is NULL or leads to a value that stays as it is during the call.
unsafe fn spec<T: Copy>(from: *const T) -> Result<T, Error> {
    if from.is_null() || !from.is_aligned() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise; it is neither NULL nor misaligned.
    Ok(unsafe { *from })
}

/// Puts a result where the program wants it.
///
/// # Safety
/// The pointer is NULL or leads to memory for the value.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() || !to.is_aligned() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise; it is neither NULL nor misaligned.
    unsafe { to.write(value) };
    Ok(())
}

/// Puts a text with NUL where the program has room for it, and how long it is; what there is no room for is left out.
///
/// # Safety
/// `into` leads to `room` bytes or is NULL, `length` to a number or is NULL.
unsafe fn put_text(told: &str, into: *mut c_char, room: usize, length: *mut usize) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { put(length, told.len()) }?;
    if into.is_null() || room == 0 {
        return Err(Error::Invalid);
    }
    let fits = told.len().min(room - 1);
    // SAFETY: the caller's promise: `room` bytes are there, and these and the NUL are not more.
    unsafe {
        core::ptr::copy_nonoverlapping(told.as_ptr(), into.cast::<u8>(), fits);
        into.add(fits).write(0);
    }
    if fits < told.len() { Err(Error::Invalid) } else { Ok(()) }
}

/// Why the last call of this thread failed, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn an_error() -> c_int {
    LAST.get().into()
}

/// A line about a code.
#[unsafe(no_mangle)]
pub extern "C" fn an_strerror(code: c_int) -> *const c_char {
    let error = u8::try_from(code).ok().and_then(Error::of_code);
    match (code, error) {
        (0, _) => c"AN_OK: done".as_ptr(),
        (_, Some(error)) => error.text().as_ptr(),
        _ => c"no error of this number".as_ptr(),
    }
}

/// Bytes of the memory that stands for an object in the explicit model.
#[unsafe(no_mangle)]
pub extern "C" fn an_objectSize() -> usize {
    crate::objects::OBJECT_BYTES
}
