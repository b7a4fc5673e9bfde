//! What engines say of themselves to be fused: their bodies are put together from the end of the graph to its beginning.

use super::up::{Sinking, only_up};
use crate::contract::plan::{
    BLOCKS_MAX, EXITS_MAX, FusedBlock, FusedEnd, FusedKey, FusedNext, FusedStep, FusedTest, IP_AT, PLAIN,
};
use std::collections::HashMap;

/// What is known of each packet that comes to an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FusedAt {
    /// Its first byte in the frame as it came.
    pub first: u16,
    /// Where its IP header was noted.
    pub network: Option<u16>,
    /// Its paint.
    pub paint: u8,
    /// Where the address is that was noted as where it goes next, if one was.
    pub next: Option<FusedNext>,
    /// Whether its flow was found, and its ends are those that were.
    pub is_readdressed: bool,
    /// Whether it is known to be one of IPv4.
    pub is_v4: bool,
    /// Whether it was for several stations of its link.
    pub group: bool,
}

/// A block that is made already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedLabel(pub(super) u16);

/// Why an engine is not fused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoForm {
    /// None of its class is.
    Class,
    /// This one is not.
    Because(String),
    /// One behind it is not, which has been said whole.
    Behind(String),
}

/// Gives the body of an engine, for packets that come to an input and of which so much is known.
pub(super) type Ask<'a> = &'a dyn Fn(&mut FusedBody<'_>, u16, u16, FusedAt) -> Result<FusedLabel, NoForm>;

/// What an engine is called, with its class.
pub(super) type Name<'a> = &'a dyn Fn(u16) -> String;

/// How engines are connected, and where they count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FusedLinks {
    /// Behind each output of each engine: an engine and its input, also if that pulls.
    pub(super) behind: Vec<Vec<Option<(u16, u16)>>>,
    /// Of each engine the word of its first output, and its first own one.
    pub(super) starts: Vec<(u16, u16)>,
    /// All words.
    pub(super) count: u16,
}

impl FusedLinks {
    /// The words of an engine: those of its outputs, and its own.
    pub(super) fn parts<'a>(&self, engine: usize, of: &'a [u64]) -> (&'a [u64], &'a [u64]) {
        let Some((links, own)) = self.starts.get(engine) else { return (&[], &[]) };
        let end = self.starts.get(engine + 1).map_or(self.count, |(next, _)| *next);
        let part = |from: u16, to: u16| of.get(usize::from(from)..usize::from(to)).unwrap_or_default();
        (part(*links, *own), part(*own, end))
    }

    fn starts_of(&self, engine: u16) -> (u16, u16) {
        self.starts.get(usize::from(engine)).copied().unwrap_or_default()
    }
}

/// Where bodies are put together.
pub struct FusedBody<'a> {
    links: &'a FusedLinks,
    ask: Ask<'a>,
    name: Name<'a>,
    /// Blocks, those behind others first.
    blocks: Vec<FusedBlock>,
    /// Engines, and what is known when they are reached; nothing: it is under way.
    known: HashMap<(u16, u16, FusedAt), Option<FusedLabel>>,
    exits: Vec<u32>,
    at: u16,
    depth: usize,
    drop: Option<FusedLabel>,
    /// Why packets go up.
    raised: Vec<String>,
}

/// What has been put together.
pub(super) struct Fused {
    /// Where packets come in.
    pub entries: Vec<(u32, u16)>,
    /// By which ports they leave.
    pub exits: Vec<u32>,
    /// In the order in which packets come to them.
    pub blocks: Vec<FusedBlock>,
    /// Engines of which there is something, by their numbers.
    pub engines: Vec<u16>,
    /// Why packets go up, for each engine at which they do.
    pub raised: Vec<String>,
}

/// Engines one behind the other, at most.
const DEPTH_MAX: usize = 256;

