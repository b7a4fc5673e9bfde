//! The connection that an environment's process has from its birth: over it it asks for more, and gets each as a descriptor.
//!
//! Whoever speaks there is that environment, whatever becomes of its processes: the socket is who it is, and only its
//! jail has the other end. So nothing is looked up by the number of a process. One thread an environment; it ends when
//! the last process has closed the other end.

use super::accounts::Kept;
use super::costs::Costs;
use super::seats::Holder;
use super::{Acceptor, Peer, refuse, start};
use crate::manage::management::Member;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use libanode::message::{Answer, Call};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the longest question; all that may be asked here has no more.
const QUESTION_MAX: usize = 64;

/// Pause after a question that was refused, so that asking in vain costs the asker more than the node.
const PAUSE: Duration = Duration::from_millis(20);

/// Serves an environment from a thread of its own, until its other end is closed.
///
/// From now on what its processes use is charged to its domain, whether they ever connect or not.
pub fn attend(acceptor: Acceptor, mut member: Member, socket: SeqPacket) -> io::Result<()> {
    let kept = acceptor.accounts.of_groups(member.domain, &member.groups, member.pid, member.weights.take())?;
    let home = acceptor.handle.homes().of(member.domain);
    let (member, kept) = (Arc::new(member), Arc::new(acceptor.charge(kept, &home)?));
    let serve = move || {
        let costs = Costs::of_thread(&acceptor, Holder::Environment(member.domain));
        // Who has asked for more than it may cost is heard again when that is paid.
        while listen(&acceptor, (&member, &kept), &socket).is_ok() {
            costs.pay(Some(member.domain));
        }
    };
    threads::start("anode-ee-socket", Duty::Sessions, serve).map(drop)
}

/// Answers one question; an error when nobody asks any more, or nonsense.
fn listen(acceptor: &Acceptor, (member, kept): (&Arc<Member>, &Arc<Kept>), socket: &SeqPacket) -> io::Result<()> {
    let mut question = [0; QUESTION_MAX];
    // Descriptors that come along are closed: nobody gives the node any.
    let (length, _) = socket.receive_with(&mut question)?;
    let Some((number, Call::Connect {})) = Call::decode(&question[..length]) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let Some(seat) = acceptor.seats.take(Holder::Environment(member.domain)) else {
        refuse(socket, number, libanode::error::Error::Full);
        std::thread::sleep(PAUSE);
        return Ok(());
    };
    let (own, other) = SeqPacket::pair()?;
    start(own, acceptor.clone(), Peer::Environment(member.clone(), kept.clone()), seat);
    let mut message = Vec::new();
    Answer::Connection {}.encode(number, &mut message);
    socket.send_with(&message, &[other.as_fd()])
}
