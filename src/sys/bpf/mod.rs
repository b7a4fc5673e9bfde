//! The bpf(2) system call, as far as this project needs it: maps, type information, programs, links, pins.
//!
//! Attributes are C structures of the kernel's `union bpf_attr`, one for each command, as in
//! linux/bpf.h; a kernel that knows a longer one takes the rest for zero.

mod again;
mod call;
mod map;
mod pin;
mod program;
mod ring;

pub use call::Types;
pub use map::{Map, MapKind, MapShape, possible_cpus};
pub use pin::{is_mounted, mount, open, pin, unmount};
pub use program::{Functions, Hook, Link, Program, ProgramInfo, XdpMode};
pub use ring::RingBuffer;
