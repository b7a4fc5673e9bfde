//! Shapes of rules: which fields they look at. As numbers the kernel half makes masks of them (`bpf/filters.h`).
//!
//! Example: UDP from 10.0.0.0/8 to a port, and from 10.1.0.0/16 to a port, are two. They have in common UDP from 10.0.0.0/8 to a port:
//! whatever one of them matches this matches too.

use super::fields::Field;
use super::rule::{Layer, Rule};
use crate::contract::{
    AT_DESTINATION, AT_DESTINATION_PORT, AT_KIND, AT_LAYER, AT_PORT, AT_SOURCE, AT_SOURCE_PORT, ON_IP, ON_LINK,
    ON_TRANSPORT,
};

/// What a number or a port that is looked at counts for beside the bits of an address.
const NUMBER_BITS: u32 = 16;

/// Which fields rules look at, the most specific last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    pub(super) layer: Layer,
    pub(super) source_port: bool,
    pub(super) destination_bits: u8,
    pub(super) destination_port: bool,
    pub(super) source_bits: u8,
    pub(super) kind: bool,
    pub(super) port: bool,
}

impl Shape {
    /// That of a rule, from what it asks of each field.
    pub fn of(rule: &Rule) -> Shape {
        let [kind, protocol, source, destination, source_port, destination_port] =
            Field::ALL.map(|field| rule.asks(field).bits());
        let anep = rule.layer == Layer::Anep && rule.kind.is_some();
        Shape {
            layer: rule.layer,
            source_port: source_port > 0,
            destination_bits: destination,
            destination_port: destination_port > 0,
            source_bits: source,
            kind: kind > 0 || protocol > 0 || anep,
            port: rule.port.is_some(),
        }
    }

    /// The same where UDP and TCP are told apart by the number of the protocol, so that they are of one layer.
    pub fn by_number(self) -> Shape {
        Shape { layer: if self.layer == Layer::Tcp { Layer::Udp } else { self.layer }, ..self }
    }

    /// The same in tables of one port.
    pub fn of_any_port(self) -> Shape {
        Shape { port: false, ..self }
    }

    /// Whether rules of it are for one port.
    pub fn has_port(self) -> bool {
        self.port
    }

    /// The layer as the kernel half has it.
    pub fn kernel_layer(self) -> u32 {
        match self.layer {
            Layer::Link => ON_LINK,
            Layer::Ip => ON_IP,
            Layer::Udp | Layer::Tcp | Layer::Anep => ON_TRANSPORT,
        }
    }

    /// A number that says all of it, where layers are told apart [by number](Shape::by_number): a more specific shape's is larger.
    pub fn number(self) -> u32 {
        let flag = |is: bool, at: u32| u32::from(is) << at;
        flag(self.port, AT_PORT)
            | flag(self.kind, AT_KIND)
            | u32::from(self.source_bits) << AT_SOURCE
            | flag(self.destination_port, AT_DESTINATION_PORT)
            | u32::from(self.destination_bits) << AT_DESTINATION
            | flag(self.source_port, AT_SOURCE_PORT)
            | self.kernel_layer() << AT_LAYER
    }

    /// How many bits of a field matter.
    pub fn bits(self, field: Field) -> u8 {
        let number = |is: bool| if is { NUMBER_BITS as u8 } else { 0 };
        match field {
            Field::Type => number(self.kind && self.layer == Layer::Link),
            Field::Protocol => number(self.kind && self.layer != Layer::Link),
            Field::Source => self.source_bits,
            Field::Destination => self.destination_bits,
            Field::SourcePort => number(self.source_port),
            Field::DestinationPort => number(self.destination_port),
        }
    }

    /// How many bits of all matter.
    pub(super) fn weight(self) -> u64 {
        let fields = Field::ALL.into_iter().map(|field| u64::from(self.bits(field))).sum::<u64>();
        fields + if self.port { u64::from(NUMBER_BITS) } else { 0 }
    }

    /// What it and another have in common; nothing: they are of different layers, or of Ethernet, of which there are few.
    pub(super) fn common(self, other: Shape) -> Option<Shape> {
        (self.layer == other.layer && self.layer != Layer::Link).then(|| Shape {
            layer: self.layer,
            source_port: self.source_port && other.source_port,
            destination_bits: self.destination_bits.min(other.destination_bits),
            destination_port: self.destination_port && other.destination_port,
            source_bits: self.source_bits.min(other.source_bits),
            kind: self.kind && other.kind,
            port: self.port && other.port,
        })
    }
}
