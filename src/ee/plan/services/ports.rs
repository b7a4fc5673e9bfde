//! Services that hand values to applications at a port.

use super::super::evaluate::At;
use super::super::outbox::Deed;
use super::super::ports::{delivered, opened, printed};
use super::super::work;
use super::{Given, bad_host, bad_port, refused, wrong};
use crate::wire::Addr;
use plan::eval::{Fault, State, outcome, spend};
use plan::name::Name;
use plan::packet::Header;
use plan::value::{Callee, Chunk, Value};

fn tell(at: &mut At<'_>, application: u64, message: Vec<u8>) -> Given {
    if at.outbox.deed(Deed::Tell(application, message)) { Ok(Value::Unit) } else { Err(refused()) }
}

/// Says a value to the application that injected the first packet.
fn say(at: &mut At<'_>, value: &Value, state: &mut State<'_>) -> Given {
    let port = state.header.port;
    let application = at.state.ports.application(at.env.now(), port).ok_or_else(bad_port)?;
    // Every character is looked at by itself, and may become four.
    spend(&mut state.steps, value.extent().weight)?;
    tell(at, application, printed(port, value))
}

pub fn print(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [value] = given else { return wrong("print") };
    say(at, value, state)
}

pub fn default_handler(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    spend(&mut state.steps, given.iter().map(|value| value.extent().weight).sum())?;
    let text = outcome::describe(given).ok_or(Fault::Type("defHandler"))?;
    say(at, &Value::text(text.as_bytes()), state)
}

pub fn port(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getPort") };
    Ok(Value::Port(state.header.port))
}

pub fn open(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Host(host), Value::Int(number)] = given else { return wrong("openPort") };
    if !at.env.topology().is_own(Addr(host.0)) {
        return Err(bad_host());
    }
    let application = at.state.ports.listener(*number, at.holder()).ok_or_else(bad_port)?;
    let port = at.env.nonce().max(1);
    let message = opened(port, state.header.source, *number as u32);
    let done =
        at.outbox.deed(Deed::Open(port, application, at.holder())) && at.outbox.deed(Deed::Tell(application, message));
    if done { Ok(Value::Port(port)) } else { Err(refused()) }
}

pub fn close(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Port(port)] = given else { return wrong("closePort") };
    if at.outbox.deed(Deed::Close(*port)) { Ok(Value::Unit) } else { Err(refused()) }
}

/// A value goes as a packet whose chunk is this very call, so that it says all that the packet knew.
pub fn deliver(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Port(port), _] = given else { return wrong("deliver") };
    let now = at.env.now();
    spend(&mut state.steps, work::looking(at.outbox.deeds.len()))?;
    let known = match at.outbox.port(*port) {
        // Only connections can be closed; an application's own port stays.
        Some(None) if at.state.ports.session(*port).is_none() => None,
        Some(Some(application)) => Some(application),
        _ => at.state.ports.application(now, *port),
    };
    let application = known.ok_or_else(bad_port)?;
    let chunk = Chunk::new(Callee::Service(const { Name::known("deliver") }), given).ok_or(Fault::Value)?;
    let header = Header { by_digest: false, bound: state.bound, ..state.header.clone() };
    let mut message = delivered(*port);
    at.write(&header, &chunk, &mut state.steps, &mut message)?;
    tell(at, application, message)
}
