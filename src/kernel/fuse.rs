//! From the plan of a graph to instructions: the function `capsule` of `bpf/graph.bpf.c`, with all engines in it.
//!
//! ```text
//! r6 context   r7 first byte of the packet   r8 behind its last one in memory   r9 bytes of the packet that still count
//! ```
//!
//! The plan comes from the node, which may be anybody by then; so it is checked here, and what is made of it can count, change bytes of the
//! packet that are there, and say where it leaves. The kernel's verifier looks at it besides.

use crate::code::bundle::Insn;
use crate::code::link::{Function, LinkedProgram, Reference, alone};
use crate::contract::plan::{FusedBlock, FusedEnd, FusedStep, FusedTest, IP_AT, KernelPlan};
use crate::contract::port;
use std::io;

/// Instructions of one program, at most.
const CODE_MAX: usize = 16_384;

/// What the function is called, and what it returns if nothing leaves, or all is as it was.
const BODY: &str = "engines";
const ENDED: i32 = 0;
const AS_IT_CAME: i32 = 1;

/// Bytes of the longest header in front of an IP packet that leaves.
const HEADER: i32 = 14;

mod look_up;

/// Opcodes (RFC 9669).
mod op {
    pub const LOAD: [u8; 5] = [0, 0x71, 0x69, 0, 0x61];
    pub const LOAD_LONG: u8 = 0x79;
    pub const STORE: [u8; 5] = [0, 0x73, 0x6b, 0, 0x63];
    pub const STORE_LONG: u8 = 0x7b;
    pub const STORE_NUMBER: [u8; 5] = [0, 0x72, 0x6a, 0, 0x62];
    pub const CONSTANT: u8 = 0x18;
    pub const MOVE: u8 = 0xbf;
    pub const SET: u8 = 0xb7;
    pub const ADD: u8 = 0x07;
    pub const ADD_REGISTER: u8 = 0x0f;
    pub const SHIFT_RIGHT: u8 = 0x77;
    pub const SHIFT_LEFT: u8 = 0x67;
    pub const AND: u8 = 0x57;
    pub const AND_SHORT: u8 = 0x54;
    pub const OR_REGISTER: u8 = 0x4f;
    pub const XOR: u8 = 0xa7;
    pub const TO_BIG: u8 = 0xdc;
    pub const JUMP: u8 = 0x05;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
    /// Of 64 bits: the first register is greater; less; equal to a number.
    pub const IF_GREATER: u8 = 0x2d;
    pub const IF_LESS: u8 = 0xa5;
    pub const IF_NOT_LESS: u8 = 0x3d;
    pub const IF_EQUAL: u8 = 0x15;
    /// Of 32 bits.
    pub const IF_GREATER_SHORT: u8 = 0x26;
    pub const IF_LESS_SHORT: u8 = 0xa6;
    pub const IF_OTHER_SHORT: u8 = 0x56;
    pub const IF_EQUAL_SHORT: u8 = 0x16;
}

/// The number of `bpf_map_lookup_elem`.
const MAP_LOOKUP: i32 = 1;

/// Places in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const INTERFACE: i16 = 12;

/// Places on the stack, below register 10.
const WORDS: i16 = -8;
const KEY: i16 = -16;
/// What was found for its flow, and for where it goes next.
const FLOW: i16 = -24;
const STATION: i16 = -32;
/// What is looked for.
const LOOKED_FOR: i16 = -56;

/// Where a jump leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Block(u16),
    Ended,
    AsItCame,
}

#[derive(Default)]
struct Writer {
    code: Vec<Insn>,
    /// Jumps whose goals are known later.
    jumps: Vec<(usize, Goal)>,
    references: Vec<(usize, Reference)>,
    /// Whether a step cuts something off, so that bytes that are in memory may not count.
    trims: bool,
}

/// The program of a plan whose ports are interfaces: `runner` of `bpf/graph.bpf.c`, and its engines behind it.
pub fn fuse(mut runner: Function, plan: &KernelPlan) -> io::Result<LinkedProgram> {
    if !plan.is_sound() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no plan of a graph"));
    }
    for (_, reference) in &mut runner.references {
        if *reference == Reference::Code {
            *reference = Reference::Function(BODY.into());
        }
    }
    let body = body(plan).ok_or_else(|| io::Error::other("the graph's program would be too long"))?;
    alone(&[runner, body]).map_err(io::Error::other)
}

fn body(plan: &KernelPlan) -> Option<Function> {
    let trims = plan.blocks.iter().any(|block| block.steps.contains(&FusedStep::Trim));
    let mut writer = Writer { trims, ..Writer::default() };
    writer.begin(plan);
    let mut starts = Vec::new();
    for (at, block) in (0u16..).zip(&plan.blocks) {
        starts.push(writer.code.len());
        writer.block(block, at + 1, &plan.exits);
    }
    let ended = writer.code.len();
    if writer.jumps.iter().any(|(_, goal)| *goal == Goal::Ended) {
        writer.give_back(ENDED);
    }
    let as_it_came = writer.code.len();
    writer.give_back(AS_IT_CAME);
    if writer.code.len() > CODE_MAX {
        return None;
    }
    for (from, goal) in &writer.jumps {
        let to = match goal {
            Goal::Block(block) => *starts.get(usize::from(*block))?,
            Goal::Ended => ended,
            Goal::AsItCame => as_it_came,
        };
        writer.code.get_mut(*from)?.off = i16::try_from(to as i64 - *from as i64 - 1).ok()?;
    }
    Some(Function { name: BODY.into(), code: writer.code, references: writer.references })
}

