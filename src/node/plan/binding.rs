//! All that the PLAN environment has of its node, during one call: a clock, the topology, frames to neighbours, messages
//! to applications, and the domains of principals.

use super::{Member, RoleOf};
use crate::core::domain::{Domain, DomainId};
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::ee::plan::{ANYONE, Next, PlanOs, Wish};
use crate::frame::{Link, Payer, PortId, Sent};
use crate::node::Cx;
use crate::node::output::{Cause, Effect, EventKind, Ingress, Turn};
use crate::nodeos::interface::HostId;
use crate::topology::{Neighbour, Topology, Way};
use crate::trust::{PrincipalId, Role};
use crate::wire::proof::PROOF;
use crate::wire::{Addr, anep, ipv4, ipv6, udp};
use rand_core::Rng;
use std::sync::Arc;

/// The node, as its PLAN environment sees it during one call.
pub(super) struct Binding<'a, 'b, 'c> {
    pub(super) cx: &'a mut Cx,
    pub(super) turn: &'a mut Turn<'b>,
    pub(super) top: DomainId,
    pub(super) members: &'c mut Vec<Member>,
    pub(super) balance: &'c mut Balance,
}

impl Binding<'_, '_, '_> {
    /// The domain that pays for a principal's packets.
    fn domain(&mut self, principal: usize) -> Option<&mut Domain> {
        let Member { name, role, domain } = self.members.get_mut(principal)?;
        // One that was ended begins anew with the next packet.
        *domain = domain.filter(|id| self.cx.core.domains.by_id(*id).is_some());
        if domain.is_none() {
            let roles = &self.cx.control.roles;
            let role = match role {
                RoleOf::Name(role) => roles.iter().find(|known| known.name == *role).unwrap_or(roles.anyone()).clone(),
                // As it is now, which may be otherwise than when its signer was judged.
                RoleOf::Role(role) => {
                    roles.iter().find(|known| known.name == role.name).unwrap_or(roles.anyone()).clone()
                }
            };
            let created =
                self.cx.add_domain(self.top, format!("plan {name}"), HostId::NODE, (&role, role.grants), None);
            *domain = created.ok();
        }
        let id = (*domain)?;
        self.cx.core.domains.of(id)
    }
}

