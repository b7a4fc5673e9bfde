//! No frame is lost without a counter: asserted for every node at the end of a run, and at each step on request.

use super::Simulation;
use super::host::Inmate;
use crate::core::ledger::Balance;

impl Simulation {
    /// What became of the frames of a node, unless it is down.
    pub fn balance(&self, node: usize) -> Option<Balance> {
        Some(self.inmates.get(node)?.node()?.balance())
    }

    /// From now on [`Simulation::assert_balanced`] is called behind each step.
    pub fn watch_balance(&mut self) {
        self.world.watched = true;
    }

    /// Asserts that every frame of every node is where its counters say.
    ///
    /// # Panics
    /// A node has lost a frame without a counter, or counted one twice.
    pub fn assert_balanced(&self) {
        (0..self.inmates.len()).for_each(|node| self.assert_balanced_at(node));
    }

    pub(super) fn assert_balanced_at(&self, node: usize) {
        let Some(Inmate::Node(alive)) = self.inmates.get(node) else { return };
        let balance = alive.balance();
        assert!(
            balance.unaccounted() == 0 && alive.unaccounted_of_codes() == 0,
            "seed {:#x}, at {} ns: node {node} cannot account for {} frames, {} of codes: {balance:?}\n{:?}",
            self.world.seed,
            self.world.now,
            balance.unaccounted(),
            alive.unaccounted_of_codes(),
            alive.drops().happened().collect::<Vec<_>>(),
        );
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_balanced();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sim::{Line, Network, Shape, Simulation};

    fn simulation() -> Simulation {
        Simulation::new(Network::new(Shape::Line { nodes: 2 }, Line::default(), 1).unwrap(), 1).unwrap()
    }

    #[test]
    #[should_panic(expected = "cannot account for 1 frames")]
    fn a_frame_that_vanishes_is_missed() {
        let mut simulation = simulation();
        simulation.run_for(1_000_000);
        simulation.inmates[0].node_mut().unwrap().vanish();
        simulation.run_for(1);
    }

    #[test]
    #[should_panic(expected = "cannot account for -1 frames")]
    fn a_frame_that_is_counted_twice_is_missed() {
        let mut simulation = simulation();
        simulation.inmates[0].node_mut().unwrap().count_twice();
        drop(simulation);
    }
}
