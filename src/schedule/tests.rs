//! The policies in virtual time: packets with known costs, a clock that moves by them, and the time of each flow.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// When a flow's packets come.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// There is always one more.
    Always,
    /// One each so many nanoseconds, from a first one on.
    Each { every: u64, first: u64 },
    /// Always one more, between two times.
    Between(u64, u64),
    /// None: it is there for those below it.
    Never,
}

/// A flow of a trial.
#[derive(Clone, Debug)]
struct Load {
    share: Share,
    arrivals: Arrivals,
    /// Costs of its packets, in turns.
    costs: Vec<u64>,
    /// The flow above it, which shares with it.
    above: Option<usize>,
}

fn load(share: Share, arrivals: Arrivals, costs: &[u64]) -> Load {
    Load { share, arrivals, costs: costs.to_vec(), above: None }
}

fn weight(weight: u32) -> Share {
    Share { weight, ..Share::default() }
}

fn deadline(deadline_ns: u64) -> Share {
    Share { deadline_ns, ..Share::default() }
}

/// What came of it, by flow.
#[derive(Debug, Default, Clone)]
struct Outcome {
    cpu: u64,
    packets: u64,
    missed: u64,
    /// Counted by the trial itself: packets done later than a deadline after they came.
    late: u64,
    /// The longest a packet was in the node.
    longest: u64,
}

/// Runs flows on one CPU for so long.
fn run(policy: Policy, loads: &[Load], length: u64) -> Vec<Outcome> {
    let mut scheduler = PathScheduler::new(policy);
    let mut outcomes = vec![Outcome::default(); loads.len()];
    let mut queues = vec![VecDeque::new(); loads.len()];
    let mut coming: Vec<u64> = loads
        .iter()
        .map(|load| match load.arrivals {
            Arrivals::Always => 0,
            Arrivals::Each { first, .. } => first,
            Arrivals::Between(from, _) => from,
            Arrivals::Never => u64::MAX,
        })
        .collect();
    for (flow, load) in loads.iter().enumerate() {
        assert!(scheduler.enter_below(flow, load.above, load.share, 0));
    }
    let mut now = 0;
    while now < length {
        arrive(&mut scheduler, loads, &mut queues, &mut coming, now);
        let Some(flow) = scheduler.next(now) else {
            now = coming.iter().copied().min().unwrap().max(now + 1);
            continue;
        };
        let came: u64 = queues[flow].pop_front().expect("who is chosen has work");
        let outcome = &mut outcomes[flow];
        let cost = loads[flow].costs[outcome.packets as usize % loads[flow].costs.len()];
        now += cost;
        outcome.cpu += cost;
        outcome.packets += 1;
        outcome.longest = outcome.longest.max(now - came);
        let limit = loads[flow].share.deadline_ns;
        outcome.late += u64::from(limit > 0 && now - came > limit);
        arrive(&mut scheduler, loads, &mut queues, &mut coming, now);
        scheduler.charge(flow, cost, !queues[flow].is_empty(), now);
    }
    for (flow, outcome) in outcomes.iter_mut().enumerate() {
        outcome.missed = scheduler.missed(flow);
    }
    outcomes
}

fn arrive(scheduler: &mut PathScheduler, loads: &[Load], queues: &mut [VecDeque<u64>], coming: &mut [u64], now: u64) {
    for (flow, load) in loads.iter().enumerate() {
        while coming[flow] <= now {
            let (came, next) = match load.arrivals {
                Arrivals::Each { every, .. } => (coming[flow], coming[flow] + every),
                Arrivals::Always if queues[flow].is_empty() => (now, 0),
                Arrivals::Between(_, until) if now >= until => (now, u64::MAX),
                Arrivals::Between(from, _) if queues[flow].is_empty() => (now, from),
                Arrivals::Always | Arrivals::Between(..) | Arrivals::Never => break,
            };
            coming[flow] = next;
            if next != u64::MAX {
                queues[flow].push_back(came);
                scheduler.wake(flow, now);
            }
        }
    }
}

fn assert_shares(outcomes: &[Outcome], loads: &[Load], tolerance: f64) {
    let weights: u64 = loads.iter().map(|load| u64::from(load.share.weight)).sum();
    let used: u64 = outcomes.iter().map(|outcome| outcome.cpu).sum();
    for (flow, (outcome, load)) in outcomes.iter().zip(loads).enumerate() {
        let fair = used as f64 * f64::from(load.share.weight) / weights as f64;
        let off = (outcome.cpu as f64 / fair - 1.0).abs();
        assert!(off <= tolerance, "flow {flow} of weight {} had {} of {fair}", load.share.weight, outcome.cpu);
    }
}

