//! The classifier of taught protocols: which rules hold for a packet, of any protocols that somebody has described. Example:
//! `[ip (src = 10.0.0.0/8) | udp (dport = 2001..2010) | *]` of a thousand rules.
//!
//! ```text
//!  definitions ──▶ protocol ──┐                                       known flow ─▶ answer
//!  rules: text ─┬─▶ pattern ──┴▶ cases ──▶ ways ──▶ groups: tuples, maps, trees ─┘   (known.rs)
//!         pcap ─┘                          a packet's headers
//! ```
//!
//! A packet's headers are read along the tree of the rules' ways (`ways.rs`), as far as some rule looks. A flow that is known has its
//! answer in the flow cache. Else the rules of each way up to the last header are looked through: in tuple space as long as they are
//! few or new (`tuples.rs`), by maps of bits when they are some hundred (`maps.rs`), by split trees when they are more (`trees.rs`). It is
//! the classifier of Bowman (Merugu et al., INFOCOM 2000, III.B), with the three modes of its paper.

pub mod bits;
pub mod classifier;
mod constants;
mod definition;
mod group;
mod known;
pub mod language;
mod maps;
pub mod pattern;
pub mod pcap;
pub mod protocol;
pub mod protocols;
pub mod text;
pub mod token;
pub mod trace;
mod trees;
mod tuples;
mod values;
mod ways;
pub mod words;

#[cfg(test)]
mod tests;
