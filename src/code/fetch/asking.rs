//! Asking until an answer comes: when to ask again, how often, and for how many bytes. Capsules' code and PLAN's are asked for so.
//!
//! An [`Asking`] is one question to one neighbour at a time. What is asked, who is asked next and what an answer must show to be believed
//! differ between the two, and are theirs (ARCHITECTURE.md, "Two ways to ask for code").

/// How a kind of thing is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Nanoseconds until a request without an answer is repeated.
    pub pause: u64,
    /// How often that doubles.
    pub doublings: u32,
    /// Requests without any progress after which nobody will answer.
    pub tries: u32,
    /// Bytes of requests that may be sent beyond the bytes that have come.
    pub bytes: u64,
}

/// Something that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Requests since something came.
    tries: u32,
    /// When it is time for the next.
    at: u64,
    /// Bytes of requests, and of what has come.
    asked: u64,
    came: u64,
}

impl Asking {
    /// Nothing was asked; the first request is due at `at`.
    pub fn new(at: u64) -> Asking {
        Asking { tries: 0, at, asked: 0, came: 0 }
    }

    /// When the next request is due, or that this is to be given up.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether it is time for that.
    pub fn is_due(&self, now: u64) -> bool {
        self.at <= now
    }

    /// Requests since something came.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// A request has gone out; after a while it is time for the next.
    pub fn asked(&mut self, now: u64, manner: &Manner) {
        self.at = now.saturating_add(manner.pause << self.tries.min(manner.doublings));
        self.tries += 1;
    }

    /// Charges a request of so many bytes; whether it may go out.
    pub fn pay(&mut self, bytes: u64, manner: &Manner) -> bool {
        let may = !self.is_spent(manner);
        self.asked += if may { bytes } else { 0 };
        may
    }

    /// So many bytes have come: the next request is due later, and tries count anew.
    pub fn answered(&mut self, now: u64, bytes: u64, manner: &Manner) {
        self.tries = 0;
        self.came += bytes;
        self.at = now.saturating_add(manner.pause);
    }

    /// Whoever was asked has nothing: it is time to ask the next.
    pub fn refused(&mut self, now: u64) {
        self.tries += 1;
        self.at = now;
    }

    /// Something new is asked for under the same account, by tries that count from so many.
    pub fn restart(&mut self, tries: u32) {
        self.tries = tries;
    }

    /// The next request is due at `at`.
    pub fn wait_until(&mut self, at: u64) {
        self.at = at;
    }

    /// Forgets what was asked and what came.
    pub fn forgive(&mut self) {
        (self.asked, self.came) = (0, 0);
    }

    /// Whether it has been asked for in vain often enough.
    pub fn is_at_its_end(&self, manner: &Manner) -> bool {
        self.tries >= manner.tries || self.is_spent(manner)
    }

    fn is_spent(&self, manner: &Manner) -> bool {
        self.asked >= manner.bytes.saturating_add(self.came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner { pause: 100, doublings: 2, tries: 5, bytes: 1000 };

    #[test]
    fn pauses_double_until_tries_end() {
        let mut asking = Asking::new(7);
        let mut at = vec![];
        while !asking.is_at_its_end(&MANNER) {
            assert!(!asking.is_due(asking.at() - 1) && asking.is_due(asking.at()));
            at.push(asking.at());
            asking.asked(asking.at(), &MANNER);
        }
        assert_eq!(at, [7, 107, 307, 707, 1107]);
        asking.answered(2000, 1, &MANNER);
        assert_eq!((asking.tries(), asking.at(), asking.is_at_its_end(&MANNER)), (0, 2100, false));
        asking.refused(2050);
        assert_eq!((asking.tries(), asking.at()), (1, 2050));
    }

    #[test]
    fn requests_are_bounded_by_what_comes_for_them() {
        let mut asking = Asking::new(0);
        assert_eq!((0..9).filter(|_| asking.pay(300, &MANNER)).count(), 4, "the last one may overdraw");
        assert!(asking.is_at_its_end(&MANNER));
        asking.answered(0, 500, &MANNER);
        assert_eq!((0..9).filter(|_| asking.pay(300, &MANNER)).count(), 1);
        asking.forgive();
        assert_eq!((0..9).filter(|_| asking.pay(1000, &MANNER)).count(), 1);
    }
}
