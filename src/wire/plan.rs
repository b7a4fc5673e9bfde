//! Messages between PLAN nodes: packets, pieces of them, codes, and routes.
//!
//! The payload of an ANEP packet of type [`super::anep::type_id::PLAN`] is one message. A packet stands for itself: its
//! first byte is the version of its binary form. All others begin with a byte from 0x80 up. `docs/wire.md` has the
//! layouts. A message longer than a link carries goes in pieces of equal size; only neighbours put them together.

use super::{Addr, Error, Result};

/// Bytes before a piece.
pub const PIECE_HEADER: usize = 12;

/// Pieces of one message.
pub const PIECES_MAX: usize = 255;

/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 65_536;

/// Bytes of a route in a message.
pub const ROUTE: usize = 20;

/// Routes of one message (RFC 2453, 3.6, has 25).
pub const ROUTES_MAX: usize = 25;

/// The distance of what cannot be reached (RFC 2453, 3.6).
pub const INFINITY: u8 = 16;

const PIECE: u8 = 0x80;
const WANT: u8 = 0x81;
const CODE: u8 = 0x82;
const HAVE: u8 = 0x83;
const ROUTES: u8 = 0x84;

/// All nodes on a link, by IPv4 (RFC 919, 7) or IPv6 (RFC 4291, 2.7.1): who looks for neighbours asks them.
pub fn everybody(v4: bool) -> Addr {
    const ALL_NODES: Addr = Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    if v4 { Addr::v4([255; 4]) } else { ALL_NODES }
}

/// Whether an address is [`everybody`]'s.
pub fn is_everybody(addr: Addr) -> bool {
    addr == everybody(addr.is_v4())
}

/// Bytes of a message's head, but for pieces and packets.
const HEAD: usize = 4;

/// A message, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A PLAN packet; whether it is one was not looked at.
    Packet(&'a [u8]),
    /// A piece of a message.
    Piece(Piece<'a>),
    /// The sender lacks the code with this digest and asks for it.
    Want([u8; 32]),
    /// The code that was asked for.
    Code(&'a [u8]),
    /// The sender holds the code with this digest: it need not travel to there.
    Have([u8; 32]),
    /// How far destinations are from the sender, or a question for that.
    Routes(RoutesView<'a>),
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which one, from 0.
    pub index: u8,
    /// Of how many.
    pub count: u8,
    /// Which message of the sender.
    pub id: u32,
    /// Bytes of the message.
    pub total: u32,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Routes of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesView<'a> {
    /// Whether it asks for ours.
    pub request: bool,
    entries: &'a [[u8; ROUTE]],
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: Addr,
    /// Bytes of the prefix that count, in bits.
    pub length: u8,
    /// The distance, 1 to [`INFINITY`].
    pub metric: u8,
}

impl RoutesView<'_> {
    /// The routes that are well-formed (RFC 2453, 3.9.2: others are passed over).
    pub fn iter(&self) -> impl Iterator<Item = Route> {
        let route = |entry: &[u8; ROUTE]| {
            let mut to = Addr::UNSPECIFIED;
            to.0.copy_from_slice(&entry[..16]);
            let [length, metric, reserved @ ..] = [entry[16], entry[17], entry[18], entry[19]];
            let good = length <= 128 && (1..=INFINITY).contains(&metric) && reserved == [0, 0];
            (good && super::Prefix::new(to, length).addr == to).then_some(Route { to, length, metric })
        };
        self.entries.iter().filter_map(route)
    }
}

impl Piece<'_> {
    /// Bytes of every piece but the last, of a message of `total` bytes in so many.
    fn size_of(total: u32, count: u8) -> usize {
        (total as usize).div_ceil(usize::from(count).max(1))
    }

    /// Bytes of every piece of its message but the last.
    pub fn size(&self) -> usize {
        Piece::size_of(self.total, self.count)
    }

    /// Where the piece begins in the message.
    pub fn start(&self) -> usize {
        usize::from(self.index) * self.size()
    }

    fn is_consistent(&self) -> bool {
        let total = self.total as usize;
        let end = (self.start() + self.size()).min(total);
        self.count >= 2
            && self.index < self.count
            && (1..=MESSAGE_MAX).contains(&total)
            && self.start() < total
            && end - self.start() == self.bytes.len()
    }
}

impl<'a> Message<'a> {
    /// Reads a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>> {
        let kind = *bytes.first().ok_or(Error::Truncated)?;
        if kind < PIECE {
            return Ok(Message::Packet(bytes));
        }
        if kind == PIECE {
            return parse_piece(bytes);
        }
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(Error::Truncated)?;
        let digest = || <[u8; 32]>::try_from(rest).map_err(|_| Error::Length);
        match *head {
            [WANT, 0, 0, 0] => Ok(Message::Want(digest()?)),
            [HAVE, 0, 0, 0] => Ok(Message::Have(digest()?)),
            [CODE, 0, 0, 0] => Ok(Message::Code(rest)),
            [ROUTES, request @ (0 | 1), 0, 0] => {
                let (entries, beyond) = rest.as_chunks::<ROUTE>();
                if !beyond.is_empty() || entries.len() > ROUTES_MAX {
                    return Err(Error::Length);
                }
                Ok(Message::Routes(RoutesView { request: request == 1, entries }))
            }
            _ => Err(Error::Malformed),
        }
    }
}

