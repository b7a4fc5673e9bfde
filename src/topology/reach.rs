//! A limit on the node's own messages to an address: three times the bytes that came from there, until the address has
//! answered.
//!
//! Programs pay for their packets with the resource bound. The node's own messages (reports of errors and arrivals,
//! answers to neighbours, the traffic of services) go to addresses that packets name, and anybody can forge those. An
//! address answers by repeating a number that nobody can guess. Until then it is sent no more than [`TIMES`] the bytes
//! that came in its name: the rule of RFC 9000, section 8.1. Configured addresses count as having answered.
//!
//! The table is of fixed size, hashed with a secret: a flood of names displaces silent names first, and a new name
//! begins with nothing.

use crate::wire::Addr;

/// Bytes that may be sent for each that has come (RFC 9000, section 8.1).
pub const TIMES: u64 = 3;

/// Sets of the table, and addresses in each.
const SETS: usize = 256;
const WAYS: usize = 4;

/// Nanoseconds for which an answer counts since the last one.
const ANSWER_COUNTS: u64 = 300_000_000_000;

/// Reports that one source is sent in a second.
pub const REPORTS_PER_SECOND: u16 = 64;

const SECOND: u64 = 1_000_000_000;

/// Bytes that may be sent at most to one that has not answered: more is not saved up.
const CREDIT_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    addr: Addr,
    /// When something came or went last; 0: a free place.
    used: u64,
    /// Bytes that may be sent while it has not answered.
    credit: u64,
    /// Until when its last answer counts.
    answered: u64,
    /// The second in which reports were sent last, and how many.
    reports_in: u64,
    reports: u16,
}

/// Why something is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachRefused {
    /// Too little has come from there, and nobody there has answered.
    Silent,
    /// Enough has been sent there this second.
    Rate,
}

/// The addresses that the node may send to of its own accord.
#[derive(Clone, Debug)]
pub struct Reach {
    sets: Vec<[Entry; WAYS]>,
    secret: u64,
}

impl Reach {
    /// Nobody has sent anything; the secret says which addresses share a set.
    pub fn new(secret: u64) -> Reach {
        Reach { sets: Vec::new(), secret }
    }

    /// So many bytes have come in the name of an address.
    pub fn heard(&mut self, now: u64, addr: Addr, bytes: usize) {
        let entry = self.entry(now, addr);
        entry.credit = entry.credit.saturating_add(TIMES * bytes as u64).min(CREDIT_MAX);
    }

    /// Somebody at an address has repeated what only who gets packets there can know.
    pub fn answered(&mut self, now: u64, addr: Addr) {
        self.entry(now, addr).answered = now.saturating_add(ANSWER_COUNTS);
    }

    /// Whether somebody there has answered lately.
    pub fn has_answered(&mut self, now: u64, addr: Addr) -> bool {
        self.entry(now, addr).answered > now
    }

    /// Whether so many bytes could be sent.
    pub fn could_send(&mut self, now: u64, addr: Addr, bytes: usize) -> bool {
        let entry = self.entry(now, addr);
        entry.answered > now || entry.credit >= bytes as u64
    }

    /// Asks for leave to send so many bytes, which are charged.
    pub fn may_send(&mut self, now: u64, addr: Addr, bytes: usize) -> Result<(), ReachRefused> {
        if !self.could_send(now, addr, bytes) {
            return Err(ReachRefused::Silent);
        }
        let entry = self.entry(now, addr);
        entry.credit = entry.credit.saturating_sub(bytes as u64);
        Ok(())
    }

    /// The same for a report, of which one source gets few.
    pub fn may_report(&mut self, now: u64, addr: Addr, bytes: usize) -> Result<(), ReachRefused> {
        let entry = self.entry(now, addr);
        if entry.reports_in != now / SECOND {
            (entry.reports_in, entry.reports) = (now / SECOND, 0);
        }
        if entry.reports >= REPORTS_PER_SECOND {
            return Err(ReachRefused::Rate);
        }
        entry.reports += 1;
        self.may_send(now, addr, bytes)
    }

