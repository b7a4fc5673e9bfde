//! Disciplines in virtual time: a link that takes so long for each byte, packets that come, and closed forms of what each class has.

use super::*;
use crate::schedule::discipline::order::TURN;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A packet: its class, its number there, its bytes, when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    class: usize,
    number: u64,
    bytes: usize,
    came: u64,
}

fn class(name: &str) -> ClassSpec {
    ClassSpec { packets: 4_096, ..ClassSpec::named(name) }
}

/// Classes with these weights, in one order.
fn weighted(order: OrderKind, weights: &[u32]) -> DisciplineSpec {
    let one = |(at, weight): (usize, &u32)| ClassSpec { weight: *weight, packets: 600, ..class(&format!("c{at}")) };
    DisciplineSpec { order, rate: None, classes: weights.iter().enumerate().map(one).collect() }
}

/// A link at which a discipline stands.
struct Link {
    discipline: Discipline<Packet>,
    now: u64,
    /// Nanoseconds of a byte.
    byte_ns: u64,
    numbers: Vec<u64>,
}

impl Link {
    fn new(spec: &DisciplineSpec, byte_ns: u64) -> Link {
        spec.check().unwrap();
        Link {
            discipline: Discipline::new(spec, 7, &NoExtensions).unwrap(),
            now: 0,
            byte_ns,
            numbers: vec![0; spec.classes.len()],
        }
    }

    fn put(&mut self, class: usize, bytes: usize) -> Result<(), NoRoom> {
        let packet = Packet { class, number: self.numbers[class], bytes, came: self.now };
        self.discipline.put(class, packet, bytes, self.now).map_err(|(_, why)| why)?;
        self.numbers[class] += 1;
        Ok(())
    }

    /// Sends one packet, and gives it with the time at which its last bit has left; waits for rates.
    fn send(&mut self) -> Option<Packet> {
        loop {
            match self.discipline.next(self.now) {
                Leaving::Packet(packet) => {
                    self.now += packet.bytes as u64 * self.byte_ns;
                    return Some(packet);
                }
                Leaving::At(time) => {
                    assert!(time > self.now && time != u64::MAX, "{time} at {}", self.now);
                    self.now = time;
                }
                Leaving::Nothing => return None,
            }
        }
    }

    /// Sends for so long while each class keeps packets of its length waiting: bytes of each.
    fn flood(&mut self, lengths: &[usize], length: u64) -> Vec<u64> {
        let mut sent = vec![0; lengths.len()];
        for (class, bytes) in lengths.iter().enumerate() {
            (0..4).for_each(|_| self.put(class, *bytes).unwrap());
        }
        let end = self.now + length;
        while self.now < end {
            let packet = self.send().unwrap();
            sent[packet.class] += packet.bytes as u64;
            self.put(packet.class, lengths[packet.class]).unwrap();
        }
        sent
    }
}

#[test]
fn a_hundred_classes_have_what_their_weights_say_to_a_hundredth() {
    let weights: Vec<u32> = (0..100).map(|at| 50 + at * 7).collect();
    let lengths: Vec<usize> = (0..100).map(|at| 64 + at * 37 % 1_450).collect();
    for order in [OrderKind::Wfq, OrderKind::Drr, OrderKind::Edf] {
        let sent = Link::new(&weighted(order.clone(), &weights), 80).flood(&lengths, 60 * SECOND);
        let all: u64 = sent.iter().sum();
        for (at, bytes) in sent.iter().enumerate() {
            let expected = all as f64 * f64::from(weights[at]) / f64::from(weights.iter().sum::<u32>());
            let off = (*bytes as f64 / expected - 1.0).abs();
            assert!(off < 0.01, "{order:?}: class {at} has {bytes} of {expected}");
        }
    }
}

