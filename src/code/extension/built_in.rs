//! What extensions do that are part of every node (`every_node` has their manifests). Example: `ways` has calls that set the node's routes,
//! and a static routing that is loaded needs them, as it would need a call of any other extension.
//!
//! ```text
//! a call of a loaded extension ─▶ its need ─▶ work of a built-in one ─▶ desk ─▶ the node's threads
//! ```
//!
//! What others do by a module, these do by functions of the node's; what they export is listed, typed and called as everything else.
//! Nobody unloads them. Only instances that operators call have somebody who works for them: a packet sets no routes, and has nothing
//! fetched.

use super::call_type::put_blob;
use super::given::{NOT_FOUND, REFUSED};
use crate::frame::PortId;
use crate::sys::lock::lock;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

/// Fuel that a call of these costs: about as much as a worker takes for the answer.
pub(super) const ASKING: u64 = 50_000;

/// A call: who works for it, for whom, and arguments to result.
pub type Work = fn(&CallOrigin<'_>, &[u8]) -> BuiltInAnswer;

/// Who asks whom.
pub struct CallOrigin<'a> {
    /// The extension that has called; a built-in one itself when an operator has.
    pub whose: &'a str,
    /// Who works for it.
    pub desk: &'a Desk,
}

/// Who fetches code.
pub trait FetchesCode: Send + Sync {
    /// Begins to fetch the code of a name from a URL; the number by which it is asked about, whatever is wrong with it.
    fn begin(&self, url: &str, name: &str) -> u64;
    /// How it stands, in words; nothing: there is none of that number any more.
    fn state(&self, number: u64) -> Option<String>;
}

/// Who knows the links and ways of the node.
pub trait KnowsNetwork: Send + Sync {
    /// A neighbour, counted from 0, and the port behind which it is.
    fn neighbour(&self, at: usize) -> Option<(Addr, PortId)>;
    /// The Ethernet address of somebody on a port's link, if the node has found it out.
    fn link_address(&self, port: PortId, of: Addr) -> Option<Mac>;
    /// Where packets to a host go next: to whom, and by which port.
    fn next_hop(&self, to: Addr) -> Option<(Addr, PortId)>;
    /// An extension's route to a network is by this node behind this port from now on.
    fn set_way(&self, whose: &str, to: Prefix, via: Addr, port: PortId) -> Result<(), i32>;
    /// It has none any more.
    fn remove_way(&self, whose: &str, to: Prefix) -> Result<(), i32>;
    /// It is gone, and its routes with it.
    fn withdraw(&self, whose: &str);
}

/// What a call has given: a result, or the number that it raises.
pub type BuiltInAnswer = Result<Vec<u8>, i32>;

/// Who works for the instances that operators call; or what was answered there, for instances that hear the same calls.
///
/// Such an instance must come to the same, so it gets the same answers for as much fuel, and nothing is done a second time.
#[derive(Default)]
pub struct Desk {
    code: OnceLock<Arc<dyn FetchesCode>>,
    network: OnceLock<Arc<dyn KnowsNetwork>>,
    /// What the call under way was answered; nothing: an operator's call is not under way.
    answers: Mutex<Option<VecDeque<BuiltInAnswer>>>,
    repeats: bool,
}

impl Desk {
    /// One that repeats answers, as long as it has some.
    pub fn of_hearer() -> Desk {
        Desk { repeats: true, ..Desk::default() }
    }

    /// From now on this one fetches code. A node has one.
    pub fn fetch_by(&self, fetches: Arc<dyn FetchesCode>) {
        let _ = self.code.set(fetches);
    }

    /// From now on this one is asked for links and ways.
    pub fn ask(&self, knows: Arc<dyn KnowsNetwork>) {
        let _ = self.network.set(knows);
    }

    /// These are no more.
    pub fn withdraw(&self, names: &[String]) {
        if let Some(network) = self.network.get() {
            names.iter().for_each(|name| network.withdraw(name));
        }
    }

    /// An operator's call begins, or is heard where these were its answers; with nothing it is over. Gives what was answered.
    pub fn exchange(&self, answers: Option<VecDeque<BuiltInAnswer>>) -> VecDeque<BuiltInAnswer> {
        core::mem::replace(&mut *lock(&self.answers), answers).unwrap_or_default()
    }

