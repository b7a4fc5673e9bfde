//! Programs: a code made ready to run on a node.
//!
//! A program is made once per code and kept by whoever receives packets; packets of the same code share
//! it. Here names of services become the node's numbers and the code is compiled; what travels with a
//! chunk of each function is worked out when first needed and kept too, up to [`KEPT_SLICES`]. So what a program takes
//! is bounded by its code ([`Program::memory`]); who has a slice made pays for it ([`Program::slice_work`]).

use crate::code::{BLOCK, Code, CodeError, Definition};
use crate::eval::compile::{Compiled, compile};
use crate::name::{NAME_MAX, Name};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The SHA-256 of a code's canonical bytes: the code's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A node's number for one of its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceId(pub u32);

/// Which services a node has.
pub trait Services {
    /// The node's number for the service of this name.
    fn service(&self, name: &Name) -> Option<ServiceId>;
}

/// What travels with a chunk of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The digest of the bytes.
    pub digest: Digest,
    /// The canonical bytes of the code that is needed.
    pub bytes: Arc<[u8]>,
    /// The function's position in it.
    pub entry: u16,
}

/// Bytes of slices that a program keeps, for each byte of its code. More are made anew each time.
pub const KEPT_SLICES: usize = 4;

/// A code ready to run.
#[derive(Debug)]
pub struct Program {
    code: Code,
    bytes: Arc<[u8]>,
    digest: Digest,
    compiled: Compiled,
    /// Bytes that each definition takes.
    lengths: Vec<u32>,
    slices: Vec<OnceLock<Arc<Slice>>>,
    /// Bytes of those slices.
    kept: AtomicUsize,
    memory: usize,
}

impl Program {
    /// Makes a code ready to run on a node with these services.
    pub fn new(code: Code, services: &dyn Services) -> Program {
        let compiled = compile(&code, services);
        let slices = code.definitions().iter().map(|_| OnceLock::new()).collect();
        let (bytes, lengths) = code.write_measured();
        let (digest, bytes) = (Digest::of(&bytes), Arc::<[u8]>::from(bytes));
        let memory = memory(&code, &compiled, bytes.len());
        Program { code, bytes, digest, compiled, lengths, slices, kept: AtomicUsize::new(0), memory }
    }

    /// Reads a code and makes it ready to run.
    pub fn read(bytes: &[u8], services: &dyn Services) -> Result<Program, CodeError> {
        Code::read(bytes).map(|code| Program::new(code, services))
    }

    /// The digest of the code's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The code's bytes.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The name of the function at this position.
    pub fn name_of(&self, function: u16) -> &Name {
        const NONE: &Name = &Name::NONE;
        self.code.definitions().get(usize::from(function)).map_or(NONE, |definition| &definition.name)
    }

    /// What travels with a chunk of the function at this position; none if there is no function.
    pub fn slice(&self, function: u16) -> Option<Arc<Slice>> {
        self.code.params(function)?;
        let slot = self.slices.get(usize::from(function))?;
        if let Some(slice) = slot.get() {
            return Some(slice.clone());
        }
        let (slice, bytes) = self.make_slice(function);
        let slice = Arc::new(slice);
        if self.kept.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_SLICES * self.bytes.len() {
            self.kept.fetch_sub(bytes, Ordering::Relaxed);
            return Some(slice);
        }
        Some(slot.get_or_init(|| slice).clone())
    }

    /// A slice, and how many bytes it does not share with the code.
    fn make_slice(&self, function: u16) -> (Slice, usize) {
        if self.code.is_slice_for(function) {
            return (Slice { digest: self.digest, bytes: self.bytes.clone(), entry: function }, 0);
        }
        let (code, entry) = self.code.slice(function);
        let bytes: Arc<[u8]> = code.write().into();
        let length = bytes.len();
        (Slice { digest: Digest::of(&bytes), bytes, entry }, length)
    }

    /// Bytes of code that have to be copied, written and hashed for a function's slice: none if it is the whole code.
    pub fn slice_work(&self, function: u16) -> u32 {
        if self.code.is_slice_for(function) {
            return 0;
        }
        let needed = self.code.needed(function).filter_map(|at| self.lengths.get(at));
        needed.sum()
    }

    /// Whether a function's slice is kept.
    pub(crate) fn has_slice(&self, function: u16) -> bool {
        self.slices.get(usize::from(function)).is_some_and(|slot| slot.get().is_some())
    }

    /// Bytes of memory that the program takes at most, with its slices.
    pub fn memory(&self) -> usize {
        self.memory
    }
}

fn memory(code: &Code, compiled: &Compiled, bytes: usize) -> usize {
    let definitions = code.definitions();
    let tree: usize = definitions.iter().map(|definition| definition.body.memory()).sum();
    let slice = size_of::<OnceLock<Arc<Slice>>>() + size_of::<Slice>() + 2 * BLOCK;
    let each = size_of::<Definition>() + slice + NAME_MAX + BLOCK;
    size_of::<Program>() + (2 + KEPT_SLICES) * bytes + tree + compiled.memory() + definitions.len() * each
}
