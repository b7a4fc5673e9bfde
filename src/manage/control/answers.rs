//! Answers to requests of the control socket. Example: `status` is what the worker, the kernel half, the loader and the
//! interfaces say, in one tree.

use super::handle::Handle;
use super::{Ask, journal, state};
use crate::code::bundle::Bundle;
use crate::code::run::traps::Places;
use crate::core::domain::DomainId;
use crate::core::ledger::Unaccounted;
use crate::core::reason::Reason;
use crate::ee::plan::ServiceSignature;
use crate::manage::account::{self, Total};
use crate::manage::loader::Request;
use crate::wire::Digest;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

impl Handle {
    /// What the node, its kernel half, its sockets and its worker say of themselves.
    pub(super) fn status(&self) -> Result<Value, String> {
        let (node, workers) = self.counters()?;
        let kernel = self.half.as_ref().map(|half| half.status());
        let value = |value: serde_json::Result<Value>| value.map_err(|error| error.to_string());
        let mut status = value(serde_json::to_value(&node))?;
        for (code, told) in node.codes.iter().zip(status["codes"].as_array_mut().into_iter().flatten()) {
            if code.domain.is_some() {
                told["total"] = value(serde_json::to_value(Total::of(code, kernel.as_ref())))?;
            }
            if code.trap.is_some() {
                self.sources.complete(&code.name, &mut told["trap"]);
            }
        }
        let lost = Unaccounted {
            kernel: kernel.as_ref().map_or(0, |kernel| kernel.balance.unaccounted().unsigned_abs()),
            ..node.unaccounted_by
        };
        status["unaccounted"] = json!(lost.total());
        status["unaccounted_by"] = json!(lost);
        status["domains"] = value(serde_json::to_value(account::by_domain(&node, kernel.as_ref())))?;
        if let Some(kernel) = kernel {
            if kernel.undelivered > 0 {
                status["drops"][Reason::Undelivered.name()] = json!(kernel.undelivered);
            }
            status["kernel"] = value(serde_json::to_value(kernel))?;
        }
        status["connections"] = self.connections.status();
        status["loader"] = value(serde_json::to_value(self.shelf.status()?))?;
        if let Some(applier) = &self.applier {
            status["configuration"] = applier.standing();
        }
        add_losses(&mut status["ports"]);
        if let (Some(sockets), Some(tree)) = (&self.sockets, status.as_object_mut()) {
            let sockets = serde_json::to_value(sockets.status()).map_err(|error| error.to_string())?;
            tree.insert("xdp".into(), sockets);
        }
        if let (Some(report), Some(tree)) = (&self.rules, status.as_object_mut()) {
            tree.insert("rules".into(), json!(report.rules()));
        }
        if let (Some(cpu), Some(tree)) = (&self.cpu, status.as_object_mut()) {
            let cpu = serde_json::to_value(cpu.status()).map_err(|error| error.to_string())?;
            tree.insert("cpu".into(), cpu);
        }
        if let (Some(sandbox), Some(tree)) = (crate::broker::sandbox::entered(), status.as_object_mut()) {
            tree.insert("sandbox".into(), json!(sandbox));
        }
        if !workers.is_empty() {
            status["workers"] = value(serde_json::to_value(workers))?;
        }
        crate::manage::names::add_former(&mut status);
        Ok(status)
    }

    /// Adds code to the store, by its bundle in hexadecimal.
    fn add_code(&self, bundle: &str) -> Result<Value, String> {
        let bytes = hex::decode(bundle).map_err(|_| "the bundle is not in hexadecimal")?;
        let bundle = Bundle::read(&bytes).map_err(|error| error.to_string())?;
        let (name, credentials) = (bundle.name(), bundle.credentials().cloned());
        let places = Places::of(&bundle);
        self.shelf.ask(Request::Add(Box::new(bundle)))?;
        self.sources.keep(name, places);
        self.with_node(move |node, turn| match credentials {
            Some(set) => node.look_again(turn, &name, &set),
            None => node.forget_refusal(&name),
        })?;
        Ok(json!({"name": name.to_string()}))
    }

