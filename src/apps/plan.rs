//! PLAN for applications of this host: programs from source, the first call, and packets to inject.
//!
//! The arguments of a first call, such as `ping(hd thisHost(), getHostByName("far"))`, are evaluated here and not on a
//! node. So they may use the host's files and names. The result is a chunk, and a packet takes it to the node.

use plan::check::{Checked, check_first_call, check_sources};
use plan::code::Code;
use plan::diagnostic::{Diagnostic, Severity, render_all};
use plan::eval::{Fault, Limits, Machine, NewPacket, Node, Run, State, Stop};
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::program::{Program, ServiceId, Services};
use plan::source::Sources;
use plan::syntax::lexer::end_of_call;
use plan::value::{Callee, Chunk, Host, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the function that makes the first chunk.
const FIRST: &str = "first'";

/// A checked program.
#[derive(Clone, Debug)]
pub struct Script {
    sources: Sources,
    program: Arc<Program>,
    warnings: Vec<Diagnostic>,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unevaluated {
    /// The program or the call is wrong; every mistake, as text for people.
    Wrong(String),
    /// An exception that the program did not handle.
    Raised(Name),
    /// What no program can handle.
    Failed(Fault),
}

impl std::fmt::Display for Unevaluated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unevaluated::Wrong(shown) => write!(f, "it is wrong\n{shown}"),
            Unevaluated::Raised(name) => write!(f, "it raises {name}"),
            Unevaluated::Failed(fault) => write!(f, "it ends with {fault}"),
        }
    }
}

impl std::error::Error for Unevaluated {}

/// Finds a host by name.
pub type Resolve = fn(&str) -> Option<Host>;

/// Reads a file.
pub type Read = fn(&str) -> Option<Vec<u8>>;

/// What the first call may use of the host that makes it.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// What `thisHost` gives: the addresses of the node that is attached to.
    pub addresses: Vec<Host>,
    /// Hosts by name, before all others.
    pub hosts: BTreeMap<String, Host>,
    /// Finds other hosts by name, if that is allowed.
    pub resolve: Option<Resolve>,
    /// Reads files, if that is allowed.
    pub read: Option<Read>,
    /// The session of the application.
    pub session: [u8; 16],
    /// The resource bound, for `getRB`: that of the packet which the call is for.
    pub bound: u32,
    /// Whether packets may be made. Arguments of a call that goes to a node make none: they would be lost.
    pub sends: bool,
    /// What was printed.
    pub printed: Vec<String>,
    /// New packets: chunk, destination and bound.
    pub sent: Vec<(Arc<Chunk>, Host, u32)>,
}

const NAMES: &[&str] =
    &["thisHost", "thisHostIs", "getHostByName", "getBlobFromFile", "getSession", "print", "makeBlob", "explodeBlob"];

/// No services: a program that is only to be sent.
struct Without;

impl Services for Without {
    fn service(&self, _: &Name) -> Option<ServiceId> {
        None
    }
}

impl Services for Local {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        NAMES.iter().position(|known| *known == name.as_str()).map(|at| ServiceId(at as u32))
    }
}

impl Local {
    fn look_up(&self, name: &str) -> Option<Host> {
        let known = self.hosts.get(name).copied();
        let literal = || name.parse::<crate::wire::Addr>().ok().map(|addr| Host(addr.0));
        let asked = || self.resolve.and_then(|resolve| resolve(name));
        known.or_else(literal).or_else(asked)
    }
}

impl Node for Local {
    fn call(&mut self, service: ServiceId, given: &[Value], _: &mut State<'_>) -> Result<Value, Stop> {
        let raise = |name: Name| Stop::Raise(name);
        match (NAMES.get(service.0 as usize).copied().unwrap_or_default(), given) {
            ("thisHost", []) => {
                let own = self.addresses.clone().into_iter().map(Value::Host);
                Value::list(own).ok_or(Fault::Value.into())
            }
            ("thisHostIs", [Value::Host(host)]) => Ok(Value::Bool(self.addresses.contains(host))),
            ("getHostByName", [Value::Text(name)]) => {
                let found = std::str::from_utf8(name).ok().and_then(|name| self.look_up(name));
                found.map(Value::Host).ok_or(raise(const { Name::known("BadHost") }))
            }
            ("getBlobFromFile", [Value::Text(path)]) => {
                let path = String::from_utf8_lossy(path);
                let bytes = self.read.and_then(|read| read(&path));
                let bytes = bytes.filter(|bytes| bytes.len() <= plan::packet::PACKET_MAX);
                bytes.map(|bytes| Value::Blob(bytes.into())).ok_or(raise(const { Name::known("FileNotFound") }))
            }
            ("getSession", []) => Ok(Value::Key(self.session)),
            ("makeBlob", [Value::Text(bytes)]) => Ok(Value::Blob(bytes.clone())),
            ("explodeBlob", [Value::Blob(bytes)]) => Ok(Value::Text(bytes.clone())),
            ("print", [value]) => {
                self.printed.push(value.to_string());
                Ok(Value::Unit)
            }
            (name, _) => Err(Fault::Type(name).into()),
        }
    }

    fn unpaid(&mut self) -> Result<(), Stop> {
        if self.sends { Ok(()) } else { Err(Stop::Raise(const { Name::known("Refused") })) }
    }

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        if !self.sends {
            return Err(Stop::Raise(const { Name::known("Refused") }));
        }
        self.sent.push((packet.chunk.clone(), packet.destination, packet.bound));
        Ok(())
    }
}

impl Script {
    /// Checks a program of one file; the error shows every mistake in it, called `name`.
    pub fn new(name: &str, source: &str) -> Result<Script, String> {
        Script::of(Sources::one(name, source)).map_err(|why| match why {
            Unevaluated::Wrong(shown) => shown,
            other => other.to_string(),
        })
    }

