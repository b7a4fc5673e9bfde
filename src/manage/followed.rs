//! Hosts that rules of channels name, and whose addresses the system's resolver or a name service knows: asked again and again by a
//! thread of its own. A name service is a call of an extension.
//!
//! ```text
//! names of the configuration ─▶ one after the other, each once a minute ─▶ resolver, name service ─▶ news ─▶ who applies configurations
//! ```
//!
//! No packet and no call of a program waits for it, and nobody but the operator says what is asked. A host of which nothing is found any
//! more keeps what was found last: a server that is down ends no channel's packets.

use crate::classify::taught::words::lowest;
use crate::manage::extensions::Extensions;
use crate::sys::threads::{self, Duty};
use model::loader::RuleHosts;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Until a host is asked for again.
const AGAIN: Duration = Duration::from_secs(60);

/// How soon news are obeyed, at most.
const NEWS: Duration = Duration::from_secs(1);

/// What is known of a host.
struct KnownHost {
    addresses: Vec<IpAddr>,
    due: Instant,
    /// Whether nothing was found of it the last time, which is said once.
    is_missed: bool,
}

#[derive(Default)]
struct Known {
    hosts: BTreeMap<String, KnownHost>,
    /// The name service that is asked instead of the system's resolver.
    service: Option<String>,
    counts: RuleHosts,
    /// Whether something has changed since somebody was told.
    news: bool,
    over: bool,
}

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

/// Whoever asks for hosts; ends with its last user.
#[derive(Clone)]
pub struct FollowedHosts(Arc<Asking>);

struct Asking(Arc<Shared>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.known().over = true;
        self.0.changed.notify_all();
    }
}

impl FollowedHosts {
    /// Starts the thread.
    pub fn start(extensions: Extensions) -> io::Result<FollowedHosts> {
        FollowedHosts::start_with(move |name, service| match service {
            None => addresses(name),
            Some(call) => Ok(vec![extensions.host(call, name)?]),
        })
    }

    fn start_with(
        look_up: impl Fn(&str, Option<&str>) -> Result<Vec<IpAddr>, String> + Send + 'static,
    ) -> io::Result<FollowedHosts> {
        let shared = Arc::<Shared>::default();
        let asking = shared.clone();
        threads::start("anode-hosts", Duty::Resolver, move || asking.serve(look_up))?;
        Ok(FollowedHosts(Arc::new(Asking(shared))))
    }

    /// These are followed from now on, and no others, and asked of this name service, if there is one.
    pub fn follow(&self, names: &[String], service: Option<&String>) {
        let mut known = self.0.0.known();
        if known.service.as_ref() != service {
            known.service = service.cloned();
            known.ask_again();
            self.0.0.changed.notify_all();
        }
        let before = known.hosts.len();
        known.hosts.retain(|name, _| names.contains(name));
        let mut has_new = false;
        for name in names {
            known.hosts.entry(name.clone()).or_insert_with(|| {
                has_new = true;
                KnownHost { addresses: Vec::new(), due: Instant::now(), is_missed: false }
            });
        }
        if has_new || known.hosts.len() != before {
            self.0.0.changed.notify_all();
        }
    }

    /// The extension that is the name service, if one is.
    pub fn service(&self) -> Option<String> {
        let known = self.0.0.known();
        known.service.as_ref().and_then(|call| Some(call.split_once('.')?.0.to_owned()))
    }

    /// Somebody may have told the name service something new: all are asked for again now.
    pub fn ask_again(&self) {
        self.0.0.known().ask_again();
        self.0.0.changed.notify_all();
    }

    /// What is known of all.
    pub fn found(&self) -> BTreeMap<String, Vec<IpAddr>> {
        self.0.0.known().hosts.iter().map(|(name, host)| (name.clone(), host.addresses.clone())).collect()
    }

    /// Whether something has changed since this was asked last.
    pub fn take_news(&self) -> bool {
        core::mem::take(&mut self.0.0.known().news)
    }

    /// How long nobody need ask for news; nothing: no host is followed.
    pub fn patience(&self) -> Option<Duration> {
        (!self.0.0.known().hosts.is_empty()).then_some(NEWS)
    }

    /// What is counted.
    pub fn counts(&self) -> RuleHosts {
        let known = self.0.0.known();
        let unknown = known.hosts.values().filter(|host| host.addresses.is_empty()).count() as u64;
        RuleHosts { hosts: known.hosts.len() as u64, unknown, ..known.counts }
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, look_up: impl Fn(&str, Option<&str>) -> Result<Vec<IpAddr>, String>) {
        while let Some((name, service)) = self.next() {
            // What counts of it: an answer whose other addresses have changed is no news.
            let found = look_up(&name, service.as_deref()).map(|found| lowest(&found));
            self.known().note(&name, found);
            self.changed.notify_all();
        }
    }

