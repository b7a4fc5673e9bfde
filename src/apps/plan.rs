//! PLAN for applications of this host: programs from source, the first call, and packets to inject.
//!
//! The arguments of a first call, such as `ping(hd thisHost(), getHostByName("far"))`, are evaluated here and not on a
//! node. So they may use the host's files and names. The result is a chunk, and a packet takes it to the node.

use plan::diagnostic::render;
use plan::eval::{Fault, Limits, Machine, NewPacket, Node, Run, State, Stop};
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::program::{Program, ServiceId, Services};
use plan::value::{Callee, Chunk, Host, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the function that makes the first chunk.
const FIRST: &str = "first'";

/// A checked program.
#[derive(Clone, Debug)]
pub struct Script {
    source: String,
    program: Arc<Program>,
}

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

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        self.sent.push((packet.chunk.clone(), packet.destination, packet.bound));
        Ok(())
    }
}

impl Script {
    /// Checks a program; the error shows every mistake in it, called `name`.
    pub fn new(name: &str, source: &str) -> Result<Script, String> {
        let checked = plan::check(source);
        let shown = || render(&checked.diagnostics, name, source, false);
        let code = checked.code.ok_or_else(shown)?;
        Ok(Script { source: source.to_owned(), program: Arc::new(Program::new(code, &Without)) })
    }

    /// A chunk of a function with these arguments; none if there is no such function.
    pub fn chunk(&self, function: &str, arguments: impl Into<Box<[Value]>>) -> Option<Arc<Chunk>> {
        Chunk::of(&self.program, function, arguments).map(Arc::new)
    }

    /// The chunk of a first call as it is written, its arguments evaluated here.
    pub fn first(&self, call: &str, local: &mut Local) -> Result<Arc<Chunk>, String> {
        match self.evaluate(&chunk_of(call)?, local)? {
            Value::Chunk(chunk) => Ok(chunk),
            other => Err(format!("{call} is no call but {other}")),
        }
    }

    /// The value of an expression, evaluated here.
    pub fn evaluate(&self, expression: &str, local: &mut Local) -> Result<Value, String> {
        let source = format!("{}\nfun {FIRST}() = {expression}\n", self.source);
        let checked = plan::check(&source);
        let Some(code) = checked.code else {
            return Err(render(&checked.diagnostics, "the first call", &source, false));
        };
        let program = Arc::new(Program::new(code, local));
        let chunk = Chunk::of(&program, FIRST, []).ok_or("the first call has no function")?;
        let header = Header {
            session: local.session,
            ..Header::injected(local.addresses.first().copied().unwrap_or_default(), u32::MAX)
        };
        let mut run = Run::new(local, &header, Limits::default());
        Machine::new().evaluate(&mut run, &chunk).map_err(|stop| match stop {
            Stop::Raise(name) => format!("{expression} raises {name}"),
            Stop::Fault(fault) => format!("{expression}: {fault}"),
        })
    }
}

/// `f(a, b)` as a chunk: `|f|(a, b)`.
fn chunk_of(call: &str) -> Result<String, String> {
    let call = call.trim().trim_end_matches(';').trim_end();
    let (name, arguments) = call.split_once('(').ok_or_else(|| format!("'{call}' is no call such as ping(a, b)"))?;
    if !plan::name::is_identifier(name.trim()) {
        return Err(format!("'{}' is no function's name", name.trim()));
    }
    Ok(format!("|{}|({arguments}", name.trim()))
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
        let mut local = Local { addresses: vec![Host::v4([10, 0, 0, 1])], ..Local::default() };
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
            ("f", "no call"),
            ("1(2)", "no function"),
            ("f(1, getHostByName(\"nobody\"))", "BadHost"),
            ("f(1, getBlobFromFile(\"/etc/passwd\"))", "FileNotFound"),
        ] {
            let error = script.first(wrong, &mut local).unwrap_err();
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
