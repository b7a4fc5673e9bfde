//! Services loaded while the node runs: their types, and the layout of values on the way to them and back.
//!
//! The service itself is behind [`LoadedService`]. Its arguments are checked against its type and laid out in bytes;
//! its result is read by its type, so it can do no harm to evaluation. Numbers, characters, truth values and interfaces
//! are eight bytes, the lowest first; hosts and keys are sixteen; strings and blobs a length in eight, then their
//! bytes, then zeroes up to a multiple of eight; `()` is nothing.

use super::PlanOs;
use super::evaluate::{At, raise};
use plan::eval::{self, Fault};
use plan::name::Name;
use plan::value::{Host, Value};
use std::sync::Arc;

/// Services that can be loaded.
pub const SERVICES_MAX: usize = 64;

/// Parameters, or parts of a result.
const ITEMS_MAX: usize = 16;

/// Fuel for one step of evaluation.
const FUEL_PER_STEP: u64 = 8;

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceFailure {
    /// It raises an exception: -1 `NotFound`, -2 `Refused`, -3 `BadHost`, -4 `TooBig`, others `BadService`.
    Raised(i32),
    /// Its arguments are too long.
    TooBig,
    /// It used its steps up.
    Steps,
    /// It failed.
    Broken,
}

/// What a loaded service does.
pub trait LoadedService: Send {
    /// Takes the arguments out of `exchange` and puts the result in; gives how many steps that took.
    fn call(&mut self, now: u64, random: u64, steps: u64, exchange: &mut Vec<u8>) -> (Result<(), ServiceFailure>, u64);
}

/// A type whose values go to services.
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

/// The type of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSignature {
    parameters: Vec<Kind>,
    /// Several are a tuple.
    result: Vec<Kind>,
}

/// A service that was loaded.
pub(super) struct Loaded {
    pub name: Name,
    signature: ServiceSignature,
    service: Box<dyn LoadedService>,
}

impl Loaded {
    pub fn new(name: Name, signature: ServiceSignature, service: Box<dyn LoadedService>) -> Loaded {
        Loaded { name, signature, service }
    }

    /// Calls it with so many steps; what it gives, and how many it took.
    pub fn call(&mut self, env: &mut dyn PlanOs, given: &[Value], steps: u32) -> (eval::Result<Value>, u32) {
        let (now, random) = (env.now(), env.random());
        let mut exchange = Vec::new();
        if let Err(stop) = self.signature.write(given, &mut exchange) {
            return (Err(stop), 0);
        }
        let (result, taken) = self.service.call(now, random, u64::from(steps) * FUEL_PER_STEP, &mut exchange);
        let bad = || raise(const { Name::known("BadService") });
        let result = match result {
            Ok(()) => self.signature.read(&exchange).ok_or_else(bad),
            Err(ServiceFailure::Steps) => Err(Fault::Steps.into()),
            Err(ServiceFailure::TooBig | ServiceFailure::Raised(-4)) => Err(raise(const { Name::known("TooBig") })),
            Err(ServiceFailure::Raised(-1)) => Err(raise(const { Name::known("NotFound") })),
            Err(ServiceFailure::Raised(-2)) => Err(raise(const { Name::known("Refused") })),
            Err(ServiceFailure::Raised(-3)) => Err(raise(const { Name::known("BadHost") })),
            Err(_) => Err(bad()),
        };
        (result, u32::try_from(taken / FUEL_PER_STEP).unwrap_or(u32::MAX))
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    Ok(match text.trim() {
        "unit" => Kind::Unit,
        "int" => Kind::Int,
        "char" => Kind::Char,
        "bool" => Kind::Bool,
        "dev" => Kind::Dev,
        "host" => Kind::Host,
        "key" => Kind::Key,
        "string" => Kind::Text,
        "blob" => Kind::Blob,
        other => {
            return Err(format!(
                "'{other}': a service's types are unit, int, char, bool, dev, host, key, string, blob"
            ));
        }
    })
}

impl ServiceSignature {
    /// Reads a type such as `void -> int` or `(int, host) -> int * bool`.
    pub fn parse(text: &str) -> Result<ServiceSignature, String> {
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
        Ok(ServiceSignature { parameters, result })
    }

    fn write(&self, given: &[Value], out: &mut Vec<u8>) -> eval::Result<()> {
        if given.len() != self.parameters.len() {
            return Err(Fault::Arity.into());
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
                    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    out.extend_from_slice(bytes);
                    out.resize(out.len().next_multiple_of(8), 0);
                    continue;
                }
                _ => return Err(Fault::Type("service").into()),
            };
            out.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// What a service gave, if it is of its type and nothing follows.
    fn read(&self, mut bytes: &[u8]) -> Option<Value> {
        let mut values = Vec::with_capacity(self.result.len());
        for kind in &self.result {
            values.push(read(*kind, &mut bytes)?);
        }
        if !bytes.is_empty() {
            return None;
        }
        if values.len() == 1 { values.pop() } else { Value::tuple(values) }
    }
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

impl At<'_> {
    /// Calls the loaded service with this number.
    pub(super) fn call_loaded(
        &mut self,
        number: usize,
        given: &[Value],
        state: &mut eval::State<'_>,
    ) -> eval::Result<Value> {
        let Some(loaded) = self.loaded.get_mut(number) else { return Err(raise(Name::SERVICE_NOT_PRESENT)) };
        let (result, taken) = loaded.call(&mut *self.env, given, state.steps);
        state.steps = state.steps.saturating_sub(taken);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_or_refused() {
        let parse = |text: &str| ServiceSignature::parse(text);
        assert_eq!(parse("void -> int").unwrap(), ServiceSignature { parameters: vec![], result: vec![Kind::Int] });
        let both = ServiceSignature { parameters: vec![Kind::Int, Kind::Host], result: vec![Kind::Int, Kind::Bool] };
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
        let there = ServiceSignature::parse(&format!("{all} -> unit")).unwrap();
        let back =
            ServiceSignature::parse("void -> int * char * bool * dev * host * key * string * blob * unit").unwrap();
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
        assert_eq!(ServiceSignature::parse("void -> int * bool").unwrap().read(&bad), None);
        bad[8] = 1;
        assert!(ServiceSignature::parse("void -> int * bool").unwrap().read(&bad).is_some());
        assert!(there.write(&values[1..], &mut Vec::new()).is_err());
        assert!(ServiceSignature::parse("int -> int").unwrap().write(&[Value::Unit], &mut Vec::new()).is_err());
    }
}
