//! How often the node may ask for a program of a graph. Example: an operator edits a graph a hundred times a second, and each edit is one
//! program.
//!
//! The kernel verifies each, for up to a tenth of a second, in the broker's thread. Nobody's share pays for that, and a node under an
//! attacker's control would ask for one after the other.

/// Programs of graphs that are asked for within a second, from the first of them on.
pub const GRAPHS_PER_SECOND: u64 = 1000;

const SECOND: u64 = 1_000_000_000;

/// What was asked for.
#[derive(Default)]
pub(super) struct Paced {
    /// When the second ends that counts, in nanoseconds.
    until: u64,
    /// Programs in it.
    taken: u64,
    refused: u64,
}

impl Paced {
    /// Lets one more be asked for at `now`, in nanoseconds, or refuses it.
    pub fn take(&mut self, now: u64) -> Result<(), String> {
        if now >= self.until {
            (self.until, self.taken) = (now + SECOND, 0);
        }
        if self.taken < GRAPHS_PER_SECOND {
            self.taken += 1;
            return Ok(());
        }
        self.refused += 1;
        let refused = self.refused;
        // A node that asks on and on does not fill the log.
        if refused.is_power_of_two() {
            tracing::warn!(refused, "the node asks for more programs of graphs than anybody edits graphs");
        }
        Err(format!(
            "graph-rate: at most {GRAPHS_PER_SECOND} programs of graphs are loaded in a second ({refused} were refused so far); apply it \
             again"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_so_many_programs_of_graphs_in_a_second_and_no_more() {
        let mut paced = Paced::default();
        let taken =
            |paced: &mut Paced, now: u64| (0..3 * GRAPHS_PER_SECOND).filter(|_| paced.take(now).is_ok()).count();
        assert_eq!(taken(&mut paced, 5 * SECOND), 1000);
        assert_eq!(paced.refused, 2000);
        let why = paced.take(6 * SECOND - 1).unwrap_err();
        assert!(why.starts_with("graph-rate: at most 1000") && why.contains("2001 were refused"), "{why}");
        assert_eq!(taken(&mut paced, 6 * SECOND), 1000);
        assert_eq!(taken(&mut paced, 90 * SECOND), 1000);
    }
}
