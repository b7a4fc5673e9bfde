//! Soft state of domains.
//!
//! A value is eight words in the program's memory, in the processor's order, and 64 bytes to the node, each word with
//! its lowest byte first.

use super::{code, put, spec};
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::layout;
use crate::message::{Answer, Call, STATE_VALUE};
use crate::objects;
use core::ffi::{c_int, c_uint, c_void};

/// What is kept under one key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStateValue {
    word: [u64; STATE_VALUE / 8],
}

layout::an_StateValue!(CStateValue);

impl CStateValue {
    fn of(bytes: &[u8; STATE_VALUE]) -> CStateValue {
        let mut word = [0; STATE_VALUE / 8];
        word.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        CStateValue { word }
    }

    fn bytes(&self) -> [u8; STATE_VALUE] {
        let mut bytes = [0; STATE_VALUE];
        bytes.as_chunks_mut().0.iter_mut().zip(self.word).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes
    }
}

/// Asks the node something of a living domain's state.
fn ask(domain: *mut c_void, call: impl FnOnce(u32) -> Call) -> Result<Answer, Error> {
    let domain = objects::find::<ProcessDomain>(domain)?;
    domain.living()?;
    domain.session.call(&call(domain.name))
}

/// Has the number in a value changed, and puts what it is then where the program wants it, if it does.
///
/// # Safety
/// `to` is NULL or leads to memory for a number.
unsafe fn change(domain: *mut c_void, to: *mut u64, call: impl FnOnce(u32) -> Call) -> Result<(), Error> {
    if !to.is_aligned() {
        return Err(Error::Invalid);
    }
    let Answer::Number { number } = ask(domain, call)? else { return Err(Error::Ended) };
    // SAFETY: the caller's promise.
    if to.is_null() { Ok(()) } else { unsafe { put(to, number) } }
}

/// Reads what is kept under a key.
///
/// # Safety
/// `value` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_stateGet(domain: *mut c_void, key: u64, value: *mut CStateValue) -> c_int {
    let get = || {
        // SAFETY: the caller's promise.
        unsafe { put(value, CStateValue::of(&[0; STATE_VALUE])) }?;
        let answer = ask(domain, |domain| Call::StateGet { domain, key })?;
        let Answer::Kept { value: kept } = answer else { return Err(Error::Ended) };
        // SAFETY: the same.
        unsafe { put(value, CStateValue::of(&kept)) }
    };
    code(get())
}

/// Keeps a value under a key.
///
/// # Safety
/// `value` is NULL or leads to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_statePut(
    domain: *mut c_void,
    key: u64,
    value: *const CStateValue,
    keep_ms: c_uint,
) -> c_int {
    let keep = || {
        // SAFETY: the caller's promise.
        let value = unsafe { spec(value) }?.bytes();
        ask(domain, |domain| Call::StatePut { domain, key, value, keep_ms }).map(drop)
    };
    code(keep())
}

/// Adds to the number under a key.
///
/// # Safety
/// `sum` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_stateAdd(
    domain: *mut c_void,
    key: u64,
    delta: u64,
    keep_ms: c_uint,
    sum: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { change(domain, sum, |domain| Call::StateAdd { domain, key, delta, keep_ms }) })
}

/// Raises the number under a key.
///
/// # Safety
/// `most` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_stateMax(
    domain: *mut c_void,
    key: u64,
    least: u64,
    keep_ms: c_uint,
    most: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { change(domain, most, |domain| Call::StateMax { domain, key, least, keep_ms }) })
}

/// Keeps a value under a key if the number there is what was expected.
///
/// # Safety
/// `value` is NULL or leads to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_stateExchange(
    domain: *mut c_void,
    key: u64,
    expected: u64,
    value: *const CStateValue,
    keep_ms: c_uint,
) -> c_int {
    let exchange = || {
        // SAFETY: the caller's promise.
        let value = unsafe { spec(value) }?.bytes();
        ask(domain, |domain| Call::StateExchange { domain, key, expected, value, keep_ms }).map(drop)
    };
    code(exchange())
}
