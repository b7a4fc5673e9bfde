//! Modules that cost a compiler as much as they can, each in one way: text that is generated, in sizes on both sides of the bounds.

/// A module as capsules have it, with so much beside it and such a body.
pub fn capsule(beside: &str, locals: &str, body: &str) -> Vec<u8> {
    let text = format!(
        "(module (import \"anode\" \"an_now\" (func $now (result i64)))
        (type $t (func (param i32 i32) (result i32))) (memory (export \"memory\") 1 1)
        (global (export \"an_arena\") i32 (i32.const 64)) {beside}
        (func (export \"capsule\") (type $t) {locals} {body}))"
    );
    wat::parse_str(text).unwrap()
}

fn i32s(count: usize) -> String {
    format!("(local {})", "i32 ".repeat(count))
}

/// Reads so many locals.
fn sum(locals: usize) -> String {
    let each = |local| format!("local.get {} i32.add ", local + 2);
    format!("i32.const 0 {}", (0..locals).map(each).collect::<String>())
}

/// Loops in each other around a look at all locals: each loop may change each of them.
pub fn loops(depth: usize, locals: usize) -> Vec<u8> {
    let body = format!("{} {} drop {} i32.const 1", "loop ".repeat(depth), sum(locals), "end ".repeat(depth));
    capsule("", &i32s(locals), &body)
}

/// Ways that part and meet again one after the other, each with another value of one local, and a look at all of them.
fn meetings(count: usize, locals: usize) -> Vec<u8> {
    let each = |at| format!("local.get 0 if i32.const {at} local.set {} end ", 2 + at % locals.max(1));
    capsule("", &i32s(locals), &format!("{}{}", (0..count).map(each).collect::<String>(), sum(locals)))
}

/// A jump by table to a loop and out of it.
fn table(targets: usize, locals: usize) -> Vec<u8> {
    let set: String = (0..locals).map(|local| format!("local.get 1 local.set {} ", local + 2)).collect();
    let body = format!("{set} block loop local.get 0 br_table {} end end {}", "0 1 ".repeat(targets / 2), sum(locals));
    capsule("", &i32s(locals), &body)
}

/// The same few instructions again and again, between a first and a last.
fn again(count: usize, [first, each, last]: [&str; 3]) -> Vec<u8> {
    capsule("", "(local f64 v128 f32)", &format!("{first} {} {last}", each.repeat(count)))
}

/// Functions that take and give many values, called so often.
fn calls(count: usize) -> Vec<u8> {
    let many = "i32 ".repeat(32);
    let beside = format!("(func $p (result {many}) {}) (func $c (param {many}))", "i32.const 1 ".repeat(32));
    capsule(&beside, "", &format!("{} i32.const 1", "call $p call $c ".repeat(count)))
}

/// Blocks that take and give many values.
fn blocks(count: usize, each: &str) -> Vec<u8> {
    let many = "i32 ".repeat(32);
    let beside = format!("(type $b (func (param {many}) (result {many})))");
    let body = format!("{} {} {} i32.const 1", "i32.const 1 ".repeat(32), each.repeat(count), "drop ".repeat(32));
    capsule(&beside, "", &body)
}

/// So many functions, all in the table, each of another type.
fn functions(count: usize) -> Vec<u8> {
    let kind = |bit: usize, at: usize| if at >> (bit % 10) & 1 == 1 { "i32 " } else { "i64 " };
    let parameters = |at: usize| (0..32).map(|bit| kind(bit, at)).collect::<String>();
    let each = |at| format!("(func (param {}) (result i64 i64 i64) unreachable)", parameters(at));
    let list: String = (1..=count).map(|at| format!("{at} ")).collect();
    let functions: String = (0..count).map(each).collect();
    capsule(&format!("(table {count} funcref) (elem (i32.const 0) func {list}) {functions}"), "", "i32.const 1")
}

/// Many functions of nothing.
fn empty(count: usize) -> Vec<u8> {
    capsule(&"(func)".repeat(count), "", "i32.const 1")
}

/// What a function computes is kept on the stack, as deep as it goes, until its end.
fn deep(count: usize) -> Vec<u8> {
    capsule("", "", &format!("{} {}", "local.get 0 i32.load ".repeat(count), "i32.add ".repeat(count - 1)))
}

/// The same, with loops before what is kept is used.
fn kept(count: usize, loops: usize) -> Vec<u8> {
    let (begin, end) = ("local.get 0 i32.load ".repeat(count), "i32.add ".repeat(count - 1));
    capsule("", "", &format!("{begin} {} {end}", "loop local.get 1 br_if 0 end ".repeat(loops)))
}

/// A module that costs nearly as much as one may; another number, another module.
pub fn large(number: u32) -> Vec<u8> {
    let unit = "local.get 0 local.get 0 local.get 0 memory.copy ";
    let function = format!("(func (param i32) {})", unit.repeat(750));
    capsule(&function.repeat(2), "", &format!("i32.const {number} drop i32.const 1"))
}

/// Instructions to be repeated: a name, what comes before, the instruction, what comes behind.
const INSTRUCTIONS: [(&str, [&str; 3]); 32] = [
    ("load", ["", "local.get 0 i32.load8_u local.set 0 ", "i32.const 1"]),
    ("load and add", ["i32.const 0", "local.get 0 i32.load i32.add ", ""]),
    ("store", ["", "local.get 0 local.get 1 i32.store8 ", "i32.const 1"]),
    ("add", ["local.get 0", "local.get 1 i32.add ", ""]),
    ("eqz", ["local.get 0", "i32.eqz ", ""]),
    ("popcnt", ["local.get 0", "i32.popcnt ", ""]),
    ("divide", ["local.get 0", "local.get 1 i32.div_s ", ""]),
    ("remainder", ["local.get 0", "local.get 1 i32.rem_s ", ""]),
    ("select", ["local.get 0", "local.get 1 local.get 0 select ", ""]),
    ("square root", ["local.get 2", "f64.sqrt ", "i32.trunc_sat_f64_s"]),
    ("add f64", ["local.get 2", "local.get 2 f64.add ", "i32.trunc_sat_f64_s"]),
    ("truncate", ["local.get 2", "i32.trunc_f64_s f64.convert_i32_u ", "i32.trunc_sat_f64_s"]),
    ("truncate u64", ["local.get 2", "i64.trunc_sat_f64_u f64.convert_i64_u ", "i32.trunc_sat_f64_s"]),
    ("v128 popcnt", ["local.get 3", "i8x16.popcnt ", "i32x4.extract_lane 0"]),
    ("v128 square root", ["local.get 3", "f32x4.sqrt ", "i32x4.extract_lane 0"]),
    ("v128 truncate", ["local.get 3", "i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_u ", "i32x4.extract_lane 0"]),
    ("v128 multiply", ["local.get 3", "local.get 3 i64x2.mul ", "i32x4.extract_lane 0"]),
    ("v128 shift", ["local.get 3", "local.get 0 i8x16.shr_s ", "i32x4.extract_lane 0"]),
    ("v128 constant", ["local.get 3", "v128.const i64x2 1 2 v128.xor ", "i32x4.extract_lane 0"]),
    (
        "v128 truncate f64",
        ["local.get 3", "i32x4.trunc_sat_f64x2_u_zero f64x2.convert_low_i32x4_u ", "i32x4.extract_lane 0"],
    ),
    ("call", ["", "call $now drop ", "i32.const 1"]),
    ("memory.copy", ["", "local.get 0 local.get 0 local.get 0 memory.copy ", "i32.const 1"]),
    ("memory.fill", ["", "local.get 0 local.get 0 local.get 0 memory.fill ", "i32.const 1"]),
    ("loop", ["", "loop end ", "i32.const 1"]),
    ("block", ["", "block end ", "i32.const 1"]),
    ("if", ["", "local.get 0 if end ", "i32.const 1"]),
    ("br_if", ["block", "local.get 0 br_if 0 ", "end i32.const 1"]),
    ("br_if back", ["loop", "local.get 1 br_if 0 local.get 0 local.set 1 ", "end i32.const 1"]),
    ("if and else", ["", "local.get 0 if local.get 1 local.set 0 else local.get 0 local.set 1 end ", "i32.const 1"]),
    ("early end", ["", "local.get 0 if local.get 1 br 1 end ", "i32.const 1"]),
    ("demote", ["local.get 2", "f32.demote_f64 f64.promote_f32 ", "i32.trunc_sat_f64_s"]),
    ("early return", ["", "local.get 0 if local.get 1 return end ", "i32.const 1"]),
];

/// All cases by name. A size that is beyond 64 KiB is no case.
pub fn cases() -> Vec<(String, Vec<u8>)> {
    let mut cases: Vec<(String, Vec<u8>)> = vec![("large".into(), large(0))];
    for (depth, locals) in
        [(20, 20), (50, 50), (100, 100), (20, 1000), (1000, 20), (60, 1000), (4000, 50), (7000, 1000)]
    {
        cases.push((format!("{depth} loops, {locals} locals"), loops(depth, locals)));
        cases.push((format!("{depth} meetings, {locals} locals"), meetings(depth, locals)));
        cases.push((format!("table of {depth}, {locals} locals"), table(depth, locals)));
    }
    cases.push(("table of 60000".into(), table(60000, 0)));
    for (count, loops) in [(100, 100), (1000, 1000), (5000, 200), (200, 5000)] {
        cases.push((format!("{count} values kept over {loops} loops"), kept(count, loops)));
    }
    for count in [500, 2000, 5000, 9000, 16000, 30000] {
        cases.extend(INSTRUCTIONS.iter().map(|(name, parts)| (format!("{count} x {name}"), again(count, *parts))));
        cases.push((format!("{count} calls with 32 values"), calls(count)));
        cases.push((format!("{count} loops with 32 values"), blocks(count, "loop (type $b) end ")));
        cases.push((format!("{count} ifs with 32 values"), blocks(count, "local.get 0 if (type $b) end ")));
        cases.push((format!("{count} deep"), deep(count)));
    }
    for count in [100, 300, 1000] {
        cases.push((format!("{count} functions"), functions(count)));
        cases.push((format!("{count} empty functions"), empty(count)));
    }
    cases.retain(|(_, wasm)| wasm.len() <= 65536);
    cases
}