/// Start-time fair queueing: in any interval in which two classes have packets, what they have had in parts of their weights differs
/// by no more than the longest packet of each in parts of its own (Goyal, Vin and Cheng 1997, theorem 1).
#[test]
fn shares_differ_by_a_packet_at_any_time_under_wfq() {
    let (weights, lengths) = ([100, 300, 700], [1_514, 200, 64]);
    let mut link = Link::new(&weighted(OrderKind::Wfq, &weights), 80);
    let mut had = [0f64; 3];
    for (class, bytes) in lengths.iter().enumerate() {
        (0..4).for_each(|_| link.put(class, *bytes).unwrap());
    }
    // Virtual times within a step are not told apart: 16 bytes for each unit of weight and class.
    let part = |class: usize| (lengths[class] as f64 + 16.0 * 64.0 / 256.0) / f64::from(weights[class]);
    let mut most = [[f64::MIN; 3]; 3];
    let mut least = [[f64::MAX; 3]; 3];
    for _ in 0..20_000 {
        let packet = link.send().unwrap();
        had[packet.class] += packet.bytes as f64 / f64::from(weights[packet.class]);
        link.put(packet.class, packet.bytes).unwrap();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let ahead = had[one] - had[other];
            most[one][other] = ahead.max(most[one][other]);
            least[one][other] = ahead.min(least[one][other]);
            let spread = most[one][other] - least[one][other];
            assert!(spread <= part(one) + part(other) + 0.6, "{one} and {other}: {spread}");
        }
    }
}

/// A class that sends no faster than its share: no packet leaves later than its expected arrival, one packet of each other class, and
/// its own length at the link's speed (the same, theorem 4).
#[test]
fn no_packet_is_later_than_the_bound_under_wfq() {
    let mut weights = [100; 101];
    weights[0] = 1_000;
    let mut link = Link::new(&weighted(OrderKind::Wfq, &weights), 80);
    let bytes = 200;
    // A tenth of what the weight gives of 12.5 Mbyte/s, which is 1,000 of 11,000.
    let every = bytes as u64 * 80 * 11_000 / 1_000;
    let bound = 100 * 1_514 * 80 + bytes as u64 * 80;
    let (mut next, mut longest) = (0, 0);
    for class in 1..101 {
        (0..3).for_each(|_| link.put(class, 1_514).unwrap());
    }
    while link.now < 2 * SECOND {
        while next <= link.now {
            let packet = Packet { class: 0, number: 0, bytes, came: next };
            link.discipline.put(0, packet, bytes, link.now).unwrap();
            next += every;
        }
        let packet = link.send().unwrap();
        if packet.class == 0 {
            longest = longest.max(link.now - packet.came);
        } else {
            link.put(packet.class, 1_514).unwrap();
        }
    }
    assert!(longest <= bound + 1_514 * 80, "{longest} of {bound}");
}

/// Deficit round robin: what two classes have had differs by no more than a turn and a packet of each.
#[test]
fn turns_differ_by_a_turn_and_a_packet() {
    let (weights, lengths) = ([100, 250, 400], [1_514, 333, 64]);
    let mut link = Link::new(&weighted(OrderKind::Drr, &weights), 80);
    let turns = weights.map(|weight| TURN * i64::from(weight) / 100);
    for (class, bytes) in lengths.iter().enumerate() {
        (0..4).for_each(|_| link.put(class, *bytes).unwrap());
    }
    let mut had = [0i64; 3];
    for _ in 0..20_000 {
        let packet = link.send().unwrap();
        had[packet.class] += packet.bytes as i64;
        link.put(packet.class, packet.bytes).unwrap();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let part = |class: usize| had[class] as f64 / turns[class] as f64;
            let bound = 1.0 + lengths[one] as f64 / turns[one] as f64 + lengths[other] as f64 / turns[other] as f64;
            assert!((part(one) - part(other)).abs() <= bound, "{one} and {other}: {had:?}");
        }
    }
}

#[test]
fn the_highest_priority_leaves_first_and_waits_for_one_packet_at_most() {
    let mut spec = weighted(OrderKind::Priority, &[100, 100, 100]);
    (spec.classes[1].priority, spec.classes[2].priority) = (7, 3);
    let mut link = Link::new(&spec, 80);
    for class in [0, 2, 1, 0, 2, 1] {
        link.put(class, 100).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| link.send()).map(|packet| (packet.class, packet.number)).collect();
    assert_eq!(order, [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0), (0, 1)]);
}

