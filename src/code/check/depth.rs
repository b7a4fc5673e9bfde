//! How deep a linked bpf program goes: calls within calls, and the stack that they take together.
//!
//! The kernel gives a program 512 bytes of stack over all functions on one way, eight of them at most, and no recursion.
//! Its verifier says so without saying where. Here the call is named that goes too deep. Each function's part is what it
//! reaches below its frame pointer, rounded as the kernel does.

use crate::code::bundle::Insn;
use core::fmt;

/// Bytes of stack.
pub const STACK_MAX: u32 = 512;
/// Functions within each other.
pub const FRAMES_MAX: usize = 8;

/// What a function's part is rounded to.
const ROUND: u32 = 16;

const CALL: u8 = 0x85;
const LOCAL: u8 = 1;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const FRAME: u8 = 10;

/// Why a program goes too deep, and at which instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// This call leads back to the function that it is in.
    Recursion {
        /// The call.
        at: usize,
    },
    /// From this call on there are more functions within each other than allowed.
    Frames {
        /// The call.
        at: usize,
    },
    /// The function with this instruction takes more stack than is left.
    Stack {
        /// The instruction that reaches furthest down.
        at: usize,
        /// Bytes on the way to it, its own included.
        bytes: u32,
    },
}

impl Depth {
    /// The instruction.
    pub fn at(&self) -> usize {
        let (Depth::Recursion { at } | Depth::Frames { at } | Depth::Stack { at, .. }) = *self;
        at
    }

    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Depth::Recursion { .. } => "write it as a loop with a constant bound, or build with --only wasm",
            Depth::Frames { .. } => "make some of the functions AN_INLINE",
            Depth::Stack { .. } => {
                "keep less in variables: use w->payload in place, or an_load() and an_store(); or build with --only wasm"
            }
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Depth::Recursion { .. } => {
                f.write_str("this call leads back to its own function, and the kernel has no recursion")
            }
            Depth::Frames { .. } => write!(f, "this call is within more functions than the {FRAMES_MAX} of the kernel"),
            Depth::Stack { bytes, .. } => {
                write!(f, "{bytes} bytes of stack are used on the way to here, and the kernel has {STACK_MAX}")
            }
        }
    }
}

/// A function: where it begins and ends, its part of the stack and who takes that, and its calls.
struct Function {
    range: core::ops::Range<usize>,
    stack: u32,
    deepest: usize,
    calls: Vec<(usize, usize)>,
}

/// Looks at a program, all of whose calls of functions are within it.
pub fn depth(code: &[Insn]) -> Result<(), Depth> {
    let functions = functions(code);
    let mut way = Vec::new();
    if functions.is_empty() { Ok(()) } else { follow(&functions, 0, 0, 0, &mut way) }
}

/// Where the call at `at` goes to, if it is one of a function.
fn called(code: &[Insn], at: usize) -> Option<usize> {
    let insn = code.get(at).filter(|insn| insn.opcode == CALL && insn.src == LOCAL)?;
    usize::try_from(at as i64 + 1 + i64::from(insn.imm)).ok().filter(|to| *to < code.len())
}

fn functions(code: &[Insn]) -> Vec<Function> {
    let mut starts: Vec<usize> = (0..code.len()).filter_map(|at| called(code, at)).chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    let place = |start: usize| starts.binary_search(&start).unwrap_or(0);
    let ends = starts.iter().skip(1).copied().chain([code.len()]);
    let function = |(start, end): (&usize, usize)| {
        let calls = (*start..end).filter_map(|at| Some((at, place(called(code, at)?)))).collect();
        let (stack, deepest) = reaches(code, *start..end);
        Function { range: *start..end, stack, deepest, calls }
    };
    starts.iter().zip(ends).map(function).collect()
}

/// How far below its frame pointer a function reaches, and where.
fn reaches(code: &[Insn], range: core::ops::Range<usize>) -> (u32, usize) {
    let mut most = (0, range.start);
    for at in range.clone() {
        let (insn, next) = (code[at], code.get(at + 1).filter(|_| at + 1 < range.end));
        let below = match insn.opcode & 7 {
            1 if insn.src == FRAME => -i64::from(insn.off),
            2 | 3 if insn.dst == FRAME => -i64::from(insn.off),
            // A copy of the frame pointer, and what is added to it.
            7 if insn.opcode == MOVE && insn.src == FRAME => match next {
                Some(add) if add.opcode == ADD && add.dst == insn.dst => -i64::from(add.imm),
                _ => 0,
            },
            _ => 0,
        };
        let below = u32::try_from(below).unwrap_or(0);
        if below > most.0 {
            most = (below, at);
        }
    }
    (most.0.max(1).next_multiple_of(ROUND), most.1)
}

/// Follows the calls of a function that has so much stack and so many functions before it.
fn follow(functions: &[Function], at: usize, before: u32, call: usize, way: &mut Vec<usize>) -> Result<(), Depth> {
    let function = &functions[at];
    let bytes = before + function.stack;
    if way.contains(&at) {
        return Err(Depth::Recursion { at: call });
    }
    if way.len() == FRAMES_MAX {
        return Err(Depth::Frames { at: call });
    }
    if bytes > STACK_MAX {
        return Err(Depth::Stack { at: function.deepest, bytes });
    }
    way.push(at);
    debug_assert!(function.calls.iter().all(|(call, _)| function.range.contains(call)));
    for (call, to) in &function.calls {
        follow(functions, *to, bytes, *call, way)?;
    }
    way.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXIT: Insn = Insn { opcode: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

    fn call(distance: i32) -> Insn {
        Insn { opcode: CALL, src: LOCAL, imm: distance, ..Insn::default() }
    }

    fn store(off: i16) -> Insn {
        Insn { opcode: 0x7a, dst: FRAME, off, ..Insn::default() }
    }

    #[test]
    fn recursion_is_found_where_it_begins() {
        assert_eq!(depth(&[call(-1), EXIT]), Err(Depth::Recursion { at: 0 }));
        let ring = [call(1), EXIT, call(1), EXIT, call(-3), EXIT];
        assert_eq!(depth(&ring), Err(Depth::Recursion { at: 4 }));
        assert_eq!(depth(&[call(2), call(1), EXIT, EXIT]), Ok(()), "twice is no recursion");
    }

    #[test]
    fn stack_counts_over_one_way_and_not_over_all() {
        let below = |first, second| depth(&[store(first), call(1), EXIT, store(second), EXIT]);
        assert_eq!(below(-256, -256), Ok(()));
        assert_eq!(below(-256, -264), Err(Depth::Stack { at: 3, bytes: 256 + 272 }));
        assert_eq!(below(-520, -8), Err(Depth::Stack { at: 0, bytes: 528 }));
        let two = [call(3), call(4), EXIT, EXIT, store(-496), EXIT, store(-496), EXIT];
        assert_eq!(depth(&two), Ok(()));
        let copy =
            [Insn { opcode: MOVE, dst: 2, src: FRAME, ..EXIT }, Insn { opcode: ADD, dst: 2, imm: -600, ..EXIT }, EXIT];
        assert_eq!(depth(&copy), Err(Depth::Stack { at: 0, bytes: 608 }));
    }

    #[test]
    fn eight_functions_are_within_each_other_and_no_more() {
        let chain = |length: usize| (0..length - 1).flat_map(|_| [call(1), EXIT]).chain([EXIT]).collect::<Vec<_>>();
        assert_eq!(depth(&chain(8)), Ok(()));
        assert_eq!(depth(&chain(9)), Err(Depth::Frames { at: 14 }));
    }
}
