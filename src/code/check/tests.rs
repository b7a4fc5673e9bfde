//! Rules of both checks, each by a sample that breaks just that rule, and random mutations.

use super::*;
use crate::abi::SYMBOLS;
use crate::code::bundle::{Insn, Program};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A module with everything that capsules may have; `more` comes in addition.
fn module(more: &str) -> String {
    format!(
        r#"(module
            (type $entry (func (param i32 i32) (result i32)))
            (import "anode" "an_now" (func $now (result i64)))
            (import "anode" "an_store" (func $store (param i32 i64 i32) (result i32)))
            (memory (export "memory") 1024 1024 (pagesize 1))
            (global (export "sp") (mut i32) (i32.const 512))
            (global (export "an_arena") i32 (i32.const 512))
            (func (export "capsule") (type $entry)
                (drop (call $store (i32.const 0) (call $now) (i32.const 8)))
                (i32.const 1))
            (data (i32.const 700) "constant")
            {more})"#
    )
}

fn checked(text: &str, window: u32) -> Result<WasmFacts, Refusal> {
    wasm(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}")), window)
}

#[test]
fn a_module_that_keeps_the_rules_passes_with_its_facts() {
    let facts = checked(&module("(table 2 funcref) (elem (i32.const 1) func $now)"), 16).unwrap();
    assert_eq!((facts.arena, facts.memory_bytes, facts.byte_pages), (512, 1024, true));
    assert_eq!(facts.mutable_globals, [MutableGlobal { name: "sp".into(), initial: GlobalValue::I32(512) }]);
    assert_eq!(facts.imports.iter().map(|symbol| symbol.name).collect::<Vec<_>>(), ["an_now", "an_store"]);
    assert_eq!((facts.functions, facts.table, facts.bulk_memory), (1, 2, false));
    assert!(
        checked(&module("(func memory.fill (i32.const 0) (i32.const 0) (i32.const 9))"), 16).is_err(),
        "too few operands are invalid"
    );
    let fill = "(func (memory.fill (i32.const 0) (i32.const 0) (i32.const 9)))";
    assert!(checked(&module(fill), 16).unwrap().bulk_memory);
}

#[test]
fn whatever_can_write_into_the_memory_is_seen() {
    let plain = |body: &str| {
        format!(
            r#"(module
                (import "anode" "an_load" (func $load (param i32 i32) (result i64)))
                (memory (export "memory") 1024 1024 (pagesize 1))
                (global (export "an_arena") i32 (i32.const 512))
                (func (export "capsule") (param i32 i32) (result i32) {body} (i32.const 1)))"#
        )
    };
    let writes = |text: &str| checked(text, 16).unwrap().writes_memory;
    for reads in [
        "(drop (i64.load (i32.const 8)))",
        "(drop (v128.load (i32.const 8)))",
        "(drop (call $load (i32.const 0) (i32.const 8)))",
    ] {
        assert!(!writes(&plain(reads)), "{reads}");
    }
    let scalar = ["i32.store", "i64.store", "f32.store", "f64.store", "i32.store8", "i32.store16"].into_iter();
    let stores = scalar.chain(["i64.store8", "i64.store16", "i64.store32", "v128.store"]).map(|name| {
        let kind = name.split('.').next().unwrap();
        let value = if kind == "v128" { "v128.const i64x2 0 0".into() } else { format!("{kind}.const 0") };
        format!("({name} (i32.const 8) ({value}))")
    });
    let lanes =
        ["8", "16", "32", "64"].map(|bits| format!("(v128.store{bits}_lane 0 (i32.const 8) (v128.const i64x2 0 0))"));
    let bulk = ["memory.copy", "memory.fill"].map(|name| format!("({name} (i32.const 0) (i32.const 8) (i32.const 9))"));
    for store in stores.chain(lanes).chain(bulk) {
        assert!(writes(&plain(&store)), "{store}");
    }
    // Which calls get a pointer or may change the window; what is added to the table is one of them until it is said not to be.
    let calls: Vec<_> = SYMBOLS.iter().filter(|symbol| symbol.writes()).map(|symbol| symbol.name).collect();
    assert_eq!(calls, ["an_node_name", "an_store", "an_state_get", "an_neighbour", "an_route"]);
    assert!(writes(&module("")), "it imports an_store");
}

