//! No frame is lost without a counter: asserted for every node at the end of a run, and at each step on request.

use super::Simulation;
use super::host::Inmate;
use crate::node::Node;

impl Simulation {
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
        let Some(Inmate::Node(workers)) = self.inmates.get(node) else { return };
        for alive in workers.all() {
            let lost = alive.unaccounted(&[]);
            assert!(
                lost.total() == 0,
                "seed {:#x}, at {} ns: node {node} cannot account for {lost:?}: {:?}\n{:?}",
                self.world.seed,
                self.world.now,
                alive.balance(),
                alive.drops().happened().collect::<Vec<_>>(),
            );
        }
        let handed = workers.all().map(|worker| worker.balance().handed).fold(0, u64::wrapping_add);
        let held: u64 = workers.all().map(Node::held_back).sum();
        let (between, now) = (self.between_workers(node) + held, self.world.now);
        assert!(handed == between, "at {now} ns: {handed} handed over at node {node}, {between} between its workers");
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
    use crate::core::ledger::Unaccounted;
    use crate::frame::PortId;
    use crate::node::Node;
    use crate::sim::{Line, Network, Shape, Simulation};

    fn simulation() -> Simulation {
        Simulation::new(Network::new(Shape::Line { nodes: 2 }, Line::default(), 1).unwrap(), 1).unwrap()
    }

    #[test]
    #[should_panic(expected = "node: 1, ports: 0, domains: 0")]
    fn a_frame_that_vanishes_is_missed() {
        let mut simulation = simulation();
        simulation.run_for(1_000_000);
        simulation.inmates[0].node_mut().unwrap().vanish();
        simulation.run_for(1);
    }

    #[test]
    #[should_panic(expected = "node: 1, ports: 0, domains: 0")]
    fn a_frame_that_is_counted_twice_is_missed() {
        let mut simulation = simulation();
        simulation.inmates[0].node_mut().unwrap().count_twice();
        drop(simulation);
    }

    /// What is not accounted for after this.
    fn after(wrong: impl FnOnce(&mut Node)) -> Unaccounted {
        let mut simulation = simulation();
        let node = simulation.inmates[0].node_mut().unwrap();
        assert_eq!(node.unaccounted(&[]), Unaccounted::default());
        wrong(node);
        let lost = node.unaccounted(&[]);
        // It is not asserted once more.
        std::mem::forget(simulation);
        lost
    }

    #[test]
    fn a_wrong_count_of_a_port_a_domain_plan_or_the_kernel_is_missed_by_itself() {
        let port = PortId(0);
        let none = Unaccounted::default();
        assert_eq!(after(|node| node.vanish_in_plan()), Unaccounted { environments: 1, ..none });
        assert_eq!(after(|node| node.vanish_in_kernel()), Unaccounted { cuts: 1, ..none });
        assert_eq!(after(|node| node.vanish_at(port)), Unaccounted { node: 1, ports: 1, ..none });
        let other = |node: &mut Node| {
            let role = crate::trust::Role::anyone(Default::default());
            node.connect("other", &role).unwrap().1
        };
        let both = after(|node| {
            let (one, two) = (other(node), other(node));
            node.vanish_in(one, two);
            assert_eq!((node.unaccounted_of(one), node.unaccounted_of(two)), (1, -1));
        });
        assert_eq!(both, Unaccounted { domains: 2, ..none }, "they do not cancel each other");
    }
}
