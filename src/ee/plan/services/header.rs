//! Services that read the packet's header, the node's clock, random numbers, and the node's tables.

use super::super::evaluate::At;
use super::{Given, list, not_found, tuple, wrong};
use plan::eval::State;
use plan::value::Value;

/// The largest random number and one more.
const RANDOM: u64 = 0x3fff_ffff;

pub fn source(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getSource") };
    Ok(Value::Host(state.header.source))
}

pub fn destination(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getDest") };
    Ok(Value::Host(state.header.destination))
}

pub fn previous(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getPrevious") };
    Ok(Value::Host(state.header.previous))
}

pub fn device(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getSrcDev") };
    at.from.map(|from| Value::Dev(from.port.0.into())).ok_or_else(not_found)
}

pub fn session(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getSession") };
    Ok(Value::Key(state.header.session))
}

pub fn flow(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getFlow") };
    Ok(Value::Int(state.header.flow.into()))
}

pub fn handler(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getHandler") };
    Ok(Value::text(state.header.handler.as_str().as_bytes()))
}

pub fn routing(_: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getRouting") };
    Ok(Value::text(state.header.routing.as_str().as_bytes()))
}

pub fn principal(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("getPrincipal") };
    let name = at.principal.checked_sub(1).and_then(|own| match at.config.principals.get(own) {
        Some(principal) => Some(principal.name.as_str()),
        None => at.state.layers.signers.at(own - at.config.principals.len()).map(|signer| signer.name.as_str()),
    });
    Ok(Value::text(name.unwrap_or("anyone").as_bytes()))
}

pub fn time(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("time") };
    Ok(Value::Int((at.env.now() / 1_000_000) as i64))
}

pub fn random(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("rand") };
    Ok(Value::Int((at.env.random() % RANDOM) as i64))
}

pub fn memory(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [] = given else { return wrong("memoryUse") };
    let library = at.library.size();
    let (values, value_bytes) = at.state.resident.size();
    let (applications, connections) = at.state.ports.size();
    let mut lines = vec![];
    let mut line = |name: &str, count: usize| {
        lines.push((name.to_owned(), count));
    };
    line("codes", library.codes);
    line("code-bytes", library.bytes);
    line("code-memory", library.memory);
    line("values", values);
    line("value-bytes", value_bytes as usize);
    line("flows", at.state.flows.len());
    line("jobs", at.state.jobs.len());
    line("job-bytes", at.state.jobs.bytes() as usize);
    line("applications", applications);
    line("connections", connections);
    at.env.memory(&mut line);
    let pair = |(name, count): (String, usize)| tuple([Value::text(name.as_bytes()), Value::Int(count as i64)]);
    let pairs: Result<Vec<Value>, _> = lines.into_iter().map(pair).collect();
    list(pairs?)
}
