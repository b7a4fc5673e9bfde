//! What a node is to the PLAN environment: all that PLAN packets can reach. Example: `send` puts a packet on a link, and
//! `admit` asks whether its principal may still spend bytes.

use super::{ANYONE, Next, Wish};
use crate::core::reason::Reason;
use crate::frame::{Payer, PortId, Sent};
use crate::topology::{Neighbour, Topology, Way};
use crate::trust::{PrincipalId, Role};
use crate::wire::Addr;
use std::sync::Arc;

/// What the environment needs of its node.
pub trait PlanOs {
    /// Nanoseconds on the node's clock.
    fn now(&self) -> u64;
    /// Ports, neighbours and routes.
    fn topology(&self) -> &Topology;
    /// What the node knows of a destination.
    fn way(&mut self, to: Addr) -> Way;
    /// Whether packets that come in by a port must be signed.
    fn demands_signature(&self, _port: PortId) -> bool {
        false
    }
    /// Whether somebody is known behind his port, or on its link.
    fn is_neighbour(&self, of: &Neighbour) -> bool;
    /// Whether a principal was revoked, so that its signatures count for nothing.
    fn is_disowned(&self, _principal: &PrincipalId) -> bool {
        false
    }
    /// A random number.
    fn random(&mut self) -> u64;
    /// A number that nobody can guess who is not told, whatever other random numbers he knows.
    fn nonce(&mut self) -> u64;
    /// Bytes of one message that go to the next node in a frame.
    fn room(&self, next: &Next) -> usize;
    /// Sends a message that has room; `write` puts it into the frame and gives its length.
    fn send(&mut self, next: &Next, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>);
    /// Hands a message to the application with this port.
    fn tell(&mut self, port: u64, message: Vec<u8>);
    /// Asks the outside, which answers in its time.
    fn wish(&mut self, wish: Wish);
    /// From now on this number means a principal of this name in this role; whoever it meant before is gone.
    fn seat(&mut self, principal: usize, name: &str, role: &Arc<Role>);
    /// The role in which a principal's domain acts now.
    fn role(&mut self, _principal: usize) -> Option<Arc<Role>> {
        None
    }
    /// Whether the environment's domain takes on a packet of so many bytes that begins here, whoever's it turns out to be.
    fn take_on(&mut self, bytes: usize) -> Result<(), Reason>;
    /// Says whether the principal's domain takes a packet of so many bytes on, and how many steps it may take.
    fn admit(&mut self, principal: usize, bytes: usize) -> Result<u64, Reason>;
    /// Whether the principal's domain has any steps left this moment.
    fn has_steps(&mut self, principal: usize) -> bool;
    /// Charges the principal's domain.
    fn charge(&mut self, principal: usize, steps: u64, sent: u64);
    /// Whose share of the worker pays for what is being done: who is to pay for what comes of it later.
    fn payer(&self) -> Payer {
        Payer::NOBODY
    }
    /// Which application waits for word of the packet that is worked on.
    fn sender(&self) -> Sent {
        Sent::default()
    }
    /// From now on another one does, or none.
    fn works_for(&mut self, _sender: Sent) {}
    /// So many packets have begun here: an application's, or the node's own.
    fn made(&mut self, _packets: u64) {}
    /// So many packets were used up: evaluated, or what they said is known now.
    fn used(&mut self, _packets: u64) {}
    /// Counts a packet that ends here.
    fn drop(&mut self, principal: usize, reason: Reason);
    /// Counts a packet that the node would have begun and does not.
    fn withhold(&mut self, reason: Reason) {
        self.made(1);
        self.drop(ANYONE, reason);
    }
    /// So many bytes have come in the name of an address.
    fn heard(&mut self, addr: Addr, bytes: usize);
    /// Whether the node may send so many bytes there of its own accord, which are charged; `port` if a neighbour's behind it.
    fn may_send(&mut self, to: Addr, port: Option<PortId>, bytes: usize) -> bool;
    /// Whether somebody has configured this neighbour, or it proves who it is: then it gets what neighbours are told.
    fn expects(&self, neighbour: Addr, port: PortId) -> bool;
    /// Whether it could.
    fn could_send(&mut self, to: Addr, bytes: usize) -> bool;
    /// The same as [`PlanOs::may_send`] for word of an error; the reason if it may not.
    fn may_report(&mut self, to: Addr, bytes: usize) -> Result<(), Reason>;
    /// Somebody at this address gets what is sent there.
    fn answered(&mut self, addr: Addr);
    /// Counts a packet of a neighbour whose bound was cut from one number to another.
    fn clamped(&mut self, from: &Neighbour, bound: u32, most: u32);
    /// Bytes the node keeps of other environments' things, by name: for the service that tells them.
    fn memory(&self, put: &mut dyn FnMut(&str, usize));
}
