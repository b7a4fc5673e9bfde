//! TCP streams of execution environments: the stack of the system has them, the node hands their bytes over.
//!
//! ```text
//! a network ◀─ TCP ─▶ a socket of the node's ◀─ relay ─▶ a pair of local sockets ◀─▶ the program, in its jail
//! ```
//!
//! A socket that a program had itself it could connect to anywhere. So the node keeps it (the broker has opened it, where the role
//! says so), and the program has one end of a pair that leads to the relay alone. Each side is read when the other one has
//! room, so the kernel's flow control reaches from end to end.
//!
//! A domain's streams are in its account ([`Account`]), which the domain holds too: with the domain it ends, and a thread of the sessions
//! shuts them all. So it does with those that a changed role gives no more (`ends`).

mod account;
mod calls;
mod ends;
mod relay;
mod stream;

pub use account::{StreamRow, Streams};
pub use relay::Relay;