fn parse_piece(bytes: &[u8]) -> Result<Message<'_>> {
    let (head, rest) = bytes.split_first_chunk::<PIECE_HEADER>().ok_or(Error::Truncated)?;
    let [_, index, count, reserved, a, b, c, d, e, f, g, h] = *head;
    let (id, total) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let piece = Piece { index, count, id, total, bytes: rest };
    if reserved != 0 || !piece.is_consistent() { Err(Error::Malformed) } else { Ok(Message::Piece(piece)) }
}

/// Frames that a message of so many bytes takes on a link that carries `room` bytes of one: 1, or its pieces; none if
/// they would be too many.
pub fn frames(bytes: usize, room: usize) -> Option<u8> {
    if bytes <= room { Some(1) } else { count(bytes, room) }
}

/// Pieces of a message of so many bytes, two at least.
fn count(bytes: usize, room: usize) -> Option<u8> {
    let count = bytes.div_ceil(room.checked_sub(PIECE_HEADER).filter(|size| *size > 0)?).max(2);
    let count = u8::try_from(count).ok().filter(|_| bytes <= MESSAGE_MAX)?;
    // Rounding up can leave nothing for the last ones.
    Some(bytes.div_ceil(Piece::size_of(bytes as u32, count).max(1)) as u8)
}

/// The pieces of a message for a link that carries `room` bytes of one; none if they would be too many.
pub fn pieces(message: &[u8], room: usize, id: u32) -> Option<impl Iterator<Item = Piece<'_>>> {
    let count = count(message.len(), room)?;
    let total = message.len() as u32;
    let size = Piece::size_of(total, count).max(1);
    let piece = move |(index, bytes)| Piece { index: index as u8, count, id, total, bytes };
    (count >= 2).then(|| message.chunks(size).enumerate().map(piece))
}

/// Writes the head of a piece.
pub fn emit_piece(piece: &Piece<'_>, into: &mut [u8]) -> Result<usize> {
    let length = PIECE_HEADER + piece.bytes.len();
    let room = into.get_mut(..length).ok_or(Error::Truncated)?;
    room[..4].copy_from_slice(&[PIECE, piece.index, piece.count, 0]);
    room[4..8].copy_from_slice(&piece.id.to_be_bytes());
    room[8..PIECE_HEADER].copy_from_slice(&piece.total.to_be_bytes());
    room[PIECE_HEADER..].copy_from_slice(piece.bytes);
    Ok(length)
}

/// A question for a code.
pub fn want(digest: &[u8; 32]) -> [u8; HEAD + 32] {
    digest_message(WANT, digest)
}

