//! Packet buffers.

use super::{code, object, put};
use crate::buffers::{Extent, Packet};
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::objects;
use crate::session::{Session, session_of};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

fn find(packet: *const c_void) -> Result<(Arc<Session>, Packet), Error> {
    let (slot, packet) = objects::packet_of(packet)?;
    Ok((session_of(slot)?, packet))
}

/// An empty packet.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufAlloc(domain: *mut c_void) -> *mut c_void {
    let alloc = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        domain.living()?;
        Ok(objects::packet_name(domain.session.slot(), domain.session.alloc(domain.name)?))
    };
    object(alloc())
}

/// Gives a packet back.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufFree(packet: *mut c_void) -> c_int {
    code(find(packet).and_then(|(session, packet)| session.free(packet)))
}

/// Where the octets of a packet are.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufData(packet: *mut c_void) -> *mut c_void {
    object(find(packet).and_then(|(session, packet)| Ok(session.buffers().data(packet)?.cast())))
}

/// How many there are.
///
/// # Safety
/// `length` is NULL or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_pktbufLength(packet: *mut c_void, length: *mut usize) -> c_int {
    let ask = || {
        let (session, packet) = find(packet)?;
        // SAFETY: the caller's promise.
        unsafe { put(length, session.buffers().extent(packet)?.length.into()) }
    };
    code(ask())
}

/// Makes a packet longer or shorter at its end.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufResize(packet: *mut c_void, length: usize) -> c_int {
    let resize = || {
        let (session, packet) = find(packet)?;
        let length = u16::try_from(length).map_err(|_| Error::Invalid)?;
        session.buffers().set_extent(packet, |extent| Some(Extent { length, ..extent }))
    };
    code(resize())
}

/// Moves the beginning of a packet: forward by so many octets, or backward.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufTrim(packet: *mut c_void, octets: i64) -> c_int {
    let trim = || {
        let (session, packet) = find(packet)?;
        session.buffers().set_extent(packet, |Extent { start, length }| {
            Some(Extent {
                start: i64::from(start).checked_add(octets)?.try_into().ok()?,
                length: i64::from(length).checked_sub(octets)?.try_into().ok()?,
            })
        })
    };
    code(trim())
}
