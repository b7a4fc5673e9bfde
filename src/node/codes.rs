//! The code table: what the node knows of each code name.
//!
//! An entry is ready, refused for a while, or on its way. The table is bounded; when it is full the
//! entry unused for longest gives way, with its domain and soft state.

use crate::code::run::SlotId;
use crate::nodeos::domain::DomainId;
use crate::wire::Digest;
use std::collections::HashMap;

/// For how long a refusal is remembered, in nanoseconds.
pub const REFUSED_FOR: u64 = 60_000_000_000;

/// What is known of a code.
pub enum Code {
    /// Its manifest is here; its representation is being fetched or prepared.
    Coming(Coming),
    /// It can run.
    Ready(Ready),
    /// It must not run, until then.
    Refused {
        /// When to look again, in nanoseconds.
        until: u64,
        /// Why, for people.
        why: String,
    },
}

/// What a manifest says, as far as the node needs it.
#[derive(Clone, Debug)]
pub struct Coming {
    /// For people.
    pub title: String,
    /// The wasm representation.
    pub wasm: Digest,
    /// Octets of the wasm representation.
    pub size: u32,
    /// Payload octets in the window.
    pub window: u32,
    /// Who signed it, in hexadecimal.
    pub principal: Option<String>,
}

/// Code that can run.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where its representation is in the run-time.
    pub slot: SlotId,
    /// Who pays.
    pub domain: DomainId,
    /// Payload octets in the window.
    pub window: usize,
    /// For people.
    pub title: String,
    /// Who signed it, in hexadecimal.
    pub principal: Option<String>,
    /// Steps one packet may take.
    pub steps: u64,
    used: u64,
}

impl Ready {
    /// Code whose representation is in `slot` and which `domain` pays for.
    pub fn new(coming: Coming, slot: SlotId, domain: DomainId, steps: u64) -> Ready {
        let Coming { title, window, principal, .. } = coming;
        Ready { slot, domain, window: window as usize, title, principal, steps, used: 0 }
    }
}

/// All codes a node knows of.
#[derive(Default)]
pub struct Codes {
    table: HashMap<Digest, Code, foldhash::fast::FixedState>,
    limit: usize,
    clock: u64,
}

/// What a packet finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its code can run.
    Ready {
        /// Where.
        slot: SlotId,
        /// Who pays.
        domain: DomainId,
        /// Payload octets in the window.
        window: usize,
        /// Steps it may take.
        steps: u64,
    },
    /// Its code must not run.
    Refused,
    /// Its code is not here.
    Absent,
}

impl Codes {
    /// An empty table of at most `limit` entries.
    pub fn new(limit: usize) -> Codes {
        Codes { table: HashMap::default(), limit: limit.max(1), clock: 0 }
    }

    /// What a packet at `now` finds under its code name.
    #[inline]
    pub fn find(&mut self, name: &Digest, now: u64) -> Found {
        match self.table.get_mut(name) {
            Some(Code::Ready(ready)) => {
                self.clock += 1;
                ready.used = self.clock;
                Found::Ready { slot: ready.slot, domain: ready.domain, window: ready.window, steps: ready.steps }
            }
            Some(Code::Refused { until, .. }) if *until > now => Found::Refused,
            _ => Found::Absent,
        }
    }

    /// The entry under a name.
    pub fn of(&self, name: &Digest) -> Option<&Code> {
        self.table.get(name)
    }

    /// Enters what is known of a code, and gives the entry that had to go for it, if any.
    pub fn enter(&mut self, name: Digest, code: Code) -> Option<(Digest, Code)> {
        let full = self.table.len() >= self.limit && !self.table.contains_key(&name);
        let gone = if full { self.oldest().and_then(|oldest| self.table.remove_entry(&oldest)) } else { None };
        self.table.insert(name, code);
        gone
    }

    /// Takes an entry out.
    pub fn remove(&mut self, name: &Digest) -> Option<Code> {
        self.table.remove(name)
    }

    /// Forgets codes on their way that nobody waits for any more.
    pub fn forget_coming(&mut self, wanted: impl Fn(&Digest) -> bool) {
        self.table.retain(|name, code| !matches!(code, Code::Coming(_)) || wanted(name));
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &Code)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_unstable_by_key(|(name, _)| **name);
        entries.into_iter()
    }

    fn oldest(&self) -> Option<Digest> {
        let age = |code: &Code| match code {
            Code::Refused { .. } => (0, 0),
            Code::Ready(ready) => (1, ready.used),
            Code::Coming(_) => (2, 0),
        };
        self.table.iter().min_by_key(|(name, code)| (age(code), **name)).map(|(name, _)| *name)
    }
}
