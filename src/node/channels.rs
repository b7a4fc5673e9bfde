//! Packets of channels at their edges: payloads of ANEP packets, and packets over their domain's budget. Between them is
//! the node's way of a packet; from there on: `forms`.

use super::environment::PacketKind;
use super::output::Turn;
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
        frame: Frame,
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
        if let Some(to) = self.cx.way_of(&owner) {
            self.cx.count_taken(frame.port);
            self.cx.hand_anep(turn, frame, to, owner);
            return None;
        }
        self.cx.count_taken(frame.port);
        self.take_payload(turn, frame, header, owner);
        None
    }

    /// The payload of an ANEP packet, behind so many bytes, is a channel's of this worker.
    pub(super) fn take_payload(&mut self, turn: &mut Turn<'_>, mut frame: Frame, header: usize, owner: Taker) {
        frame.ends = Ends::default();
        frame.marks = Marks { network: 0, payload: header as u32, end: frame.len() as u32 };
        let run = self.cx.begin(turn.now, frame.payer, true);
        self.enter_channel(turn, frame, owner);
        self.cx.end(turn.now, run);
    }
}

impl Cx {
    /// A packet is over its domain's budget.
    #[cold]
    pub(super) fn throttle(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.order.paths.count_came(domain);
        let known = self.core.domains.of(domain);
        if known.is_some_and(|known| known.strike(turn.now)) && !self.core.overdue.contains(&domain) {
            self.core.overdue.push(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }
}
