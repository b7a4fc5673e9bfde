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
//! big endian. Every table is bounded ([`crate::frame::assembly`]): the oldest unfinished group of whoever has most gives way.

mod compress;
mod fragment;
#[cfg(test)]
mod tests;
mod xor;

use crate::core::reason::Reason;
use crate::frame::assembly::{Assemblies, Limits};
use crate::frame::{Frame, FramePool, Payer};
use crate::nodeos::interface::Error;
use crate::wire::Addr;
use compress::{compress, decompress};
use fragment::Fragment;
use lz4_flex::block::CompressTable;
use xor::Xor;

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

const CHECKSUM: usize = 4;

/// Who sent a packet: who pays for it, and its address and port, if its protocols name them.
pub type Sender = (Payer, Option<(Addr, u16)>);

/// Where modules take buffers and put packets.
pub struct Stage<'a> {
    /// Nanoseconds of the node's clock.
    pub now: u64,
    /// Who sent what came in, as far as it is known, and who pays for it: groups of different senders are not mixed, and each that pays has its share of them.
    pub from: Sender,
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

    /// Packets of which it keeps the pieces.
    pub fn pieces(&self) -> u64 {
        if let Module::Fragment(fragment) = self { fragment.pieces() } else { 0 }
    }

    /// Pieces that have gone before their packets were whole, since this was last asked.
    pub fn lost(&mut self) -> Lost {
        if let Module::Fragment(fragment) = self { fragment.lost() } else { Lost::default() }
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
                    return Err((frame, Reason::MalformedModule));
                };
                if crc32fast::hash(payload).to_be_bytes() != *sum {
                    return Err((frame, Reason::ModuleChecksum));
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

/// Pieces that went before their packets were whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The others did not come in time.
    pub late: u64,
    /// Their packets gave way to others.
    pub full: u64,
}

impl Lost {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.late + self.full
    }
}

/// Groups of packets that are not complete, by who sends them and their number there.
type Groups<Group> = Assemblies<(Sender, u16), Payer, Group>;

/// What one module may hold. Every group has a buffer, so it is groups that are counted.
const LIMITS: Limits = Limits { messages: GROUPS_MAX, bytes: 0, within: PATIENCE };
