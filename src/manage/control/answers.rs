//! Answers to requests of the control socket, in the words of [`model`], each as a line. Example: `status` is what the workers, the kernel
//! half, the loader and the interfaces say, in one tree.

use super::handle::Handle;
use super::{journal, state, stores, ways};
use crate::code::bundle::Bundle;
use crate::code::extension::call_type::CallType;
use crate::code::run::traps::Places;
use crate::core::domain::DomainId;
use crate::log::{self, Asker, level};
use crate::manage::loader::Request;
use crate::manage::observe::{report, told};
use crate::manage::revoked;
use crate::manage::{domains, explain, graphs};
use crate::trust::Revocation;
use crate::wire::Digest;
use crate::wire::revocation::Repr;
use model::code::{Named, Removed, Retried};
use model::extensions::Called;
use model::revoked::Ended;
use model::stores::meant;
use model::{Answer, Ask, Taken};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// An answer as a line without its end.
pub(super) fn line<T: Serialize>(answer: &Answer<T>) -> String {
    let why = |error: serde_json::Error| format!("the answer cannot be written: {error}");
    // An error is a text, and a text can be written.
    serde_json::to_string(answer)
        .or_else(|error| serde_json::to_string(&Answer::<()>::Error(why(error))))
        .unwrap_or_default()
}

/// What was taken back, as the revocation that says so.
fn revocation(taken: &Taken) -> Result<Revocation, String> {
    match taken {
        Taken::Signed { message } => {
            let bytes = hex::decode(message).map_err(|_| "the message is not in hexadecimal")?;
            let repr = Repr::parse(&bytes).map_err(|error| format!("the message is no revocation: {error}"))?;
            Ok(Revocation::of_wire(&repr))
        }
        Taken::Here { what, name } => {
            let subject = revoked::subject_of(what, name).ok_or("revoke a token, a principal or a code by its name")?;
            Ok(Revocation::by_operator(subject, revoked::unix_s()))
        }
    }
}

impl Handle {
    /// Adds code to the store, by its bundle in hexadecimal.
    fn add_code(&self, bundle: &str) -> Result<Named, String> {
        let bytes = hex::decode(bundle).map_err(|_| "the bundle is not in hexadecimal")?;
        let bundle = Bundle::read(&bytes).map_err(|error| error.to_string())?;
        self.keep_code(bundle).map(|name| Named { name: name.to_string() })
    }

    /// Puts a bundle into the store, as somebody has asked for it here.
    pub(in crate::manage) fn keep_code(&self, bundle: Bundle) -> Result<Digest, String> {
        let (name, credentials) = (bundle.name(), bundle.credentials().cloned());
        let places = Places::of(&bundle);
        self.shelf.ask(Request::Add(Box::new(bundle)))?;
        self.sources.keep(name, places);
        self.with_node(move |node, turn| match credentials {
            Some(set) => node.look_again(turn, &name, &set),
            None => node.forget_refusal(&name),
        })?;
        Ok(name)
    }

    fn remove_code(&self, name: &str) -> Result<Removed, String> {
        let name: Digest = name.parse().map_err(|error: crate::wire::DigestError| error.to_string())?;
        self.shelf.ask(Request::Remove(name))?;
        let (was_known, dropped) = self.with_node(move |node, turn| {
            // What waited for it, and nothing else, ends within this.
            let before = node.drops().total();
            (node.remove_code(turn, &name), node.drops().total() - before)
        })?;
        Ok(Removed { name: name.to_string(), was_known, dropped })
    }

    /// Makes a module, in hexadecimal, a service of PLAN programs.
    fn load_service(&self, name: String, signature: &str, module: &str) -> Result<Named, String> {
        let module = hex::decode(module).map_err(|_| "the module is not in hexadecimal")?;
        let signature = CallType::parse(signature)?;
        // The worker does not wait for it.
        let service = Box::new(self.extensions()?.service(module)?);
        let called = name.clone();
        self.with_node(move |node, _| node.load_service(&called, signature, service))??;
        Ok(Named { name })
    }

    fn unload_service(&self, name: String) -> Result<Named, String> {
        let called = name.clone();
        let was = self.with_node(move |node, _| node.unload_service(&called))?;
        if was { Ok(Named { name }) } else { Err(format!("no service {name} was loaded")) }
    }

    /// Calls an extension; what it is told may be what the name service knows.
    fn call_extension(&self, call: String, arguments: Vec<String>) -> Result<Called, String> {
        let extensions = self.extensions()?;
        let extension = call.split('.').next().unwrap_or_default().to_owned();
        let called = extensions.call(call, arguments);
        if let Some((hosts, service)) = self.hosts().and_then(|hosts| Some((hosts, hosts.service()?)))
            && extensions.leaving(extension, true).is_ok_and(|leaving| leaving.names.contains(&service))
        {
            hosts.ask_again();
        }
        called
    }

    fn revoke(&self, taken: &Taken) -> Result<Ended, String> {
        let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
        let ended = revocations.order(self, revocation(taken)?)?;
        Ok(Ended {
            codes: ended.codes as u64,
            domains: ended.domains as u64,
            told: ended.told as u64,
            issued: ended.issued,
            remembered: revocations.are_kept(),
        })
    }

    fn channels(&self) -> Result<Vec<model::domains::Channel>, String> {
        let channels = self.channel_list()?;
        // What is listed is open when it is told: the ports have it too.
        self.settle()?;
        let mut all: Vec<_> = channels.iter().map(told::channel).collect();
        all.extend(self.streams.rows().iter().map(told::stream));
        Ok(all)
    }

