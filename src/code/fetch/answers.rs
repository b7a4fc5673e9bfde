//! Answers to searches: from the store, and from neighbours.
//!
//! Nobody is believed. An answer must carry the nonce of its request and come from a neighbour that was asked. Lengths
//! are compared, and nothing leaves here before its digest is right. A neighbour without an object is not asked again
//! while others may have it.

use super::assembly::{Assembly, Part};
use super::pending::{Pending, Stage};
use super::{Fetch, Given, MANNER, Source, Step};
use crate::core::reason::Reason;
use crate::trust::object_name;
use crate::wire::Digest;
use std::collections::VecDeque;

impl Fetch {
    /// The store's answer about `digest`. Absent objects are asked for at the previous hop; a code
    /// nobody can be asked for is given up.
    pub fn looked_up(&mut self, now: u64, digest: Digest, found: Option<&[u8]>) -> (Vec<Step>, Vec<Given>) {
        let (mut steps, mut given) = (Vec::new(), Vec::new());
        let mut orphans = Vec::new();
        self.pending.retain(|pending| {
            let lost = found.is_none() && pending.is_lost_beside(&digest);
            steps.extend(lost.then_some(Step::Alone(pending.code)));
            !lost
        });
        for pending in &mut self.pending {
            let Stage::LookingUp(wanted, length) = pending.stage else { continue };
            if wanted != digest {
                continue;
            }
            if let Some(bytes) = found {
                steps.push(Step::Object { code: pending.code, digest, bytes: bytes.to_vec() });
            } else if pending.sources.is_empty() && pending.optional {
                steps.push(pending.do_without());
            } else if pending.sources.is_empty() {
                orphans.push(pending.code);
            } else {
                pending.stage = Stage::Fetching(Assembly::new(digest, length));
                pending.turn = 0;
                pending.asking.restart(0);
                pending.ask_or_wait(now, &mut self.nonces, &mut steps);
            }
        }
        for code in orphans {
            steps.push(Step::Abandon(code));
            given.extend(self.settle(code).map(|waiter| Given { frame: waiter.frame, reason: Reason::CodeUnknown }));
        }
        (steps, given)
    }

    /// A part has arrived from `from`.
    pub fn part(&mut self, now: u64, from: Source, part: Part<'_>) -> Result<Vec<Step>, Reason> {
        let mut steps = Vec::new();
        let Fetch { pending, nonces, answered: proven, .. } = self;
        let pending = answered(pending, from, part.nonce, part.digest).ok_or(Reason::FetchSpoofed)?;
        let Stage::Fetching(assembly) = &mut pending.stage else { return Err(Reason::FetchSpoofed) };
        if let Some(other) = assembly.contradicted(&part) {
            pending.disagree(now, other, from);
            return Err(Reason::FetchHash);
        }
        if !assembly.take(&part, from)? {
            return Ok(steps);
        }
        (pending.turn, pending.heard) = (0, true);
        pending.asking.answered(now, &MANNER);
        pending.settle_reserved(part.bytes.len());
        let Stage::Fetching(assembly) = &mut pending.stage else { return Ok(steps) };
        if let Some(bytes) = assembly.whole() {
            let (digest, only) = (assembly.digest, assembly.only_of());
            if object_name(&bytes) != digest {
                pending.spoilt(now);
                return Err(Reason::FetchHash);
            }
            if let Some(whose) = only.and_then(|source| pending.sources.whose(&source)) {
                proven.note(from, whose);
            }
            steps.push(Step::Object { code: pending.code, digest, bytes });
            return Ok(steps);
        }
        let is_long = pending.is_turn_long(now);
        if is_long {
            pending.next_source();
        }
        if is_long || pending.has_all_it_asked_for() {
            pending.ask_or_wait(now, nonces, &mut steps);
        }
        Ok(steps)
    }

    /// `from` says that it does not have the object: the next source is asked at once, unless the code can do
    /// without and nobody has it.
    pub fn absent(&mut self, now: u64, from: Source, nonce: u32, digest: Digest) -> Result<Option<Step>, Reason> {
        let pending = answered(&mut self.pending, from, nonce, digest).ok_or(Reason::FetchSpoofed)?;
        if pending.sources.first() != Some(from) {
            return Ok(None);
        }
        pending.settle_reserved(0);
        if pending.sources.absent() && pending.optional {
            return Ok(Some(pending.do_without()));
        }
        pending.asking.refused(now);
        pending.next_source();
        Ok(None)
    }
}

/// The code whose request this is an answer to.
fn answered(pending: &mut VecDeque<Pending>, from: Source, nonce: u32, digest: Digest) -> Option<&mut Pending> {
    pending.iter_mut().find(|pending| {
        pending.nonce == Some(nonce)
            && pending.hears(&from)
            && matches!(&pending.stage, Stage::Fetching(assembly) if assembly.digest == digest)
    })
}