/// Deadlines of classes that send no more than one packet in each are met to a packet, if together they use no more than the link.
#[test]
fn deadlines_that_can_be_met_are_met_to_a_packet() {
    let mut spec = weighted(OrderKind::Edf, &[100; 5]);
    // Packets of 1,000 bytes take 80 µs: 0.08 + 0.2 + 0.4 + 0.16 = 0.84 of the link; the last class has no deadline and all the rest.
    let every = [MS, 400_000, 200_000, 500_000];
    every.iter().zip(&mut spec.classes).for_each(|(every, class)| class.deadline_ns = *every);
    let mut link = Link::new(&spec, 80);
    let (mut next, mut late) = ([0u64; 4], 0);
    (0..4).for_each(|_| link.put(4, 1_000).unwrap());
    while link.now < SECOND {
        for class in 0..4 {
            while next[class] <= link.now {
                let packet = Packet { class, number: 0, bytes: 1_000, came: next[class] };
                link.discipline.put(class, packet, 1_000, link.now).unwrap();
                next[class] += every[class];
            }
        }
        let packet = link.send().unwrap();
        if packet.class == 4 {
            link.put(4, 1_000).unwrap();
        } else {
            // A packet is not interrupted, one may leave before the deadlines of two packets are told apart, and 66 µs are a step.
            late = late.max((link.now - packet.came).saturating_sub(every[packet.class]));
        }
    }
    assert!(late <= 80_000 + 66_000, "{late}");
}

#[test]
fn a_rate_is_kept_and_used_up() {
    let rate = RateLimit { bits_per_second: 8_000_000, burst: 10_000 };
    let mut spec = weighted(OrderKind::Wfq, &[100, 100]);
    spec.classes[0].rate = Some(rate);
    // 1 Mbyte/s of a link of 12.5; the other class has the rest.
    let mut link = Link::new(&spec, 80);
    let sent = link.flood(&[1_000, 1_000], 10 * SECOND);
    let bound = 10_000_000 + 10_000 + 1_000;
    assert!(sent[0] <= bound && sent[0] >= 9_900_000, "{sent:?}");
    assert!(sent[0] + sent[1] >= 124_000_000, "{sent:?}: the link was idle");
    let whole = DisciplineSpec { rate: Some(rate), ..weighted(OrderKind::Drr, &[100, 300]) };
    let mut link = Link::new(&whole, 80);
    let sent = link.flood(&[1_000, 1_000], 10 * SECOND);
    let all = sent[0] + sent[1];
    assert!(all <= bound && all >= 9_900_000, "{sent:?}");
    assert!((sent[1] as f64 / sent[0] as f64 - 3.0).abs() < 0.03, "{sent:?}");
}

#[test]
fn whoever_comes_alone_waits_for_the_rate_too() {
    let rate = Some(RateLimit { bits_per_second: 8_000_000, burst: BURST_LEAST });
    let mut link = Link::new(&DisciplineSpec { rate, ..weighted(OrderKind::Wfq, &[100]) }, 0);
    let mut sent = 0;
    for _ in 0..1_000 {
        // One at a time: nothing waits when it has left.
        link.put(0, 1_000).unwrap();
        sent += link.send().unwrap().bytes as u64;
        assert!(sent <= link.now / 1_000 + BURST_LEAST + 1_000, "{sent} at {}", link.now);
    }
    assert!(link.now >= 990 * MS);
}

