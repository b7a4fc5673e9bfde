//! Channels: incoming, outgoing, and cut through.

use super::{code, object, spec, text};
use crate::buffers::Packet;
use crate::crew::{Argument, CEnd, CEnds, Channel, ProcessDomain, ReceiveFunction};
use crate::error::Error;
use crate::layout;
use crate::message::{Answer, Call, ChanSpec, KEY_MAX, KeyTuple};
use crate::objects::{self, CutChan, Object, OutChan, Place};
use crate::session::Session;
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

/// One comparison of a key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CKeyTuple {
    offset: c_uint,
    length: c_uint,
    value: u64,
    mask: u64,
}

layout::an_KeyTuple!(CKeyTuple);

/// A key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CDemuxKey {
    ntuples: c_int,
    tuples: *const CKeyTuple,
}

layout::an_DemuxKey!(CDemuxKey);

/// What a channel may use.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CNetSpec {
    maxthreads: c_int,
    bandwidth: c_uint,
    npbufs: c_int,
    pbufs: *const c_void,
}

layout::an_NetSpec!(CNetSpec);

/// Packets that may wait if the program does not say.
const BUFFERS: u16 = 256;

/// # Safety
/// The pointer is NULL or leads to a key whose tuples are there.
unsafe fn key(from: *const CDemuxKey) -> Result<Vec<KeyTuple>, Error> {
    if from.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    let key = unsafe { spec(from) }?;
    let count = usize::try_from(key.ntuples).ok().filter(|count| *count <= KEY_MAX).ok_or(Error::Invalid)?;
    let tuple = |at: usize| {
        // SAFETY: the caller's promise: there are so many tuples; `spec` refuses NULL and what is misaligned.
        let CKeyTuple { offset, length, value, mask } = unsafe { spec(key.tuples.wrapping_add(at)) }?;
        let offset = u16::try_from(offset).map_err(|_| Error::Invalid)?;
        let length = u8::try_from(length).ok().filter(|length| (1..=8).contains(length)).ok_or(Error::Invalid)?;
        Ok(KeyTuple { offset, length, value, mask })
    };
    (0..count).map(tuple).collect()
}

/// # Safety
/// Pointers are NULL or lead to what their types say.
unsafe fn channel(
    protocol: *const c_char,
    address: *const c_char,
    key: Vec<KeyTuple>,
    net: *const CNetSpec,
) -> Result<ChanSpec, Error> {
    // SAFETY: the caller's promise.
    let protocol = unsafe { text(protocol) }?;
    // SAFETY: as above.
    let address = if address.is_null() { String::new() } else { unsafe { text(address) }? };
    let none = CNetSpec { maxthreads: 0, bandwidth: 0, npbufs: 0, pbufs: core::ptr::null() };
    // SAFETY: as above.
    let net = if net.is_null() { none } else { unsafe { spec(net) }? };
    if !net.pbufs.is_null() {
        // The node's buffers are the connection's.
        return Err(Error::Unsupported);
    }
    let number = |given: c_int| u16::try_from(given).map_err(|_| Error::Invalid);
    let (max_threads, buffers) = (number(net.maxthreads)?, number(net.npbufs)?);
    let buffers = if buffers == 0 { BUFFERS } else { buffers };
    Ok(ChanSpec { protocol, address, key, max_threads, bandwidth: net.bandwidth.into(), buffers })
}

/// A packet of a session.
fn packet_of(packet: *mut c_void, session: &Session) -> Result<Packet, Error> {
    let (slot, packet) = objects::packet_of(packet)?;
    if slot == session.slot() { Ok(packet) } else { Err(Error::Denied) }
}

/// Creates an incoming channel.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // The papers' signature.
pub unsafe extern "C" fn an_inchanCreate(
    mem: *mut c_void,
    domain: *mut c_void,
    demuxkey: *const CDemuxKey,
    protspec: *const c_char,
    addrspec: *const c_char,
    netspec: *const CNetSpec,
    deliverfunc: Option<ReceiveFunction>,
    deliverarg: *mut c_void,
) -> *mut c_void {
    let create = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        let function = deliverfunc.ok_or(Error::Invalid)?;
        // SAFETY: the caller's promise.
        let spec = unsafe { channel(protspec, addrspec, key(demuxkey)?, netspec) }?;
        let threads = if spec.max_threads == 0 { domain.threads } else { spec.max_threads.min(domain.threads) };
        let session = domain.session.clone();
        session.call_then(&Call::InChanCreate { domain: domain.name, spec }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let channel = Arc::new(Channel {
                session: session.clone(),
                domain: domain.name,
                name,
                handle: OnceLock::new(),
                function,
                argument: Argument::of(deliverarg),
                threads,
            });
            let handle = objects::add(place, Object::In(channel.clone()))?;
            let _ = channel.handle.set(handle as usize);
            session.desk().add_channel(&channel);
            Ok(handle)
        })
    };
    object(create())
}

/// Destroys an incoming channel.
#[unsafe(no_mangle)]
pub extern "C" fn an_inchanDestroy(channel: *mut c_void) -> c_int {
    let destroy = || {
        let channel = objects::remove::<Channel>(channel)?;
        let session = &channel.session;
        let done = session.call(&Call::InChanDestroy { channel: channel.name }).map(drop);
        session.desk().remove_channel(session, channel.name);
        done
    };
    code(destroy())
}

