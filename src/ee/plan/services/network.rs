//! Reports of arrival, and the bandwidth service: a sender, a receiver and its report.

use super::super::evaluate::{At, raise};
use super::super::jobs::SendJob;
use super::super::outbox::Deed;
use super::super::work;
use super::{Given, not_found, refused, tuple, wrong};
use crate::wire::Addr;
use plan::eval::{Fault, State, spend};
use plan::name::Name;
use plan::packet::Header;
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

/// The longest time a meter is open, in seconds.
const SECONDS_MAX: i64 = 300;

/// Packets a second of one sender.
const RATE_MAX: i64 = 100_000;

/// The longest name of a meter.
const NAME_MAX: usize = 64;

/// Layers are opened before evaluation; a program that calls one gets nothing.
pub fn layer(_: &mut At<'_>, _: &[Value], _: &mut State<'_>) -> Given {
    Err(refused())
}

fn done(kept: bool) -> Given {
    if kept { Ok(Value::Unit) } else { Err(refused()) }
}

pub fn acknowledged(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Int(number)] = given else { return wrong("acknowledged") };
    done(at.outbox.deed(Deed::Acknowledge(*number)))
}

pub fn receive(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Int(seconds)] = given else { return wrong("bandwidthReceive") };
    if name.len() > NAME_MAX {
        return Err(refused());
    }
    let seconds = (*seconds).clamp(0, SECONDS_MAX) as u64;
    let until = at.env.now().saturating_add(seconds * 1_000_000_000);
    let holder = at.holder();
    if !at.state.jobs.meters.has_room(name, holder) {
        at.state.account.no_room += 1;
        return Err(refused());
    }
    done(at.outbox.deed(Deed::Receive((**name).into(), until, holder)))
}

pub fn count(at: &mut At<'_>, given: &[Value], _: &mut State<'_>) -> Given {
    let [Value::Text(name), Value::Blob(load)] = given else { return wrong("bandwidthCount") };
    done(at.outbox.deed(Deed::Count((**name).into(), load.len())))
}

pub fn report(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Text(name)] = given else { return wrong("bandwidthReport") };
    let now = at.env.now();
    let known = at.state.jobs.meters.of(now, name);
    spend(&mut state.steps, work::looking(at.outbox.deeds.len()))?;
    let meter = at.outbox.meter(now, name, known).ok_or_else(not_found)?;
    let milliseconds = (meter.last - meter.first) / 1_000_000;
    tuple([meter.packets, meter.bytes, milliseconds].map(|number| Value::Int(number as i64)))
}

/// To a host, for a name, so many packets with so many bytes each, so many a second, each with so much of the bound, which pays
/// for every frame of it on every link. To a host that has not answered go no more than the node may send there of its own accord.
pub fn send(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::Host(to), Value::Text(name), Value::Int(count), Value::Int(size), Value::Int(rate), Value::Int(bound)] =
        given
    else {
        return wrong("bandwidthSend");
    };
    let number =
        |value: i64, most: i64| u32::try_from(value).ok().filter(|value| (1..=most).contains(&i64::from(*value)));
    let left = number(*count, u32::MAX.into()).ok_or_else(refused)?;
    let rate = number(*rate, RATE_MAX).ok_or_else(refused)?;
    let size = usize::try_from(*size).ok().filter(|size| *size <= 60_000).ok_or_else(refused)?;
    let bound = u32::try_from(*bound).ok().filter(|bound| *bound > 0);
    let cost = bound.and_then(|bound| bound.checked_mul(left)).filter(|cost| *cost <= state.bound);
    let (Some(bound), Some(cost)) = (bound, cost) else { return Err(raise(Name::NOT_ENOUGH_RB)) };
    let arguments = [Value::Text(name.clone()), Value::Blob(vec![0; size].into())];
    let callee = Callee::Service(const { Name::known("bandwidthCount") });
    let chunk = Arc::new(Chunk::new(callee, arguments).ok_or(Fault::Value)?);
    let header = Header { bound, destination: *to, by_digest: false, handler: Name::NONE, ..state.header.clone() };
    let bytes = at.bytes(&header, &chunk, &mut state.steps)?;
    let interval = 1_000_000_000 / u64::from(rate);
    let sent_bytes = bytes.len().saturating_mul(left as usize);
    let silent = !at.env.topology().is_own(Addr(to.0)) && !at.env.could_send(Addr(to.0), sent_bytes);
    let (due, payer, holder) = (at.env.now(), at.env.payer(), at.holder());
    let job = SendJob { bytes, left, due, interval, number: None, proves: None, rest: 0, payer, holder };
    if silent {
        return Err(refused());
    }
    at.add_job(job)?;
    state.bound -= cost;
    Ok(Value::Unit)
}
