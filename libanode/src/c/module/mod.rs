//! The functions of `sdk/anode/nodeos.h`, as WebAssembly modules call them.
//!
//! The build makes the list of them from the header (`build/calls.rs`), with the kinds of what each takes. So what is here is done for
//! all: a module's addresses become ours when what is there lies within its memory, structures with pointers are laid out anew, and
//! objects have names of 30 bits, packets too. A function of the module's is a number in its table; beside its argument, of four
//! bytes, it makes the eight of ours, which come back to `entries`. Those call the module that is lent to the thread.
//!
//! A module has one thread, that of its main function: while it waits for the end of a domain it runs all functions of its domains.
//! Whatever runs modules implements [`Module`]; nothing here knows what that is.

mod entries;
mod packets;
mod special;
#[cfg(test)]
mod tests;

pub use special::Bound;

use super::channel::*;
use super::classifier::*;
use super::domain::*;
use super::file::*;
use super::flow::*;
use super::graph::*;
use super::memory::*;
use super::node::*;
use super::packet::*;
use super::state::*;
use super::store::*;
use super::stream::*;
use super::{an_error, an_objectSize, an_strerror};
use crate::objects::{NARROW, OBJECTS};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

// SAFETY of all calls: `Frame` has looked at each pointer: it is NULL, or leads to as many bytes as its type has within the module's
// memory, which stays where it is, or to a copy that lives as long as the call. Only this thread runs the module.
#[allow(unused_unsafe, clippy::all, clippy::pedantic)]
mod table {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/calls.rs"));
}

pub use table::CALLS;

/// Calls that modules have not, by the beginning of their names, and why.
pub const REFUSED: &[(&str, &str)] =
    &[("an_heap", "a module's memory is its own; an_mempoolCharge() has it accounted")];

/// Bytes of a module's memory that the library makes and uses, at most: places of packets, and a little more.
pub const OWN_BYTES: usize = packets::PLACES_BYTES + special::SCRATCH as usize;

/// Values that one call takes, at most.
const VALUES_MAX: usize = 10;

/// Bits of a module's name of a packet: which it is, its buffer.
const PACKET: u32 = 3 << 30;
/// That of an object.
const OBJECT: u32 = 1 << 31;

/// A call of the header.
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static [Kind],
    /// What it gives.
    pub gives: Gives,
    run: fn(&[u64; VALUES_MAX]) -> u64,
}

/// A kind of value that a call takes.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Memory that an object is to be, in the explicit model: only a number.
    Place,
    /// An object.
    Object,
    /// A packet.
    Packet,
    /// A string.
    Text,
    /// A number of up to 32 bits.
    Number,
    /// One of 64.
    Long,
    /// `size_t`.
    Size,
    /// Where to put a `size_t`.
    Sizes,
    /// Bytes that are the same on both sides.
    Plain(u32),
    /// As many such as the next value says.
    Many(u32),
    /// As many such as the field before says.
    Counted(u32),
    /// A structure that is not the same on both sides.
    Structure(&'static Structure),
    /// A function of the module's, and ours that calls it.
    Function(fn() -> u64),
    /// What goes with a function.
    Argument,
    /// What a module cannot have.
    Foreign,
}

/// What a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Nothing.
    Nothing,
    /// A number.
    Number,
    /// An object or nothing.
    Object,
    /// A packet or nothing.
    Packet,
    /// An address in the module's memory.
    Address,
}

/// A structure with pointers: its bytes there and here, and its fields.
pub struct Structure {
    bytes: [usize; 2],
    fields: &'static [Field],
}

struct Field {
    kind: Kind,
    there: usize,
    here: usize,
}

/// A value that a function of a module takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// 32 bits.
    I32(u32),
    /// 64 bits.
    I64(u64),
}

/// A running module.
pub trait Module {
    /// Where its memory is, and its bytes: it may grow, and stays where it is.
    fn memory(&mut self) -> (NonNull<u8>, usize);
    /// Makes its memory longer by so many bytes; gives where they are.
    fn grow(&mut self, bytes: u32) -> Option<u32>;
    /// Calls a function of its table; `watched`: not for longer than a thread may work. Nothing if it failed: then no more is called.
    fn call(&mut self, function: u32, values: &[Value], watched: bool) -> Option<u32>;
}

