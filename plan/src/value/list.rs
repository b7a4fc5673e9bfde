//! Lists that share their tails.

use super::{DEPTH_MAX, Extent, Value, WEIGHT_MAX};
use std::sync::Arc;

/// A list; the empty one takes no memory.
#[derive(Clone, Debug, Default)]
pub struct List(Option<Arc<Cell>>);

#[derive(Debug)]
struct Cell {
    head: Value,
    tail: List,
    length: u32,
    extent: Extent,
}

impl List {
    /// The list with a value before it; none if it would be too large.
    pub fn put(&self, head: Value) -> Option<List> {
        let (inner, rest) = (head.extent(), self.extent());
        let weight = rest.weight.checked_add(inner.weight).filter(|weight| *weight <= WEIGHT_MAX)?;
        let depth = rest.depth.max(inner.depth + 1);
        if depth > DEPTH_MAX {
            return None;
        }
        let length = self.len() + 1;
        Some(List(Some(Arc::new(Cell { head, tail: self.clone(), length, extent: Extent { weight, depth } }))))
    }

    /// The first, and the list of the others.
    pub fn split(&self) -> Option<(&Value, &List)> {
        self.0.as_deref().map(|cell| (&cell.head, &cell.tail))
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.as_deref().map_or(0, |cell| cell.length)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How large it is.
    pub fn extent(&self) -> Extent {
        self.0.as_deref().map_or(Extent::ONE, |cell| cell.extent)
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        std::iter::successors(self.split(), |(_, tail)| tail.split()).map(|(head, _)| head)
    }

    /// The values in the opposite order. It is as large as this list, so it can be made.
    pub fn reversed(&self) -> List {
        self.iter().fold(List::default(), |list, item| list.put(item.clone()).unwrap_or(list))
    }

    fn same(&self, other: &List) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl List {
    /// Whether both have equal values in the same order ([`Value::equals`]).
    pub(super) fn equals<E>(&self, other: &List, pay: &mut impl FnMut(u32) -> Result<(), E>) -> Result<bool, E> {
        let (mut one, mut other) = (self, other);
        if one.len() != other.len() {
            return Ok(false);
        }
        while !one.same(other) {
            match (one.split(), other.split()) {
                (Some((this, rest)), Some((that, others))) if this.equals(that, pay)? => (one, other) = (rest, others),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Cells are freed one after the other, not one inside the other: lists are longer than the stack is deep.
impl Drop for Cell {
    fn drop(&mut self) {
        let mut next = self.tail.0.take();
        while let Some(mut cell) = next.and_then(Arc::into_inner) {
            next = cell.tail.0.take();
        }
    }
}
