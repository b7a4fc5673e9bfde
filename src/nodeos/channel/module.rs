//! What channels do to payloads on the way: modules behind the last protocol, as in `if0/ip/udp/fragment(1200)/checksum`.
//!
//! ```text
//! checksum       payload · CRC-32 (IEEE 802.3) of it (32)                     wrong ones are dropped
//! compress       0 (8) · payload, or 1 (8) · length (16) · LZ4 block         whichever is shorter
//! fragment(N)    number (16) · index (8) · count (8) · at most N octets      put together within a second
//! xor(K)         group (16) · index (8) · K (8) · length (16) · payload      after K packets one that is the sum of them (XOR),
//!                                                                           from which one of the K that is lost is found again
//! ```
//!
//! What an application sends goes through them from the last to the first, what comes in from the first to the last; numbers are
//! big endian. Every table is bounded: the oldest unfinished group gives way.

use crate::nodeos::interface::Error;
use crate::nodeos::reason::Reason;
use crate::port::frame::FRAME;
use crate::port::{Frame, FramePool};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};

/// Reads the modules of a protocol specification; what stands before them is the rest.
pub fn split(protocol: &str) -> Result<(&str, Vec<Module>), Error> {
    let is_base = |word: &&str| matches!(*word, "ip" | "udp" | "tcp" | "anep");
    let mut words = protocol.split('/');
    let length = words.next().map_or(0, str::len) + words.take_while(is_base).map(|word| word.len() + 1).sum::<usize>();
    let (base, rest) = protocol.split_at(length);
    let modules: Vec<Module> = rest.split('/').skip(1).map(Module::parse).collect::<Result<_, _>>()?;
    if modules.len() > MODULES_MAX { Err(Error::Invalid) } else { Ok((base, modules)) }
}

/// Modules of one channel.
pub const MODULES_MAX: usize = 4;

/// Groups of packets that are not complete yet, of one module of a channel.
pub const GROUPS_MAX: usize = 16;

/// How long pieces wait for the rest, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

const PIECE_HEADER: usize = 4;
const XOR_HEADER: usize = 6;
const CHECKSUM: usize = 4;

/// Where modules take buffers and put packets.
pub struct Stage<'a> {
    /// Nanoseconds of the node's clock.
    pub now: u64,
    /// Who sent what came in, as a number: groups of different senders are not mixed.
    pub from: u64,
    /// Buffers.
    pub pool: &'a mut FramePool,
    /// What is done with.
    pub out: &'a mut Vec<Frame>,
}

/// A module of a channel, with its state.
pub enum Module {
    /// Checksums.
    Checksum,
    /// Compression.
    Compress(Box<CompressTable>),
    /// Fragmentation.
    Fragment(Box<Fragment>),
    /// Forward error correction.
    Xor(Box<Xor>),
}

impl core::fmt::Debug for Module {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Module::Checksum => "checksum",
            Module::Compress(_) => "compress",
            Module::Fragment(_) => "fragment",
            Module::Xor(_) => "xor",
        })
    }
}

impl Module {
    /// Reads `checksum`, `compress`, `fragment(64…1400)` or `xor(2…16)`.
    pub fn parse(word: &str) -> Result<Module, Error> {
        let (name, argument) = match word.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').and_then(|digits| digits.parse::<usize>().ok()))),
            None => (word, None),
        };
        match (name, argument) {
            ("checksum", None) => Ok(Module::Checksum),
            ("compress", None) => Ok(Module::Compress(Box::default())),
            ("fragment", Some(Some(most @ 64..=1400))) => Ok(Module::Fragment(Box::new(Fragment::new(most)))),
            ("xor", Some(Some(packets @ 2..=16))) => Ok(Module::Xor(Box::new(Xor::new(packets as u8)))),
            ("checksum" | "compress" | "fragment" | "xor", _) => Err(Error::Invalid),
            _ => Err(Error::Unsupported),
        }
    }

    /// Does to a packet what is done on the way out; what becomes of it is put into the stage.
    pub fn send(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        match self {
            Module::Checksum => {
                let sum = crc32fast::hash(frame.bytes());
                match frame.append(CHECKSUM) {
                    Some(room) => room.copy_from_slice(&sum.to_be_bytes()),
                    None => return Err((frame, Reason::TooBig)),
                }
                stage.out.push(frame);
                Ok(())
            }
            Module::Compress(table) => compress(table, stage, frame),
            Module::Fragment(fragment) => fragment.send(stage, frame),
            Module::Xor(xor) => xor.send(stage, frame),
        }
    }

    /// Undoes that to a packet that came in.
    pub fn receive(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        match self {
            Module::Checksum => {
                let Some((payload, sum)) = frame.bytes().split_last_chunk::<CHECKSUM>() else {
                    return Err((frame, Reason::Malformed));
                };
                if crc32fast::hash(payload).to_be_bytes() != *sum {
                    return Err((frame, Reason::Malformed));
                }
                frame.truncate(frame.len() - CHECKSUM);
                stage.out.push(frame);
                Ok(())
            }
            Module::Compress(_) => decompress(stage, frame),
            Module::Fragment(fragment) => fragment.receive(stage, frame),
            Module::Xor(xor) => xor.receive(stage, frame),
        }
    }
}

