//! Codes that the node keeps: as bytes for neighbours that ask, and compiled once a packet needs them.
//!
//! A code in a packet is found by a fast hash and then compared, so a known one costs no digest. The code
//! unused for longest gives way. What programs take counts as well as their bytes: it is a hundred times as much, or less
//! ([`Program::memory`]).

use super::table::Table;
use plan::code::CodeError;
use plan::program::{Digest, Program};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Codes.
    pub codes: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Bytes of memory that their programs take.
    pub memory: usize,
}

/// Programs by the digest of their code.
pub struct Library {
    held: HashMap<Digest, Held, foldhash::fast::FixedState>,
    /// Digests by the fast hash of the bytes.
    index: HashMap<u64, Digest, foldhash::fast::FixedState>,
    bytes: usize,
    memory: usize,
    room: Room,
    clock: u64,
}

struct Held {
    /// None if it was not needed yet.
    program: Option<Arc<Program>>,
    bytes: Arc<[u8]>,
    used: u64,
}

impl Held {
    fn memory(&self) -> usize {
        self.program.as_ref().map_or(0, |program| program.memory())
    }
}

fn hash_of(bytes: &[u8]) -> u64 {
    foldhash::fast::FixedState::default().hash_one(bytes)
}

impl Library {
    /// An empty library.
    pub fn new(room: Room) -> Library {
        let room = Room { codes: room.codes.max(1), ..room };
        Library { held: HashMap::default(), index: HashMap::default(), bytes: 0, memory: 0, room, clock: 0 }
    }

    /// What is kept.
    pub fn size(&self) -> Room {
        Room { codes: self.held.len(), bytes: self.bytes, memory: self.memory }
    }

    /// Whether a code is here.
    #[inline]
    pub fn has(&self, digest: &Digest) -> bool {
        self.held.contains_key(digest)
    }

    /// The program of a code, and how many bytes had to be compiled for it.
    pub fn program(&mut self, digest: &Digest, table: &Table) -> Option<(Arc<Program>, usize)> {
        self.clock += 1;
        let held = self.held.get_mut(digest)?;
        held.used = self.clock;
        if let Some(program) = &held.program {
            return Some((program.clone(), 0));
        }
        let program = Arc::new(Program::read(&held.bytes, table).ok()?);
        Some((self.put_program(digest, program.clone()), program.bytes().len()))
    }

    /// Bytes that have to be compiled for the program of a code that is here.
    fn to_compile(&self, digest: &Digest) -> usize {
        self.held.get(digest).filter(|held| held.program.is_none()).map_or(0, |held| held.bytes.len())
    }

    /// The bytes of a code.
    pub fn bytes(&self, digest: &Digest) -> Option<&[u8]> {
        self.held.get(digest).map(|held| &*held.bytes)
    }

    /// The digest of these bytes, if they are a code that is here.
    fn find(&self, bytes: &[u8]) -> Option<Digest> {
        let digest = self.index.get(&hash_of(bytes))?;
        let held = self.held.get(digest)?;
        (*held.bytes == *bytes).then_some(*digest)
    }

    /// The program of these bytes, and how many of them had to be compiled for it; the error if they are no code, or
    /// would be more than `most`.
    pub fn by_bytes(&mut self, bytes: &[u8], table: &Table, most: usize) -> Result<(Arc<Program>, usize), CodeError> {
        let known = self.find(bytes);
        if let Some(held) = known.and_then(|digest| self.held.get_mut(&digest))
            && let Some(program) = &held.program
        {
            self.clock += 1;
            held.used = self.clock;
            return Ok((program.clone(), 0));
        }
        if bytes.len() > most {
            return Err(CodeError::Limit);
        }
        let program = Arc::new(Program::read(bytes, table)?);
        let digest = program.digest();
        self.keep(digest, program.bytes());
        Ok((self.put_program(&digest, program), bytes.len()))
    }

    /// Keeps a code, whose program is made when it is needed.
    pub fn keep(&mut self, digest: Digest, bytes: &Arc<[u8]>) {
        self.clock += 1;
        self.index.insert(hash_of(bytes), digest);
        if let Some(held) = self.held.get_mut(&digest) {
            held.used = self.clock;
            return;
        }
        self.bytes += bytes.len();
        self.held.insert(digest, Held { program: None, bytes: bytes.clone(), used: self.clock });
        self.make_room(&digest);
    }

    fn put_program(&mut self, digest: &Digest, program: Arc<Program>) -> Arc<Program> {
        if let Some(held) = self.held.get_mut(digest) {
            self.memory -= held.memory();
            self.memory += program.memory();
            held.program = Some(program.clone());
        }
        self.make_room(digest);
        program
    }

