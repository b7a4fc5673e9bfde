//! The environment that the worker calls for a program of this process: upcalls become calls of its functions.

use super::{Change, Shared};
use crate::code::run::trusted;
use crate::frame::Frame;
use crate::node::hosts::InProcess;
use crate::nodeos::interface::{DomainId, NodeOs, Upcall};
use crate::sys::lock::lock;
use crate::wire::Addr;
use libanode::crew::{CEnds, Channel};
use libanode::entry::Message;
use libanode::session::Session;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The environment that the worker calls.
pub(super) struct Told {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Option<Arc<Session>>,
    /// Channels by their places.
    pub(super) channels: Vec<Option<Arc<Channel>>>,
}

impl Told {
    /// Takes in which channels there are now.
    #[cold]
    fn renew(&mut self) {
        let changes = core::mem::take(&mut *lock(&self.shared.changes));
        for change in changes {
            match change {
                Change::Opened(channel) => {
                    let at = crate::nodeos::interface::InChanId(channel.name).index();
                    self.channels.resize(self.channels.len().max(at + 1), None);
                    self.channels[at] = Some(channel);
                }
                Change::Closed(name) => {
                    self.channels.iter_mut().filter(|place| is(place, name)).for_each(|place| *place = None);
                }
            }
        }
        if self.session.is_none() {
            self.session = self.shared.session.get().and_then(Weak::upgrade);
        }
    }

    fn packet(&self, os: &mut dyn NodeOs, session: &Session, domain: DomainId, name: u32, frame: Frame, ends: CEnds) {
        let at = crate::nodeos::interface::InChanId(name).index();
        let housed = match self.channels.get(at).filter(|place| is(place, name)) {
            Some(Some(channel)) => self.shared.house(frame, domain, false).map(|packet| (channel, packet)),
            _ => Err(frame),
        };
        match housed {
            Ok((channel, packet)) => trusted::lend(os, || session.desk().deliver_here(session, channel, packet, ends)),
            Err(frame) => os.packet_free(domain, frame),
        }
    }
}

fn is(place: &Option<Arc<Channel>>, name: u32) -> bool {
    place.as_ref().is_some_and(|channel| channel.name == name)
}

impl InProcess for Told {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if self.shared.changed.swap(false, Ordering::Acquire) || self.session.is_none() {
            self.renew();
        }
        let Some(session) = &self.session else {
            if let Upcall::Packet { frame, .. } = upcall {
                os.packet_free(domain, frame);
            }
            return;
        };
        let message = match upcall {
            Upcall::Packet { channel, frame } => {
                let end = |end: Option<(Addr, u16)>| end.map(|(address, port)| (address.0, port));
                let ends = CEnds::of(end(frame.ends.source), end(frame.ends.destination));
                return self.packet(os, session, domain, channel.0, frame, ends);
            }
            Upcall::Event { event, argument } => Message::Event { domain: domain.0, event: event.0, argument },
            Upcall::Overrun { pool, deadline } => Message::Overrun { domain: domain.0, pool: pool.0, deadline },
            Upcall::Changed { watch, argument } => Message::Changed { domain: domain.0, watch: watch.0, argument },
            Upcall::Ended => Message::Ended { domain: domain.0 },
        };
        trusted::lend(os, || session.desk().perform_here(session, &message));
    }

    fn ended(&mut self, domain: DomainId) {
        if let Some(session) = &self.session {
            trusted::bar(|| session.desk().perform_here(session, &Message::Ended { domain: domain.0 }));
        }
    }

    fn acts_for(&self, _: DomainId) -> DomainId {
        self.shared.domain()
    }
}

impl Drop for Told {
    /// All its domains have ended: the program learns it, and its main function returns.
    fn drop(&mut self) {
        if let Some(session) = self.session.take().or_else(|| self.shared.session.get().and_then(Weak::upgrade)) {
            trusted::bar(|| session.ended_by_node());
        }
    }
}
