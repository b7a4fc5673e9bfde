//! Functions of both halves on the same numbers: `bpf/vectors.bpf.c` in the kernel beside their Rust.

use super::maps::{code_places, place};
use super::state::place_of_key;
use super::{Filters, maps, object};
use crate::classify::fields::tests::{self, Vector};
use crate::classify::filter::Watch;
use crate::classify::rule::{ANYWHERE, KeyTuple, Layer, Rule};
use crate::code::link;
use crate::contract::{NEIGHBOUR_PLACES, NEXT_HOPS, budget};
use crate::core::bucket::TokenBucket;
use crate::core::share::Bandwidth;
use crate::sys::bpf::{Hook, Program};
use crate::wire::checksum::checksum;
use crate::wire::{Addr, Digest};

static FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vectors.bpf.o"));

/// The functions, in the order of the C.
const PLACE_OF_ADDRESS: u64 = 0;
const PLACE_OF_CODE: u64 = 1;
const PLACE_OF_KEY: u64 = 2;
const BUCKET: u64 = 3;
const HEADER_SUM: u64 = 4;

/// What the C says.
struct Kernel(Program);

impl Kernel {
    fn open() -> Option<Kernel> {
        if !crate::sys::process::is_root() {
            assert!(std::env::var_os("CI").is_none(), "loading programs needs root, and this must be run");
            println!("SKIPPED: loading programs needs root");
            return None;
        }
        let linked = link::alone(&object::program(FILE, "vectors").unwrap()).unwrap();
        Some(Kernel(Program::load(Hook::Xdp, "anode_vectors", &linked.bytes(), &[], None).unwrap()))
    }

    /// The words after a function has been run on them.
    fn run(&self, function: u64, words: &[u64]) -> [u64; 7] {
        const PASS: u32 = 2;
        let mut question = [0; 8];
        question[0] = function;
        question[1..=words.len()].copy_from_slice(words);
        let mut bytes = question.map(u64::to_ne_bytes);
        assert_eq!(self.0.run_on(bytes.as_flattened_mut()).unwrap(), PASS, "function {function}");
        let [_, answer @ ..] = bytes.map(u64::from_ne_bytes);
        answer
    }
}

macro_rules! kernel {
    () => {
        match Kernel::open() {
            Some(kernel) => kernel,
            None => return,
        }
    };
}

/// Numbers with few, many and all bits, and some without order.
fn numbers() -> Vec<u64> {
    let mixed = (1..40u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(n as u32));
    [0, 1, 2, 7, 0xff, 0xffff, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX]
        .into_iter()
        .chain(mixed)
        .collect()
}

fn words<const COUNT: usize>(bytes: &[u8]) -> [u64; COUNT] {
    core::array::from_fn(|at| u64::from_ne_bytes(*bytes[8 * at..].first_chunk().unwrap()))
}

#[test]
fn addresses_have_the_same_places() {
    let kernel = kernel!();
    let v4 = (0..=255).step_by(5).map(|host| Addr::v4([10, 0, host / 50, host]));
    let v6 = numbers().into_iter().map(|number| {
        let mut addr = Addr([0xfd; 16]);
        addr.0[8..].copy_from_slice(&number.to_be_bytes());
        addr
    });
    for addr in v4.chain(v6) {
        let [high, low] = words(&addr.0);
        for seed in [0, 1, 3, 4095, u32::MAX] {
            for entries in [NEIGHBOUR_PLACES, NEXT_HOPS / 2] {
                let [found, ..] = kernel.run(PLACE_OF_ADDRESS, &[high, low, seed.into(), entries.into()]);
                assert_eq!(found, u64::from(place(addr, seed, entries)), "{addr} {seed} {entries}");
            }
        }
    }
}

#[test]
fn codes_and_keys_have_the_same_places() {
    let kernel = kernel!();
    for number in numbers() {
        let mut name = [0x5a; 32];
        name[..8].copy_from_slice(&number.to_ne_bytes());
        let [home, ..] = kernel.run(PLACE_OF_CODE, &words::<4>(&name));
        assert_eq!(Some(home), code_places(&Digest(name)).next().map(u64::from), "{number:#x}");
        for sets in [1, 2, 256, 1 << 20] {
            let [found, ..] = kernel.run(PLACE_OF_KEY, &[number, u64::from(sets) - 1]);
            assert_eq!(found, u64::from(place_of_key(number, sets)), "{number:#x} of {sets}");
        }
    }
}

/// A bucket in the kernel's words: tokens, part, time; room and rate.
struct Bucket {
    now: [u64; 3],
    room: u64,
    rate: u64,
}

impl Bucket {
    /// So many are charged at a time; what it holds then.
    fn charge(&mut self, kernel: &Kernel, time: u64, amount: u64) -> i64 {
        let [tokens, part, at] = self.now;
        let [tokens, part, at, ..] = kernel.run(BUCKET, &[tokens, part, at, self.room, self.rate, time, amount]);
        self.now = [tokens, part, at];
        tokens as i64
    }
}

/// Charges both halves' buckets the same at the same times, up to a second apart.
fn same_buckets(kernel: &Kernel, rate: u64, room: u64) {
    let mut theirs = Bucket { now: [room, 0, 0], room, rate };
    let mut ours = TokenBucket::new(rate, room);
    let pauses = [0, 1, 7, 999, 1_000, 33_333, 100_000, 250_001, 1_000_000];
    let mut now = 0;
    for (step, number) in numbers().into_iter().cycle().take(300).enumerate() {
        now += pauses[step % pauses.len()] * 1_000;
        let amount = match step % 4 {
            0 => 0,
            1 => number % 16,
            2 => number % room.max(1),
            _ => number % (2 * rate + 1),
        };
        ours.charge(now, amount);
        let found = theirs.charge(kernel, now, amount);
        assert_eq!(found, ours.tokens(), "step {step}: rate {rate}, room {room}, {amount} at {now}");
    }
}