#[test]
fn classes_below_classes_divide_what_those_have() {
    let mut spec = weighted(OrderKind::Priority, &[100; 5]);
    spec.classes[0].priority = 1;
    spec.classes[0].rate = Some(RateLimit { bits_per_second: 50_000_000, burst: BURST_LEAST });
    spec.classes[1].order = OrderKind::Wfq;
    for (at, weight) in [(2, 100), (3, 300), (4, 600)] {
        (spec.classes[at].below, spec.classes[at].weight) = (Some("c1".to_owned()), weight);
    }
    let mut link = Link::new(&spec, 80);
    assert_eq!(
        link.discipline.put(1, Packet { class: 1, number: 0, bytes: 1, came: 0 }, 1, 0).unwrap_err().1,
        NoRoom::Full
    );
    for class in [0, 2, 3, 4] {
        (0..4).for_each(|_| link.put(class, 500).unwrap());
    }
    let mut sent = [0f64; 5];
    while link.now < 10 * SECOND {
        let packet = link.send().unwrap();
        sent[packet.class] += packet.bytes as f64;
        link.put(packet.class, packet.bytes).unwrap();
    }
    // Half of the link for the first, a tenth, three and six tenths of the other half for those below the second.
    let expected = [62.5e6, 0.0, 6.25e6, 18.75e6, 37.5e6];
    for (sent, expected) in sent.iter().zip(expected) {
        assert!((sent - expected).abs() <= expected * 0.01, "{sent} of {expected}");
    }
}

#[test]
fn a_full_queue_gives_packets_back_and_counts_them() {
    let mut spec = weighted(OrderKind::Wfq, &[100, 100]);
    spec.classes[0].packets = 3;
    let mut link = Link::new(&spec, 80);
    let came: Vec<_> = (0..5).map(|_| link.put(0, 100)).collect();
    assert_eq!(came, [Ok(()), Ok(()), Ok(()), Err(NoRoom::Full), Err(NoRoom::Full)]);
    assert!(link.put(1, 100).is_ok(), "another's queue is not full");
    let counts = ClassCounts { full: 2, waiting: 3, ..ClassCounts::default() };
    assert_eq!(link.discipline.counts(0), Some(counts));
    assert_eq!((link.discipline.packets(), link.discipline.bytes()), (4, 400));
    assert_eq!(std::iter::from_fn(|| link.send()).count(), 4);
    let counts = ClassCounts { full: 2, sent: 3, sent_bytes: 300, ..ClassCounts::default() };
    assert_eq!(link.discipline.counts(0), Some(counts));
    assert_eq!((link.discipline.packets(), link.discipline.bytes()), (0, 0));
}

#[test]
fn chance_drops_the_more_the_longer_a_queue_is_on_the_average() {
    let drops = |waiting: usize| {
        let mut spec = weighted(OrderKind::Wfq, &[100]);
        spec.classes[0].admission = Admission::Red(Red { least: 50, most: 150, chance: 0.1 });
        let mut link = Link::new(&spec, 80);
        // As long as that from the first packet on, and for long enough to be so on the average.
        let mut early = 0;
        for round in 0..40_000 {
            while link.discipline.packets() < waiting {
                if link.put(0, 100) == Err(NoRoom::Early) && round > 5_000 {
                    early += 1;
                }
            }
            link.send().unwrap();
        }
        f64::from(early) / 35_000.0
    };
    assert_eq!(drops(40), 0.0);
    let some = drops(101);
    // Half of the way from `least` to `most`: a chance of 0.05, spread evenly between 1 and 2 / 0.05 packets (its paper, 4.2).
    assert!((0.04..0.12).contains(&some), "{some}");
    assert!(drops(140) > some * 1.4);
}

/// What spoils a description.
type Damage = fn(&mut DisciplineSpec);

