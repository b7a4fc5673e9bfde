//! Guests of the simulator's tests, in WAT, and common functions of these tests.
#![allow(dead_code)]

use anode::code::bundle::{Bundle, Kind};
use anode::wire::{Addr, Digest, capsule};

/// Wraps a body (with parameters $ctx and $window) into a module.
pub fn module(imports: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module {imports}
            (memory (export "memory") 1024 1024 (pagesize 1))
            (global (export "an_arena") i32 (i32.const 0))
            (func (export "capsule") (param $ctx i32) (param $window i32) (result i32) {body}))"#
    );
    wat::parse_str(text).unwrap()
}

/// A bundle of one wasm representation.
pub fn bundle(title: &str, window: u32, wasm: Vec<u8>) -> Bundle {
    Bundle::build(title, window, &[(Kind::Wasm, wasm.into())], None).unwrap()
}

/// Goes to its destination, where it is delivered.
pub fn forward() -> Bundle {
    bundle("forward", 0, module("", "i32.const 1"))
}

/// As [`forward`], and each `number` is another code of at least `bytes` bytes.
pub fn padded_forward(number: u32, bytes: usize) -> Bundle {
    let text = format!(
        r#"(module
            (memory (export "memory") 65536 65536 (pagesize 1))
            (global (export "an_arena") i32 (i32.const 0))
            (data (i32.const 512) "{}")
            (func (export "capsule") (param i32 i32) (result i32) i32.const 1))"#,
        noise(number, bytes)
    );
    bundle(&format!("forward-{number}"), 0, wat::parse_str(text).unwrap())
}

/// Goes to and fro between its ends, and has a child do so too as long as there is a bound; each `number` is another
/// code of at least `bytes` bytes.
pub fn bouncing(number: u32, bytes: usize) -> Bundle {
    let text = format!(
        r#"(module
            (import "anode" "an_send" (func $send (param i32) (result i32)))
            (memory (export "memory") 65536 65536 (pagesize 1))
            (global (export "an_arena") i32 (i32.const 0))
            (data (i32.const 512) "{}")
            (func (export "capsule") (param $ctx i32) (param $window i32) (result i32)
                (if (i32.and (i32.load offset=24 (local.get $ctx)) (i32.const 1)) (then
                    (v128.store offset=16 (local.get $window) (v128.load (local.get $window)))
                    (v128.store (local.get $window) (v128.load (local.get $ctx)))
                    (drop (call $send (i32.shr_u (i32.load offset=36 (local.get $ctx)) (i32.const 1))))))
                (i32.const 1)))"#,
        noise(number, bytes)
    );
    bundle(&format!("bouncing-{number}"), 0, wat::parse_str(text).unwrap())
}

fn noise(number: u32, bytes: usize) -> String {
    (0..bytes as u32)
        .map(|at| format!("\\{:02x}", (number.wrapping_mul(2_654_435_761) ^ at.wrapping_mul(40_503)) >> 8 & 0xff))
        .collect()
}

/// Turns round at its destination and is delivered where it came from.
pub fn ping() -> Bundle {
    let body = r#"
        (if (i32.eqz (i32.and (i32.load offset=24 (local.get $ctx)) (i32.const 1))) (then (return (i32.const 1))))
        (if (i32.load8_u offset=32 (local.get $window)) (then (return (i32.const 2))))
        (i32.store8 offset=32 (local.get $window) (i32.const 1))
        (v128.store offset=16 (local.get $window) (v128.load (local.get $window)))
        (v128.store (local.get $window) (v128.load (local.get $ctx)))
        (i32.const 1)"#;
    bundle("ping", 8, module("", body))
}

/// Sends a child with half of its bound at every node on the way while it has more than one hop left.
pub fn forking() -> Bundle {
    let imports = r#"(import "anode" "an_send" (func $send (param i32) (result i32)))"#;
    let body = r#"
        (local $bound i32)
        (local.set $bound (i32.load offset=36 (local.get $ctx)))
        (if (i32.gt_u (local.get $bound) (i32.const 1)) (then
            (drop (call $send (i32.shr_u (local.get $bound) (i32.const 1))))
            (drop (call $send (i32.shr_u (local.get $bound) (i32.const 2))))))
        (i32.const 1)"#;
    bundle("forking", 0, module(imports, body))
}

/// A header for a capsule of this code to this address, for application port 1.
pub fn header(code: Digest, destination: Addr, bound: u32) -> capsule::Header {
    capsule::Header { app_port: 1, bound, code, previous: Addr::UNSPECIFIED, source: Addr::UNSPECIFIED, destination }
}

/// The seed of a test: from the environment variable SEED, else `fallback`. Printed, for a replay.
pub fn seed(fallback: u64) -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fallback);
    eprintln!("SEED={seed}");
    seed
}
