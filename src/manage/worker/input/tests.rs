//! Closed forms of what each port has by an order.

use super::*;
use crate::manage::extensions::Extensions;
use crate::schedule::Share;
use crate::schedule::discipline::OrderKind;
use crate::sys::clock::Clock;

pub fn spec(order: OrderKind, shares: &[(u32, u8)]) -> InputSpec {
    let share = |(weight, priority): &(u32, u8)| Share { weight: *weight, priority: *priority, ..Share::default() };
    InputSpec { order, shares: shares.iter().map(share).collect() }
}

fn by_weights(order: OrderKind, weights: [u32; 3]) -> Input {
    Input::new(spec(order, &weights.map(|weight| (weight, 0))), &NoExtensions).unwrap()
}

/// Batches of ports that always have more, each port's of one length: looks at what each has had after each batch.
fn flood(input: &mut Input, lengths: [usize; 3], mut look: impl FnMut([u64; 3])) {
    for batch in 0..30_000 {
        // The poll says it again each round.
        (0..3).for_each(|at| input.wake(at, batch));
        let at = input.next(batch).unwrap();
        input.charge(at, lengths[at], true, batch);
        look([0, 1, 2].map(|at| input.counts(at).unwrap().frames));
    }
}

const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

/// Start-time fair queueing (Goyal, Vin and Cheng 1997, theorem 1): frames in parts of weights differ by no more than a batch of each.
#[test]
fn under_wfq_ports_differ_by_a_batch_of_each_at_any_time() {
    let (weights, lengths) = ([100, 300, 700], [64, 17, 1]);
    // Virtual times within a step are not told apart: a step is less than a frame.
    let part = |at: usize| (lengths[at] as f64 + 1.0) / f64::from(weights[at]);
    flood(&mut by_weights(OrderKind::Wfq, weights), lengths, |had| {
        for (one, other) in PAIRS {
            let ahead = had[one] as f64 / f64::from(weights[one]) - had[other] as f64 / f64::from(weights[other]);
            assert!(ahead.abs() <= part(one) + part(other), "{one} and {other}: {had:?}");
        }
    });
}

/// Deficit round robin: ports differ by a turn and a batch of each; the least weight has a turn of a full batch.
#[test]
fn under_drr_ports_differ_by_a_turn_and_a_batch_of_each() {
    let (weights, lengths) = ([100, 250, 400], [64, 30, 1]);
    let turn = |at: usize| BATCH as f64 * f64::from(weights[at]) / 100.0;
    flood(&mut by_weights(OrderKind::Drr, weights), lengths, |had| {
        for (one, other) in PAIRS {
            let part = |at: usize| had[at] as f64 / turn(at);
            let bound = 1.0 + lengths[one] as f64 / turn(one) + lengths[other] as f64 / turn(other);
            assert!((part(one) - part(other)).abs() <= bound, "{one} and {other}: {had:?}");
        }
    });
}

#[test]
fn a_port_that_was_idle_has_no_more_for_that() {
    for order in [OrderKind::Wfq, OrderKind::Drr] {
        let mut input = by_weights(order, [100, 100, 100]);
        for now in 0..1_000 {
            input.wake(0, now);
            let at = input.next(now).unwrap();
            input.charge(at, 64, true, now);
        }
        let mut had = [0u64; 2];
        for now in 1_000..1_100 {
            (0..2).for_each(|at| input.wake(at, now));
            let at = input.next(now).unwrap();
            had[at] += 64;
            input.charge(at, 64, true, now);
            assert!(had[0].abs_diff(had[1]) <= 2 * 64, "{had:?}");
        }
    }
}

/// Frames of the highest port come while a batch of another is taken: that batch is all that it waits for.
#[test]
fn under_priority_the_highest_port_waits_for_one_batch_at_most() {
    let mut input = Input::new(spec(OrderKind::Priority, &[(100, 0), (100, 9), (100, 3)]), &NoExtensions).unwrap();
    let (mut waits_for, mut served) = (None, 0);
    for batch in 0..10_000u64 {
        [0, 2].into_iter().for_each(|at| input.wake(at, batch));
        if let Some(taken) = &waits_for {
            assert!(*taken <= 1, "{taken} batches of others");
            assert!(input.may_be_overtaken(), "the poll is asked");
            input.wake(1, batch);
        }
        assert!(waits_for.is_none() || !input.may_be_overtaken(), "nobody is above it");
        match input.next(batch).unwrap() {
            1 => {
                input.charge(1, 1, false, batch);
                (waits_for, served) = (None, served + 1);
            }
            at => {
                assert_eq!((at, waits_for), (2, None), "not the lowest, and none while it waits");
                // In the middle of this batch some come for the highest.
                waits_for = batch.is_multiple_of(7).then_some(1);
                input.charge(at, 64, true, batch);
            }
        }
    }
    assert!(served > 1_000, "{served}");
    // While the highest itself waits, and where all are alike, the poll is left alone.
    let mut alike = Input::new(spec(OrderKind::Priority, &[(100, 4), (100, 4)]), &NoExtensions).unwrap();
    assert!(!alike.may_be_overtaken(), "nobody waits");
    alike.wake(0, 0);
    assert!(!alike.may_be_overtaken());
}

