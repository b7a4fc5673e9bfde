//! Programs of this project that run in the Linux kernel.
//!
//! Their sources are in `bpf/`; the build compiles them and this crate carries the result: the guard
//! which keeps capsules from the Linux stack of an interface whose frames the node reads through an
//! AF_PACKET socket, the kernel [`half`], which runs capsules before they reach either, and the way from the
//! driver to the node's AF_XDP sockets ([`Steering`]).

mod codes;
mod error;
pub mod half;
mod layout;
pub mod loader;
mod maps;
mod object;
mod pins;
mod slots;
mod sockets;
mod state;
mod status;
mod types;

pub use error::LoadError;
pub use half::{KernelHalf, Opening, environment};
pub use layout::SOCKETS;
pub use maps::{KernelCounts, KernelUsage, PortEntry};
pub use pins::Pins;
pub use sockets::{Lifted, Steering, Tickets};
pub use state::CodeState;
pub use status::Status;

use crate::sys::bpf::{Hook, Link, Program};
use std::io;

/// The compiled guard (`bpf/guard.bpf.c`).
static GUARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));

/// Keeps capsules that come in by an interface from the Linux stack, as long as it lives.
pub struct Guard {
    _link: Link,
}

impl Guard {
    /// Puts the guard before the Linux stack of the interface with this index.
    pub fn attach(interface: u32) -> io::Result<Guard> {
        let guard = object::program(GUARD, "guard")?;
        let code: Vec<u8> = guard.code.iter().flat_map(|insn| insn.encode()).collect();
        let link = Program::load(Hook::TcIngress, "anode_guard", &code, &[], None)?.attach_ingress(interface)?;
        Ok(Guard { _link: link })
    }
}
