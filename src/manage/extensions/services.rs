//! Calls of extensions as services of PLAN: each has an instance of its own, and learns of operators' calls that are made everywhere.
//!
//! ```text
//! operator's call ─▶ own instance ─▶ the side that nobody uses ─▶ sides change ─▶ the other one, which is free when its call has ended
//! PLAN's call     ─▶ the side that is used
//! ```
//!
//! A worker that evaluates programs waits for nobody: while one side takes an operator's call, it has the other one. Both take the same
//! calls in the same order, at the same time of their clocks, with the same random numbers and the node's same answers. So of what
//! operators have said they know the same. What a program's calls leave in memory is on the side that was used then: so a service that is
//! to hear operators should change nothing itself.

use crate::code::extension::built_in::{BuiltInAnswer, Desk};
use crate::code::extension::compiled::{CompiledExtension, Instances};
use crate::code::extension::instance::{CallFailure, SharedInstance};
use crate::ee::plan::LoadedService;
use crate::sys::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, TryLockError};

/// An instance with those that it calls, by name.
struct Side {
    own: SharedInstance,
    /// What the node has answered to the call that is heard.
    desk: Arc<Desk>,
    all: BTreeMap<String, SharedInstance>,
}

/// What a service has: one side, or two if operators' calls are made there.
pub(super) struct Sides {
    sides: Vec<Side>,
    used: AtomicUsize,
}

/// An operator's call: of which extension, which one it is there, its time and random number, and its arguments.
pub(super) struct Told<'a> {
    pub extension: &'a str,
    pub at: usize,
    pub at_time: (u64, u64),
    pub given: &'a [u8],
    pub fuel: u64,
    /// What the node has answered to what it has asked of it.
    pub answers: &'a VecDeque<BuiltInAnswer>,
}

impl Sides {
    pub(super) fn new(compiled: &CompiledExtension) -> Result<Sides, String> {
        let side = || {
            let desk = Arc::new(Desk::of_hearer());
            let mut instances = Instances { desk: Some(desk.clone()), ..Instances::default() };
            compiled.instance(&mut instances).map(|own| Side { own, desk, all: instances.all })
        };
        let count = if compiled.hears() { 2 } else { 1 };
        Ok(Sides { sides: (0..count).map(|_| side()).collect::<Result<_, _>>()?, used: AtomicUsize::new(0) })
    }

    /// What an operator has called is called here too, if it is of an extension that is here. What it gives is nobody's.
    pub(super) fn tell(&self, told: &Told<'_>) {
        let used = self.used.load(Ordering::Acquire);
        let [one, other] = &self.sides[..] else { return };
        if !one.all.contains_key(told.extension) {
            return;
        }
        (if used == 0 { other } else { one }).call(told);
        self.used.store(1 - used, Ordering::Release);
        (if used == 0 { one } else { other }).call(told);
    }
}

impl Side {
    fn call(&self, told: &Told<'_>) {
        let mut exchange = told.given.to_vec();
        // Whoever uses this side still has a call under way; those that the extension needs are called within such calls alone.
        let mut own = lock(&self.own);
        self.desk.exchange(Some(told.answers.clone()));
        let _ = match self.all.get(told.extension) {
            Some(needed) if !Arc::ptr_eq(needed, &self.own) => {
                lock(needed).call(told.at, told.at_time, told.fuel, &mut exchange)
            }
            _ => own.call(told.at, told.at_time, told.fuel, &mut exchange),
        };
        // Calls of programs are answered nothing.
        self.desk.exchange(None);
    }
}

/// A call as a service of PLAN.
pub(super) struct ServiceCall {
    pub sides: Arc<Sides>,
    pub at: usize,
}

impl LoadedService for ServiceCall {
    fn call(&mut self, now: u64, random: u64, fuel: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64) {
        loop {
            let used = self.sides.used.load(Ordering::Acquire);
            let Some(side) = self.sides.sides.get(used) else { return (Err(CallFailure::Broken), 0) };
            let mut instance = match side.own.try_lock() {
                Ok(instance) => instance,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Sides have changed since it was looked: the other one is free.
                Err(TryLockError::WouldBlock) => continue,
            };
            return instance.call(self.at, (now, random), fuel, exchange);
        }
    }
}

#[cfg(test)]
mod tests;
