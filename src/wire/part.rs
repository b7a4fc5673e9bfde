//! Messages about parts of graphs on the wire: one node asks another to run a part of a graph, and both send packets by the connections
//! that were cut.
//!
//! ```text
//!  0: version (8) = 1 | kind (8) | number (16)
//!  4: graph (32), whatever the node that has the graph calls it
//!  8: generation (32) of the part, from 1
//! 12: of the kind
//! ```
//!
//! | kind | number | then |
//! |---|---|---|
//! | 1 item | of the connection | paint (8), flags (8), network header (16) and 1, or 0; next hop (32); a packet |
//! | 2 offer | of the piece | bytes of all pieces (32), and of the text those from number · [`PIECE`] on |
//! | 3 has | 0 | which pieces have come (64), the first in the last bit |
//! | 4 accepted | 0 | |
//! | 5 refused | 0 | why, in UTF-8 |
//! | 6 keep | 0 | |
//! | 7 runs | 0 | how many packets came to the part, have left it, were dropped, are held (64 each) |
//! | 8 end | 0 | |
//!
//! Flags of an item: 1 group, 2 own source, 4 marshalled. The text is the graph's name, a line feed, and the part in Click's language.
//! Where an extension marshals packets, there stand behind the name, each after a space, its procedure and the digest of its module in
//! hexadecimal digits. All that is the payload of an ANEP packet with type id [`PART`](super::anep::type_id::PART). Nothing here knows who
//! has sent it: the neighbour's proof says that.

use super::{Digest, Error, Result, field, put};

/// Bytes that all kinds begin with.
pub const HEAD: usize = 12;
/// Bytes before the packet of an item.
pub const ITEM: usize = 20;
/// Bytes of the text in one offer, but for the last.
pub const PIECE: usize = 1024;
/// Pieces of a text, at most.
pub const PIECES_MAX: usize = 16;
/// Bytes of a text, at most.
pub const TEXT_MAX: usize = PIECE * PIECES_MAX;
/// Bytes of a reason, at most.
pub const WHY_MAX: usize = 512;
/// The version this implementation speaks.
pub const VERSION: u8 = 1;

/// Bytes of what is said of a part's packets.
const COUNTS: usize = 32;

const KIND: usize = 1;
const NUMBER: usize = 2;
const GRAPH: usize = 4;
const GENERATION: usize = 8;
const FLAGS: usize = 1;
const GROUP: u8 = 1;
const OWN_SOURCE: u8 = 2;
const PACKED: u8 = 4;

/// Which part of which graph a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// The graph, as the node that has it calls it.
    pub graph: u32,
    /// The part's generation.
    pub generation: u32,
}

/// What engines have noted of a packet, as far as it goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemNotes {
    /// Its paint.
    pub paint: u8,
    /// Whether it was for several stations of its link.
    pub group: bool,
    /// Whether its source is to be that of the interface by which it leaves.
    pub own_source: bool,
    /// Where its network header begins, from its own beginning on, if that was noted.
    pub network: Option<u16>,
    /// The IPv4 address that it goes to next.
    pub next: [u8; 4],
    /// Whether the bytes behind are what a procedure of an extension has made of the packet: where its header begins is known when it is
    /// made a packet again.
    pub packed: bool,
}

/// What stands before the text of a part: how the node that has the graph calls it, and what marshals its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartTitle<'a> {
    /// The name.
    pub name: &'a str,
    /// The procedure, as EXTENSION/NAME, and the digest of the extension.
    pub marshal: Option<(&'a str, Digest)>,
}

