//! Payloads of every program: every message of its protocol in both directions, every field with likely and unlikely
//! values. Offsets are those of the structures in `apps/*.c` and `tests/guests/*.c`.

use super::dice::Dice;
use super::place::{OWN_LEFT, v6};
use anode::wire::Addr;

/// Keep times: far from what the clock steps by, so that nothing ends within the time a case takes.
const KEEP_MS: [u32; 6] = [0, 32, 100, 60_000, 289_952, u32::MAX];

/// A payload for the program of this title that comes from `source` and goes to `destination`.
pub fn payload(title: &str, dice: &mut Dice, source: Addr, destination: Addr) -> Vec<u8> {
    let mut bytes = match title {
        "ping" => ping(dice),
        "cache" => cache(dice, source, destination),
        "heavy" => heavy(dice),
        "trace" => trace(dice),
        "multicast" => multicast(dice, source, destination),
        "state" => state(dice),
        "changes" => changes(dice),
        "acts" => acts(dice, source),
        "sends" => sends(dice, source, destination),
        "calls" => dice.bytes(104),
        "loop" => dice.bytes(128),
        "guest-ping" => [&[0, 0, 0, 1, dice.below(2) as u8, 0, 0, 0][..], &[0; 8]].concat(),
        "forge" => vec![0; 8],
        _ => vec![],
    };
    // What is behind the window is carried along.
    let more = *dice.pick(&[0, 0, 0, 1, 7, 64, 400]);
    bytes.extend(dice.bytes(more));
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn ping(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.bytes(12);
    bytes[8] = *dice.pick(&[0, 0, 0, 1, 1, 2, 255]);
    bytes[9] = *dice.pick(&[0, 1, 7, 254, 255]);
    bytes[10] = *dice.pick(&[0, 1, 254, 255]);
    bytes
}

fn cache(dice: &mut Dice, source: Addr, destination: Addr) -> Vec<u8> {
    let mut bytes = vec![0; 120];
    let kind = *dice.pick(&[1, 1, 1, 2, 3, 3, 3, 4, 5, 0, 6, 255]);
    bytes[0] = kind;
    bytes[1] = *dice.pick(&[0, 0, 0, 0, 1, 2, 3, 255]);
    bytes[2] = *dice.pick(&[0, 5, 64, 64, 65, 255]);
    bytes[3] = *dice.pick(&[0, 1, 254, 255]);
    put(&mut bytes, 4, &dice.bytes(4));
    put(&mut bytes, 8, &(dice.below(6) as u32).wrapping_sub(2).to_be_bytes());
    put(&mut bytes, 12, &dice.pick(&KEEP_MS).to_be_bytes());
    put(&mut bytes, 16, &dice.pick(&[5u16, 3322, 0, 9]).to_be_bytes());
    let key = dice.below(5) as u8;
    put(&mut bytes, 24, &[key; 16]);
    // Requests go to the origin, and answers come from there.
    let origin = if kind <= 2 { destination } else { source };
    let origin = *dice.pick(&[origin, origin, origin, origin, source, destination, OWN_LEFT, Addr::UNSPECIFIED]);
    put(&mut bytes, 40, &origin.0);
    put(&mut bytes, 56, &dice.bytes(64));
    bytes
}

fn heavy(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = vec![0; 288];
    bytes[0] = *dice.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 3, 0, 4, 255]);
    put(&mut bytes, 4, &dice.bytes(4));
    if dice.chance(100) {
        put(&mut bytes, 8, &dice.bytes(280));
    }
    bytes
}

fn trace(dice: &mut Dice) -> Vec<u8> {
    let records = dice.below(6);
    let mut bytes = vec![0; 16 + 48 * records];
    bytes[3] = dice.below(3) as u8;
    bytes[4] = *dice.pick(&[0, 0, 0, 1, 1, 2, 3]);
    bytes[5] = *dice.pick(&[0, 1, 2, 5, 254, 255]);
    bytes[6] = dice.below(2) as u8;
    put(&mut bytes, 8, &dice.pick(&[0u32, 0, 1, 5, u32::MAX]).to_be_bytes());
    bytes[15] = dice.below(4) as u8;
    bytes
}

