//! Records of the kernel half: sends and log lines of code that has run there, for the node to carry out (`struct
//! record` of `bpf/contract.h`).

use super::layout::records;
use super::maps::Maps;
use crate::contract::{FieldAt, LINES, SENDS, line, record, send};
use crate::core::record::{SharedRecords, Written};
use crate::sys::bpf::possible_cpus;
use crate::sys::mapping::SharedWords;
use std::io;
use std::sync::Arc;

/// Bytes of a word.
const WORD: usize = 8;

/// Words of a record, and where its number stands, and what is left of it. The other half of that word says how many sends it holds,
/// of which a free record has none.
const RECORD_WORDS: usize = record::SIZE / WORD;
const NUMBER: usize = record::NUMBER.word();
const LEFT: usize = word(record::LEFT);

/// Words of a send, where its bound stands, and where its window begins.
const SEND_WORDS: usize = send::SIZE / WORD;
const BOUND: usize = word(send::BOUND);
const WINDOW: usize = send::WINDOW.at() / WORD;

/// Words of a line, and where value and tag stand.
const LINE_WORDS: usize = line::SIZE / WORD;
const VALUE: usize = line::VALUE.word();
const TAG: usize = word(line::TAG);

// Windows are read a word at a time.
const _: () = assert!(send::WINDOW.at().is_multiple_of(WORD));

/// The word whose lower half is a field.
const fn word<const AT: usize>(_: FieldAt<AT, 4>) -> usize {
    const { assert!(AT.is_multiple_of(WORD), "the field is no lower half of a word") }
    AT / WORD
}

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
        if !words.is(written) || at >= SENDS as usize || window.len() > send::WINDOW.size() {
            return None;
        }
        let first = (written.record as usize * SENDS as usize + at) * SEND_WORDS;
        for (place, bytes) in (first + WINDOW..).zip(window.chunks_mut(WORD)) {
            bytes.copy_from_slice(&words.sends.load(place).to_ne_bytes()[..bytes.len()]);
        }
        let bound = words.sends.load(first + BOUND) as u32;
        // It may have become another's meanwhile.
        words.is(written).then_some(bound)
    }

    fn line(&self, written: Written, at: usize) -> Option<(u32, u64)> {
        let words = &*self.0;
        if !words.is(written) || at >= LINES as usize {
            return None;
        }
        let first = (written.record as usize * LINES as usize + at) * LINE_WORDS;
        let line = (words.lines.load(first + TAG) as u32, words.lines.load(first + VALUE));
        words.is(written).then_some(line)
    }

    fn done(&self, written: Written) {
        if self.0.is(written) {
            self.0.records.store(written.record as usize * RECORD_WORDS + LEFT, 0);
        }
    }
}
