//! The class of an engine: what all of one name have in common. Example: `xor(3)` is of the class `xor`, with the number 3.
//!
//! Engines of channels ([`Make::Module`]) stand in specifications of channels. All others ([`Make::Element`]) stand in graphs, which are
//! written in Click's language: their names, arguments and ports are those of Click's elements, so that its users know them.
//!
//! Extensions bring classes too: `Network` of the extension `tunnels` is `tunnels/Network` in graphs. Who reads a graph is told which there
//! are. Where a text is only checked, as when a configuration is read, these are known by their ports, and nobody makes their engines.

use super::arguments::Arguments;
use super::engine::{Engine, WAYS};
use crate::frame::Frame;
use crate::wire::Digest;
use core::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What engines of one name have in common.
pub struct EngineClass {
    /// Its name.
    pub name: &'static str,
    /// What it does: a sentence, and then its arguments and handlers, each in a line.
    pub doc: &'static str,
    /// How one is made.
    pub make: Make,
}

/// How an engine is made.
pub enum Make {
    /// One of a channel.
    Module {
        /// The number in parentheses behind its name, if there is one: which are possible.
        argument: Option<RangeInclusive<usize>>,
        /// Bytes of memory that one takes at most where its packets go [`OUTWARD`](super::engine::OUTWARD), and
        /// [`INWARD`](super::engine::INWARD). Its channel's domain is charged them as long as there is the channel.
        bytes: [u64; WAYS],
        /// Makes one, with that number or 0.
        make: fn(usize) -> Box<dyn Engine>,
    },
    /// One of a graph.
    Element {
        /// Its ports, in Click's codes: `1/1`, how items go through them, `a/a`, and from which to which, `x/x`.
        codes: [&'static str; 3],
        /// Whether it has turns ([`Engine::run`]).
        is_task: bool,
        /// Whether its ports need not be connected.
        is_loose: bool,
        /// Makes one of its arguments; nothing if one of them is wrong, which has been said then.
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    },
    /// A line of the text that is no engine: what it says has been read before any is made.
    Remark,
}

impl Make {
    /// One of a graph, whose ports can push and pull.
    pub const fn element(ports: &'static str, make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>) -> Make {
        Make::with(ports, "a/a", "x/x", make)
    }

    /// The same with codes of how packets go.
    pub const fn with(
        ports: &'static str,
        processing: &'static str,
        flow: &'static str,
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    ) -> Make {
        Make::Element { codes: [ports, processing, flow], is_task: false, is_loose: false, make }
    }

    /// One that has turns.
    pub const fn task(
        ports: &'static str,
        processing: &'static str,
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    ) -> Make {
        Make::Element { codes: [ports, processing, "x/x"], is_task: true, is_loose: false, make }
    }
}

/// Engines of such classes in one graph: each has memory of its own.
pub const BROUGHT_MAX: usize = 64;

/// Fuel that a function of an extension has for a packet: about as many instructions.
pub const PACKET_FUEL: u64 = 100_000;

/// What makes bytes of packets on their way to another node, and packets of these bytes there. Both ends have one for each generation of
/// a graph's part.
pub trait Marshals: Send {
    /// The packet's bytes become those that go; false: they cannot. What that takes, [`PACKET_FUEL`] at most, is taken from the fuel.
    fn pack(&mut self, frame: &mut Frame, now: u64, fuel: &mut u64) -> bool;

    /// Bytes that have come become the packet's; false: they are none.
    fn unpack(&mut self, frame: &mut Frame, now: u64) -> bool;

    /// Bytes of memory that it has.
    fn keeps(&self) -> u64 {
        0
    }
}

/// Who makes the engines of a class.
pub trait MakesEngines: Send + Sync {
    /// What marshals packets, if the class is not of engines but of that.
    fn marshal(&self) -> Result<Box<dyn Marshals>, String> {
        Err("it marshals no packets".into())
    }

