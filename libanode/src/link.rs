//! The link of a session to its node: a socket and shared memory ([`crate::wire`]), or calls within the node's process
//! ([`crate::here`]). Programs see no difference.

use crate::buffers::{Buffers, Packet};
use crate::crew::Channel;
use crate::entry::{End, Message};
use crate::error::Error;
use crate::message::{Answer, Call};
use crate::ring::Nonsense;
use crate::session::Session;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Messages from the node that are taken at a time.
pub const BATCH: usize = 64;

/// A way to the node.
pub trait Link: Send + Sync {
    /// The session that it is of has begun.
    fn began(&self, session: &Arc<Session>) -> Result<(), Error>;
    /// Whether the node is in this process and calls functions itself.
    fn is_here(&self) -> bool {
        false
    }
    /// Threads of programs that can work at the same time.
    fn threads_max(&self) -> u16 {
        u16::MAX
    }
    /// Carries out a call; an error only if the connection has broken.
    fn call(&self, call: &Call) -> Result<Answer, Error>;
    /// The same where a socket may come with the answer.
    fn call_for(&self, _call: &Call) -> Result<(Answer, Option<OwnedFd>), Error> {
        Ok((Answer::Refused { error: Error::Unsupported }, None))
    }
    /// Keeps others from calling meanwhile, where calls are made one at a time.
    fn hold_calls(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }
    /// Nanoseconds of the node's clock.
    fn now(&self) -> u64;
    /// The packet buffers.
    fn buffers(&self) -> &Buffers;
    /// An empty packet of a domain's.
    fn alloc(&self, domain: u32) -> Result<Packet, Error>;
    /// Gives a packet back.
    fn free(&self, packet: Packet) -> Result<(), Error>;
    /// Sends a packet; the program keeps it if that fails.
    fn send(&self, packet: Packet, channel: u32, domain: u32, to: Option<End>) -> Result<(), Error>;
    /// Whether packets were sent of which the node is not told yet.
    fn is_untold(&self) -> bool {
        false
    }
    /// Tells it.
    fn tell(&self) {}
    /// Waits for messages from the node, so long at most, when it has told it of what was sent, and takes what there
    /// is; nothing if there is something else to do.
    fn take(&self, batch: &mut Vec<Message>, time: Option<Duration>, stop: &dyn Fn() -> bool) -> Result<(), Nonsense>;
    /// Has the thread that waits in `take` look up.
    fn nudge(&self) {}
    /// Shows the node that a thread runs a function of a domain (`turn` is odd), or has come to its end.
    fn shows(&self, _thread: u16, _domain: u32, _turn: u32) {}
    /// Packets of a channel come from now on.
    fn opened(&self, _channel: &Arc<Channel>) {}
    /// They come no more.
    fn closed(&self, _channel: u32) {}
    /// Ends the connection.
    fn end(&self);
}
