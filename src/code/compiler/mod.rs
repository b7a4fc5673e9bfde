//! The compiler in a jail: processes that compile one module each, and can do nothing else.
//!
//! ```text
//! node ── lane ──▶ server ── fork ──▶ child: limits, then compiles one module ──▶ a file in memory
//!   ▲                │ waits for its end                                              │
//!   └── how it ended ┘◀──────────────────── read when nobody can write it any more ───┘
//! ```
//!
//! It is a function of this program, called [`ARGUMENT`], in a jail (`crate::sys::jail`): a user of its own, no
//! capability, no files, no network, control groups where the host has them. It makes its engines, compiles something
//! small with each, and forks a server for each lane that the node hands it. A server copies a job's bytes and looks at
//! none of them; only a child does, a copy of the warm server that ends with its one job. So no process compiles for
//! two principals, and whatever a module does to the compiler ends with its child. A child that uses more than its
//! [`CompilerLimits`] is ended by the kernel.
//!
//! What this does not do: vouch for the machine code. Who finds a fault of cranelift's that makes it emit wrong code gains by that what
//! native code has in the node's process, whether the compiler is jailed or not (`docs/bundle.md`, section 5).

pub mod answer;
mod client;
mod job;
mod server;

pub use client::{Compilers, Lane};
pub use job::{CompilerLimits, CompilerOutput, Failure, Job, Purpose};
pub use server::serve;

/// What the compiler is called among the functions of this program that run in jails.
pub const ARGUMENT: &str = "wasm-compiler";
