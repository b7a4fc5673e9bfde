//! Bytes to packets: total, bounded, and only the canonical form is accepted.

use super::encode::tag;
use super::{CODES_MAX, FIXED, Header, PACKET_MAX, Packet, View};
use crate::code::{CODE_MAX, CodeError, Reader};
use crate::name::Name;
use crate::program::{Digest, Program, Services};
use crate::value::{Callee, Chunk, DEPTH_MAX, Host, Value};
use std::fmt;
use std::sync::Arc;

/// Why bytes are no packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The fixed part is too short, or its version, flags or reserved bytes are unknown.
    Header,
    /// Longer than any packet.
    TooLong,
    /// Bytes follow the packet.
    Trailing,
    /// A number, name or tag is malformed, or the packet ends too early.
    Form(CodeError),
    /// A code is malformed.
    Code(CodeError),
    /// A code that is named by digest is not here. With it, the packet could be decoded.
    Absent(Digest),
    /// Too many codes, one twice, one that is not used, or not in the order of their first use.
    Codes,
    /// A chunk's function is not in its code, or its code has more than it needs.
    Function,
    /// A value is too large, nests too deep, or is not in canonical form.
    Value,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Header => f.write_str("the header is malformed"),
            DecodeError::TooLong => f.write_str("the packet is too long"),
            DecodeError::Trailing => f.write_str("bytes follow the packet"),
            DecodeError::Form(error) => write!(f, "malformed packet: {error}"),
            DecodeError::Code(error) => write!(f, "malformed code: {error}"),
            DecodeError::Absent(digest) => write!(f, "the code {digest} is not here"),
            DecodeError::Codes => f.write_str("the codes are not the ones that are used, in order"),
            DecodeError::Function => f.write_str("a chunk's code is not what its function needs"),
            DecodeError::Value => f.write_str("a value is too large or malformed"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<CodeError> for DecodeError {
    fn from(error: CodeError) -> DecodeError {
        DecodeError::Form(error)
    }
}

/// Where programs are kept.
pub trait Library {
    /// The program of these bytes, from before or made now.
    fn by_bytes(&mut self, bytes: &[u8]) -> Result<Arc<Program>, CodeError>;

    /// The program of the code with this digest, if it is here.
    fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>>;
}

/// Keeps no programs: makes every one anew, and knows none by digest.
pub struct Libraryless<'a>(pub &'a dyn Services);

impl Library for Libraryless<'_> {
    fn by_bytes(&mut self, bytes: &[u8]) -> Result<Arc<Program>, CodeError> {
        Program::read(bytes, self.0).map(Arc::new)
    }

    fn by_digest(&mut self, _: &Digest) -> Option<Arc<Program>> {
        None
    }
}

impl Packet {
    /// Reads a packet from bytes that are exactly its canonical form.
    pub fn decode(bytes: &[u8], library: &mut dyn Library) -> Result<Packet, DecodeError> {
        if bytes.len() > PACKET_MAX {
            return Err(DecodeError::TooLong);
        }
        let view = View::new_checked(bytes).ok_or(DecodeError::Header)?;
        let mut reader = Reader::new(bytes.get(FIXED..).unwrap_or(&[]));
        let (routing, handler) = (reader.name()?, reader.name()?);
        let codes = read_codes(&mut reader, view.by_digest(), library)?;
        let mut values = Values { reader, codes: &codes, used: 0 };
        let chunk = values.chunk(0)?;
        if values.reader.left() > 0 {
            return Err(DecodeError::Trailing);
        }
        if values.used != codes.len() {
            return Err(DecodeError::Codes);
        }
        let header = Header {
            by_digest: view.by_digest(),
            report: view.report(),
            bound: view.bound(),
            flow: view.flow(),
            port: view.port(),
            session: view.session(),
            source: view.source(),
            destination: view.destination(),
            previous: view.previous(),
            routing,
            handler,
        };
        Ok(Packet { header, chunk: Arc::new(chunk) })
    }
}

/// Reads a value that [`super::pack`] has written, and nothing else.
pub fn unpack(bytes: &[u8], library: &mut dyn Library) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let codes = read_codes(&mut reader, false, library)?;
    let mut values = Values { reader, codes: &codes, used: 0 };
    let value = values.value(1)?;
    match (values.reader.left(), values.used == codes.len()) {
        (0, true) => Ok(value),
        (0, false) => Err(DecodeError::Codes),
        _ => Err(DecodeError::Trailing),
    }
}

