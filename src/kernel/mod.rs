//! Programs of this project that run in the Linux kernel.
//!
//! Their sources are in `bpf/`; the build compiles them and this crate carries the result. So far
//! that is the guard which keeps capsules from the Linux stack of an interface whose frames the node
//! reads through an AF_PACKET socket.

use crate::sys::bpf::{Link, Program};
use object::{Object, ObjectSection};
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
        let code = section(GUARD, "tc")?;
        let link = Program::load_tc("anode_guard", code)?.attach_ingress(interface)?;
        Ok(Guard { _link: link })
    }
}

/// The instructions in a section of an object file of our own.
fn section<'a>(file: &'a [u8], name: &str) -> io::Result<&'a [u8]> {
    let broken = || io::Error::other(format!("the program built into this binary has no section '{name}'"));
    let object = object::File::parse(file).map_err(|_| broken())?;
    object.section_by_name(name).and_then(|section| section.data().ok()).ok_or_else(broken)
}
