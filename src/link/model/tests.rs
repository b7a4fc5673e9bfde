//! The model of a link: rate, delay, loss, from a seed.

use super::*;

const MS: u64 = 1_000_000;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn model(quality: LinkQuality) -> LinkModel {
    quality.check().unwrap();
    LinkModel::new(&quality)
}

/// 1000 bytes take a millisecond, and as much to the other end.
fn slow() -> LinkQuality {
    LinkQuality { rate_mbit: 8.0, delay_ms: 1.0, ..LinkQuality::default() }
}

#[test]
fn frames_wait_for_those_before_them_and_a_full_queue_refuses() {
    let mut link = model(LinkQuality { queue_bytes: 2500, ..slow() });
    let rng = &mut rng(1);
    assert_eq!(link.carry(0, 1000, rng), Fate::Arrives(2 * MS));
    assert_eq!(link.carry(0, 1000, rng), Fate::Arrives(3 * MS));
    assert_eq!(link.queued(0), 2000);
    assert_eq!(link.carry(0, 1000, rng), Fate::Full);
    assert_eq!(link.queued(MS), 1000);
    assert_eq!(link.carry(MS, 1000, rng), Fate::Arrives(4 * MS));
    assert_eq!(link.queued(60_000 * MS), 0);
}

#[test]
fn a_queue_may_be_full_of_frames_however_short() {
    let mut link = model(LinkQuality { queue_packets: 2, ..slow() });
    let rng = &mut rng(1);
    let fates = [0, 0, 0, MS / 10, MS / 5].map(|now| link.carry(now, 100, rng));
    let arrives = |tenths: u64| Fate::Arrives(MS + tenths * MS / 10);
    assert_eq!(fates, [arrives(1), arrives(2), Fate::Full, arrives(3), arrives(4)]);
}

/// In a second of 1 Mbit/s, whatever is offered, leave 125,000 bytes and no more than the last frame besides.
#[test]
fn no_more_leaves_than_the_rate_permits() {
    let quality = LinkQuality { rate_mbit: 1.0, queue_bytes: 20_000, ..LinkQuality::default() };
    for (gap, bytes) in [(10_000, 60), (100_000, 1514), (1_000_000, 700), (4_000_000, 9000)] {
        let (mut link, mut left) = (model(quality), 0);
        for at in (0..1000 * MS).step_by(gap) {
            if let Fate::Arrives(when) = link.carry(at, bytes, &mut rng(1)) {
                left += if when <= 1000 * MS { bytes } else { 0 };
            }
        }
        let offered = bytes * (1000 * MS as usize / gap);
        let most = offered.min(125_000);
        assert!((most - bytes..=125_000).contains(&left), "{bytes} bytes: {left} of {most}");
    }
}

/// 60 bytes take 4.8 ns of 100 Gbit/s.
#[test]
fn parts_of_nanoseconds_add_up() {
    let mut link = model(LinkQuality { rate_mbit: 1e5, queue_bytes: 1 << 20, ..LinkQuality::default() });
    let last = (0..10_000).map(|_| link.carry(0, 60, &mut rng(1))).last();
    assert_eq!(last, Some(Fate::Arrives(48_000)));
}

#[test]
fn chances_strike_as_often_as_they_say_and_as_the_seed_says() {
    let quality = LinkQuality { loss: 0.2, duplicate: 0.1, ..LinkQuality::default() };
    let run = |seed| {
        let (mut link, mut rng) = (model(quality), rng(seed));
        (0..100_000).map(|at| link.carry(at, 100, &mut rng)).collect::<Vec<_>>()
    };
    for seed in 1..9 {
        let fates = run(seed);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let twice = fates.iter().filter(|fate| matches!(fate, Fate::Twice(..))).count();
        assert!((19_400..20_600).contains(&lost), "{lost}");
        assert!((7_600..8_400).contains(&twice), "{twice}");
        assert_eq!(fates, run(seed));
        assert_ne!(fates, run(seed + 1));
    }
}

