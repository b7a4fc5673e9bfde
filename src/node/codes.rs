//! The code table: what the node knows of each code name.
//!
//! An entry is ready, refused for a while, or on its way. The table is bounded; when it is full, refusals
//! give way first, then the code that is used least, with its domain and soft state. Use is the number
//! of packets, halved for every ten seconds without any, so a flood of names that run a packet each
//! displaces itself and not what has work.

pub use super::tiers::Effort;
use crate::code::bundle::Kind;
use crate::code::judge::{Claim, Grant};
use crate::code::run::SlotId;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::wire::Digest;
use std::collections::HashMap;

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

/// Code whose manifest is here.
#[derive(Clone, Debug)]
pub struct Coming {
    /// What it claims to be.
    pub claim: Claim,
    /// In which role it acts, once that is known.
    pub grant: Option<Grant>,
    /// The representation that runs in this half, once the role is known.
    pub representation: Option<(Kind, Digest)>,
    /// The bpf representation and its octets, if a kernel half is to run it.
    pub bpf: Option<(Digest, u32)>,
    /// What the kernel half has made of that already.
    pub linked: Option<super::output::Linked>,
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
    /// What it claimed when it was given its role.
    pub claim: Claim,
    /// In whose name and role it acts.
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
        }
    }

    /// The kernel half has run it on so many packets lately: they count like those of this half.
    pub fn ran_in_kernel(&mut self, packets: u64, now: u64) {
        if packets > 0 {
            self.packets = self.packets.saturating_add(packets);
            self.used = now;
        }
    }

    /// How much would be lost with it at `now`: whether it is busy, its use, and when it was used last.
    fn worth(&self, now: u64) -> (bool, u64, u64) {
        let idle = now.saturating_sub(self.used);
        let halved = u32::try_from(idle / HALVES).unwrap_or(u32::MAX);
        (idle < BUSY_FOR, self.packets.checked_shr(halved).unwrap_or(0), self.used)
    }
}

/// All codes a node knows of.
#[derive(Default)]
pub struct Codes {
    table: HashMap<Digest, Code, foldhash::fast::FixedState>,
    limit: usize,
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
    /// Its code must not run: under what its packets are dropped.
    Refused(Reason),
    /// Its code is not here.
    Absent,
}

impl Codes {
    /// An empty table of at most `limit` entries.
    pub fn new(limit: usize) -> Codes {
        Codes { table: HashMap::default(), limit: limit.max(1) }
    }

    /// What a packet at `now` finds under its code name.
    #[inline]
    pub fn find(&mut self, name: &Digest, now: u64) -> Found {
        match self.table.get_mut(name) {
            Some(Code::Ready(ready)) => {
                ready.packets += 1;
                ready.used = now;
                Found::Ready { slot: ready.slot, domain: ready.domain, window: ready.window, steps: ready.steps }
            }
            Some(Code::Refused { until, reason, .. }) if *until > now => Found::Refused(*reason),
            _ => Found::Absent,
        }
    }

    /// The entry under a name.
    pub fn of(&self, name: &Digest) -> Option<&Code> {
        self.table.get(name)
    }

    /// The entry under a name, to change it.
    pub fn of_mut(&mut self, name: &Digest) -> Option<&mut Code> {
        self.table.get_mut(name)
    }

    /// Enters what is known of a code at `now`, and gives the entry that had to go for it, if any.
    pub fn enter(&mut self, name: Digest, code: Code, now: u64) -> Option<(Digest, Code)> {
        let full = self.table.len() >= self.limit && !self.table.contains_key(&name);
        let gone = if full { self.least(now).and_then(|least| self.table.remove_entry(&least)) } else { None };
        self.table.insert(name, code);
        gone
    }

    /// All codes that can run, in no order.
    pub fn ready(&mut self) -> impl Iterator<Item = (&Digest, &mut Ready)> {
        self.table.iter_mut().filter_map(|(name, code)| match code {
            Code::Ready(ready) => Some((name, &mut **ready)),
            _ => None,
        })
    }

    /// Names of the codes that can run, the last used first, so many at most.
    pub fn recent(&self, most: usize) -> Vec<Digest> {
        let ready = self.table.iter().filter_map(|(name, code)| match code {
            Code::Ready(ready) => Some((core::cmp::Reverse(ready.used), *name)),
            _ => None,
        });
        let mut all: Vec<_> = ready.collect();
        all.sort_unstable();
        all.into_iter().map(|(_, name)| name).take(most).collect()
    }

