//! Packets of channels: their domain takes them on, and they wait for its turn. From there on: `forms`.

use super::environment::PacketKind;
use super::output::Turn;
use super::paths::Work;
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Ends, Frame, Marks};
use crate::graph::Taker;

impl Node {
    /// An ANEP packet of a type that no environment of the node's own speaks: its payload is a channel's, or it is given back.
    pub(super) fn receive_anep_channel(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        kind: PacketKind,
        header: usize,
    ) -> Option<Frame> {
        let PacketKind::Anep(kind) = kind else { return Some(frame) };
        if self.cx.graphs.channels.demux.is_empty() {
            return Some(frame);
        }
        let payload = header..frame.len();
        let owner = frame
            .bytes()
            .get(payload.clone())
            .and_then(|it| self.cx.graphs.channels.demux.find_anep(frame.port, kind, it));
        let Some(owner) = owner else { return Some(frame) };
        frame.ends = Ends::default();
        frame.marks = Marks { network: 0, payload: payload.start as u32, end: payload.end as u32 };
        let run = self.cx.begin(turn.now, frame.payer, true);
        self.enter_channel(turn, frame, owner);
        self.cx.end(turn.now, run);
        None
    }

    /// A packet has been found to be a channel's: its domain takes it on and pays from here on, and it waits for that
    /// one's turn where packets wait.
    #[inline]
    pub(super) fn enter_channel(&mut self, turn: &mut Turn<'_>, frame: Frame, owner: Taker) {
        let Taker { channel: id, domain } = owner;
        let Some(channel) = self.cx.graphs.channels.ins.get_mut(id) else {
            return self.cx.drop(turn, frame, Reason::ChannelGone);
        };
        channel.traffic.count((frame.marks.end - frame.marks.payload) as usize);
        let admitted = match self.cx.core.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()).map(|()| domain.environment),
            None => Err(Reason::DomainEnded),
        };
        let environment = match admitted {
            Ok(environment) => environment,
            Err(reason) => {
                channel.traffic.dropped += 1;
                return self.cx.throttle(turn, frame, reason, domain);
            }
        };
        let work = Work { environment, what: id.0, joins: false };
        if !self.cx.order.paths.is_queueing() {
            self.environments.run(&mut self.cx, turn, domain, work, frame);
            return;
        }
        let waits = if channel.is_full() {
            self.cx.order.paths.count_came(domain);
            self.cx.drop_in(turn, frame, Reason::ChannelQueueFull, domain);
            false
        } else {
            self.cx.enqueue(turn, domain, frame, work)
        };
        if let Some(channel) = self.cx.graphs.channels.ins.get_mut(id) {
            if waits { channel.waiting += 1 } else { channel.traffic.dropped += 1 }
        }
    }
}

impl Cx {
    /// A packet is over its domain's budget.
    #[cold]
    fn throttle(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.order.paths.count_came(domain);
        let known = self.core.domains.of(domain);
        if known.is_some_and(|known| known.strike(turn.now)) && !self.core.overdue.contains(&domain) {
            self.core.overdue.push(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }
}
