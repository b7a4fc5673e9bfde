//! Codes that the node keeps: compiled, and as octets for neighbours that ask.
//!
//! A code in a packet is found by a fast hash and then compared, so a known one costs no digest. The code
//! unused for longest gives way.

use super::table::Table;
use plan::code::CodeError;
use plan::program::{Digest, Program};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Programs by the digest of their code.
pub struct Library {
    held: HashMap<Digest, Held, foldhash::fast::FixedState>,
    /// Digests by the fast hash of the octets.
    index: HashMap<u64, Digest, foldhash::fast::FixedState>,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
    clock: u64,
}

struct Held {
    program: Arc<Program>,
    octets: Arc<[u8]>,
    used: u64,
}

impl Library {
    /// An empty library.
    pub fn new(count_max: usize, bytes_max: usize) -> Library {
        Library {
            held: HashMap::default(),
            index: HashMap::default(),
            bytes: 0,
            count_max: count_max.max(1),
            bytes_max,
            clock: 0,
        }
    }

    /// How many codes there are, and their octets.
    pub fn size(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// Whether a code is here.
    #[inline]
    pub fn has(&self, digest: &Digest) -> bool {
        self.held.contains_key(digest)
    }

    /// The program of a code.
    pub fn program(&mut self, digest: &Digest) -> Option<Arc<Program>> {
        self.clock += 1;
        let held = self.held.get_mut(digest)?;
        held.used = self.clock;
        Some(held.program.clone())
    }

    /// The octets of a code.
    pub fn octets(&self, digest: &Digest) -> Option<&[u8]> {
        self.held.get(digest).map(|held| &*held.octets)
    }

    /// The program of these octets, and whether it had to be made.
    pub fn by_octets(&mut self, octets: &[u8], table: &Table) -> Result<(Arc<Program>, bool), CodeError> {
        self.clock += 1;
        let hash = foldhash::fast::FixedState::default().hash_one(octets);
        if let Some(held) = self.index.get(&hash).and_then(|digest| self.held.get_mut(digest))
            && *held.octets == *octets
        {
            held.used = self.clock;
            return Ok((held.program.clone(), false));
        }
        let program = Arc::new(Program::read(octets, table)?);
        let (digest, octets) = (program.digest(), Arc::<[u8]>::from(octets));
        self.index.insert(hash, digest);
        self.bytes += octets.len();
        let held = Held { program: program.clone(), octets, used: self.clock };
        if let Some(before) = self.held.insert(digest, held) {
            self.bytes -= before.octets.len();
        }
        self.make_room(&digest);
        Ok((program, true))
    }

    fn make_room(&mut self, keep: &Digest) {
        while self.held.len() > self.count_max || self.bytes > self.bytes_max {
            let others = self.held.iter().filter(|(digest, _)| *digest != keep);
            let Some(oldest) = others.min_by_key(|(_, held)| held.used).map(|(digest, _)| *digest) else { return };
            if let Some(gone) = self.held.remove(&oldest) {
                self.bytes -= gone.octets.len();
            }
            self.index.retain(|_, digest| *digest != oldest);
        }
    }
}

impl Library {
    /// Makes all programs anew: the node has other services now.
    pub fn compile_again(&mut self, table: &Table) {
        for held in self.held.values_mut() {
            if let Ok(program) = Program::read(&held.octets, table) {
                held.program = Arc::new(program);
            }
        }
    }
}

/// The library while a packet is decoded.
pub struct Shelf<'a> {
    /// The codes.
    pub library: &'a mut Library,
    /// The services they call.
    pub table: &'a Table,
    /// The codes of the packet, in their order.
    pub seen: &'a mut Vec<Digest>,
    /// Octets of codes that had to be compiled.
    pub compiled: usize,
}

impl plan::packet::Library for Shelf<'_> {
    fn by_octets(&mut self, octets: &[u8]) -> Result<Arc<Program>, CodeError> {
        let (program, new) = self.library.by_octets(octets, self.table)?;
        self.compiled += if new { octets.len() } else { 0 };
        self.seen.push(program.digest());
        Ok(program)
    }

    fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>> {
        let program = self.library.program(digest)?;
        self.seen.push(*digest);
        Some(program)
    }
}