fn read_codes(
    reader: &mut Reader<'_>,
    by_digest: bool,
    library: &mut dyn Library,
) -> Result<Vec<Arc<Program>>, DecodeError> {
    let count: usize = reader.small()?;
    if count > CODES_MAX {
        return Err(DecodeError::Codes);
    }
    let mut codes: Vec<Arc<Program>> = Vec::with_capacity(count);
    for _ in 0..count {
        let program = if by_digest {
            let digest = Digest(reader.array()?);
            library.by_digest(&digest).ok_or(DecodeError::Absent(digest))?
        } else {
            let bytes = reader.bytes()?;
            if bytes.len() > CODE_MAX {
                return Err(DecodeError::Code(CodeError::Limit));
            }
            library.by_bytes(bytes).map_err(DecodeError::Code)?
        };
        if codes.iter().any(|code| code.digest() == program.digest()) {
            return Err(DecodeError::Codes);
        }
        codes.push(program);
    }
    Ok(codes)
}

struct Values<'a> {
    reader: Reader<'a>,
    codes: &'a [Arc<Program>],
    /// How many of the codes have been used.
    used: usize,
}

impl Values<'_> {
    fn chunk(&mut self, depth: u16) -> Result<Chunk, DecodeError> {
        let code: usize = self.reader.small()?;
        let callee = match code.checked_sub(1) {
            None => Callee::Service(named(&mut self.reader)?),
            Some(code) => {
                let program = self.codes.get(code).ok_or(DecodeError::Codes)?;
                let function: u16 = self.reader.small()?;
                let needed = program.code().params(function).is_some() && program.code().is_slice_for(function);
                if !needed {
                    return Err(DecodeError::Function);
                }
                self.use_code(code)?;
                Callee::Function(program.clone(), function)
            }
        };
        let arguments = self.values(depth + 1)?;
        Chunk::new(callee, arguments).ok_or(DecodeError::Value)
    }

    /// Codes are first used in their order.
    fn use_code(&mut self, code: usize) -> Result<(), DecodeError> {
        if code > self.used {
            return Err(DecodeError::Codes);
        }
        self.used = self.used.max(code + 1);
        Ok(())
    }

    fn values(&mut self, depth: u16) -> Result<Vec<Value>, DecodeError> {
        let count: usize = self.reader.small()?;
        if count > self.reader.left() {
            return Err(DecodeError::Form(CodeError::Truncated));
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    fn value(&mut self, depth: u16) -> Result<Value, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Value);
        }
        let reader = &mut self.reader;
        Ok(match reader.byte()? {
            tag::UNIT => Value::Unit,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::INT => Value::Int(reader.signed()?),
            tag::CHAR => Value::Char(reader.byte()?),
            tag::TEXT => Value::Text(reader.bytes()?.into()),
            tag::BLOB => Value::Blob(reader.bytes()?.into()),
            tag::TUPLE => Value::tuple(self.values(depth + 1)?).ok_or(DecodeError::Value)?,
            tag::LIST => Value::list(self.values(depth + 1)?.into_iter()).ok_or(DecodeError::Value)?,
            tag::CHUNK => Value::Chunk(Arc::new(self.chunk(depth)?)),
            tag::HOST_V4 => Value::Host(Host::v4(reader.array()?)),
            tag::HOST => {
                let host = Host(reader.array()?);
                if host.bytes_v4().is_some() {
                    return Err(DecodeError::Value);
                }
                Value::Host(host)
            }
            tag::PORT => Value::Port(u64::from_be_bytes(reader.array()?)),
            tag::KEY => Value::Key(reader.array()?),
            tag::EXN => Value::Exn(named(reader)?),
            tag::DEV => Value::Dev(reader.small()?),
            tag::SERVICE => Value::Service(named(reader)?),
            _ => return Err(DecodeError::Form(CodeError::Tag)),
        })
    }
}

/// A name that is not empty.
fn named(reader: &mut Reader<'_>) -> Result<Name, DecodeError> {
    Some(reader.name()?).filter(|name| !name.is_none()).ok_or(DecodeError::Value)
}
