//! Names that travel: of services and exceptions, and of the functions of a code.
//!
//! The names that every node knows are in one table, [`TABLE`]; they travel as their number there and
//! compare without looking at text. All others travel as text. A name is an identifier, so that
//! printing one is harmless. The table belongs to the version of the binary form: it grows only with
//! a new version.

use std::fmt;
use std::sync::Arc;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 48;

/// What a name of the table stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// The empty name, for "no handler".
    Nothing,
    /// An exception that nodes and primitives raise.
    Exception,
    /// A service and its type, as PLAN writes it.
    Service(&'static str),
}

use Core::{Exception, Nothing, Service};

/// The names that every node knows. A position is the name's number in packets.
pub const TABLE: &[(&str, Core)] = &[
    ("", Nothing),
    ("NotEnoughRB", Exception),
    ("NoRoute", Exception),
    ("NotNeighbor", Exception),
    ("BadHost", Exception),
    ("BadPort", Exception),
    ("ServiceNotPresent", Exception),
    ("BadService", Exception),
    ("NotFound", Exception),
    ("FileNotFound", Exception),
    ("DivByZero", Exception),
    ("EmptyList", Exception),
    ("BadChr", Exception),
    ("TooBig", Exception),
    ("Refused", Exception),
    ("RIPNoRoute", Exception),
    ("eval", Service("'a chunk -> 'a")),
    ("getRB", Service("void -> int")),
    ("length", Service("'a list -> int")),
    ("abort", Service("'a chunk -> unit")),
    ("print", Service("'a -> unit")),
    ("defHandler", Service("(string, host, 'a chunk) -> unit")),
    ("thisHost", Service("void -> host list")),
    ("thisHostIs", Service("host -> bool")),
    ("getSource", Service("void -> host")),
    ("getHostByName", Service("string -> host")),
    ("defaultRoute", Service("host -> host * dev")),
    ("RIP", Service("host -> host * dev")),
    ("getNeighbors", Service("void -> (host * dev) list")),
    ("getSrcDev", Service("void -> dev")),
    ("getMTU", Service("dev -> int")),
    ("getPort", Service("void -> port")),
    ("openPort", Service("(host, int) -> port")),
    ("deliver", Service("(port, 'a) -> unit")),
    ("getSession", Service("void -> key")),
    ("put", Service("(string, key, 'a, int) -> unit")),
    ("get", Service("(string, key) -> 'a")),
    ("getFlow", Service("void -> int")),
    ("fragment", Service("('a chunk, int) -> unit chunk list")),
    ("getBlobFromFile", Service("string -> blob")),
    ("installServices", Service("blob list -> unit")),
    ("time", Service("void -> int")),
    ("rand", Service("void -> int")),
    ("closePort", Service("port -> unit")),
    ("getRouteTable", Service("void -> (host * host * dev * int) list")),
    ("flowRoute", Service("host -> host * dev")),
    ("setFlow", Service("(int, host, dev, int) -> unit")),
    ("memoryUse", Service("void -> (string * int) list")),
    ("getPrincipal", Service("void -> string")),
    ("getHandler", Service("void -> string")),
    ("getRouting", Service("void -> string")),
    ("getDest", Service("void -> host")),
    ("getPrevious", Service("void -> host")),
    ("getDevices", Service("void -> dev list")),
    ("getHostOn", Service("dev -> host")),
    ("authEval", Service("(string, int, blob, 'a chunk) -> 'a")),
    ("reliably", Service("(host, int, int, 'a chunk) -> 'a")),
    ("acknowledged", Service("int -> unit")),
    ("reassemble", Service("(key, int, int, blob) -> unit")),
    ("bandwidthReceive", Service("(string, int) -> unit")),
    ("bandwidthSend", Service("(host, string, int, int, int, int) -> unit")),
    ("bandwidthCount", Service("(string, blob) -> unit")),
    ("bandwidthReport", Service("string -> int * int * int")),
    ("explodeBlob", Service("blob -> string")),
    ("makeBlob", Service("string -> blob")),
    ("sizeOf", Service("'a chunk -> int")),
];