impl Writer {
    fn put(&mut self, opcode: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.code.push(Insn { opcode, dst, src, off, imm });
    }

    fn number(&mut self, opcode: u8, dst: u8, imm: i32) {
        self.put(opcode, dst, 0, 0, imm);
    }

    fn registers(&mut self, opcode: u8, dst: u8, src: u8) {
        self.put(opcode, dst, src, 0, 0);
    }

    fn jump(&mut self, opcode: u8, (dst, src): (u8, u8), imm: i32, goal: Goal) {
        self.jumps.push((self.code.len(), goal));
        self.put(opcode, dst, src, 0, imm);
    }

    fn long(&mut self, dst: u8, value: u64) {
        self.put(op::CONSTANT, dst, 0, 0, value as u32 as i32);
        self.put(0, 0, 0, 0, (value >> 32) as u32 as i32);
    }

    fn give_back(&mut self, value: i32) {
        self.number(op::SET, 0, value);
        self.number(op::EXIT, 0, 0);
    }

    /// Nothing is changed or counted before it is known that all can be done.
    fn begin(&mut self, plan: &KernelPlan) {
        self.registers(op::MOVE, 6, 1);
        self.put(op::STORE_LONG, 10, 2, WORDS, 0);
        self.registers(op::MOVE, 9, 3);
        for interface in &plan.exits {
            // What is too large for a device, or would not arrive there, or would overtake others at it, goes up.
            self.put(op::STORE_NUMBER[4], 10, 0, KEY, *interface as i32);
            self.registers(op::MOVE, 2, 10);
            self.number(op::ADD, 2, KEY.into());
            self.references.push((self.code.len(), Reference::Map("ports_map".into())));
            self.long(1, 0);
            self.number(op::CALL, 0, MAP_LOOKUP);
            self.jump(op::IF_EQUAL, (0, 0), 0, Goal::AsItCame);
            self.put(op::LOAD[4], 1, 0, port::MTU.at() as i16, 0);
            self.number(op::ADD, 1, HEADER);
            self.jump(op::IF_GREATER, (9, 1), 0, Goal::AsItCame);
        }
        self.put(op::LOAD[4], 7, 6, DATA, 0);
        self.put(op::LOAD[4], 8, 6, DATA_END, 0);
        self.put(op::LOAD[4], 1, 6, INTERFACE, 0);
        for (interface, block) in &plan.entries {
            self.jump(op::IF_EQUAL_SHORT, (1, 0), *interface as i32, Goal::Block(*block));
        }
        // It was taken for the generation before.
        self.jump(op::JUMP, (0, 0), 0, Goal::AsItCame);
    }

    fn block(&mut self, block: &FusedBlock, next: u16, exits: &[u32]) {
        block.steps.iter().for_each(|step| self.step(step));
        match &block.end {
            FusedEnd::To(to) if *to == next => {}
            FusedEnd::To(to) => self.jump(op::JUMP, (0, 0), 0, Goal::Block(*to)),
            FusedEnd::Drop => self.give_back(ENDED),
            FusedEnd::Up => self.jump(op::JUMP, (0, 0), 0, Goal::AsItCame),
            FusedEnd::If(test, then, otherwise) => {
                self.test(test, Goal::Block(*otherwise));
                if *then != next {
                    self.jump(op::JUMP, (0, 0), 0, Goal::Block(*then));
                }
            }
            FusedEnd::Find { engine, key, outputs, otherwise } => {
                self.find(*engine, *key, Goal::Block(*otherwise));
                self.goes_by(*key, outputs, Goal::Block(*otherwise));
            }
            FusedEnd::Leave(exit, first) => {
                let interface = exits.get(usize::from(*exit)).copied().unwrap_or(0);
                self.long(0, u64::from(interface) | u64::from(*first) << 32);
                self.registers(op::MOVE, 1, 9);
                self.number(op::SHIFT_LEFT, 1, 48);
                self.registers(op::OR_REGISTER, 0, 1);
                self.number(op::EXIT, 0, 0);
            }
        }
    }

    /// The packet has bytes up to this one, or goes there.
    fn has(&mut self, end: u16, goal: Goal) {
        self.registers(op::MOVE, 2, 7);
        self.number(op::ADD, 2, end.into());
        self.jump(op::IF_GREATER, (2, 8), 0, goal);
        if self.trims {
            self.jump(op::IF_LESS, (9, 0), end.into(), goal);
        }
    }