    /// Remembers what the kernel half said of code.
    pub fn set_kernel(&mut self, name: &Digest, result: Result<(), String>) {
        if let Some(Code::Ready(ready)) = self.table.get_mut(name) {
            ready.kernel = Some(result);
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, name: &Digest) -> Option<Code> {
        self.table.remove(name)
    }

    /// Forgets refusals.
    pub fn forget_refused(&mut self) {
        self.table.retain(|_, code| !matches!(code, Code::Refused { .. }));
    }

    /// Forgets codes on their way that nobody waits for any more; gives those that a kernel half may have.
    pub fn forget_coming(&mut self, wanted: impl Fn(&Digest) -> bool) -> Vec<Digest> {
        let mut linked = Vec::new();
        self.table.retain(|name, code| {
            let Code::Coming(coming) = code else { return true };
            let stays = wanted(name);
            if !stays && coming.bpf.is_some() {
                linked.push(*name);
            }
            stays
        });
        linked
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &Code)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_unstable_by_key(|(name, _)| **name);
        entries.into_iter()
    }

    /// The entry that gives way first.
    fn least(&self, now: u64) -> Option<Digest> {
        let worth = |code: &Code| match code {
            Code::Refused { until, .. } => (0, (false, 0, *until)),
            Code::Ready(ready) => (1, ready.worth(now)),
            Code::Coming(_) => (2, (false, 0, 0)),
        };
        self.table.iter().min_by_key(|(name, code)| (worth(code), **name)).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::bundle::Kind;
    use crate::code::bundle::{Layer, Manifest};
    use crate::code::judge::{Claim, Grant};
    use crate::core::domain::DomainId;
    use crate::trust::Roles;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    fn name(number: u32) -> Digest {
        Digest::of(&number.to_be_bytes())
    }

    fn ready(now: u64) -> Code {
        let layer = Layer { kind: Kind::Wasm, digest: name(0), size: 1 };
        let manifest = Arc::new(Manifest::new("t", 0, vec![layer]).unwrap());
        let claim = Claim { code: name(0), manifest, credentials: None };
        let coming = Coming { claim, grant: None, representation: None, bpf: None, linked: None };
        let grant = Grant::of_anyone(&Roles::default());
        Code::Ready(Box::new(Ready::new(coming, (Kind::Wasm, grant), SlotId::default(), DomainId(0), now)))
    }

    fn runs(codes: &mut Codes, number: u32, packets: u32, now: u64) {
        assert!((0..packets).all(|_| matches!(codes.find(&name(number), now), Found::Ready { .. })), "{number}");
    }

    #[test]
    fn a_flood_of_codes_displaces_itself_and_not_what_has_work() {
        let mut codes = Codes::new(16);
        codes.enter(name(0), ready(0), 0);
        runs(&mut codes, 0, 1000, 0);
        for number in 1..200u32 {
            // Four new codes a second, one packet each; the old one is silent.
            let now = u64::from(number) * SECOND / 4;
            codes.enter(name(number), ready(now), now);
            runs(&mut codes, number, 1, now);
        }
        runs(&mut codes, 0, 1, 50 * SECOND);
    }

    #[test]
    fn what_the_kernel_half_runs_is_busy_here_too() {
        let mut codes = Codes::new(2);
        codes.enter(name(0), ready(0), 0);
        codes.enter(name(1), ready(0), 0);
        runs(&mut codes, 1, 10, 5 * SECOND);
        let now = 9 * SECOND;
        codes.ready().filter(|(known, _)| **known == name(0)).for_each(|(_, ready)| ready.ran_in_kernel(3, now));
        assert_eq!(codes.enter(name(2), ready(now), now).map(|(gone, _)| gone), Some(name(1)));
    }

    #[test]
    fn what_runs_now_gives_way_to_nobody_and_what_rests_for_long_counts_for_little() {
        let mut codes = Codes::new(3);
        for (number, packets, now) in [(0, 1000, 0), (1, 1, 99 * SECOND), (2, 1, 100 * SECOND)] {
            codes.enter(name(number), ready(now), now);
            runs(&mut codes, number, packets, now);
        }
        let gone = |codes: &mut Codes, number, now| codes.enter(name(number), ready(now), now).map(|(name, _)| name);
        let now = 100 * SECOND;
        assert_eq!(gone(&mut codes, 3, now), Some(name(0)), "idle for longest");
        assert_eq!(gone(&mut codes, 4, now), Some(name(1)), "the others have run just now");
        runs(&mut codes, 4, 1, now);
        let refused = Code::Refused { until: now, why: String::new(), reason: Reason::CodeRefused };
        assert_eq!(codes.enter(name(5), refused, now).map(|(name, _)| name), Some(name(3)), "never used");
        assert_eq!(gone(&mut codes, 6, now), Some(name(5)), "refusals first");
    }
}
