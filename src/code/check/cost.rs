//! The compiler's work on a module: counted before it is compiled, and bounded.
//!
//! A compiler's time is no function of a module's bytes. It computes facts for each variable at each join of control
//! flow, so its work grows with their product: 58 kB of nested loops over a thousand locals took cranelift 53 seconds
//! and 1.3 GB. Blocks that hand values on cost in proportion to those before them. Other instructions become many: a
//! call moves all its arguments and results, a copy of memory is checked and called for.
//!
//! So each instruction has a weight, a function besides the products, and the sum is bounded. A unit is half a
//! microsecond of the fast tier, as measured with the worst cases of `tests/run/compiling/worst.rs` and `anode bench
//! tiers`. Memory, at most some 400 bytes a unit, stays below its limit too.

use super::Refusal;
use super::sections::limit;
use wasmparser::{
    BlockType, FuncType, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator, Parser, Payload, TypeRef,
    ValidPayload, Validator, WasmFeatures, WasmModuleResources,
};

/// The most that all functions of a module may cost together: 150 ms.
pub(super) const COST_MAX: u64 = 300_000;

/// The most that one function may cost: an optimiser works on all of it at once, and longer than in proportion.
pub(super) const FUNCTION_COST_MAX: u64 = 200_000;

/// What a function costs before its first instruction, and each value that it takes or gives.
const FUNCTION: u64 = 120;
const FUNCTION_VALUE: u64 = 8;

/// What a variable costs at the head of a loop, from where it may come in two ways.
const LOOP_VARIABLE: u64 = 4;

/// Variables that cost as much as one unit where other ways meet.
const MEETING_VARIABLES: u64 = 2;

/// Values kept on the stack that cost as much there.
const MEETING_KEPT: u64 = 6;

/// Jumps away and returns that make another one cost a unit more.
const LEAVING: u64 = 64;

/// What a target of a table costs, and of how many variables each costs it one more.
const TARGET: u64 = 8;
const TARGET_VARIABLES: u64 = 24;

/// Products of values that a block hands on and such blocks before it that cost a unit.
const HANDED_ON: u64 = 2;

/// What is known of a module before its functions come, as far as it decides their costs.
#[derive(Default)]
pub(super) struct Costs {
    types: Vec<(u64, u64)>,
    functions: Vec<u32>,
    bodies: usize,
    imports: usize,
    total: u64,
}

/// What one function has cost so far.
#[derive(Default)]
struct FunctionCost {
    instructions: u64,
    variables: u64,
    loops: u64,
    /// Other places where ways meet.
    meetings: u64,
    /// Blocks that hand values on.
    handing: u64,
    /// Jumps away and returns.
    leaving: u64,
}

impl Costs {
    /// A type is declared.
    pub(super) fn kind(&mut self, kind: &FuncType) {
        self.types.push((kind.params().len() as u64, kind.results().len() as u64));
    }

    /// An imported function has this type.
    pub(super) fn import(&mut self, kind: u32) {
        self.functions.push(kind);
        self.imports += 1;
    }

    /// A function of the module has this type.
    pub(super) fn function(&mut self, kind: u32) {
        self.functions.push(kind);
    }

    fn values(&self, kind: u32) -> (u64, u64) {
        self.types.get(kind as usize).copied().unwrap_or_default()
    }

    fn values_of(&self, function: u32) -> (u64, u64) {
        self.functions.get(function as usize).map_or((0, 0), |kind| self.values(*kind))
    }