#[test]
fn the_arena_with_its_window_lies_inside_the_memory() {
    assert!(checked(&module(""), 416).is_ok());
    assert_eq!(checked(&module(""), 417), Err(Refusal::Arena { address: 512, needs: 513, memory: 1024 }));
    let high = module("").replace("an_arena\") i32 (i32.const 512)", "an_arena\") i32 (i32.const -16)");
    assert!(matches!(checked(&high, 0), Err(Refusal::Arena { .. })));
    assert!(matches!(checked(&module(""), 513), Err(Refusal::Limit { .. })));
}

#[test]
fn every_rule_of_modules_refuses_by_name() {
    let cases = [
        (r#"(func (drop (memory.grow (i32.const 1))))"#, "memory.grow"),
        (r#"(table 1 funcref) (func (table.set (i32.const 0) (ref.null func)))"#, "table.set"),
        (r#"(table 1 funcref) (func (drop (table.grow (ref.null func) (i32.const 1))))"#, "table.grow"),
        (r#"(table 1 funcref) (func (table.fill (i32.const 0) (ref.null func) (i32.const 1)))"#, "table.fill"),
        (r#"(table 1 funcref) (func (table.copy (i32.const 0) (i32.const 0) (i32.const 1)))"#, "table.copy"),
        (r#"(data $d "x") (func (data.drop $d))"#, "data.drop"),
        (r#"(data $d "x") (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1)))"#, "memory.init"),
        (r#"(table 1 funcref) (elem $e func) (func (elem.drop $e))"#, "passive or declared"),
        (
            r#"(table 1 funcref) (elem $e func) (func (table.init $e (i32.const 0) (i32.const 0) (i32.const 0)))"#,
            "passive or declared",
        ),
        (r#"(elem declare func 0)"#, "passive or declared"),
        (r#"(data "x")"#, "passive or declared"),
        (r#"(data (i32.const 1020) "12345")"#, "does not fit into the memory"),
        (r#"(data (i32.const -1) "")"#, "does not fit into the memory"),
        (r#"(table 1 funcref) (elem (i32.const 1) func 0)"#, "does not fit into the table"),
        (r#"(func $s) (start $s)"#, "a start function"),
        (r#"(table 1 funcref) (table 1 funcref)"#, "2 tables"),
        (r#"(table 1025 funcref)"#, "1025 table elements"),
        (r#"(table 1 externref)"#, "a table of another kind"),
        (r#"(memory 1 1)"#, "2 memories"),
        (r#"(global (mut i32) (i32.const 0))"#, "global 2 is mutable and not exported"),
        (r#"(global (export "v") (mut v128) (v128.const i64x2 0 0))"#, "does not begin with a plain number"),
        (r#"(global i32 (global.get 1))"#, "not a valid module"),
        (r#"(func (export "more"))"#, "'more' is neither"),
        (r#"(tag)"#, "exception tags"),
        (r#"(func (result i32) (i32.atomic.load (i32.const 0)))"#, "threads"),
        (r#"(func (result f32) (f32.const 0) (f32.const 0) (f32.const 0) drop drop)"#, ""),
        (
            r#"(func (param v128 v128 v128) (result v128) (f32x4.relaxed_madd (local.get 0) (local.get 1) (local.get 2)))"#,
            "relaxed SIMD",
        ),
        (r#"(func (return_call 0) unreachable)"#, "tail calls"),
        (r#"(func (drop (i32.const 0)) i32.add)"#, "not a valid module"),
    ];
    for (more, expected) in cases {
        let result = checked(&module(more), 16);
        match result {
            Err(refusal) => assert!(refusal.to_string().contains(expected), "{more}: {refusal}"),
            Ok(_) => assert!(expected.is_empty(), "{more} passed"),
        }
    }
}

#[test]
fn every_rule_of_the_interface_refuses_by_name() {
    let cases = [
        ("\"an_now\"", "\"an_know\"", "imports 'anode.an_know'"),
        ("\"anode\" \"an_now\"", "\"env\" \"an_now\"", "imports 'env.an_now'"),
        ("(func $now (result i64))", "(func $now (param i32) (result i64))", "'an_now' has the type (i32) -> (i64)"),
        ("(param i32 i64 i32)", "(param i32 i64 i64)", "'an_store' has the type"),
        (
            "(memory (export \"memory\") 1024 1024 (pagesize 1))",
            "(memory (export \"memory\") 1024 1025 (pagesize 1))",
            "can grow",
        ),
        ("(memory (export \"memory\") 1024 1024 (pagesize 1))", "(memory (export \"memory\") 1)", "can grow"),
        (
            "(memory (export \"memory\") 1024 1024 (pagesize 1))",
            "(memory (export \"memory\") 2 2)",
            "131072 bytes of memory",
        ),
        (
            "(memory (export \"memory\") 1024 1024 (pagesize 1))",
            "(memory (export \"memory\") 65537 65537 (pagesize 1))",
            "65537 bytes of memory",
        ),
        (
            "(memory (export \"memory\") 1024 1024 (pagesize 1))",
            "(memory (export \"memory\") 1 1 shared)",
            "shared memories",
        ),
        ("(memory (export \"memory\") 1024 1024 (pagesize 1))", "(memory (export \"memory\") i64 1 1)", ""),
        ("(memory (export \"memory\")", "(memory (export \"storage\")", "it is missing"),
        ("(export \"capsule\")", "(export \"main\")", "'capsule' must be the entry"),
        ("(param i32 i32) (result i32)", "(param i32 i64) (result i32)", "must have capsule(i32, i32) -> i32"),
        ("\"an_arena\") i32", "\"an_area\") i32", "'an_arena' must be"),
        ("\"an_arena\") i32 (i32", "\"an_arena\") i64 (i64", "'an_arena' must be"),
        ("\"an_arena\") i32 ", "\"an_arena\") (mut i32) ", "'an_arena' must be"),
    ];
    for (from, to, expected) in cases {
        let text = module("").replace(from, to);
        assert_ne!(text, module(""), "{from}");
        let refusal = checked(&text, 16).expect_err(to);
        assert!(refusal.to_string().contains(expected), "{to}: {refusal}");
    }
    let imported = r#"(module (import "anode" "an_now" (func $now (result i64)))
        (memory (export "memory") 1 1) (global (export "an_arena") i32 (i32.const 0)) (export "capsule" (func $now)))"#;
    assert!(checked(imported, 0).unwrap_err().to_string().contains("a function of the module"));
}

#[test]
fn what_makes_compilers_slow_is_limited() {
    let many = |text: &str, count| module(&text.repeat(count));
    for (text, expected) in [
        (module(&format!("(func (local {}))", "i32 ".repeat(1025))), "locals in a function"),
        (module("(func (local i32 i32) (local i64))"), ""),
        (many("(func)", 1025), "functions"),
        (many("(global i32 (i32.const 0))", 70), "globals"),
        (many("(type (func (param i32)))", 1100), "types"),
        (module(&format!("(func (param {}))", "i32 ".repeat(40))), "parameters"),
        (many("(data (i32.const 0) \"\")", 300), "data segments"),
        (many("(func (drop (i64.const 1234567890123456)) (drop (i64.const 1234567890123456)))", 3000), "bytes"),
    ] {
        match checked(&text, 16) {
            Err(refusal) => assert!(refusal.to_string().contains(expected), "{expected}: {refusal}"),
            Ok(_) => assert!(expected.is_empty(), "{expected}"),
        }
    }
}

fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

const END: [Insn; 2] =
    [Insn { opcode: 0xb7, dst: 0, src: 0, off: 0, imm: 2 }, Insn { opcode: 0x95, dst: 0, src: 0, off: 0, imm: 0 }];

fn scanned(code: &[Insn]) -> Result<BpfFacts, Refusal> {
    let symbols = if code.iter().any(|insn| insn.src == 14) { vec!["an_now".to_owned()] } else { Vec::new() };
    bpf(&Program { symbols, code: [code, &END].concat() }.encode())
}

#[test]
fn what_clang_writes_passes() {
    let code = [
        insn(0xbf, 6, 1, 0, 0),    // r6 = r1
        insn(0x61, 2, 6, 24, 0),   // r2 = *(u32 *)(r6 + 24)
        insn(0x73, 10, 2, -1, 0),  // *(u8 *)(r10 - 1) = r2
        insn(0x7a, 10, 0, -16, 5), // *(u64 *)(r10 - 16) = 5
        insn(0x18, 3, 0, 0, -1),   // r3 = constant
        insn(0x00, 0, 0, 0, 77),
        insn(0x16, 2, 0, 1, 0),  // if w2 == 0 goto +1
        insn(0x85, 0, 14, 0, 0), // call an_now
        insn(0xdc, 0, 0, 0, 32), // r0 = be32 r0
        insn(0x87, 0, 0, 0, 0),  // r0 = -r0
        insn(0xbc, 0, 0, 0, 0),  // w0 = w0
        insn(0x85, 0, 1, 0, 2),  // call a function of the program
        END[0],
        END[1],
    ];
    let facts = scanned(&code).unwrap();
    assert_eq!((facts.instructions, facts.functions, facts.symbols[0].name), (16, 2, "an_now"));
}

#[test]
fn symbols_are_known_and_used() {
    let with = |symbols: &[&str]| {
        let code = vec![insn(0x85, 0, 14, 0, 0), END[1]];
        bpf(&Program { symbols: symbols.iter().map(|&name| name.into()).collect(), code }.encode())
    };
    assert!(with(&["an_now"]).is_ok());
    assert_eq!(with(&["an_know"]), Err(Refusal::Symbol { name: "an_know".into() }));
    assert_eq!(with(&["an_now", "an_random"]), Err(Refusal::Unused { name: "an_random".into() }));
    assert!(matches!(with(&["an_random", "an_now"]), Err(Refusal::Form(_))));
    assert!(matches!(with(&["an_now", "an_now"]), Err(Refusal::Form(_))));
}

#[test]
fn of_all_single_instructions_only_calls_by_symbol_and_inside_pass() {
    for opcode in 0..=255u8 {
        for src in 0..16 {
            for imm in [-1, 0, 1, 2, 5, 12, 300, i32::MAX] {
                let passed = scanned(&[insn(opcode, 1, src, 0, imm), Insn::default()]).is_ok()
                    || scanned(&[insn(opcode, 0, src, 0, imm)]).is_ok();
                let call = opcode & 7 >= 5 && opcode & 7 <= 6 && opcode & 0xf0 == 0x80;
                assert!(!passed || !call || (opcode == 0x85 && matches!(src, 1 | 14)), "{opcode:#x} {src} {imm}");
                assert!(!passed || opcode & 7 != 0 || (opcode == 0x18 && src == 0), "{opcode:#x} {src} {imm}");
            }
        }
    }
}

#[test]
fn mutations_never_panic_and_what_passes_instantiates() {
    let valid = wat::parse_str(module("(table 2 funcref) (elem (i32.const 1) func $now)")).unwrap();
    let program = Program {
        symbols: vec!["an_now".into()],
        code: vec![
            insn(0x18, 3, 0, 0, -1),
            Insn::default(),
            insn(0x85, 0, 14, 0, 0),
            insn(0x15, 0, 0, 1, 0),
            END[0],
            END[1],
        ],
    }
    .encode();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    for sample in [&valid, &program] {
        for _ in 0..10_000 {
            let mut mutant = sample.clone();
            for _ in 0..1 + below(4) {
                let at = below(mutant.len());
                match below(4) {
                    0 => mutant[at] = below(256) as u8,
                    1 => mutant[at] ^= 1 << below(8),
                    2 => mutant.truncate(at.max(1)),
                    _ => mutant.insert(at, below(256) as u8),
                }
            }
            if let Ok(facts) = wasm(&mutant, 16) {
                assert!(facts.arena + 112 <= facts.memory_bytes);
            }
            if let Ok(facts) = bpf(&mutant) {
                assert_eq!(Program::parse(&mutant).unwrap().code.len(), facts.instructions);
            }
        }
    }
}