    /// Makes a module, in hexadecimal, a service of PLAN programs.
    fn load_service(&self, name: &str, signature: &str, module: &str) -> Result<Value, String> {
        let module = hex::decode(module).map_err(|_| "the module is not in hexadecimal")?;
        let signature = ServiceSignature::parse(signature)?;
        // The worker does not wait for it.
        let services = self.services.as_ref().ok_or("this node loads no services")?;
        let service = Box::new(services.load(module)?);
        let called = name.to_owned();
        self.with_node(move |node, _| node.load_service(&called, signature, service))??;
        Ok(json!({ "name": name }))
    }

    pub(super) fn answer(&self, ask: Ask) -> Result<Value, String> {
        match ask {
            Ask::Status => self.status(),
            Ask::Log => {
                let lines = self.lines()?;
                Ok(lines.iter().map(|line| self.sources.line(line)).collect())
            }
            Ask::Journal => journal::lines(self),
            Ask::AddCode { bundle } => self.add_code(&bundle),
            Ask::RemoveCode { name } => {
                let name: Digest = name.parse().map_err(|error: crate::wire::DigestError| error.to_string())?;
                self.shelf.ask(Request::Remove(name))?;
                let (was_known, dropped) = self.with_node(move |node, turn| {
                    // What waited for it, and nothing else, ends within this.
                    let before = node.drops().total();
                    (node.remove_code(turn, &name), node.drops().total() - before)
                })?;
                Ok(json!({"name": name.to_string(), "was_known": was_known, "dropped": dropped}))
            }
            Ask::State { code, from } => state::page(self, &code, from),
            Ask::RetryCode => {
                let modules = self.shelf.forgive()?;
                self.with_node(|node, _| node.forget_refusals())?;
                Ok(json!({ "modules": modules }))
            }
            Ask::Domains => crate::manage::domains::list(self),
            Ask::KillDomain { domain } => crate::manage::domains::kill(self, DomainId(domain)),
            Ask::MoveDomain { domain, worker } => crate::manage::domains::move_to(self, DomainId(domain), worker),
            Ask::Channels => {
                let channels = self.with_each(|node, _| node.channel_list())?.concat();
                // What is listed is open when it is told: the ports have it too.
                self.settle()?;
                serde_json::to_value(channels).map_err(|error| error.to_string())
            }
            Ask::Cut(wanted) => crate::manage::domains::cut(self, wanted),
            Ask::LoadService { name, signature, module } => self.load_service(&name, &signature, &module),
            Ask::UnloadService { name } => {
                let called = name.clone();
                let was = self.with_node(move |node, _| node.unload_service(&called))?;
                if was { Ok(json!({ "name": name })) } else { Err(format!("no service {name} was loaded")) }
            }
            Ask::Revoke(taken) => {
                let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
                let ended = revocations.order(self, taken.revocation()?)?;
                let mut answer = serde_json::to_value(ended).map_err(|error| error.to_string())?;
                answer["remembered"] = revocations.are_kept().into();
                Ok(answer)
            }
            Ask::Revoked => {
                let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
                Ok(revocations.list().into())
            }
            // Who asks is known where the connection is.
            Ask::Configure { .. } => Err("ask by a connection of your own".into()),
            Ask::Environment { name, act } => {
                let management = self.management.as_ref().ok_or("this node runs no environments")?;
                management.act(&name, act)
            }
            Ask::Next { of, .. } => self.answer(of.into()),
            Ask::Watch | Ask::Names => {
                let watching = self.watching.as_ref().ok_or("this node cannot be watched")?;
                serde_json::to_value(watching.names(self)?).map_err(|error| error.to_string())
            }
            Ask::Down { keep_kernel } => {
                self.keep_kernel.store(keep_kernel, Ordering::Relaxed);
                Ok(json!("going down"))
            }
        }
    }
}

/// What the interfaces of native ports have dropped themselves, before the node had it or behind it. Nothing where the system does not say.
fn add_losses(ports: &mut Value) {
    let losses = crate::sys::netlink::losses().unwrap_or_default();
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Some([incoming, outgoing]) = port["name"].as_str().and_then(|name| losses.get(name)) {
            port["interface"] = json!({ "dropped_in": incoming, "dropped_out": outgoing });
        }
    }
}