#[test]
fn jitter_keeps_within_its_bounds_and_the_order() {
    let quality = LinkQuality { delay_ms: 10.0, jitter_ms: 4.0, ..LinkQuality::default() };
    let (mut link, mut rng) = (model(quality), rng(3));
    let mut last = 0;
    let (mut early, mut late) = (0, 0);
    for number in 0..10_000 {
        let sent = number * MS;
        let Fate::Arrives(at) = link.carry(sent, 100, &mut rng) else { panic!("lost") };
        assert!(at >= last && (sent + 6 * MS..=sent + 14 * MS).contains(&at), "{sent} {at}");
        early += u64::from(at < sent + 8 * MS);
        late += u64::from(at > sent + 12 * MS);
        last = at;
    }
    assert!(early > 100 && late > 1000, "{early} {late}");
}

#[test]
fn frames_that_are_held_back_are_overtaken() {
    let quality = LinkQuality { delay_ms: 1.0, reorder: 0.1, reorder_ms: 5.0, ..LinkQuality::default() };
    let (mut link, mut rng) = (model(quality), rng(4));
    let times: Vec<u64> = (0..10_000)
        .map(|number| match link.carry(number * MS, 100, &mut rng) {
            Fate::Arrives(at) => at,
            fate => panic!("{fate:?}"),
        })
        .collect();
    let held = times.iter().zip(0..).filter(|(at, sent)| **at > (sent + 1) * MS).count();
    assert!((900..1100).contains(&held), "{held}");
    assert!(times.is_sorted_by_key(|at| at / (6 * MS)) || times.windows(2).any(|pair| pair[0] > pair[1]));
    assert!(times.windows(2).any(|pair| pair[0] > pair[1]));
}

#[test]
fn a_cut_link_carries_nothing() {
    let mut link = model(LinkQuality::default());
    link.cuts = 1;
    assert_eq!(link.carry(0, 100, &mut rng(1)), Fate::Cut);
}

/// What waits longer than a window is load in all windows in which it leaves, though it came in one.
#[test]
fn load_is_the_share_of_the_last_full_window_in_which_the_line_was_busy() {
    let mut link = model(slow());
    assert_eq!(link.line().load(5 * WINDOW), Some(0));
    // 150 ms of work, from the middle of a window on.
    for _ in 0..150 {
        assert_ne!(link.carry(WINDOW / 2, 1000, &mut rng(1)), Fate::Full);
    }
    let load = |link: &LinkModel| [0, 1, 2, 3].map(|window| link.line().load(window * WINDOW + 7));
    assert_eq!(load(&link), [Some(0), Some(500), Some(1000), Some(0)]);
    // As much as one frame more in the next window.
    link.carry(WINDOW + WINDOW / 4, 1000, &mut rng(1));
    assert_eq!(link.line().load(WINDOW + WINDOW / 2), Some(500));
    assert_eq!([2, 3, 4].map(|window| link.line().load(window * WINDOW)), [Some(1000), Some(10), Some(0)]);
    assert_eq!(model(LinkQuality::default()).line().load(WINDOW), None, "nothing is known of a line without a rate");
}

#[test]
fn a_changed_link_lets_what_is_on_it_leave_first() {
    let mut link = model(slow());
    link.carry(0, 5000, &mut rng(1));
    let mut faster = link.changed(&LinkQuality { rate_mbit: 80.0, ..slow() }, 0);
    assert_eq!(faster.carry(0, 1000, &mut rng(1)), Fate::Arrives(MS / 2 + MS / 10 + MS));
}

/// What waits are bytes, whatever the rate was by which they came.
#[test]
fn a_changed_link_has_as_many_bytes_waiting_as_before() {
    let quality = |rate_mbit| LinkQuality { rate_mbit, ..LinkQuality::default() };
    let mut link = model(quality(1.0));
    while link.carry(0, 1000, &mut rng(1)) != Fate::Full {}
    let (now, waits) = (WINDOW, link.queued(WINDOW));
    for rate in [100.0, 1.0, 0.1] {
        let mut changed = link.changed(&quality(rate), now);
        assert!((waits - 2..=waits).contains(&changed.queued(now)), "{rate}");
        assert_ne!(changed.carry(now, 1000, &mut rng(1)), Fate::Full, "{rate}");
    }
    // All of the window before was busy; 250 kB take 20 ms of this one.
    let faster = link.changed(&quality(100.0), now);
    let load = |window: u64| faster.line().load(window * WINDOW);
    assert_eq!((load(1), load(3)), (Some(1000), Some(0)));
    assert!((190..=210).contains(&load(2).unwrap()), "{:?}", load(2));
    let unlimited = link.changed(&quality(0.0), now);
    assert_eq!((unlimited.queued(now), unlimited.line().load(now)), (0, None));
}
