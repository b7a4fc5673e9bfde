//! Shares of shares: a flow's part of the CPU depends neither on the number of flows below it nor on their arrival.

use super::*;

/// A flow below another one.
fn below(above: usize, share: Share, arrivals: Arrivals, costs: &[u64]) -> Load {
    Load { above: Some(above), ..load(share, arrivals, costs) }
}

/// What each flow at the top had of the CPU, with all below it.
fn tops(loads: &[Load], outcomes: &[Outcome]) -> Vec<f64> {
    let total: u64 = outcomes.iter().map(|outcome| outcome.cpu).sum();
    let mut tops = vec![0.0; loads.len()];
    for (flow, outcome) in outcomes.iter().enumerate() {
        let mut top = flow;
        while let Some(above) = loads[top].above {
            top = above;
        }
        tops[top] += outcome.cpu as f64 / total as f64;
    }
    tops
}

fn assert_near(share: f64, wanted: f64, what: &str) {
    assert!((share - wanted).abs() <= 0.02, "{what}: {share} in the place of {wanted}");
}

#[test]
fn thirty_flows_below_one_have_its_share() {
    for policy in [Policy::Wfq, Policy::Edf, Policy::Bert] {
        let mut loads = vec![load(weight(400), Arrivals::Always, &[7 * US]), load(weight(100), Arrivals::Never, &[1])];
        loads.extend((0..30).map(|at| below(1, weight(10 + at), Arrivals::Always, &[3 * US, 9 * US])));
        let outcomes = run(policy, &loads, 400 * MS);
        assert_near(tops(&loads, &outcomes)[1], 0.2, policy.name());
        // And divide it by their weights.
        let total: u64 = outcomes[2..].iter().map(|outcome| outcome.cpu).sum();
        let weights: u32 = (0..30).map(|at| 10 + at).sum();
        for (at, outcome) in outcomes[2..].iter().enumerate() {
            let wanted = f64::from(10 + at as u32) / f64::from(weights);
            assert_near(outcome.cpu as f64 / total as f64, wanted, "its part");
        }
    }
}

#[test]
fn flows_that_wake_in_turns_have_no_more_than_flows_that_always_have_work() {
    for policy in [Policy::Wfq, Policy::Edf] {
        // One packet of one of thirty each 10 µs: without shares of shares each would start where the others are, and
        // its packet run at once.
        let mut loads = vec![load(weight(400), Arrivals::Always, &[10 * US]), load(weight(100), Arrivals::Never, &[1])];
        let each = |at: u64| Arrivals::Each { every: 300 * US, first: at * 10 * US };
        loads.extend((0..30).map(|at| below(1, weight(100), each(at), &[10 * US])));
        let outcomes = run(policy, &loads, 200 * MS);
        assert_near(tops(&loads, &outcomes)[1], 0.2, policy.name());
    }
}

#[test]
fn a_flow_with_work_of_its_own_is_one_of_those_that_divide_its_share() {
    let loads = [
        load(weight(300), Arrivals::Always, &[5 * US]),
        load(weight(100), Arrivals::Always, &[5 * US]),
        below(1, weight(300), Arrivals::Always, &[2 * US]),
        below(2, weight(100), Arrivals::Always, &[11 * US]),
    ];
    let outcomes = run(Policy::Wfq, &loads, 400 * MS);
    let total: u64 = outcomes.iter().map(|outcome| outcome.cpu).sum();
    let shares: Vec<f64> = outcomes.iter().map(|outcome| outcome.cpu as f64 / total as f64).collect();
    // A quarter, of which a quarter is its own; of the rest three quarters and one.
    for (share, wanted) in shares.iter().zip([0.75, 0.0625, 0.1875 * 0.75, 0.1875 * 0.25]) {
        assert_near(*share, wanted, "its part");
    }
}

#[test]
fn who_is_alone_below_has_all_that_is_there() {
    let loads = [
        load(weight(100), Arrivals::Never, &[1]),
        below(0, weight(100), Arrivals::Always, &[5 * US]),
        below(0, weight(300), Arrivals::Between(50 * MS, 100 * MS), &[5 * US]),
        load(weight(100), Arrivals::Always, &[5 * US]),
    ];
    let outcomes = run(Policy::Wfq, &loads, 200 * MS);
    assert_near(tops(&loads, &outcomes)[0], 0.5, "the two together");
    let wanted = (150 * MS + 50 * MS / 4) as f64 / (200 * MS) as f64;
    assert_near(outcomes[1].cpu as f64 / (100 * MS) as f64, wanted, "a quarter while the other is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
    /// Flows enter, move, wake, run and leave in any order: nobody is lost, and what is active above is what has work below.
    #[test]
    fn trees_keep_their_sums(steps in prop::collection::vec((0usize..24, 0usize..24, 1u16..500, 0u8..6), 1..400)) {
        let mut scheduler = PathScheduler::new(Policy::Wfq);
        let mut above: Vec<Option<usize>> = vec![None; 24];
        for (at, other, weight, what) in steps {
            match what {
                0 | 1 if at > other => {
                    above[at] = Some(other).filter(|other| scheduler.knows(*other));
                    scheduler.enter_below(at, above[at], super::weight(weight.into()), 0);
                }
                0 | 1 => {
                    above[at] = None;
                    scheduler.enter(at, super::weight(weight.into()), 0);
                }
                2 | 3 => scheduler.wake(at, 0),
                4 => {
                    if let Some(flow) = scheduler.next(0) {
                        scheduler.charge(flow, weight.into(), other % 2 == 0, 0);
                    }
                }
                // What is below goes first, as domains do.
                _ => (at..24).rev().filter(|flow| is_below(&above, *flow, at)).for_each(|flow| scheduler.leave(flow)),
            }
            scheduler.tree.check();
        }
    }
}

fn is_below(above: &[Option<usize>], flow: usize, top: usize) -> bool {
    let mut at = Some(flow);
    while let Some(flow) = at.filter(|flow| *flow != top) {
        at = above[flow];
    }
    at == Some(top)
}