    fn entry(&mut self, now: u64, addr: Addr) -> &mut Entry {
        if self.sets.is_empty() {
            self.sets.resize(SETS, [Entry::default(); WAYS]);
        }
        let (high, low) = ((u128::from_be_bytes(addr.0) >> 64) as u64, u128::from_be_bytes(addr.0) as u64);
        let mixed = (high.rotate_left(32) ^ low ^ self.secret).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29 ^ self.secret.rotate_left(17)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let set = &mut self.sets[(mixed >> 32) as usize % SETS];
        let known = set.iter().position(|entry| entry.used != 0 && entry.addr == addr);
        let at = known.unwrap_or_else(|| {
            // Those that have not answered give way first, the longest unused of them.
            let worth = |entry: &Entry| (entry.answered > now, entry.used);
            let least = (0..WAYS).min_by_key(|at| worth(&set[*at])).unwrap_or(0);
            set[least] = Entry { addr, ..Entry::default() };
            least
        });
        let entry = &mut set[at];
        entry.used = now.max(1);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(number: u32) -> Addr {
        Addr::v4(number.to_be_bytes())
    }

    #[test]
    fn a_silent_address_gets_three_times_what_came_from_it() {
        let mut reach = Reach::new(1);
        assert_eq!(reach.may_send(0, addr(1), 1), Err(ReachRefused::Silent));
        reach.heard(0, addr(1), 100);
        assert_eq!(reach.may_send(0, addr(1), 200), Ok(()));
        assert_eq!(reach.may_send(0, addr(1), 101), Err(ReachRefused::Silent));
        assert_eq!(reach.may_send(0, addr(2), 1), Err(ReachRefused::Silent), "another address");
        assert_eq!(reach.may_send(0, addr(1), 100), Ok(()));
        assert_eq!(reach.may_send(0, addr(1), 1), Err(ReachRefused::Silent));
    }

    #[test]
    fn who_has_answered_gets_more_for_a_while() {
        let mut reach = Reach::new(1);
        reach.answered(5, addr(1));
        assert!(reach.has_answered(5, addr(1)) && !reach.has_answered(5, addr(2)));
        assert_eq!(reach.may_send(ANSWER_COUNTS + 4, addr(1), 1 << 30), Ok(()));
        assert_eq!(reach.may_send(ANSWER_COUNTS + 5, addr(1), 1), Err(ReachRefused::Silent));
    }

    #[test]
    fn a_source_gets_few_reports_a_second() {
        let mut reach = Reach::new(1);
        reach.answered(0, addr(1));
        let sent = |reach: &mut Reach, now| (0..1000).filter(|_| reach.may_report(now, addr(1), 9).is_ok()).count();
        assert_eq!(sent(&mut reach, 0), usize::from(REPORTS_PER_SECOND));
        assert_eq!(reach.may_report(1, addr(1), 9), Err(ReachRefused::Rate));
        assert_eq!(sent(&mut reach, SECOND), usize::from(REPORTS_PER_SECOND));
    }

    #[test]
    fn a_flood_of_names_gains_nothing_and_displaces_nobody_who_has_answered() {
        let mut reach = Reach::new(7);
        (0..64).for_each(|number| reach.answered(1, addr(number)));
        let mut sent = 0;
        for number in 1000..60_000 {
            reach.heard(2, addr(number), 10);
            sent += (0..9).filter(|_| reach.may_send(2, addr(number), 10).is_ok()).count();
        }
        assert_eq!(sent, 59_000 * 3);
        let held = (0..64).filter(|number| reach.has_answered(3, addr(*number))).count();
        assert!(held >= 60, "{held}: a set has room for few");
        assert_eq!(reach.sets.len() * WAYS, SETS * WAYS);
    }
}
