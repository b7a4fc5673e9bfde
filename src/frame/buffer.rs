//! Frames: the buffers of packets, and the pool of these buffers.
//!
//! One station at a time owns a frame, and it moves. So a packet crosses the node without a copy: the port fills it,
//! the node edits it in place and hands it to another port, that port gives it back to the pool. Room in front lets
//! headers be added when a capsule leaves an overlay for an Ethernet.

use super::marks::{Ends, Envelope, Marks, Notes, Payer, PeerId, PortId, Sent};
use crate::wire::Addr;

/// Bytes kept free in front of received data: Ethernet with one tag, IPv6, UDP, ANEP and a neighbour's proof fit in.
pub const HEADROOM: usize = 128;

/// Bytes of data a frame holds unless a port asks for more: an Ethernet frame of 1500 bytes
/// payload, with room to spare.
pub const FRAME: usize = 1952;

/// Bytes that a domain is charged for each packet buffer it holds.
pub const BUFFER: u64 = 2048;

/// Buffers a pool keeps when they come back; more are freed.
const POOL_MAX: usize = 4096;

/// A packet in its buffer, with the port it came from or goes to. One word moves from hand to hand, and the rest
/// stays: a copy of fields that were just written would wait for the writes.
pub struct Frame(Box<Fields>);

/// What a [`Frame`] is made of.
pub struct Fields {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Where it came in; on the way out, where it leaves.
    pub port: PortId,
    /// Which neighbour of an overlay port.
    pub peer: PeerId,
    /// Who pays for what it takes.
    pub payer: Payer,
    /// Of a packet that a channel brought, where its payload is until the domain has its turn.
    pub marks: Marks,
    /// Identity of the packet for traces: children have their own.
    pub trace: u64,
    /// Which application of this node waits for word of it.
    pub sent: Sent,
    /// Whether the neighbour that it came from has proved with its key to have sent it ([`crate::node`] sets it where a packet comes in).
    pub authenticated: bool,
    /// That neighbour; unspecified unless it is authenticated.
    pub sender: Addr,
    /// What goes on with it of the IP header it came in.
    pub envelope: Envelope,
    /// Of a packet that a channel brought, who sent it and to whom, as the channel's protocols say.
    pub ends: Ends,
    /// Of a packet in a graph, what its engines have noted; it begins with none.
    pub notes: Notes,
}

impl Frame {
    /// An empty frame that can hold `capacity` bytes behind the headroom.
    pub fn with_capacity(capacity: usize) -> Frame {
        let buffer = vec![0; HEADROOM + capacity].into_boxed_slice();
        Frame(Box::new(Fields {
            buffer,
            start: HEADROOM,
            end: HEADROOM,
            port: PortId(0),
            peer: PeerId::NONE,
            payer: Payer::NOBODY,
            marks: Marks::default(),
            trace: 0,
            sent: Sent::default(),
            authenticated: false,
            sender: Addr::UNSPECIFIED,
            envelope: Envelope::FRESH,
            ends: Ends::default(),
            notes: Notes::default(),
        }))
    }

    /// A frame with a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Frame {
        let mut frame = Frame::with_capacity(bytes.len().max(FRAME));
        frame.fill(bytes);
        frame
    }

    /// The packet.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let Fields { buffer, start, end, .. } = &*self.0;
        &buffer[*start..*end]
    }

    /// The packet, for edits in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let Fields { buffer, start, end, .. } = &mut *self.0;
        &mut buffer[*start..*end]
    }

    /// Bytes in the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties the frame.
    pub fn clear(&mut self) {
        self.start = HEADROOM;
        self.end = HEADROOM;
    }

    /// Replaces the packet by a copy of `bytes`, cut off at the frame's capacity.
    #[inline]
    pub fn fill(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(self.capacity());
        self.clear();
        self.end = self.start + length;
        self.bytes_mut().copy_from_slice(&bytes[..length]);
    }

    /// Bytes the frame can hold behind its headroom.
    pub fn capacity(&self) -> usize {
        self.buffer.len() - HEADROOM
    }

    /// The whole room behind the headroom, for a port to receive into; then call
    /// [`Frame::received`].
    pub fn room(&mut self) -> &mut [u8] {
        self.clear();
        &mut self.buffer[HEADROOM..]
    }

    /// Says how many bytes a port has put into [`Frame::room`].
    pub fn received(&mut self, length: usize) {
        self.start = HEADROOM;
        self.end = HEADROOM + length.min(self.capacity());
    }

    /// Drops `count` bytes in front (headers that were read).
    #[inline]
    pub fn strip(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Cuts the packet to its first `length` bytes (link padding behind it).
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.end = self.end.min(self.start + length);
    }

    /// Adds bytes behind what is there; nothing if there is no room.
    #[inline]
    pub fn append(&mut self, count: usize) -> Option<&mut [u8]> {
        let end = self.end.checked_add(count).filter(|end| *end <= self.buffer.len())?;
        let Fields { buffer, end: before, .. } = &mut *self.0;
        let from = core::mem::replace(before, end);
        Some(&mut buffer[from..end])
    }

    /// All of the buffer behind the headroom, with what is in it.
    pub fn room_kept(&mut self) -> &mut [u8] {
        &mut self.buffer[HEADROOM..]
    }

    /// Where the packet begins in its buffer, and its bytes.
    #[inline]
    pub fn extent(&self) -> (usize, usize) {
        (self.start, self.end - self.start)
    }

    /// Says where the packet begins in its buffer, and its bytes; nothing if they are not there.
    #[inline]
    pub fn set_extent(&mut self, start: usize, length: usize) -> Option<()> {
        let end = start.checked_add(length).filter(|end| *end <= self.buffer.len())?;
        (self.start, self.end) = (start, end);
        Some(())
    }

    /// The whole buffer: what is before the packet, the packet, and what is behind it.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Makes room for `count` bytes in front and gives them, or nothing if the headroom is used up.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(count)?;
        let Fields { buffer, start, .. } = &mut *self.0;
        Some(&mut buffer[*start..*start + count])
    }
}

