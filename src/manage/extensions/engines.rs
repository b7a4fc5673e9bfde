//! Engines of extensions: functions of a module that packets of a graph go through.
//!
//! ```text
//! packet ─▶ input (8) · length (8) · bytes, up to a multiple of 8 ─▶ the module's function ─▶ output · length · bytes ─▶ packet
//!                                                 └ a trap, no fuel left, no packet: engine-failed
//! ```
//!
//! It is a call as all others of an extension, of the type `(int, blob) -> int * blob`. Each engine has an instance of its own, with all
//! that its extension needs, on the worker that has its graph, so nobody is waited for. What it keeps in memory goes on in the next
//! generation of its graph, if it is the same engine with the same arguments of a module that was not loaded anew.

use super::marshals::marshals;
use super::orders::OrderEngine;
use crate::code::extension::call_type::put_blob;
use crate::code::extension::compiled::{CompiledExtension, Instances};
use crate::code::extension::instance::{CallFailure, SharedInstance};
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::graph::class::{BroughtClass, MakesEngines, PACKET_FUEL};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, PoisonError};

/// Fuel of reading an engine's arguments.
const SETUP_FUEL: u64 = 1_000_000;

/// The classes that an extension brings, those that marshal packets among them.
pub(super) fn classes(compiled: &Arc<CompiledExtension>) -> Vec<Arc<BroughtClass>> {
    let manifest = &compiled.manifest;
    let class = |(at, engine): (usize, &crate::code::extension::manifest::ExportedEngine)| {
        let maker = Box::new(EngineMaker { compiled: compiled.clone(), at });
        Arc::new(BroughtClass::new(
            &manifest.name,
            (&engine.name, &engine.ports, engine.order, &engine.about),
            Some(maker),
        ))
    };
    manifest.engines.iter().enumerate().map(class).chain(marshals(compiled)).collect()
}

/// Makes engines of one class.
struct EngineMaker {
    compiled: Arc<CompiledExtension>,
    at: usize,
}

impl MakesEngines for EngineMaker {
    fn engine(&self, arguments: &str) -> Result<Box<dyn Engine>, String> {
        let function = EngineFunction::new(&self.compiled, self.at, arguments)?;
        let is_order = self.compiled.manifest.engines.get(self.at).is_some_and(|engine| engine.order);
        Ok(if is_order { Box::new(OrderEngine::new(function)) } else { Box::new(ExtensionEngine(function)) })
    }
}

/// What is counted of an engine.
#[derive(Clone, Copy, Default)]
struct EngineCounts {
    calls: u64,
    failed: u64,
    fuel: u64,
}

/// The function of an engine of an extension, with its memory.
pub(super) struct EngineFunction {
    compiled: Arc<CompiledExtension>,
    /// Its number.
    at: usize,
    arguments: Box<str>,
    /// Its own, with those that it calls.
    instance: SharedInstance,
    /// It, and those.
    all: Vec<SharedInstance>,
    /// Bytes of their memories after the last call.
    kept: u64,
    /// What goes there, and then what has come back.
    pub(super) exchange: Vec<u8>,
    chance: u64,
    counts: EngineCounts,
}

impl EngineFunction {
    /// That of a class ([`ExtensionManifest::engine_functions`](crate::code::extension::manifest::ExtensionManifest::engine_functions)),
    /// with an instance that has these arguments; or what is wrong with them.
    pub(super) fn new(
        compiled: &Arc<CompiledExtension>,
        class: usize,
        arguments: &str,
    ) -> Result<EngineFunction, String> {
        let (at, setup) = compiled.manifest.engine_functions(class);
        let mut function = EngineFunction::plain(compiled, at)?;
        if let Some(setup) = setup {
            let mut exchange = Vec::new();
            put_blob(&mut exchange, arguments.as_bytes());
            let mut instance = function.instance.lock().unwrap_or_else(PoisonError::into_inner);
            let (result, _) = instance.call(setup, (0, function.chance), SETUP_FUEL, &mut exchange);
            result.map_err(|failure| super::failure(failure, SETUP_FUEL))?;
        } else if !arguments.is_empty() {
            return Err("it takes no arguments".into());
        }
        function.arguments = arguments.into();
        function.kept = bytes_of(function.all.iter());
        Ok(function)
    }

