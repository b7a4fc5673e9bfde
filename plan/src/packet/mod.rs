//! Packets: a chunk with its header.
//!
//! The binary form is canonical: bytes that decode are the bytes that encoding gives again, and
//! everything else is refused. A packet carries exactly the code that its chunks need, either whole or,
//! where nodes keep code, by the SHA-256 of its bytes. docs/plan.md has the form in tables.

mod decode;
mod encode;
mod header;
mod outline;

pub use decode::{DecodeError, Library, Libraryless, unpack};
pub use encode::{encode_with, pack, slices, slices_for, slices_of};
pub use header::{FIXED, Header, View, ViewMut};
pub use outline::{Code, Front, Outline};

use crate::value::Chunk;
use std::sync::Arc;

/// The most bytes of a packet.
pub const PACKET_MAX: usize = 65_000;
/// The most codes that a packet carries.
pub const CODES_MAX: usize = 16;
/// The version of the binary form.
pub const VERSION: u8 = 1;

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// What the network must know.
    pub header: Header,
    /// What is evaluated.
    pub chunk: Arc<Chunk>,
}