fn compress(table: &mut CompressTable, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
    let length = frame.len();
    let mut packed = stage.pool.take();
    let room = packed.room();
    // Only what ends up shorter is worth it.
    let done = match room.get_mut(3..length) {
        Some(room) => compress_into_with_table(frame.bytes(), room, table).ok(),
        None => None,
    };
    if let Some(count) = done {
        packed.received(3 + count);
        let bytes = packed.bytes_mut();
        bytes[0] = 1;
        bytes[1..3].copy_from_slice(&(length as u16).to_be_bytes());
        stage.pool.give(frame);
        stage.out.push(packed);
        return Ok(());
    }
    stage.pool.give(packed);
    match frame.prepend(1) {
        Some(room) => room[0] = 0,
        None => return Err((frame, Reason::TooBig)),
    }
    stage.out.push(frame);
    Ok(())
}

fn decompress(stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
    match *frame.bytes() {
        [0, ..] => {
            frame.strip(1);
            stage.out.push(frame);
            Ok(())
        }
        [1, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let mut whole = stage.pool.take();
            let done = whole.room().get_mut(..length).and_then(|room| decompress_into(&frame.bytes()[3..], room).ok());
            if done != Some(length) {
                stage.pool.give(whole);
                return Err((frame, Reason::Malformed));
            }
            whole.received(length);
            (whole.port, whole.peer, whole.trace) = (frame.port, frame.peer, frame.trace);
            stage.pool.give(frame);
            stage.out.push(whole);
            Ok(())
        }
        _ => Err((frame, Reason::Malformed)),
    }
}

/// Pieces of packets.
pub struct Fragment {
    most: usize,
    next: u16,
    open: Vec<Pieces>,
}

struct Pieces {
    from: u64,
    number: u16,
    since: u64,
    count: u8,
    have: [u64; 4],
    /// Octets of all pieces but the last, of which there are `count - 1`.
    piece: usize,
    length: usize,
    buffer: Frame,
}

impl Fragment {
    fn new(most: usize) -> Fragment {
        Fragment { most, next: 0, open: Vec::with_capacity(GROUPS_MAX) }
    }

