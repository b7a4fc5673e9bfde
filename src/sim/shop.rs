//! The compiler of simulated nodes: one per process.
//!
//! Its result depends on nothing but its input, so all simulations of a process share one compiler and its results. The
//! time that a node waits for its code is virtual.

use crate::code::run::wasm::{Backstop, Compiler};
use crate::code::run::{LoadedProgram, Prepare, Tier};
use crate::wire::Digest;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Results kept; beyond, the shop starts anew.
const RESULTS_MAX: usize = 512;

type Made = Result<LoadedProgram, String>;

struct Shop {
    compiler: Result<Compiler, String>,
    made: HashMap<(Digest, u32, Tier), Made>,
}

static SHOP: OnceLock<Mutex<Shop>> = OnceLock::new();

/// The compiled representation, or why there is none.
pub(super) fn prepare(prepare: &Prepare) -> Made {
    let open = || {
        let compiler = Compiler::new(Backstop::FuelOnly).map_err(|error| format!("no compiler: {error:#}"));
        Mutex::new(Shop { compiler, made: HashMap::new() })
    };
    // A panic elsewhere cannot leave a half-made result: they are put in whole.
    let mut shop = SHOP.get_or_init(open).lock().unwrap_or_else(PoisonError::into_inner);
    let Shop { compiler, made } = &mut *shop;
    let key = (Digest::of(&prepare.bytes), prepare.window, prepare.tier);
    if let Some(result) = made.get(&key) {
        return result.clone();
    }
    if made.len() >= RESULTS_MAX {
        made.clear();
    }
    let result = match compiler {
        Ok(compiler) => prepare.carry_out(compiler),
        Err(why) => Err(why.clone()),
    };
    made.insert(key, result.clone());
    result
}
