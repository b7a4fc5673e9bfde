//! Repeated questions: when to ask again, and how often. Example: after 50 ms, 100 ms, 200 ms. Capsules' code and
//! PLAN's use it.
//!
//! An [`Asking`] is one question to one neighbour at a time. The question, the next neighbour, the payer and the proof
//! of an answer differ between the two users, and are theirs (ARCHITECTURE.md, "Two ways to ask for code").

/// How a kind of thing is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Nanoseconds until a request without an answer is repeated.
    pub pause: u64,
    /// How often that doubles.
    pub doublings: u32,
    /// Requests without any progress after which nobody will answer.
    pub tries: u32,
}

/// Something that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Requests since something came.
    tries: u32,
    /// When it is time for the next.
    at: u64,
}

impl Asking {
    /// Nothing was asked; the first request is due at `at`.
    pub fn new(at: u64) -> Asking {
        Asking { tries: 0, at }
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

    /// Something has come: the next request is due later, and tries count anew.
    pub fn answered(&mut self, now: u64, manner: &Manner) {
        self.tries = 0;
        self.at = now.saturating_add(manner.pause);
    }

    /// Whoever was asked has nothing: it is time to ask the next.
    pub fn refused(&mut self, now: u64) {
        self.tries += 1;
        self.at = now;
    }

    /// Something new is asked for, by tries that count from so many.
    pub fn restart(&mut self, tries: u32) {
        self.tries = tries;
    }

    /// The next request is due at `at`.
    pub fn wait_until(&mut self, at: u64) {
        self.at = at;
    }

    /// Whether it has been asked for in vain often enough.
    pub fn is_at_its_end(&self, manner: &Manner) -> bool {
        self.tries >= manner.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner { pause: 100, doublings: 2, tries: 5 };

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
        asking.answered(2000, &MANNER);
        assert_eq!((asking.tries(), asking.at(), asking.is_at_its_end(&MANNER)), (0, 2100, false));
        asking.refused(2050);
        assert_eq!((asking.tries(), asking.at()), (1, 2050));
    }
}
