//! The code table: the state of each code name at this node.
//!
//! An entry is ready, refused for a while, or on its way. The table is bounded; when it is full, one gives way with its
//! domain and soft state: of whoever has most in the table, the new one counted, refusals first, then the code that is
//! used least. So nobody takes what others have within their share, however many codes he brings and however busy he
//! keeps them. Use is the number of packets, halved for every ten seconds without any, so among one's own a flood of
//! names that run a packet each displaces itself and not what has work.
//!
//! A code is whose packet made the node look for it; that others use it too changes nothing, or who sends packets that
//! come back by a neighbour would put what he brings at that neighbour's expense. But of one's own those that others
//! use go after the others. Code that no packet has brought is his who uses it first.

mod places;

use super::asked::Asked;
pub use super::tiers::Effort;
use crate::code::bundle::Kind;
use crate::code::judge::{Claim, Grant};
use crate::code::run::SlotId;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::Payer;
use crate::frame::shares::Shares;
use crate::wire::Digest;
use places::Places;
use std::collections::HashMap;
use std::sync::Arc;

/// For how long a refusal is remembered, in nanoseconds.
pub const REFUSED_FOR: u64 = 60_000_000_000;

/// Code that has run within this time gives way to no other, unless all has, in nanoseconds.
pub const BUSY_FOR: u64 = 1_000_000_000;

/// Time without packets in which what a code has run comes to count half, in nanoseconds.
const HALVES: u64 = 10_000_000_000;

/// What is known of a code.
pub enum Code {
    /// Its manifest is here; its role is being found out, or its representation fetched or prepared.
    Coming(Box<Coming>),
    /// It can run.
    Ready(Box<Ready>),
    /// It must not run, until then.
    Refused {
        /// When to look again, in nanoseconds.
        until: u64,
        /// Why, for people.
        why: String,
        /// Under what its capsules are dropped.
        reason: Reason,
    },
}

impl Code {
    /// The bpf representation that the kernel half is to run.
    pub fn bpf(&self) -> Option<Digest> {
        match self {
            Code::Coming(coming) => coming.bpf.map(|(digest, _)| digest),
            Code::Ready(ready) => ready.bpf,
            Code::Refused { .. } => None,
        }
    }
}

/// Code with its manifest here.
#[derive(Clone, Debug)]
pub struct Coming {
    /// What it claims to be.
    pub claim: Claim,
    /// In which role it acts, once that is known.
    pub grant: Option<Grant>,
    /// The representation that runs in this half, once the role is known.
    pub representation: Option<(Kind, Digest)>,
    /// The bpf representation and its bytes, if a kernel half is to run it.
    pub bpf: Option<(Digest, u32)>,
    /// What the kernel half has made of that already.
    pub linked: Option<super::output::Linked>,
    /// Whether its role was asked for once more, since the first answer was by roles that are not in force.
    pub asked_again: bool,
}

/// Code that can run.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where its representation is in the run-time.
    pub slot: SlotId,
    /// Who pays.
    pub domain: DomainId,
    /// Payload bytes in the window.
    pub window: usize,
    /// What it claimed when it was given its role.
    pub claim: Claim,
    /// The principal and the role of the code.
    pub grant: Grant,
    /// Which representation runs in this half.
    pub kind: Kind,
    /// Steps one packet may take.
    pub steps: u64,
    /// How it was compiled.
    pub effort: Effort,
    /// Steps that it had taken when it was looked at last.
    pub(super) steps_seen: u64,
    /// Sweeps until it may be compiled again, of so many, if that could not be done.
    pub(super) pause: (u32, u32),
    /// The bpf representation, if a kernel half is to run it.
    pub bpf: Option<Digest>,
    /// Whether the kernel half runs it, or why not; nothing: it has not been asked.
    pub kernel: Option<Result<(), String>>,
    /// Packets that have found it.
    packets: u64,
    /// When the last one did, in nanoseconds.
    used: u64,
    /// Credentials that were asked for beside it and are being judged; or its own are, again.
    pub(super) offered: Option<Arc<[u8]>>,
    pub(super) is_reviewed: bool,
    /// Whether another role may be its since it was judged.
    pub(super) is_doubtful: bool,
    /// The same of somebody's who did not bring it.
    others: Option<u64>,
}

