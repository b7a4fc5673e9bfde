//! A workload for the cache: keys by Zipf's law, and the results of the requests.
//!
//! The rank-k key of n has the probability (1/k^s) / H(n,s), as web objects have (Breslau et al., INFOCOM 1999, found s
//! of 0.6 to 0.85).

use super::attached::{Attached, Error};
use super::cache::{Answer, Client, Key};
use super::times::Times;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::BTreeMap;

/// Draws ranks by Zipf's law.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The probability of this rank or a lower one.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law over `keys` (1 and more) ranks with exponent `s` (0: all the same).
    pub fn new(keys: usize, s: f64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=keys.max(1)).map(|rank| {
            sum += (rank as f64).powf(-s);
            sum
        });
        let mut cumulative: Vec<f64> = weights.collect();
        cumulative.iter_mut().for_each(|weight| *weight /= sum);
        Zipf { cumulative }
    }

    /// A rank from 0.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        // 53 bits: as many as a float has between 0 and 1.
        let point = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.cumulative.partition_point(|&weight| weight <= point).min(self.cumulative.len() - 1)
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Different keys.
    pub keys: usize,
    /// Requests.
    pub requests: usize,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Where the random numbers start: the same seed asks for the same keys.
    pub seed: u64,
}

/// What became of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests.
    pub requests: usize,
    /// Answered from a copy in a node.
    pub copies: usize,
    /// Answered by the origin.
    pub origin: usize,
    /// For keys that the origin does not have.
    pub absent: usize,
    /// Not answered.
    pub lost: usize,
    /// Share answered from copies, in percent.
    pub hit_percent: f64,
    /// Links to the node that answered, on average.
    pub mean_hops: f64,
    /// Times to the answer.
    pub latency: Times,
    /// Answers from copies, by the address of the node.
    pub by_node: BTreeMap<String, usize>,
}

impl Workload {
    /// The text of the key of this rank, from 0.
    pub fn key(rank: usize) -> Key {
        Key::of(&format!("key-{rank}"))
    }

    /// Stores all keys at the origin; how many it took.
    pub fn fill(&self, node: &mut dyn Attached, client: &mut Client) -> Result<usize, Error> {
        let mut stored = 0;
        for rank in 0..self.keys {
            let answer = client.put(node, Self::key(rank), format!("value of key-{rank}").as_bytes())?;
            stored += usize::from(matches!(answer, Answer::Stored(_)));
        }
        Ok(stored)
    }

    /// Asks, one request after the other, and calls `each` after every one.
    pub fn run(
        &self,
        node: &mut dyn Attached,
        client: &mut Client,
        each: &mut dyn FnMut(usize),
    ) -> Result<Outcome, Error> {
        let law = Zipf::new(self.keys, self.exponent);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut outcome = Outcome { requests: self.requests, ..Outcome::default() };
        let (mut times, mut links) = (Vec::with_capacity(self.requests), 0);
        for done in 1..=self.requests {
            let begin = node.now();
            match client.get(node, Self::key(law.draw(&mut random)))? {
                Answer::Value { from, copy, hops, .. } => {
                    times.push(node.now().saturating_sub(begin));
                    links += usize::from(hops);
                    if copy {
                        outcome.copies += 1;
                        *outcome.by_node.entry(from.to_string()).or_default() += 1;
                    } else {
                        outcome.origin += 1;
                    }
                }
                Answer::Absent | Answer::Stored(_) => outcome.absent += 1,
                Answer::Lost => outcome.lost += 1,
            }
            each(done);
        }
        let answered = times.len().max(1) as f64;
        outcome.hit_percent = outcome.copies as f64 * 100.0 / self.requests.max(1) as f64;
        outcome.mean_hops = links as f64 / answered;
        outcome.latency = Times::of(&times);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_law() {
        let law = Zipf::new(100, 1.0);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0u32; 100];
        (0..100_000).for_each(|_| counts[law.draw(&mut random)] += 1);
        // 1 / H(100) = 0.1928.
        assert!((18_700..19_900).contains(&counts[0]), "{}", counts[0]);
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn one_key_is_always_the_first() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        assert_eq!(Zipf::new(1, 0.8).draw(&mut random), 0);
        assert_eq!(Zipf::new(0, 0.8).draw(&mut random), 0);
    }
}