impl<'a> PartTitle<'a> {
    /// Reads a text: its title, and the part in Click's language.
    pub fn parse(text: &'a str) -> Result<(PartTitle<'a>, &'a str)> {
        let (title, text) = text.split_once('\n').ok_or(Error::Malformed)?;
        let mut words = title.split(' ');
        let name = words.next().ok_or(Error::Malformed)?;
        let marshal = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some(by), Some(digest), None) => {
                let digest = digest.parse::<Digest>().map_err(|_| Error::Malformed)?;
                Some((by, digest)).filter(|_| {
                    by.split_once('/').is_some_and(|(extension, of)| !extension.is_empty() && !of.is_empty())
                })
            }
            _ => return Err(Error::Malformed),
        };
        if marshal.is_none() && title.contains(' ') {
            return Err(Error::Malformed);
        }
        Ok((PartTitle { name, marshal }, text))
    }
}

impl core::fmt::Display for PartTitle<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)?;
        self.marshal.map_or(Ok(()), |(by, digest)| write!(f, " {by} {digest}"))
    }
}

/// What has become of the packets of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Those that came in.
    pub came: u64,
    /// Those that have left, back or by a port there.
    pub left: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Those that it holds.
    pub held: u64,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A packet goes by a connection of this number.
    Item(u16, ItemNotes, &'a [u8]),
    /// A piece of a part's text: its number, the length of the whole, its bytes.
    Offer(u16, u32, &'a [u8]),
    /// Which pieces have come.
    Has(u64),
    /// The part can run, or runs.
    Accepted,
    /// It cannot: why.
    Refused(&'a str),
    /// The part is to run on, or from now on.
    Keep,
    /// It runs, and this has become of its packets.
    Runs(PartCounts),
    /// It is to end.
    End,
}

impl<'a> Message<'a> {
    /// Reads a message that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<(PartHead, Message<'a>)> {
        let start = bytes.first_chunk::<HEAD>().ok_or(Error::Truncated)?;
        if start[0] != VERSION {
            return Err(Error::Version);
        }
        let number = u16::from_be_bytes(field::<NUMBER, 2, _>(start));
        let head = PartHead {
            graph: u32::from_be_bytes(field::<GRAPH, 4, _>(start)),
            generation: u32::from_be_bytes(field::<GENERATION, 4, _>(start)),
        };
        // The first generation is 1.
        if head.generation == 0 {
            return Err(Error::Malformed);
        }
        let rest = &bytes[HEAD..];
        let message = match start[KIND] {
            1 => item(number, rest)?,
            2 => offer(number, rest)?,
            kind @ 3..=8 if number == 0 => answer(kind, rest)?,
            _ => return Err(Error::Malformed),
        };
        Ok((head, message))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        HEAD + match self {
            Message::Item(_, _, packet) => ITEM - HEAD + packet.len(),
            Message::Offer(_, _, piece) => 4 + piece.len(),
            Message::Has(_) => 8,
            Message::Refused(why) => why.len(),
            Message::Runs(_) => COUNTS,
            Message::Accepted | Message::Keep | Message::End => 0,
        }
    }

    /// Whether it has no bytes, which none has.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes it to the beginning of `to`; gives its length.
    pub fn emit(&self, head: PartHead, to: &mut [u8]) -> Result<usize> {
        let whole = to.get_mut(..self.len()).ok_or(Error::Truncated)?;
        let (start, rest) = whole.split_first_chunk_mut::<HEAD>().ok_or(Error::Truncated)?;
        let (kind, number) = match self {
            Message::Item(number, ..) => (1, *number),
            Message::Offer(number, ..) => (2, *number),
            Message::Has(_) => (3, 0),
            Message::Accepted => (4, 0),
            Message::Refused(_) => (5, 0),
            Message::Keep => (6, 0),
            Message::Runs(_) => (7, 0),
            Message::End => (8, 0),
        };
        begin(start, kind, number, head);
        match self {
            Message::Item(_, notes, packet) => {
                let (to, rest) = rest.split_first_chunk_mut::<{ ITEM - HEAD }>().ok_or(Error::Truncated)?;
                *to = notes.bytes();
                rest.copy_from_slice(packet);
            }
            Message::Offer(_, length, piece) => {
                let (to, rest) = rest.split_first_chunk_mut::<4>().ok_or(Error::Truncated)?;
                *to = length.to_be_bytes();
                rest.copy_from_slice(piece);
            }
            Message::Has(pieces) => rest.copy_from_slice(&pieces.to_be_bytes()),
            Message::Refused(why) => rest.copy_from_slice(why.as_bytes()),
            Message::Runs(counts) => {
                let all = [counts.came, counts.left, counts.dropped, counts.held];
                rest.chunks_exact_mut(8).zip(all).for_each(|(to, count)| to.copy_from_slice(&count.to_be_bytes()));
            }
            Message::Accepted | Message::Keep | Message::End => {}
        }
        Ok(self.len())
    }
}

/// Writes what stands before the packet of an item.
pub fn put_item(to: &mut [u8; ITEM], head: PartHead, number: u16, notes: &ItemNotes) {
    let Some((start, rest)) = to.split_first_chunk_mut::<HEAD>() else { return };
    begin(start, 1, number, head);
    rest.copy_from_slice(&notes.bytes());
}

fn begin(start: &mut [u8; HEAD], kind: u8, number: u16, head: PartHead) {
    (start[0], start[KIND]) = (VERSION, kind);
    put::<NUMBER, 2, _>(start, number.to_be_bytes());
    put::<GRAPH, 4, _>(start, head.graph.to_be_bytes());
    put::<GENERATION, 4, _>(start, head.generation.to_be_bytes());
}

impl ItemNotes {
    fn bytes(&self) -> [u8; ITEM - HEAD] {
        let flags = [(self.group, GROUP), (self.own_source, OWN_SOURCE), (self.packed, PACKED)];
        let flags = flags.iter().filter(|(is, _)| *is).fold(0, |flags, (_, flag)| flags | flag);
        let network = self.network.map_or(0, |at| at.saturating_add(1)).to_be_bytes();
        let [a, b, c, d] = self.next;
        [self.paint, flags, network[0], network[1], a, b, c, d]
    }
}

fn item(number: u16, rest: &[u8]) -> Result<Message<'_>> {
    let (notes, packet) = rest.split_first_chunk::<{ ITEM - HEAD }>().ok_or(Error::Truncated)?;
    if notes[FLAGS] & !(GROUP | OWN_SOURCE | PACKED) != 0 {
        return Err(Error::Malformed);
    }
    let network = u16::from_be_bytes(field::<2, 2, _>(notes)).checked_sub(1);
    let [group, own_source, packed] = [GROUP, OWN_SOURCE, PACKED].map(|flag| notes[FLAGS] & flag != 0);
    if !packed && network.is_some_and(|at| usize::from(at) >= packet.len()) {
        return Err(Error::Malformed);
    }
    let notes = ItemNotes { paint: notes[0], group, own_source, network, next: field::<4, 4, _>(notes), packed };
    Ok(Message::Item(number, notes, packet))
}

