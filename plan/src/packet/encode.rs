//! Packets to bytes.

use super::header::{BOUND, DESTINATION, FIXED, FLOW, PORT, PREVIOUS, SESSION, SOURCE};
use super::{CODES_MAX, Header, PACKET_MAX, Packet, VERSION};
use crate::code::Writer;
use crate::program::{Digest, Slice};
use crate::value::{Callee, Chunk, Value};
use std::convert::Infallible;

/// The first bytes of values.
pub(super) mod tag {
    pub const UNIT: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INT: u8 = 3;
    pub const CHAR: u8 = 4;
    pub const TEXT: u8 = 5;
    pub const TUPLE: u8 = 6;
    pub const LIST: u8 = 7;
    pub const CHUNK: u8 = 8;
    pub const HOST_V4: u8 = 9;
    pub const HOST: u8 = 10;
    pub const PORT: u8 = 11;
    pub const KEY: u8 = 12;
    pub const BLOB: u8 = 13;
    pub const EXN: u8 = 14;
    pub const DEV: u8 = 15;
    pub const SERVICE: u8 = 16;
}

impl Packet {
    /// Adds the packet's bytes to `out`; false, and `out` as it was, if they would be too many.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        encode(&self.header, &self.chunk, out)
    }

    /// The packet's bytes; none if they would be too many.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.encode(&mut out).then_some(out)
    }
}

fn encode(header: &Header, chunk: &Chunk, out: &mut Vec<u8>) -> bool {
    slices(chunk).is_some_and(|codes| encode_with(header, chunk, &codes, out))
}

/// The codes of a chunk and of those inside it, in the order of their first use, each once; none if they are too many.
pub fn slices(chunk: &Chunk) -> Option<Vec<&Slice>> {
    slices_for(chunk, &mut |_| Ok::<(), Infallible>(())).ok().flatten()
}

/// The same for who pays: `pay` is told how many bytes of code have to be worked through for each, before that is done, and can end it.
pub fn slices_for<'a, E>(
    chunk: &'a Chunk,
    pay: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<Option<Vec<&'a Slice>>, E> {
    let mut codes = Vec::new();
    Ok(collect(chunk, &mut codes, pay)?.then_some(codes))
}

/// The same for a value that is not inside a chunk.
pub fn slices_of<'a, E>(
    value: &'a Value,
    pay: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<Option<Vec<&'a Slice>>, E> {
    let mut codes = Vec::new();
    Ok(collect_value(value, &mut codes, pay)?.then_some(codes))
}

/// A value alone, with these [`slices_of`] it, as [`super::unpack`] reads it; none if the bytes are too many.
pub fn pack(value: &Value, codes: &[&Slice]) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    write_codes(codes, false, &mut writer);
    write_value(value, codes, &mut writer);
    Some(writer.out).filter(|out| out.len() <= PACKET_MAX)
}

/// Adds the bytes of a packet with these [`slices`] to `out`; false, and `out` as it was, if they would be too many.
pub fn encode_with(header: &Header, chunk: &Chunk, codes: &[&Slice], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    fixed(header, out);
    let mut writer = Writer::after(std::mem::take(out));
    writer.name(&header.routing);
    writer.name(&header.handler);
    write_codes(codes, header.by_digest, &mut writer);
    write_chunk(chunk, codes, &mut writer);
    *out = writer.out;
    let fits = out.len() - start <= PACKET_MAX;
    if !fits {
        out.truncate(start);
    }
    fits
}

fn fixed(header: &Header, out: &mut Vec<u8>) {
    let mut fixed = [0; FIXED];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(field) = fixed.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    put(0, &[VERSION, header.flags()]);
    put(BOUND, &header.bound.to_be_bytes());
    put(FLOW, &header.flow.to_be_bytes());
    put(PORT, &header.port.to_be_bytes());
    put(SESSION, &header.session);
    put(SOURCE, &header.source.0);
    put(DESTINATION, &header.destination.0);
    put(PREVIOUS, &header.previous.0);
    out.extend_from_slice(&fixed);
}

fn write_codes(codes: &[&Slice], by_digest: bool, writer: &mut Writer) {
    writer.number(codes.len() as u64);
    for slice in codes {
        if by_digest {
            writer.out.extend_from_slice(&slice.digest.0);
        } else {
            writer.bytes(&slice.bytes);
        }
    }
}