/// Has a packet come to an incoming channel of the program.
///
/// # Safety
/// `ends` is NULL or leads to both ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_inchanPass(channel: *mut c_void, packet: *mut c_void, ends: *const CEnds) -> c_int {
    let pass = || {
        let channel = objects::find::<Channel>(channel)?;
        let packet = packet_of(packet, &channel.session)?;
        // SAFETY: the caller's promise.
        let ends = if ends.is_null() { CEnds::default() } else { unsafe { spec(ends) }? };
        channel.session.desk().pass(&channel, packet, ends)
    };
    code(pass())
}

/// Creates an outgoing channel.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_outchanCreate(
    mem: *mut c_void,
    domain: *mut c_void,
    protspec: *const c_char,
    addrspec: *const c_char,
    netspec: *const CNetSpec,
) -> *mut c_void {
    let create = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        // SAFETY: the caller's promise.
        let spec = unsafe { channel(protspec, addrspec, Vec::new(), netspec) }?;
        let session = domain.session.clone();
        session.call_then(&Call::OutChanCreate { domain: domain.name, spec }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let channel = OutChan { session: session.clone(), domain: domain.name, name };
            objects::add(place, Object::Out(Arc::new(channel)))
        })
    };
    object(create())
}

/// Destroys an outgoing channel.
#[unsafe(no_mangle)]
pub extern "C" fn an_outchanDestroy(channel: *mut c_void) -> c_int {
    let destroy = || {
        let channel = objects::remove::<OutChan>(channel)?;
        channel.session.call(&Call::OutChanDestroy { channel: channel.name }).map(drop)
    };
    code(destroy())
}

/// Sends a packet.
///
/// # Safety
/// `to` is NULL or leads to an end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_outchanSend(channel: *mut c_void, to: *const CEnd, packet: *mut c_void) -> c_int {
    let send = || {
        let channel = objects::find::<OutChan>(channel)?;
        let packet = packet_of(packet, &channel.session)?;
        // SAFETY: the caller's promise.
        let to = if to.is_null() { None } else { Some(unsafe { spec(to) }?) };
        channel.session.send(packet, channel.name, channel.domain, to.map(|end| (end.address, end.port)))
    };
    code(send())
}

/// Creates a cut-through channel out of two others.
#[unsafe(no_mangle)]
pub extern "C" fn an_cutchanConcat(mem: *mut c_void, from: *mut c_void, to: *mut c_void) -> *mut c_void {
    let create = || {
        let place = Place::of(mem)?;
        let (from, to) = (objects::find::<Channel>(from)?, objects::find::<OutChan>(to)?);
        if !Arc::ptr_eq(&from.session, &to.session) {
            return Err(Error::Denied);
        }
        let name = named(&from.session, &Call::CutChanCreate { from: from.name, to: to.name })?;
        let channel = CutChan { session: from.session.clone(), domain: from.domain, name, ends: None };
        objects::add(place, Object::Cut(Arc::new(channel)))
    };
    object(create())
}

/// Creates a cut-through channel with its ends.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // The specifications of both ends.
pub unsafe extern "C" fn an_cutchanCreate(
    mem: *mut c_void,
    domain: *mut c_void,
    demuxkey: *const CDemuxKey,
    inprotspec: *const c_char,
    inaddrspec: *const c_char,
    outprotspec: *const c_char,
    outaddrspec: *const c_char,
    netspec: *const CNetSpec,
) -> *mut c_void {
    let create = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        // SAFETY: the caller's promise.
        let from = unsafe { channel(inprotspec, inaddrspec, key(demuxkey)?, netspec) }?;
        // SAFETY: as above.
        let to = unsafe { channel(outprotspec, outaddrspec, Vec::new(), netspec) }?;
        let session = domain.session.clone();
        let from = named(&session, &Call::InChanCreate { domain: domain.name, spec: from })?;
        let from_goes = |_: &Error| drop(session.call(&Call::InChanDestroy { channel: from }));
        let to = named(&session, &Call::OutChanCreate { domain: domain.name, spec: to }).inspect_err(from_goes)?;
        let both_go = |error: &Error| {
            let _ = session.call(&Call::OutChanDestroy { channel: to });
            from_goes(error);
        };
        let name = named(&session, &Call::CutChanCreate { from, to }).inspect_err(both_go)?;
        let (domain, ends) = (domain.name, Some((from, to)));
        objects::add(place, Object::Cut(Arc::new(CutChan { session: session.clone(), domain, name, ends })))
    };
    object(create())
}

/// The node's name of what a call creates.
fn named(session: &Session, call: &Call) -> Result<u32, Error> {
    match session.call(call)? {
        Answer::Object { name } => Ok(name),
        _ => Err(Error::Ended),
    }
}

/// Destroys a cut-through channel, with the ends that were created with it.
#[unsafe(no_mangle)]
pub extern "C" fn an_cutchanDestroy(channel: *mut c_void) -> c_int {
    let destroy = || {
        let cut = objects::remove::<CutChan>(channel)?;
        let done = cut.session.call(&Call::CutChanDestroy { channel: cut.name }).map(drop);
        if let Some((from, to)) = cut.ends {
            cut.session.call(&Call::InChanDestroy { channel: from })?;
            cut.session.call(&Call::OutChanDestroy { channel: to })?;
        }
        done
    };
    code(destroy())
}
