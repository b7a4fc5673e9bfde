//! Packets that come to an engine without a form go up as they came, and the user half takes them through the same graph.
//!
//! So nothing may be done to them before that: no byte changed, nothing counted. On each way that may lead up, steps wait until it is sure
//! that it does not.
//!
//! ```text
//! count ─▶ change ─▶ test ─┬─▶ leave           test ─┬─▶ count, change ─▶ leave
//!                          └─▶ no form  ═══▶         └─▶ up
//! ```
//!
//! A test that looks at what has been changed cannot be done before the change: there the packet goes up too. A packet that goes up is
//! one of the user half alone, in the one generation that it passes there, and in its counts; whatever becomes of the program meanwhile.

use super::body::{FusedLabel, NoForm};
use super::look_up::{may_precede, rewrites};
use crate::contract::plan::{BLOCKS_MAX, FusedBlock, FusedEnd, FusedStep, FusedTest, IP_AT};
use std::collections::HashMap;

/// Bytes of the IP header that a hop changes: time to live, sum.
const HOP: [(u16, usize); 2] = [(IP_AT + 8, 1), (IP_AT + 10, 2)];

/// Bytes in which the length of the IP packet is.
const LENGTH: (u16, u16) = (IP_AT + 2, IP_AT + 4);

/// Ways to blocks that are looked at, at most: their number may grow with the power of tests, and most make no block.
const WAYS_MAX: usize = 8 * BLOCKS_MAX;

/// Blocks on which packets may go up, made anew. All lists of blocks have those behind others first.
pub(super) struct Sinking<'a> {
    old: &'a [FusedBlock],
    /// Whether a packet that comes to a block may go up, and whether each does.
    may: Vec<bool>,
    must: Vec<bool>,
    made: Vec<FusedBlock>,
    /// What was made of a block with steps that wait before it.
    known: HashMap<(u16, Vec<FusedStep>), u16>,
    up: Option<u16>,
}

/// For each block whether something holds of one of its ends, or of all.
fn ends(blocks: &[FusedBlock], all: bool) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let of = |next: &u16| found.get(usize::from(*next)).copied().unwrap_or(false);
        found.push(match &block.end {
            FusedEnd::Up => true,
            FusedEnd::Drop | FusedEnd::Leave(..) => false,
            FusedEnd::To(next) => of(next),
            FusedEnd::If(_, then, otherwise) if all => of(then) && of(otherwise),
            FusedEnd::If(_, then, otherwise) => of(then) || of(otherwise),
            FusedEnd::Find { outputs, otherwise, .. } if all => of(otherwise) && outputs.iter().all(of),
            FusedEnd::Find { outputs, otherwise, .. } => of(otherwise) || outputs.iter().any(of),
        });
    }
    found
}

/// Blocks from which every packet goes up.
pub(super) fn only_up(blocks: &[FusedBlock]) -> Vec<bool> {
    ends(blocks, true)
}

fn meets(at: u16, bytes: usize, (from, to): (u16, u16)) -> bool {
    at < to && usize::from(from) < usize::from(at) + bytes
}

/// Whether a step changes some of these bytes.
fn changes(step: &FusedStep, bytes: (u16, u16)) -> bool {
    match step {
        FusedStep::Count(_) | FusedStep::Bytes(..) | FusedStep::Trim => false,
        FusedStep::Put(at, put) => meets(*at, put.len(), bytes),
        FusedStep::Mirror(at) => meets(*at, 12, bytes),
        FusedStep::SpendHop => HOP.iter().any(|(at, count)| meets(*at, *count, bytes)),
        FusedStep::Readdress | FusedStep::PutFound(..) => rewrites(step, |at, count| meets(at, count, bytes)),
    }
}

/// The test that says before these steps what it says behind them, if there is one.
fn before(mut test: FusedTest, steps: &[FusedStep]) -> Option<FusedTest> {
    let end = test.at + u16::from(test.width);
    if steps.contains(&FusedStep::Trim) {
        // What is behind the IP packet will not be there.
        test.reach = test.reach.max(end);
    }
    let looks = |step: &FusedStep| changes(step, (test.at, end)) || test.reach > 0 && changes(step, LENGTH);
    (!steps.iter().any(looks)).then_some(test)
}