    /// Takes in what a section says of types and functions.
    fn section(&mut self, payload: &Payload<'_>) -> Result<(), Refusal> {
        match payload {
            Payload::TypeSection(reader) => {
                reader.clone().into_iter_err_on_gc_types().try_for_each(|kind| kind.map(|kind| self.kind(&kind)))?;
            }
            Payload::ImportSection(reader) => {
                for import in reader.clone().into_imports() {
                    if let TypeRef::Func(kind) = import?.ty {
                        self.import(kind);
                    }
                }
            }
            Payload::FunctionSection(reader) => {
                limit("functions", u64::from(reader.count()), super::sections::FUNCTIONS_MAX)?;
                reader.clone().into_iter().try_for_each(|kind| kind.map(|kind| self.function(kind)))?;
            }
            Payload::CodeSectionEntry(body) => {
                let locals = body
                    .get_locals_reader()?
                    .into_iter()
                    .try_fold(0, |sum, group| group.map(|(count, _)| sum + u64::from(count)))?;
                limit("locals in a function", locals, super::sections::LOCALS_MAX)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Validates the next function, and counts what it costs.
    pub(super) fn body<T: WasmModuleResources>(
        &mut self,
        validator: &mut FuncValidator<T>,
        body: &FunctionBody<'_>,
    ) -> Result<(), Refusal> {
        validator.read_locals(&mut body.get_binary_reader())?;
        let (parameters, results) = self.values_of((self.imports + self.bodies) as u32);
        self.bodies += 1;
        let variables = u64::from(validator.len_locals());
        let instructions = FUNCTION + FUNCTION_VALUE * (parameters + results) + variables / 8;
        let mut function = FunctionCost { instructions, variables, ..FunctionCost::default() };
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset()?;
            validator.op(offset, &operator)?;
            self.take(&mut function, &operator, u64::from(validator.operand_stack_height()));
        }
        operators.finish()?;
        self.end(&function)
    }

    /// An instruction, behind which so many values are kept.
    fn take(&self, function: &mut FunctionCost, operator: &Operator<'_>, kept: u64) {
        function.instructions += match operator {
            Operator::Block { blockty } => 3 + self.block(function, blockty),
            Operator::Loop { blockty } => {
                function.loops += 1;
                75 + kept / MEETING_KEPT + self.block(function, blockty)
            }
            Operator::If { blockty } => {
                function.meetings += 1;
                24 + kept / MEETING_KEPT + self.block(function, blockty)
            }
            Operator::Call { function_index } => {
                let (parameters, results) = self.values_of(*function_index);
                21 + 2 * (parameters + results)
            }
            Operator::CallIndirect { type_index, .. } => {
                let (parameters, results) = self.values(*type_index);
                84 + 2 * (parameters + results)
            }
            Operator::Else => 6,
            Operator::Br { .. } | Operator::Return => {
                function.leaving += 1;
                8 + function.leaving / LEAVING
            }
            Operator::BrIf { .. } => {
                function.meetings += 1;
                12 + kept / MEETING_KEPT
            }
            Operator::BrTable { targets } => {
                function.meetings += 1;
                let targets = u64::from(targets.len());
                12 + kept / MEETING_KEPT + TARGET * targets + targets * function.variables / TARGET_VARIABLES
            }
            operator => weight(operator),
        };
    }

    /// What the values cost that a block takes and gives.
    fn block(&self, function: &mut FunctionCost, kind: &BlockType) -> u64 {
        let (parameters, results) = match kind {
            BlockType::Empty => (0, 0),
            BlockType::Type(_) => (0, 1),
            BlockType::FuncType(kind) => self.values(*kind),
        };
        let values = parameters + results;
        function.handing += u64::from(values > 1);
        2 * values + if values > 1 { values * function.handing / HANDED_ON } else { 0 }
    }

    /// The function ends.
    fn end(&mut self, function: &FunctionCost) -> Result<(), Refusal> {
        let at_loops = function.loops.saturating_mul(function.variables).saturating_mul(LOOP_VARIABLE);
        let at_meetings = function.meetings.saturating_mul(function.variables) / MEETING_VARIABLES;
        let cost = function.instructions.saturating_add(at_loops).saturating_add(at_meetings);
        limit("units of work for the compiler in a function (see docs/bundle.md)", cost, FUNCTION_COST_MAX)?;
        self.total = self.total.saturating_add(cost);
        limit("units of work for the compiler (see docs/bundle.md)", self.total, COST_MAX)
    }
}

/// What an instruction costs that is no branch and no call.
fn weight(operator: &Operator<'_>) -> u64 {
    use Operator as O;
    match operator {
        O::LocalGet { .. } | O::LocalSet { .. } | O::LocalTee { .. } | O::Drop | O::Nop | O::End | O::Unreachable => 1,
        O::I32Const { .. } | O::I64Const { .. } | O::F32Const { .. } | O::F64Const { .. } => 1,
        O::GlobalGet { .. } | O::GlobalSet { .. } => 2,
        O::MemoryCopy { .. } => 170,
        O::MemoryFill { .. } => 120,
        operator if is_integer_32(operator) || is_integer_64(operator) => 5,
        O::F32Abs
        | O::F32Neg
        | O::F32Ceil
        | O::F32Floor
        | O::F32Trunc
        | O::F32Nearest
        | O::F32Sqrt
        | O::F32Add
        | O::F32Sub
        | O::F32Mul
        | O::F32Div
        | O::F32Min
        | O::F32Max
        | O::F32Copysign
        | O::F64Abs
        | O::F64Neg
        | O::F64Ceil
        | O::F64Floor
        | O::F64Trunc
        | O::F64Nearest
        | O::F64Sqrt
        | O::F64Add
        | O::F64Sub
        | O::F64Mul
        | O::F64Div
        | O::F64Min
        | O::F64Max
        | O::F64Copysign
        | O::F32DemoteF64
        | O::F64PromoteF32 => 20,
        // Memory beyond whose end code must not get, numbers whose results are the same on every processor, vectors.
        _ => 10,
    }
}

/// Whether it computes with integers of 32 bits.
fn is_integer_32(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::I32Eqz
            | O::I32Eq
            | O::I32Ne
            | O::I32LtS
            | O::I32LtU
            | O::I32GtS
            | O::I32GtU
            | O::I32LeS
            | O::I32LeU
            | O::I32GeS
            | O::I32GeU
            | O::I32Clz
            | O::I32Ctz
            | O::I32Popcnt
            | O::I32Add
            | O::I32Sub
            | O::I32Mul
            | O::I32DivS
            | O::I32DivU
            | O::I32RemS
            | O::I32RemU
            | O::I32And
            | O::I32Or
            | O::I32Xor
            | O::I32Shl
            | O::I32ShrS
            | O::I32ShrU
            | O::I32Rotl
            | O::I32Rotr
            | O::I32WrapI64
            | O::I32Extend8S
            | O::I32Extend16S
            | O::Select
    )
}

/// Whether it computes with integers of 64 bits.
fn is_integer_64(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::I64Eqz
            | O::I64Eq
            | O::I64Ne
            | O::I64LtS
            | O::I64LtU
            | O::I64GtS
            | O::I64GtU
            | O::I64LeS
            | O::I64LeU
            | O::I64GeS
            | O::I64GeU
            | O::I64Clz
            | O::I64Ctz
            | O::I64Popcnt
            | O::I64Add
            | O::I64Sub
            | O::I64Mul
            | O::I64DivS
            | O::I64DivU
            | O::I64RemS
            | O::I64RemU
            | O::I64And
            | O::I64Or
            | O::I64Xor
            | O::I64Shl
            | O::I64ShrS
            | O::I64ShrU
            | O::I64Rotl
            | O::I64Rotr
            | O::I64ExtendI32S
            | O::I64ExtendI32U
            | O::I64Extend8S
            | O::I64Extend16S
            | O::I64Extend32S
    )
}

/// Whether a module of whatever kind is valid and within the bounds.
pub fn bounds(wasm: &[u8]) -> Result<(), Refusal> {
    let mut costs = Costs::default();
    let features = WasmFeatures::default().difference(WasmFeatures::RELAXED_SIMD);
    let mut validator = Validator::new_with_features(features);
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        costs.section(&payload)?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload)? {
            let mut function = function.into_validator(allocations);
            costs.body(&mut function, &body)?;
            allocations = function.into_allocations();
        }
    }
    Ok(())
}
