//! The NodeOS interface for execution environments in processes of their own.
//!
//! Two things in one crate, because both sides of a boundary must mean the same by it:
//!
//! - the boundary itself, used by the node and by processes: [`message`]s of the socket, [`ring`]s and buffers in shared [`memory`], and
//!   what their [`entry`]s mean;
//! - the C library behind `sdk/anode/nodeos.h`: [`c`] has its functions, [`session`] the connection to the node, [`objects`] the names
//!   under which programs know objects, [`crew`] the threads that run deliver functions, [`buffers`] the packets.
//!
//! The way of a packet: the node copies it into a buffer of its share and puts an entry into the ring `up`; a thread of the crew takes
//! it out and calls the channel's deliver function; that sends it (an entry in `down`) or frees it (an entry in `back`); the node copies
//! it out and has its buffer again. `docs/nodeos.md` is the reference.
#![warn(missing_docs)]

pub mod arrival;
pub mod buffers;
pub mod c;
mod classify;
pub mod crew;
pub mod entry;
pub mod error;
pub mod heap;
pub mod here;
pub mod layout;
pub mod link;
pub mod mapping;
pub mod memory;
pub mod message;
mod numbers;
pub mod objects;
pub mod ring;
pub mod seqpacket;
pub mod session;
mod sys;
pub mod wire;
