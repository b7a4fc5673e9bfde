//! Environments that stand beside each other in a running node, and the packets that each is sent.

use super::super::super::Error;
use super::super::super::guests::header_from;
use anode::apps::plan::Script;
use anode::code::bundle::{Bundle, Kind as Representation};
use anode::manage::management::OBJECT_ARGUMENT;
use anode::wire::{Addr, anep, capsule};
use plan::packet::{Header, Packet};
use plan::value::{Host, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The node, and who sends it packets.
pub(super) const HERE: [u8; 4] = [10, 8, 0, 1];
pub(super) const THERE: [u8; 4] = [10, 8, 0, 2];

/// The first type of ANEP of the first environment; further ones have theirs a hundred behind.
const TYPE: u16 = 3000;

/// Bytes of a payload.
const PAYLOAD: usize = 64;

/// What an environment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A shared object in the node's process.
    Object,
    /// The same program in a process of its own, in its jail.
    Process,
    Plan,
    Capsules,
}

/// An environment.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    pub(super) kind: Kind,
    pub(super) weight: u32,
    cost_us: u32,
    domains: u16,
    deadline_us: u32,
}

impl Environment {
    /// One of this weight, whose packets take so many microseconds; those of PLAN and capsules take what their programs do.
    pub(super) fn new(kind: Kind, weight: u32, cost_us: u32) -> Environment {
        Environment { kind, weight, cost_us, domains: 0, deadline_us: 0 }
    }

    /// The same with so many domains below its own, which have its packets in turns.
    pub(super) fn with_domains(self, domains: u16) -> Environment {
        Environment { domains, ..self }
    }

    /// The same with a deadline.
    pub(super) fn with_deadline(self, deadline_us: u32) -> Environment {
        Environment { deadline_us, ..self }
    }

    /// The title of its domain, if it is the one in this place.
    pub(super) fn name(&self, at: usize) -> String {
        match self.kind {
            Kind::Plan => "plan".into(),
            Kind::Capsules => "capsules".into(),
            Kind::Object | Kind::Process => format!("e{at}"),
        }
    }

    /// Its lines of `[cpu]`.
    pub(super) fn cpu(&self) -> String {
        match self.kind {
            Kind::Plan => format!("plan_weight = {}\n", self.weight),
            Kind::Capsules => format!("capsules_weight = {}\n", self.weight),
            Kind::Object | Kind::Process => String::new(),
        }
    }

    /// Its role and itself in the configuration, and the object that it is.
    pub(super) fn tables(&self, at: usize, object: &Path, node: &Path) -> String {
        let kind = TYPE + 100 * at as u16;
        let words = [format!("r{at}"), "if0/anep".into(), kind.to_string(), self.cost_us.to_string()];
        let words = words.into_iter().chain((self.domains > 0).then(|| self.domains.to_string()));
        let own = object.to_string_lossy().into_owned();
        let what = match self.kind {
            Kind::Plan | Kind::Capsules => return String::new(),
            Kind::Object => format!("library = {:?}", [own].into_iter().chain(words).collect::<Vec<_>>()),
            Kind::Process => {
                let started = [node.to_string_lossy().into_owned(), OBJECT_ARGUMENT.into(), own];
                let folders = [object, node].map(|file| file.parent().unwrap_or(file));
                format!("command = {:?}\nreads = {folders:?}", started.into_iter().chain(words).collect::<Vec<_>>())
            }
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[role]]\nname = \"r{at}\"\nrepresentations = [\"native\"]\n[role.limits]\npackets_per_second = \
             1_000_000\n[role.grants]\nweight = {}\n\
             deadline_us = {}\nchannels = 40\ndomains = 40\nthreads = 40\nmemory_bytes = 67_108_864\n[[ee]]\nname \
             = \"e{at}\"\nrole = \"r{at}\"\n\
             restart = \"never\"\n{what}\n",
            self.weight, self.deadline_us
        );
        text
    }

    /// The packets that it is sent, in turns, and the code that they need.
    pub(super) fn packets(&self, at: usize) -> Result<(Vec<Vec<u8>>, Option<Bundle>), Error> {
        let kind = TYPE + 100 * at as u16;
        Ok(match self.kind {
            Kind::Object | Kind::Process => {
                let packet = |below: u16| anep(kind + below, &[0; PAYLOAD]);
                ((0..self.domains.max(1)).map(packet).collect(), None)
            }
            Kind::Plan => (vec![anep(anep::type_id::PLAN, &program()?)], None),
            Kind::Capsules => {
                let bundle = costly()?;
                let header = header_from(&bundle, Addr::v4(THERE), Addr::v4(HERE));
                let mut bytes = vec![0; capsule::HEADER + PAYLOAD];
                let written = header.emit(&mut bytes);
                debug_assert_eq!(written, Ok(capsule::HEADER));
                (vec![anep(anep::type_id::CAPSULE, &bytes)], Some(bundle))
            }
        })
    }
}