    fn is_full(&self) -> bool {
        self.held.len() > self.room.codes || self.bytes > self.room.bytes || self.memory > self.room.memory
    }

    fn make_room(&mut self, keep: &Digest) {
        while self.is_full() {
            let others = self.held.iter().filter(|(digest, _)| *digest != keep);
            let Some(oldest) = others.min_by_key(|(_, held)| held.used).map(|(digest, _)| *digest) else { return };
            if let Some(gone) = self.held.remove(&oldest) {
                self.bytes -= gone.bytes.len();
                self.memory -= gone.memory();
                self.index.remove(&hash_of(&gone.bytes));
            }
        }
    }

    /// Forgets all programs, but not their codes: the node has other services now.
    pub fn compile_again(&mut self) {
        self.held.values_mut().for_each(|held| held.program = None);
        self.memory = 0;
    }
}

/// The library while a packet is decoded.
pub struct Shelf<'a> {
    library: &'a mut Library,
    /// The services that codes call.
    table: &'a Table,
    /// The codes of the packet, in their order.
    seen: &'a mut Vec<Digest>,
    /// Bytes of codes that may be compiled.
    most: usize,
    /// Bytes that were.
    pub compiled: usize,
    /// Whether there were more.
    pub beyond: bool,
}

impl<'a> Shelf<'a> {
    /// For a packet, whose codes are noted in `seen`.
    pub fn new(library: &'a mut Library, table: &'a Table, seen: &'a mut Vec<Digest>) -> Shelf<'a> {
        Shelf { library, table, seen, most: usize::MAX, compiled: 0, beyond: false }
    }

    /// The same, but that no more than so many bytes are compiled.
    pub fn at_most(self, most: usize) -> Shelf<'a> {
        Shelf { most, ..self }
    }
}

impl plan::packet::Library for Shelf<'_> {
    fn by_bytes(&mut self, bytes: &[u8]) -> Result<Arc<Program>, CodeError> {
        let left = self.most - self.compiled;
        let found = self.library.by_bytes(bytes, self.table, left);
        self.beyond |= matches!(found, Err(CodeError::Limit)) && bytes.len() > left;
        let (program, compiled) = found?;
        self.compiled += compiled;
        self.seen.push(program.digest());
        Ok(program)
    }

    fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>> {
        if self.library.to_compile(digest) > self.most - self.compiled {
            self.beyond = true;
            return None;
        }
        let (program, compiled) = self.library.program(digest, self.table)?;
        self.compiled += compiled;
        self.seen.push(*digest);
        Some(program)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::*;
    use std::fmt::Write;

    fn code(number: usize) -> Arc<[u8]> {
        let mut source = format!("val n = {number} fun main() = [");
        (0..200).for_each(|at| write!(source, "{}{at}", if at == 0 { "" } else { ";" }).unwrap());
        plan::check(&(source + "]")).code.unwrap().write().into()
    }

    #[test]
    fn programs_count_by_the_memory_that_they_take() {
        let table = Table::new(&Config::default());
        let one = Program::read(&code(0), &table).unwrap().memory();
        assert!(one > 10 * code(0).len());
        let mut library = Library::new(Room { codes: 512, bytes: 1 << 20, memory: 10 * one });
        for number in 0..50 {
            let (_, compiled) = library.by_bytes(&code(number), &table, usize::MAX).unwrap();
            assert_eq!(compiled, code(number).len());
            assert!(library.size().memory <= 10 * one);
        }
        assert!(library.size().codes >= 9);
        assert_eq!(library.by_bytes(&code(49), &table, 0).unwrap().1, 0, "the last is here");
    }

    #[test]
    fn a_code_is_kept_without_a_program_until_it_is_needed() {
        let table = Table::new(&Config::default());
        let mut library = Library::new(Room { codes: 512, bytes: 1 << 20, memory: 1 << 20 });
        let (bytes, digest) = (code(1), Digest::of(&code(1)));
        library.keep(digest, &bytes);
        assert_eq!(library.size(), Room { codes: 1, bytes: bytes.len(), memory: 0 });
        assert_eq!(library.bytes(&digest), Some(&*bytes));
        assert_eq!(library.by_bytes(&bytes, &table, 9).err(), Some(CodeError::Limit), "more than is paid for");
        for expected in [bytes.len(), 0] {
            assert_eq!(library.program(&digest, &table).unwrap().1, expected);
        }
        let memory = library.size().memory;
        library.compile_again();
        assert_eq!(library.size().memory, 0);
        assert_eq!(library.by_bytes(&bytes, &table, usize::MAX).unwrap().1, bytes.len());
        assert_eq!(library.size().memory, memory);
    }
}