/// Word that a code is held.
pub fn have(digest: &[u8; 32]) -> [u8; HEAD + 32] {
    digest_message(HAVE, digest)
}

fn digest_message(kind: u8, digest: &[u8; 32]) -> [u8; HEAD + 32] {
    let mut message = [0; HEAD + 32];
    message[0] = kind;
    message[HEAD..].copy_from_slice(digest);
    message
}

/// Adds a message with a code to `out`.
pub fn put_code(code: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[CODE, 0, 0, 0]);
    out.extend_from_slice(code);
}

/// Bytes of a message with so many routes.
pub fn routes_length(routes: usize) -> usize {
    HEAD + routes * ROUTE
}

/// Adds a message with these routes to `out`; at most [`ROUTES_MAX`] of them.
pub fn put_routes(request: bool, routes: impl IntoIterator<Item = Route>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[ROUTES, u8::from(request), 0, 0]);
    for Route { to, length, metric } in routes.into_iter().take(ROUTES_MAX) {
        out.extend_from_slice(&to.0);
        out.extend_from_slice(&[length, metric, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_message_again_whatever_the_room() {
        for length in [2usize, 3, 20, 1000, 1499, 65_000] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for room in [PIECE_HEADER + 1, PIECE_HEADER + 7, 300, 1492] {
                let Some(pieces) = pieces(&message, room, 7) else {
                    assert!(length.div_ceil(room - PIECE_HEADER) > PIECES_MAX, "{length} in {room}");
                    continue;
                };
                let (mut whole, mut buffer) = (Vec::new(), [0; 1500]);
                for piece in pieces {
                    let written = emit_piece(&piece, &mut buffer).unwrap();
                    assert!(written <= room, "{length} in {room}");
                    let Ok(Message::Piece(read)) = Message::parse(&buffer[..written]) else { panic!("{piece:?}") };
                    assert_eq!((read, read.start()), (piece, whole.len()));
                    whole.extend_from_slice(read.bytes);
                }
                assert_eq!(whole, message);
            }
        }
    }

    #[test]
    fn pieces_that_contradict_themselves_are_refused() {
        let piece = Piece { index: 1, count: 2, id: 9, total: 8, bytes: &[1, 2, 3, 4] };
        let mut good = [0; 16];
        emit_piece(&piece, &mut good).unwrap();
        assert_eq!(Message::parse(&good), Ok(Message::Piece(piece)));
        for (at, byte) in [(1, 2), (2, 1), (2, 0), (2, 3), (3, 1), (8, 1), (11, 10), (11, 0)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Message::parse(&bad), Err(Error::Malformed), "{at}");
        }
        assert_eq!(Message::parse(&good[..11]), Err(Error::Truncated));
        assert_eq!(Message::parse(&[]), Err(Error::Truncated));
    }

    #[test]
    fn digests_codes_and_routes_travel() {
        assert_eq!(Message::parse(&want(&[3; 32])), Ok(Message::Want([3; 32])));
        assert_eq!(Message::parse(&have(&[4; 32])), Ok(Message::Have([4; 32])));
        assert_eq!(Message::parse(&have(&[4; 32])[..35]), Err(Error::Length));
        let mut out = Vec::new();
        put_code(b"code", &mut out);
        assert_eq!(Message::parse(&out), Ok(Message::Code(b"code")));
        let route = |last, metric| Route { to: Addr::v4([10, 0, 0, last]), length: 128, metric };
        let mut out = Vec::new();
        put_routes(false, [route(1, 1), route(2, 16), route(3, 0), route(4, 17)], &mut out);
        let Ok(Message::Routes(routes)) = Message::parse(&out) else { panic!() };
        assert_eq!(routes.iter().collect::<Vec<_>>(), [route(1, 1), route(2, 16)], "distances are 1 to 16");
        out.push(0);
        assert_eq!(Message::parse(&out), Err(Error::Length));
    }
}
