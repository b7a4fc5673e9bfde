//! Procedures of extensions that marshal packets between the parts of a graph at two nodes.
//!
//! ```text
//! packet ─▶ length (8) · bytes, up to a multiple of 8 ─▶ pack ─▶ length · bytes ─▶ the other node ─▶ unpack ─▶ packet
//!                                                          └ a trap, no fuel left, no bytes: marshal-failed ┘
//! ```
//!
//! Both are calls of the type `blob -> blob`, each with the fuel of an engine for a packet. The two ends have an instance each for every
//! generation of the part, so both begin with the same memory; but packets may be lost between them, and overtake each other.

use super::engines::{EngineFunction, blob, fits};
use crate::code::extension::call_type::put_blob;
use crate::code::extension::compiled::CompiledExtension;
use crate::frame::Frame;
use crate::graph::class::{BroughtClass, MakesEngines, Marshals};
use crate::graph::engine::Engine;
use std::sync::Arc;

/// What marshals packets that an extension brings.
pub(super) fn marshals(compiled: &Arc<CompiledExtension>) -> impl Iterator<Item = Arc<BroughtClass>> {
    let manifest = &compiled.manifest;
    manifest.marshals.iter().enumerate().map(move |(at, marshal)| {
        let maker = Box::new(MarshalMaker { compiled: compiled.clone(), at });
        let about = (&*marshal.name, "0/0", false, &*marshal.about);
        Arc::new(BroughtClass::new(&manifest.name, about, Some(maker)).that_marshals(compiled.digest))
    })
}

/// Makes those of one name.
struct MarshalMaker {
    compiled: Arc<CompiledExtension>,
    at: usize,
}

impl MakesEngines for MarshalMaker {
    fn engine(&self, _: &str) -> Result<Box<dyn Engine>, String> {
        Err("it marshals packets, and is no engine".into())
    }

    fn marshal(&self) -> Result<Box<dyn Marshals>, String> {
        let (pack, unpack) = self.compiled.manifest.marshal_functions(self.at);
        Ok(Box::new(MarshalFunctions { function: EngineFunction::plain(&self.compiled, pack)?, pack, unpack }))
    }
}

/// Both functions, with the memory that they have together.
struct MarshalFunctions {
    function: EngineFunction,
    pack: usize,
    unpack: usize,
}

impl MarshalFunctions {
    /// Whether a function has made other bytes of a packet, and the fuel that it took.
    fn change(&mut self, at: usize, frame: &mut Frame, now: u64) -> (bool, u64) {
        let function = &mut self.function;
        function.exchange.clear();
        put_blob(&mut function.exchange, frame.bytes());
        let (called, fuel) = function.call_at(at, now);
        (called.is_ok() && blob(&function.exchange).is_some_and(|bytes| fits(frame, bytes)), fuel)
    }
}

impl Marshals for MarshalFunctions {
    fn pack(&mut self, frame: &mut Frame, now: u64, left: &mut u64) -> bool {
        let (is_done, fuel) = self.change(self.pack, frame, now);
        *left = left.saturating_sub(fuel);
        is_done
    }

    fn unpack(&mut self, frame: &mut Frame, now: u64) -> bool {
        self.change(self.unpack, frame, now).0
    }

    fn keeps(&self) -> u64 {
        self.function.bytes()
    }
}