/// What an extension's text brings, as an order of three ports.
fn brought(module: &[u8], order: &str) -> Input {
    let extensions = Extensions::start(Clock::start(), false).unwrap();
    let policies = extensions.prepare(vec![module.to_vec()]).unwrap().policies;
    Input::new(spec(order.parse().unwrap(), &[(100, 0); 3]), &policies).unwrap()
}

#[test]
fn an_extension_says_of_which_port_the_next_frames_are() {
    let mut input = brought(include_bytes!("../../../../apps/extensions/shares.wat"), "shares/Shares(1, 3, 7)");
    let lengths = [64, 17, 1];
    flood(&mut input, lengths, |had| {
        for (one, other) in PAIRS {
            let part = |at: usize, frames: u64| frames as f64 / [1.0, 3.0, 7.0][at];
            let bound = part(one, lengths[one] as u64) + part(other, lengths[other] as u64) + 1.0;
            let ahead = part(one, had[one]) - part(other, had[other]);
            assert!(ahead.abs() <= bound, "{one} and {other}: {had:?}");
        }
    });
    assert!((0..3).all(|at| input.counts(at).unwrap().failed == 0));
    // What a panic has left half done is thrown away; the worker makes no other one.
    input.wake(1, 0);
    input.begin_anew();
    assert_eq!((input.waiting(), input.next(1)), (0, None));
    input.wake(2, 1);
    assert_eq!(input.next(1), Some(2));
}

#[test]
fn each_worker_s_order_of_an_extension_has_memory_of_its_own() {
    let text = r#"(module (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
      (func (export "Next") (param i32) (result i32)
        (i64.store (i32.const 4096) (i64.add (i64.load (i32.const 4096)) (i64.const 1)))
        (i64.store (i32.const 0) (i64.rem_u (i64.load (i32.const 4096)) (i64.const 3))) (i32.const 8))
      (@custom "anode.extension" "name = 'ring'\n[[engine]]\nname = 'Next'\nports = '1-/1'\norder = true"))"#;
    let extensions = Extensions::start(Clock::start(), false).unwrap();
    let policies = extensions.prepare(vec![text.as_bytes().to_vec()]).unwrap().policies;
    let made = || Input::new(spec("ring/Next".parse().unwrap(), &[(100, 0); 3]), &policies).unwrap();
    let mut workers = [made(), made()];
    for turn in 0..30 {
        for input in &mut workers {
            (0..3).for_each(|at| input.wake(at, turn));
            // As if there were no other one.
            assert_eq!(input.next(turn), Some((turn as usize + 1) % 3));
            input.charge((turn as usize + 1) % 3, 1, true, turn);
        }
    }
}

#[test]
fn a_port_has_its_turn_when_the_order_of_an_extension_fails() {
    let text = |body: &str| {
        format!(
            "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (func (export \"Bad\") (param i32) (result i32) {body})
               (@custom \"anode.extension\" \"name = 'bad'\\n[[engine]]\\nname = 'Bad'\\nports = '1-/1'\\norder = true\"))"
        )
    };
    for body in
        ["unreachable", "(loop $l (br $l)) (i32.const 0)", "(i64.store (i32.const 0) (i64.const 9)) (i32.const 8)"]
    {
        let mut input = brought(text(body).as_bytes(), "bad/Bad");
        for turn in 0..100 {
            let at = turn as usize % 3;
            input.wake(at, turn);
            assert_eq!(input.next(turn), Some(at), "{body}");
            input.charge(at, 5, false, turn);
        }
        let failed: u64 = (0..3).map(|at| input.counts(at).unwrap().failed).sum();
        assert_eq!(failed, 100, "{body}");
    }
}

#[test]
fn what_a_panic_has_left_half_done_is_thrown_away_and_counts_stay() {
    for order in [OrderKind::Priority, OrderKind::Wfq, OrderKind::Drr] {
        let mut input = by_weights(order, [100, 100, 100]);
        (0..3).for_each(|at| input.wake(at, 0));
        let first = input.next(0).unwrap();
        input.charge(first, 5, true, 0);
        // Taken, and never charged.
        input.next(0).unwrap();
        input.begin_anew();
        assert_eq!((input.waiting(), input.next(1)), (0, None));
        assert_eq!(input.counts(first).map(|counts| (counts.batches, counts.frames)), Some((1, 5)));
        (0..3).for_each(|at| input.wake(at, 1));
        let mut all: Vec<_> = std::iter::from_fn(|| {
            let at = input.next(1)?;
            input.charge(at, 1, false, 1);
            Some(at)
        })
        .collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }
}

#[test]
fn a_port_that_the_order_does_not_know_yet_is_left_alone() {
    let mut input = by_weights(OrderKind::Wfq, [100, 100, 100]);
    input.wake(3, 0);
    input.charge(3, 1, true, 0);
    assert_eq!((input.waiting(), input.counts(3)), (0, None));
}
