//! Rules as bytes of `bpf/filters.h`: patterns, masks and keys.

use crate::classify::fields::Field;
use crate::classify::rule::{DemuxKey, Rule};
use crate::classify::shape::Shape;
use crate::classify::table::Shaped;
use crate::contract::{self, owners, pattern};
use crate::frame::PortId;
use crate::wire::{Addr, Prefix};
use core::ops::Range;

// Fields are as long in patterns as in what rules ask for.
const _: () = {
    let mut at = 0;
    while at < Field::ALL.len() {
        let range = place(Field::ALL[at]);
        assert!(range.end - range.start == Field::ALL[at].bytes());
        at += 1;
    }
};

/// A `struct pattern`.
pub(super) type Pattern = [u8; pattern::SIZE];

/// Where a field stands in a pattern. What is inside of Ethernet or of IP stands in one place, since no rule asks for both.
const fn place(field: Field) -> Range<usize> {
    match field {
        Field::Type | Field::Protocol => pattern::KIND.range(),
        Field::Source => pattern::SOURCE.range(),
        Field::Destination => pattern::DESTINATION.range(),
        Field::SourcePort => pattern::SOURCE_PORT.range(),
        Field::DestinationPort => pattern::DESTINATION_PORT.range(),
    }
}

/// The pattern of a rule: the values of its fields, and this port.
pub(super) fn shaped(rule: &Rule, port: Option<PortId>) -> Shaped<Pattern> {
    let mut value = [0; pattern::SIZE];
    for (field, asked) in Field::ALL.map(|field| (field, rule.asks(field))).iter().filter(|(_, asked)| asked.is_any()) {
        value[place(*field)].copy_from_slice(&asked.value[..field.bytes()]);
    }
    pattern::PORT.put(&mut value, port.map_or(0, |port| u32::from(port.0)).to_ne_bytes());
    let shape = Shape::of(rule).by_number();
    let shape = if port.is_some() { shape } else { shape.of_any_port() };
    (shape, behind(&value, shape))
}

/// The mask of a shape, as `mask_of` of `bpf/filters.h` makes it of the number.
pub(super) fn mask_of(shape: Shape) -> Pattern {
    let mut mask = [0; pattern::SIZE];
    for field in Field::ALL {
        match (field, shape.bits(field)) {
            (_, 0) => {}
            (Field::Source | Field::Destination, bits) => {
                let ones = Prefix::new(Addr([0xff; 16]), bits).addr.0;
                mask[place(field)].copy_from_slice(&ones);
            }
            _ => mask[place(field)].fill(0xff),
        }
    }
    if shape.has_port() {
        pattern::PORT.put(&mut mask, u32::MAX.to_ne_bytes());
    }
    pattern::LAYER.put(&mut mask, (shape.kernel_layer() as u16).to_ne_bytes());
    pattern::SHAPE.put(&mut mask, shape.number().to_ne_bytes());
    mask
}

/// What is left of fields behind the mask of a shape.
pub(super) fn behind(fields: &Pattern, shape: Shape) -> Pattern {
    let mask = mask_of(shape);
    let mut left = *fields;
    left.iter_mut().zip(mask).for_each(|(left, mask)| *left &= mask);
    // These two are no masks.
    pattern::LAYER.put(&mut left, pattern::LAYER.of(&mask));
    pattern::SHAPE.put(&mut left, pattern::SHAPE.of(&mask));
    left
}

/// A `struct owners`: keys, each with the number of whoever has its packets.
pub(super) fn value(keys: &[(DemuxKey, u32)]) -> [u8; owners::SIZE] {
    let mut value = [0; owners::SIZE];
    let (here, more) = keys.split_at(keys.len().min(contract::KEYS as usize));
    owners::COUNT.put(&mut value, (here.len() as u32).to_ne_bytes());
    owners::MORE.put(&mut value, u32::from(!more.is_empty()).to_ne_bytes());
    let places = value[owners::KEYS.range()].as_chunks_mut::<{ contract::key::SIZE }>().0;
    for (place, (key, owner)) in places.iter_mut().zip(here) {
        contract::key::COUNT.put(place, (key.len() as u32).to_ne_bytes());
        contract::key::CUT.put(place, owner.to_ne_bytes());
        let places = place[contract::key::TUPLES.range()].as_chunks_mut::<{ contract::tuple::SIZE }>().0;
        for (place, tuple) in places.iter_mut().zip(key) {
            // As they stand in the packet: the first byte first.
            let bytes = |number: u64| {
                let mut bytes = [0; 8];
                let length = usize::from(tuple.length);
                bytes[..length].copy_from_slice(&number.to_be_bytes()[8 - length..]);
                bytes
            };
            contract::tuple::VALUE.put(place, bytes(tuple.value));
            contract::tuple::MASK.put(place, bytes(tuple.mask));
            contract::tuple::OFFSET.put(place, u32::from(tuple.offset).to_ne_bytes());
            contract::tuple::LENGTH.put(place, u32::from(tuple.length).to_ne_bytes());
        }
    }
    value
}