fn collect<'a, E>(
    chunk: &'a Chunk,
    codes: &mut Vec<&'a Slice>,
    pay: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<bool, E> {
    if matches!(chunk.callee(), Callee::Function(..)) {
        let work = chunk.slice_work();
        if work > 0 {
            pay(work)?;
        }
        let Some(slice) = chunk.slice() else { return Ok(false) };
        if place(slice.digest, codes).is_none() {
            codes.push(slice);
        }
        if codes.len() > CODES_MAX {
            return Ok(false);
        }
    }
    collect_all(chunk.arguments().iter(), codes, pay)
}

fn collect_all<'a, E>(
    values: impl Iterator<Item = &'a Value>,
    codes: &mut Vec<&'a Slice>,
    pay: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<bool, E> {
    for value in values {
        if !collect_value(value, codes, pay)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn collect_value<'a, E>(
    value: &'a Value,
    codes: &mut Vec<&'a Slice>,
    pay: &mut impl FnMut(u32) -> Result<(), E>,
) -> Result<bool, E> {
    match value {
        Value::Tuple(tuple) => collect_all(tuple.items().iter(), codes, pay),
        Value::List(list) => collect_all(list.iter(), codes, pay),
        Value::Chunk(chunk) => collect(chunk, codes, pay),
        _ => Ok(true),
    }
}

fn place(digest: Digest, codes: &[&Slice]) -> Option<usize> {
    codes.iter().position(|code| code.digest == digest)
}

fn write_chunk(chunk: &Chunk, codes: &[&Slice], writer: &mut Writer) {
    match chunk.callee() {
        Callee::Service(name) => {
            writer.number(0);
            writer.name(name);
        }
        Callee::Function(..) => {
            let slice = chunk.slice();
            let code = slice.and_then(|slice| place(slice.digest, codes)).unwrap_or(0);
            writer.number(code as u64 + 1);
            writer.number(slice.map_or(0, |slice| slice.entry.into()));
        }
    }
    writer.number(chunk.arguments().len() as u64);
    for argument in chunk.arguments() {
        write_value(argument, codes, writer);
    }
}

fn write_value(value: &Value, codes: &[&Slice], writer: &mut Writer) {
    match value {
        Value::Unit => writer.byte(tag::UNIT),
        Value::Bool(false) => writer.byte(tag::FALSE),
        Value::Bool(true) => writer.byte(tag::TRUE),
        Value::Int(number) => {
            writer.byte(tag::INT);
            writer.signed(*number);
        }
        Value::Char(byte) => writer.out.extend_from_slice(&[tag::CHAR, *byte]),
        Value::Text(bytes) => {
            writer.byte(tag::TEXT);
            writer.bytes(bytes);
        }
        Value::Blob(bytes) => {
            writer.byte(tag::BLOB);
            writer.bytes(bytes);
        }
        Value::Tuple(tuple) => {
            writer.byte(tag::TUPLE);
            writer.number(tuple.items().len() as u64);
            tuple.items().iter().for_each(|item| write_value(item, codes, writer));
        }
        Value::List(list) => {
            writer.byte(tag::LIST);
            writer.number(list.len().into());
            list.iter().for_each(|item| write_value(item, codes, writer));
        }
        Value::Chunk(chunk) => {
            writer.byte(tag::CHUNK);
            write_chunk(chunk, codes, writer);
        }
        Value::Host(host) => match host.bytes_v4() {
            Some([a, b, c, d]) => writer.out.extend_from_slice(&[tag::HOST_V4, a, b, c, d]),
            None => {
                writer.byte(tag::HOST);
                writer.out.extend_from_slice(&host.0);
            }
        },
        Value::Port(port) => {
            writer.byte(tag::PORT);
            writer.out.extend_from_slice(&port.to_be_bytes());
        }
        Value::Key(key) => {
            writer.byte(tag::KEY);
            writer.out.extend_from_slice(key);
        }
        Value::Exn(name) => {
            writer.byte(tag::EXN);
            writer.name(name);
        }
        Value::Dev(dev) => {
            writer.byte(tag::DEV);
            writer.number((*dev).into());
        }
        Value::Service(name) => {
            writer.byte(tag::SERVICE);
            writer.name(name);
        }
    }
}
