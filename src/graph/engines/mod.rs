//! The engines, one file each. [`super::class`] is their table.
//!
//! ```text
//! checksum       payload · CRC-32 (IEEE 802.3) of it (32)                     wrong ones are dropped
//! compress       0 (8) · payload, or 1 (8) · length (16) · LZ4 block         whichever is shorter
//! fragment(N)    number (16) · index (8) · count (8) · at most N bytes       put together within a second
//! xor(K)         group (16) · index (8) · K (8) · length (16) · payload      after K packets one that is the sum of them (XOR),
//!                                                                           from which one of the K that is lost is found again
//! ```
//!
//! Numbers are big endian.

pub(super) mod checksum;
pub(super) mod compress;
pub(super) mod fragment;
#[cfg(test)]
pub(super) mod tests;
pub(super) mod xor;