#[test]
fn shares_follow_weights_whatever_packets_cost() {
    let always = |w: u32, costs: &[u64]| load(weight(w), Arrivals::Always, costs);
    let mixes: [(&str, u64, Vec<Load>); 6] = [
        ("alike", 100, vec![always(1, &[US]), always(1, &[US])]),
        ("weights", 100, vec![always(1, &[US]), always(2, &[US]), always(3, &[US]), always(4, &[US])]),
        ("costs", 300, vec![always(1, &[100]), always(1, &[US]), always(1, &[100 * US])]),
        ("both", 500, vec![always(100, &[150]), always(50, &[3 * US, 80]), always(200, &[70 * US]), always(1, &[US])]),
        ("far apart", 500, vec![always(WEIGHT_MAX / 10, &[97]), always(1, &[97]), always(31, &[40 * US, 100])]),
        ("long packets of a small weight", 2_000, vec![always(1, &[3 * MS]), always(2, &[MS]), always(1, &[10 * US])]),
    ];
    for policy in [Policy::Wfq, Policy::Edf, Policy::Bert] {
        for (name, length, loads) in &mixes {
            println!("{name}, {}", policy.name());
            assert_shares(&run(policy, loads, length * MS), loads, 0.02);
        }
    }
}

#[test]
fn who_was_idle_gets_its_share_from_then_on_and_no_more() {
    let late = load(weight(1), Arrivals::Between(500 * MS, u64::MAX), &[10 * US]);
    let loads = [load(weight(1), Arrivals::Always, &[10 * US]), late];
    let outcomes = run(Policy::Wfq, &loads, 1_000 * MS);
    let half = 250 * MS;
    assert!(outcomes[1].cpu.abs_diff(half) <= half / 50, "{outcomes:?}");
}

#[test]
fn who_had_the_cpu_alone_is_not_made_to_pay_for_it() {
    let guest = load(weight(1), Arrivals::Between(900 * MS, u64::MAX), &[10 * US]);
    let loads = [load(weight(1), Arrivals::Always, &[10 * US]), guest];
    let outcomes = run(Policy::Wfq, &loads, 1_000 * MS);
    assert!(outcomes[0].cpu.abs_diff(950 * MS) <= 2 * MS, "{outcomes:?}");
}

#[test]
fn the_higher_priority_starves_the_lower() {
    let at = |priority| Share { priority, ..Share::default() };
    let loads = [
        load(at(0), Arrivals::Always, &[US]),
        load(at(7), Arrivals::Between(0, 60 * MS), &[US]),
        load(at(255), Arrivals::Between(20 * MS, 40 * MS), &[US]),
        load(at(255), Arrivals::Between(20 * MS, 40 * MS), &[US]),
    ];
    let cpu: Vec<u64> = run(Policy::Priority, &loads, 100 * MS).iter().map(|outcome| outcome.cpu).collect();
    for (used, expected) in cpu.iter().zip([40 * MS, 40 * MS, 10 * MS, 10 * MS]) {
        assert!(used.abs_diff(expected) <= 10 * US, "{cpu:?}");
    }
}

#[test]
fn in_fifo_nobody_waits_longer_than_for_a_packet_of_each() {
    let loads: Vec<_> = (0..10).map(|_| load(weight(1), Arrivals::Always, &[US])).collect();
    let outcomes = run(Policy::Fifo, &loads, 10 * MS);
    assert!(outcomes.iter().all(|outcome| outcome.packets.abs_diff(1000) <= 1), "{outcomes:?}");
    let mut scheduler = PathScheduler::new(Policy::Fifo);
    for flow in [3, 1, 2] {
        scheduler.enter(flow, Share::default(), 0);
        scheduler.wake(flow, 0);
        scheduler.wake(3, 0);
    }
    assert_eq!([0; 4].map(|_| scheduler.next(0)), [Some(3), Some(1), Some(2), None]);
}

/// How many flows [`admitted`] are.
const FLOWS: usize = 40;

/// Flows that want four fifths of the CPU by their deadlines, which are 1 to 10.75 ms.
fn admitted(important: bool) -> Vec<Load> {
    let flow = |n: u64| {
        let every = MS + n * 250 * US;
        let share = Share { priority: u8::from(important), weight: 1, ..deadline(every) };
        load(share, Arrivals::Each { every, first: n * 37 * US }, &[80 * US])
    };
    (0..FLOWS as u64).map(flow).collect()
}