    /// Checks a program of any files.
    pub fn of(sources: Sources) -> Result<Script, Unevaluated> {
        let checked = check_sources(&sources);
        let (code, warnings) = right(&sources, checked)?;
        Ok(Script { sources, program: Arc::new(Program::new(code, &Without)), warnings })
    }

    /// What of the program does not happen as it is written, as text for people.
    pub fn warnings(&self) -> String {
        render_all(&self.warnings, &self.sources, Severity::Warning, false)
    }

    /// A chunk of a function with these arguments; none if there is no such function.
    pub fn chunk(&self, function: &str, arguments: impl Into<Box<[Value]>>) -> Option<Arc<Chunk>> {
        Chunk::of(&self.program, function, arguments).map(Arc::new)
    }

    /// The chunk of a first call as it is written, its arguments evaluated here.
    pub fn first(&self, call: &str, local: &mut Local) -> Result<Arc<Chunk>, Unevaluated> {
        let call = call.get(..end_of_call(call).unwrap_or(call.len())).unwrap_or(call).trim();
        match self.value("the first call", call, check_first_call, local)? {
            Value::Chunk(chunk) => Ok(chunk),
            other => Err(Unevaluated::Wrong(format!("no call but {other}"))),
        }
    }

    /// The value of an expression, evaluated here.
    pub fn evaluate(&self, expression: &str, local: &mut Local) -> Result<Value, Unevaluated> {
        self.value("the expression", expression, check_sources, local)
    }

    fn value(
        &self,
        name: &str,
        text: &str,
        check: fn(&Sources) -> Checked,
        local: &mut Local,
    ) -> Result<Value, Unevaluated> {
        let mut sources = self.sources.clone();
        sources.add(name, &format!("fun {FIRST}() = "), text);
        let (code, _) = right(&sources, check(&sources))?;
        let program = Arc::new(Program::new(code, local));
        let none = || Unevaluated::Wrong("no function".into());
        let chunk = Chunk::of(&program, FIRST, []).ok_or_else(none)?;
        let header = Header {
            session: local.session,
            ..Header::injected(local.addresses.first().copied().unwrap_or_default(), local.bound)
        };
        let mut run = Run::new(local, &header, Limits::default());
        Machine::new().evaluate(&mut run, &chunk).map_err(|stop| match stop {
            Stop::Raise(name) => Unevaluated::Raised(name),
            Stop::Fault(fault) => Unevaluated::Failed(fault),
        })
    }
}

/// The code of a program if nothing is wrong with it, and its warnings.
fn right(sources: &Sources, checked: Checked) -> Result<(Code, Vec<Diagnostic>), Unevaluated> {
    let wrong = || Unevaluated::Wrong(render_all(&checked.diagnostics, sources, Severity::Error, false));
    Ok((checked.code.ok_or_else(wrong)?, checked.warnings))
}

/// A packet to inject: the node fills in its source, and evaluates it itself unless it is given a destination.
pub fn packet(chunk: Arc<Chunk>, bound: u32) -> Packet {
    Packet { header: Header::injected(Host::default(), bound), chunk }
}

/// The value that was delivered with these bytes, and the header of the packet that did it.
pub fn delivered(bytes: &[u8]) -> Option<(Header, Value)> {
    let packet = Packet::decode(bytes, &mut plan::packet::Libraryless(&Without)).ok()?;
    let deliver = const { Name::known("deliver") };
    let delivers = matches!(packet.chunk.callee(), Callee::Service(name) if *name == deliver);
    match packet.chunk.arguments() {
        [Value::Port(_), value] if delivers => Some((packet.header, value.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_is_evaluated_here_and_its_chunk_is_not() {
        let script = Script::new("t", "fun f(a, b) = (print(a); b)").unwrap();
        let mut local = Local { addresses: vec![Host::v4([10, 0, 0, 1])], bound: 9, ..Local::default() };
        local.hosts.insert("far".into(), Host::v4([10, 0, 0, 9]));
        let chunk = script.first(" f(hd thisHost(), getHostByName(\"far\"));\n", &mut local).unwrap();
        assert_eq!(
            chunk.to_owned().arguments(),
            [[10, 0, 0, 1], [10, 0, 0, 9]].map(|bytes| Value::Host(Host::v4(bytes)))
        );
        assert!(local.printed.is_empty());
        for (wrong, why) in [
            ("f(1)", "expected 2, found 1"),
            ("g(1)", "g"),
            ("f", "this is no call"),
            ("1(2)", "unexpected '('"),
            ("f(1, 2) fun g() = 1", "this is no call"),
            ("f(1, (OnRemote(|f|(1, 2), hd thisHost(), 1, defaultRoute); 2))", "Refused"),
            ("f(1, getHostByName(\"nobody\"))", "BadHost"),
            ("f(1, getBlobFromFile(\"/etc/passwd\"))", "FileNotFound"),
        ] {
            let error = script.first(wrong, &mut local).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn mistakes_are_shown() {
        assert!(Script::new("wrong.plan", "fun f( = 1").unwrap_err().contains("wrong.plan"));
    }

    #[test]
    fn what_is_delivered_is_a_value_with_all_of_its_packet() {
        let arguments = [Value::Port(7), Value::text(*b"x")];
        let chunk = Chunk::new(Callee::Service(Name::known("deliver")), arguments).unwrap();
        let bytes = packet(Arc::new(chunk), 5).bytes().unwrap();
        let (header, value) = delivered(&bytes).unwrap();
        assert_eq!((header.bound, value), (5, Value::text(*b"x")));
        assert!(delivered(&bytes[1..]).is_none());
    }
}
