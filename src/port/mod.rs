//! Ports: where frames enter and leave a node, such as `eth1` or a UDP socket.
//!
//! [`crate::frame`] has the buffer all ports share; [`udp`], [`packet`] and [`xdp`] are ports, [`pcap`] a tap on
//! any. The ports themselves are the edge of the sans-I/O core:
//! the node names them by index and never sees a socket.

pub mod packet;
pub mod pcap;
mod queue;
pub mod udp;
pub mod xdp;

pub use queue::SendQueue;