    /// One without arguments.
    pub(super) fn plain(compiled: &Arc<CompiledExtension>, at: usize) -> Result<EngineFunction, String> {
        let mut instances = Instances::default();
        let instance = compiled.instance(&mut instances)?;
        let all = instances.all;
        Ok(EngineFunction {
            compiled: compiled.clone(),
            at,
            arguments: "".into(),
            instance,
            kept: bytes_of(all.values()),
            all: all.into_values().collect(),
            exchange: Vec::new(),
            chance: RandomState::new().hash_one(at),
            counts: EngineCounts::default(),
        })
    }

    /// Calls another function of its module, with the same memory; also the fuel that it took.
    pub(super) fn call_at(&mut self, at: usize, now: u64) -> (Result<(), CallFailure>, u64) {
        let mut left = PACKET_FUEL;
        self.at = at;
        (self.call_within(now, &mut left), PACKET_FUEL - left)
    }

    /// Calls it.
    pub(super) fn call(&mut self, now: u64) -> Result<(), CallFailure> {
        self.call_within(now, &mut { PACKET_FUEL })
    }

    /// The same with what is left of a packet's fuel.
    pub(super) fn call_within(&mut self, now: u64, left: &mut u64) -> Result<(), CallFailure> {
        self.chance = self.chance.wrapping_add(0xd134_2543_de82_ef95);
        // Nobody else has this instance, nor those that it calls: it is never waited for.
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let (result, fuel) = instance.call(self.at, (now, self.chance), *left, &mut self.exchange);
        let own = instance.bytes();
        drop(instance);
        self.kept = if self.all.len() == 1 { own } else { bytes_of(self.all.iter()) };
        *left = left.saturating_sub(fuel);
        self.counts.calls += 1;
        self.counts.fuel += fuel;
        result
    }

    /// Bytes of memory that it and those have.
    pub(super) fn bytes(&self) -> u64 {
        self.kept
    }

    /// It has failed once more.
    pub(super) fn fail(&mut self) {
        self.counts.failed += 1;
    }

    /// How often it was called and has failed, and the fuel that it took.
    pub(super) fn counted(&self) -> (u64, u64, u64) {
        (self.counts.calls, self.counts.failed, self.counts.fuel)
    }

    pub(super) fn read(&self, handler: &str) -> Option<String> {
        let EngineCounts { calls, failed, fuel } = self.counts;
        match handler {
            "calls" => Some(calls.to_string()),
            "failed" => Some(failed.to_string()),
            "fuel" => Some(fuel.to_string()),
            _ => None,
        }
    }

    /// Takes over from the one before: its counts, and if it is the same with the same arguments, its memory.
    pub(super) fn take_over(&mut self, before: &mut EngineFunction) {
        self.counts = before.counts;
        let is_same = Arc::ptr_eq(&self.compiled, &before.compiled) && self.at == before.at;
        if is_same && self.arguments == before.arguments {
            core::mem::swap(&mut self.instance, &mut before.instance);
            core::mem::swap(&mut self.all, &mut before.all);
            core::mem::swap(&mut self.kept, &mut before.kept);
        }
    }
}

/// Bytes of the memories of these.
fn bytes_of<'a>(all: impl Iterator<Item = &'a SharedInstance>) -> u64 {
    all.map(|instance| instance.lock().unwrap_or_else(PoisonError::into_inner).bytes()).sum()
}

/// An engine of an extension through which packets go.
struct ExtensionEngine(EngineFunction);

