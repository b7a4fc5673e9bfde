//! Values of PLAN: numbers, strings, lists, hosts, chunks. Programs compute with them, and packets carry them.
//!
//! Values are immutable and share their parts. Sharing could make a small value look exponentially large
//! to whoever walks it, and nesting could exhaust the stack, so every compound value knows its *weight*
//! and its *depth*, and none is made beyond [`WEIGHT_MAX`] and [`DEPTH_MAX`]: comparing, printing,
//! encoding and dropping any value are bounded.

mod chunk;
mod list;
mod print;

pub use chunk::{Callee, Chunk};
pub use list::List;

use crate::name::Name;
use std::sync::Arc;

/// The greatest weight of a value: one for each part, one more for each 16 bytes of text.
pub const WEIGHT_MAX: u32 = 1 << 16;
/// The deepest nesting of a value; the length of a list does not count.
pub const DEPTH_MAX: u16 = 64;

/// The address of a node: an IPv6 address, or an IPv4 address mapped into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Host(pub [u8; 16]);

impl Host {
    /// An IPv4 address.
    pub const fn v4(bytes: [u8; 4]) -> Host {
        Host((0xffff_0000_0000 | u32::from_be_bytes(bytes) as u128).to_be_bytes())
    }

    /// The four bytes of an IPv4 address.
    pub fn bytes_v4(&self) -> Option<[u8; 4]> {
        let [.., a, b, c, d] = self.0;
        (u128::from_be_bytes(self.0) >> 32 == 0xffff).then_some([a, b, c, d])
    }
}

/// A value.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `()`
    #[default]
    Unit,
    /// A truth value.
    Bool(bool),
    /// A number of 64 bits, wrapping.
    Int(i64),
    /// A character: one byte.
    Char(u8),
    /// A string of bytes.
    Text(Arc<[u8]>),
    /// A tuple of at least two.
    Tuple(Arc<Tuple>),
    /// A list.
    List(List),
    /// A computation to be evaluated elsewhere or later.
    Chunk(Arc<Chunk>),
    /// A node.
    Host(Host),
    /// A connection between a node and an application on it; the number says nothing anywhere else.
    Port(u64),
    /// The key of a session, under which nodes keep data.
    Key([u8; 16]),
    /// Bytes that no operator looks into.
    Blob(Arc<[u8]>),
    /// An exception.
    Exn(Name),
    /// An interface of a node; the number says nothing anywhere else.
    Dev(u32),
    /// A service, by name.
    Service(Name),
}

/// How large a value is to those who walk it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Its parts, and what texts weigh.
    pub weight: u32,
    /// How deep it nests.
    pub depth: u16,
}

impl Extent {
    /// One part that has no parts.
    pub const ONE: Extent = Extent { weight: 1, depth: 1 };

    /// The extent of what has these parts; none if that is too much.
    pub fn around(parts: &[Value]) -> Option<Extent> {
        let mut extent = Extent::ONE;
        for part in parts {
            let inner = part.extent();
            extent.weight = extent.weight.checked_add(inner.weight)?;
            extent.depth = extent.depth.max(inner.depth + 1);
        }
        extent.within()
    }

    fn within(self) -> Option<Extent> {
        (self.weight <= WEIGHT_MAX && self.depth <= DEPTH_MAX).then_some(self)
    }
}

/// A tuple's parts.
#[derive(Debug)]
pub struct Tuple {
    items: Box<[Value]>,
    extent: Extent,
}

impl Tuple {
    /// Its parts, at least two.
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Value {
    /// A string.
    pub fn text(bytes: impl Into<Arc<[u8]>>) -> Value {
        Value::Text(bytes.into())
    }

    /// A tuple of at least two parts; none if it would be too large, or no tuple.
    pub fn tuple(items: impl Into<Box<[Value]>>) -> Option<Value> {
        let items = items.into();
        let extent = Extent::around(&items).filter(|_| items.len() >= 2)?;
        Some(Value::Tuple(Arc::new(Tuple { items, extent })))
    }

    /// A list of these; none if it would be too large.
    pub fn list(items: impl DoubleEndedIterator<Item = Value>) -> Option<Value> {
        items.rev().try_fold(List::default(), |list, item| list.put(item)).map(Value::List)
    }

    /// How large it is.
    #[inline]
    pub fn extent(&self) -> Extent {
        match self {
            Value::Text(bytes) | Value::Blob(bytes) => {
                // Texts beyond the limit cannot be made by programs; a node's own is cut off here.
                let weight = u32::try_from(bytes.len() / 16).unwrap_or(WEIGHT_MAX).min(WEIGHT_MAX - 1) + 1;
                Extent { weight, depth: 1 }
            }
            Value::Tuple(tuple) => tuple.extent,
            Value::List(list) => list.extent(),
            Value::Chunk(chunk) => chunk.extent(),
            _ => Extent::ONE,
        }
    }
}

/// Structural equality; values of different types are different. Chunks are equal if what would travel is.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.equals(other, &mut |_| Ok::<(), std::convert::Infallible>(())) == Ok(true)
    }
}

impl Value {
    /// Whether both are equal. For chunks of different programs their codes are worked through: `pay` is told before
    /// how many bytes that are, and can end it.
    pub fn equals<E>(&self, other: &Value, pay: &mut impl FnMut(u32) -> Result<(), E>) -> Result<bool, E> {
        Ok(match (self, other) {
            (Value::Unit, Value::Unit) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(one), Value::Int(other)) => one == other,
            (Value::Char(one), Value::Char(other)) => one == other,
            (Value::Text(one), Value::Text(other)) | (Value::Blob(one), Value::Blob(other)) => one == other,
            (Value::Tuple(one), Value::Tuple(other)) => all_equal(&one.items, &other.items, pay)?,
            (Value::List(one), Value::List(other)) => one.equals(other, pay)?,
            (Value::Chunk(one), Value::Chunk(other)) => {
                one.calls_same(other, pay)? && all_equal(one.arguments(), other.arguments(), pay)?
            }
            (Value::Host(one), Value::Host(other)) => one == other,
            (Value::Port(one), Value::Port(other)) => one == other,
            (Value::Key(one), Value::Key(other)) => one == other,
            (Value::Exn(one), Value::Exn(other)) | (Value::Service(one), Value::Service(other)) => one == other,
            (Value::Dev(one), Value::Dev(other)) => one == other,
            _ => false,
        })
    }
}

fn all_equal<E>(one: &[Value], other: &[Value], pay: &mut impl FnMut(u32) -> Result<(), E>) -> Result<bool, E> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other) {
        if !one.equals(other, pay)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn shared_parts_count_every_time() {
        let mut value = Value::Unit;
        let mut steps = 0;
        while let Some(next) = Value::tuple(vec![value.clone(), value.clone()]) {
            value = next;
            steps += 1;
        }
        assert_eq!((steps, value.extent().weight), (15, 65535));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut value = Value::Unit;
        let mut steps = 0;
        while let Some(next) = Value::tuple(vec![value.clone(), Value::Unit]) {
            value = next;
            steps += 1;
        }
        assert_eq!(steps, DEPTH_MAX - 1);
    }

    #[test]
    fn a_long_list_is_dropped_and_compared_without_recursion() {
        let list = || Value::list((0..60_000).map(Value::Int)).unwrap();
        assert_eq!(list(), list());
        assert_eq!(list().extent(), Extent { weight: 60_001, depth: 2 });
        assert!(Value::list((0..70_000).map(Value::Int)).is_none());
    }
}