fn anep(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER];
    let written = anep::emit_basic(&mut bytes, kind, payload.len());
    debug_assert_eq!(written, Ok(anep::HEADER));
    bytes.extend_from_slice(payload);
    bytes
}

/// A PLAN packet that evaluates some thousand additions: functions that call the one before twice.
fn program() -> Result<Vec<u8>, Error> {
    const DOUBLINGS: usize = 9;
    let mut source = String::from("fun f0(x : int) : int = x * 3 + 1\n");
    for at in 1..=DOUBLINGS {
        let before = at - 1;
        // As above.
        let _ = writeln!(source, "fun f{at}(x : int) : int = f{before}(f{before}(x))");
    }
    let _ = writeln!(source, "fun work(x : int) : unit = if f{DOUBLINGS}(x) = 0 then print(x) else ()");
    let script = Script::new("work", &source).map_err(Error::Guest)?;
    let [here, there] = [HERE, THERE].map(|host| Host(Addr::v4(host).0));
    let failed = || Error::Guest("a PLAN packet cannot be made".into());
    let chunk = script.chunk("work", [Value::Int(1)]).ok_or_else(failed)?;
    let header = Header { destination: here, previous: there, ..Header::injected(there, 1000) };
    Packet { header, chunk }.bytes().ok_or_else(failed)
}

/// A capsule that counts, and goes nowhere.
fn costly() -> Result<Bundle, Error> {
    const TEXT: &str = r#"(module (memory (export "memory") 1024 1024 (pagesize 1)) (global (export "an_arena") i32 (i32.const 0))
        (func (export "capsule") (param $ctx i32) (param $window i32) (result i32) (local $i i32) (local $x i32)
            (local.set $i (i32.const 40000))
            (loop $again
                (local.set $x (i32.xor (i32.mul (i32.add (local.get $x) (local.get $i)) (i32.const 40503)) (local.get $ctx)))
                (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
            (i32.store (i32.const 512) (local.get $x))
            (i32.const 0)))"#;
    let failed = |error: &dyn std::fmt::Display| Error::Guest(format!("a costly capsule: {error}"));
    let wasm: Arc<[u8]> = wat::parse_str(TEXT).map_err(|error| failed(&error))?.into();
    Bundle::build("costly", 0, &[(Representation::Wasm, wasm)], None).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_environment_has_packets_of_its_own() {
        for kind in [Kind::Object, Kind::Process, Kind::Plan, Kind::Capsules] {
            let (packets, bundle) = Environment::new(kind, 100, 1).packets(1).unwrap();
            let types: Vec<_> = packets.iter().map(|it| anep::Packet::new_checked(it).unwrap().type_id()).collect();
            let wanted = match kind {
                Kind::Plan => anep::type_id::PLAN,
                Kind::Capsules => anep::type_id::CAPSULE,
                Kind::Object | Kind::Process => TYPE + 100,
            };
            assert_eq!((types, bundle.is_some()), (vec![wanted], kind == Kind::Capsules));
        }
        assert_eq!(Environment::new(Kind::Object, 100, 1).with_domains(30).packets(0).unwrap().0.len(), 30);
    }
}
