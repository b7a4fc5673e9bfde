//! Packet buffers.

use super::{code, object, put};
use crate::buffers::{Extent, Packet};
use crate::crew::{self, ProcessDomain};
use crate::error::Error;
use crate::objects;
use crate::session::{Session, session_of};
use core::ffi::{c_int, c_void};

/// Does something with a packet and the session that it is of.
#[inline]
fn with<R>(packet: *const c_void, work: impl Fn(&Session, Packet) -> Result<R, Error>) -> Result<R, Error> {
    let (slot, packet) = objects::packet_of(packet)?;
    // A thread that works for the session needs no look at the others.
    crew::with_own(slot, |session| work(session, packet)).unwrap_or_else(|| work(&*session_of(slot)?, packet))
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
    code(with(packet, |session, packet| session.free(packet)))
}

/// Where the bytes of a packet are.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufData(packet: *mut c_void) -> *mut c_void {
    object(with(packet, |session, packet| Ok(session.buffers().data(packet)?.cast())))
}

/// How many there are.
///
/// # Safety
/// `length` is NULL or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_pktbufLength(packet: *mut c_void, length: *mut usize) -> c_int {
    let ask = |session: &Session, packet| {
        // SAFETY: the caller's promise.
        unsafe { put(length, session.buffers().extent(packet)?.length.into()) }
    };
    code(with(packet, ask))
}

/// Makes a packet longer or shorter at its end.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufResize(packet: *mut c_void, length: usize) -> c_int {
    let resize = |session: &Session, packet| {
        let length = u16::try_from(length).map_err(|_| Error::Invalid)?;
        session.buffers().set_extent(packet, |extent| Some(Extent { length, ..extent }))
    };
    code(with(packet, resize))
}

/// Moves the beginning of a packet: forward by so many bytes, or backward.
#[unsafe(no_mangle)]
pub extern "C" fn an_pktbufTrim(packet: *mut c_void, bytes: i64) -> c_int {
    let trim = |session: &Session, packet| {
        session.buffers().set_extent(packet, |Extent { start, length }| {
            Some(Extent {
                start: i64::from(start).checked_add(bytes)?.try_into().ok()?,
                length: i64::from(length).checked_sub(bytes)?.try_into().ok()?,
            })
        })
    };
    code(with(packet, trim))
}
