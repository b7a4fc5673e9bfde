//! What code has done in the kernel half beside its verdict, for the node to go on with: `struct record` of `bpf/contract.h`.

use super::layout::{LINE, LINES, RECORD, SEND, SENDS, records};
use super::maps::Maps;
use crate::core::record::{SharedRecords, Written};
use crate::sys::bpf::possible_cpus;
use crate::sys::mapping::SharedWords;
use std::io;
use std::sync::Arc;

/// Octets of a word.
const WORD: usize = 8;

/// Words of a record, and where its number stands, and what is left of it.
const RECORD_WORDS: usize = RECORD / WORD;
const NUMBER: usize = 0;
const LEFT: usize = 2;

/// Words of a send; its bound is in the first, and its window begins at this one.
const SEND_WORDS: usize = SEND / WORD;
const WINDOW: usize = 5;

/// Words of a line.
const LINE_WORDS: usize = LINE / WORD;

/// All records.
#[derive(Clone, Debug)]
pub struct Records(Arc<Words>);

#[derive(Debug)]
struct Words {
    records: SharedWords,
    sends: SharedWords,
    lines: SharedWords,
    count: usize,
}

impl Records {
    /// Those in the maps.
    pub(super) fn of(maps: &Maps) -> io::Result<Records> {
        let count = records()? * possible_cpus()? as u32;
        let words = |name: &str, each: u32| maps.of(name)?.words(count * each);
        let (records, sends, lines) =
            (words("records_map", 1)?, words("sends_map", SENDS)?, words("lines_map", LINES)?);
        Ok(Records(Arc::new(Words { records, sends, lines, count: count as usize })))
    }
}

impl Words {
    /// Whether a record is that of this packet still.
    fn is(&self, written: Written) -> bool {
        let at = written.record as usize;
        at < self.count && self.records.load(at * RECORD_WORDS + NUMBER) == written.number
    }
}

impl SharedRecords for Records {
    fn send(&self, written: Written, at: usize, window: &mut [u8]) -> Option<u32> {
        let words = &*self.0;
        if !words.is(written) || at >= SENDS as usize || window.len() > SEND - WINDOW * WORD {
            return None;
        }
        let first = (written.record as usize * SENDS as usize + at) * SEND_WORDS;
        for (place, octets) in (first + WINDOW..).zip(window.chunks_mut(WORD)) {
            octets.copy_from_slice(&words.sends.load(place).to_ne_bytes()[..octets.len()]);
        }
        let bound = words.sends.load(first) as u32;
        // It may have become another's meanwhile.
        words.is(written).then_some(bound)
    }

    fn line(&self, written: Written, at: usize) -> Option<(u32, u64)> {
        let words = &*self.0;
        if !words.is(written) || at >= LINES as usize {
            return None;
        }
        let first = (written.record as usize * LINES as usize + at) * LINE_WORDS;
        let line = (words.lines.load(first + 1) as u32, words.lines.load(first));
        words.is(written).then_some(line)
    }

    fn done(&self, written: Written) {
        if self.0.is(written) {
            self.0.records.store(written.record as usize * RECORD_WORDS + LEFT, 0);
        }
    }
}
