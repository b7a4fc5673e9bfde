//! Bytes to code: total, bounded, and only the canonical form is accepted.

use super::write::tag;
use super::{
    Binary, CODE_MAX, Code, CodeError, DEFINITIONS_MAX, Definition, Expr, Kind, NESTING_MAX, Names, Primitive, Target,
    Unary, VERSION,
};
use crate::name::Name;
use crate::span::Span;

type Result<T> = std::result::Result<T, CodeError>;

/// Reads numbers and names, here and in packets.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    names: Names,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, names: Names::default() }
    }

    /// How many bytes are left; every item of a list takes at least one.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or(CodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(CodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number in its shortest form.
    #[inline]
    pub fn number(&mut self) -> Result<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(CodeError::Number);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return if byte == 0 { Err(CodeError::Number) } else { Ok(number) };
            }
        }
        Err(CodeError::Number)
    }

    /// A number that fits `T`.
    #[inline]
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T> {
        T::try_from(self.number()?).map_err(|_| CodeError::Number)
    }

    pub fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length: usize = self.small()?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(CodeError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A name; the empty one too.
    pub fn name(&mut self) -> Result<Name> {
        let number: usize = self.small()?;
        let at = number >> 1;
        if number & 1 == 0 {
            return Name::core(at).ok_or(CodeError::BadName);
        }
        if let Some(name) = self.names.get(at) {
            return Ok(name.clone());
        }
        if at > self.names.len() {
            return Err(CodeError::BadName);
        }
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| CodeError::BadName)?;
        let name = Name::new(text).ok_or(CodeError::BadName)?;
        if name.number().is_some() || !self.names.add(&name) {
            return Err(CodeError::BadName);
        }
        Ok(name)
    }
}

impl Code {
    /// Reads a code from bytes that are exactly its canonical form.
    pub fn read(bytes: &[u8]) -> Result<Code> {
        if bytes.len() > CODE_MAX {
            return Err(CodeError::Limit);
        }
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(CodeError::Version);
        }
        let count: usize = reader.small()?;
        if count > DEFINITIONS_MAX {
            return Err(CodeError::Limit);
        }
        let mut definitions = Vec::with_capacity(count);
        for _ in 0..count {
            let name = reader.name()?;
            let params = reader.byte()?.checked_sub(1);
            let body = reader.expr(1)?;
            definitions.push(Definition { name, params, body });
        }
        if reader.left() > 0 {
            return Err(CodeError::Trailing);
        }
        Code::new(definitions)
    }
}

impl Reader<'_> {
    fn expr(&mut self, depth: u16) -> Result<Expr> {
        if depth > NESTING_MAX {
            return Err(CodeError::Limit);
        }
        let first = self.byte()?;
        let kind = match first {
            tag::UNIT => Kind::Unit,
            tag::FALSE => Kind::Bool(false),
            tag::TRUE => Kind::Bool(true),
            tag::INT => Kind::Int(self.signed()?),
            tag::CHAR => Kind::Char(self.byte()?),
            tag::TEXT => Kind::Text(self.bytes()?.into()),
            tag::EXN => Kind::Exn(self.name()?),
            tag::SERVICE => Kind::Service(self.name()?),
            tag::LOCAL => Kind::Local(self.small()?),
            tag::VAL => Kind::Val(self.small()?),
            tag::ITEM => Kind::Item(self.byte()?, Box::new(self.expr(depth + 1)?)),
            tag::IF => Kind::If(self.several(depth)?),
            tag::LET => Kind::Let(self.several(depth)?, None),
            tag::TRY => Kind::Try(Some(self.name()?), self.several(depth)?),
            tag::TRY_ANY => Kind::Try(None, self.several(depth)?),
            tag::RAISE => Kind::Raise(Box::new(self.expr(depth + 1)?)),
            tag::TUPLE => Kind::Tuple(self.counted(depth)?),
            tag::LIST => Kind::List(self.counted(depth)?),
            tag::SEQUENCE => Kind::Sequence(self.counted(depth)?),
            tag::CALL..=tag::FOLDR_SERVICE => self.targeted(first, depth)?,
            tag::SEND..tag::UNARY => {
                let primitive = operator(Primitive::ALL, first - tag::SEND)?;
                Kind::Send(primitive, self.counted(depth)?)
            }
            tag::UNARY..tag::BINARY => {
                let unary = operator(Unary::ALL, first - tag::UNARY)?;
                Kind::Unary(unary, Box::new(self.expr(depth + 1)?))
            }
            _ => {
                let binary = operator(Binary::ALL, first.checked_sub(tag::BINARY).ok_or(CodeError::Tag)?)?;
                Kind::Binary(binary, self.several(depth)?)
            }
        };
        Ok(Expr { kind, at: Span::NOWHERE })
    }

    fn targeted(&mut self, first: u8, depth: u16) -> Result<Kind> {
        // The tags of functions are odd, those of services even.
        let target = if first % 2 == 1 { Target::Function(self.small()?) } else { Target::Service(self.name()?) };
        let items = self.counted(depth)?;
        Ok(match first {
            tag::CALL | tag::CALL_SERVICE => Kind::Call(target, items),
            tag::CHUNK | tag::CHUNK_SERVICE => Kind::Chunk(target, items),
            tag::FOLDL | tag::FOLDL_SERVICE => Kind::Fold(true, target, items),
            _ => Kind::Fold(false, target, items),
        })
    }

    fn several<const N: usize>(&mut self, depth: u16) -> Result<Box<[Expr; N]>> {
        let mut items = Vec::with_capacity(N);
        for _ in 0..N {
            items.push(self.expr(depth + 1)?);
        }
        let items: [Expr; N] = items.try_into().map_err(|_| CodeError::Form)?;
        Ok(Box::new(items))
    }

    fn counted(&mut self, depth: u16) -> Result<Vec<Expr>> {
        let count = usize::from(self.byte()?);
        if count > self.left() {
            return Err(CodeError::Truncated);
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.expr(depth + 1)?);
        }
        Ok(items)
    }
}

fn operator<T: Copy>(all: &[T], number: u8) -> Result<T> {
    all.get(usize::from(number)).copied().ok_or(CodeError::Tag)
}
