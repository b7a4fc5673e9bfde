//! The header of a packet. Its fixed part is enough for a node to route the packet and to spend a hop.

use super::VERSION;
use crate::name::Name;
use crate::value::Host;

/// The length of the header's fixed part.
pub const FIXED: usize = 84;

pub(super) const FLAGS: usize = 1;
pub(super) const BOUND: usize = 4;
pub(super) const FLOW: usize = 8;
pub(super) const PORT: usize = 12;
pub(super) const SESSION: usize = 20;
pub(super) const SOURCE: usize = 36;
pub(super) const DESTINATION: usize = 52;
pub(super) const PREVIOUS: usize = 68;

/// The flag of packets whose codes are digests.
pub(super) const BY_DIGEST: u8 = 1;
/// The flag of reports.
pub(super) const REPORT: u8 = 2;

/// What the network must know of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether codes are named by their digests instead of being carried.
    pub by_digest: bool,
    /// Whether this reports a failure: then the bound counts hops only and is nothing to the chunk.
    pub report: bool,
    /// The resource bound: hops that this packet and all it makes may still take.
    pub bound: u32,
    /// The flow that routing may treat alike; 0 if none.
    pub flow: u32,
    /// The connection through which the first packet was injected, on its source.
    pub port: u64,
    /// The key of the session, under which nodes keep data.
    pub session: [u8; 16],
    /// Where the first packet was injected.
    pub source: Host,
    /// Where this packet is evaluated (evalDest).
    pub destination: Host,
    /// The node that sent it here.
    pub previous: Host,
    /// The routing function, by which nodes on the way that are not the destination send it on.
    pub routing: Name,
    /// The service that failures are reported to, at the source; empty if none.
    pub handler: Name,
}

impl Header {
    /// The header of a packet that is injected at a node, to be evaluated there first.
    pub fn injected(source: Host, bound: u32) -> Header {
        Header {
            by_digest: false,
            report: false,
            bound,
            flow: 0,
            port: 0,
            session: [0; 16],
            source,
            destination: source,
            previous: source,
            routing: Name::new("defaultRoute").unwrap_or(Name::NONE),
            handler: Name::new("defHandler").unwrap_or(Name::NONE),
        }
    }

    pub(super) fn flags(&self) -> u8 {
        (u8::from(self.by_digest) * BY_DIGEST) | (u8::from(self.report) * REPORT)
    }
}

/// A packet's bytes whose fixed part was checked: reading it cannot fail. What follows was not looked at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    fixed: &'a [u8; FIXED],
}

#[inline]
fn field<const N: usize>(fixed: &[u8; FIXED], at: usize) -> [u8; N] {
    // Every field is inside the fixed part, so there are always N bytes.
    fixed.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

impl<'a> View<'a> {
    /// The same of bytes that were checked before.
    #[inline]
    pub(super) fn again(bytes: &'a [u8]) -> Option<View<'a>> {
        bytes.first_chunk::<FIXED>().map(|fixed| View { fixed })
    }

    /// Checks length, version and flags.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Option<View<'a>> {
        let fixed = bytes.first_chunk::<FIXED>()?;
        let [version, flags, reserved @ ..] = field::<4>(fixed, 0);
        let known = version == VERSION && flags & !(BY_DIGEST | REPORT) == 0 && reserved == [0, 0];
        known.then_some(View { fixed })
    }

    /// Whether codes are named by digests.
    pub fn by_digest(&self) -> bool {
        field::<1>(self.fixed, FLAGS)[0] & BY_DIGEST != 0
    }

    /// Whether this is a report.
    pub fn report(&self) -> bool {
        field::<1>(self.fixed, FLAGS)[0] & REPORT != 0
    }

    /// The resource bound.
    #[inline]
    pub fn bound(&self) -> u32 {
        u32::from_be_bytes(field(self.fixed, BOUND))
    }

    /// The flow.
    pub fn flow(&self) -> u32 {
        u32::from_be_bytes(field(self.fixed, FLOW))
    }

    /// The implicit port.
    pub fn port(&self) -> u64 {
        u64::from_be_bytes(field(self.fixed, PORT))
    }

    /// The session's key.
    pub fn session(&self) -> [u8; 16] {
        field(self.fixed, SESSION)
    }

    /// Where the first packet was injected.
    pub fn source(&self) -> Host {
        Host(field(self.fixed, SOURCE))
    }

    /// Where the packet is evaluated.
    #[inline]
    pub fn destination(&self) -> Host {
        Host(field(self.fixed, DESTINATION))
    }

    /// The node that sent it here.
    pub fn previous(&self) -> Host {
        Host(field(self.fixed, PREVIOUS))
    }
}

/// A packet's bytes for what changes on the way.
#[derive(Debug)]
pub struct ViewMut<'a> {
    fixed: &'a mut [u8; FIXED],
}

impl<'a> ViewMut<'a> {
    /// The same of bytes that were checked before.
    pub fn again(bytes: &'a mut [u8]) -> Option<ViewMut<'a>> {
        bytes.first_chunk_mut::<FIXED>().map(|fixed| ViewMut { fixed })
    }

    /// Checks length, version and flags.
    pub fn new_checked(bytes: &'a mut [u8]) -> Option<ViewMut<'a>> {
        View::new_checked(bytes)?;
        ViewMut::again(bytes)
    }

    /// Spends so many frames of the bound, as a node does that only routes the packet; false if there are fewer left.
    pub fn spend(&mut self, frames: u32, here: Host) -> bool {
        let bound = View { fixed: self.fixed }.bound();
        let Some(left) = bound.checked_sub(frames) else { return false };
        self.put(BOUND, left.to_be_bytes());
        self.put(PREVIOUS, here.0);
        true
    }

    /// Lowers the bound to at most this; gives how much was cut off.
    pub fn clamp(&mut self, most: u32) -> u32 {
        let bound = View { fixed: self.fixed }.bound();
        self.put(BOUND, bound.min(most).to_be_bytes());
        bound.saturating_sub(most)
    }

    /// Says which node the packet came from.
    pub fn set_previous(&mut self, previous: Host) {
        self.put(PREVIOUS, previous.0);
    }

    /// Fills in what a node knows of an application's packet: its source, and the port it came by. An application
    /// that names no destination or session means the node itself and its own.
    pub fn inject(&mut self, source: Host, port: u64, session: [u8; 16]) {
        let view = View { fixed: self.fixed };
        let (here, own) = (view.destination() == Host::default(), view.session() == [0; 16]);
        self.put(SOURCE, source.0);
        self.put(PREVIOUS, source.0);
        self.put(PORT, port.to_be_bytes());
        if here {
            self.put(DESTINATION, source.0);
        }
        if own {
            self.put(SESSION, session);
        }
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(field) = self.fixed.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
            *field = bytes;
        }
    }
}