impl<'a> Sinking<'a> {
    /// Of these blocks; nothing: no packet goes up from any.
    pub(super) fn of(old: &'a [FusedBlock]) -> Option<Sinking<'a>> {
        let may = ends(old, false);
        let (must, made, known) = (only_up(old), Vec::new(), HashMap::new());
        may.contains(&true).then_some(Sinking { old, may, must, made, known, up: None })
    }

    /// What a block is from now on, for packets that come in there.
    pub(super) fn enter(&mut self, label: FusedLabel) -> Result<FusedLabel, NoForm> {
        self.sink(label.0, Vec::new()).map(FusedLabel)
    }

    /// All blocks.
    pub(super) fn finish(self) -> Vec<FusedBlock> {
        self.made
    }

    fn block(&mut self, steps: Vec<FusedStep>, end: FusedEnd) -> Result<u16, NoForm> {
        if self.made.len() >= BLOCKS_MAX {
            return Err(NoForm::Behind(format!("all together it has more than {BLOCKS_MAX} blocks there")));
        }
        self.made.push(FusedBlock { steps, end });
        Ok((self.made.len() - 1) as u16)
    }

    fn up(&mut self) -> Result<u16, NoForm> {
        if let Some(known) = self.up {
            return Ok(known);
        }
        let up = self.block(Vec::new(), FusedEnd::Up)?;
        self.up = Some(up);
        Ok(up)
    }

    /// A block with steps that wait before it.
    fn sink(&mut self, at: u16, waiting: Vec<FusedStep>) -> Result<u16, NoForm> {
        let key = (at, waiting);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        if self.known.len() >= WAYS_MAX {
            return Err(NoForm::Behind(format!("more than {WAYS_MAX} ways lead to engines without a form there")));
        }
        let made = self.make(at, &key.1)?;
        self.known.insert(key, made);
        Ok(made)
    }

    fn make(&mut self, at: u16, waiting: &[FusedStep]) -> Result<u16, NoForm> {
        let Some(FusedBlock { steps, end }) = self.old.get(usize::from(at)).cloned() else { return self.up() };
        if self.must.get(usize::from(at)).copied().unwrap_or(true) {
            return self.up();
        }
        if !self.may.get(usize::from(at)).copied().unwrap_or(true) {
            return self.go_on(at, waiting, steps, &end);
        }
        let waiting = [waiting, &steps].concat();
        match end {
            FusedEnd::To(next) => self.sink(next, waiting),
            FusedEnd::If(test, then, otherwise) => {
                let Some(test) = before(test, &waiting) else { return self.up() };
                let (otherwise, then) = (self.sink(otherwise, waiting.clone())?, self.sink(then, waiting)?);
                if then == otherwise {
                    return Ok(then);
                }
                self.block(Vec::new(), FusedEnd::If(test, then, otherwise))
            }
            FusedEnd::Find { engine, key, outputs, otherwise } => {
                if !may_precede(key, &waiting, changes) {
                    return self.up();
                }
                let otherwise = self.sink(otherwise, waiting.clone())?;
                let outputs = outputs.into_iter().map(|output| self.sink(output, waiting.clone()));
                let outputs = outputs.collect::<Result<_, _>>()?;
                self.block(Vec::new(), FusedEnd::Find { engine, key, outputs, otherwise })
            }
            FusedEnd::Up | FusedEnd::Drop | FusedEnd::Leave(..) => self.up(),
        }
    }

    /// From here on nothing goes up: what waits is done, and the rest is as it was.
    fn go_on(&mut self, at: u16, waiting: &[FusedStep], steps: Vec<FusedStep>, end: &FusedEnd) -> Result<u16, NoForm> {
        if !waiting.is_empty() {
            let next = self.sink(at, Vec::new())?;
            return self.block(waiting.to_vec(), FusedEnd::To(next));
        }
        let end = match end {
            FusedEnd::To(next) => FusedEnd::To(self.sink(*next, Vec::new())?),
            FusedEnd::If(test, then, otherwise) => {
                let (otherwise, then) = (self.sink(*otherwise, Vec::new())?, self.sink(*then, Vec::new())?);
                FusedEnd::If(*test, then, otherwise)
            }
            FusedEnd::Find { engine, key, outputs, otherwise } => {
                let otherwise = self.sink(*otherwise, Vec::new())?;
                let outputs = outputs.iter().map(|output| self.sink(*output, Vec::new())).collect::<Result<_, _>>()?;
                FusedEnd::Find { engine: *engine, key: *key, outputs, otherwise }
            }
            other => other.clone(),
        };
        self.block(steps, end)
    }
}
