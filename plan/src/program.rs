//! Programs: a code made ready to run on a node.
//!
//! A program is made once per code and kept by whoever receives packets; packets of the same code share
//! it. Here names of services become the node's numbers and the code is compiled; what travels with a
//! chunk of each function is worked out when first needed and kept too.

use crate::code::{Code, CodeError};
use crate::eval::compile::{Compiled, compile};
use crate::name::Name;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::OnceLock;

/// The SHA-256 of a code's canonical octets: the code's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these octets.
    pub fn of(octets: &[u8]) -> Digest {
        Digest(Sha256::digest(octets).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
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
    /// The digest of the octets.
    pub digest: Digest,
    /// The canonical octets of the code that is needed.
    pub octets: Vec<u8>,
    /// The function's position in it.
    pub entry: u16,
}

/// A code ready to run.
#[derive(Debug)]
pub struct Program {
    code: Code,
    digest: Digest,
    compiled: Compiled,
    slices: Vec<OnceLock<Slice>>,
}

impl Program {
    /// Makes a code ready to run on a node with these services.
    pub fn new(code: Code, services: &dyn Services) -> Program {
        let compiled = compile(&code, services);
        let slices = code.definitions().iter().map(|_| OnceLock::new()).collect();
        let digest = Digest::of(&code.write());
        Program { code, digest, compiled, slices }
    }

    /// Reads a code and makes it ready to run.
    pub fn read(octets: &[u8], services: &dyn Services) -> Result<Program, CodeError> {
        Code::read(octets).map(|code| Program::new(code, services))
    }

    /// The digest of the code's octets.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
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
    pub fn slice(&self, function: u16) -> Option<&Slice> {
        self.code.params(function)?;
        let slot = self.slices.get(usize::from(function))?;
        Some(slot.get_or_init(|| {
            let (code, entry) = self.code.slice(function);
            let octets = code.write();
            Slice { digest: Digest::of(&octets), octets, entry }
        }))
    }
}
