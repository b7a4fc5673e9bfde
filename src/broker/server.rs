//! The broker's process: a thread for each lane takes one request after the other until the node is gone. That of ports has
//! several.

use super::acts::Acts;
use super::client::Done;
use super::configurations::Configurations;
use super::helpers::Helpers;
use super::jails::Jails;
use super::message::{ANSWER_MAX, Answer, LONGEST_REQUEST, Lane, Request, WAYS};
use crate::sys::seqpacket::SeqPacket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::Builder;

/// What the broker does, by lanes.
pub(super) struct Lanes {
    /// Of ports.
    pub ports: Acts,
    /// Of helpers.
    pub helpers: Helpers,
    /// Of environments.
    pub environments: Jails,
    /// What they are checked against.
    pub all: Arc<Mutex<Configurations>>,
    /// Where operators give others.
    pub operator: OwnedFd,
    /// The node's process.
    pub node: i32,
}

/// Serves the node behind the sockets until it is gone, then undoes what must not stay.
pub(super) fn serve(sockets: [SeqPacket; WAYS], lanes: Lanes) -> io::Result<()> {
    let [ports, helpers, environments, more @ ..] = sockets;
    let Lanes { ports: acts, helpers: mut starts, environments: mut jails, all, operator, node } = lanes;
    super::operator::serve(operator, all, node)?;
    let of_helpers = Builder::new().name("broker-helpers".into()).spawn(move || {
        answer_all(&helpers, Lane::Helpers, |request, _| starts.carry_out(request));
        starts.end();
    })?;
    let of_environments = Builder::new().name("broker-ees".into()).spawn(move || {
        answer_all(&environments, Lane::Environments, |request, _| jails.carry_out(request));
        jails.end();
    })?;
    let acts = Arc::new(acts);
    let mut of_ports = Vec::new();
    for socket in more {
        let acts = acts.clone();
        let work = move || answer_all(&socket, Lane::Ports, |request, with| acts.carry_out(request, with));
        of_ports.push(Builder::new().name("broker-ports".into()).spawn(work)?);
    }
    answer_all(&ports, Lane::Ports, |request, with| acts.carry_out(request, with));
    of_ports.into_iter().for_each(|thread| drop(thread.join()));
    // Nothing of this waits for what the others have begun.
    acts.end();
    for lane in [of_helpers, of_environments] {
        // One that panicked has said so.
        let _ = lane.join();
    }
    Ok(())
}

/// Serves a lane to its end.
fn answer_all(socket: &SeqPacket, lane: Lane, mut carry_out: impl FnMut(&Request, &[OwnedFd]) -> io::Result<Done>) {
    // One byte more than any request has, so that what is cut off is none.
    let mut message = vec![0; LONGEST_REQUEST + 1];
    while let Ok((length @ 1.., with)) = socket.receive_with(&mut message) {
        let done = match Request::decode(&message[..length]) {
            Some(request) if request.lane() == lane => carry_out(&request, &with),
            Some(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "that is asked for elsewhere")),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "that is no request")),
        };
        if answer(socket, done).is_err() {
            break;
        }
    }
}

fn answer(socket: &SeqPacket, done: io::Result<Done>) -> io::Result<()> {
    match done {
        Ok(done) => {
            let (answer, descriptors) = done.parts();
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let words = answer.encode();
            debug_assert!(words.len() <= ANSWER_MAX, "names are bounded");
            socket.send_with(&words, &descriptors)
        }
        Err(error) => socket.send_with(&Answer::failed(&error).encode(), &[]),
    }
}
