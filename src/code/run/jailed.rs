//! Results of the jailed compiler, taken into this process.

#![allow(unsafe_code)]

use crate::code::compiler::{Failure, Job, Lane, Purpose};
use wasmtime::{Engine, Module};

/// A service of PLAN, compiled in the jail, for an engine of [`super::engine::service`].
pub(crate) fn service(engine: &Engine, lane: &mut Lane, wasm: &[u8]) -> Result<wasmtime::Result<Module>, Failure> {
    let output = lane.compile(&Job { purpose: Purpose::Service, module: wasm })?;
    // SAFETY: as in `super::wasm::Compiler::compile_in`.
    Ok(unsafe { Module::deserialize(engine, output.artifact) })
}
