//! Where frames enter and leave.
//!
//! [`frame`] is the buffer all ports share. The ports themselves are the edge of the sans-I/O core:
//! the node names them by index and never sees a socket.

pub mod frame;

pub use frame::{Envelope, Frame, FramePool, PeerId, PortId};