    /// Whether an operator's call is under way.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.answers).is_some()
    }

    /// What a call gives here.
    pub(super) fn answer(&self, work: impl FnOnce() -> BuiltInAnswer) -> BuiltInAnswer {
        if self.repeats {
            return lock(&self.answers).as_mut().and_then(VecDeque::pop_front).unwrap_or(Err(REFUSED));
        }
        let answer = work();
        lock(&self.answers).iter_mut().for_each(|answers| answers.push_back(answer.clone()));
        answer
    }
}

impl CallOrigin<'_> {
    fn code(&self) -> Result<&dyn FetchesCode, i32> {
        self.desk.code.get().map(|code| &**code).ok_or(REFUSED)
    }

    fn network(&self) -> Result<&dyn KnowsNetwork, i32> {
        self.desk.network.get().map(|network| &**network).ok_or(REFUSED)
    }
}

/// What the calls of an extension do that every node has, in the order of its manifest.
pub fn works_of(name: &str) -> Option<&'static [Work]> {
    match name {
        "links" => Some(&[neighbour, link_address]),
        "ways" => Some(&[set_way, remove_way, next_hop]),
        "code" => Some(&[fetch, fetch_state]),
        _ => None,
    }
}

/// `int -> host * dev`.
fn neighbour(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let at = Arguments(given).all(|given| given.number()).and_then(|at| usize::try_from(at).ok()).ok_or(NOT_FOUND)?;
    origin.network()?.neighbour(at).map(behind).ok_or(NOT_FOUND)
}

/// `(dev, host) -> string`.
fn link_address(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let (port, of) = Arguments(given).all(|given| Some((given.port()?, given.host()?))).ok_or(NOT_FOUND)?;
    let mac = origin.network()?.link_address(port, of).ok_or(NOT_FOUND)?;
    let mut result = Vec::new();
    put_blob(&mut result, mac.to_string().as_bytes());
    Ok(result)
}

/// `(host, int, host, dev) -> unit`.
fn set_way(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let read = |given: &mut Arguments<'_>| Some((given.network()?, given.host()?, given.port()?));
    let (to, via, port) = Arguments(given).all(read).ok_or(NOT_FOUND)?;
    origin.network()?.set_way(origin.whose, to, via, port).map(|()| Vec::new())
}

/// `(host, int) -> unit`.
fn remove_way(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let to = Arguments(given).all(Arguments::network).ok_or(NOT_FOUND)?;
    origin.network()?.remove_way(origin.whose, to).map(|()| Vec::new())
}

/// `host -> host * dev`.
fn next_hop(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let to = Arguments(given).all(Arguments::host).ok_or(NOT_FOUND)?;
    origin.network()?.next_hop(to).map(behind).ok_or(NOT_FOUND)
}

/// `(string, string) -> int`: a URL and a code's name, to the number of a fetch.
fn fetch(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let (url, name) = Arguments(given).all(|given| Some((given.text()?, given.text()?))).ok_or(NOT_FOUND)?;
    Ok(origin.code()?.begin(url, name).to_le_bytes().to_vec())
}

/// `int -> string`: how a fetch stands.
fn fetch_state(origin: &CallOrigin<'_>, given: &[u8]) -> Result<Vec<u8>, i32> {
    let number = Arguments(given).all(Arguments::number).ok_or(NOT_FOUND)?;
    let words = origin.code()?.state(number).ok_or(NOT_FOUND)?;
    let mut result = Vec::new();
    put_blob(&mut result, words.as_bytes());
    Ok(result)
}

/// `host * dev`.
fn behind((addr, port): (Addr, PortId)) -> Vec<u8> {
    [&addr.0[..], &u64::from(port.0).to_le_bytes()].concat()
}

/// What was given, as [`super::call_type`] lays it out.
struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// What `read` finds, if nothing is behind that.
    fn all<T>(mut self, read: impl FnOnce(&mut Arguments<'a>) -> Option<T>) -> Option<T> {
        let read = read(&mut self)?;
        self.0.is_empty().then_some(read)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn port(&mut self) -> Option<PortId> {
        u16::try_from(self.number()?).ok().map(PortId)
    }

    fn host(&mut self) -> Option<Addr> {
        let (host, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Addr(*host))
    }

    /// A host and how many bits of it are the network's.
    fn network(&mut self) -> Option<Prefix> {
        let (host, bits) = (self.host()?, u8::try_from(self.number()?).ok()?);
        Prefix::of(host, bits)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= self.0.len())?;
        let (bytes, rest) = self.0.split_at_checked(length.next_multiple_of(8))?;
        self.0 = rest;
        core::str::from_utf8(&bytes[..length]).ok()
    }
}

#[cfg(test)]
mod tests;