    fn send(&mut self, stage: &mut Stage<'_>, frame: Frame) -> Result<(), (Frame, Reason)> {
        let count = frame.len().div_ceil(self.most).max(1);
        if count > usize::from(u8::MAX) {
            return Err((frame, Reason::TooBig));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        for index in 0..count {
            let from = index * self.most;
            let piece = &frame.bytes()[from..frame.len().min(from + self.most)];
            let mut part = stage.pool.take();
            part.fill(piece);
            if let Some(room) = part.prepend(PIECE_HEADER) {
                let [high, low] = number.to_be_bytes();
                room.copy_from_slice(&[high, low, index as u8, count as u8]);
            }
            part.trace = frame.trace;
            stage.out.push(part);
        }
        stage.pool.give(frame);
        Ok(())
    }

    fn receive(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        let [high, low, index, count, ..] = *frame.bytes() else { return Err((frame, Reason::Malformed)) };
        frame.strip(PIECE_HEADER);
        let (number, length) = (u16::from_be_bytes([high, low]), frame.len());
        if index >= count || (length == 0 && count > 1) {
            return Err((frame, Reason::Malformed));
        }
        if count == 1 {
            stage.out.push(frame);
            return Ok(());
        }
        let at = self.group(stage, number, count);
        let pieces = &mut self.open[at];
        let last = index == count - 1;
        let bit = 1 << (index % 64);
        let seen = pieces.have[usize::from(index / 64)] & bit != 0;
        // All but the last are of one length; the last one is at most that long.
        let piece = if last { pieces.piece } else { length };
        let wrong = pieces.count != count || (pieces.piece != 0 && piece != pieces.piece && !last);
        if wrong || seen {
            return Err((frame, Reason::Malformed));
        }
        if !last {
            pieces.piece = length;
        }
        // The last piece can come first: it waits at the far end until the others say where it belongs.
        let room = pieces.buffer.room_kept();
        let start = if last { room.len().checked_sub(length) } else { Some(usize::from(index) * length) };
        match start.and_then(|start| room.get_mut(start..start + length)) {
            Some(room) => room.copy_from_slice(frame.bytes()),
            None => return Err((frame, Reason::TooBig)),
        }
        if last {
            pieces.length = length;
        }
        pieces.have[usize::from(index / 64)] |= bit;
        let have: u32 = pieces.have.iter().map(|word| word.count_ones()).sum();
        stage.pool.give(frame);
        if have == u32::from(count) {
            return self.complete(stage, at);
        }
        Ok(())
    }

    fn complete(&mut self, stage: &mut Stage<'_>, at: usize) -> Result<(), (Frame, Reason)> {
        let Pieces { mut buffer, piece, length, count, .. } = self.open.swap_remove(at);
        let before = usize::from(count - 1) * piece;
        let room = buffer.room_kept();
        let end = room.len();
        // The last piece was put at the far end, out of the way of the others, or they do not fit.
        if length > piece || before + length > end {
            return Err((buffer, Reason::TooBig));
        }
        room.copy_within(end - length..end, before);
        buffer.received(before + length);
        stage.out.push(buffer);
        Ok(())
    }

    /// The group that a piece belongs to.
    fn group(&mut self, stage: &mut Stage<'_>, number: u16, count: u8) -> usize {
        let (now, from) = (stage.now, stage.from);
        let same = |group: &Pieces| (group.from, group.number) == (from, number) && now < group.since + PATIENCE;
        if let Some(at) = self.open.iter().position(same) {
            return at;
        }
        let pool = &mut *stage.pool;
        make_room(&mut self.open, |group| group.since, now, |group| pool.give(group.buffer));
        let mut buffer = stage.pool.take();
        buffer.clear();
        self.open.push(Pieces { from, number, since: now, count, have: [0; 4], piece: 0, length: 0, buffer });
        self.open.len() - 1
    }
}

/// Takes out what has waited too long, and the oldest if there is still no room for one more.
fn make_room<T>(groups: &mut Vec<T>, since: impl Fn(&T) -> u64, now: u64, mut gone: impl FnMut(T)) {
    while let Some(at) = groups.iter().position(|group| now >= since(group) + PATIENCE) {
        gone(groups.swap_remove(at));
    }
    if groups.len() >= GROUPS_MAX
        && let Some(at) = (0..groups.len()).min_by_key(|at| since(&groups[*at]))
    {
        gone(groups.swap_remove(at));
    }
}

/// Sums of packets.
pub struct Xor {
    packets: u8,
    group: u16,
    /// Of the group that is being sent.
    sum: Sum,
    open: Vec<Group>,
}

struct Sum {
    count: u8,
    length: u16,
    /// Octets of the longest.
    most: usize,
    octets: Box<[u8]>,
}

struct Group {
    from: u64,
    number: u16,
    since: u64,
    have: u32,
    sum: Sum,
}

impl Sum {
    fn new() -> Sum {
        Sum { count: 0, length: 0, most: 0, octets: vec![0; FRAME].into_boxed_slice() }
    }

    fn clear(&mut self) {
        self.octets[..self.most].fill(0);
        (self.count, self.length, self.most) = (0, 0, 0);
    }