    /// The next host to be looked for, when it is due, and of whom; nothing: it is over.
    fn next(&self) -> Option<(String, Option<String>)> {
        let mut known = self.known();
        while !known.over {
            let now = Instant::now();
            let next = known.hosts.iter().min_by_key(|(_, host)| host.due).map(|(name, host)| (name.clone(), host.due));
            known = match next {
                Some((name, due)) if due <= now => {
                    // Who asks for it again while it is looked for is answered.
                    known.hosts.entry(name.clone()).and_modify(|host| host.due = now + AGAIN);
                    return Some((name, known.service.clone()));
                }
                Some((_, due)) => self.changed.wait_timeout(known, due - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(known).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}

impl Known {
    /// All are due.
    fn ask_again(&mut self) {
        let now = Instant::now();
        self.hosts.values_mut().for_each(|host| host.due = now);
    }

    fn note(&mut self, name: &str, found: Result<Vec<IpAddr>, String>) {
        // Nobody may want it any more.
        let Some(host) = self.hosts.get_mut(name) else { return };
        let found = match found {
            Ok(found) if !found.is_empty() => found,
            none => {
                self.counts.failed += 1;
                if !core::mem::replace(&mut host.is_missed, true) {
                    let why = none.err().unwrap_or_else(|| "it has no address".into());
                    tracing::warn!(host = name, why, "a host that rules name is not found");
                }
                return;
            }
        };
        self.counts.resolved += 1;
        host.is_missed = false;
        if host.addresses != found {
            self.counts.changed += u64::from(!host.addresses.is_empty());
            host.addresses = found;
            self.news = true;
        }
    }
}

/// All addresses of a host.
fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(found.map(|found| found.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(name: &str, service: Option<&str>) -> Result<Vec<IpAddr>, String> {
        match (service, name) {
            (Some(_), _) => Ok(vec![IpAddr::from([10, 0, 9, 9])]),
            (None, "nobody") => Err("not found".into()),
            (None, _) => Ok([9, 1, 4, 3, 2].map(|last| IpAddr::from([10, 0, 0, last])).to_vec()),
        }
    }

    #[test]
    fn what_is_found_is_kept_counted_and_told_once() {
        let (now, mut known) = (Instant::now(), Known::default());
        let at = |text: &str| vec![text.parse::<IpAddr>().unwrap()];
        known.hosts.insert("www".into(), KnownHost { addresses: Vec::new(), due: now, is_missed: false });
        let mut note = |name: &str, found: Vec<IpAddr>| {
            known.note(name, Ok(found));
            let RuleHosts { resolved, failed, changed, .. } = known.counts;
            (core::mem::take(&mut known.news), resolved, failed, changed)
        };
        assert_eq!(note("www", Vec::new()), (false, 0, 1, 0));
        assert_eq!(note("www", at("10.0.0.1")), (true, 1, 1, 0));
        assert_eq!(note("www", at("10.0.0.1")), (false, 2, 1, 0));
        assert_eq!(note("www", Vec::new()), (false, 2, 2, 0), "what was found last stays");
        assert_eq!(note("www", at("10.0.0.2")), (true, 3, 2, 1));
        assert_eq!(note("other", at("10.0.0.2")), (false, 3, 2, 1), "nobody wants it");
        assert_eq!(known.hosts["www"].addresses, at("10.0.0.2"));
    }

    #[test]
    fn hosts_are_looked_for_as_soon_as_they_are_followed() {
        let hosts = FollowedHosts::start_with(look_up).unwrap();
        assert!(hosts.patience().is_none() && !hosts.take_news());
        let both = ["www".to_owned(), "nobody".into()];
        hosts.follow(&both, None);
        let shared = hosts.0.0.clone();
        let asks = |known: &mut Known| known.counts.resolved + known.counts.failed < 2;
        drop(shared.changed.wait_while(shared.known(), asks).unwrap());
        assert!(hosts.take_news() && !hosts.take_news() && hosts.patience() == Some(NEWS));
        assert_eq!(hosts.found()["www"], [1, 2, 3, 4].map(|last| IpAddr::from([10, 0, 0, last])), "what counts of it");
        let RuleHosts { hosts: count, unknown, resolved, failed, .. } = hosts.counts();
        assert_eq!((count, unknown, resolved, failed), (2, 1, 1, 1));
        // Somebody else is asked, and again when he has been told something.
        let service = "names.lookup".to_owned();
        for asked in [4, 6] {
            hosts.follow(&both, Some(&service));
            let asks = |known: &mut Known| known.counts.resolved + known.counts.failed < asked;
            drop(shared.changed.wait_while(shared.known(), asks).unwrap());
            assert_eq!(hosts.found()["nobody"], [IpAddr::from([10, 0, 9, 9])]);
            assert_eq!(hosts.service().as_deref(), Some("names"));
            hosts.ask_again();
        }
        hosts.follow(&[], None);
        assert!(hosts.found().is_empty() && hosts.patience().is_none());
    }
}
