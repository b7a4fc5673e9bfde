//! Running functions by domain, and the threads that wait for their return: "ended" means that nothing of a domain
//! runs.
//!
//! The end of a domain waits until no function of it or of a domain below it runs, but for those of the calling thread.
//! Who closed the domain does not matter: the list outlives it. Two functions that end each other's domains would wait
//! for each other for ever. So a function that waits, directly or over others, for the one that waits for it, does not
//! count. Nothing here locks or wakes: [`super::Desk`] does, under its own lock.

use crate::numbers::Numbers;

/// A thread, by a number that no other has.
type Thread = u64;

/// Functions that run, threads that wait, and which domain is below which.
#[derive(Default)]
pub struct Runs {
    running: Vec<(Thread, u32)>,
    waiting: Vec<(Thread, u32)>,
    above: Numbers<u32, u32>,
}

impl Runs {
    /// A domain exists from now on, below another.
    pub fn add(&mut self, domain: u32, above: Option<u32>) {
        if let Some(above) = above {
            self.above.insert(domain, above);
        }
    }

    /// Forgets domains that are not `living` and of which nothing runs.
    pub fn forget(&mut self, living: impl Fn(u32) -> bool) {
        let mut kept: Vec<u32> = self.running.iter().chain(&self.waiting).map(|(_, domain)| *domain).collect();
        let mut at = 0;
        while let Some(above) = kept.get(at).map(|domain| self.above.get(domain).copied()) {
            kept.extend(above.filter(|above| !kept.contains(above)));
            at += 1;
        }
        self.above.retain(|domain, _| living(*domain) || kept.contains(domain));
    }

    /// How many domains are known to be below others.
    pub fn known(&self) -> usize {
        self.above.len()
    }

    /// A function of a domain begins.
    pub fn begin(&mut self, thread: Thread, domain: u32) {
        self.running.push((thread, domain));
    }

    /// It has returned. Says whether somebody waits.
    pub fn end(&mut self, thread: Thread, domain: u32) -> bool {
        if let Some(at) = self.running.iter().rposition(|run| *run == (thread, domain)) {
            self.running.swap_remove(at);
        }
        !self.waiting.is_empty()
    }

    /// A thread begins to wait for the functions of a domain and those below it. Who waited for it need not any more:
    /// they are to look again.
    pub fn wait(&mut self, thread: Thread, top: u32) {
        self.waiting.push((thread, top));
    }

    /// It waits no more.
    pub fn waited(&mut self, thread: Thread, top: u32) {
        if let Some(at) = self.waiting.iter().rposition(|wait| *wait == (thread, top)) {
            self.waiting.swap_remove(at);
        }
    }

    /// Whether a domain is this one or below it.
    pub fn is_within(&self, domain: u32, top: u32) -> bool {
        let mut at = Some(domain);
        // No longer than the chain of domains is deep.
        for _ in 0..=self.above.len() {
            match at {
                Some(found) if found == top => return true,
                Some(found) => at = self.above.get(&found).copied(),
                None => return false,
            }
        }
        false
    }

    /// Whether a thread that waits for a domain has to wait on.
    pub fn holds(&self, thread: Thread, top: u32) -> bool {
        let others = self.running.iter().filter(|(other, domain)| *other != thread && self.is_within(*domain, top));
        others.into_iter().any(|(other, _)| !self.waits_for(*other, thread))
    }

    /// Whether a thread waits for a function of another, directly or over others.
    fn waits_for(&self, from: Thread, to: Thread) -> bool {
        let (mut open, mut seen) = (vec![from], vec![from]);
        while let Some(thread) = open.pop() {
            for (_, top) in self.waiting.iter().filter(|(waiting, _)| *waiting == thread) {
                for (other, _) in self.running.iter().filter(|(_, domain)| self.is_within(*domain, *top)) {
                    if *other == to {
                        return true;
                    }
                    if !seen.contains(other) {
                        seen.push(*other);
                        open.push(*other);
                    }
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_a_domain_waits_for_all_but_himself() {
        let mut runs = Runs::default();
        runs.add(1, None);
        runs.add(2, Some(1));
        runs.add(3, Some(2));
        runs.add(4, Some(1));
        runs.begin(10, 2);
        runs.begin(11, 3);
        runs.begin(12, 4);
        assert!(runs.holds(10, 2) && runs.holds(99, 2) && runs.holds(99, 1));
        assert!(!runs.end(11, 3) && !runs.holds(10, 2), "his own function does not count");
        assert!(runs.holds(99, 2), "for others it does");
        runs.forget(|_| false);
        assert!(runs.holds(99, 1), "domains that have ended are known as long as something of them runs");
        runs.end(10, 2);
        runs.end(12, 4);
        runs.forget(|_| false);
        assert_eq!((runs.holds(99, 1), runs.known()), (false, 0));
    }

    #[test]
    fn functions_that_end_each_other_do_not_wait_for_each_other() {
        let mut runs = Runs::default();
        for (thread, domain) in [(10, 1), (11, 2), (12, 3), (13, 3)] {
            runs.begin(thread, domain);
        }
        // A ring of three, and one more in the last of them that waits for nobody.
        runs.wait(10, 2);
        runs.wait(11, 3);
        runs.wait(12, 1);
        assert!(!runs.holds(10, 2) && !runs.holds(12, 1));
        assert!(runs.holds(11, 3), "one of them only works");
        runs.wait(99, 1);
        assert!(runs.holds(99, 1), "who is not in the ring waits for it");
        runs.end(13, 3);
        assert!(!runs.holds(11, 3));
        runs.waited(12, 1);
        assert!(runs.holds(11, 3) && !runs.holds(12, 1));
    }
}
