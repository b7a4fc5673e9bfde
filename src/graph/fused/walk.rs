//! What a graph's program in the kernel does with one packet, step by step and for people: which engines it meets, and how it leaves.
//!
//! The program itself tells nothing of that, since each engine would pay for it with each packet. But its plan is here, and what it looks
//! up can be read. So a frame of which the kernel half has told is taken through the plan again: if what comes out is what has left, it
//! has met these engines. Nothing is counted, and no entry of a table is used.

use super::body::FusedLinks;
use super::look_up::{GraphTable, KEY, TableEntry};
use super::part::FusedPart;
use crate::contract::plan::{FusedEnd, FusedKey, FusedNext, FusedStep, FusedTest, IP_AT, PLAIN};
use crate::frame::PortId;
use crate::wire::checksum;

/// Where a packet ends, as far as the program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// It goes up as it came.
    Up,
    /// An engine drops it.
    Dropped,
    /// It leaves by a port, as these bytes.
    Leaves(PortId, Vec<u8>),
}

/// The way of a packet through a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Numbers of the engines that it meets, in their order.
    pub engines: Vec<u16>,
    /// Where it ends.
    pub end: WalkEnd,
}

/// Places in a plain packet.
const IP: usize = IP_AT as usize;
const TRANSPORT: usize = PLAIN as usize;
const LIFE: usize = IP + 8;
const IP_SUM: usize = IP + 10;
const UDP_SUM: usize = TRANSPORT + 6;
const TCP_SUM: usize = TRANSPORT + 16;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// Flags of TCP with which a connection ends: FIN, RST.
const ENDS: u8 = 0x05;

/// Ends of a flow: addresses, ports.
const FLOW: core::ops::Range<usize> = IP + 12..IP + 24;

/// A packet on its way.
struct Walk<'a> {
    bytes: Vec<u8>,
    /// The byte behind its last one.
    end: usize,
    table: Option<&'a dyn GraphTable>,
    flow: Option<TableEntry>,
    station: Option<TableEntry>,
    words: Vec<u16>,
}

impl FusedPart {
    /// The way of a plain packet that comes in by a port; nothing: none of that port do.
    pub fn walk(&self, port: PortId, frame: &[u8]) -> Option<Walked> {
        let plan = &self.fusion.plan;
        let (_, mut at) = *plan.entries.iter().find(|(from, _)| *from == u32::from(port.0))?;
        let (bytes, table) = (frame.to_vec(), self.table());
        let mut walk = Walk { end: bytes.len(), bytes, table, flow: None, station: None, words: Vec::new() };
        // Blocks lead to later ones only.
        let end = loop {
            let block = plan.blocks.get(usize::from(at))?;
            let Some(()) = block.steps.iter().try_for_each(|step| walk.step(step)) else { break WalkEnd::Dropped };
            at = match &block.end {
                FusedEnd::To(next) => *next,
                FusedEnd::If(test, then, otherwise) => *if walk.holds(test) { then } else { otherwise },
                FusedEnd::Find { engine, key, outputs, otherwise } => {
                    *walk.find(*engine, *key).and_then(|output| outputs.get(usize::from(output))).unwrap_or(otherwise)
                }
                FusedEnd::Up => break WalkEnd::Up,
                FusedEnd::Drop => break WalkEnd::Dropped,
                FusedEnd::Leave(exit, first) => {
                    let port = plan.exits.get(usize::from(*exit)).and_then(|port| u16::try_from(*port).ok())?;
                    let left = walk.bytes.get(usize::from(*first)..walk.end).unwrap_or_default().to_vec();
                    break WalkEnd::Leaves(PortId(port), left);
                }
            };
        };
        Some(Walked { engines: engines(&self.fusion.links, &walk.words), end })
    }
}

/// The engines that have counted in these words, or stand behind an output that was counted.
fn engines(links: &FusedLinks, words: &[u16]) -> Vec<u16> {
    let mut met: Vec<u16> = Vec::new();
    for word in words {
        let Some(at) = links.starts.partition_point(|(first, _)| first <= word).checked_sub(1) else { continue };
        met.push(at as u16);
        let (first, own) = links.starts.get(at).copied().unwrap_or_default();
        let outputs = links.behind.get(at).filter(|_| *word < own);
        let behind = outputs.and_then(|outputs| outputs.get(usize::from(word - first)).copied().flatten());
        met.extend(behind.map(|(engine, _)| engine));
    }
    met.dedup();
    met
}