#[test]
fn buckets_hold_the_same() {
    let kernel = kernel!();
    for rate in [1, 7, 10, 999, 1_000, 123_456_789, 100_000_000_000] {
        // As the node tells the kernel half of a domain's packets and time, and of a bandwidth.
        let told = maps::budget([rate, rate], [0, 0]);
        same_buckets(&kernel, rate, u64::from_ne_bytes(budget::PACKETS.of(&told)));
        same_buckets(&kernel, rate, Bandwidth::burst(rate));
    }
}

#[test]
fn headers_have_the_same_sums() {
    let kernel = kernel!();
    let mut right = 0;
    for number in numbers() {
        let mut header = [0; 24];
        header[..20].iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = number.rotate_left(7 * at) as u8);
        header[0] = 0x45;
        for change in [0, 1, 0xff00] {
            header[10..12].fill(0);
            let sum = checksum(&header[..20]).wrapping_add(change);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            let [found, ..] = kernel.run(HEADER_SUM, &words::<3>(&header));
            assert_eq!(found == 1, checksum(&header[..20]) == 0, "{header:?}");
            right += found;
        }
    }
    assert!(right >= numbers().len() as u64, "{right} are right");
}

/// Its frames are the node's alone.
fn taken(rule: &Rule) -> Watch {
    Watch { rule: rule.clone(), is_shared: false }
}

#[test]
fn the_guard_reads_the_fields_of_the_list() {
    const DROP: u32 = 2;
    if Kernel::open().is_none() {
        return;
    }
    let mut filters = Filters::create().unwrap();
    let guard = filters.load("guard_channels").unwrap();
    for Vector { what, rule, mut frame, holds } in tests::all() {
        filters.change(&taken(&rule), true).unwrap();
        assert_eq!(guard.run_on(&mut frame).unwrap() == DROP, holds, "{what}: {frame:02x?}");
        filters.change(&taken(&rule), false).unwrap();
    }
}

#[test]
fn what_is_only_watched_for_the_socket_sees_and_the_stack_keeps() {
    const DROP: u32 = 2;
    if Kernel::open().is_none() {
        return;
    }
    let mut frame = tests::frame(true, 17);
    let rule = |block: &str| Rule {
        port: None,
        layer: Layer::Ip,
        kind: Some(17),
        source: ANYWHERE,
        destination: block.parse().unwrap(),
        source_port: None,
        destination_port: None,
        key: vec![],
    };
    // A socket's filter is run on what is behind a link header, which the kernel takes off first.
    let mut up = [&[0; 12][..], &[8, 0], &frame].concat();
    let (near, wide) = (rule("10.4.5.6/32"), rule("10.0.0.0/8"));
    let mut filters = Filters::create().unwrap();
    let [guard, socket] = ["guard_channels", "filter_channels"].map(|name| filters.load(name).unwrap());
    let shared = |rule: &Rule| Watch { rule: rule.clone(), is_shared: true };
    for (step, (watch, exists, expected)) in [
        (shared(&near), true, (true, false)),
        (taken(&near), true, (true, true)),
        (shared(&near), false, (true, true)),
        (shared(&near), true, (true, true)),
        (taken(&near), false, (true, false)),
        // The more specific one does not hide what is taken.
        (taken(&wide), true, (true, true)),
        (taken(&wide), false, (true, false)),
        (shared(&near), false, (false, false)),
    ]
    .into_iter()
    .enumerate()
    {
        filters.change(&watch, exists).unwrap();
        let seen = socket.run_on(&mut up).unwrap() != 0;
        assert_eq!((seen, guard.run_on(&mut frame).unwrap() == DROP), expected, "step {step}");
    }
    assert!(filters.is_empty());
}

#[test]
fn the_guard_tells_blocks_of_one_beginning_apart() {
    const DROP: u32 = 2;
    if Kernel::open().is_none() {
        return;
    }
    let to = |block: &str, key: &[KeyTuple]| Rule {
        port: None,
        layer: Layer::Ip,
        kind: None,
        source: ANYWHERE,
        destination: block.parse().unwrap(),
        source_port: None,
        destination_port: None,
        key: key.to_vec(),
    };
    let never = KeyTuple { offset: 0, length: 1, value: 0xff, mask: 0xff };
    let mut frame = tests::frame(true, 17);
    // It goes to 10.4.5.6: into the wide block alone, which has the narrow one's address.
    let (narrow, wide, keyed) = (to("10.0.0.0/16", &[]), to("10.0.0.0/8", &[]), to("10.0.0.0/8", &[never]));
    let mut filters = Filters::create().unwrap();
    let guard = filters.load("guard_channels").unwrap();
    let steps = [(&narrow, true, false), (&keyed, true, false), (&wide, true, true), (&narrow, false, true)];
    for (step, (rule, exists, takes)) in steps.into_iter().chain([(&wide, false, false)]).enumerate() {
        filters.change(&taken(rule), exists).unwrap();
        assert_eq!(guard.run_on(&mut frame).unwrap() == DROP, takes, "step {step}");
    }
}
