//! The fields of headers in rules, such as the destination port of UDP: one list for both halves.
//!
//! A rule says what each must be ([`Rule::asks`]). Of that the tables of both halves are made: the user half's
//! ([`super::shapes`]), which reads frames by `headers.rs`, and the kernel half's (`kernel/filters.rs`), which reads
//! them by `bpf/take.h` and `bpf/channel.h`. That all of these read what the list says is shown by frames in which one
//! byte of one field is another, here, in `kernel/vectors.rs` and in `tests/halves/channels.rs`.

use super::headers::{TCP, UDP};
use super::rule::{Layer, Rule};
use crate::wire::{Addr, Prefix};

#[cfg(test)]
pub(crate) mod tests;

/// A header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// Ethernet's, without a tag.
    Ethernet,
    /// IPv4's.
    V4,
    /// IPv6's.
    V6,
    /// UDP's or TCP's.
    Transport,
}

/// Where a field stands in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The header.
    pub header: HeaderKind,
    /// The byte of it at which the field begins.
    pub at: usize,
    /// How many bytes it has there.
    pub bytes: usize,
}

/// A field that rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// What Ethernet says is inside.
    Type,
    /// What IP says is inside; of IPv6 what its first header says, and in the user half what the last extension header does.
    Protocol,
    /// The sender's address.
    Source,
    /// The receiver's.
    Destination,
    /// The sender's port.
    SourcePort,
    /// The receiver's.
    DestinationPort,
}

const fn place(header: HeaderKind, at: usize, bytes: usize) -> Place {
    Place { header, at, bytes }
}

impl Field {
    /// All of them.
    pub const ALL: [Field; 6] =
        [Field::Type, Field::Protocol, Field::Source, Field::Destination, Field::SourcePort, Field::DestinationPort];

    /// Where it stands.
    pub const fn places(self) -> &'static [Place] {
        match self {
            Field::Type => const { &[place(HeaderKind::Ethernet, 12, 2)] },
            Field::Protocol => const { &[place(HeaderKind::V4, 9, 1), place(HeaderKind::V6, 6, 1)] },
            Field::Source => const { &[place(HeaderKind::V4, 12, 4), place(HeaderKind::V6, 8, 16)] },
            Field::Destination => const { &[place(HeaderKind::V4, 16, 4), place(HeaderKind::V6, 24, 16)] },
            Field::SourcePort => const { &[place(HeaderKind::Transport, 0, 2)] },
            Field::DestinationPort => const { &[place(HeaderKind::Transport, 2, 2)] },
        }
    }

    /// Bytes of it in tables of rules: addresses of IPv4 stand there as those of IPv6 that mean the same, and numbers have two.
    pub const fn bytes(self) -> usize {
        match self {
            Field::Source | Field::Destination => ADDRESS,
            _ => 2,
        }
    }
}

/// Bytes of an address.
const ADDRESS: usize = 16;

/// What a rule asks of a field, the first byte first: the bits that matter, and what they must be. What is behind the
/// field's own bytes is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// All ones, all zeros, or a prefix.
    pub mask: [u8; ADDRESS],
    /// Zero where the mask is.
    pub value: [u8; ADDRESS],
}

impl Asked {
    fn number(value: Option<u16>) -> Asked {
        let Some(value) = value else { return Asked::default() };
        let mut asked = Asked::default();
        asked.mask[..2].fill(0xff);
        asked.value[..2].copy_from_slice(&value.to_be_bytes());
        asked
    }

    fn addr(block: Prefix) -> Asked {
        let kept = |addr| Prefix::new(addr, block.length).addr.0;
        Asked { mask: kept(Addr([0xff; ADDRESS])), value: kept(block.addr) }
    }

    /// Whether it asks for anything.
    pub fn is_any(&self) -> bool {
        self.mask != [0; ADDRESS]
    }

    /// How many bits of it matter.
    pub fn bits(&self) -> u8 {
        u128::from_be_bytes(self.mask).count_ones() as u8
    }

    /// The value of a field of two bytes.
    pub fn as_number(&self) -> u16 {
        u16::from_be_bytes([self.value[0], self.value[1]])
    }

    /// The value of an address, in two words.
    pub fn as_words(&self) -> [u64; 2] {
        words(Addr(self.value))
    }
}

/// An address in two words.
#[inline]
pub(super) fn words(addr: Addr) -> [u64; 2] {
    let number = u128::from_be_bytes(addr.0);
    [(number >> 64) as u64, number as u64]
}

impl Rule {
    /// What it asks of a field of the frame; nothing of ANEP's, which are found otherwise.
    pub fn asks(&self, field: Field) -> Asked {
        let on = |layer| self.layer == layer;
        match field {
            Field::Type => Asked::number(self.kind.filter(|_| on(Layer::Link))),
            Field::Protocol if on(Layer::Udp) => Asked::number(Some(UDP.into())),
            Field::Protocol if on(Layer::Tcp) => Asked::number(Some(TCP.into())),
            Field::Protocol => Asked::number(self.kind.filter(|_| on(Layer::Ip))),
            Field::Source => Asked::addr(self.source),
            Field::Destination => Asked::addr(self.destination),
            Field::SourcePort => Asked::number(self.source_port),
            Field::DestinationPort => Asked::number(self.destination_port),
        }
    }
}
