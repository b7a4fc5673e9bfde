//! The compiler in a jail: processes that compile one module each, and can do nothing else.
//!
//! ```text
//! node ── lane ──▶ server ── fork ──▶ child: limits, then compiles one module ──▶ a file in memory
//!   ▲                │ waits for its end                                              │
//!   └── how it ended ┘◀──────────────────── read when nobody can write it any more ───┘
//! ```
//!
//! It is this program again, started with [`ARGUMENT`]. It makes its engines, compiles something small with each, gives up files,
//! the network and all rights (`crate::sys::jail`), and forks a server for each lane that the node hands it. A server copies a job's
//! bytes and looks at none of them; only a child does, a copy of the warm server that ends with its one job. So no process
//! compiles for two principals, and whatever a module does to the compiler ends with its child. A child that uses more than
//! its [`Limits`] is ended by the kernel.
//!
//! What this does not do: vouch for the machine code. Who finds a fault of cranelift's that makes it emit wrong code gains by that what
//! native code has in the node's process, whether the compiler is jailed or not (`docs/bundle.md`, section 5).

mod client;
mod job;
mod server;

pub use client::{Compilers, Lane};
pub use job::{Failure, Job, Limits, Output, Purpose};
pub use server::serve;

/// The argument that makes this program the compiler.
pub const ARGUMENT: &str = "wasm-compiler";
