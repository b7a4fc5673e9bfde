//! The calls of `sdk/anode/capsule.h` (`an_now`, `an_send`, …), bound for wasm.
//!
//! Each takes its arguments from the guest, checks pointers against the guest's memory, and goes to the method of
//! [`Scope`] with the same meaning. A pointer outside the memory is a trap.

use super::lent;
use super::scope::Scope;
use super::wasm::Guest;
use crate::abi::CallError;
use crate::core::state_store::VALUE;
use crate::wire::Addr;
use wasmtime::{Caller, Linker, Result, bail, format_err};

/// The module name under which code imports the calls.
const MODULE: &str = "anode";

type Call<'a> = Caller<'a, Guest>;

/// Binds every call of the interface.
pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(MODULE, "an_now", || scope(|scope| scope.now()))?;
    linker.func_wrap(MODULE, "an_random", || scope(|scope| scope.random()))?;
    linker.func_wrap(MODULE, "an_node_name", |mut call: Call<'_>, to: u32| {
        let name = scope(|scope| scope.core.short_name())?;
        write(&mut call, to, &name)?;
        Ok(0)
    })?;
    linker.func_wrap(MODULE, "an_neighbours", || scope(|scope| scope.core.topology.neighbours.len() as u32))?;
    linker.func_wrap(MODULE, "an_neighbour", |mut call: Call<'_>, index: u32, to: u32| {
        let found = scope(|scope| scope.core.topology.neighbours.of(index).map(|neighbour| neighbour.addr))?;
        write(&mut call, to, &found.unwrap_or(Addr::UNSPECIFIED).0)?;
        Ok(if found.is_some() { 0 } else { CallError::Absent as i32 })
    })?;
    linker.func_wrap(MODULE, "an_route", route)?;
    linker.func_wrap(MODULE, "an_link_load", |port: u32| scope(|scope| scope.link_load(port)))?;
    linker.func_wrap(MODULE, "an_link_queue", |port: u32| scope(|scope| scope.link_queue(port)))?;
    linker.func_wrap(MODULE, "an_log", |tag: u32, value: u64| scope(|scope| status(scope.write_log(tag, value))))?;
    linker.func_wrap(MODULE, "an_graph_wish", |number: u32| scope(|scope| status(scope.graph_wish(number))))?;
    linker.func_wrap(MODULE, "an_load", |mut call: Call<'_>, offset: u32, size: u32| {
        with_window(&mut call, |scope, window| scope.load(window, offset, size))
    })?;
    linker.func_wrap(MODULE, "an_store", |mut call: Call<'_>, offset: u32, value: u64, size: u32| {
        with_window(&mut call, |scope, window| status(scope.store(window, offset, value, size)))
    })?;
    linker.func_wrap(MODULE, "an_send", |mut call: Call<'_>, bound: u32| {
        with_window(&mut call, |scope, window| status(scope.send(window, bound)))
    })?;
    linker.func_wrap(MODULE, "an_state_get", state_get)?;
    linker.func_wrap(MODULE, "an_state_put", |call: Call<'_>, key: u64, from: u32, keep_ms: u32| {
        let value = read::<VALUE>(&call, from)?;
        scope(|scope| status(scope.state_put(key, &value, keep_ms)))
    })?;
    linker.func_wrap(MODULE, "an_state_add", |key: u64, delta: u64, keep_ms: u32| {
        scope(|scope| scope.state_add(key, delta, keep_ms))
    })?;
    linker.func_wrap(MODULE, "an_state_max", |key: u64, least: u64, keep_ms: u32| {
        scope(|scope| scope.state_max(key, least, keep_ms))
    })?;
    linker.func_wrap(
        MODULE,
        "an_state_exchange",
        |call: Call<'_>, key: u64, expected: u64, from: u32, keep_ms: u32| {
            let value = read::<VALUE>(&call, from)?;
            scope(|scope| status(scope.state_exchange(key, expected, &value, keep_ms)))
        },
    )?;
    Ok(())
}

fn route(mut call: Call<'_>, to: u32, next: u32) -> Result<i32> {
    let to = Addr(read::<16>(&call, to)?);
    let (found, via) = match scope(|scope| scope.route(to))? {
        Ok((port, via)) => (i32::from(port.0), via),
        Err(error) => (error as i32, Addr::UNSPECIFIED),
    };
    write(&mut call, next, &via.0)?;
    Ok(found)
}

fn state_get(mut call: Call<'_>, key: u64, to: u32) -> Result<i32> {
    let found = scope(|scope| scope.state_get(key))?;
    write(&mut call, to, &found.unwrap_or([0; VALUE]))?;
    Ok(status(found.map(drop)))
}

pub(super) fn status(result: Result<(), CallError>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error as i32,
    }
}

/// Runs `work` with the scope of the code that calls.
fn scope<R>(work: impl FnOnce(&mut Scope<'_>) -> R) -> Result<R> {
    lent::with(|scope, _| work(scope)).ok_or_else(|| format_err!("no packet"))
}

/// Runs `work` with the scope, and the window as the guest has it now.
fn with_window<R>(call: &mut Call<'_>, work: impl FnOnce(&mut Scope<'_>, &mut [u8]) -> R) -> Result<R> {
    let Some(memory) = call.data().memory else { bail!("no memory") };
    let (bytes, guest) = memory.data_and_store_mut(call);
    let Some(window) = bytes.get_mut(guest.window.clone()) else { bail!("no window") };
    scope(|scope| work(scope, window))
}

fn read<const N: usize>(call: &Call<'_>, from: u32) -> Result<[u8; N]> {
    let Some(memory) = call.data().memory else { bail!("no memory") };
    let bytes = memory.data(call).get(from as usize..from as usize + N);
    let mut value = [0; N];
    value.copy_from_slice(bytes.ok_or_else(|| format_err!("pointer outside memory"))?);
    Ok(value)
}

fn write(call: &mut Call<'_>, to: u32, value: &[u8]) -> Result<()> {
    let Some(memory) = call.data().memory else { bail!("no memory") };
    let bytes = memory.data_mut(call).get_mut(to as usize..to as usize + value.len());
    bytes.ok_or_else(|| format_err!("pointer outside memory"))?.copy_from_slice(value);
    Ok(())
}