    /// One with these arguments, as they stand in the text; or what is wrong with them.
    fn engine(&self, arguments: &str) -> Result<Box<dyn Engine>, String>;
}

/// A class that an extension has brought.
pub struct BroughtClass {
    /// The extension.
    pub extension: String,
    /// The class's name in graphs: EXTENSION/CLASS.
    pub name: String,
    /// Its ports, in Click's codes.
    pub ports: String,
    /// Whether packets are pulled through it: it is an order of its inputs.
    pub is_order: bool,
    /// What it does.
    pub about: String,
    /// Of one that has no engines but marshals packets, what its module's bytes come to.
    marshals: Option<Digest>,
    /// Who makes its engines; nobody, where texts are only checked.
    maker: Option<Box<dyn MakesEngines>>,
    is_gone: AtomicBool,
}

impl BroughtClass {
    /// The class of this name of an extension.
    pub fn new(
        extension: &str,
        (name, ports, is_order, about): (&str, &str, bool, &str),
        maker: Option<Box<dyn MakesEngines>>,
    ) -> BroughtClass {
        BroughtClass {
            extension: extension.into(),
            name: format!("{extension}/{name}"),
            ports: ports.into(),
            is_order,
            about: about.into(),
            marshals: None,
            maker,
            is_gone: AtomicBool::new(false),
        }
    }

    /// It marshals packets, and is of a module of this digest.
    pub fn that_marshals(self, digest: Digest) -> BroughtClass {
        BroughtClass { marshals: Some(digest), ..self }
    }

    /// The digest of its module, if it marshals packets and is no class of engines.
    pub fn marshals(&self) -> Option<&Digest> {
        self.marshals.as_ref()
    }

    /// Makes what marshals; where texts are only checked nothing that does.
    pub fn marshal(&self) -> Result<Box<dyn Marshals>, String> {
        self.maker.as_ref().map_or_else(|| Ok(Box::new(Nobody) as Box<dyn Marshals>), |maker| maker.marshal())
    }

    /// Makes an engine; where texts are only checked one that throws all packets away.
    pub fn engine(&self, arguments: &str) -> Result<Box<dyn Engine>, String> {
        self.maker.as_ref().map_or_else(|| Ok(Box::new(Nobody) as Box<dyn Engine>), |maker| maker.engine(arguments))
    }

    /// Its extension is loaded no more: no graph begins with it.
    pub fn leave(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }
}

/// The engine of a class that is only known by its ports.
struct Nobody;

impl Engine for Nobody {}

impl Marshals for Nobody {
    fn pack(&mut self, _: &mut Frame, _: u64, _: &mut u64) -> bool {
        false
    }

    fn unpack(&mut self, _: &mut Frame, _: u64) -> bool {
        false
    }
}

/// Classes that extensions have brought.
#[derive(Clone, Default)]
pub struct BroughtClasses(Vec<Arc<BroughtClass>>);

impl BroughtClasses {
    /// These.
    pub fn new(all: Vec<Arc<BroughtClass>>) -> BroughtClasses {
        BroughtClasses(all)
    }

    /// The class of engines of a name.
    pub fn class(&self, name: &str) -> Option<&Arc<BroughtClass>> {
        self.0.iter().find(|class| class.name == name && class.marshals.is_none())
    }

    /// What marshals packets under a name; or what there is.
    pub fn marshal(&self, name: &str) -> Result<&Arc<BroughtClass>, String> {
        let all = || self.0.iter().filter(|class| class.marshals.is_some());
        all().find(|class| class.name == name && !class.is_gone()).ok_or_else(|| {
            let names: Vec<_> = all().map(|class| &*class.name).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("no extension that is loaded marshals packets as {name}; there is {there} (anode extension load)")
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.0.iter()
    }
}

/// The class of an engine in a graph.
#[derive(Clone)]
pub enum PlacedClass {
    /// One of this program.
    Own(&'static EngineClass),
    /// One of an extension.
    Brought(Arc<BroughtClass>),
}

impl PlacedClass {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            PlacedClass::Own(class) => class.name,
            PlacedClass::Brought(class) => &class.name,
        }
    }

    /// Whether engines of it may take over from those of another: it has the same name.
    pub fn is(&self, other: &PlacedClass) -> bool {
        match (self, other) {
            (PlacedClass::Own(one), PlacedClass::Own(other)) => core::ptr::eq(*one, *other),
            (PlacedClass::Brought(one), PlacedClass::Brought(other)) => one.name == other.name,
            _ => false,
        }
    }

    /// How this program makes its engines; nothing of a class of an extension.
    pub fn make(&self) -> Option<&'static Make> {
        match self {
            PlacedClass::Own(class) => Some(&class.make),
            PlacedClass::Brought(_) => None,
        }
    }

    /// The extension that has brought it.
    pub fn brought(&self) -> Option<&Arc<BroughtClass>> {
        match self {
            PlacedClass::Own(_) => None,
            PlacedClass::Brought(class) => Some(class),
        }
    }
}