impl FusedAt {
    /// Where engines look for the IP header.
    pub fn ip(&self) -> u16 {
        self.network.filter(|network| *network >= self.first).unwrap_or(self.first)
    }

    /// The place of a plain packet's IP header, if it is looked for there.
    pub fn plain_ip(&self) -> Result<u16, NoForm> {
        if self.ip() == IP_AT {
            return Ok(IP_AT);
        }
        let why =
            format!("it looks for an IP header {} bytes behind the frame's beginning, and not {IP_AT}", self.ip());
        Err(NoForm::Because(why))
    }

    /// Where its receiver's address is.
    pub fn receiver(&self) -> FusedNext {
        if self.is_readdressed { FusedNext::Flow(4) } else { FusedNext::Frame(IP_AT + 16) }
    }

    /// The same packet with so many bytes fewer in front.
    pub fn strip(self, bytes: u16) -> Result<FusedAt, NoForm> {
        let first = self.first.checked_add(bytes).filter(|first| *first <= PLAIN);
        let first = first.ok_or_else(|| NoForm::Because(format!("it takes off more than the first {PLAIN} bytes")))?;
        Ok(FusedAt { first, ..self })
    }

    /// The same packet with so many bytes more in front.
    pub fn prepend(self, bytes: u16) -> Result<FusedAt, NoForm> {
        let first = self.first.checked_sub(bytes);
        let why = || NoForm::Because(format!("it puts {bytes} bytes in front, where {} were taken off", self.first));
        Ok(FusedAt { first: first.ok_or_else(why)?, ..self })
    }
}