impl Ready {
    /// Code that is ready since `now` in the role of `grant`, whose representation `kind` is in `slot` and which `domain`
    /// pays for.
    pub fn new(coming: Coming, (kind, grant): (Kind, Grant), slot: SlotId, domain: DomainId, now: u64) -> Ready {
        let Coming { claim, bpf, .. } = coming;
        let bpf = bpf.map(|(digest, _)| digest);
        let (window, steps) = (claim.manifest.window() as usize, grant.role.limits.steps_per_packet);
        let (effort, steps_seen) = (Effort::Fast, 0);
        let kernel = None;
        Ready {
            slot,
            domain,
            window,
            claim,
            grant,
            kind,
            steps,
            effort,
            steps_seen,
            pause: (0, 0),
            bpf,
            kernel,
            packets: 0,
            used: now,
            offered: None,
            is_reviewed: false,
            is_doubtful: false,
            others: None,
        }
    }

    /// The kernel half has run it on so many packets lately: they count like those of this half.
    pub fn ran_in_kernel(&mut self, packets: u64, now: u64) {
        if packets > 0 {
            self.packets = self.packets.saturating_add(packets);
            self.used = now;
        }
    }

    /// How much would be lost with it at `now`: whether it is busy, whether others than who brought it use it, its use,
    /// and when it was used last.
    fn worth(&self, now: u64) -> (bool, bool, u64, u64) {
        let idle = now.saturating_sub(self.used);
        let halved = u32::try_from(idle / HALVES).unwrap_or(u32::MAX);
        let others = self.others.is_some_and(|used| now.saturating_sub(used) < HALVES);
        (idle < BUSY_FOR, others, self.packets.checked_shr(halved).unwrap_or(0), self.used)
    }
}

/// Places that there is room for from the start.
const ROOM: usize = 4096;

/// What is known of a code, and whose it is.
struct Entry {
    code: Code,
    /// Who pays for the packet that made the node look for it; nothing: none did.
    whose: Option<Payer>,
    /// Of signed code that no credential has given a role: by whose packets somebody was asked for one.
    asked: Option<Asked>,
    /// Whether nobody could be asked for the bpf representation yet.
    alone: bool,
    /// Its place among all.
    place: usize,
}

impl Entry {
    /// Whether the node behind a packet of this one's may have a credential that gives it a role.
    #[inline]
    fn is_doubted_by(&self, payer: Payer, now: u64) -> bool {
        payer != Payer::NOBODY && self.asked.as_ref().is_some_and(|asked| asked.may_ask(payer, now))
    }
}

/// An entry that had to go for another.
pub struct Gone {
    /// The code's name.
    pub name: Digest,
    /// What was known of it.
    pub code: Code,
    /// Who had most in the table.
    pub whose: Option<Payer>,
}

/// All codes a node knows of.
#[derive(Default)]
pub struct Codes {
    table: HashMap<Digest, Entry, foldhash::fast::FixedState>,
    limit: usize,
    /// Entries that had to go for others so far.
    pub displaced: u64,
    places: Places,
}

/// What a packet finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundCode {
    /// Its code can run.
    Ready {
        /// Where.
        slot: SlotId,
        /// Who pays.
        domain: DomainId,
        /// Payload bytes in the window.
        window: usize,
        /// Steps it may take.
        steps: u64,
        /// Whether the node that it came from is to be asked for what the code came without.
        lacks: bool,
    },
    /// Its code must not run: under what its packets are dropped.
    Refused(Reason),
    /// The same, but the node that it came from may have a credential by which the code may.
    Doubted(Reason),
    /// Its code is not here.
    Absent,
}

impl Codes {
    /// An empty table of at most `limit` entries.
    pub fn new(limit: usize) -> Codes {
        let places = Places::with_room(limit.min(ROOM));
        Codes { table: HashMap::default(), limit: limit.max(1), displaced: 0, places }
    }

