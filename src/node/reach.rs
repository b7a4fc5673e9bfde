//! The node's own messages: the one place that asks [`Reach`] how much may be sent to an address.
//!
//! Capsules that need code, revocations and PLAN packets give credit to the addresses that they name. Requests for
//! code, revocations, reports, services and PLAN's messages between neighbours use it up. Configured neighbours count
//! as having answered: the operator wants them to hear of this node. A message to everybody on a link (RIP) is as much
//! to each receiver.
//!
//! Three answers need no table, because each is paid by its own question and by nothing else, which is stricter. Parts
//! of code are three times the request at most (`serving`). A PLAN code goes once to each receiver of its digest, paid
//! by the packet with the digest (`ee::plan::costs`). An answer to ARP or neighbour discovery is as long as its
//! question.

use super::{Cx, secret, secret_word};
use crate::code::fetch::nonces::Nonces;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::topology::reach::{Reach, ReachRefused};
use crate::wire::{Addr, anep, ethernet, ipv4, udp};

/// Bytes around a message in its frame, on an Ethernet link by IPv4. An overlay's are alike.
const AROUND: usize = anep::HEADER + udp::HEADER + ipv4::HEADER + ethernet::HEADER;

/// To whom the node may send, and how it finds out who gets that.
pub(super) struct Originate {
    pub(super) reach: Reach,
    /// What only who gets packets of the node can repeat.
    pub(super) numbers: Nonces,
}

impl Originate {
    pub(super) fn new(seed: u64) -> Originate {
        let reach = Reach::new(secret_word(seed).rotate_left(32));
        Originate { reach, numbers: Nonces::new(secret(seed, b"number")) }
    }
}

impl Cx {
    /// So many bytes have come in the name of an address.
    pub(super) fn note_heard(&mut self, now: u64, addr: Addr, bytes: usize) {
        self.control.originate.reach.heard(now, addr, bytes + AROUND);
    }

    /// Whether the node may send so many bytes to an address, a neighbour's if a port is given; they are charged.
    pub(super) fn may_originate(&mut self, now: u64, to: Addr, port: Option<PortId>, bytes: usize) -> bool {
        port.is_some_and(|port| self.expects(to, port))
            || self.control.originate.reach.may_send(now, to, bytes + AROUND).is_ok()
    }

    /// Whether it could send so many messages of so many bytes.
    pub(super) fn could_originate(&mut self, now: u64, to: Addr, bytes: usize) -> bool {
        self.control.originate.reach.could_send(now, to, bytes + AROUND)
    }

    /// Asks for leave to send a report of so many bytes, which are charged.
    pub(super) fn may_report(&mut self, now: u64, to: Addr, bytes: usize) -> Result<(), Reason> {
        self.control.originate.reach.may_report(now, to, bytes + AROUND).map_err(|refused| match refused {
            ReachRefused::Silent => Reason::Unanswered,
            ReachRefused::Rate => Reason::ReportRate,
        })
    }

    /// Whether somebody has said that a neighbour wants to hear of this node: by its address, or by a key that it has.
    pub(super) fn expects(&self, addr: Addr, port: PortId) -> bool {
        let known = self.core.topology.neighbours.is_configured(port, addr);
        known || self.has_key(port, addr)
    }
}
