//! The harnesses of the fuzz targets on many cases from a seed: random bytes, and good messages with one byte changed.

#[path = "hostile/harness.rs"]
mod harness;

use anode1::message::{Answer, Call, ChanSpec, Contents, DomainSpec, KeyTuple, PoolSpec, Threads, VERSION};

/// Cases of messages, and of rings (each maps memory).
const MESSAGES: u64 = 300_000;
const RINGS: u64 = 20_000;

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| (self.next() >> 40) as u8).collect()
    }
}

/// Good messages of every shape.
fn samples() -> Vec<Vec<u8>> {
    let threads = Threads { max_threads: 2, stack_bytes: 3, hold_ms: 4 };
    let domain = DomainSpec { title: "t".into(), threads, pool: Some(9), role: Some("ee".into()) };
    let key = vec![KeyTuple { offset: 2, length: 2, value: 7, mask: 0xff }; 3];
    let spec = ChanSpec { protocol: "if0/ip".into(), address: "*".into(), key, ..ChanSpec::default() };
    let (path, space) = ("a/b".to_owned(), Some("x".to_owned()));
    let calls = [
        Call::Hello { version: VERSION, domain: domain.clone() },
        Call::DomainCreate { parent: 1, spec: domain },
        Call::PoolCreate { spec: PoolSpec { parent: Some(1), limit_bytes: 2, deadline_ms: 3 } },
        Call::PoolCharge { pool: 1, bytes: -5 },
        Call::StateGet { domain: 1, key: 2 },
        Call::StateExchange { domain: 1, key: 2, expected: 3, value: [4; 64], keep_ms: 5 },
        Call::InChanCreate { domain: 3, spec: spec.clone() },
        Call::OutChanCreate { domain: 3, spec },
        Call::FileWrite { file: 1, offset: 2, contents: Contents(vec![1; 30]) },
        Call::FileRename { domain: 1, space: space.clone(), from: path.clone(), to: "c".into() },
        Call::FileNext { domain: 1, space, path: Some(path), after: "b".into() },
        Call::FileShare { domain: 1, with: "*".into(), access: 2 },
    ];
    let geometry = anode1::memory::Geometry::default();
    let answers = [
        Answer::Welcome { domain: 1, geometry, origin: -1 },
        Answer::Found { name: "n".into(), size: 1, modified_ns: 2, directory: true },
        Answer::Read { contents: Contents(vec![7; 20]) },
        Answer::Refused { error: anode1::error::Error::Io },
    ];
    let encode = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    };
    let calls = calls.iter().map(|call| encode(&|into| call.encode(7, into)));
    calls.chain(answers.iter().map(|answer| encode(&|into| answer.encode(7, into)))).collect()
}

#[test]
fn messages_are_total() {
    let samples = samples();
    samples.iter().for_each(|sample| harness::message(sample));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for case in 0..MESSAGES {
        let bytes = if case % 4 == 0 {
            random.bytes(80)
        } else {
            let mut bytes = samples[random.below(samples.len())].clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.extend(random.bytes(9)),
                    2 => bytes[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << (case & 7)),
                    _ => bytes[at..].iter_mut().take(1).for_each(|byte| *byte = (case >> 3) as u8),
                }
            }
            bytes
        };
        harness::message(&bytes);
    }
}

#[test]
fn rings_are_total() {
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    for _ in 0..RINGS {
        let bytes = random.bytes(300);
        harness::ring(&bytes);
    }
}