    /// What a packet at `now`, which `payer` pays for, finds under its code name.
    #[inline]
    pub fn find(&mut self, name: &Digest, now: u64, payer: Payer) -> FoundCode {
        let Some(entry) = self.table.get_mut(name) else { return FoundCode::Absent };
        let doubted = entry.is_doubted_by(payer, now);
        match &mut entry.code {
            Code::Ready(ready) => {
                ready.packets += 1;
                ready.used = now;
                if entry.whose != Some(payer) {
                    if entry.whose.is_none() {
                        entry.whose = Some(payer);
                    } else {
                        ready.others = Some(now);
                    }
                }
                let lacks = doubted || entry.alone;
                FoundCode::Ready {
                    slot: ready.slot,
                    domain: ready.domain,
                    window: ready.window,
                    steps: ready.steps,
                    lacks,
                }
            }
            Code::Refused { until, reason, .. } if *until > now && doubted => FoundCode::Doubted(*reason),
            Code::Refused { until, reason, .. } if *until > now => FoundCode::Refused(*reason),
            _ => FoundCode::Absent,
        }
    }

    /// The entry under a name.
    pub fn of(&self, name: &Digest) -> Option<&Code> {
        self.table.get(name).map(|entry| &entry.code)
    }

    /// The entry under a name, to change it.
    pub fn of_mut(&mut self, name: &Digest) -> Option<&mut Code> {
        self.table.get_mut(name).map(|entry| &mut entry.code)
    }

    /// Who brought a code.
    pub fn whose(&self, name: &Digest) -> Option<Payer> {
        self.table.get(name)?.whose
    }

    /// Enters what is known of a code at `now`, which `payer` brings if it is new, and gives the entry that had to go for it, if any.
    pub fn enter(&mut self, name: Digest, code: Code, now: u64, payer: Option<Payer>) -> Option<Gone> {
        if let Some(entry) = self.table.get_mut(&name) {
            entry.alone &= !matches!(code, Code::Refused { .. });
            entry.code = code;
            return None;
        }
        let full = self.table.len() >= self.limit;
        let gone = if full { self.least(now, payer).and_then(|least| Some((least, self.take(&least)?))) } else { None };
        let place = self.places.add(name);
        self.table.insert(name, Entry { code, whose: payer, asked: None, alone: false, place });
        self.displaced += u64::from(gone.is_some());
        gone.map(|(name, Entry { code, whose, .. })| Gone { name, code, whose })
    }

    /// Whether no credential has given signed code a role at `now`: then nodes behind its packets are asked for one, and who brought it
    /// at once only if it was not `asked`, since there were others already.
    pub fn set_doubted(&mut self, name: &Digest, is: bool, asked: bool, now: u64) {
        let Some(entry) = self.table.get_mut(name) else { return };
        if !is {
            entry.asked = None;
        } else if entry.asked.is_none() {
            let list = entry.asked.insert(Asked::default());
            entry.whose.filter(|_| asked).into_iter().for_each(|first| list.note(first, now));
        }
    }

    /// Whether the node behind a packet of this one's at `now` may have a credential that gives the code a role.
    pub fn is_doubted_by(&self, name: &Digest, payer: Payer, now: u64) -> bool {
        self.table.get(name).is_some_and(|entry| entry.is_doubted_by(payer, now))
    }

    /// That one is asked at `now`. What was refused is looked for anew by his packet, and so is his.
    pub fn asked(&mut self, name: &Digest, payer: Payer, now: u64) {
        let Some(entry) = self.table.get_mut(name) else { return };
        entry.asked.get_or_insert_default().note(payer, now);
        if let Code::Refused { until, .. } = &mut entry.code {
            (*until, entry.whose) = (now, Some(payer));
        }
    }

    /// Whether nobody could be asked for its bpf representation yet.
    pub fn is_alone(&self, name: &Digest) -> bool {
        self.table.get(name).is_some_and(|entry| entry.alone)
    }

    /// Nobody could be asked for its bpf representation, or somebody is now.
    pub fn set_alone(&mut self, name: &Digest, is: bool) {
        if let Some(entry) = self.table.get_mut(name) {
            entry.alone = is;
        }
    }

    /// All codes that can run, in no order.
    pub fn ready(&mut self) -> impl Iterator<Item = (&Digest, &mut Ready)> {
        self.table.iter_mut().filter_map(|(name, entry)| {
            #[cfg(test)]
            crate::core::table::looks::add();
            match &mut entry.code {
                Code::Ready(ready) => Some((name, &mut **ready)),
                _ => None,
            }
        })
    }

