//! Domains for operators: a list with the node's account, the kernel half's, files and processes together, a way to end
//! one, and a way to have another worker run it.

use super::control::Handle;
use super::worker::Order;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::node::EndedBy;
use crate::node::domains::DomainStatus;
use crate::nodeos::interface::{ChanSpec, NetSpec, NodeOs};
use serde_json::{Value, json};
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
pub(super) fn move_to(handle: &Handle, domain: DomainId, to: WorkerId) -> Result<Value, String> {
    let workers = handle.workers();
    if to >= workers {
        let which = if workers == 1 { "worker 0 alone".into() } else { format!("workers 0 to {}", workers - 1) };
        return Err(format!("there is no worker {to}: this node has {which} ([cpu] workers says how many)"));
    }
    let _still = handle.homes().still();
    let from = worker_of(handle, domain)?;
    let answer = || json!({ "domain": domain.0, "from": from, "worker": to });
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
pub(super) fn list(handle: &Handle) -> Result<Value, String> {
    let (domains, decided) = (tree(handle)?, handle.with_node(|node, _| node.security())?);
    let kernel = handle.kernel_half().map(|half| half.status()).map(serde_json::to_value);
    let kernel = kernel.transpose().map_err(|error| error.to_string())?;
    let in_kernel = |code: &str| {
        let codes = kernel.as_ref()?["codes"].as_array()?;
        codes.iter().find(|found| found["name"] == code).map(|found| found["usage"].clone())
    };
    let mut all = Vec::new();
    for domain in domains {
        let id = DomainId(domain.id);
        let usage = domain.code.as_deref().and_then(in_kernel);
        let mut tree = serde_json::to_value(domain).map_err(|error| error.to_string())?;
        if let Some(fields) = tree.as_object_mut() {
            fields.extend(usage.map(|usage| ("kernel".to_owned(), usage)));
            let open = handle.files().map_or(0, |files| files.opened_by(id));
            fields.insert("open_files".into(), open.into());
        }
        all.push(tree);
    }
    let environments = handle.management().map(|management| management.status()).unwrap_or_default();
    let spaces = handle.files().map(|files| files.status()).unwrap_or_default();
    Ok(json!({ "domains": all, "environments": environments, "files": spaces, "security": decided }))
}

/// All domains of all workers, none of which is between two of them.
fn tree(handle: &Handle) -> Result<Vec<DomainStatus>, String> {
    let _still = handle.homes().still();
    handle.domain_tree()
}

/// A cut-through channel that an operator wants.
#[derive(serde::Deserialize)]
pub(super) struct NewCut {
    /// Of its domain.
    title: String,
    role: String,
    /// Protocol and address of the incoming channel, and of the outgoing one.
    from: [String; 2],
    to: [String; 2],
    /// Bytes a second; 0: as many as the role grants.
    #[serde(default)]
    bandwidth: u64,
}

/// Makes a domain with a cut-through channel for an operator. It lives until somebody ends it, or the node ends.
pub(super) fn cut(handle: &Handle, wanted: NewCut) -> Result<Value, String> {
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
    Ok(json!({ "domain": domain.0 }))
}

/// Ends a domain and all below it, its processes and its open files, and says what was freed.
pub(super) fn kill(handle: &Handle, domain: DomainId) -> Result<Value, String> {
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
    let mut freed = serde_json::to_value(ended).map_err(|error| error.to_string())?;
    freed["files"] = files.into();
    Ok(freed)
}
