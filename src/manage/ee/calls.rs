//! The calls of a process on the NodeOS interface, carried out in its domain's name.

use crate::nodeos::interface::{
    ChanSpec, Change, CutChanId, DomainId, DomainSpec, Error, EventId, InChanId, KeyTuple, MemPoolSpec, NetSpec,
    NodeOs, OutChanId, PoolId, ThreadPoolSpec,
};
use libanode::message::{self, Answer, Call, Usage};

/// A domain's specification as the node knows it.
pub fn domain_spec(spec: &message::DomainSpec) -> DomainSpec {
    let message::Threads { max_threads, stack_bytes, hold_ms } = spec.threads;
    DomainSpec {
        title: spec.title.clone(),
        threads: ThreadPoolSpec { max_threads, stack_bytes, hold_ms },
        pool: spec.pool.map(PoolId),
        role: spec.role.clone(),
    }
}

fn channel_spec(spec: &message::ChanSpec) -> ChanSpec {
    let tuple = |tuple: &message::KeyTuple| KeyTuple {
        offset: tuple.offset,
        length: tuple.length,
        value: tuple.value,
        mask: tuple.mask,
    };
    ChanSpec {
        protocol: spec.protocol.clone(),
        address: spec.address.clone(),
        key: spec.key.iter().map(tuple).collect(),
        net: NetSpec { max_threads: spec.max_threads, bandwidth: spec.bandwidth, buffers: spec.buffers },
    }
}

/// Carries a call out.
pub fn execute(os: &mut dyn NodeOs, call: &Call) -> Answer {
    attempt(os, call).unwrap_or_else(|error| Answer::Refused { error })
}

/// Whether the ports have to be told before a call returns: whoever has created a channel gets all its packets from then on.
pub fn changes_channels(call: &Call) -> bool {
    matches!(
        call,
        Call::InChanCreate { .. }
            | Call::InChanDestroy { .. }
            | Call::CutChanCreate { .. }
            | Call::CutChanDestroy { .. }
            | Call::DomainTerminate { .. }
    )
}

/// A change of soft state.
fn change_state(os: &mut dyn NodeOs, call: &Call) -> Result<Answer, Error> {
    let (domain, key, change, keep_ms) = match call {
        Call::StatePut { domain, key, value, keep_ms } => (domain, key, Change::Put(value), keep_ms),
        Call::StateAdd { domain, key, delta, keep_ms } => (domain, key, Change::Add(*delta), keep_ms),
        Call::StateMax { domain, key, least, keep_ms } => (domain, key, Change::Max(*least), keep_ms),
        Call::StateExchange { domain, key, expected, value, keep_ms } => {
            (domain, key, Change::Exchange { expected: *expected, value }, keep_ms)
        }
        _ => return Err(Error::Invalid),
    };
    os.state_change(DomainId(*domain), *key, change, *keep_ms).map(|number| Answer::Number { number })
}

fn attempt(os: &mut dyn NodeOs, call: &Call) -> Result<Answer, Error> {
    let object = |name: u32| Answer::Object { name };
    let done = |()| Answer::Done {};
    match call {
        Call::DomainCreate { parent, spec } => {
            os.domain_create(DomainId(*parent), &domain_spec(spec)).map(|id| object(id.0))
        }
        Call::DomainTerminate { domain } => os.domain_terminate(DomainId(*domain)).map(done),
        Call::DomainUsage { domain } => os.domain_usage(DomainId(*domain)).map(|(usage, memory_bytes)| {
            let (packets, bytes, forwarded, cpu_ns) = (usage.packets, usage.bytes, usage.forwarded, usage.cpu_ns);
            let usage = Usage { packets, bytes, forwarded, drops: usage.drops.total(), memory_bytes, cpu_ns };
            Answer::Used { usage }
        }),
        Call::PoolCreate { spec } => {
            let message::PoolSpec { parent, limit_bytes, deadline_ms } = *spec;
            let spec = MemPoolSpec { parent: parent.map(PoolId), limit_bytes, deadline_ms };
            os.mempool_create(&spec).map(|id| object(id.0))
        }
        Call::PoolDestroy { pool } => os.mempool_destroy(PoolId(*pool)).map(done),
        Call::PoolCharge { pool, bytes } => os.mempool_charge(PoolId(*pool), *bytes).map(done),
        Call::InChanCreate { domain, spec } => {
            os.inchan_create(DomainId(*domain), &channel_spec(spec)).map(|id| object(id.0))
        }
        Call::InChanDestroy { channel } => os.inchan_destroy(InChanId(*channel)).map(done),
        Call::OutChanCreate { domain, spec } => {
            os.outchan_create(DomainId(*domain), &channel_spec(spec)).map(|id| object(id.0))
        }
        Call::OutChanDestroy { channel } => os.outchan_destroy(OutChanId(*channel)).map(done),
        Call::CutChanCreate { from, to } => os.cutchan_create(InChanId(*from), OutChanId(*to)).map(|id| object(id.0)),
        Call::CutChanDestroy { channel } => os.cutchan_destroy(CutChanId(*channel)).map(done),
        Call::EventSchedule { domain, delay_ms, argument } => {
            let event = os.event_schedule(DomainId(*domain), *delay_ms, *argument)?;
            Ok(Answer::Event { event: event.0 })
        }
        Call::StateGet { domain, key } => os.state_get(DomainId(*domain), *key).map(|value| Answer::Kept { value }),
        Call::StatePut { .. } | Call::StateAdd { .. } | Call::StateMax { .. } | Call::StateExchange { .. } => {
            change_state(os, call)
        }
        Call::EventCancel { event } => os.event_cancel(EventId(*event)).map(done),
        // Files are the session's business, and one begins but once.
        _ => Err(Error::Invalid),
    }
}
