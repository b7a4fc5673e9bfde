//! Invariants of the crate `plan/` for any bytes. The fuzz targets and `plan/tests/fuzzed.rs` run the same.

use plan::eval::{Limits, Machine, NewPacket, Node, Run, State, Stop, reference};
use plan::name::Name;
use plan::packet::{Code, Libraryless, Outline, Packet};
use plan::program::Digest;
use plan::program::{ServiceId, Services};
use plan::value::Value;
use plan::{check, diagnostic, format, syntax};

/// A node with one service, which gives back what it is given.
#[derive(Default)]
struct Mirror(Vec<Vec<u8>>);

impl Services for Mirror {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        (name.as_str() == "print").then_some(ServiceId(0))
    }
}

impl Node for Mirror {
    fn call(&mut self, _: ServiceId, arguments: &[Value], _: &mut State<'_>) -> Result<Value, Stop> {
        Ok(arguments.first().cloned().unwrap_or_default())
    }

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        let new = Packet { header: packet.header(packet.destination), chunk: packet.chunk.clone() };
        self.0.push(new.bytes().ok_or(Stop::Raise(Name::NOT_ENOUGH_RB))?);
        Ok(())
    }
}

/// The front of a packet, its codes by digest and whole again.
fn turn_codes(bytes: &[u8]) {
    let Ok(front) = Outline::read(bytes) else { return };
    let codes: Vec<_> = front.codes().collect();
    let find = |digest: &Digest| {
        codes.iter().find_map(|code| match code {
            Code::Whole(bytes) if Digest::of(bytes) == *digest => Some(*bytes),
            _ => None,
        })
    };
    let (mut short, mut whole) = (Vec::new(), Vec::new());
    if front.contract(Digest::of, &mut short).is_ok() && !front.view().by_digest() {
        let front = Outline::read(&short).expect("what is written can be read");
        if front.expand(find, &mut whole).is_ok() && Packet::decode(bytes, &mut Libraryless(&Mirror::default())).is_ok()
        {
            assert_eq!(whole, bytes);
        }
    }
}

/// A PLAN packet: what decodes is canonical, and both evaluators do the same with it. Whether it decodes.
pub fn packet(bytes: &[u8]) -> bool {
    turn_codes(bytes);
    let Ok(packet) = Packet::decode(bytes, &mut Libraryless(&Mirror::default())) else { return false };
    assert_eq!(packet.bytes().as_deref(), Some(bytes));
    let limits = Limits { steps: 5000, depth: 256, cells: 5000 };
    let (mut one, mut other) = (Mirror::default(), Mirror::default());
    let mut run = Run::new(&mut one, &packet.header, limits);
    let expected = reference::evaluate(&mut run, &packet.chunk);
    let cost = (run.steps_left(), run.cells_left(), run.bound());
    let mut run = Run::new(&mut other, &packet.header, limits);
    let found = Machine::new().evaluate(&mut run, &packet.chunk);
    assert_eq!(found, expected);
    assert_eq!((run.steps_left(), run.cells_left(), run.bound()), cost);
    assert_eq!(one.0, other.0);
    for bytes in &one.0 {
        Packet::decode(bytes, &mut Libraryless(&Mirror::default())).expect("what is sent can be received");
    }
    true
}

/// A PLAN program: the front end ends, formatting is stable, code survives its bytes. Whether it is right.
pub fn source(bytes: &[u8]) -> bool {
    let Ok(source) = std::str::from_utf8(bytes) else { return false };
    let checked = check(source);
    let right = checked.code.is_some();
    assert_eq!(checked.code.is_some(), checked.diagnostics.is_empty());
    let few = checked.diagnostics.get(..checked.diagnostics.len().min(20)).unwrap_or(&[]);
    diagnostic::render(few, "fuzz", source, false);
    if let Some(code) = checked.code {
        let bytes = code.write();
        assert_eq!(plan::code::Code::read(&bytes).expect("written code is code").write(), bytes);
    }
    if let Ok(once) = format::format(source) {
        assert_eq!(format::format(&once).as_deref(), Ok(&once[..]));
        let tokens = |text: &str| -> Vec<String> {
            let parsed = syntax::parse(text);
            parsed.tokens.iter().map(|spanned| spanned.span.text(text).to_owned()).collect()
        };
        assert_eq!(tokens(&once), tokens(source));
    }
    right
}