fn met(outcomes: &[Outcome]) -> bool {
    outcomes[..FLOWS].iter().all(|outcome| outcome.missed == 0 && outcome.late == 0 && outcome.packets >= 46)
}

#[test]
fn feasible_deadlines_are_met_at_twice_the_load() {
    // What is too much has no deadlines, or sends a hundred times what it said.
    let rest = load(weight(WEIGHT_MAX), Arrivals::Always, &[100 * US]);
    let greedy = load(deadline(100 * MS), Arrivals::Each { every: MS, first: 0 }, &[100 * US]);
    for too_much in [rest, greedy] {
        let mut loads = admitted(false);
        loads.extend(vec![too_much; 12]);
        let edf = run(Policy::Edf, &loads, 500 * MS);
        assert!(met(&edf), "{edf:#?}");
        let fifo = run(Policy::Fifo, &loads, 500 * MS);
        assert!(fifo[..FLOWS].iter().map(|outcome| outcome.late).sum::<u64>() > 100, "fifo would do: {fifo:#?}");
    }
}

#[test]
fn who_sends_more_than_it_said_is_counted_late() {
    let mut loads = admitted(false);
    loads.push(load(deadline(10 * MS), Arrivals::Each { every: 250 * US, first: 0 }, &[100 * US]));
    let outcomes = run(Policy::Edf, &loads, 500 * MS);
    assert!(met(&outcomes) && outcomes[FLOWS].late > 0, "{outcomes:#?}");
    let impossible = [load(deadline(100 * US), Arrivals::Always, &[MS])];
    let outcome = &run(Policy::Edf, &impossible, 100 * MS)[0];
    assert_eq!(outcome.missed, outcome.packets);
}

#[test]
fn important_deadlines_are_met_and_best_effort_shares_the_rest() {
    let mut loads = admitted(true);
    loads.push(load(weight(300), Arrivals::Always, &[20 * US]));
    loads.push(load(weight(100), Arrivals::Always, &[90 * US]));
    let outcomes = run(Policy::Bert, &loads, 2_000 * MS);
    assert!(met(&outcomes), "{outcomes:#?}");
    let (three, one) = (outcomes[FLOWS].cpu as f64, outcomes[FLOWS + 1].cpu as f64);
    assert!((three / one / 3.0 - 1.0).abs() < 0.02, "{three} {one}");
    let wanted: u64 = outcomes[..FLOWS].iter().map(|outcome| outcome.cpu).sum();
    assert!((three + one - (2_000 * MS - wanted) as f64).abs() < MS as f64, "{three} {one}");
}

#[test]
fn who_is_not_important_keeps_to_its_share() {
    let mut loads = admitted(false);
    loads.push(load(weight(1000), Arrivals::Always, &[20 * US]));
    let outcomes = run(Policy::Bert, &loads, 500 * MS);
    assert!(outcomes[..FLOWS].iter().map(|outcome| outcome.missed).sum::<u64>() > 0);
    assert!(outcomes[FLOWS].cpu > 470 * MS, "a thousand of 1040: {outcomes:#?}");
}

#[test]
fn nobody_steals_from_the_important() {
    // Thieves that want everything, one who can be robbed and one who cannot.
    let thief = Share { priority: 1, weight: 1, ..deadline(MS) };
    let loads = [
        load(thief, Arrivals::Always, &[100 * US]),
        load(weight(100), Arrivals::Always, &[10 * US]),
        load(Share { priority: 9, ..weight(100) }, Arrivals::Always, &[10 * US]),
    ];
    let outcomes = run(Policy::Bert, &loads, 1_000 * MS);
    let immune = 1_000 * MS * 100 / 201;
    assert!(outcomes[2].cpu.abs_diff(immune) <= immune / 50, "{outcomes:#?}");
    assert!(outcomes[0].cpu > 480 * MS && outcomes[1].cpu < 20 * MS, "{outcomes:#?}");
}

#[test]
fn who_leaves_is_never_chosen_and_comes_back_as_new() {
    for policy in Policy::ALL {
        let mut scheduler = PathScheduler::new(policy);
        for flow in 0..3 {
            scheduler.enter(flow, deadline(MS), 0);
            scheduler.wake(flow, 0);
        }
        let running = scheduler.next(0).unwrap();
        scheduler.leave(running);
        scheduler.charge(running, US, true, 0);
        scheduler.leave((running + 1) % 3);
        scheduler.wake((running + 1) % 3, 0);
        assert_eq!([0; 2].map(|_| scheduler.next(0)), [Some((running + 2) % 3), None], "{policy:?}");
        scheduler.enter(running, Share::default(), 0);
        assert_eq!((scheduler.next(0), scheduler.missed(running)), (None, 0));
        scheduler.wake(running, 0);
        assert_eq!(scheduler.next(0), Some(running));
        assert_eq!(scheduler.waiting(), 0);
    }
}