impl<'a> FusedBody<'a> {
    pub(super) fn new(links: &'a FusedLinks, ask: Ask<'a>, name: Name<'a>) -> FusedBody<'a> {
        let (blocks, known, exits, raised) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        FusedBody { links, ask, name, blocks, known, exits, at: 0, depth: 0, drop: None, raised }
    }

    fn block(&mut self, steps: Vec<FusedStep>, end: FusedEnd) -> Result<FusedLabel, NoForm> {
        if self.blocks.len() >= BLOCKS_MAX {
            let why = format!("all together it has more than {BLOCKS_MAX} blocks there");
            return Err(NoForm::Behind(why));
        }
        self.blocks.push(FusedBlock { steps, end });
        Ok(FusedLabel((self.blocks.len() - 1) as u16))
    }

    /// The packet is dropped.
    pub fn drop(&mut self) -> Result<FusedLabel, NoForm> {
        if let Some(known) = self.drop {
            return Ok(known);
        }
        let label = self.block(Vec::new(), FusedEnd::Drop)?;
        self.drop = Some(label);
        Ok(label)
    }

    /// The packet goes up as it came, for this cause.
    pub(super) fn raise(&mut self, why: String) -> Result<FusedLabel, NoForm> {
        if !self.raised.contains(&why) {
            self.raised.push(why);
        }
        self.block(Vec::new(), FusedEnd::Up)
    }

    /// Some steps, and then what is at a label.
    pub fn steps(&mut self, steps: Vec<FusedStep>, then: FusedLabel) -> Result<FusedLabel, NoForm> {
        self.block(steps, FusedEnd::To(then.0))
    }

    /// One of two.
    pub fn test(&mut self, test: FusedTest, then: FusedLabel, otherwise: FusedLabel) -> Result<FusedLabel, NoForm> {
        if then == otherwise {
            return Ok(then);
        }
        self.block(Vec::new(), FusedEnd::If(test, then.0, otherwise.0))
    }

    /// Whether these bytes stand at a place, under a mask.
    pub fn bytes_are(
        &mut self,
        at: u16,
        (value, mask): (&[u8], &[u8]),
        then: FusedLabel,
        otherwise: FusedLabel,
    ) -> Result<FusedLabel, NoForm> {
        let (mut label, mut end) = (then, value.len().min(mask.len()));
        // The last bytes first, since what is made first comes last.
        while end > 0 {
            let width = if end >= 4 { 4 } else { end.min(2) };
            let from = end - width;
            let number = |bytes: &[u8]| bytes.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
            let mask = number(&mask[from..end]);
            let wanted = number(&value[from..end]) & mask;
            let test = FusedTest {
                at: at.saturating_add(from as u16),
                width: width as u8,
                shift: 0,
                mask,
                low: wanted,
                high: wanted,
                reach: 0,
            };
            label = self.block(Vec::new(), FusedEnd::If(test, label.0, otherwise.0))?;
            end = from;
        }
        Ok(label)
    }

    /// The packet goes up as it came, for a cause of this engine.
    pub fn up(&mut self, why: &str) -> Result<FusedLabel, NoForm> {
        self.raise(format!("{}: {why}", (self.name)(self.at)))
    }

    /// Looks a packet up in this engine's part of the table: by one of these outputs, as is found; it goes up if nothing is.
    pub fn look_up(&mut self, key: FusedKey, outputs: &[FusedLabel], why: &str) -> Result<FusedLabel, NoForm> {
        let up = self.up(why)?;
        let outputs = outputs.iter().map(|label| label.0).collect();
        self.block(Vec::new(), FusedEnd::Find { engine: self.at, key, outputs, otherwise: up.0 })
    }

    /// One of this engine's own words.
    pub fn own(&self, number: u16) -> u16 {
        self.links.starts_of(self.at).1 + number
    }

    /// Outputs of this engine.
    pub fn outputs(&self) -> u16 {
        self.links.behind.get(usize::from(self.at)).map_or(0, |outputs| outputs.len() as u16)
    }

    /// The packet leaves by a port, as it is.
    pub fn leave(&mut self, port: u16, at: FusedAt) -> Result<FusedLabel, NoForm> {
        if at.first > PLAIN - 14 {
            return Err(NoForm::Because("what leaves may have no whole Ethernet header".to_owned()));
        }
        let exit = self.exits.iter().position(|known| *known == u32::from(port)).unwrap_or_else(|| {
            self.exits.push(port.into());
            self.exits.len() - 1
        });
        if exit >= EXITS_MAX {
            return Err(NoForm::Behind(format!("it has more than {EXITS_MAX} devices that send")));
        }
        self.block(Vec::new(), FusedEnd::Leave(exit as u16, at.first))
    }

    /// The packet goes on by an output of this engine.
    pub fn to(&mut self, output: u16, at: FusedAt) -> Result<FusedLabel, NoForm> {
        let from = self.at;
        let outputs = self.links.behind.get(usize::from(from));
        let Some(behind) = outputs.and_then(|outputs| outputs.get(usize::from(output))) else { return self.drop() };
        let next = match *behind {
            Some((engine, input)) => self.enter(engine, input, at)?,
            None => self.drop()?,
        };
        self.steps(vec![FusedStep::Count(self.links.starts_of(from).0 + output)], next)
    }

    /// The body of an engine, for packets of which so much is known.
    pub(super) fn enter(&mut self, engine: u16, input: u16, at: FusedAt) -> Result<FusedLabel, NoForm> {
        let key = (engine, input, at);
        match self.known.get(&key) {
            Some(Some(label)) => return Ok(*label),
            Some(None) => return Err(NoForm::Behind("packets go round in it".to_owned())),
            None => {}
        }
        if self.depth >= DEPTH_MAX {
            return Err(NoForm::Behind(format!("packets pass more than {DEPTH_MAX} engines one behind the other")));
        }
        self.known.insert(key, None);
        self.depth += 1;
        let before = core::mem::replace(&mut self.at, engine);
        let ask = self.ask;
        let made = ask(self, engine, input, at);
        (self.at, self.depth) = (before, self.depth - 1);
        let label = made?;
        self.known.insert(key, Some(label));
        Ok(label)
    }

    /// All, for packets that come in here. Without an entry: every packet would go up.
    pub(super) fn finish(self, entries: &[(u32, FusedLabel)]) -> Result<Fused, NoForm> {
        let FusedBody { mut blocks, known, exits, raised, .. } = self;
        let goes_up = only_up(&blocks);
        let is_up = |label: &FusedLabel| goes_up.get(usize::from(label.0)).copied().unwrap_or(true);
        if entries.iter().all(|(_, label)| is_up(label)) {
            return Err(NoForm::Behind(raised.into_iter().next().unwrap_or_default()));
        }
        let come = come_to(&blocks, entries);
        let engines = known.iter().filter_map(|((engine, ..), label)| {
            let label = label.as_ref().filter(|label| !is_up(label))?;
            come.get(usize::from(label.0)).copied().unwrap_or(false).then_some(*engine)
        });
        let mut engines: Vec<_> = engines.collect();
        engines.sort_unstable();
        engines.dedup();
        let mut entries = entries.to_vec();
        if let Some(mut sinking) = Sinking::of(&blocks) {
            for (_, label) in &mut entries {
                *label = sinking.enter(*label)?;
            }
            blocks = sinking.finish();
        }
        let last = (blocks.len().max(1) - 1) as u16;
        let turned = |label: u16| last - label.min(last);
        blocks.reverse();
        for next in blocks.iter_mut().flat_map(nexts) {
            *next = turned(*next);
        }
        let mut entries: Vec<_> = entries.iter().map(|(port, label)| (*port, turned(label.0))).collect();
        reached(&mut entries, &mut blocks);
        Ok(Fused { entries, exits, blocks, engines, raised })
    }
}

/// Where a block leads.
fn nexts(block: &mut FusedBlock) -> impl Iterator<Item = &mut u16> {
    let (one, two, more) = match &mut block.end {
        FusedEnd::To(next) => (Some(next), None, &mut [][..]),
        FusedEnd::If(_, then, otherwise) => (Some(then), Some(otherwise), &mut [][..]),
        FusedEnd::Find { outputs, otherwise, .. } => (Some(otherwise), None, outputs.as_mut_slice()),
        FusedEnd::Drop | FusedEnd::Leave(..) | FusedEnd::Up => (None, None, &mut [][..]),
    };
    one.into_iter().chain(two).chain(more)
}

/// To which blocks packets come; those behind others are first.
fn come_to(blocks: &[FusedBlock], entries: &[(u32, FusedLabel)]) -> Vec<bool> {
    let mut come = vec![false; blocks.len()];
    entries.iter().for_each(|(_, label)| come[usize::from(label.0)] = true);
    for at in (0..blocks.len()).filter(|at| blocks[*at].end != FusedEnd::Up).rev().collect::<Vec<_>>() {
        if come[at] {
            nexts(&mut blocks[at].clone()).for_each(|next| come[usize::from(*next)] = true);
        }
    }
    come
}

/// Takes out blocks that no packet comes to: the kernel takes no instructions that nothing reaches. Each leads to later ones only.
fn reached(entries: &mut [(u32, u16)], blocks: &mut Vec<FusedBlock>) {
    let mut is_reached = vec![false; blocks.len()];
    entries.iter().for_each(|(_, block)| is_reached[usize::from(*block)] = true);
    for at in 0..blocks.len() {
        if is_reached[at] {
            nexts(&mut blocks[at]).for_each(|next| is_reached[usize::from(*next)] = true);
        }
    }
    let before = |number: &mut u16, is: &bool| {
        let before = *number;
        *number += u16::from(*is);
        Some(before)
    };
    let numbers: Vec<u16> = is_reached.iter().scan(0, before).collect();
    let mut keep = is_reached.into_iter();
    blocks.retain(|_| keep.next().unwrap_or(false));
    let renumber = |to: &mut u16| *to = numbers[usize::from(*to)];
    entries.iter_mut().map(|(_, block)| block).chain(blocks.iter_mut().flat_map(nexts)).for_each(renumber);
}
