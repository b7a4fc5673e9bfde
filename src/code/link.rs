//! Active linking: mobile code and the calls that it uses become one program for the kernel.
//!
//! ```text
//! ┌────────┬──────────────────────┬──────────────┐
//! │ runner │ the code, as it came │ calls it uses│     what the verifier sees
//! └────────┴──────────────────────┴──────────────┘
//!   calls the code as a global function: verified for itself, over context and window
//! ```
//!
//! The code has passed [`crate::code::check::bpf`], so it contains no call that is not one of its own
//! functions or a symbol. The linker turns each symbol into a call of the environment's function,
//! appends those and no others, resolves maps, and puts in the constants that say which code this
//! is. A symbol that the environment does not have is an error that names it. After OKE Corral's
//! environment setup code; the boundary is here, not in the kernel's verifier alone.

use crate::code::bundle::{Insn, Program};
use crate::contract;
use core::fmt;

/// The opcode of calls.
const CALL: u8 = 0x85;

/// Source register of a call of a function of the same program.
const LOCAL: u8 = 1;

/// Source register of a call of a symbol, in code not yet linked.
const SYMBOL: u8 = 14;

/// The opcode of a 64-bit constant, and the source register that makes it a map by its place in a list, or the map's one
/// value.
const CONSTANT: u8 = 0x18;
const MAP: u8 = 5;
const VALUE: u8 = 6;

/// The opcodes that set a 64-bit register to an immediate, and that add one.
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;

/// The immediate that stands for the code's slot.
pub const SLOT: i32 = contract::SLOT as i32;

/// The immediate that stands for the payload bytes in the code's window.
pub const WINDOW: i32 = contract::WINDOW as i32;

/// The immediate that stands for the sets of the code's soft state, less one.
pub const SETS: i32 = contract::SETS as i32;

/// The immediate that stands for the longest keep time of soft state, in milliseconds.
pub const KEEP: i32 = contract::KEEP as i32;

/// The immediate that stands for the children that a packet may send.
pub const MOST: i32 = contract::MOST as i32;

/// The calls that are written down while code runs, and done afterwards: code with one of them has another runner.
const RECORDED: [&str; 2] = ["an_send", "an_log"];

/// What an instruction of the environment refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A map, by name.
    Map(String),
    /// The value of a map that has one, by the map's name.
    Value(String),
    /// The mobile code.
    Code,
    /// Another function of our own, by name.
    Function(String),
}

/// A function of the environment.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its instructions; jumps stay inside.
    pub code: Vec<Insn>,
    /// Which instructions refer to what.
    pub references: Vec<(usize, Reference)>,
}

/// What stands around mobile code: the runner, and the calls.
#[derive(Clone, Debug, Default)]
pub struct LinkEnvironment {
    /// The entry, which calls the code.
    pub runner: Function,
    /// The same for code that sends or logs.
    pub sender: Function,
    /// The calls, by symbol name.
    pub calls: Vec<Function>,
}

/// What is put into one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    /// The code's slot.
    pub slot: u32,
    /// Payload bytes in its window.
    pub window: u32,
    /// Sets of its soft state, a power of two.
    pub sets: u32,
    /// Longest keep time of its soft state, in milliseconds.
    pub keep_ms: u32,
    /// Children that a packet may send.
    pub children: u32,
}

impl LinkEnvironment {
    /// What stands around this program.
    pub fn runner_of(&self, program: &Program) -> &Function {
        let recorded = program.symbols.iter().any(|symbol| RECORDED.contains(&symbol.as_str()));
        if recorded { &self.sender } else { &self.runner }
    }
}

/// Whose a function of a linked program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The runner.
    Runner,
    /// The entry of the mobile code.
    Entry,
    /// Another function of the mobile code.
    Code,
    /// A call of the environment.
    Call,
}

/// A program for the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedProgram {
    /// Its instructions.
    pub code: Vec<Insn>,
    /// Where its functions begin, in order.
    pub functions: Vec<(usize, Owner)>,
    /// The maps that its instructions refer to by their place in this list.
    pub maps: Vec<String>,
}

/// Why code cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The environment does not have a call.
    NoCall(String),
    /// Code or environment has an instruction that cannot stand there.
    Broken(&'static str),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::NoCall(name) => write!(f, "the kernel half has no {name}: the code runs in the user half"),
            LinkError::Broken(what) => write!(f, "cannot be linked: {what}"),
        }
    }
}

impl core::error::Error for LinkError {}

impl LinkedProgram {
    /// The instructions as the kernel takes them.
    pub fn bytes(&self) -> Vec<u8> {
        self.code.iter().flat_map(|insn| insn.encode()).collect()
    }
}

