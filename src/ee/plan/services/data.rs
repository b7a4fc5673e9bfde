//! Data that stays, octets, and chunks as octets.

use super::super::evaluate::{At, raise};
use super::super::layers::{REASSEMBLE, bare};
use super::super::parts::PARTS_MAX;
use super::{Given, list, not_found, refused, wrong};
use plan::eval::{Fault, State};
use plan::name::Name;
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

pub fn put(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Key(key), value, Value::Int(seconds)] = given else { return wrong("put") };
    let place = ((**name).into(), *key);
    let holder = at.holder();
    let before = at.state.resident.put(at.env.now(), holder, place, value, *seconds).ok_or_else(refused)?;
    at.outbox.undo.push(before);
    Ok(Value::Unit)
}

pub fn get(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Key(key)] = given else { return wrong("get") };
    at.state.resident.value(at.env.now(), name, *key).ok_or_else(not_found)
}

pub fn make_blob(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(octets)] = given else { return wrong("makeBlob") };
    Ok(Value::Blob(octets.clone()))
}

pub fn explode_blob(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Blob(octets)] = given else { return wrong("explodeBlob") };
    Ok(Value::Text(octets.clone()))
}

/// Nodes give nobody their files: only the host that injects has this service.
pub fn blob_from_file(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(_)] = given else { return wrong("getBlobFromFile") };
    Err(raise(const { Name::known("FileNotFound") }))
}

fn octets_of(chunk: &Arc<Chunk>) -> Result<Vec<u8>, plan::eval::Stop> {
    bare(chunk).ok_or(raise(const { Name::known("TooBig") }))
}

pub fn size(_: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Chunk(chunk)] = given else { return wrong("sizeOf") };
    Ok(Value::Int(octets_of(chunk)?.len() as i64))
}

pub fn fragment(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Chunk(chunk), Value::Int(size)] = given else { return wrong("fragment") };
    let octets = octets_of(chunk)?;
    let size = usize::try_from(*size).ok().filter(|size| *size > 0).ok_or_else(refused)?;
    let count = octets.len().div_ceil(size) as i64;
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
    let parts: Option<Vec<Value>> = octets.chunks(size).enumerate().map(part).collect();
    list(parts.ok_or(Fault::Value)?)
}
