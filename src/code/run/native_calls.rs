//! The calls of `sdk/anode/capsule.h`, for native code: functions with the processor's own calling convention.
//!
//! Each goes to the method of [`super::scope::Scope`] with the same meaning as for wasm ([`super::calls`]). Pointers
//! are the code's, which is trusted with them.

#![allow(unsafe_code)]

use super::calls::status;
use super::lent::with;
use crate::abi::{CallError, NONE, NONE64};
use crate::core::state_store::{VALUE, Value};
use crate::wire::Addr;
use core::ffi::c_void;

fn result(done: Option<Result<(), CallError>>) -> i32 {
    done.map_or(CallError::Denied as i32, status)
}

/// Writes through a pointer of the code.
///
/// # Safety
/// `to` points to as many bytes as `bytes` has.
unsafe fn write<const N: usize>(to: *mut [u8; N], bytes: [u8; N]) {
    // SAFETY: the caller's.
    unsafe { to.write_unaligned(bytes) }
}

extern "C" fn an_now() -> u64 {
    with(|scope, _| scope.now()).unwrap_or(0)
}

extern "C" fn an_random() -> u64 {
    with(|scope, _| scope.random()).unwrap_or(0)
}

/// # Safety
/// `to` points to 16 bytes.
unsafe extern "C" fn an_node_name(to: *mut [u8; 16]) -> i32 {
    let name = with(|scope, _| scope.core.short_name()).unwrap_or_default();
    // SAFETY: the caller's.
    unsafe { write(to, name) };
    0
}

extern "C" fn an_load(offset: u32, size: u32) -> u64 {
    with(|scope, window| scope.load(window, offset, size)).unwrap_or(NONE64)
}

extern "C" fn an_store(offset: u32, value: u64, size: u32) -> i32 {
    result(with(|scope, window| scope.store(window, offset, value, size)))
}

/// # Safety
/// `to` points to a value.
unsafe extern "C" fn an_state_get(key: u64, to: *mut Value) -> i32 {
    let found = with(|scope, _| scope.state_get(key)).unwrap_or(Err(CallError::Denied));
    // SAFETY: the caller's.
    unsafe { write(to, found.unwrap_or([0; VALUE])) };
    status(found.map(drop))
}

/// # Safety
/// `from` points to a value.
unsafe extern "C" fn an_state_put(key: u64, from: *const Value, keep_ms: u32) -> i32 {
    // SAFETY: the caller's.
    let value = unsafe { from.read_unaligned() };
    result(with(|scope, _| scope.state_put(key, &value, keep_ms)))
}

extern "C" fn an_state_add(key: u64, delta: u64, keep_ms: u32) -> u64 {
    with(|scope, _| scope.state_add(key, delta, keep_ms)).unwrap_or(NONE64)
}

extern "C" fn an_state_max(key: u64, least: u64, keep_ms: u32) -> u64 {
    with(|scope, _| scope.state_max(key, least, keep_ms)).unwrap_or(NONE64)
}

/// # Safety
/// `from` points to a value.
unsafe extern "C" fn an_state_exchange(key: u64, expected: u64, from: *const Value, keep_ms: u32) -> i32 {
    // SAFETY: the caller's.
    let value = unsafe { from.read_unaligned() };
    result(with(|scope, _| scope.state_exchange(key, expected, &value, keep_ms)))
}

extern "C" fn an_neighbours() -> u32 {
    with(|scope, _| scope.core.topology.neighbours.len() as u32).unwrap_or(0)
}

/// # Safety
/// `to` points to an address.
unsafe extern "C" fn an_neighbour(index: u32, to: *mut [u8; 16]) -> i32 {
    let found = with(|scope, _| scope.core.topology.neighbours.of(index).map(|neighbour| neighbour.addr)).flatten();
    // SAFETY: the caller's.
    unsafe { write(to, found.unwrap_or(Addr::UNSPECIFIED).0) };
    if found.is_some() { 0 } else { CallError::Absent as i32 }
}

/// # Safety
/// Both point to addresses.
unsafe extern "C" fn an_route(to: *const [u8; 16], next: *mut [u8; 16]) -> i32 {
    // SAFETY: the caller's.
    let to = Addr(unsafe { to.read_unaligned() });
    let (found, via) = match with(|scope, _| scope.route(to)).unwrap_or(Err(CallError::Denied)) {
        Ok((port, via)) => (i32::from(port.0), via),
        Err(error) => (error as i32, Addr::UNSPECIFIED),
    };
    // SAFETY: the caller's.
    unsafe { write(next, via.0) };
    found
}

extern "C" fn an_link_load(port: u32) -> u32 {
    with(|scope, _| scope.link_load(port)).unwrap_or(NONE)
}

extern "C" fn an_link_queue(port: u32) -> u32 {
    with(|scope, _| scope.link_queue(port)).unwrap_or(NONE)
}

extern "C" fn an_send(bound: u32) -> i32 {
    result(with(|scope, window| scope.send(window, bound)))
}

extern "C" fn an_log(tag: u32, value: u64) -> i32 {
    result(with(|scope, _| scope.write_log(tag, value)))
}

extern "C" fn an_graph_wish(number: u32) -> i32 {
    result(with(|scope, _| scope.graph_wish(number)))
}

/// The address of the function behind a symbol.
pub(super) fn address(symbol: &str) -> Option<*const c_void> {
    Some(match symbol {
        "an_now" => an_now as *const c_void,
        "an_random" => an_random as *const c_void,
        "an_node_name" => an_node_name as *const c_void,
        "an_load" => an_load as *const c_void,
        "an_store" => an_store as *const c_void,
        "an_state_get" => an_state_get as *const c_void,
        "an_state_put" => an_state_put as *const c_void,
        "an_state_add" => an_state_add as *const c_void,
        "an_state_max" => an_state_max as *const c_void,
        "an_state_exchange" => an_state_exchange as *const c_void,
        "an_neighbours" => an_neighbours as *const c_void,
        "an_neighbour" => an_neighbour as *const c_void,
        "an_route" => an_route as *const c_void,
        "an_link_load" => an_link_load as *const c_void,
        "an_link_queue" => an_link_queue as *const c_void,
        "an_send" => an_send as *const c_void,
        "an_log" => an_log as *const c_void,
        "an_graph_wish" => an_graph_wish as *const c_void,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_has_a_function_and_is_harmless_without_a_packet() {
        assert!(crate::abi::SYMBOLS.iter().all(|symbol| address(symbol.name).is_some()));
        assert_eq!((an_now(), an_load(0, 1), an_send(1)), (0, NONE64, CallError::Denied as i32));
    }
}
