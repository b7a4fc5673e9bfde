//! Frames with their marks: the port, the neighbour, the payer, and the applications at both ends.
//!
//! It lies below whoever handles packets and imports [`crate::wire`] alone, so nobody has to know ports to name one.
//! [`buffer`] is the memory that packets live in; [`shares`] says who may take a place in a bounded table, and
//! [`assembly`] has the table of messages that come in pieces.

pub mod assembly;
pub mod buffer;
mod marks;
pub mod shares;

pub use buffer::{BUFFER, FRAME, Fields, Frame, FramePool, HEADROOM};
pub use marks::{Ends, Envelope, Link, Marks, Notes, Payer, PeerId, PortId, Sent, WorkerId};