    /// Where the IPv4 packet ends, in register 3.
    fn end_of_ip(&mut self) {
        self.put(op::LOAD[2], 3, 7, IP_AT as i16 + 2, 0);
        self.number(op::TO_BIG, 3, 16);
        self.number(op::ADD, 3, IP_AT.into());
    }

    fn test(&mut self, test: &FusedTest, otherwise: Goal) {
        let FusedTest { at, width, shift, mask, low, high, reach } = *test;
        self.has(at + u16::from(width), otherwise);
        if reach > 0 {
            self.has(IP_AT + 4, otherwise);
            self.end_of_ip();
            self.jump(op::IF_LESS, (3, 0), reach.into(), otherwise);
        }
        self.put(op::LOAD[usize::from(width)], 1, 7, at as i16, 0);
        if width > 1 {
            self.number(op::TO_BIG, 1, i32::from(width) * 8);
        }
        if shift > 0 {
            self.number(op::SHIFT_RIGHT, 1, shift.into());
        }
        let whole = u32::MAX >> (32 - u32::from(width) * 8 + u32::from(shift)).min(31);
        if mask & whole != whole {
            self.number(op::AND_SHORT, 1, mask as i32);
        }
        if low == high {
            return self.jump(op::IF_OTHER_SHORT, (1, 0), low as i32, otherwise);
        }
        if low > 0 {
            self.jump(op::IF_LESS_SHORT, (1, 0), low as i32, otherwise);
        }
        if high < whole {
            self.jump(op::IF_GREATER_SHORT, (1, 0), high as i32, otherwise);
        }
    }

    /// Adds to a word what is in register 2 then.
    fn count(&mut self, word: u16, add: impl FnOnce(&mut Writer)) {
        let place = word as i16 * 8;
        self.put(op::LOAD_LONG, 1, 10, WORDS, 0);
        self.put(op::LOAD_LONG, 2, 1, place, 0);
        add(self);
        self.put(op::STORE_LONG, 1, 2, place, 0);
    }

    fn step(&mut self, step: &FusedStep) {
        match step {
            FusedStep::Count(word) => self.count(*word, |it| it.number(op::ADD, 2, 1)),
            FusedStep::Bytes(word, first) => self.count(*word, |it| {
                it.registers(op::ADD_REGISTER, 2, 9);
                it.number(op::ADD, 2, -i32::from(*first));
            }),
            FusedStep::Put(at, bytes) => {
                self.has(at + bytes.len() as u16, Goal::Ended);
                let mut at = *at as i16;
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let width = if rest.len() >= 4 { 4 } else { rest.len().min(2) };
                    let (now, behind) = rest.split_at(width);
                    let value = now.iter().rev().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
                    self.put(op::STORE_NUMBER[width], 7, 0, at, value as i32);
                    (at, rest) = (at + width as i16, behind);
                }
            }
            FusedStep::Mirror(at) => {
                self.has(at + 12, Goal::Ended);
                let at = *at as i16;
                for (register, width, place) in [(1, 4, 0), (2, 2, 4), (3, 4, 6), (4, 2, 10)] {
                    self.put(op::LOAD[width], register, 7, at + place, 0);
                }
                for (register, width, place) in [(3, 4, 0), (4, 2, 4), (1, 4, 6), (2, 2, 10)] {
                    self.put(op::STORE[width], 7, register, at + place, 0);
                }
            }
            FusedStep::Trim => {
                self.has(IP_AT + 4, Goal::Ended);
                self.end_of_ip();
                // Two instructions on: that one, and this.
                self.put(op::IF_NOT_LESS, 3, 9, 1, 0);
                self.registers(op::MOVE, 9, 3);
            }
            FusedStep::SpendHop => self.spend_hop(),
            FusedStep::Readdress => self.readdress(),
            FusedStep::PutFound(at, bytes) => self.put_found(*at, *bytes),
        }
    }

    /// The sum in a register becomes a checksum; register 4 is used.
    fn fold(&mut self, register: u8) {
        for _ in 0..2 {
            self.registers(op::MOVE, 4, register);
            self.number(op::SHIFT_RIGHT, 4, 16);
            self.number(op::AND, register, 0xffff);
            self.registers(op::ADD_REGISTER, register, 4);
        }
        self.number(op::XOR, register, 0xffff);
    }

    /// RFC 1624, equation 3, for the word of time to live and protocol, which is in this order in memory.
    fn spend_hop(&mut self) {
        let (life, sum) = (IP_AT as i16 + 8, IP_AT as i16 + 10);
        self.has(IP_AT + 12, Goal::Ended);
        self.put(op::LOAD[2], 1, 7, life, 0);
        self.registers(op::MOVE, 2, 1);
        self.number(op::ADD, 2, -1);
        self.put(op::LOAD[2], 3, 7, sum, 0);
        self.number(op::XOR, 1, 0xffff);
        self.number(op::XOR, 3, 0xffff);
        self.registers(op::ADD_REGISTER, 3, 1);
        self.registers(op::ADD_REGISTER, 3, 2);
        self.fold(3);
        self.put(op::STORE[2], 7, 3, sum, 0);
        self.put(op::STORE[2], 7, 2, life, 0);
    }
}
