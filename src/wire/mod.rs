//! Bytes to headers and back.
//!
//! Every format has a *view* (borrowed bytes whose length was checked once, so that accessors
//! cannot panic) and a *repr* (an owned value that can be parsed and emitted). Parsers are total:
//! any byte string gives a value or an [`Error`], never a panic, and each has a fuzz target.
//! Nothing here does I/O or reads a clock. `docs/wire.md` shows the layouts.

mod addr;
pub mod anep;
mod anep_option;
pub mod arp;
pub mod capsule;
pub mod checksum;
pub mod ethernet;
pub mod fetch;
pub mod hello;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
mod name;
mod neighbour;
pub mod part;
pub mod plan;
pub mod proof;
pub mod revocation;
pub mod sum;
pub mod udp;

pub use addr::{Addr, Prefix};
pub use name::{Digest, DigestError};

/// Why bytes are not the header they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Fewer bytes than the header, or than a length field promises.
    Truncated,
    /// A version this implementation does not speak.
    Version,
    /// A length field contradicts another, or the bytes.
    Length,
    /// A checksum does not match.
    Checksum,
    /// A field has a value the specification forbids.
    Malformed,
}

/// What every parser here returns.
pub type Result<T> = core::result::Result<T, Error>;

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "truncated",
            Error::Version => "unknown version",
            Error::Length => "contradicting lengths",
            Error::Checksum => "wrong checksum",
            Error::Malformed => "forbidden field value",
        })
    }
}

impl core::error::Error for Error {}

/// The `LEN` bytes at offset `AT` of a header; an offset outside the header does not compile.
#[inline(always)]
fn field<const AT: usize, const LEN: usize, const N: usize>(header: &[u8; N]) -> [u8; LEN] {
    const { assert!(AT + LEN <= N, "the field lies outside the header") };
    // As an array, so that it is a load and never a call to copy.
    header[AT..].first_chunk().copied().unwrap_or([0; LEN])
}

/// Writes the `LEN` bytes at offset `AT` of a header; an offset outside the header does not compile.
#[inline(always)]
fn put<const AT: usize, const LEN: usize, const N: usize>(header: &mut [u8; N], value: [u8; LEN]) {
    const { assert!(AT + LEN <= N, "the field lies outside the header") };
    if let Some(place) = header[AT..].first_chunk_mut() {
        *place = value;
    }
}
