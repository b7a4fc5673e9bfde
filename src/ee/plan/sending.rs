//! Packets that an evaluation makes: into the outbox, and what is sent again until it arrives.

use super::evaluate::{At, raise};
use super::jobs::{Copies, SendJob};
use super::outbox::{Deed, Outgoing};
use super::{Next, layers, route};
use crate::wire::Addr;
use plan::eval::{self, Fault};
use plan::name::Name;
use plan::packet::{Header, Packet, encode_with};
use plan::program::Slice;
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

impl At<'_> {
    /// Adds a packet to the outbox. What it takes is spent before it is done, also if nothing comes of it.
    pub fn put(&mut self, next: Option<Next>, header: Header, chunk: &Chunk, steps: &mut u32) -> eval::Result<()> {
        if !self.outbox.has_room() {
            return Err(raise(const { Name::known("Refused") }));
        }
        let codes = self.codes_of(chunk, steps)?;
        // One that would have nothing left to ask with is sent whole.
        let by_digest = header.bound > 0 && next.is_some_and(|next| self.is_known(&next, &codes));
        let header = Header { by_digest, ..header };
        if !by_digest {
            self.spend_for_codes(next.is_some(), &codes, steps)?;
        }
        let start = self.outbox.bytes.len();
        if !encode_with(&header, chunk, &codes, &mut self.outbox.bytes) {
            return Err(raise(const { Name::known("TooBig") }));
        }
        let range = start..self.outbox.bytes.len();
        let paid = match self.pay(next.as_ref(), &header, &codes, range.clone()) {
            Ok(paid) => paid,
            Err(stop) => {
                self.outbox.bytes.truncate(start);
                return Err(stop);
            }
        };
        match next {
            Some(Next { port, via, .. }) if header.by_digest => {
                self.state.account.by_digest += 1;
                codes.iter().for_each(|slice| self.state.peers.mark(port, via, &slice.digest));
            }
            // Whoever learns the code from here may be sent its digest later, and may then have lost it.
            Some(_) => codes.iter().for_each(|slice| self.library.keep(slice.digest, &slice.bytes)),
            None => {}
        }
        self.outbox.packets.push(Outgoing { next, range, paid });
        Ok(())
    }

    /// Has packets sent by and by, if there is room for that.
    pub fn add_job(&mut self, job: SendJob) -> eval::Result<()> {
        if !self.state.jobs.has_room(&job, self.outbox.jobs()) {
            self.state.account.no_room += 1;
        } else if self.outbox.deed(Deed::Job(Box::new(job))) {
            return Ok(());
        }
        Err(raise(const { Name::known("Refused") }))
    }

    /// Whether the next node has all codes of a packet, and can ask here if it has lost them.
    fn is_known(&mut self, next: &Next, codes: &[&Slice]) -> bool {
        let peers = &mut self.state.peers;
        let known = |slice: &&Slice| peers.knows(next.port, next.via, &slice.digest) && self.library.has(&slice.digest);
        !codes.is_empty() && codes.iter().all(known)
    }

    /// Sends a packet now, and again until its arrival is known.
    pub fn send_reliably(
        &mut self,
        next: Option<Next>,
        (header, routing): (Header, &Name),
        chunk: &Arc<Chunk>,
        copies: Copies,
        steps: &mut u32,
    ) -> eval::Result<()> {
        let (number, donated) = (self.env.nonce() as i64, header.bound.saturating_add(1));
        let number = number & i64::MAX;
        let arguments =
            [Value::Host(header.previous), Value::Int(number), Value::Int(donated.into()), Value::Chunk(chunk.clone())];
        let wrapped = Chunk::new(Callee::Service(layers::RELIABLY), arguments).ok_or(Fault::Value)?;
        // A copy that leaves later spends its first hop then.
        let later =
            Packet { header: Header { bound: donated, by_digest: false, ..header.clone() }, chunk: Arc::new(wrapped) };
        let bytes = self.bytes(&later.header, &later.chunk, steps)?;
        let interval = copies.interval();
        let due = self.env.now().saturating_add(interval);
        // Programs say ways of flows, so only the way that all packets take proves who is at its end.
        let proves = (*routing == route::DEFAULT_ROUTE).then_some(Addr(header.destination.0));
        let (payer, holder, left) = (self.env.payer(), self.holder(), copies.again);
        let job = SendJob { bytes, left, due, interval, number: Some(number), proves, rest: 0, payer, holder };
        self.add_job(job)?;
        let sent = self.put(next, header, &later.chunk, steps);
        if sent.is_err() {
            self.outbox.deeds.pop();
        }
        sent
    }
}
