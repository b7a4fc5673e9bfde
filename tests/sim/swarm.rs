//! Swarms: random networks, and invariants of all of them at every step.
//!
//! A seed chooses shape, links, tables, addresses, keys of neighbours, what ports demand, roles, schedulers, PLAN's
//! settings, codes (good, wasteful, wrong, random and signed ones), traffic, revocations, faults, and who is hostile.
//! Hostile places replay, bend and forge what they hear, proofs and revocations too. After each step of the simulation
//! the books must balance; what an honest node sends must be well-formed and fit; no table may be larger than it may
//! be; and when all is over nothing may be left. `SEED=n` replays one swarm, `ANODE_SWARMS=n` is how many there are
//! (the soak has many).

mod hostile;
mod random;
mod rules;

use crate::guests;
use anode::sim::{Change, MS, Simulation, To, Traffic};
use hostile::Hostile;
use random::Dice;
use rules::Rules;

/// Swarms in the test suite.
const SWARMS: u64 = 12;
/// Virtual time in which things happen, in milliseconds.
const LIFE_MS: u64 = 3000;

/// What a run came to: for the same seed always the same.
#[derive(Debug, PartialEq)]
struct Outcome {
    report: String,
    steps: u64,
}

fn swarm(seed: u64) -> Outcome {
    let dice = &mut Dice::new(seed);
    let network = dice.network(seed);
    let rules = Rules::of(&network);
    let mut sim = crate::net::simulation(network, seed).unwrap_or_else(|why| panic!("SEED={seed}: {why}"));
    sim.watch_balance();
    let hostile: Vec<usize> = (0..sim.nodes()).filter(|_| dice.one_in(6)).collect();
    let seats: Vec<_> = (0..sim.nodes()).map(|node| sim.attach_plan(node, node as u32 + 100)).collect();
    rules.watch(&mut sim, &hostile);
    let codes = dice.codes();
    let names: Vec<_> = codes.iter().map(|code| code.name()).collect();
    for node in 0..sim.nodes() {
        let policy = dice.policy();
        sim.with_node(node, |node, turn| node.set_scheduler(policy, turn.now));
        sim.open(node, 1);
        for code in &codes {
            if dice.one_in(3) {
                sim.add_code(node, code);
            }
        }
    }
    for node in &hostile {
        sim.replace(*node, Box::new(Hostile::new(dice.fork(), &codes, sim.nodes())));
    }
    traffic(dice, &mut sim, &codes);
    faults(dice, &mut sim, &hostile);
    let mut steps = 0;
    for slice in 0..LIFE_MS / 50 {
        if let Some(node) = hostile.get(dice.below(hostile.len().max(1))) {
            let frame = Hostile::new(dice.fork(), &codes, sim.nodes()).frame();
            sim.put_frame(*node, 0, &frame);
        }
        let from = dice.below(sim.nodes());
        if let (Some(seat), true) = (seats[from], sim.is_up(from)) {
            let _ = sim.inject_plan(from, seat.port, &dice.plan(from, sim.nodes()));
        }
        if dice.one_in(10) && sim.is_up(from) {
            sim.revoke(from, &dice.revocation(&names));
        }
        let until = (slice + 1) * 50 * MS;
        while sim.now() < until {
            // A swarm that makes this many steps in so short a time multiplies what it was given.
            assert!(steps < 2_000_000, "SEED={seed}: {}", sim.report());
            if !sim.step() {
                break;
            }
            steps += 1;
            rules.frames(seed);
            rules.books(&sim, seed);
            rules.tables(&sim, seed);
        }
    }
    hostile.iter().for_each(|node| sim.replace(*node, Box::new(hostile::Silent)));
    rules.nothing_stays(&mut sim, seed);
    rules.frames(seed);
    Outcome { report: format!("{:?}", sim.report()), steps }
}

fn traffic(dice: &mut Dice, sim: &mut Simulation, codes: &[anode::code::bundle::Bundle]) {
    for code in codes {
        let from = (0..sim.nodes()).filter(|_| dice.one_in(3)).collect::<Vec<_>>();
        if from.is_empty() {
            continue;
        }
        sim.add_traffic(Traffic {
            from,
            to: To::Random,
            bound: dice.pick(&[1, 2, 7, 64, 300, u32::MAX]),
            payload: vec![dice.below(256) as u8; dice.pick(&[0, 8, 64, 700, 1300])],
            per_second: dice.pick(&[1.0, 10.0, 60.0]),
            stop: LIFE_MS * MS,
            ..Traffic::everywhere(sim.nodes(), code.name())
        });
    }
}

fn faults(dice: &mut Dice, sim: &mut Simulation, hostile: &[usize]) {
    let links = sim.network().links.len();
    for _ in 0..dice.below(6) {
        let (at, lasts) = (dice.below(LIFE_MS as usize) as u64 * MS, dice.below(1000) as u64 * MS);
        let node = dice.below(sim.nodes());
        if dice.one_in(2) && !hostile.contains(&node) {
            sim.change_at(at, Change::Crash { node });
            sim.change_at(at + lasts, Change::Restart { node, store_kept: dice.one_in(2) });
        } else {
            let link = dice.below(links);
            sim.change_at(at, Change::Cut { link });
            sim.change_at(at + lasts, Change::Mend { link });
        }
    }
}

#[test]
fn whatever_comes_together_the_rules_hold_at_every_step() {
    let base = guests::seed(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs());
    let count = std::env::var("ANODE_SWARMS").ok().and_then(|text| text.parse().ok()).unwrap_or(SWARMS);
    let mut steps = 0;
    for seed in base..base + count {
        steps += swarm(seed).steps;
    }
    println!("{count} swarms from SEED={base}, {steps} steps");
    assert!(steps > count * 50, "{steps} steps: nothing happens in these swarms");
}

#[test]
fn a_swarm_is_the_same_every_time() {
    for seed in [3, 8] {
        assert_eq!(swarm(seed), swarm(seed), "SEED={seed}");
    }
}

#[test]
fn a_rule_that_is_broken_is_noticed() {
    rules::notices_what_is_wrong();
}