impl core::ops::Deref for Frame {
    type Target = Fields;
    #[inline]
    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl core::ops::DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.0
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({} B, port {}, trace {})", self.len(), self.port.0, self.trace)
    }
}

/// Frames ready for use. Steady traffic takes and gives back without touching the allocator.
#[derive(Default)]
pub struct FramePool {
    free: Vec<Frame>,
    capacity: usize,
}

impl FramePool {
    /// A pool of frames that hold `capacity` bytes each, with `ready` of them allocated.
    pub fn new(capacity: usize, ready: usize) -> FramePool {
        let ready = ready.min(POOL_MAX);
        FramePool { free: (0..ready).map(|_| Frame::with_capacity(capacity)).collect(), capacity }
    }

    /// An empty frame.
    #[inline]
    pub fn take(&mut self) -> Frame {
        match self.free.pop() {
            Some(frame) => frame,
            None => Frame::with_capacity(self.capacity.max(FRAME)),
        }
    }

    /// Takes a frame back, and forgets what it was.
    #[inline]
    pub fn give(&mut self, mut frame: Frame) {
        if self.free.len() < POOL_MAX && frame.capacity() >= self.capacity {
            frame.clear();
            (frame.trace, frame.sent) = (0, Sent::default());
            frame.payer = Payer::NOBODY;
            (frame.authenticated, frame.sender) = (false, Addr::UNSPECIFIED);
            frame.envelope = Envelope::FRESH;
            frame.ends = Ends::default();
            self.free.push(frame);
        }
    }

    /// From now on frames hold so many bytes at least. Shorter ones that are on their way do not come back.
    pub fn grow(&mut self, capacity: usize) {
        if capacity > self.capacity() {
            self.capacity = capacity;
            self.free.clear();
        }
    }

    /// Bytes a frame of the pool holds.
    pub fn capacity(&self) -> usize {
        self.capacity.max(FRAME)
    }

    /// Frames at rest in the pool.
    pub fn ready(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_go_on_and_off_without_moving_data() {
        let mut frame = Frame::from_bytes(b"payload");
        frame.prepend(3).unwrap().copy_from_slice(b"hdr");
        assert_eq!(frame.bytes(), b"hdrpayload");
        frame.strip(5);
        assert_eq!(frame.bytes(), b"yload");
        frame.truncate(2);
        assert_eq!(frame.bytes(), b"yl");
    }

    #[test]
    fn a_frame_from_the_pool_is_no_packet_yet() {
        let mut pool = FramePool::default();
        let mut frame = pool.take();
        (frame.trace, frame.authenticated) = (7, true);
        pool.give(frame);
        assert_eq!(pool.ready(), 1);
        let frame = pool.take();
        assert_eq!((frame.trace, frame.authenticated), (0, false));
    }

    #[test]
    fn a_pool_that_has_grown_gives_longer_frames_alone() {
        let mut pool = FramePool::new(FRAME, 2);
        let short = pool.take();
        pool.grow(9000);
        pool.give(short);
        assert_eq!(pool.ready(), 0, "shorter ones do not come back");
        let long = pool.take();
        assert!(long.capacity() >= 9000);
        pool.give(long);
        pool.grow(100);
        assert_eq!((pool.ready(), pool.capacity()), (1, 9000));
    }

    #[test]
    fn headroom_is_bounded() {
        let mut frame = Frame::from_bytes(b"x");
        assert!(frame.prepend(HEADROOM).is_some());
        assert!(frame.prepend(1).is_none());
        assert_eq!(frame.len(), 1 + HEADROOM);
    }

    #[test]
    fn a_frame_never_takes_more_than_it_holds() {
        let mut frame = Frame::with_capacity(4);
        frame.fill(b"longer than four");
        assert_eq!(frame.bytes(), b"long");
        frame.received(400);
        assert_eq!(frame.len(), 4);
    }
}
