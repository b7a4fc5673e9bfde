//! The highest rate without loss (RFC 2544 §26.1).
//!
//! The search begins near a rate, by preference the one that the round before found, goes from there in growing steps until it knows a rate
//! that holds and one that does not, and halves between them. So a round that finds what the last one found needs about four trials.

use super::super::Error;

/// How to search.
pub(crate) struct Search {
    /// The least rate and the most that are tried, in packets a second.
    pub(crate) range: [f64; 2],
    /// Where a search begins of which nothing is known.
    pub(crate) first: f64,
    /// The ratio between a rate that does not hold and the one found.
    pub(crate) close: f64,
}

/// The first step where nothing is known; each is the square of the one before.
const STEP: f64 = 1.4;

impl Search {
    /// The highest rate that `holds`, nearly; 0 if not even the least does. It begins near what was found before.
    pub(crate) fn highest(
        &self,
        before: Option<f64>,
        mut holds: impl FnMut(f64) -> Result<bool, Error>,
    ) -> Result<f64, Error> {
        let [least, most] = self.range;
        let known = before.filter(|rate| *rate > 0.0);
        let mut step = if known.is_some() { self.close.powi(2) } else { STEP };
        let mut rate = known.unwrap_or(self.first).clamp(least, most);
        let (mut low, mut high) = (None, None);
        loop {
            let side = if holds(rate)? { &mut low } else { &mut high };
            *side = Some(rate);
            match (low, high) {
                (Some(low), Some(high)) if high / low <= self.close => return Ok(low),
                (Some(low), Some(high)) => rate = f64::sqrt(low * high),
                (Some(low), None) if low >= most => return Ok(low),
                (Some(low), None) => rate = (low * step).min(most),
                (None, Some(high)) if high <= least => return Ok(0.0),
                (None, Some(high)) => rate = (high / step).max(least),
                (None, None) => return Ok(0.0),
            }
            step *= step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { range: [50_000.0, 8_000_000.0], first: 1_000_000.0, close: 1.03 };

    #[test]
    fn the_highest_rate_is_found_from_below_wherever_the_search_begins() {
        for limit in [50_000.0, 60_000.0, 1_234_567.0, 7_999_999.0] {
            for before in [None, Some(0.0), Some(1.0), Some(limit), Some(limit * 1.02), Some(9e9)] {
                let found = SEARCH.highest(before, |rate| Ok(rate <= limit)).unwrap();
                assert!(found <= limit && found * SEARCH.close >= limit, "{found} for {limit} from {before:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_answers() {
        assert_eq!(SEARCH.highest(None, |_| Ok(false)).unwrap(), 0.0);
        assert_eq!(SEARCH.highest(Some(60_000.0), |_| Ok(true)).unwrap(), 8_000_000.0);
    }

    #[test]
    fn what_was_found_before_is_found_again_by_a_few_trials() {
        let mut trials = 0;
        let mut holds = |rate| {
            trials += 1;
            Ok(rate <= 300_000.0)
        };
        SEARCH.highest(Some(299_000.0), &mut holds).unwrap();
        assert!(trials <= 4, "{trials}");
    }
}