impl ExtensionEngine {
    /// Its function has a packet, and gives the output by which what has become of it leaves.
    fn pass(&mut self, input: u16, frame: &mut Frame, now: u64) -> Result<u16, Reason> {
        let exchange = &mut self.0.exchange;
        exchange.clear();
        exchange.extend_from_slice(&u64::from(input).to_le_bytes());
        put_blob(exchange, frame.bytes());
        match self.0.call(now) {
            Ok(()) => match given(&self.0.exchange) {
                Some((output, bytes)) if fits(frame, bytes) => Ok(output),
                _ => Err(Reason::EngineFailed),
            },
            Err(CallFailure::Raised(_)) => Err(Reason::GraphDropped),
            Err(_) => Err(Reason::EngineFailed),
        }
    }

    /// It has failed at a packet.
    fn failed(&mut self, frame: Frame) -> Pushed {
        self.0.fail();
        Pushed::Dropped(frame, Reason::EngineFailed)
    }
}

impl Engine for ExtensionEngine {
    fn keeps(&self) -> Option<u64> {
        Some(self.0.bytes())
    }

    fn push(&mut self, input: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        // The module is another place: it passes locked fields on, and does not see them.
        match cx.show(&mut frame, |cx, frame| self.pass(input, frame, cx.now)) {
            Ok(Ok(output)) => Pushed::To(output, frame),
            Ok(Err(Reason::EngineFailed)) => self.failed(frame),
            Ok(Err(reason)) => Pushed::Dropped(frame, reason),
            Err(_) => Pushed::Dropped(frame, Reason::LockedFields),
        }
    }

    fn read(&self, handler: &str) -> Option<String> {
        self.0.read(handler)
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|any| any.downcast_mut::<ExtensionEngine>()) {
            self.0.take_over(&mut before.0);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

/// An output and a packet that a function has given.
fn given(exchange: &[u8]) -> Option<(u16, &[u8])> {
    let (output, rest) = exchange.split_first_chunk::<8>()?;
    let output = u16::try_from(u64::from_le_bytes(*output)).ok()?;
    Some((output, blob(rest)?))
}

/// Bytes that a function has given, with nothing behind them.
pub(super) fn blob(exchange: &[u8]) -> Option<&[u8]> {
    let (length, rest) = exchange.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length > 0)?;
    let bytes = rest.get(..length)?;
    (rest.len() == length.next_multiple_of(8)).then_some(bytes)
}

/// Puts the bytes of a packet in the place of those before, if there is room.
pub(super) fn fits(frame: &mut Frame, bytes: &[u8]) -> bool {
    if bytes.len() != frame.len() {
        let start = frame.extent().0;
        if frame.set_extent(start, bytes.len()).is_none() {
            return false;
        }
        // Where its header was is no matter any more.
        frame.notes.network = 0;
    }
    frame.bytes_mut().copy_from_slice(bytes);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_give_is_a_packet_or_nothing() {
        let of =
            |output: u64, length: u64, bytes: &[u8]| [&output.to_le_bytes()[..], &length.to_le_bytes(), bytes].concat();
        assert_eq!(given(&of(1, 3, b"abc\0\0\0\0\0")), Some((1, &b"abc"[..])));
        for wrong in [
            of(65_536, 3, b"abc\0\0\0\0\0"),
            of(0, 0, b""),
            of(0, 3, b"abc"),
            of(0, 9, b"abc\0\0\0\0\0"),
            of(0, u64::MAX, b"abc\0\0\0\0\0"),
            of(0, 3, &[0; 16]),
            vec![0; 15],
        ] {
            assert_eq!(given(&wrong), None, "{wrong:?}");
        }
        let mut frame = Frame::from_bytes(&[1; 60]);
        frame.notes.network = 14;
        assert!(fits(&mut frame, &[2; 60]) && frame.notes.network == 14);
        assert!(fits(&mut frame, &[3; 20]) && frame.bytes() == [3; 20] && frame.notes.network == 0);
        let room = frame.buffer_mut().len();
        assert!(!fits(&mut frame, &vec![0; room + 1]));
    }
}
