//! Shares of strangers' capsules on a CPU of the kernel half: the timed packet is random, a port has a ceiling, and the
//! buckets are those of the user half.

use crate::place::{Came, Place, frame, header};
use anode::core::bucket::TokenBucket;
use anode::sys::realtime::pin;
use anode::trust::limits::Limits;
use anode::wire::Digest;
use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// Packets of a share under the default limits, and shares that are looked at.
const SHARE: usize = 256;
const SHARES: usize = 64;

/// A place for one code that is cheap or dear, as a packet says, and packets of both kinds. This thread stays on its
/// CPU, each of which has shares of its own.
fn place() -> Option<(Place, Digest, [Vec<u8>; 2])> {
    let mut place = Place::within(Limits { kernel_us_per_second: 1 << 30, ..Limits::default() })?;
    pin(&[rustix::thread::sched_getcpu()]).unwrap();
    place.half().set_share(1000).unwrap();
    let code = place.add_guest("costly");
    let rounds = [0u32, 2000].map(|rounds| [rounds.to_be_bytes(), [0; 4]].concat());
    let frames = rounds.map(|payload| frame(&header(code), &payload, false));
    // One share, so that the next packet begins another.
    assert!((0..SHARE).all(|_| matches!(place.kernel(&frames[0]), Came::Sent(_))));
    Some((place, code, frames))
}

/// Which packet of a share was timed: with it what the code has taken grows, by its own time once for each packet of the share.
fn timed(place: &Place, code: Digest, frame: &[u8]) -> usize {
    let mut timed = Vec::new();
    for packet in 0..SHARE {
        let before = place.usage(code).time_ns;
        assert!(matches!(place.kernel(frame), Came::Sent(_)));
        let charged = place.usage(code).time_ns - before;
        if charged > 0 {
            assert_eq!(charged % SHARE as u64, 0, "it stands for all of the share");
            timed.push(packet);
        }
    }
    assert_eq!(timed.len(), 1, "one of a share is timed: {timed:?}");
    timed[0]
}

/// So nobody can send cheap packets where it counts and dear ones elsewhere. By chance this fails less than once in a million million runs.
#[test]
fn cheap_packets_where_shares_begin_do_not_stand_for_dear_ones() {
    let Some((place, code, frames)) = place() else { return };
    let places: Vec<usize> = (0..SHARES).map(|_| timed(&place, code, &frames[0])).collect();
    for part in 0..8 {
        let there = places.iter().filter(|place| **place * 8 / SHARE == part).count();
        assert!(there < SHARES / 2, "an eighth of each share has half of what is timed: {places:?}");
    }
    assert!(places.iter().collect::<HashSet<_>>().len() > SHARES / 2, "any packet may be the one: {places:?}");
}

/// What a packet is charged of whose code nobody knows that it takes long, in nanoseconds, at most.
const FEW: u32 = 100_000;

#[test]
fn a_packet_is_charged_all_the_time_that_the_verifier_lets_its_code_run() {
    // The kernel half's own arithmetic, at times that are made up: what one packet can take at most, and what has passed since it began.
    let mut lines = String::new();
    let cases = [0, 1, FEW, FEW + 1, 10 * FEW, u32::MAX]
        .into_iter()
        .flat_map(|most| [0, 50, FEW, FEW + 1, 5 * FEW, 20 * FEW].map(|time| (most, time)));
    cases.clone().for_each(|(most, time)| lines.push_str(&format!("{most} {time}\n")));
    let expected: Vec<i64> = cases.map(|(most, time)| time.min(most.max(FEW)).into()).collect();
    assert_eq!(in_c("took", &lines), expected);
    let Some(mut place) = Place::within(Limits { kernel_us_per_second: 1 << 30, ..Limits::default() }) else { return };
    // For a loader of few rights the verifier refuses loops of many rounds, so it takes many calls to get as far; time is charged alike.
    place.form = anode::trust::CodeForm::Trusted;
    let [short, long] = ["costly", "lasting"].map(|guest| place.add_guest(guest));
    let most = |code| place.half().most_ns(&code).unwrap();
    // It has 120,000 divisions, one after the other.
    assert!(most(long) > 120_000 && most(long) > most(short), "{} {}", most(long), most(short));
}

#[test]
fn capsules_of_a_port_have_a_ceiling_and_what_is_beyond_is_counted() {
    let Some((place, code, frames)) = place() else { return };
    assert_eq!(place.counts().dropped_over_share, 0, "a port may have all");
    place.half().set_share(1).unwrap();
    let before = place.usage(code).packets;
    let goes_on = |_: &u64| matches!(place.kernel(&frames[1]), Came::Sent(_));
    // While a packet takes its time, a thousandth of that comes back: so there is an end, however quick the machine.
    let sent = (0u64..).take_while(goes_on).count() as u64;
    assert_eq!(place.counts().dropped_over_share, 1);
    let later = (0..1000).filter(goes_on).count() as u64;
    assert_eq!(place.counts().dropped_over_share, 1 + 1000 - later);
    assert_eq!(place.usage(code).packets - before, sent + later, "what is refused is not the code's");
}

/// What a part of the kernel half, compiled for this machine (`tests/halves/NAME.c`), prints for these lines: a number each.
fn in_c(name: &str, lines: &str) -> Vec<i64> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    let source = format!("{}/tests/halves/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("clang").args(["-O2", "-w", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(lines.as_bytes()).unwrap());
        child.wait_with_output().unwrap()
    });
    std::str::from_utf8(&output.stdout).unwrap().lines().map(|it| it.parse().unwrap()).collect()
}

#[test]
fn a_bucket_is_the_same_in_both_halves() {
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for rate in [1u64, 10, 999, 4000, 500_000_000, 100_000_000_000] {
        let steps: Vec<(u64, u64)> = (0..2000).map(|_| (1 + next(200_000), next(rate / 4 + 2))).collect();
        let lines: String = steps.iter().map(|(passed, spent)| format!("{passed} {spent}\n")).collect();
        let kernel = in_c("bucket", &format!("{rate}\n{lines}"));
        let (mut bucket, mut now) = (TokenBucket::new(rate, rate / 10 + 1), 0);
        let user = steps.iter().map(|(passed, spent)| {
            now += passed * 1000;
            bucket.charge(now, *spent);
            bucket.tokens()
        });
        assert_eq!(user.collect::<Vec<_>>(), kernel, "rate {rate}");
    }
}
