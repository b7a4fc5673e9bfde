//! The kernel's answer to "where does this packet go?", with all rules of policy routing, for the user half
//! (`bpf/route.bpf.c`).
//!
//! It is the same call with the same words as the kernel half's (`bpf/next_hop.h`), so both halves have one answer. It
//! takes no lock of the routing tables and waits for nothing.

use super::own;
use crate::contract::{self, fib};
use crate::frame::PortId;
use crate::sys::bpf::Program;
use crate::topology::{Flow, NextHop, Router, Routes};
use crate::wire::{Addr, anep, udp};
use std::io;
use std::sync::Arc;

pub(super) static ROUTE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/route.bpf.o"));

/// Bytes of `struct bpf_fib_lookup`, as the kernel has it, and families.
const QUESTION: usize = fib::SIZE;
const INET: u8 = contract::INET as u8;
const INET6: u8 = contract::INET6 as u8;

const _: () = assert!(QUESTION == 64, "the kernel's structure");

/// The loopback interface of any namespace: what begins here comes by it, for rules.
const LOOPBACK: u32 = 1;

/// `BPF_FIB_LKUP_RET_SUCCESS`; the same without forwarding on the interface by which the packet came.
const FOUND: u32 = 0;
const NOT_FORWARDING: u32 = 5;

/// What asks the kernel.
#[derive(Debug)]
pub struct Asker(Program);

impl Asker {
    /// Loads the program.
    pub fn open() -> io::Result<Asker> {
        own::load("route", |name| Err(io::Error::other(format!("no map {name}")))).map(Asker)
    }
}

/// The kernel's routes and rules, as a node's ports see them.
#[derive(Debug)]
pub struct RuledRoutes {
    /// What asks.
    pub asker: Arc<Asker>,
    /// The interface of each port, 0 if it has none.
    pub interfaces: Vec<u32>,
    /// What the kernel does not know: static routes and overlays. They come first.
    pub fixed: Routes,
    /// The main tables, for a host that does not forward and cannot be asked.
    pub main: Arc<Routes>,
}

impl Router for RuledRoutes {
    fn next_hop(&self, flow: &Flow) -> Option<NextHop> {
        if let Some(next) = self.fixed.next_hop(flow.to) {
            return Some(next);
        }
        let interface = flow.port.and_then(|port| self.interfaces.get(usize::from(port.0))).filter(|index| **index > 0);
        let mut bytes = question(flow, interface.copied().unwrap_or(LOOPBACK));
        match self.asker.0.run_on(&mut bytes) {
            Ok(FOUND) => self.answer(flow, &bytes),
            Ok(NOT_FORWARDING) | Err(_) => self.main.next_hop(flow.to),
            Ok(_) => None,
        }
    }
}

impl RuledRoutes {
    /// The port and next router of an answer; nothing: it is none of the node's, or by the other family.
    fn answer(&self, flow: &Flow, bytes: &[u8; QUESTION]) -> Option<NextHop> {
        let v4 = flow.to.is_v4();
        let interface = u32::from_ne_bytes(fib::INTERFACE.of(bytes));
        let port = PortId(self.interfaces.iter().position(|index| *index == interface)? as u16);
        if fib::FAMILY.of(bytes) != [if v4 { INET } else { INET6 }] {
            return None;
        }
        let to = fib::DESTINATION.of(bytes);
        let via = if v4 { Addr::v4([to[0], to[1], to[2], to[3]]) } else { Addr(to) };
        Some(NextHop { port, via: if via == flow.to { Addr::UNSPECIFIED } else { via } })
    }
}

/// `struct bpf_fib_lookup` of a packet of this flow that came by an interface.
fn question(flow: &Flow, interface: u32) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let v4 = flow.to.is_v4();
    fib::FAMILY.put(&mut bytes, [if v4 { INET } else { INET6 }]);
    fib::PROTOCOL.put(&mut bytes, [if flow.direct { anep::IP_PROTOCOL } else { udp::IP_PROTOCOL }]);
    if !flow.direct {
        fib::SOURCE_PORT.put(&mut bytes, anep::UDP_PORT.to_be_bytes());
        fib::DESTINATION_PORT.put(&mut bytes, anep::UDP_PORT.to_be_bytes());
    }
    fib::INTERFACE.put(&mut bytes, interface.to_ne_bytes());
    // Of IPv4 the first byte; of IPv6 the first word of the header.
    let service = if v4 { [flow.service, 0, 0, 0] } else { (u32::from(flow.service) << 20).to_be_bytes() };
    fib::SERVICE.put(&mut bytes, service);
    fib::SOURCE.put(&mut bytes, address(flow.from, v4));
    fib::DESTINATION.put(&mut bytes, address(flow.to, v4));
    bytes
}

/// An address as one of this family; of the other it is none.
fn address(addr: Addr, v4: bool) -> [u8; 16] {
    let mut bytes = [0; 16];
    match addr.bytes_v4().filter(|_| v4) {
        Some(four) => bytes[..4].copy_from_slice(&four),
        None if v4 || addr.is_v4() => {}
        None => bytes = addr.0,
    }
    bytes
}
