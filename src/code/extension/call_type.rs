//! The type of a call between modules and whoever uses them, and the layout of its values on the way there and back.
//!
//! Example: `(int, host) -> int * bool`. Arguments are checked against the type and laid out in bytes; a result is read by its type, so a
//! module can do no harm to who asks it. Numbers, characters, truth values and interfaces are eight bytes, the lowest first; hosts and
//! keys are sixteen; strings and blobs a length in eight, then their bytes, then zeroes up to a multiple of eight; `()` is nothing.

use core::fmt;
use plan::value::{Host, Value};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Parameters, or parts of a result.
const ITEMS_MAX: usize = 16;

/// A type whose values go to modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unit,
    Int,
    Char,
    Bool,
    Dev,
    Host,
    Key,
    Text,
    Blob,
}

/// All of them, by their names.
const KINDS: [(&str, Kind); 9] = [
    ("unit", Kind::Unit),
    ("int", Kind::Int),
    ("char", Kind::Char),
    ("bool", Kind::Bool),
    ("dev", Kind::Dev),
    ("host", Kind::Host),
    ("key", Kind::Key),
    ("string", Kind::Text),
    ("blob", Kind::Blob),
];

/// The type of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallType {
    parameters: Vec<Kind>,
    /// Several are a tuple.
    result: Vec<Kind>,
}

/// Why values are no arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// They are more or fewer.
    Count,
    /// One is of another type.
    Type,
}

fn kind(text: &str) -> Result<Kind, String> {
    let text = text.trim();
    let known = KINDS.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, kind)| *kind)
        .ok_or_else(|| format!("'{text}': types of calls are unit, int, char, bool, dev, host, key, string, blob"))
}

impl CallType {
    /// Reads a type such as `void -> int` or `(int, host) -> int * bool`.
    pub fn parse(text: &str) -> Result<CallType, String> {
        let (from, to) = text.split_once("->").ok_or_else(|| format!("'{text}' is no function's type"))?;
        let from = from.trim();
        let inside = from.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(from);
        let parameters = match inside.trim() {
            "void" => Vec::new(),
            list => list.split(',').map(kind).collect::<Result<Vec<_>, _>>()?,
        };
        let result = to.split('*').map(kind).collect::<Result<Vec<_>, _>>()?;
        if parameters.len() > ITEMS_MAX || result.len() > ITEMS_MAX {
            return Err(format!("at most {ITEMS_MAX} parameters and {ITEMS_MAX} parts of a result"));
        }
        Ok(CallType { parameters, result })
    }

