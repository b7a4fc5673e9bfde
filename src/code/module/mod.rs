//! Execution environments as WebAssembly modules: the third binding of `sdk/anode/nodeos.h`.
//!
//! ```text
//! [[ee]] module ─▶ jail ─▶ this program as a process of its own ─▶ check ─▶ run: main of the module
//!                                                                          │ calls of the header   ▲ its functions
//!                                                                          ▼                       │
//!                                                                   libanode, c::module ──── the node, as from any process
//! ```
//!
//! So it is a process to the node: with a jail, an account of its processor and memory, restarts. In it the module reaches its own
//! memory and the calls of the header, and nothing else: no file, no socket, no clock but the node's. The node's threads may not have
//! machine code made ([`crate::sys::threads`]), and what a fault of wasmtime would give away is this process, not the node.

mod check;
mod run;
mod watch;

pub use check::{MODULE_BYTES_MAX, check, read};
pub use run::{ARGUMENT, run};
