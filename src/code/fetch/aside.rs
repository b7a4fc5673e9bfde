//! What is asked for while code runs, of whoever has sent a capsule of it, which pays.

use super::fares::Toll;
use super::pending::{Pending, Stage};
use super::sources::Sources;
use super::{Fetch, Given, QUEUED_MAX, Source, Step};
use crate::code::run::Ingress;
use crate::wire::Digest;

impl Fetch {
    /// An object beside code that runs, which goes by this name: `source` alone is asked. If its length is not known,
    /// what it does not have, or what is not paid any more, is given up ([`Step::Without`]). Gives what a capsule with
    /// so many units left pays for that, and the steps; nothing: it cannot, or too much is looked for.
    pub fn aside(
        &mut self,
        now: u64,
        (of, digest): (Digest, Digest),
        length: Option<u32>,
        (lane, source, toll): (Ingress, Source, Toll),
        left: u32,
    ) -> Option<(u32, Vec<Step>, Vec<Given>)> {
        let mut pending = Pending::new(of, lane, Sources::of(source, lane), Stage::LookingUp(digest, length));
        (pending.beside, pending.optional, pending.toll) = (true, length.is_none(), toll);
        if !pending.is_affordable(left) || self.queue.besides() >= QUEUED_MAX {
            return None;
        }
        pending.unpaid = true;
        pending.asking.wait_until(now);
        self.end_beside(&of);
        let room = self.queue.push(pending);
        debug_assert!(room.is_empty(), "nothing gives way for what is beside");
        self.pay_owed(now, &of, (left, source), lane)
    }

    /// Whether an object beside code of this name is looked for.
    pub fn has_beside(&self, code: &Digest) -> bool {
        self.pending.iter().any(|pending| pending.beside && pending.code == *code) || self.queue.has_beside(code)
    }
}