/// A name of a service, an exception or a function.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Repr);

/// What is in the table is never `Own`, so equal names have equal representations.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Core(u8),
    Own(Arc<str>),
}

impl Name {
    /// No name.
    pub const NONE: Name = Name(Repr::Core(0));
    /// Raised when a packet has too little of its resource bound for a donation or a hop.
    pub const NOT_ENOUGH_RB: Name = Name(Repr::Core(1));
    /// Raised where a name is no service of this node.
    pub const SERVICE_NOT_PRESENT: Name = Name(Repr::Core(6));
    /// Raised by a division by zero.
    pub const DIV_BY_ZERO: Name = Name(Repr::Core(10));
    /// Raised by `hd` and `tl` of the empty list.
    pub const EMPTY_LIST: Name = Name(Repr::Core(11));
    /// Raised by `chr` of a number that is no character.
    pub const BAD_CHR: Name = Name(Repr::Core(12));

    /// The name of this text, if it can be one: an identifier of at most [`NAME_MAX`] bytes, or empty.
    pub fn new(text: &str) -> Option<Name> {
        let core = TABLE.iter().position(|(name, _)| *name == text);
        match core.and_then(|number| u8::try_from(number).ok()) {
            Some(number) => Some(Name(Repr::Core(number))),
            None => is_identifier(text).then(|| Name(Repr::Own(text.into()))),
        }
    }

    /// A name of the table, worked out when the program is built: one that is not there does not build.
    pub const fn known(text: &str) -> Name {
        let mut number = 0;
        while !same(TABLE[number].0.as_bytes(), text.as_bytes()) {
            number += 1;
        }
        Name(Repr::Core(number as u8))
    }

    /// The name with this number in the table.
    pub fn core(number: usize) -> Option<Name> {
        let number = u8::try_from(number).ok().filter(|number| usize::from(*number) < TABLE.len())?;
        Some(Name(Repr::Core(number)))
    }

    /// Its number in the table, if it is there.
    pub fn number(&self) -> Option<usize> {
        match self.0 {
            Repr::Core(number) => Some(number.into()),
            Repr::Own(_) => None,
        }
    }

    /// What it stands for, if it is in the table.
    pub fn meaning(&self) -> Option<Core> {
        TABLE.get(self.number()?).map(|(_, core)| *core)
    }

    /// Whether this is the empty name.
    pub fn is_none(&self) -> bool {
        *self == Name::NONE
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Core(number) => TABLE.get(usize::from(*number)).map_or("", |(name, _)| name),
            Repr::Own(text) => text,
        }
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Whether a text is an identifier: a letter or `_`, then letters, digits, `_` and `'`.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    first && text.len() <= NAME_MAX && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'\'')
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_table_has_one_representation() {
        for (number, (text, _)) in TABLE.iter().enumerate() {
            assert_eq!(Name::new(text), Name::core(number), "{text}");
        }
        assert_eq!(Name::core(TABLE.len()), None);
        assert_eq!(Name::NOT_ENOUGH_RB.as_str(), "NotEnoughRB");
        assert_eq!(Name::SERVICE_NOT_PRESENT.as_str(), "ServiceNotPresent");
        assert_eq!(Name::DIV_BY_ZERO.as_str(), "DivByZero");
        assert_eq!(Name::EMPTY_LIST.as_str(), "EmptyList");
        assert_eq!(Name::BAD_CHR.as_str(), "BadChr");
    }

    #[test]
    fn only_identifiers_are_names() {
        assert!(Name::new("x'1_").is_some());
        for bad in ["1x", "a b", "a\n", "é", &"a".repeat(NAME_MAX + 1)] {
            assert_eq!(Name::new(bad), None, "{bad}");
        }
    }
}
