//! One packet, two halves, many packets: cases from a seed, over every shipped program and those of tests/guests.
//!
//! `tests/halves/capsules.rs` has the list of cases with a name each; here they are made. A user half alone and a kernel half
//! with a user half above it get the same frames at the same times, and must do the same (`halves/pair.rs`).
//!
//!     SEED=42 ANODE_CASES=1000000 cargo test --release --test halves random:: -- --nocapture

use crate::draft::{Form, mend_ipv4};
use crate::generator::{Case, Generator, Kind, Mix, ROUGH, Subject, TRAFFIC};
use crate::pair::{Pair, Share};
use crate::place::{Place, shipped};

/// The programs of tests/guests that cases are made for, and their weights; those of shipped applications are 20 each.
/// Not `symbols`, which puts chance into its packets.
const GUESTS: [(&str, &str, usize); 10] = [
    ("forward", "forward", 6),
    ("state", "state", 6),
    ("changes", "changes", 6),
    ("calls", "calls", 4),
    ("acts", "acts", 4),
    ("sends", "sends", 4),
    ("loop", "loop", 3),
    ("guest-ping", "ping", 3),
    ("deliver", "deliver", 1),
    ("forge", "forge", 1),
];

impl Subject {
    /// Whether the kernel half takes frames of this form: docs/kernel-half.md, "What runs there".
    pub fn takes(form: Form) -> bool {
        Form::ALL.contains(&form)
    }
}

fn number(name: &str, fallback: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

/// Both halves with every program in them, each program having run once.
fn pair(seed: u64, mix: Mix) -> Option<(Pair, Generator)> {
    let mut place = Place::new()?;
    let mut subjects = vec![];
    for (title, code) in shipped() {
        let refused = place.add_app(title).err();
        subjects.push(Subject { title, code, sends: title == "multicast", weight: 20, refused });
    }
    for (title, file, weight) in GUESTS {
        let (code, added) = place.try_guest(file);
        subjects.push(Subject { title, code, sends: title == "sends", weight, refused: added.err() });
    }
    let mut generator = Generator::new(seed, subjects.clone(), mix);
    let mut pair = Pair::new(place, subjects);
    for subject in 0..pair.subjects.len() {
        let frame = generator.transit(subject, Form::V4Udp, 0).frame();
        pair.warm_up(subject, 0, &frame);
    }
    Some((pair, generator))
}

/// Prints where the cases ended, and gives the shares of all that the kernel half claims, and of the capsules of
/// shipped applications among them that are good and in transit.
fn report(pair: &Pair) -> (Share, Share) {
    let (mut all, mut transit) = (Share::default(), Share::default());
    let shipped: Vec<_> = shipped().into_iter().map(|(_, code)| code).collect();
    for ((subject, claimed, kind), share) in &pair.shares {
        let subject = &pair.subjects[*subject];
        let form = if *claimed { "" } else { ", a form that the kernel half does not take" };
        println!("{:10} {kind:?}{form}: {share:?}", subject.title);
        if subject.refused.is_some() || !claimed {
            assert_eq!(share.kernel, 0, "{}{form}: the kernel half does not claim it", subject.title);
            continue;
        }
        let on_its_way = *kind == Kind::Transit && shipped.contains(&subject.code);
        for sum in if on_its_way { vec![&mut all, &mut transit] } else { vec![&mut all] } {
            sum.cases += share.cases;
            sum.kernel += share.kernel;
            sum.up += share.up;
            sum.up_run += share.up_run;
        }
    }
    for subject in &pair.subjects {
        if let Some(why) = &subject.refused {
            println!("{:10} runs in the user half: {}", subject.title, why.lines().next().unwrap_or_default());
        }
    }
    println!(
        "claimed: {} of 1000 ended in the kernel; shipped, in transit: {} of 1000",
        all.permille(),
        transit.permille()
    );
    println!("{} cases took too long to be judged", pair.unjudged);
    (all, transit)
}

fn settle(pair: &mut Pair) -> (Share, Share) {
    assert_eq!(pair.place.alone.log(), pair.place.above.log());
    let entries = pair.compare_state();
    let shares = report(pair);
    assert!(pair.differences.is_empty(), "{}", pair.differences.join("\n"));
    println!("{entries} entries of soft state compared");
    shares
}

fn run(seed: u64, cases: u64, mix: Mix) -> Option<(Share, Share)> {
    let seed = number("SEED", seed);
    let cases = number("ANODE_CASES", cases);
    println!("SEED={seed} ANODE_CASES={cases}");
    let (mut pair, mut generator) = pair(seed, mix)?;
    for number in 0..cases {
        let case = generator.next();
        let case = Case { what: format!("case {number} of seed {seed}: {}", case.what), ..case };
        pair.judge(&case);
    }
    let shares = settle(&mut pair);
    assert!(pair.unjudged * 2 <= cases, "{} of {cases} cases took too long to be judged", pair.unjudged);
    Some(shares)
}

#[test]
fn traffic_comes_out_alike_and_nine_of_ten_capsules_end_in_the_kernel() {
    let Some((all, transit)) = run(1, 4000, TRAFFIC) else { return };
    assert!(all.permille() >= 900, "{all:?}");
    assert!(transit.permille() >= 990, "{transit:?}");
}

#[test]
fn strange_frames_come_out_alike() {
    let Some((all, _)) = run(2, 8000, ROUGH) else { return };
    assert!(all.permille() >= 300, "most were strange, but not all: {all:?}");
}

/// Every byte of the headers set to several values, with and without a mended checksum; every length.
#[test]
fn every_byte_and_every_length_comes_out_alike() {
    let Some((mut pair, mut generator)) = pair(3, TRAFFIC) else { return };
    for form in Form::ALL {
        let subject = pair.subjects.iter().position(|subject| subject.title == "ping").unwrap();
        let good = generator.transit(subject, form, 0).frame();
        let headers = good.len().min(14 + 48 + 8 + 88 + 12);
        let mut judge = |what: String, bytes: Vec<u8>| {
            pair.judge(&Case { what, subject, form, kind: Kind::Mutated, port: 0, bytes, steps: 0 });
        };
        for at in 0..headers {
            for value in [good[at] ^ 1, good[at] ^ 0x80, good[at].wrapping_add(1), 0, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                judge(format!("{form:?}, byte {at} is {value:#x}"), bytes.clone());
                if form.is_v4() && (14..34).contains(&at) {
                    mend_ipv4(&mut bytes);
                    judge(format!("{form:?}, byte {at} is {value:#x}, checksum mended"), bytes);
                }
            }
        }
        for length in 14..good.len() + 64 {
            let mut bytes = good.clone();
            bytes.resize(length, 0);
            judge(format!("{form:?}, {length} bytes of {}", good.len()), bytes);
        }
    }
    settle(&mut pair);
}