#[test]
fn what_cannot_be_is_refused_in_words() {
    let good = weighted(OrderKind::Wfq, &[100, 100, 100]);
    let cases: [(Damage, &str); 13] = [
        (|spec| spec.classes.clear(), "needs a class"),
        (|spec| spec.classes = vec![class("x"); 257], "257 classes: at most 256"),
        (|spec| spec.classes[1].name = "c0".into(), "two classes are called 'c0'"),
        (|spec| spec.classes[1].name = "a b".into(), "class a b: a name is 1 to 32 letters"),
        (|spec| spec.classes[0].below = Some("c9".into()), "no class is called so: c0, c1, c2"),
        (|spec| spec.classes[0].below = Some("c0".into()), "it is below itself"),
        (
            |spec| {
                spec.classes[0].below = Some("c1".into());
                spec.classes[1].below = Some("c0".into());
            },
            "it is below itself",
        ),
        (|spec| spec.classes[0].weight = 0, "weight = 0: from 1 to 10000"),
        (|spec| spec.classes[0].packets = 0, "packets = 0: from 1 to 65536"),
        (|spec| spec.classes.iter_mut().for_each(|class| class.packets = 30_000), "queues of 90000 packets"),
        (
            |spec| spec.rate = Some(RateLimit { bits_per_second: 1, burst: BURST_LEAST }),
            "bits_per_second = 1: at least 16000",
        ),
        (|spec| spec.rate = Some(RateLimit { bits_per_second: 1 << 30, burst: 1 }), "burst_bytes = 1: from 3028"),
        (|spec| spec.classes[0].admission = Admission::Red(Red { least: 9, most: 9, chance: 0.5 }), "red from 9 to 9"),
    ];
    assert_eq!(good.check(), Ok(()));
    for (damage, expected) in cases {
        let mut spec = good.clone();
        damage(&mut spec);
        let why = spec.check().unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    assert!("wrr".parse::<OrderKind>().unwrap_err().contains("priority, wfq, drr, edf"));
    assert!(OrderKind::ALL.iter().all(|kind| kind.name().parse() == Ok(kind.clone())));
}

/// A class by where it is below, its share and whether it has a rate.
type Drawn = (usize, u32, u8, u8, bool);

fn tree(order: usize, drawn: &[Drawn]) -> DisciplineSpec {
    let one = |(at, (below, weight, priority, order, is_slow)): (usize, &Drawn)| ClassSpec {
        below: (*below < at).then(|| format!("c{below}")),
        weight: *weight,
        priority: *priority,
        deadline_ns: if *priority % 2 == 0 { 0 } else { u64::from(*weight) * 1_000 },
        rate: is_slow.then_some(RateLimit { bits_per_second: 1_000_000 * u64::from(*weight), burst: BURST_LEAST }),
        order: OrderKind::ALL[usize::from(*order) % 4].clone(),
        packets: 20,
        ..class(&format!("c{at}"))
    };
    DisciplineSpec {
        order: OrderKind::ALL[order % 4].clone(),
        rate: None,
        classes: drawn.iter().enumerate().map(one).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Of any tree: what is let in leaves once and in its class's order, the link rests only while rates hold back all, and sums are right.
    #[test]
    fn every_packet_leaves_once_and_in_order(
        order in 0usize..4,
        drawn in prop::collection::vec((0usize..7, 1u32..2_000, any::<u8>(), any::<u8>(), prop::bool::weighted(0.3)), 1..7),
        steps in prop::collection::vec((0usize..7, 1usize..2_000, 0u64..3_000_000), 1..300),
    ) {
        let spec = tree(order, &drawn);
        prop_assume!(spec.check().is_ok());
        let queues: Vec<usize> = spec.queues().collect();
        let mut link = Link::new(&spec, 80);
        let (mut inside, mut left) = (0, vec![0; spec.classes.len()]);
        for (which, bytes, pause) in steps {
            let class = queues[which % queues.len()];
            let is_full = link.discipline.counts(class).unwrap().waiting >= 20;
            prop_assert_eq!(link.put(class, bytes), if is_full { Err(NoRoom::Full) } else { Ok(()) });
            inside += usize::from(!is_full);
            if pause % 3 == 0 {
                let packet = link.send();
                prop_assert_eq!(packet.is_some(), inside > 0);
                if let Some(packet) = packet {
                    prop_assert_eq!(packet.number, left[packet.class]);
                    left[packet.class] += 1;
                    inside -= 1;
                }
            }
            prop_assert_eq!(link.discipline.packets(), inside);
            link.now += pause;
        }
        while let Some(packet) = link.send() {
            prop_assert_eq!(packet.number, left[packet.class]);
            left[packet.class] += 1;
            inside -= 1;
        }
        prop_assert_eq!((inside, link.discipline.bytes()), (0, 0));
        prop_assert_eq!(left, link.numbers);
    }
}
