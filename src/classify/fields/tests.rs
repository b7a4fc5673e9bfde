//! Every field of the list is read by both halves: frames with one changed byte in one field, against rules over one
//! field.

use super::*;
use crate::classify::headers::Layers;
use crate::classify::rule::ANYWHERE;
use crate::classify::shapes::Demux;
use crate::frame::PortId;
use crate::wire::checksum::checksum;
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{ipv4, ipv6};

/// A rule, a frame, and whether it holds of that.
pub struct Vector {
    /// What is asked for, and what is another.
    pub what: String,
    pub rule: Rule,
    pub frame: Vec<u8>,
    pub holds: bool,
}

/// Where the headers of a frame of ours begin.
fn start(header: HeaderKind, v4: bool) -> Option<usize> {
    match header {
        HeaderKind::Ethernet => Some(0),
        HeaderKind::V4 => v4.then_some(14),
        HeaderKind::V6 => (!v4).then_some(14),
        HeaderKind::Transport => Some(if v4 { 34 } else { 54 }),
    }
}

/// A segment from port 4000 to port 5000 with four bytes.
pub fn frame(v4: bool, protocol: u8) -> Vec<u8> {
    let segment = if protocol == UDP { 12 } else { 24 };
    let mut bytes = vec![0; start(HeaderKind::Transport, v4).unwrap() + segment];
    let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
    // As the kernel's test of programs has it: for this host.
    ethernet::Repr { destination: Mac([0; 6]), source: Mac([4; 6]), tag: None, ethertype }.emit(&mut bytes).unwrap();
    let addr = |last| Addr([0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last]);
    let length = if v4 {
        ipv4::Repr::new([10, 1, 2, 3], [10, 4, 5, 6], protocol, 64, segment).emit(&mut bytes[14..]).unwrap()
    } else {
        ipv6::Repr::new(addr(1), addr(2), protocol, 64, segment).emit(&mut bytes[14..]).unwrap()
    };
    let head = &mut bytes[14 + length..];
    head[..2].copy_from_slice(&4000u16.to_be_bytes());
    head[2..4].copy_from_slice(&5000u16.to_be_bytes());
    // UDP's length, and TCP's.
    if protocol == UDP {
        head[5] = 12
    } else {
        head[12] = 0x50
    }
    bytes
}

/// A rule at a layer that asks for what the frame has in one field.
fn rule(layer: Layer, field: Field, bytes: &[u8]) -> Option<Rule> {
    let layers = Layers::of(bytes)?;
    let ip = layers.ip?;
    let transport = ip.transport?;
    let (source, destination) = (ANYWHERE, ANYWHERE);
    let (source_port, destination_port) = (None, None);
    let any = Rule { port: None, layer, kind: None, source, destination, source_port, destination_port, key: vec![] };
    let ports = matches!(layer, Layer::Udp | Layer::Tcp);
    match field {
        Field::Type => (layer == Layer::Link).then_some(Rule { kind: Some(layers.ethertype), ..any }),
        Field::Protocol if ports => Some(any),
        Field::Protocol => (layer == Layer::Ip).then(|| Rule { kind: Some(ip.protocol.into()), ..any }),
        _ if layer == Layer::Link => None,
        Field::Source => Some(Rule { source: Prefix::host(ip.source), ..any }),
        Field::Destination => Some(Rule { destination: Prefix::host(ip.destination), ..any }),
        Field::SourcePort => ports.then_some(Rule { source_port: Some(transport.source), ..any }),
        Field::DestinationPort => ports.then_some(Rule { destination_port: Some(transport.destination), ..any }),
    }
}

/// Whether a rule that asks for one field at a layer looks at another: one layer's protocol says what the next one is.
fn looks_at(layer: Layer, asked: Field, field: Field) -> bool {
    let inner = match field {
        Field::Type => layer != Layer::Link,
        Field::Protocol => matches!(layer, Layer::Udp | Layer::Tcp),
        _ => false,
    };
    inner || asked == field
}

/// All of them.
pub fn all() -> Vec<Vector> {
    let mut all = vec![];
    for (v4, layer) in [true, false]
        .into_iter()
        .flat_map(|v4| [Layer::Link, Layer::Ip, Layer::Udp, Layer::Tcp].map(|layer| (v4, layer)))
    {
        let good = frame(v4, if layer == Layer::Tcp { TCP } else { UDP });
        for asked in Field::ALL {
            let Some(rule) = rule(layer, asked, &good) else { continue };
            let what = format!("{} of {layer:?}: {asked:?}", if v4 { "IPv4" } else { "IPv6" });
            all.push(Vector { what: what.clone(), rule: rule.clone(), frame: good.clone(), holds: true });
            for field in Field::ALL {
                let places = field.places().iter().filter_map(|place| Some((place, start(place.header, v4)?)));
                for at in places.flat_map(|(place, start)| start + place.at..start + place.at + place.bytes) {
                    let (what, mut frame) = (format!("{what}, another {field:?} at {at}"), good.clone());
                    frame[at] ^= 0x80;
                    if v4 {
                        frame[24..26].fill(0);
                        let sum = checksum(&frame[14..34]);
                        frame[24..26].copy_from_slice(&sum.to_be_bytes());
                    }
                    all.push(Vector { what, rule: rule.clone(), frame, holds: !looks_at(layer, asked, field) });
                }
            }
        }
    }
    all
}

#[test]
fn the_user_half_reads_the_fields_of_the_list() {
    for Vector { what, rule, frame, holds } in all() {
        let mut demux = Demux::with_secret(7);
        demux.add(&rule, ()).unwrap();
        let found = Layers::of(&frame).and_then(|layers| demux.find(PortId(3), &layers, &frame));
        assert_eq!(found.is_some(), holds, "{what}: {frame:02x?}");
    }
    assert!(all().len() > 500, "{}", all().len());
}

#[test]
fn what_a_rule_asks_for_is_as_long_as_its_field() {
    for Vector { rule, .. } in all() {
        for field in Field::ALL {
            let Asked { mask, value } = rule.asks(field);
            assert!(mask[field.bytes()..].iter().chain(&value[field.bytes()..]).all(|byte| *byte == 0));
            assert!(mask.iter().zip(value).all(|(mask, value)| value & !mask == 0));
        }
    }
}