#[test]
fn flows_that_do_not_exist_change_nothing() {
    let mut scheduler = PathScheduler::new(Policy::Bert);
    assert!(!scheduler.enter(FLOWS_MAX, Share::default(), 0));
    assert!(scheduler.enter(FLOWS_MAX - 1, Share { weight: 0, ..Share::default() }, 0));
    for flow in [0, 5, FLOWS_MAX, usize::MAX] {
        scheduler.wake(flow, 0);
        scheduler.charge(flow, 1, true, 0);
        scheduler.leave(flow);
        assert_eq!(scheduler.missed(flow), 0);
    }
    assert_eq!(scheduler.next(0), None);
}

#[test]
fn a_packet_that_comes_while_its_flow_runs_is_not_forgotten() {
    let mut scheduler = PathScheduler::new(Policy::Wfq);
    scheduler.enter(0, Share::default(), 0);
    scheduler.wake(0, 0);
    assert_eq!(scheduler.next(0), Some(0));
    scheduler.wake(0, 0);
    scheduler.charge(0, US, false, US);
    assert_eq!(scheduler.next(US), Some(0));
    scheduler.charge(0, US, false, US);
    assert_eq!(scheduler.next(US), None);
}

#[test]
fn names_are_words_and_shares_are_checked() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    assert!("round-robin".parse::<Policy>().unwrap_err().contains("wfq"));
    assert!(Share::default().check().is_ok());
    assert!(weight(0).check().is_err() && weight(WEIGHT_MAX + 1).check().is_err());
    assert!(deadline(DEADLINE_NS_MAX + 1).check().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever is called in whatever order: who is chosen has work and was not chosen before, and who has work is chosen some time.
    #[test]
    fn every_flow_with_work_runs_and_no_other(
        policy in prop::sample::select(Policy::ALL.to_vec()),
        steps in prop::collection::vec((0u8..6, 0usize..12, 1u64..5_000_000), 1..300),
    ) {
        let mut scheduler = PathScheduler::new(policy);
        // Absent, or how many packets wait; and who runs.
        let (mut work, mut running): (Vec<Option<u32>>, Vec<usize>) = (vec![None; 12], vec![]);
        let mut now = 0;
        for (step, flow, number) in steps {
            now += number / 3;
            match step {
                0 => {
                    let share = Share {
                        weight: number as u32 % WEIGHT_MAX + 1,
                        priority: number as u8 % 3,
                        deadline_ns: if number % 3 == 0 { number << (number % 14) } else { 0 },
                    };
                    scheduler.enter(flow, share, now);
                    work[flow] = work[flow].or(Some(0));
                }
                1 if number % 4 == 0 => {
                    scheduler.leave(flow);
                    work[flow] = None;
                    running.retain(|other| *other != flow);
                }
                1 | 2 => {
                    scheduler.wake(flow, now);
                    work[flow] = work[flow].map(|count| count + 1);
                }
                3 | 4 => {
                    let ready = |flow: &usize| work[*flow].is_some_and(|n| n > 0) && !running.contains(flow);
                    prop_assert_eq!(scheduler.waiting(), (0..12).filter(ready).count());
                    let next = scheduler.next(now);
                    prop_assert_eq!(next.is_some(), (0..12).any(|flow| ready(&flow)));
                    if let Some(flow) = next {
                        prop_assert!(ready(&flow));
                        running.push(flow);
                        work[flow] = work[flow].map(|count| count - 1);
                    }
                }
                _ => if let Some(flow) = running.pop() {
                    scheduler.charge(flow, number, work[flow] > Some(0), now);
                }
            }
        }
        for flow in running {
            scheduler.charge(flow, 1, work[flow] > Some(0), now);
        }
        while let Some(flow) = scheduler.next(now) {
            prop_assert!(work[flow] > Some(0));
            work[flow] = work[flow].map(|count| count - 1);
            now += 1_000_000;
            scheduler.charge(flow, 1_000_000, work[flow] > Some(0), now);
        }
        prop_assert!(work.iter().all(|count| count.unwrap_or(0) == 0));
    }
}

mod beside;
mod trees;