    fn add(&mut self, length: u16, payload: &[u8]) {
        let payload = &payload[..payload.len().min(self.octets.len())];
        self.octets.iter_mut().zip(payload).for_each(|(sum, octet)| *sum ^= octet);
        self.most = self.most.max(payload.len());
        self.length ^= length;
        self.count += 1;
    }
}

impl Xor {
    fn new(packets: u8) -> Xor {
        Xor { packets, group: 0, sum: Sum::new(), open: Vec::with_capacity(GROUPS_MAX) }
    }

    fn header(&self, index: u8, length: u16) -> [u8; XOR_HEADER] {
        let ([a, b], [c, d]) = (self.group.to_be_bytes(), length.to_be_bytes());
        [a, b, index, self.packets, c, d]
    }

    fn send(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        let length = frame.len();
        if length > FRAME - XOR_HEADER {
            return Err((frame, Reason::TooBig));
        }
        let index = self.sum.count;
        let header = self.header(index, length as u16);
        self.sum.add(length as u16, frame.bytes());
        match frame.prepend(XOR_HEADER) {
            Some(room) => room.copy_from_slice(&header),
            None => return Err((frame, Reason::TooBig)),
        }
        stage.out.push(frame);
        if self.sum.count == self.packets {
            let mut sum = stage.pool.take();
            sum.fill(&self.sum.octets[..self.sum.most]);
            let header = self.header(self.packets, self.sum.length);
            if let Some(room) = sum.prepend(XOR_HEADER) {
                room.copy_from_slice(&header);
                stage.out.push(sum);
            }
            self.sum.clear();
            self.group = self.group.wrapping_add(1);
        }
        Ok(())
    }

