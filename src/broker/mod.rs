//! The broker: the one process of a node that keeps privileges. Example: it opens a packet socket and passes the
//! descriptor to the node.
//!
//! ```text
//! anode node run ── fork ──▶ broker          root, never parses what a network sends
//!      │ own user, no capability  ▲ │
//!      └── requests ──────────────┘ └── descriptors, answers (SOCK_SEQPACKET)
//! ```
//!
//! The node forks it before any thread exists and gives its own privileges away ([`begin`]). From then on whatever
//! needs one is a [`Request`]: sockets, maps and programs of the kernel half, pins, drivers' settings, environments'
//! processes. The broker checks each against the configuration it was started with ([`allowed`]), so a node that
//! somebody else has taken over gets what its configuration has and no more. There is a socket for each [`Lane`], so
//! that what takes its time, as starting an environment does, holds nothing else up. It ends with the node, and undoes
//! what must not stay. A node without privileges has a broker too, which can do less; only what is assembled without
//! [`begin`], in tests and benchmarks, does all this itself, as far as the system lets it. After OpenSSH's privilege
//! separation (Provos, Friedl, Honeyman 2003).

pub mod acts;
pub mod allowed;
mod alone;
pub mod apart;
mod captures;
mod client;
pub mod configurations;
pub mod given;
mod helpers;
mod here;
mod jails;
mod listen;
pub mod message;
pub mod operator;
mod paced;
pub mod prepare;
pub mod process;
pub mod remains;
pub mod sandbox;
mod server;
mod sockets;
mod start;

pub use client::{Done, ask, ask_at, is_there};
pub use helpers::{HelpersJail, helper};
pub use jails::jails_of;
pub use listen::listen;
pub use message::{Answer, Helper, Lane, LocalSocket, MORE, NAMES_MAX, Pin, PinRequest, Place, Request, Shape, Wanted};
pub use prepare::reach;
pub use sockets::{connect, discovery, packet, register, tcp, udp, xdp};
pub use start::begin;