impl Walk<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().filter(|_| at + N <= self.end).copied()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let place = self.bytes.get_mut(at..at + bytes.len()).filter(|_| at + bytes.len() <= self.end)?;
        place.copy_from_slice(bytes);
        Some(())
    }

    /// The byte behind the IPv4 packet.
    fn end_of_ip(&self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.array(IP + 2)?)) + IP)
    }

    fn holds(&self, test: &FusedTest) -> bool {
        let FusedTest { at, width, shift, mask, low, high, reach } = *test;
        let number = match width {
            1 => self.array::<1>(at.into()).map(|[byte]| byte.into()),
            2 => self.array(at.into()).map(|bytes| u16::from_be_bytes(bytes).into()),
            _ => self.array(at.into()).map(u32::from_be_bytes),
        };
        let reaches = reach == 0 || self.end_of_ip().is_some_and(|end| end >= usize::from(reach));
        reaches && number.is_some_and(|number| (low..=high).contains(&(number >> shift & mask)))
    }

    /// A step; nothing: the packet is too short for it, and over.
    fn step(&mut self, step: &FusedStep) -> Option<()> {
        match step {
            FusedStep::Count(word) => self.words.push(*word),
            FusedStep::Bytes(..) => {}
            FusedStep::Put(at, bytes) => self.put((*at).into(), bytes)?,
            FusedStep::Mirror(at) => {
                let mut both: [u8; 12] = self.array((*at).into())?;
                both.rotate_left(6);
                self.put((*at).into(), &both)?;
            }
            FusedStep::Trim => self.end = self.end.min(self.end_of_ip()?),
            FusedStep::SpendHop => {
                let [life, protocol] = self.array(LIFE)?;
                let sum = u16::from_be_bytes(self.array(IP_SUM)?);
                let now = [life.wrapping_sub(1), protocol];
                let sum = checksum::update(sum, u16::from_be_bytes([life, protocol]), u16::from_be_bytes(now));
                self.put(LIFE, &now)?;
                self.put(IP_SUM, &sum.to_be_bytes())?;
            }
            FusedStep::Readdress => self.readdress()?,
            FusedStep::PutFound(at, count) => {
                let found = self.station?.bytes;
                self.put((*at).into(), found.get(..usize::from(*count))?)?;
            }
        }
        Some(())
    }

    /// A sum with so much more in it (RFC 1624, equation 3), in the machine's order.
    fn carried(&self, at: usize, more: u16) -> Option<u16> {
        let mut sum = u32::from(!u16::from_ne_bytes(self.array(at)?)) + u32::from(more);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        Some(!(sum as u16))
    }

    fn readdress(&mut self) -> Option<()> {
        let TableEntry { bytes, sums, .. } = self.flow?;
        let sum = self.carried(IP_SUM, sums[0])?;
        self.put(IP_SUM, &sum.to_ne_bytes())?;
        self.put(FLOW.start, bytes.get(..FLOW.len())?)?;
        if self.array(IP + 9) == Some([TCP]) {
            let sum = self.carried(TCP_SUM, sums[1])?;
            self.put(TCP_SUM, &sum.to_ne_bytes())?;
        } else if self.array(UDP_SUM) != Some([0, 0]) {
            // None becomes 0 by being carried over.
            let sum = Some(self.carried(UDP_SUM, sums[1])?).filter(|sum| *sum != 0).unwrap_or(0xffff);
            self.put(UDP_SUM, &sum.to_ne_bytes())?;
        }
        Some(())
    }

    fn key(&self, key: FusedKey) -> Option<[u8; KEY]> {
        let mut made = [0; KEY];
        match key {
            FusedKey::Ends => {
                let [version] = self.array(IP)?;
                let [protocol] = self.array(IP + 9)?;
                let is_open = |[flags]: [u8; 1]| flags & ENDS == 0;
                let goes_on = protocol == UDP || protocol == TCP && self.array(TRANSPORT + 13).is_some_and(is_open);
                made[..FLOW.len()].copy_from_slice(self.bytes.get(FLOW).filter(|_| version == 0x45 && goes_on)?);
                made[FLOW.len()..].copy_from_slice(&u32::from(protocol).to_ne_bytes());
            }
            FusedKey::Next(next) => {
                let address: [u8; 4] = match next {
                    FusedNext::Frame(at) => self.array(at.into())?,
                    FusedNext::Flow(at) => *self.flow?.bytes.get(usize::from(at)..)?.first_chunk()?,
                    FusedNext::Known(address) => address,
                };
                made[..4].copy_from_slice(&address);
            }
        }
        Some(made)
    }

    /// By which output a packet goes on that is looked up; nothing: nobody knows it.
    fn find(&mut self, engine: u16, key: FusedKey) -> Option<u16> {
        let found = self.table?.found(engine, self.key(key)?)?;
        match key {
            FusedKey::Ends => self.flow = Some(found),
            FusedKey::Next(_) => self.station = Some(found),
        }
        Some(found.output)
    }
}