fn offer(number: u16, rest: &[u8]) -> Result<Message<'_>> {
    let (length, piece) = rest.split_first_chunk::<4>().ok_or(Error::Truncated)?;
    let length = u32::from_be_bytes(*length);
    let (whole, from) = (length as usize, usize::from(number) * PIECE);
    // It has just the bytes from its place on.
    if whole > TEXT_MAX || from >= whole || piece.len() != PIECE.min(whole - from) {
        return Err(Error::Length);
    }
    Ok(Message::Offer(number, length, piece))
}

fn answer(kind: u8, rest: &[u8]) -> Result<Message<'_>> {
    let message = match kind {
        3 => return rest.try_into().map(|bytes| Message::Has(u64::from_be_bytes(bytes))).map_err(|_| Error::Length),
        5 if rest.len() > WHY_MAX => return Err(Error::Length),
        5 => return core::str::from_utf8(rest).map(Message::Refused).map_err(|_| Error::Malformed),
        4 => Message::Accepted,
        6 => Message::Keep,
        7 => return counts(rest).map(Message::Runs).ok_or(Error::Length),
        _ => Message::End,
    };
    if rest.is_empty() { Ok(message) } else { Err(Error::Length) }
}

fn counts(rest: &[u8]) -> Option<PartCounts> {
    let all: &[u8; COUNTS] = rest.try_into().ok()?;
    let count = |at: usize| all.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    Some(PartCounts { came: count(0)?, left: count(8)?, dropped: count(16)?, held: count(24)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: PartHead = PartHead { graph: 7, generation: 3 };

    #[test]
    fn messages_survive_their_encoding_and_no_shorter_bytes_are_one() {
        let notes = ItemNotes { paint: 9, group: true, network: Some(2), next: [10, 0, 0, 1], ..Default::default() };
        for message in [
            Message::Item(5, notes, b"packet"),
            Message::Item(5, ItemNotes { network: Some(900), packed: true, ..notes }, b"packet"),
            Message::Offer(1, PIECE as u32 + 3, b"abc"),
            Message::Has(5),
            Message::Accepted,
            Message::Refused("no room"),
            Message::Keep,
            Message::Runs(PartCounts { came: 1 << 40, left: 3, dropped: 2, held: 1 }),
            Message::End,
        ] {
            let mut bytes = vec![0xff; message.len()];
            assert_eq!(message.emit(HEADER, &mut bytes), Ok(message.len()));
            assert_eq!(Message::parse(&bytes), Ok((HEADER, message)));
            assert!(Message::parse(&bytes[..HEAD - 1]).is_err() && message.emit(HEADER, &mut bytes[1..]).is_err());
        }
        let mut item = [0; ITEM];
        put_item(&mut item, HEADER, 5, &notes);
        let whole = [&item[..], b"packet"].concat();
        assert_eq!(Message::parse(&whole), Ok((HEADER, Message::Item(5, notes, b"packet"))));
    }

    #[test]
    fn a_text_has_a_title_with_what_marshals_its_packets() {
        let digest = Digest([7; 32]);
        for marshal in [None, Some(("codec/PackBits", digest))] {
            let title = PartTitle { name: "fw", marshal };
            assert_eq!(PartTitle::parse(&format!("{title}\nIdle -> Discard;\n")), Ok((title, "Idle -> Discard;\n")));
        }
        for wrong in [
            "",
            "fw",
            "fw codec/PackBits\n",
            "fw codec/PackBits 77\n",
            "fw codec \n",
            "fw \n",
            &format!("fw c {digest}\n"),
        ] {
            assert_eq!(PartTitle::parse(wrong), Err(Error::Malformed), "{wrong}");
        }
        assert!(
            PartTitle::parse(&format!("fw c/R {digest} more\n")).is_err()
                && PartTitle::parse(&format!("fw /R {digest}\n")).is_err()
        );
    }

    #[test]
    fn what_contradicts_itself_is_none() {
        for (hex, error) in [
            ("02060000 00000000 00000000", Error::Version),
            ("01060000 00000000 00000000", Error::Malformed),
            ("01000000 00000000 00000001", Error::Malformed),
            ("01090000 00000000 00000001", Error::Malformed),
            ("01060001 00000000 00000001", Error::Malformed),
            ("01060000 00000000 00000001 00", Error::Length),
            ("01030000 00000000 00000001 00", Error::Length),
            ("01070000 00000000 00000001 00000000 00000001", Error::Length),
            ("01050000 00000000 00000001 ff", Error::Malformed),
            ("01010000 00000000 00000001 00000000 000000", Error::Truncated),
            ("01010000 00000000 00000001 00080000 00000000", Error::Malformed),
            ("01010000 00000000 00000001 00000002 00000000 61", Error::Malformed),
            ("01020000 00000000 00000001 00000000", Error::Length),
            ("01020001 00000000 00000001 00000001 61", Error::Length),
            ("01020000 00000000 00000001 00004001 61", Error::Length),
        ] {
            let bytes = hex::decode(hex.replace(' ', "")).unwrap();
            assert_eq!(Message::parse(&bytes), Err(error), "{hex}");
        }
    }
}
