//! Many shapes: a packet is looked for by a few masks, and then by those shapes alone that have rules within what these leave of it.
//!
//! The masks are made as the kernel half's are ([`crate::classify::groups`]), so rules of a thousand shapes cost a packet that is near none
//! of them twenty look-ups.

use super::flows::{Flow, Group};
use crate::classify::fields::words;
use crate::classify::groups::MASKS;
use crate::classify::lists::{OfShape, ShapeLists};
use crate::classify::shape::Shape;
use crate::wire::{Addr, Prefix};

/// Lists by the mask that they are of, and what it leaves.
pub(super) type FlowLists = ShapeLists<(Shape, Flow)>;

struct All<'a, T>(&'a [Group<T>]);

impl<T: Copy + PartialEq> OfShape<(Shape, Flow)> for All<'_, T> {
    fn each(&self, shape: Shape, say: &mut dyn FnMut(&(Shape, Flow))) {
        let group = self.0.iter().find(|group| group.shape == shape);
        group.into_iter().flat_map(|group| group.flows.all()).for_each(|flow| say(&(shape, *flow)));
    }
}

/// What a mask leaves of a flow.
fn behind((_, flow): &(Shape, Flow), mask: Shape) -> (Shape, Flow) {
    let block = |addr: [u64; 2], bits| {
        let addr = u128::from(addr[0]) << 64 | u128::from(addr[1]);
        words(Prefix::new(Addr(addr.to_be_bytes()), bits).addr)
    };
    let number = |is: bool, number: u16| if is { number } else { 0 };
    let flow = Flow {
        source: block(flow.source, mask.source_bits),
        destination: block(flow.destination, mask.destination_bits),
        source_port: number(mask.source_port, flow.source_port),
        destination_port: number(mask.destination_port, flow.destination_port),
        kind: number(mask.kind, flow.kind),
        port: number(mask.port, flow.port),
    };
    (mask, flow)
}

/// Which shapes have rules near a packet, where there are many.
#[derive(Debug, Default)]
pub(super) struct Near(Option<Box<FlowLists>>);

impl Near {
    /// The lists, if there are many shapes.
    #[inline]
    pub fn lists(&self) -> Option<&FlowLists> {
        self.0.as_deref()
    }

    /// A flow has come that is among all.
    pub fn enlist<T: Copy + PartialEq>(&mut self, all: &[Group<T>], shape: Shape, flow: &Flow) {
        if let Some(lists) = &mut self.0 {
            lists.add(shape, &(shape, *flow), &All(all));
        } else if all.len() > MASKS {
            let mut lists = Box::new(FlowLists::new(behind));
            for (at, group) in all.iter().enumerate() {
                // Each shape is listed with all of its flows when it comes: one is told of it, and the others are counted.
                let mut known = group.flows.all();
                let Some(first) = known.next() else { continue };
                lists.add(group.shape, &(group.shape, *first), &All(&all[..=at]));
                known.for_each(|_| lists.count(group.shape));
            }
            self.0 = Some(lists);
        }
    }

    /// A flow has gone that is not among all any more.
    pub fn strike<T: Copy + PartialEq>(&mut self, all: &[Group<T>], shape: Shape, flow: &Flow) {
        if all.len() <= MASKS {
            self.0 = None;
        }
        if let Some(lists) = &mut self.0 {
            lists.remove(shape, &(shape, *flow), &All(all));
        }
    }
}
