//! Code to bytes, in the canonical form; docs/plan.md has it in a table.

use super::{Code, Expr, Kind, Names, Target, VERSION};
use crate::name::Name;

/// Writes numbers and names, here and in packets.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// What has been written.
    pub out: Vec<u8>,
    /// The names that are not in the table, in the order of their first use.
    names: Names,
}

impl Writer {
    /// Goes on after what is in `out`.
    pub fn after(out: Vec<u8>) -> Writer {
        Writer { out, names: Names::default() }
    }

    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// A number in groups of seven bits, the lowest first.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    /// A signed number: small ones of either sign are short.
    pub fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// A name: its number in the table, or its place among those used so far; a new one follows.
    pub fn name(&mut self, name: &Name) {
        if let Some(number) = name.number() {
            return self.number(number as u64 * 2);
        }
        let seen = self.names.place(name);
        self.number(seen.unwrap_or(self.names.len()) as u64 * 2 + 1);
        if seen.is_none() {
            self.names.add(name);
            self.bytes(name.as_str().as_bytes());
        }
    }
}

impl Code {
    /// The canonical bytes.
    pub fn write(&self) -> Vec<u8> {
        self.write_measured().0
    }

    /// The canonical bytes, and how many of them each definition takes.
    pub(crate) fn write_measured(&self) -> (Vec<u8>, Vec<u32>) {
        let (mut writer, mut lengths) = (Writer::default(), Vec::with_capacity(self.definitions.len()));
        writer.byte(VERSION);
        writer.number(self.definitions.len() as u64);
        for definition in &self.definitions {
            let start = writer.out.len();
            writer.name(&definition.name);
            writer.byte(definition.params.map_or(0, |params| params + 1));
            writer.expr(&definition.body);
            lengths.push((writer.out.len() - start) as u32);
        }
        (writer.out, lengths)
    }
}

/// The first bytes of expressions.
pub(super) mod tag {
    pub const UNIT: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INT: u8 = 3;
    pub const CHAR: u8 = 4;
    pub const TEXT: u8 = 5;
    pub const EXN: u8 = 6;
    pub const SERVICE: u8 = 7;
    pub const LOCAL: u8 = 8;
    pub const VAL: u8 = 9;
    pub const ITEM: u8 = 10;
    pub const IF: u8 = 11;
    pub const TUPLE: u8 = 12;
    pub const LIST: u8 = 13;
    pub const SEQUENCE: u8 = 14;
    pub const LET: u8 = 15;
    pub const TRY: u8 = 16;
    pub const TRY_ANY: u8 = 17;
    pub const RAISE: u8 = 18;
    pub const CALL: u8 = 19;
    pub const CALL_SERVICE: u8 = 20;
    pub const CHUNK: u8 = 21;
    pub const CHUNK_SERVICE: u8 = 22;
    pub const FOLDL: u8 = 23;
    pub const FOLDL_SERVICE: u8 = 24;
    pub const FOLDR: u8 = 25;
    pub const FOLDR_SERVICE: u8 = 26;
    /// And the number of the primitive.
    pub const SEND: u8 = 32;
    /// And the number of the operator.
    pub const UNARY: u8 = 64;
    /// And the number of the operator.
    pub const BINARY: u8 = 96;
}

impl Writer {
    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            // No checked code has a hole.
            Kind::Unit | Kind::Hole => self.byte(tag::UNIT),
            Kind::Bool(value) => self.byte(if *value { tag::TRUE } else { tag::FALSE }),
            Kind::Int(value) => {
                self.byte(tag::INT);
                self.signed(*value);
            }
            Kind::Char(value) => self.out.extend_from_slice(&[tag::CHAR, *value]),
            Kind::Text(value) => {
                self.byte(tag::TEXT);
                self.bytes(value);
            }
            Kind::Exn(name) => self.named(tag::EXN, name),
            Kind::Service(name) => self.named(tag::SERVICE, name),
            Kind::Local(at) => self.numbered(tag::LOCAL, *at),
            Kind::Val(at) => self.numbered(tag::VAL, *at),
            Kind::Unary(operator, _) => self.byte(tag::UNARY + *operator as u8),
            Kind::Binary(operator, _) => self.byte(tag::BINARY + *operator as u8),
            Kind::Item(number, _) => self.out.extend_from_slice(&[tag::ITEM, *number]),
            Kind::If(_) => self.byte(tag::IF),
            Kind::Tuple(items) => self.out.extend_from_slice(&[tag::TUPLE, items.len() as u8]),
            Kind::List(items) => self.out.extend_from_slice(&[tag::LIST, items.len() as u8]),
            Kind::Sequence(items) => self.out.extend_from_slice(&[tag::SEQUENCE, items.len() as u8]),
            Kind::Let(..) => self.byte(tag::LET),
            Kind::Try(Some(name), _) => self.named(tag::TRY, name),
            Kind::Try(None, _) => self.byte(tag::TRY_ANY),
            Kind::Raise(_) => self.byte(tag::RAISE),
            Kind::Call(target, items) => self.target([tag::CALL, tag::CALL_SERVICE], target, items.len()),
            Kind::Chunk(target, items) => self.target([tag::CHUNK, tag::CHUNK_SERVICE], target, items.len()),
            Kind::Fold(true, target, items) => self.target([tag::FOLDL, tag::FOLDL_SERVICE], target, items.len()),
            Kind::Fold(false, target, items) => self.target([tag::FOLDR, tag::FOLDR_SERVICE], target, items.len()),
            Kind::Send(primitive, operands) => {
                self.out.extend_from_slice(&[tag::SEND + *primitive as u8, operands.len() as u8]);
            }
        }
        for inner in expr.kind.inside() {
            self.expr(inner);
        }
    }

    fn numbered(&mut self, tag: u8, number: u16) {
        self.byte(tag);
        self.number(number.into());
    }

    fn named(&mut self, tag: u8, name: &Name) {
        self.byte(tag);
        self.name(name);
    }

    fn target(&mut self, [function, service]: [u8; 2], target: &Target, count: usize) {
        match target {
            Target::Function(at) => self.numbered(function, *at),
            Target::Service(name) => self.named(service, name),
        }
        self.byte(count as u8);
    }
}