    fn receive(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        let [a, b, index, packets, c, d, ..] = *frame.bytes() else { return Err((frame, Reason::Malformed)) };
        frame.strip(XOR_HEADER);
        let (number, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let is_sum = index == packets;
        if !(2..=16).contains(&packets) || index > packets || (!is_sum && usize::from(length) != frame.len()) {
            return Err((frame, Reason::Malformed));
        }
        let at = self.group(stage, number);
        let group = &mut self.open[at];
        if group.have & 1 << index != 0 {
            // A second time.
            stage.pool.give(frame);
            return Ok(());
        }
        group.have |= 1 << index;
        group.sum.add(length, frame.bytes());
        let count = group.sum.count;
        if is_sum {
            stage.pool.give(frame)
        } else {
            stage.out.push(frame)
        }
        if count != packets {
            return Ok(());
        }
        let mut group = self.open.swap_remove(at);
        let lost = usize::from(group.sum.length);
        // All but one are here: the one is the sum of the others, unless it is the sum itself.
        if group.have & 1 << packets != 0 && lost <= group.sum.most {
            let mut found = stage.pool.take();
            found.fill(&group.sum.octets[..lost]);
            stage.out.push(found);
        }
        group.sum.clear();
        self.sums_spare(group);
        Ok(())
    }

    /// A finished group stays known for a while, so that its last packet does not begin it anew.
    fn sums_spare(&mut self, group: Group) {
        self.open.push(Group { have: u32::MAX, ..group });
    }

    fn group(&mut self, stage: &mut Stage<'_>, number: u16) -> usize {
        let (now, from) = (stage.now, stage.from);
        let same = |group: &Group| (group.from, group.number) == (from, number) && now < group.since + PATIENCE;
        if let Some(at) = self.open.iter().position(same) {
            return at;
        }
        let mut spare = None;
        make_room(&mut self.open, |group| group.since, now, |group| spare = Some(group.sum));
        let mut sum = spare.unwrap_or_else(Sum::new);
        sum.clear();
        self.open.push(Group { from, number, since: now, have: 0, sum });
        self.open.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Sends packets through modules, loses some of what is on the wire, and receives the rest.
    fn through(words: &[&str], packets: &[Vec<u8>], lose: impl Fn(usize) -> bool, shuffle: bool) -> Vec<Vec<u8>> {
        let mut pool = FramePool::default();
        let mut sender: Vec<_> = words.iter().map(|word| Module::parse(word).unwrap()).collect();
        let mut receiver: Vec<_> = words.iter().map(|word| Module::parse(word).unwrap()).collect();
        let mut wire = Vec::new();
        for packet in packets {
            let mut all = vec![Frame::from_bytes(packet)];
            for module in sender.iter_mut().rev() {
                let mut out = Vec::new();
                for frame in all {
                    let mut stage = Stage { now: 0, from: 1, pool: &mut pool, out: &mut out };
                    module.send(&mut stage, frame).unwrap();
                }
                all = out;
            }
            wire.extend(all);
        }
        if shuffle {
            wire.reverse();
        }
        let mut received = Vec::new();
        for (_, frame) in wire.into_iter().enumerate().filter(|(at, _)| !lose(*at)) {
            let mut all = vec![frame];
            for module in &mut receiver {
                let mut out = Vec::new();
                for frame in all {
                    let mut stage = Stage { now: 0, from: 1, pool: &mut pool, out: &mut out };
                    module.receive(&mut stage, frame).unwrap();
                }
                all = out;
            }
            received.extend(all.iter().map(|frame| frame.bytes().to_vec()));
        }
        received
    }

    fn packets(count: usize, length: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| (0..length(n)).map(|at| (n * 31 + at / 7) as u8).collect()).collect()
    }

    #[test]
    fn modules_stand_behind_the_protocol() {
        let names = |text: &str| split(text).map(|(base, modules)| (base.to_owned(), format!("{modules:?}")));
        let said = |base: &str, modules: &str| Ok((base.to_owned(), modules.to_owned()));
        assert_eq!(names("if0"), said("if0", "[]"));
        assert_eq!(names("if0/ip/udp"), said("if0/ip/udp", "[]"));
        assert_eq!(names("if0/ip/udp/xor(3)/checksum"), said("if0/ip/udp", "[xor, checksum]"));
        assert_eq!(names("*/compress"), said("*", "[compress]"));
        assert_eq!(names("if0/ip/rot13"), Err(Error::Unsupported));
        assert_eq!(names("if0/ip/"), Err(Error::Unsupported));
        assert_eq!(names("if0/checksum/checksum/checksum/checksum/checksum"), Err(Error::Invalid));
    }

    #[test]
    fn what_goes_in_comes_out() {
        let sent = packets(12, |n| n * 131 % 1400);
        for words in [
            &["checksum"][..],
            &["compress"],
            &["fragment(100)"],
            &["xor(3)"],
            &["fragment(64)", "checksum"],
            &["xor(4)", "fragment(200)", "compress", "checksum"],
        ] {
            assert_eq!(through(words, &sent, |_| false, false), sent, "{words:?}");
            let mut shuffled = through(words, &sent, |_| false, true);
            shuffled.sort();
            let mut sorted = sent.clone();
            sorted.sort();
            assert_eq!(shuffled, sorted, "{words:?} in another order");
        }
    }

    #[test]
    fn one_of_a_group_may_be_lost() {
        let sent = packets(8, |n| 10 + n);
        for lost in 0..5 {
            let mut received = through(&["xor(4)"], &sent, |at| at % 5 == lost, false);
            received.sort();
            let mut expected = sent.clone();
            expected.sort();
            assert_eq!(received, expected, "the {lost}th of each group");
        }
        assert_eq!(through(&["xor(4)"], &sent, |at| at % 5 < 2, false).len(), 4, "two lost packets are lost");
    }

    #[test]
    fn garbage_is_refused_or_waits_and_never_panics() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut pool = FramePool::default();
        let mut modules = ["checksum", "compress", "fragment(64)", "xor(2)"].map(|word| Module::parse(word).unwrap());
        for round in 0..20_000u64 {
            let length = rng.next_u32() as usize % 24;
            let mut octets: Vec<u8> = (0..length).map(|_| (rng.next_u32() % 5) as u8).collect();
            if round % 3 == 0 {
                octets.resize(FRAME.min(length * 90), 1);
            }
            for module in &mut modules {
                let mut out = Vec::new();
                let mut stage = Stage { now: round * 1_000_000, from: round % 3, pool: &mut pool, out: &mut out };
                let _ = module.receive(&mut stage, Frame::from_bytes(&octets));
                assert!(out.len() <= 2);
            }
        }
        for word in ["fragment", "fragment(1)", "fragment(x)", "xor(1)", "xor(17)", "checksum(3)", "xor(2"] {
            assert_eq!(Module::parse(word).err(), Some(Error::Invalid), "{word}");
        }
        assert_eq!(Module::parse("encrypt").err(), Some(Error::Unsupported));
    }
}
