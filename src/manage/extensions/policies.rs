//! Orders and admissions of ports that extensions bring: each has an instance of its own, made while ports are opened.
//!
//! ```text
//! four numbers (8 each) ─▶ the module's function ─▶ a number (8)
//!                              └ a trap, no fuel left, another length: it has failed
//! ```
//!
//! It is a call of the type `(int, int, int, int) -> int`, with the fuel of an engine for a packet. What is done when it fails says the
//! discipline ([`crate::schedule::discipline`]): no packet is lost by that.

use super::engines::EngineFunction;
use crate::code::extension::compiled::CompiledExtension;
use crate::schedule::discipline::{BroughtPolicy, MakesPolicies, PolicyCounts, PolicyName};
use core::fmt;
use std::sync::Arc;

/// All extensions of a node, for who opens its ports.
#[derive(Clone, Default)]
pub struct Policies(Arc<[Arc<CompiledExtension>]>);

impl Policies {
    /// Those of these.
    pub(super) fn new(all: impl Iterator<Item = Arc<CompiledExtension>>) -> Policies {
        Policies(all.collect())
    }

    fn made(
        &self,
        name: &PolicyName,
        class: impl Fn(&CompiledExtension) -> Result<usize, String>,
    ) -> Result<Box<dyn BroughtPolicy>, String> {
        let compiled = self.0.iter().find(|compiled| compiled.manifest.name == name.extension);
        let compiled = compiled.ok_or_else(|| format!("no extension '{}' is loaded", name.extension))?;
        let made = class(compiled).and_then(|class| EngineFunction::new(compiled, class, &name.arguments));
        let function = made.map_err(|why| format!("{}: {why}", name.text()))?;
        Ok(Box::new(PolicyFunction { function, name: name.text().into() }))
    }
}

impl MakesPolicies for Policies {
    fn order(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        self.made(name, |compiled| compiled.manifest.order(&name.class))
    }

    fn admission(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        self.made(name, |compiled| compiled.manifest.admission(&name.class))
    }
}

/// A function that decides.
struct PolicyFunction {
    function: EngineFunction,
    name: Arc<str>,
}

impl BroughtPolicy for PolicyFunction {
    fn decide(&mut self, given: [u64; 4], now: u64) -> Option<u64> {
        let exchange = &mut self.function.exchange;
        exchange.clear();
        given.iter().for_each(|word| exchange.extend_from_slice(&word.to_le_bytes()));
        self.function.call(now).ok()?;
        Some(u64::from_le_bytes(self.function.exchange[..].try_into().ok()?))
    }

    fn fail(&mut self) {
        self.function.fail();
    }

    fn counts(&self) -> PolicyCounts {
        let (calls, failed, fuel) = self.function.counted();
        PolicyCounts { name: self.name.clone(), calls, failed, fuel }
    }
}

impl fmt::Debug for PolicyFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyFunction").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests;
