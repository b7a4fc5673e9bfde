//! Packets can be seen: what enters and leaves a node, and what happens to it there.
//!
//! ```text
//! worker ── frames, events ──▶ ring ──▶ control thread ── control socket ──▶ capture, explain: join ──▶ comments, stories
//! kernel half ── BPF ring buffer ──────────┘     └──▶ join ──▶ file (`pcap =`)
//! ```
//!
//! Nobody listens: a branch that is not taken, in the worker and in each place where an event would be told. Somebody does: records
//! go into a ring of bounded size ([`ring`]), and those without room are counted, never waited for. Everything that costs more than a copy
//! is done by whoever reads: names, comments ([`words`]), filters ([`filter`]), joining ([`join`]).

pub mod event;
pub mod filter;
pub mod join;
pub mod look;
pub mod record;
pub mod ring;
pub mod words;