    /// Lays arguments out in bytes.
    pub fn write(&self, given: &[Value], out: &mut Vec<u8>) -> Result<(), Unfit> {
        if given.len() != self.parameters.len() {
            return Err(Unfit::Count);
        }
        for (kind, value) in self.parameters.iter().zip(given) {
            let number = match (kind, value) {
                (Kind::Unit, Value::Unit) => continue,
                (Kind::Int, Value::Int(number)) => *number,
                (Kind::Char, Value::Char(byte)) => i64::from(*byte),
                (Kind::Bool, Value::Bool(truth)) => i64::from(*truth),
                (Kind::Dev, Value::Dev(dev)) => i64::from(*dev),
                (Kind::Host, Value::Host(Host(bytes))) | (Kind::Key, Value::Key(bytes)) => {
                    out.extend_from_slice(bytes);
                    continue;
                }
                (Kind::Text, Value::Text(bytes)) | (Kind::Blob, Value::Blob(bytes)) => {
                    put_blob(out, bytes);
                    continue;
                }
                _ => return Err(Unfit::Type),
            };
            out.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// What a call gave, if it is of its type and nothing follows.
    pub fn read(&self, mut bytes: &[u8]) -> Option<Value> {
        let mut values = Vec::with_capacity(self.result.len());
        for kind in &self.result {
            values.push(read(*kind, &mut bytes)?);
        }
        if !bytes.is_empty() {
            return None;
        }
        if values.len() == 1 { values.pop() } else { Value::tuple(values) }
    }

    /// Arguments that somebody has typed, each as a word of its own: `7`, `true`, `10.0.0.1`, text as it is.
    pub fn arguments(&self, words: &[String]) -> Result<Vec<Value>, String> {
        let wanted: Vec<_> = self.parameters.iter().filter(|kind| **kind != Kind::Unit).collect();
        if wanted.len() != words.len() {
            return Err(format!("{} arguments are given, and {self} takes {}", words.len(), wanted.len()));
        }
        let mut words = words.iter();
        self.parameters
            .iter()
            .map(|kind| match kind {
                Kind::Unit => Ok(Value::Unit),
                // As many words as are wanted, which was looked at.
                kind => argument(*kind, words.next().map_or("", String::as_str)),
            })
            .collect()
    }
}

impl fmt::Display for CallType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |kind: &Kind| KINDS.iter().find(|(_, of)| of == kind).map_or("", |(name, _)| *name);
        let names = |kinds: &[Kind], between: &str| kinds.iter().map(name).collect::<Vec<_>>().join(between);
        match &self.parameters[..] {
            [] => f.write_str("void")?,
            [one] => f.write_str(name(one))?,
            several => write!(f, "({})", names(several, ", "))?,
        }
        write!(f, " -> {}", names(&self.result, " * "))
    }
}

/// A word as a value of this type.
fn argument(kind: Kind, word: &str) -> Result<Value, String> {
    let no = |what: &str| format!("'{word}' is no {what}");
    Ok(match kind {
        Kind::Unit => Value::Unit,
        // PLAN writes a number below zero as `~7`.
        Kind::Int => Value::Int(word.replacen('~', "-", 1).parse().map_err(|_| no("number"))?),
        Kind::Char => match word.as_bytes() {
            [byte] => Value::Char(*byte),
            _ => return Err(no("character of one byte")),
        },
        Kind::Bool => Value::Bool(word.parse().map_err(|_| no("truth value: true, false"))?),
        Kind::Dev => Value::Dev(word.parse().map_err(|_| no("number of an interface"))?),
        Kind::Host => match (word.parse::<Ipv4Addr>(), word.parse::<Ipv6Addr>()) {
            (Ok(addr), _) => Value::Host(Host(addr.to_ipv6_mapped().octets())),
            (_, Ok(addr)) => Value::Host(Host(addr.octets())),
            _ => return Err(no("address")),
        },
        Kind::Key => {
            let mut key = [0; 16];
            hex::decode_to_slice(word, &mut key).map_err(|_| no("key: 32 hexadecimal digits"))?;
            Value::Key(key)
        }
        Kind::Text => Value::text(word.as_bytes()),
        Kind::Blob => Value::Blob(hex::decode(word).map_err(|_| no("blob: hexadecimal digits"))?.into()),
    })
}

/// Lays bytes out: their length in eight, then they, then zeroes up to a multiple of eight.
pub fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
}