impl PlanOs for Binding<'_, '_, '_> {
    fn now(&self) -> u64 {
        self.turn.now
    }

    fn topology(&self) -> &Topology {
        &self.cx.core.topology
    }

    fn way(&mut self, to: Addr) -> Way {
        *self.cx.core.topology.way(to)
    }

    fn demands_signature(&self, port: PortId) -> bool {
        self.cx.demands(port).signed_plan
    }

    fn is_neighbour(&self, of: &Neighbour) -> bool {
        self.cx.is_neighbour(of.port, of.addr)
    }

    fn is_disowned(&self, principal: &PrincipalId) -> bool {
        self.cx.is_disowned(principal)
    }

    fn random(&mut self) -> u64 {
        self.cx.core.rng.next_u64()
    }

    fn nonce(&mut self) -> u64 {
        self.cx.control.originate.numbers.draw_long()
    }

    fn room(&self, next: &Next) -> usize {
        let Some(port) = self.topology().port(next.port) else { return 0 };
        let around = match port.link {
            Link::Overlay => 0,
            Link::Ethernet { .. } if next.to.is_v4() => ipv4::HEADER + udp::HEADER,
            Link::Ethernet { .. } => ipv6::HEADER + udp::HEADER,
        };
        let proof = if self.cx.has_key(next.port, next.via) { PROOF } else { 0 };
        port.mtu.min(self.turn.out.pool.capacity()).saturating_sub(anep::HEADER + around + proof)
    }

    fn send(&mut self, next: &Next, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) {
        let mut frame = self.cx.make(self.turn);
        self.balance.made += 1;
        match write(frame.room()) {
            Some(length) => {
                frame.received(length);
                (frame.payer, frame.sent) = (self.cx.current_payer(), self.turn.out.sender);
                self.balance.sent += 1;
                self.cx.send_plan(self.turn, frame, next);
            }
            None => {
                self.balance.dropped += 1;
                self.cx.drop(self.turn, frame, Reason::TooBig);
            }
        }
    }

    fn tell(&mut self, port: u64, message: Vec<u8>) {
        if let Some(domain) = self.domain(ANYONE) {
            domain.delivered += 1;
        }
        let ledger = &mut self.cx.core.ledger;
        (ledger.made, ledger.delivered) = (ledger.made + 1, ledger.delivered + 1);
        (self.balance.made, self.balance.delivered) = (self.balance.made + 1, self.balance.delivered + 1);
        self.turn.out.told.push((port, message));
    }

    fn wish(&mut self, wish: Wish) {
        let ingress = match self.turn.out.ingress {
            // Something that waited: it is still his who brought it.
            Ingress::Node => self.cx.ingress_of_payer(self.cx.current_payer()),
            ingress => ingress,
        };
        // Who asks for graphs is known: he waits behind his own, not behind those of others who come by the same neighbour.
        let principal = if let Wish::Graph(ask) = &wish { ask.asker.signer } else { None };
        let cause = Cause { ingress, principal };
        self.turn.out.effects.push(Effect::Plan(wish, cause));
    }

    fn seat(&mut self, principal: usize, name: &str, role: &Arc<Role>) {
        while self.members.len() <= principal {
            self.members.push(Member::new(crate::trust::ANYONE, RoleOf::Name(String::new())));
        }
        let Some(member) = self.members.get_mut(principal) else { return };
        let before = std::mem::replace(member, Member::new(name, RoleOf::Role(role.clone())));
        if let Some(domain) = before.domain {
            self.cx.end_domain(self.turn, domain, |_| true);
        }
    }

    fn role(&mut self, principal: usize) -> Option<Arc<Role>> {
        self.domain(principal).map(|domain| domain.role.clone())
    }

    fn take_on(&mut self, bytes: usize) -> Result<(), Reason> {
        self.cx.take_on(self.turn.now, self.top, bytes)
    }

    fn admit(&mut self, principal: usize, bytes: usize) -> Result<u64, Reason> {
        let now = self.turn.now;
        let domain = self.domain(principal).ok_or(Reason::NoDomain)?;
        let admitted = domain.admit(now, bytes).map(|()| domain.limits.steps_per_packet);
        if let Some(domain) = self.members.get(principal).and_then(|member| member.domain) {
            self.cx.on_part(now, domain);
        }
        admitted
    }

    fn has_steps(&mut self, principal: usize) -> bool {
        let now = self.turn.now;
        self.domain(principal).is_some_and(|domain| domain.has_steps(now))
    }

    fn charge(&mut self, principal: usize, steps: u64, sent: u64) {
        let now = self.turn.now;
        self.cx.count_steps(steps);
        if let Some(domain) = self.domain(principal) {
            domain.charge_steps(now, steps);
            domain.counts.children += sent;
        }
    }

    fn payer(&self) -> Payer {
        self.cx.current_payer()
    }

    fn sender(&self) -> Sent {
        self.turn.out.sender
    }

    fn works_for(&mut self, sender: Sent) {
        self.turn.out.sender = sender;
    }

    fn made(&mut self, packets: u64) {
        self.cx.core.ledger.made += packets;
        self.balance.made += packets;
    }

    fn used(&mut self, packets: u64) {
        self.cx.core.ledger.used += packets;
        self.balance.used += packets;
    }

    fn drop(&mut self, principal: usize, reason: Reason) {
        if let Some(domain) = self.domain(principal) {
            domain.counts.drops.count(reason);
        }
        self.cx.core.drops.count(reason);
        self.balance.dropped += 1;
        self.turn.out.event(0, EventKind::Dropped(reason));
        self.turn.out.refuse(self.turn.out.sender, reason);
    }

    fn heard(&mut self, addr: Addr, bytes: usize) {
        self.cx.note_heard(self.turn.now, addr, bytes);
    }

    fn may_send(&mut self, to: Addr, port: Option<PortId>, bytes: usize) -> bool {
        self.cx.may_originate(self.turn.now, to, port, bytes)
    }

    fn expects(&self, neighbour: Addr, port: PortId) -> bool {
        self.cx.expects(neighbour, port)
    }

    fn could_send(&mut self, to: Addr, bytes: usize) -> bool {
        self.cx.could_originate(self.turn.now, to, bytes)
    }

    fn may_report(&mut self, to: Addr, bytes: usize) -> Result<(), Reason> {
        self.cx.may_report(self.turn.now, to, bytes)
    }

    fn answered(&mut self, addr: Addr) {
        self.cx.control.originate.reach.answered(self.turn.now, addr);
    }

    fn clamped(&mut self, from: &Neighbour, bound: u32, most: u32) {
        self.cx.note_clamped(self.turn, (from.port, from.addr), 0, (bound, most));
    }

    fn memory(&self, put: &mut dyn FnMut(&str, usize)) {
        if let Some((used, free)) = self.cx.core.heap.and_then(|say| say()) {
            put("heap-bytes", used);
            put("heap-free", free);
        }
        put("object-bytes", self.cx.core.object_bytes);
        put("frames-ready", self.turn.out.pool.ready());
        put("neighbours", self.topology().neighbours.len());
        put("routes", self.topology().routes().len());
    }
}