/// A program of our own, the first of these functions, with those that it calls: no mobile code, no constants of one.
pub fn alone(functions: &[Function]) -> Result<LinkedProgram, LinkError> {
    let mut linked = LinkedProgram::default();
    let starts = starts(0, functions);
    for (at, function) in functions.iter().enumerate() {
        let owner = if at == 0 { Owner::Runner } else { Owner::Call };
        linked.append(function, owner, None, Constants::default())?;
    }
    for (function, start) in functions.iter().zip(&starts) {
        for (at, reference) in &function.references {
            let Reference::Function(name) = reference else { continue };
            let called = functions.iter().position(|function| function.name == *name);
            let to = called.ok_or(LinkError::Broken("a call of a function that is not there"))?;
            linked.code[start + at] = local(start + at, starts[to]);
        }
    }
    Ok(linked)
}

/// Where functions begin, one behind the other from `at` on.
fn starts<'a>(mut at: usize, functions: impl IntoIterator<Item = &'a Function>) -> Vec<usize> {
    let start = |function: &Function| {
        let end = at + function.code.len();
        core::mem::replace(&mut at, end)
    };
    functions.into_iter().map(start).collect()
}

/// Links checked `program` with `environment`.
pub fn link(
    environment: &LinkEnvironment,
    program: &Program,
    constants: Constants,
) -> Result<LinkedProgram, LinkError> {
    let mut linked = LinkedProgram::default();
    let runner = environment.runner_of(program);
    let entry = runner.code.len();
    linked.append(runner, Owner::Runner, Some(entry), constants)?;

    let calls = program.symbols.iter().map(|name| {
        let found = environment.calls.iter().find(|call| call.name == *name);
        found.ok_or_else(|| LinkError::NoCall(name.clone()))
    });
    let calls = calls.collect::<Result<Vec<_>, _>>()?;
    linked.append_code(program, &starts(entry + program.code.len(), calls.iter().copied()))?;
    for call in calls {
        linked.append(call, Owner::Call, Some(entry), constants)?;
    }
    Ok(linked)
}

impl LinkedProgram {
    /// Appends a function of the environment, around mobile code that begins at `entry`, or around none.
    fn append(
        &mut self,
        function: &Function,
        owner: Owner,
        entry: Option<usize>,
        constants: Constants,
    ) -> Result<(), LinkError> {
        let start = self.code.len();
        self.functions.push((start, owner));
        for insn in &function.code {
            let value = match (insn.opcode, insn.imm) {
                (SET | ADD, SLOT) => constants.slot as i32,
                (SET | ADD, WINDOW) => constants.window as i32,
                (SET | ADD, SETS) => constants.sets.saturating_sub(1) as i32,
                (SET | ADD, KEEP) => constants.keep_ms as i32,
                (SET | ADD, MOST) => constants.children as i32,
                (_, imm) => imm,
            };
            self.code.push(Insn { imm: value, ..*insn });
        }
        for (at, reference) in &function.references {
            let place = start + at;
            let insn = self.code.get_mut(place).ok_or(LinkError::Broken("a reference outside its function"))?;
            match reference {
                Reference::Map(name) if insn.opcode == CONSTANT => {
                    insn.src = MAP;
                    insn.imm = place_of(&mut self.maps, name) as i32;
                }
                Reference::Value(name) if insn.opcode == CONSTANT => {
                    insn.src = VALUE;
                    insn.imm = place_of(&mut self.maps, name) as i32;
                }
                Reference::Code if insn.opcode == CALL => {
                    *insn = local(place, entry.ok_or(LinkError::Broken("a call of code where there is none"))?);
                }
                // Where that is will be known later; only programs of our own have such calls.
                Reference::Function(_) if insn.opcode == CALL && entry.is_none() => {}
                _ => return Err(LinkError::Broken("a reference of another kind than its instruction")),
            }
        }
        Ok(())
    }

    /// Appends the mobile code; call `n` of its symbols is the function that begins at `starts[n]`.
    fn append_code(&mut self, program: &Program, starts: &[usize]) -> Result<(), LinkError> {
        let entry = self.code.len();
        let mut functions = vec![entry];
        for (at, insn) in program.code.iter().enumerate() {
            let place = entry + at;
            let linked = match (insn.opcode, insn.src) {
                (CALL, SYMBOL) => {
                    let start = starts.get(insn.imm as usize).ok_or(LinkError::Broken("a call of no symbol"))?;
                    local(place, *start)
                }
                (CALL, LOCAL) => {
                    let to = (place as i64 + 1 + i64::from(insn.imm)) as usize;
                    if !functions.contains(&to) {
                        functions.push(to);
                    }
                    *insn
                }
                (CALL, _) => return Err(LinkError::Broken("a call that was not checked")),
                _ => *insn,
            };
            self.code.push(linked);
        }
        functions.sort_unstable();
        let owner = |at: usize| if at == entry { Owner::Entry } else { Owner::Code };
        self.functions.extend(functions.into_iter().map(|at| (at, owner(at))));
        Ok(())
    }
}