fn read(kind: Kind, bytes: &mut &[u8]) -> Option<Value> {
    if kind == Kind::Unit {
        return Some(Value::Unit);
    }
    if matches!(kind, Kind::Host | Kind::Key) {
        let (first, rest) = bytes.split_first_chunk::<16>()?;
        *bytes = rest;
        return Some(if kind == Kind::Host { Value::Host(Host(*first)) } else { Value::Key(*first) });
    }
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    let number = i64::from_le_bytes(*first);
    *bytes = rest;
    match kind {
        Kind::Int => Some(Value::Int(number)),
        Kind::Char => u8::try_from(number).ok().map(Value::Char),
        Kind::Bool => u8::try_from(number).ok().filter(|truth| *truth < 2).map(|truth| Value::Bool(truth == 1)),
        Kind::Dev => u32::try_from(number).ok().map(Value::Dev),
        _ => {
            let length = usize::try_from(number).ok().filter(|length| *length <= rest.len())?;
            let (text, _) = rest.split_at_checked(length)?;
            *bytes = rest.get(length.next_multiple_of(8)..)?;
            let text = Arc::<[u8]>::from(text);
            Some(if kind == Kind::Text { Value::Text(text) } else { Value::Blob(text) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_or_refused() {
        let parse = |text: &str| CallType::parse(text);
        assert_eq!(parse("void -> int").unwrap(), CallType { parameters: vec![], result: vec![Kind::Int] });
        let both = CallType { parameters: vec![Kind::Int, Kind::Host], result: vec![Kind::Int, Kind::Bool] };
        assert_eq!(parse(" ( int , host )->int*bool "), Ok(both));
        assert_eq!(parse("int -> unit").unwrap().parameters, [Kind::Int]);
        for bad in
            ["int", "-> int", "int ->", "int list -> int", "(int -> int", &format!("({}int) -> int", "int,".repeat(16))]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_go_and_come_back_by_their_types() {
        let all = "(int, char, bool, dev, host, key, string, blob, unit)";
        let there = CallType::parse(&format!("{all} -> unit")).unwrap();
        let back = CallType::parse("void -> int * char * bool * dev * host * key * string * blob * unit").unwrap();
        let values = [
            Value::Int(-7),
            Value::Char(200),
            Value::Bool(true),
            Value::Dev(3),
            Value::Host(Host([1; 16])),
            Value::Key([2; 16]),
            Value::text(*b"twelve bytes"),
            Value::Blob((*b"").into()),
            Value::Unit,
        ];
        let mut bytes = Vec::new();
        there.write(&values, &mut bytes).unwrap();
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(back.read(&bytes), Value::tuple(values.to_vec()));
        for length in 0..bytes.len() {
            assert_eq!(back.read(&bytes[..length]), None, "{length}");
        }
        bytes.push(0);
        assert_eq!(back.read(&bytes), None);
        let mut bad = [9i64.to_le_bytes(), 2i64.to_le_bytes()].concat();
        assert_eq!(CallType::parse("void -> int * bool").unwrap().read(&bad), None);
        bad[8] = 1;
        assert!(CallType::parse("void -> int * bool").unwrap().read(&bad).is_some());
        assert!(there.write(&values[1..], &mut Vec::new()).is_err());
        assert_eq!(CallType::parse("int -> int").unwrap().write(&[Value::Unit], &mut Vec::new()), Err(Unfit::Type));
    }

    #[test]
    fn types_are_shown_as_they_are_written() {
        for text in ["void -> unit", "int -> host", "(int, string) -> int * bool"] {
            assert_eq!(CallType::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn words_are_arguments_or_refused() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = CallType::parse("(int, char, bool, dev, host, host, key, string, blob, unit) -> unit").unwrap();
        let key = "00112233445566778899aabbccddeeff";
        let given = all.arguments(&words(&["~7", "a", "true", "3", "10.0.0.1", "fd00::1", key, "two words", "0a"]));
        let shown: Vec<_> = given.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown[..6], ["~7", "a", "true", "<dev 3>", "10.0.0.1", "fd00::1"]);
        for (kind, word, why) in [
            ("int", "seven", "is no number"),
            ("char", "ab", "one byte"),
            ("bool", "1", "true, false"),
            ("host", "10.0.0", "is no address"),
            ("key", "00", "32 hexadecimal"),
            ("blob", "0", "hexadecimal"),
        ] {
            let refused = CallType::parse(&format!("{kind} -> unit")).unwrap().arguments(&words(&[word]));
            assert!(refused.unwrap_err().contains(why), "{kind} {word}");
        }
        let refused = CallType::parse("(int, int) -> unit").unwrap().arguments(&words(&["1"])).unwrap_err();
        assert_eq!(refused, "1 arguments are given, and (int, int) -> unit takes 2");
    }
}
