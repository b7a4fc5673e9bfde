//! How fetches by HTTP stand, by their numbers.

use crate::code::http::HttpTotals;
use crate::wire::Digest;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fetches that are remembered; of more the oldest is forgotten.
const REMEMBERED_MAX: usize = 64;

/// Fetches, the last ones.
pub(super) struct States {
    words: BTreeMap<u64, String>,
    totals: Arc<HttpTotals>,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl States {
    pub fn new(totals: Arc<HttpTotals>) -> States {
        States { words: BTreeMap::new(), totals }
    }

    /// One more, and its number.
    pub fn begin(&mut self) -> u64 {
        let number = self.words.last_key_value().map_or(1, |(last, _)| last + 1);
        self.words.insert(number, "fetching".into());
        if self.words.len() > REMEMBERED_MAX {
            self.words.pop_first();
        }
        count(&self.totals.begun, 1);
        number
    }

    /// How one stands, if it is remembered.
    pub fn words(&self, number: u64) -> Option<String> {
        self.words.get(&number).cloned()
    }

    /// It is in the store.
    pub fn store(&mut self, number: u64, name: &Digest, bytes: usize) {
        count(&self.totals.stored, 1);
        count(&self.totals.bytes, bytes as u64);
        self.end(number, format!("stored: {name}, {bytes} bytes"));
    }

    /// It is not fetched.
    pub fn refuse(&mut self, number: u64, why: String) {
        count(&self.totals.refused, 1);
        self.end(number, format!("refused: {why}"));
    }

    /// It could not be fetched.
    pub fn fail(&mut self, number: u64, why: String) {
        count(&self.totals.failed, 1);
        self.end(number, format!("failed: {why}"));
    }

    /// A server has named another place.
    pub fn count_redirection(&self) {
        count(&self.totals.redirected, 1);
    }

    fn end(&mut self, number: u64, words: String) {
        if let Some(of) = self.words.get_mut(&number) {
            *of = words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_fetches_are_remembered_and_all_are_counted() {
        let totals = Arc::<HttpTotals>::default();
        let mut states = States::new(totals.clone());
        let first = states.begin();
        assert_eq!(states.words(first).as_deref(), Some("fetching"));
        states.fail(first, "no".into());
        assert_eq!(states.words(first).as_deref(), Some("failed: no"));
        for _ in 0..REMEMBERED_MAX {
            let number = states.begin();
            states.refuse(number, "never".into());
        }
        assert_eq!((states.words(first), states.words.len()), (None, REMEMBERED_MAX));
        states.store(first, &Digest::of(b"x"), 3);
        states.count_redirection();
        let all = totals.status();
        assert_eq!((all.begun, all.failed, all.refused), (65, 1, 64));
        assert_eq!((all.stored, all.bytes, all.redirected), (1, 3, 1));
    }
}
