//! Domains for operators: a list with the node's account, the kernel half's, files and processes together, and a way to
//! end one.

use super::control::Handle;
use crate::core::domain::DomainId;
use crate::node::EndedBy;
use crate::nodeos::interface::{ChanSpec, NetSpec, NodeOs};
use serde_json::{Value, json};

/// All domains, each behind the one above it; what the environments in processes do; what the security module has decided.
pub(super) fn list(handle: &Handle) -> Result<Value, String> {
    let (domains, decided) = (handle.domain_tree()?, handle.with_node(|node, _| node.security())?);
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
    let (ended, gone) = handle.with_node(move |node, turn| {
        let below = node.killable(domain)?;
        // First whoever watches them, so that nobody takes it for a failure.
        if let Some(management) = management {
            management.ended(below.clone());
            below.iter().for_each(|domain| node.fell(*domain, EndedBy::Operator));
        }
        Ok::<_, String>((node.end_domain(turn, domain, true), below))
    })??;
    let files: usize = handle.files().map_or(0, |files| gone.iter().map(|domain| files.leave(*domain)).sum());
    let mut freed = serde_json::to_value(ended).map_err(|error| error.to_string())?;
    freed["files"] = files.into();
    Ok(freed)
}