fn multicast(dice: &mut Dice, source: Addr, destination: Addr) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let kind = *dice.pick(&[1, 1, 1, 2, 2, 3, 0, 9]);
    bytes[0] = kind;
    bytes[1] = dice.below(2) as u8;
    put(&mut bytes, 2, &dice.pick(&[0u16, 3, u16::MAX]).to_be_bytes());
    put(&mut bytes, 4, &dice.pick(&KEEP_MS).to_be_bytes());
    bytes[15] = dice.below(3) as u8;
    let root = if dice.chance(900) { destination } else { source };
    put(&mut bytes, 16, &root.0);
    put(&mut bytes, 32, &source.0);
    bytes[51] = dice.below(2) as u8;
    put(&mut bytes, 52, &(dice.below(90) as u32).to_be_bytes());
    bytes
}

fn state(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = vec![0; 88];
    bytes[0] = *dice.pick(&[1, 1, 1, 2, 2, 3, 3, 0]);
    put(&mut bytes, 4, &dice.pick(&KEEP_MS).to_be_bytes());
    let key = *dice.pick(&[0, 1, 2, 3, u64::MAX, 1 << 63, 0x1234_5678_9abc]);
    put(&mut bytes, 8, &key.to_le_bytes());
    put(&mut bytes, 24, &dice.bytes(64));
    bytes
}

fn changes(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = *dice.pick(&[1, 1, 2, 2, 2, 3, 3, 0]);
    put(&mut bytes, 4, &dice.pick(&KEEP_MS).to_be_bytes());
    let key = *dice.pick(&[0, 1, 2, 3, u64::MAX, 1 << 63, 0x1234_5678_9abc]);
    put(&mut bytes, 8, &key.to_le_bytes());
    // Few numbers, so that what is expected is there now and then.
    put(&mut bytes, 16, &dice.pick(&[0, 0, 1, 2, u64::MAX]).to_le_bytes());
    put(&mut bytes, 32, &dice.pick(&[0, 1, 2, u64::MAX]).to_le_bytes());
    put(&mut bytes, 40, &dice.bytes(56));
    bytes
}

fn sends(dice: &mut Dice, source: Addr, destination: Addr) -> Vec<u8> {
    let mut bytes = vec![0; 144];
    let verdict = *dice.pick(&[1, 1, 1, 1, 1, 0, 0, 0, 2, 2 | 6 << 16, 3, u32::MAX]);
    put(&mut bytes, 0, &verdict.to_be_bytes());
    bytes[4] = *dice.pick(&[0, 1, 1, 2, 2, 2, 3, 4, 5, 16, 18]);
    bytes[5] = *dice.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5]);
    bytes[7] = u8::from(dice.chance(100));
    for at in 0..4 {
        let bound = *dice.pick(&[1, 1, 1, 2, 5, 0, 200, u32::MAX]);
        put(&mut bytes, 32 + 4 * at, &bound.to_be_bytes());
        let (known, any) = (dice.known_addr(source.is_v4()), dice.any_addr());
        let to = if dice.chance(970) { known } else { any };
        put(&mut bytes, 48 + 16 * at, &to.0);
    }
    put(&mut bytes, 112, &dice.pick(&[source, source, source, source, OWN_LEFT]).0);
    put(&mut bytes, 128, &destination.0);
    bytes
}

fn acts(dice: &mut Dice, source: Addr) -> Vec<u8> {
    let mut bytes = vec![0; 124];
    let verdict = *dice.pick(&[1, 1, 1, 1, 1, 1, 0, 0, 2, 2 | 5 << 16, 2 | 6 << 16, 3, 0x10001, u32::MAX]);
    put(&mut bytes, 0, &verdict.to_be_bytes());
    bytes[4] = *dice.pick(&[0, 0, 0, 0, 1, 2, 3, 4, 8, 12]);
    let addrs = dice.any_addr();
    put(&mut bytes, 8, &dice.pick(&[source, OWN_LEFT, v6(1, 0xfe), addrs]).0);
    let addrs = dice.any_addr();
    let known = dice.known_addr(source.is_v4());
    put(&mut bytes, 24, &dice.pick(&[known, known, addrs]).0);
    bytes
}