    /// What a frame in hexadecimal would be.
    fn explain(&self, frame: &str, port: Option<String>) -> Result<model::programs::Frame, String> {
        let bytes = hex::decode(frame).map_err(|_| "the frame is not in hexadecimal")?;
        self.with_node(move |node, _| explain::of(node, port, &bytes))?
    }

    fn forgive(&self) -> Result<Retried, String> {
        let modules = self.shelf.forgive()? as u64;
        self.with_node(|node, _| node.forget_refusals())?;
        Ok(Retried { modules })
    }

    /// The line that answers a request.
    pub(super) fn answer(&self, ask: Ask) -> String {
        self.answered(ask, "somebody").unwrap_or_else(refusal)
    }

    /// The same for somebody, as numbers and for people, of whom it is remembered what he has changed.
    pub(super) fn answer_to(&self, (who, called): (Asker, &str), ask: Ask) -> String {
        let change = ask.change();
        let answered = self.answered(ask, called);
        if let Some((kind, what)) = change {
            log::asked(kind.name(), &what, who, answered.as_ref().err().map(String::as_str));
        }
        answered.unwrap_or_else(refusal)
    }

    fn answered(&self, ask: Ask, who: &str) -> Result<String, String> {
        Ok(match ask {
            Ask::Status => ok(&self.status()?),
            Ask::Log => ok(&self.lines()?.iter().map(|line| self.sources.line(line)).collect::<Vec<_>>()),
            Ask::Journal => ok(&journal::lines(self)?),
            Ask::AddCode { bundle } => ok(&self.add_code(&bundle)?),
            Ask::RemoveCode { name } => ok(&self.remove_code(&name)?),
            Ask::State { code, from } => ok(&state::page(self, &code, from)?),
            Ask::RetryCode => ok(&self.forgive()?),
            Ask::Domains => ok(&domains::list(self)?),
            Ask::KillDomain { domain } => ok(&domains::kill(self, DomainId(domain))?),
            Ask::MoveDomain { domain, worker } => ok(&domains::move_to(self, DomainId(domain), worker)?),
            Ask::Channels => ok(&self.channels()?),
            Ask::Stores => {
                ok(&told::told::<Vec<model::stores::Store>>(&self.with_node(|node, _| node.stores().list())?)?)
            }
            Ask::StoreKeys { holder, name, prefix, after } => {
                let (prefix, after) = (meant(&prefix)?, after.as_deref().map(meant).transpose()?);
                let page = self.with_node(move |node, _| {
                    stores::keys_of(node.stores(), (&holder, &name), &prefix, after.as_deref())
                });
                ok(&stores::told_keys(page??))
            }
            Ask::StoreValue { holder, name, key } => {
                let key = meant(&key)?;
                let wanted = key.clone();
                let value = self.with_node(move |node, _| stores::value_of(node.stores(), (&holder, &name), &wanted));
                ok(&stores::told_value(&key, &value??))
            }
            Ask::Graphs => ok(&graphs::list(self)?),
            Ask::Graph { name } => ok(&graphs::show(self, &name)?),
            Ask::ReadGraph { name, handler } => ok(&graphs::read(self, &name, &handler)?),
            Ask::WriteGraph { name, handler, value } => ok(&graphs::write(self, &name, &handler, &value)?),
            Ask::ApplyGraph(wanted) => ok(&graphs::apply(self, wanted)?),
            Ask::EditGraph(wanted) => ok(&graphs::edit(self, wanted)?),
            Ask::Cut(wanted) => ok(&domains::cut(self, wanted)?),
            Ask::LoadService { name, signature, module } => ok(&self.load_service(name, &signature, &module)?),
            Ask::UnloadService { name } => ok(&self.unload_service(name)?),
            Ask::Extensions => ok(&self.extensions()?.list()?),
            Ask::Call { call, arguments } => ok(&self.call_extension(call, arguments)?),
            Ask::Revoke(taken) => ok(&self.revoke(&taken)?),
            Ask::Revoked => {
                let revocations = self.revocations.as_deref().ok_or("this node remembers no revocations")?;
                ok(&revocations.list())
            }
            Ask::Configure { what } => ok(&self.configure(what, who)?),
            Ask::Environment { name, act } => {
                let management = self.management.as_ref().ok_or("this node runs no environments")?;
                ok(&management.act(&name, act)?)
            }
            Ask::Explain { frame, port } => ok(&self.explain(&frame, port)?),
            Ask::Ways { to } => ok(&ways::of(self, &to)?),
            Ask::Next { of, .. } => return self.answered(of.into(), who),
            Ask::Watch { .. } | Ask::Names => {
                let watching = self.watching.as_ref().ok_or("this node cannot be watched")?;
                ok(&watching.names(self)?)
            }
            Ask::Metrics { classic } => ok(&self.metrics(classic)?),
            Ask::Health => ok(&self.health()?),
            Ask::Events => ok(&report::events()),
            Ask::LogLevel { level, target } => ok(&level::set(&level, target.as_deref())?),
            Ask::Report => ok(&self.report()),
            Ask::Down { keep_kernel } => {
                self.keep_kernel.store(keep_kernel, Ordering::Relaxed);
                ok(&"going down")
            }
        })
    }
}

/// The line that says why not.
pub(super) fn refusal(why: String) -> String {
    line(&Answer::<()>::Error(why))
}

fn ok<T: Serialize>(value: &T) -> String {
    line(&Answer::Ok(value))
}
