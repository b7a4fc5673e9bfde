//! Packets of a module. The buffers are memory that is shared with the node, which a module cannot reach. So a packet whose
//! bytes it asks for is copied into its memory, where each buffer has its place, and back when it is sent.

use super::{Fault, Module, PACKET, within};
use crate::buffers::Packet;
use crate::error::Error;
use crate::objects;
use crate::session::Session;
use core::cell::RefCell;
use std::sync::Arc;

/// Bits of a buffer's number in a module's name of a packet; those above say for which time it is used.
const BUFFER_BITS: u32 = 10;
const TIMES: u32 = (1 << (30 - BUFFER_BITS)) - 1;

/// Bytes of the places of all buffers, at most.
pub(super) const PLACES_BYTES: usize = (1 << BUFFER_BITS) * 2048;

/// The connection, and where packets are in the module's memory.
#[derive(Default)]
struct Window {
    session: Option<Arc<Session>>,
    /// Where the place of the first buffer is, once there are places, and how many bytes all have.
    at: Option<u32>,
    bytes: u32,
    /// For which time each buffer's packet is in its place.
    copied: Vec<Option<u32>>,
}

thread_local! {
    static WINDOW: RefCell<Window> = RefCell::default();
}

/// Has the packets be those of a connection; a module has one at a time.
pub(super) fn connect(session: Arc<Session>) -> Result<(), Error> {
    let (buffers, size) = (session.buffers().count(), session.buffers().size(0));
    if buffers > 1 << BUFFER_BITS || buffers * size > PLACES_BYTES {
        return Err(Error::Unsupported);
    }
    WINDOW.with_borrow_mut(|window| {
        window.session = Some(session);
        window.copied = vec![None; buffers];
        // The places of a connection before are too few for larger buffers, or more of them.
        let bytes = (buffers * size) as u32;
        window.at = window.at.filter(|_| window.bytes >= bytes);
        window.bytes = window.bytes.max(bytes);
    });
    Ok(())
}

/// Whether there is one.
pub(super) fn is_connected() -> bool {
    WINDOW.with_borrow(|window| window.session.is_some())
}

/// There is none any more.
pub(super) fn disconnect() {
    WINDOW.with_borrow_mut(|window| window.session = None);
}

/// A module's name of a packet.
pub(super) fn there(name: u64) -> u32 {
    let (buffer, generation) = (name as u32 & 0xffff, (name >> 16) as u32);
    PACKET | (generation & TIMES) << BUFFER_BITS | buffer
}

/// Our name of it; that of no packet if it is gone.
pub(super) fn here(name: u32) -> u64 {
    let (buffer, times) = ((name & ((1 << BUFFER_BITS) - 1)) as u16, name >> BUFFER_BITS & TIMES);
    WINDOW.with_borrow(|window| {
        let session = window.session.as_ref();
        let latest = session.and_then(|session| Some((session.slot(), session.buffers().latest(buffer)?)));
        let Some((slot, (mut packet, lives))) = latest else { return u64::MAX >> 1 };
        if !lives || packet.generation & TIMES != times {
            packet.generation ^= 1;
        }
        objects::packet_name(slot, packet) as u64
    })
}

/// The packet of a name, and its connection.
fn found(name: u64) -> Result<(Arc<Session>, Packet), Error> {
    let (_, packet) = objects::packet_of(name as *const _)?;
    let session = WINDOW.with_borrow(|window| window.session.clone()).ok_or(Error::Stale)?;
    Ok((session, packet))
}

/// Where the bytes of a packet are in the module's memory.
pub(super) fn data(module: &mut dyn Module, name: u64) -> Result<u32, Error> {
    let (session, packet) = found(name)?;
    let extent = session.buffers().extent(packet)?;
    let place = place(module, &session, packet.buffer)?;
    let at = place + u32::from(extent.start);
    let from = session.buffers().data(packet)?;
    let size = session.buffers().size(packet.buffer);
    let to = within(module, place, size).map_err(|_| Error::Memory)?;
    WINDOW.with_borrow_mut(|window| {
        let copied = &mut window.copied[usize::from(packet.buffer)];
        if *copied != Some(packet.generation) {
            *copied = Some(packet.generation);
            // The whole buffer: what is in front of the packet may be wanted again, as after an_pktbufTrim().
            // SAFETY: `from` is so far behind the beginning of its buffer, which has so many bytes; its place has as many.
            unsafe { core::ptr::copy_nonoverlapping(from.sub(extent.start.into()), to, size) };
        }
    });
    Ok(at)
}

/// The place of a buffer; the first time all get theirs.
fn place(module: &mut dyn Module, session: &Session, buffer: u16) -> Result<u32, Error> {
    let size = session.buffers().size(0) as u32;
    let known = WINDOW.with_borrow(|window| window.at);
    let first = match known {
        Some(at) => at,
        None => module.grow(WINDOW.with_borrow(|window| window.bytes)).ok_or(Error::Memory)?,
    };
    WINDOW.with_borrow_mut(|window| window.at = Some(first));
    Ok(first + u32::from(buffer) * size)
}

/// Puts what the module has made of a packet into its buffer, if it has looked at it.
pub(super) fn settle(module: &mut dyn Module, name: u64) -> Result<(), Fault> {
    let Ok((session, packet)) = found(name) else { return Ok(()) };
    let Ok(extent) = session.buffers().extent(packet) else { return Ok(()) };
    let (first, copied) =
        WINDOW.with_borrow(|window| (window.at, window.copied.get(usize::from(packet.buffer)).copied().flatten()));
    let (Some(first), Ok(to)) = (first.filter(|_| copied == Some(packet.generation)), session.buffers().data(packet))
    else {
        return Ok(());
    };
    let at = first + u32::from(packet.buffer) * session.buffers().size(0) as u32 + u32::from(extent.start);
    let from = within(module, at, extent.length.into())?;
    // SAFETY: as in `data`, the other way round.
    unsafe { core::ptr::copy_nonoverlapping(from, to, extent.length.into()) };
    Ok(())
}
