//! Domains for operators: a list with the node's account, the kernel half's, files and processes together, a way to end
//! one, and a way to have another worker run it.

use super::control::Handle;
use super::observe::told::{self, told};
use super::worker::Order;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::kernel::KernelUsage;
use crate::node::{Ended, EndedBy};
use crate::nodeos::channel::PASSED;
use crate::nodeos::interface::{ChanSpec, NetSpec, NodeOs};
use model::Cut;
use model::code::{Freed, Made, Moved};
use model::domains::Domains;
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// For how long a domain may be on its way to another worker, and packets may take the way by its old one.
const MOVED_WITHIN: Duration = Duration::from_secs(5);

/// The worker that has a domain; the first, if none has.
fn worker_of(handle: &Handle, domain: DomainId) -> Result<WorkerId, String> {
    let each = handle.with_each(move |node, _| node.has_domain(domain))?;
    Ok(each.iter().position(|has| *has).unwrap_or(0) as WorkerId)
}

/// Has another worker run an environment from now on: its first domain with all below it, and packets that wait. When it
/// returns packets take the shortest way.
pub(super) fn move_to(handle: &Handle, domain: DomainId, to: WorkerId) -> Result<Moved, String> {
    let workers = handle.workers();
    if to >= workers {
        let which = if workers == 1 { "worker 0 alone".into() } else { format!("workers 0 to {}", workers - 1) };
        return Err(format!("there is no worker {to}: this node has {which} ([cpu] workers says how many)"));
    }
    let _still = handle.homes().still();
    let from = worker_of(handle, domain)?;
    let answer = || Moved { domain: domain.0, from, worker: to };
    if from == to {
        handle.with_worker(from, move |node, _| node.may_move(domain))??;
        return Ok(answer());
    }
    let home = handle.homes().of(domain);
    let mut place = home.take();
    let ((begun, answers), (arrived, there)) = (channel(), channel());
    handle.order_of(from, Order::Move { domain, to, begun, arrived })?;
    answers.recv().map_err(|_| "the node is going down")??;
    *place = to;
    there.recv_timeout(MOVED_WITHIN).map_err(|_| format!("worker {to} does not take it"))?;
    drop(place);
    let begun = Instant::now();
    while handle.with_each(|node, turn| node.is_turning(turn))?.contains(&true) && begun.elapsed() < MOVED_WITHIN {
        // Workers pass marks on with their next packets; nobody tells when the last one is back.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(answer())
}

/// All domains, each behind the one above it; what the environments in processes do; what the security module has decided.
pub(super) fn list(handle: &Handle) -> Result<Domains, String> {
    let (snapshot, decided) = (handle.snapshot()?, handle.with_node(|node, _| node.security())?);
    let half = handle.kernel_half().map(|half| half.status());
    let codes = half.iter().flat_map(|half| &half.codes);
    let in_kernel: HashMap<&str, &KernelUsage> = codes.map(|code| (code.name.as_str(), &code.usage)).collect();
    let domains = snapshot.domains.iter().map(|domain| {
        let usage = domain.code.as_deref().and_then(|code| in_kernel.get(code).copied());
        told::domain(domain, usage, handle.files().map_or(0, |files| files.opened_by(DomainId(domain.id))))
    });
    Ok(Domains {
        domains: domains.collect(),
        environments: handle.management().map_or(Ok(Vec::new()), |management| told(&management.status()))?,
        files: handle.files().map_or(Ok(Vec::new()), |files| told(&files.status()))?,
        security: told(&decided)?,
    })
}

/// Makes a domain with a cut-through channel for an operator. It lives until somebody ends it, or the node ends.
pub(super) fn cut(handle: &Handle, wanted: Cut) -> Result<Made, String> {
    if wanted.from[0] == PASSED {
        return Err(format!(
            "no cut-through channel: {PASSED}: programs pass packets on to functions of their own, no port does; name a port"
        ));
    }
    let domain = handle.with_node(move |node, turn| {
        let domain = node.add_environment(&wanted.title, &wanted.role)?;
        let spec = |[protocol, address]: [String; 2]| ChanSpec { protocol, address, ..ChanSpec::default() };
        let net = NetSpec { bandwidth: wanted.bandwidth, ..NetSpec::default() };
        let which = |[protocol, address]: &[String; 2]| format!("{protocol} {address}: ");
        let of = (which(&wanted.from), which(&wanted.to));
        let cut = node.with_os(turn, domain, |os| {
            let from = os.inchan_create(domain, &spec(wanted.from)).map_err(|error| (of.0, error))?;
            let to = os.outchan_create(domain, &ChanSpec { net, ..spec(wanted.to) }).map_err(|error| (of.1, error))?;
            os.cutchan_create(from, to).map_err(|error| (String::new(), error))
        });
        if let Err((which, error)) = cut {
            node.end_environment(turn, domain);
            return Err(format!("no cut-through channel: {which}{}", error.help()));
        }
        Ok(domain)
    })??;
    handle.settle()?;
    Ok(Made { domain: domain.0 })
}

/// Ends a domain and all below it, its processes and its open files, and says what was freed.
pub(super) fn kill(handle: &Handle, domain: DomainId) -> Result<Freed, String> {
    let management = handle.management().cloned();
    let _still = handle.homes().still();
    let worker = worker_of(handle, domain)?;
    let (ended, gone) = handle.with_worker(worker, move |node, turn| {
        let below = node.killable(domain)?;
        // First whoever watches them, so that nobody takes it for a failure.
        if let Some(management) = management {
            management.ended(below.clone());
            below.iter().for_each(|domain| node.fell(*domain, EndedBy::Operator));
        }
        Ok::<_, String>((node.end_domain(turn, domain, true), below))
    })??;
    gone.iter().for_each(|domain| handle.homes().forget(*domain));
    let files: usize = handle.files().map_or(0, |files| gone.iter().map(|domain| files.leave(*domain)).sum());
    let Ended { domains, channels, codes, bytes, events } = ended;
    let [domains, channels, codes, events, files] = [domains, channels, codes, events, files].map(|count| count as u64);
    Ok(Freed { domains, channels, codes, bytes, events, files })
}
