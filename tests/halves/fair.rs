//! What strangers' capsules may use of a CPU in the kernel half: nobody chooses which packet is timed, a port has a ceiling, and the buckets are those of the
//! user half.

use super::place::{Came, Place, frame, header};
use anode::nodeos::bucket::TokenBucket;
use anode::nodeos::limits::Limits;
use anode::wire::Digest;
use std::io::Write;
use std::process::{Command, Stdio};

/// Packets of a share under the default limits.
const SHARE: usize = 256;
const SHARES: usize = 24;

fn place() -> Option<(Place, Digest, [Vec<u8>; 2])> {
    let mut place = Place::within(Limits { kernel_us_per_second: 1 << 30, ..Limits::default() })?;
    place.half().set_share(1000).unwrap();
    let code = place.add_guest("costly");
    let rounds = [0u32, 2000].map(|rounds| [rounds.to_be_bytes(), [0; 4]].concat());
    let frames = rounds.map(|payload| frame(&header(code), &payload, false));
    // One share, so that the next packet begins another.
    assert!((0..SHARE).all(|_| matches!(place.kernel(&frames[0]), Came::Sent(_))));
    Some((place, code, frames))
}

/// Nanoseconds charged for shares of packets, of which the first are cheap and the others dear; the least of some tries, since a test is interrupted.
fn charged_for(place: &Place, code: Digest, frames: &[Vec<u8>; 2], cheap: usize) -> u64 {
    let try_once = || {
        let before = place.usage(code).time_ns;
        for packet in 0..SHARES * SHARE {
            let frame = &frames[usize::from(packet % SHARE >= cheap)];
            assert!(matches!(place.kernel(frame), Came::Sent(_)));
        }
        place.usage(code).time_ns - before
    };
    (0..3).map(|_| try_once()).min().unwrap_or(0)
}

#[test]
fn cheap_packets_where_shares_begin_do_not_stand_for_dear_ones() {
    let Some((place, code, frames)) = place() else { return };
    let [cheap, trick, dear] = [SHARE, SHARE / 8, 0].map(|cheap| charged_for(&place, code, &frames, cheap));
    assert!(dear > 4 * cheap, "the dear ones are dear: {dear}, {cheap}");
    assert!(trick > dear / 3, "seven in eight are dear, and are charged as such: {trick} of {dear}, {cheap}");
}

/// What used to be the most that a packet was charged, in nanoseconds.
const FEW: u64 = 100_000;

#[test]
fn a_packet_is_charged_all_the_time_that_the_verifier_lets_its_code_run() {
    let Some(mut place) = Place::within(Limits { kernel_us_per_second: 1 << 30, ..Limits::default() }) else { return };
    place.half().set_share(1000).unwrap();
    // For a loader of few rights the verifier refuses loops of many rounds, so it takes many calls to get as far; time is charged alike.
    place.form = anode::trust::Form::Trusted;
    let code = place.add_guest("lasting");
    let frame = frame(&header(code), &[0; 8], false);
    let count = 2 * SHARE as u64;
    for _ in 0..count {
        assert!(matches!(place.kernel(&frame), Came::Sent(_)));
    }
    // 120,000 divisions, one after the other, take a multiple of that on every processor.
    let usage = place.usage(code);
    assert!(usage.time_ns > count * FEW, "{usage:?}");
}

#[test]
fn capsules_of_a_port_have_a_ceiling_and_what_is_beyond_is_counted() {
    let Some((place, code, frames)) = place() else { return };
    assert_eq!(place.counts().dropped_over_share, 0, "a port may have all");
    place.half().set_share(1).unwrap();
    let before = place.usage(code).packets;
    let sent = (0..20_000).filter(|_| matches!(place.kernel(&frames[1]), Came::Sent(_))).count() as u64;
    assert_eq!(place.usage(code).packets - before, sent, "what is refused is not the code's");
    assert_eq!(place.counts().dropped_over_share, 20_000 - sent);
    assert!(sent < 10_000, "a thousandth of a CPU is less than this: {sent}");
}

#[test]
fn a_bucket_is_the_same_in_both_halves() {
    let dir = std::env::temp_dir().join(format!("anode-bucket-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = dir.join("bucket");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/halves/bucket.c");
    let built = Command::new("clang").args(["-O2", "-w", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for rate in [1u64, 10, 999, 4000, 500_000_000, 100_000_000_000] {
        let steps: Vec<(u64, u64)> = (0..2000).map(|_| (1 + next(200_000), next(rate / 4 + 2))).collect();
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines: String = steps.iter().map(|(passed, spent)| format!("{passed} {spent}\n")).collect();
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(format!("{rate}\n{lines}").as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let kernel: Vec<i64> =
            std::str::from_utf8(&output.stdout).unwrap().lines().map(|it| it.parse().unwrap()).collect();
        let (mut bucket, mut now) = (TokenBucket::new(rate, rate / 10 + 1), 0);
        let user = steps.iter().map(|(passed, spent)| {
            now += passed * 1000;
            bucket.charge(now, *spent);
            bucket.tokens()
        });
        assert_eq!(user.collect::<Vec<_>>(), kernel, "rate {rate}");
    }
    let _ = std::fs::remove_dir_all(dir);
}
