//! The calls of a process about TCP streams: what its role lets it, a place, memory, a socket of the broker's.

use super::super::Session;
use super::super::costs::Costs;
use super::account::{Right, Seat, between};
use super::relay::{Listener, Payer, Relay, Task};
use super::stream::{STREAM_BYTES, Stream, reason};
use crate::broker;
use crate::node::{Node, Turn};
use crate::nodeos::interface::{DomainId, Error};
use crate::trust::Role;
use libanode::message::{Answer, Call};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What a call gives: an answer, and the socket that goes with it.
type Given = (Answer, Option<OwnedFd>);

/// An address and a port, IPv6 in brackets; `*` are all addresses of IPv4, as `0.0.0.0` is, and `[::]` are all of both.
fn address_of(text: &str) -> Result<SocketAddr, Error> {
    let named = text.strip_prefix("*:").map(|port| format!("0.0.0.0:{port}"));
    let at: SocketAddr = named.as_deref().unwrap_or(text).parse().map_err(|_| Error::Invalid)?;
    if at.port() == 0 { Err(Error::Invalid) } else { Ok(at) }
}

/// Why the broker has opened nothing.
fn refused(error: &io::Error) -> Error {
    Errno::from_io_error(error).map_or(Error::Denied, reason)
}

/// The session's domain, for its relay's thread.
struct SessionPays {
    costs: Costs,
    domain: DomainId,
}

impl Payer for SessionPays {
    fn charge(&self, domain: DomainId) -> Result<(), Error> {
        let charge = move |node: &mut Node, turn: &mut Turn<'_>| {
            node.with_os(turn, domain, |os| os.charge_stream(domain, STREAM_BYTES))
        };
        self.costs.with_node(Some(self.domain), charge).unwrap_or(Err(Error::Ended))
    }

    fn free(&self, domain: DomainId) {
        let free = move |node: &mut Node, turn: &mut Turn<'_>| {
            node.with_os(turn, domain, |os| os.end_stream(domain, STREAM_BYTES));
        };
        // A node that goes down has nothing to give.
        let _ = self.costs.with_node(Some(self.domain), free);
    }

    fn pay(&self) {
        self.costs.pay(Some(self.domain));
    }

    fn end(&self) {
        self.costs.end(Some(self.domain));
    }
}

impl Session<'_> {
    /// Carries a call out if it is one about streams.
    pub(in super::super) fn stream_call(&mut self, call: &Call) -> Option<Given> {
        let done = match call {
            Call::StreamListen { domain, address } => self.listen(DomainId(*domain), address),
            Call::StreamConnect { domain, address } => self.connect(DomainId(*domain), address),
            Call::StreamWhy { stream } => match self.why(*stream) {
                Some(error) => Err(error),
                None => Ok((Answer::Done {}, None)),
            },
            _ => return None,
        };
        Some(done.unwrap_or_else(|error| (Answer::Refused { error }, None)))
    }

    /// Why a stream has ended, or is about to; nothing if that is as it should be.
    fn why(&self, stream: u32) -> Option<Error> {
        let ended = || self.relay.as_ref().and_then(|relay| relay.why(stream));
        // In this order: the relay writes its word down before the stream goes.
        self.acceptor.handle.streams.cut(stream).or_else(ended)
    }

    fn listen(&mut self, domain: DomainId, address: &str) -> Result<Given, Error> {
        let at = address_of(address)?;
        let seat = self.seat(domain, move |role| role.streams.may_listen(&at))?;
        let number = seat.number();
        let begun = broker::tcp(at).map_err(|error| refused(&error));
        let begun = begun.and_then(|socket| Listener::begin(seat, socket, at));
        self.look_after(domain, number, begun.map(|(listener, other)| (Task::Listen(listener), other)))
    }

    fn connect(&mut self, domain: DomainId, address: &str) -> Result<Given, Error> {
        let at = address_of(address)?;
        let seat = self.seat(domain, move |role| role.streams.may_connect(&at))?;
        let number = seat.number();
        let begun = broker::connect(at).map_err(|error| refused(&error));
        let begun = begun.and_then(|socket| Stream::begin(seat, socket, (between(None, at), Right::Connect(at)), true));
        let given =
            self.look_after(domain, number, begun.map(|(stream, other)| (Task::Stream(Box::new(stream)), other)))?;
        self.acceptor.handle.streams.count_connected();
        Ok(given)
    }

    /// A place for a stream or a channel of a domain, if its role lets it; its memory is taken.
    fn seat(&mut self, domain: DomainId, may: impl FnOnce(&Role) -> bool + Send + 'static) -> Result<Seat, Error> {
        let streams = self.acceptor.handle.streams.clone();
        let all = streams.clone();
        let begun = self.with_os(move |os| {
            os.begin_stream(domain, STREAM_BYTES, may, |title, role, bandwidth| {
                Box::new(all.enter(domain, title, &role.streams, bandwidth))
            })
        });
        begun.unwrap_or(Err(Error::Ended)).inspect_err(|_| streams.count_refused())?;
        let account = streams.of(domain).ok_or(Error::Stale);
        let seat = account.and_then(|account| streams.take(&account, self.acceptor.clock.now()));
        seat.inspect_err(|_| self.free_stream(domain))
    }

    fn free_stream(&self, domain: DomainId) {
        // A node that goes down has nothing to give.
        let _ = self.with_os(move |os| os.end_stream(domain, STREAM_BYTES));
    }

    /// Gives what has begun to the relay.
    fn look_after(
        &mut self,
        domain: DomainId,
        number: u32,
        begun: Result<(Task, OwnedFd), Error>,
    ) -> Result<Given, Error> {
        let taken = begun.and_then(|(task, other)| self.relay()?.take(task).map(|()| other));
        let other = taken.inspect_err(|_| self.free_stream(domain))?;
        Ok((Answer::Object { name: number }, Some(other)))
    }

    /// The relay, which begins with the first stream.
    fn relay(&mut self) -> Result<&Relay, Error> {
        if self.relay.is_none() {
            let (acceptor, holder, home) = (self.acceptor.clone(), self.costs.holder(), self.costs.home());
            let all = (acceptor.clock, acceptor.handle.streams.clone());
            let domain = self.domain;
            let payer = move || {
                let costs = Costs::of_thread(&acceptor, holder);
                costs.move_in(home);
                SessionPays { costs, domain }
            };
            let relay = Relay::start(all, payer).map_err(|error| {
                tracing::warn!(%error, "no thread for the streams of a process");
                Error::Full
            })?;
            self.relay = Some(relay);
        }
        self.relay.as_ref().ok_or(Error::Full)
    }
}
