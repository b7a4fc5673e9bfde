//! Frames that leave a place: at the other ends of its links, and into the stack.
#![allow(dead_code)]

use super::Place;
use crate::wait;
use anode::sys::bpf::{Hook, Link, Program, XdpMode};
use anode::sys::clock::Clock;
use anode::sys::packet::PacketSocket;
use std::os::fd::AsFd;

/// The Ethernet type of the frame behind all others.
const LAST: [u8; 2] = [0x88, 0xb7];

/// What came of a frame.
#[derive(Debug, Default)]
pub struct Left {
    /// What left, by port.
    pub sent: Vec<(u16, Vec<u8>)>,
    /// What went on into the stack.
    pub up: Vec<Vec<u8>>,
}

/// Sockets at both ends of both links.
pub struct Wires {
    here: [PacketSocket; 2],
    there: [PacketSocket; 2],
    _links: Vec<Link>,
}

/// Two instructions: a value, and the end.
fn returns(hook: Hook, value: i32) -> Program {
    let mut code = vec![0xb7, 0, 0, 0];
    code.extend(value.to_le_bytes());
    code.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
    Program::load(hook, "returns", &code, &[], None).unwrap()
}

impl Wires {
    /// In the namespace. `here` and `there` are the interfaces of the place, and their peers.
    pub fn open(here: [u32; 2], there: [u32; 2]) -> Wires {
        let (all, drop, pass) = (returns(Hook::SocketFilter, -1), returns(Hook::TcIngress, 2), returns(Hook::Xdp, 2));
        let socket = |interface: u32| PacketSocket::open(interface, 4096, &all).unwrap();
        // The stack does nothing with what comes up; and a veth interface takes redirected frames if its peer looks at frames too.
        let mut links: Vec<_> = here.iter().map(|interface| drop.attach_ingress(*interface).unwrap()).collect();
        links.extend(there.iter().map(|interface| pass.attach_xdp(*interface, XdpMode::Native).unwrap()));
        for name in ["s0", "d0"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        }
        Wires { here: here.map(socket), there: there.map(socket), _links: links }
    }

    /// Takes what has left since the last time, when it is all there.
    pub fn take(&mut self) -> Left {
        let mut left = Left::default();
        for (port, (here, there)) in (0..).zip(self.here.iter_mut().zip(&mut self.there)) {
            rustix::io::write(here.as_fd(), &[&[0xff; 12][..], &LAST, &[0; 46]].concat()).unwrap();
            let mut last = false;
            while !last {
                let mut look = |frame: &[u8]| match frame.get(12..14) {
                    Some(kind) if kind == LAST => last = true,
                    _ if is_the_stacks(frame) => {}
                    _ => left.sent.push((port, frame.to_vec())),
                };
                if !there.receive(&mut look) {
                    wait::readable(there, || "the last frame".into());
                }
            }
            while here.receive(|frame| left.up.push(frame.to_vec())) {}
        }
        left
    }
}

/// What the stack says by itself: questions for addresses, group memberships.
fn is_the_stacks(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([8, 6]) => true,
        Some([0x86, 0xdd]) => matches!(frame.get(20), Some(0 | 58)),
        _ => false,
    }
}

impl Place {
    /// What the kernel half does with a frame that comes in by `port`, and what leaves.
    pub fn live(&mut self, port: u16, bytes: &[u8]) -> Left {
        self.live_with(port, bytes, None).0
    }

    /// The same when the node's clock is at `now`; and how far that clock has gone on in the meantime.
    pub fn live_at(&mut self, now: u64, port: u16, bytes: &[u8]) -> (Left, u64) {
        self.live_with(port, bytes, Some(now))
    }

    fn live_with(&mut self, port: u16, bytes: &[u8], now: Option<u64>) -> (Left, u64) {
        let (half, here) = (self.half.clone(), self.interfaces);
        let interface = here[usize::from(port)];
        if self.wires.is_none() {
            let open = || Wires::open(here, ["s0", "d0"].map(super::interface_index));
            self.wires = Some(self.namespace.enter(open).unwrap());
            self.wires.as_mut().unwrap().take();
        }
        let wires = self.wires.as_mut().unwrap();
        let run = || {
            let clock = Clock::start();
            if let Some(now) = now {
                half.set_origin(clock.origin() - now).unwrap();
            }
            half.live_run(bytes, interface).unwrap();
            let late = clock.now();
            (wires.take(), late)
        };
        self.namespace.enter(run).unwrap()
    }
}