/// Where a name stands in a list, at its end if it was not there.
fn place_of(list: &mut Vec<String>, name: &str) -> usize {
    list.iter().position(|known| known == name).unwrap_or_else(|| {
        list.push(name.to_owned());
        list.len() - 1
    })
}

/// A call, at instruction `from`, of the function that begins at instruction `to`.
fn local(from: usize, to: usize) -> Insn {
    Insn { opcode: CALL, src: LOCAL, imm: to as i32 - from as i32 - 1, ..Insn::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXIT: Insn = Insn { opcode: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

    fn call(src: u8, imm: i32) -> Insn {
        Insn { opcode: CALL, src, imm, ..Insn::default() }
    }

    fn constants() -> Constants {
        Constants { slot: 7, window: 12, sets: 4, keep_ms: 1000, children: 3 }
    }

    fn environment() -> LinkEnvironment {
        let function = |name: &str, code: Vec<Insn>, references| Function { name: name.into(), code, references };
        let set = |imm| Insn { opcode: SET, dst: 1, imm, ..Insn::default() };
        let map = Insn { opcode: CONSTANT, dst: 1, ..Insn::default() };
        LinkEnvironment {
            runner: function("runner", vec![set(SLOT), call(LOCAL, -1), EXIT], vec![(1, Reference::Code)]),
            sender: function("sender", vec![set(MOST), call(LOCAL, -1), EXIT], vec![(1, Reference::Code)]),
            calls: vec![
                function("an_now", vec![set(WINDOW), EXIT], vec![]),
                function("an_log", vec![map, Insn::default(), EXIT], vec![(0, Reference::Map("log".into()))]),
            ],
        }
    }

    fn linked(symbols: &[&str], code: Vec<Insn>) -> Result<LinkedProgram, LinkError> {
        let program = Program { symbols: symbols.iter().map(|name| (*name).to_owned()).collect(), code };
        link(&environment(), &program, constants())
    }

    #[test]
    fn only_the_calls_that_are_used_are_appended_and_found() {
        let linked = linked(&["an_log"], vec![call(SYMBOL, 0), call(LOCAL, 1), EXIT, EXIT]).unwrap();
        assert_eq!(linked.functions, [(0, Owner::Runner), (3, Owner::Entry), (6, Owner::Code), (7, Owner::Call)]);
        assert_eq!((linked.code[0].imm, linked.code[1]), (3, call(LOCAL, 1)), "the runner of code that logs");
        assert_eq!((linked.code[3], linked.code[4]), (call(LOCAL, 3), call(LOCAL, 1)));
        assert_eq!((linked.code[7].src, linked.code[7].imm, &linked.maps[..]), (MAP, 0, &["log".to_owned()][..]));
        assert_eq!(linked.code.len(), 10);
    }

    #[test]
    fn constants_are_those_of_the_code() {
        let linked = linked(&["an_now"], vec![call(SYMBOL, 0), EXIT]).unwrap();
        assert_eq!((linked.code[0].imm, linked.code[5].imm), (7, 12));
    }

    #[test]
    fn functions_of_our_own_find_each_other_and_nothing_else() {
        let function = |name: &str, calls: &str| Function {
            name: name.into(),
            code: vec![call(LOCAL, -1), EXIT],
            references: vec![(0, Reference::Function(calls.into()))],
        };
        let linked = alone(&[function("first", "second"), function("second", "second")]).unwrap();
        assert_eq!(linked.code, [call(LOCAL, 1), EXIT, call(LOCAL, -1), EXIT]);
        assert_eq!(linked.functions, [(0, Owner::Runner), (2, Owner::Call)]);
        assert!(alone(&[function("first", "third")]).is_err());
        let code = Function { references: vec![(0, Reference::Code)], ..function("first", "") };
        assert!(alone(&[code]).is_err(), "there is no mobile code");
        let environment = LinkEnvironment { runner: function("runner", "runner"), ..LinkEnvironment::default() };
        let program = Program { symbols: Vec::new(), code: vec![EXIT] };
        assert!(link(&environment, &program, constants()).is_err(), "around mobile code nothing else is called");
    }

    #[test]
    fn what_the_environment_lacks_is_named() {
        assert_eq!(linked(&["an_send"], vec![call(SYMBOL, 0), EXIT]), Err(LinkError::NoCall("an_send".into())));
        assert!(matches!(linked(&[], vec![call(0, 1), EXIT]), Err(LinkError::Broken(_))));
        assert!(matches!(linked(&[], vec![call(SYMBOL, 3), EXIT]), Err(LinkError::Broken(_))));
    }

    #[test]
    fn every_call_of_linked_code_is_one_the_linker_knows() {
        for at in 0..3 {
            let mut code = vec![call(SYMBOL, 0), EXIT];
            code.insert(at.min(1), call(2, 9));
            assert!(linked(&["an_now"], code).is_err());
        }
    }
}
