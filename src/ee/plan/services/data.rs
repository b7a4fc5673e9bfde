//! Services for resident data (`put`, `get`), bytes, and chunks as bytes.

use super::super::evaluate::{At, raise};
use super::super::layers::{REASSEMBLE, bare_header};
use super::super::library::Shelf;
use super::super::parts::PARTS_MAX;
use super::super::work;
use super::{Given, list, not_found, refused, too_big, wrong};
use plan::eval::{self, Fault, State, spend};
use plan::name::Name;
use plan::packet::{pack, slices_of, unpack};
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

pub fn put(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Key(key), value, Value::Int(seconds)] = given else { return wrong("put") };
    let bytes = if *seconds > 0 { packed(at, value, &mut state.steps)? } else { Vec::new() };
    let place = ((**name).into(), *key);
    let holder = at.holder();
    let Some(before) = at.state.resident.put(at.env.now(), holder, place, &bytes, *seconds) else {
        at.state.account.no_room += 1;
        return Err(refused());
    };
    at.outbox.undo.push(before);
    Ok(Value::Unit)
}

/// A value with its codes, as bytes.
fn packed(at: &mut At<'_>, value: &Value, steps: &mut u32) -> eval::Result<Vec<u8>> {
    let codes = slices_of(value, &mut |bytes| at.account_for_slice(bytes, steps))?.ok_or_else(too_big)?;
    let bytes: usize = codes.iter().map(|slice| slice.bytes.len()).sum();
    spend(steps, work::writing(bytes + 16 * value.extent().weight as usize))?;
    pack(value, &codes).ok_or_else(too_big)
}

/// What compiling its codes takes is paid too, or it is not done.
pub fn get(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Key(key)] = given else { return wrong("get") };
    let bytes = at.state.resident.value(at.env.now(), name, *key).ok_or_else(not_found)?;
    spend(&mut state.steps, work::reading(bytes.len()))?;
    let mut seen = Vec::new();
    let mut shelf = Shelf::new(at.library, at.table, &mut seen).at_most(state.steps as usize);
    let value = unpack(&bytes, &mut shelf);
    let (compiled, beyond) = (shelf.compiled, shelf.beyond);
    at.state.account.compiled += compiled as u64;
    spend(&mut state.steps, if beyond { u32::MAX } else { compiled as u32 })?;
    value.map_err(|_| not_found())
}

pub fn make_blob(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(bytes)] = given else { return wrong("makeBlob") };
    Ok(Value::Blob(bytes.clone()))
}

pub fn explode_blob(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Blob(bytes)] = given else { return wrong("explodeBlob") };
    Ok(Value::Text(bytes.clone()))
}

/// Nodes give nobody their files: only the host that injects has this service.
pub fn blob_from_file(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(_)] = given else { return wrong("getBlobFromFile") };
    Err(raise(const { Name::known("FileNotFound") }))
}

fn bytes_of(at: &mut At<'_>, chunk: &Arc<Chunk>, steps: &mut u32) -> eval::Result<Vec<u8>> {
    at.bytes(&bare_header(), chunk, steps)
}

pub fn size(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Chunk(chunk)] = given else { return wrong("sizeOf") };
    Ok(Value::Int(bytes_of(at, chunk, &mut state.steps)?.len() as i64))
}

/// The checksum of a chunk with all that travels with it: the same on every node.
pub fn checksum(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Chunk(chunk)] = given else { return wrong("csum") };
    let bytes = bytes_of(at, chunk, &mut state.steps)?;
    spend(&mut state.steps, work::reading(bytes.len()))?;
    Ok(Value::Int(crc(&bytes).into()))
}

/// CRC-32 of IEEE 802.3: every change of 32 bits in a row, or fewer, changes it.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

pub fn fragment(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Chunk(chunk), Value::Int(size)] = given else { return wrong("fragment") };
    let bytes = bytes_of(at, chunk, &mut state.steps)?;
    let size = usize::try_from(*size).ok().filter(|size| *size > 0).ok_or_else(refused)?;
    let count = bytes.len().div_ceil(size) as i64;
    if count > i64::from(PARTS_MAX) {
        return Err(refused());
    }
    let mut key = [0; 16];
    key[..8].copy_from_slice(&at.env.random().to_be_bytes());
    key[8..].copy_from_slice(&at.env.random().to_be_bytes());
    let part = |(index, part): (usize, &[u8])| {
        let arguments = [Value::Key(key), Value::Int(index as i64), Value::Int(count), Value::Blob(part.into())];
        Chunk::new(Callee::Service(REASSEMBLE), arguments).map(|chunk| Value::Chunk(Arc::new(chunk)))
    };
    let parts: Option<Vec<Value>> = bytes.chunks(size).enumerate().map(part).collect();
    list(parts.ok_or(Fault::Value)?)
}

#[cfg(test)]
mod tests {
    /// The check value of the catalogues of such codes.
    #[test]
    fn the_checksum_is_that_of_ethernet() {
        assert_eq!(super::crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc(b""), 0);
    }
}
