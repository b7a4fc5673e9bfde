//! Every vector instruction of a module, found by asking the check for the form of each number.

use anode::code::check;
use wasm_encoder::{
    CodeSection, ConstExpr, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    MemorySection, MemoryType, Module, TypeSection, ValType,
};

/// The locals, by type: the first of each that a function of [`module`] has.
const LOCALS: [(ValType, u8); 5] =
    [(ValType::I32, 0), (ValType::I64, 2), (ValType::F32, 3), (ValType::F64, 4), (ValType::V128, 5)];

const I32: ValType = ValType::I32;
const V128: ValType = ValType::V128;

const GET: u8 = 0x20;
const SET: u8 = 0x21;

/// Numbers of instructions behind the prefix 0xfd; relaxed ones begin behind them.
const NUMBERS: u32 = 256;

/// How many there are.
pub const COUNT: usize = 236;

fn local(kind: ValType) -> u8 {
    LOCALS.iter().find(|(other, _)| *other == kind).unwrap().1
}

/// Adds the value on the stack to the local of its type.
fn keep(kind: ValType) -> Vec<u8> {
    let add: &[u8] = match kind {
        ValType::I32 => &[0x6a],
        ValType::I64 => &[0x7c],
        ValType::F32 => &[0x92],
        ValType::F64 => &[0xa0],
        _ => &[0xfd, 0x51],
    };
    [&[GET, local(kind)], add, &[SET, local(kind)]].concat()
}

/// What takes these operands from locals, with so many bytes behind its number, and leaves its result in one.
fn form(number: u32, operands: &[ValType], immediates: usize, result: Option<ValType>) -> Vec<u8> {
    let mut code: Vec<u8> = operands.iter().flat_map(|kind| [GET, local(*kind)]).collect();
    code.push(0xfd);
    if number < 128 {
        code.push(number as u8);
    } else {
        code.extend([(number & 0x7f | 0x80) as u8, (number >> 7) as u8]);
    }
    code.extend(vec![0; immediates]);
    match result {
        // Each waits for the one before, so that none is left out.
        Some(kind) if operands.contains(&kind) => code.extend([SET, local(kind)]),
        Some(kind) => code.extend(keep(kind)),
        None => {}
    }
    code
}

/// A module that is this code, again and again.
pub fn module(code: &[u8], count: usize) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([I32, I32], [I32]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: 1, maximum: Some(1), memory64: false, shared: false, page_size_log2: None });
    let mut globals = GlobalSection::new();
    let constant = GlobalType { val_type: I32, mutable: false, shared: false };
    globals.global(constant, &ConstExpr::i32_const(0));
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("an_arena", ExportKind::Global, 0).export("capsule", ExportKind::Func, 0);
    let mut function = Function::new(LOCALS[1..].iter().map(|(kind, _)| (1, *kind)));
    function.raw(code.repeat(count));
    // All locals are the result: i64 to i32, floating point by saturation, any lane of the vector.
    let mut end = vec![GET, 0, GET, 2, 0xa7, 0x6a, GET, 3, 0xfc, 0, 0x6a, GET, 4, 0xfc, 2, 0x6a];
    end.extend([GET, 5, 0xfd, 0x53, 0x6a, 0x0b]);
    function.raw(end);
    let mut codes = CodeSection::new();
    codes.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&memories).section(&globals).section(&exports).section(&codes);
    module.finish()
}

/// Each with its number.
pub fn all() -> Vec<(u32, Vec<u8>)> {
    let scalars = LOCALS.map(|(kind, _)| kind);
    let mut forms: Vec<(Vec<ValType>, usize, Option<ValType>)> = vec![
        (vec![V128], 0, Some(V128)),
        (vec![V128, V128], 0, Some(V128)),
        (vec![V128, V128, V128], 0, Some(V128)),
        (vec![V128, I32], 0, Some(V128)),
        (vec![V128], 0, Some(I32)),
        // Constants, then shuffles.
        (vec![], 16, Some(V128)),
        (vec![V128, V128], 16, Some(V128)),
        // Memory, without and with a lane.
        (vec![I32], 2, Some(V128)),
        (vec![I32, V128], 2, None),
        (vec![I32, V128], 3, Some(V128)),
        (vec![I32, V128], 3, None),
    ];
    for scalar in scalars.into_iter().filter(|kind| *kind != V128) {
        forms.push((vec![scalar], 0, Some(V128)));
        forms.push((vec![V128], 1, Some(scalar)));
        forms.push((vec![V128, scalar], 1, Some(V128)));
    }
    let valid = |code: &Vec<u8>| check::wasm(&module(code, 1), 0).is_ok();
    let one = |number| {
        forms
            .iter()
            .map(|(operands, immediates, result)| form(number, operands, *immediates, *result))
            .find(valid)
            .map(|code| (number, code))
    };
    (0..NUMBERS).filter_map(one).collect()
}

/// The largest module of one instruction that the check lets pass, of at most 64 KiB.
pub fn most(code: &[u8]) -> Vec<u8> {
    let (mut least, mut most) = (1, 65_536 / code.len());
    while least < most {
        let middle = (least + most).div_ceil(2);
        if check::wasm(&module(code, middle), 0).is_ok() {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    module(code, least)
}