/// Why a call of a module's is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An address outside its memory.
    Address,
    /// A function that it had called has failed.
    Failed,
}

static RUNS: AtomicBool = AtomicBool::new(false);

/// From now on this process runs a module.
pub fn begin() {
    RUNS.store(true, Ordering::Relaxed);
}

/// Whether this process runs a module.
pub fn runs() -> bool {
    RUNS.load(Ordering::Relaxed)
}

thread_local! {
    static LENT: Cell<Option<NonNull<dyn Module>>> = const { Cell::new(None) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Lends a module to what `work` calls on this thread.
fn lend<R>(module: &mut dyn Module, work: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime is left out; `LENT` has the address until `work` has returned, and `module` is borrowed until then.
    let lent = unsafe { core::mem::transmute::<&mut (dyn Module + '_), &mut (dyn Module + 'static)>(module) };
    let before = LENT.replace(Some(NonNull::from(lent)));
    let result = work();
    LENT.set(before);
    result
}

/// Does something with the module that is lent to this thread, if none of its functions has failed.
fn with_lent<R>(work: impl FnOnce(&mut dyn Module) -> Option<R>) -> Option<R> {
    if FAILED.get() {
        return None;
    }
    let mut module = LENT.take()?;
    // SAFETY: `lend` has put the address there and waits on this very thread; whoever takes it puts it back, and we have taken it.
    let result = work(unsafe { module.as_mut() });
    LENT.set(Some(module));
    if result.is_none() {
        FAILED.set(true);
    }
    result
}

/// So many bytes of a module's memory, if it has them: where they are.
fn within(module: &mut dyn Module, at: u32, bytes: usize) -> Result<*mut u8, Fault> {
    let (base, size) = module.memory();
    let end = (at as usize).checked_add(bytes).filter(|end| *end <= size);
    end.map(|_| base.as_ptr().wrapping_add(at as usize)).ok_or(Fault::Address)
}

/// A number of up to 8 bytes in a module's memory.
fn number_at(module: &mut dyn Module, at: u32, bytes: usize) -> Result<u64, Fault> {
    let from = within(module, at, bytes)?;
    let mut number = [0; 8];
    // SAFETY: there are so many bytes, and `number` has 8.
    unsafe { core::ptr::copy_nonoverlapping(from, number.as_mut_ptr(), bytes) };
    Ok(u64::from_le_bytes(number))
}

/// Puts bytes into a module's memory.
fn put_at(module: &mut dyn Module, at: u32, bytes: &[u8]) -> Result<(), Fault> {
    let to = within(module, at, bytes.len())?;
    // SAFETY: there are so many bytes, and none of ours lies in a module's memory.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

/// A module's name of an object or a packet, from ours.
fn there(name: u64) -> u32 {
    match name {
        0 => 0,
        _ if name & OBJECTS == OBJECTS => OBJECT | (name & NARROW) as u32,
        _ if name >> 63 == 1 => packets::there(name),
        // The memory that it is.
        _ => name as u32,
    }
}

/// Our name, from a module's.
fn here(name: u32) -> u64 {
    match name & PACKET {
        PACKET => packets::here(name),
        OBJECT => OBJECTS | (u64::from(name) & NARROW),
        _ => name.into(),
    }
}

/// What a call needs while it is made.
struct Frame<'a> {
    images: Vec<Box<[u64]>>,
    /// Where the call puts sizes.
    sizes: &'a [Cell<u64>; 2],
    /// Where they go.
    asked: [u32; 2],
    count: usize,
}

impl Frame<'_> {
    /// Our value for a module's. `next`: the value behind it in a list, `before`: the field before.
    fn value(
        &mut self,
        module: &mut dyn Module,
        kind: Kind,
        given: u64,
        (before, next, function): (u64, u64, u64),
    ) -> Result<u64, Fault> {
        let at = given as u32;
        let bytes = match kind {
            Kind::Long | Kind::Number | Kind::Size | Kind::Place | Kind::Function(_) => return Ok(given),
            Kind::Argument => return Ok(function << 32 | given),
            Kind::Object | Kind::Packet => return Ok(here(at)),
            _ if at == 0 => return Ok(0),
            Kind::Foreign => return Ok(1),
            Kind::Structure(structure) => return self.structure(module, structure, at),
            Kind::Text => text_at(module, at)?,
            Kind::Plain(bytes) => bytes as usize,
            Kind::Many(bytes) => (next as u32 as usize).checked_mul(bytes as usize).ok_or(Fault::Address)?,
            // More than a call takes it refuses before it looks at them.
            Kind::Counted(bytes) => bytes as usize * (before as u32 as usize).min(crate::message::KEY_MAX),
            Kind::Sizes => {
                within(module, at, 4)?;
                let slot = self.count.min(self.sizes.len() - 1);
                // A call that fails leaves what is there.
                self.sizes[slot].set(number_at(module, at, 4)?);
                self.asked[slot] = at;
                self.count = slot + 1;
                return Ok(self.sizes[slot].as_ptr() as u64);
            }
        };
        within(module, at, bytes).map(|pointer| pointer as u64)
    }

    /// A copy of a structure as we have it.
    fn structure(&mut self, module: &mut dyn Module, structure: &Structure, at: u32) -> Result<u64, Fault> {
        within(module, at, structure.bytes[0])?;
        let mut image = vec![0u64; structure.bytes[1].div_ceil(8)].into_boxed_slice();
        let is_function = |field: &&Field| matches!(field.kind, Kind::Function(_));
        let function = match structure.fields.iter().find(is_function) {
            Some(field) => number_at(module, at + field.there as u32, 4)?,
            None => 0,
        };
        let mut before = 0;
        for field in structure.fields {
            let wide = matches!(field.kind, Kind::Long);
            let given = number_at(module, at + field.there as u32, if wide { 8 } else { 4 })?;
            let value = match field.kind {
                Kind::Function(entry) if given != 0 => entry(),
                kind => self.value(module, kind, given, (before, 0, function))?,
            };
            before = given;
            let (word, shift) = (field.here / 8, field.here % 8 * 8);
            image[word] |=
                if matches!(field.kind, Kind::Number) { (value & u64::from(u32::MAX)) << shift } else { value };
        }
        self.images.push(image);
        Ok(self.images.last().map_or(0, |image| image.as_ptr() as u64))
    }
}

/// The bytes of a string with its NUL.
fn text_at(module: &mut dyn Module, at: u32) -> Result<usize, Fault> {
    let (base, size) = module.memory();
    let room = size.checked_sub(at as usize).ok_or(Fault::Address)?;
    // SAFETY: so many bytes of the module's memory are behind `at`, and nobody changes them meanwhile.
    let bytes = unsafe { core::slice::from_raw_parts(base.as_ptr().add(at as usize), room) };
    bytes.iter().position(|byte| *byte == 0).map(|length| length + 1).ok_or(Fault::Address)
}

/// Has the call be made by `run`, with a module's values made ours.
fn carry_out(
    call: &Call,
    module: &mut dyn Module,
    given: &[u64],
    run: impl FnOnce(&mut dyn Module, &[u64; VALUES_MAX]) -> u64,
) -> Result<u64, Fault> {
    let sizes = [const { Cell::new(0) }; 2];
    let mut frame = Frame { images: Vec::new(), sizes: &sizes, asked: [0; 2], count: 0 };
    let mut values = [0; VALUES_MAX];
    let is_function = |(kind, _): &(&Kind, &u64)| matches!(kind, Kind::Function(_));
    let function = call.takes.iter().zip(given).find(is_function).map_or(0, |(_, function)| *function);
    for (at, (kind, value)) in call.takes.iter().zip(given).enumerate() {
        let next = given.get(at + 1).copied().unwrap_or(0);
        values[at] = frame.value(module, *kind, *value, (0, next, function))?;
    }
    let result = run(module, &values);
    if FAILED.get() {
        return Err(Fault::Failed);
    }
    for (size, asked) in sizes.iter().zip(frame.asked).take(frame.count) {
        let size = u32::try_from(size.get()).unwrap_or(u32::MAX);
        put_at(module, asked, &size.to_le_bytes())?;
    }
    Ok(match call.gives {
        Gives::Object | Gives::Packet => there(result).into(),
        Gives::Number | Gives::Address | Gives::Nothing => u64::from(result as u32),
    })
}