    /// Names of the codes that can run, the last used first, so many at most.
    pub fn recent(&self, most: usize) -> Vec<Digest> {
        let ready = self.table.iter().filter_map(|(name, entry)| match &entry.code {
            Code::Ready(ready) => Some((core::cmp::Reverse(ready.used), *name)),
            _ => None,
        });
        let mut all: Vec<_> = ready.collect();
        all.sort_unstable();
        all.into_iter().map(|(_, name)| name).take(most).collect()
    }

    /// Remembers what the kernel half said of code.
    pub fn set_kernel(&mut self, name: &Digest, result: Result<(), String>) {
        if let Some(Code::Ready(ready)) = self.of_mut(name) {
            ready.kernel = Some(result);
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, name: &Digest) -> Option<Code> {
        self.take(name).map(|entry| entry.code)
    }

    fn take(&mut self, name: &Digest) -> Option<Entry> {
        let entry = self.table.remove(name)?;
        if let Some(moved) = self.places.free(entry.place).and_then(|moved| self.table.get_mut(&moved)) {
            moved.place = entry.place;
        }
        Some(entry)
    }

    /// How many places there are: an entry at each, and each entry at one.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The entry at a place. One that goes leaves its place to the last one.
    pub fn at(&self, place: usize) -> Option<(Digest, &Code)> {
        let name = self.places.at(place)?;
        Some((name, self.of(&name)?))
    }

    /// Forgets refusals.
    pub fn forget_refused(&mut self) {
        let is = |(name, entry): (&Digest, &Entry)| matches!(entry.code, Code::Refused { .. }).then_some(*name);
        let refused: Vec<Digest> = self.table.iter().filter_map(is).collect();
        refused.iter().for_each(|name| drop(self.take(name)));
    }

    /// Forgets codes on their way that nobody waits for any more; gives those that a kernel half may have.
    pub fn forget_coming(&mut self, wanted: impl Fn(&Digest) -> bool) -> Vec<Digest> {
        let unwanted = |(name, entry): (&Digest, &Entry)| match &entry.code {
            Code::Coming(coming) if !wanted(name) => Some((*name, coming.bpf.is_some())),
            _ => None,
        };
        let gone: Vec<(Digest, bool)> = self.table.iter().filter_map(unwanted).collect();
        gone.iter().for_each(|(name, _)| drop(self.take(name)));
        gone.into_iter().filter(|(_, linked)| *linked).map(|(name, _)| name).collect()
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &Code)> {
        #[cfg(test)]
        self.table.iter().for_each(|_| crate::core::table::looks::add());
        let mut entries: Vec<_> = self.table.iter().map(|(name, entry)| (name, &entry.code)).collect();
        entries.sort_unstable_by_key(|(name, _)| **name);
        entries.into_iter()
    }

    /// The entry that gives way to one that `payer` brings: a refusal that is over, whoever's; else of whoever has most
    /// then, and of two his that brings another, what is worth least.
    fn least(&self, now: u64, payer: Option<Payer>) -> Option<Digest> {
        let mut shares = Shares::new(u64::MAX);
        self.table.values().for_each(|entry| shares.take_back(entry.whose, 1));
        let brings = |whose| u64::from(whose == payer);
        let most = |entry: &Entry| (shares.of(entry.whose) + brings(entry.whose), brings(entry.whose), entry.whose);
        let largest = self.table.values().max_by_key(|entry| most(entry))?.whose;
        let over = |code: &Code| matches!(code, Code::Refused { until, .. } if *until <= now);
        let can = self.table.iter().filter(|(_, entry)| entry.whose == largest || over(&entry.code));
        let worth = |code: &Code| match code {
            Code::Refused { until, .. } => (u8::from(*until > now), (false, false, 0, *until)),
            Code::Ready(ready) => (2, ready.worth(now)),
            Code::Coming(_) => (3, (false, false, 0, 0)),
        };
        can.min_by_key(|(name, entry)| (worth(&entry.code), **name)).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests;
