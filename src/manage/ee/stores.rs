//! The calls of programs about named stores: from worker to worker, and onto the disk if a store outlives the node.
//!
//! ```text
//! session's thread ─▶ the domain's worker: may it? take bytes ─▶ first worker: do it ─▶ the domain's worker: give back
//!                                          └─ a persistent store: check it ─▶ write it ─┘
//! ```
//!
//! A domain at the first worker needs one step. Nobody but the thread that calls waits.

use super::kept::{Journal, KeptStores};
use crate::node::os::Os;
use crate::node::stores::BegunAsk;
use crate::node::{Node, Turn};
use crate::nodeos::file::Access;
use crate::nodeos::interface::{DomainId, Error, NodeOs};
use crate::nodeos::store::ask::{
    SnapshotId, StoreAsk, StoreChange, StoreEntry, StoreFacts, StoreId, StoreReply, StoreSpec, StoreUser, WatchId,
    check_name,
};
use crate::nodeos::store::replay::Replayed;
use crate::nodeos::store::{Contents, StoreOutcome};
use libanode::message::{self, Answer, Call, StoreKey, StoreValue};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The domain in whose name a call about stores is made, and what it asks; nothing if it is about something else.
pub fn asked(call: &Call) -> Option<Result<(DomainId, StoreAsk), Error>> {
    let key = |key: &StoreKey| key.0.clone().into_boxed_slice();
    let ask = match call {
        Call::StoreOpen { domain, holder, name, make } => {
            let spec = |make: &message::StoreSpec| {
                let message::StoreSpec { bytes, exclusive, persistent } = *make;
                StoreSpec { bytes, exclusive, persistent }
            };
            let holder = holder.as_deref().map(Into::into);
            (domain, StoreAsk::Open { holder, name: name.clone(), make: make.as_ref().map(spec) })
        }
        Call::StoreRemove { domain, store } => (domain, StoreAsk::Remove { store: StoreId(*store) }),
        Call::StoreGet { domain, store, snapshot, key: of } => {
            (domain, StoreAsk::Get { store: StoreId(*store), snapshot: snapshot.map(SnapshotId), key: key(of) })
        }
        Call::StorePut { domain, store, key: of, value, expected } => {
            let value = value.0.as_slice().into();
            (domain, StoreAsk::Put { store: StoreId(*store), key: key(of), value, expected: *expected })
        }
        Call::StoreRegister { domain, store, key: of, value, expected } => {
            let value = value.0.as_slice().into();
            (domain, StoreAsk::Register { store: StoreId(*store), key: key(of), value, expected: *expected })
        }
        Call::StoreDelete { domain, store, key: of, expected } => {
            (domain, StoreAsk::Delete { store: StoreId(*store), key: key(of), expected: *expected })
        }
        Call::StoreList { domain, store, snapshot, prefix, after } => {
            let (snapshot, after) = (snapshot.map(SnapshotId), after.as_ref().map(key));
            (domain, StoreAsk::List { store: StoreId(*store), snapshot, prefix: key(prefix), after })
        }
        Call::StoreShare { domain, store, with, access } => {
            let Some(access) = [Access::None, Access::Read, Access::Write].get(usize::from(*access)) else {
                return Some(Err(Error::Invalid));
            };
            (domain, StoreAsk::Share { store: StoreId(*store), with: with.clone(), access: *access })
        }
        Call::StoreFacts { domain, store } | Call::StoreSync { domain, store } => {
            (domain, StoreAsk::Facts { store: StoreId(*store) })
        }
        Call::SnapshotCreate { domain, store } => (domain, StoreAsk::Snapshot { store: StoreId(*store) }),
        Call::SnapshotDestroy { domain, snapshot } => {
            (domain, StoreAsk::SnapshotEnd { snapshot: SnapshotId(*snapshot) })
        }
        Call::WatchCreate { domain, store, prefix, argument } => {
            (domain, StoreAsk::Watch { store: StoreId(*store), prefix: key(prefix), argument: *argument })
        }
        Call::WatchDestroy { domain, watch } => (domain, StoreAsk::WatchEnd { watch: WatchId(*watch) }),
        Call::WatchRead { domain, watch } => (domain, StoreAsk::Changes { watch: WatchId(*watch) }),
        _ => return None,
    };
    Some(Ok((DomainId(*ask.0), ask.1)))
}

/// An answer as programs read it.
pub fn answered(reply: StoreReply) -> Answer {
    let key = |key: Box<[u8]>| StoreKey(key.into_vec());
    match reply {
        StoreReply::Done => Answer::Done {},
        StoreReply::Store(id, _) => Answer::Object { name: id.0 },
        StoreReply::Snapshot(id, _) => Answer::Object { name: id.0 },
        StoreReply::Watch(id) => Answer::Object { name: id.0 },
        StoreReply::Found(version, value) => Answer::Value { version, value: StoreValue(value.to_vec()) },
        StoreReply::Version(number) => Answer::Number { number },
        StoreReply::Keys(keys, next) => {
            let entry = |entry: StoreEntry| message::StoreEntry {
                key: key(entry.key),
                version: entry.version,
                bytes: entry.bytes,
            };
            Answer::Keys { keys: keys.into_iter().map(entry).collect(), next: next.map(key) }
        }
        StoreReply::Changes(changes, lost) => {
            let change = |change: StoreChange| message::StoreChange {
                key: key(change.key),
                version: change.version,
                deleted: change.deleted,
            };
            Answer::Changes { changes: changes.into_iter().map(change).collect(), lost }
        }
        StoreReply::Facts(facts) => {
            let StoreFacts { version, keys, bytes, limit } = facts;
            Answer::Facts { facts: message::StoreFacts { version, keys, bytes, limit } }
        }
    }
}

/// The workers that a program's calls go to. `Ended`: the node goes down.
pub trait Ways {
    /// Does something at the worker of its domains, in the program's name.
    fn at_home<R: Send + 'static>(&self, work: impl FnOnce(&mut Os<'_, '_>) -> R + Send + 'static) -> Result<R, Error>;
    /// Does something at the first worker.
    fn at_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, Error>;
}

/// What the worker of a domain makes of a call.
enum Begun {
    /// It is done there.
    Done(Result<StoreReply, Error>),
    /// It goes on at the first worker.
    Further(BegunAsk),
}

/// Carries a call out if it is one about stores.
pub fn call(ways: &impl Ways, kept: Option<&KeptStores>, call: &Call) -> Option<Answer> {
    let done = asked(call)?.and_then(|(domain, ask)| {
        let synced = if let Call::StoreSync { store, .. } = call { Some(StoreId(*store)) } else { None };
        let reply = carry_out(ways, kept, domain, ask)?;
        let Some(store) = synced else { return Ok(reply) };
        let kept = kept.ok_or(Error::Unsupported)?;
        let journal = kept.of(store).ok_or(Error::Unsupported)?;
        kept.sync(&hold(&journal)).map(|()| StoreReply::Done)
    });
    Some(done.map_or_else(|error| Answer::Refused { error }, answered))
}

fn carry_out(
    ways: &impl Ways,
    kept: Option<&KeptStores>,
    domain: DomainId,
    ask: StoreAsk,
) -> Result<StoreReply, Error> {
    match &ask {
        StoreAsk::Open { make: Some(spec), .. } if spec.persistent => {
            return open_kept(ways, kept.ok_or(Error::Unsupported)?, domain, ask);
        }
        StoreAsk::Put { store, .. }
        | StoreAsk::Delete { store, .. }
        | StoreAsk::Share { store, .. }
        | StoreAsk::Remove { store } => {
            if let Some((kept, journal)) = kept.and_then(|kept| Some((kept, kept.of(*store)?))) {
                return change_kept(ways, (kept, &journal), domain, ask);
            }
        }
        _ => {}
    }
    let asked = ask.clone();
    let begun = ways.at_home(move |os| match os.is_at_first() {
        true => Ok(Begun::Done(os.store(domain, &asked))),
        false => os.begin_store(domain, &asked).map(Begun::Further),
    })??;
    match begun {
        Begun::Done(done) => done,
        Begun::Further(begun) => go_on(ways, begun, move |node, turn, user| node.ask_store(turn, user, &ask, false)),
    }
}

/// Carries a call out that has begun.
fn go_on(
    ways: &impl Ways,
    begun: BegunAsk,
    work: impl FnOnce(&mut Node, &mut Turn<'_>, &StoreUser) -> StoreOutcome + Send + 'static,
) -> Result<StoreReply, Error> {
    let user = begun.user.clone();
    let outcome = ways.at_first(move |node, turn| work(node, turn, &user))?;
    let domain = begun.user.domain;
    let leaves = begun.leaves;
    let done = ways.at_home(move |os| os.end_store(begun, outcome))?;
    if leaves && done == Err(Error::Stale) {
        ways.at_first(move |node, turn| node.end_stores(turn, &[domain]))?;
    }
    done
}

/// Opens a store that outlives the node: the one that is open, or what its file has.
fn open_kept(ways: &impl Ways, kept: &KeptStores, domain: DomainId, ask: StoreAsk) -> Result<StoreReply, Error> {
    let asked = ask.clone();
    let begun = ways.at_home(move |os| os.begin_store(domain, &asked))??;
    let StoreAsk::Open { holder, name, make: Some(spec) } = &ask else { return Err(Error::Invalid) };
    let own = begun.user.holder.clone();
    let entrance = kept.entrance(&own);
    let _alone = hold(&entrance);
    let (at, called) = (holder.clone().unwrap_or_else(|| own.clone()), name.clone());
    let is_own = at == own && check_name(name).is_ok();
    let there = ways.at_first(move |node, _| node.stores().find(&at, &called).is_some())?;
    if there || !is_own {
        return go_on(ways, begun, move |node, turn, user| node.ask_store(turn, user, &ask, false));
    }
    let limit = spec.limit()?;
    let loaded =
        kept.load(domain, &own, name, limit).and_then(|(journal, Replayed { version, entries, sharing, .. })| {
            match Contents::restore(version, entries, limit).filter(|_| !spec.exclusive || version == 0) {
                Some(contents) => Ok((journal, contents, sharing)),
                None => {
                    kept.let_go(&journal);
                    Err(if spec.exclusive { Error::Exists } else { Error::Limit })
                }
            }
        });
    match loaded {
        Ok((journal, contents, sharing)) => {
            let had = (contents, sharing);
            let work = move |node: &mut Node, turn: &mut Turn<'_>, user: &StoreUser| {
                node.open_kept_store(turn, user, &ask, had)
            };
            let made = go_on(ways, begun, work);
            match made {
                Ok(StoreReply::Store(store, _)) => kept.enter(store, journal),
                _ => kept.let_go(&journal),
            }
            made
        }
        Err(error) => go_on(ways, begun, move |_, _, _| StoreOutcome { reply: Err(error), used: 0, back: None }),
    }
}

/// Makes a change of a store that outlives the node, when it is written.
fn change_kept(
    ways: &impl Ways,
    (kept, journal): (&KeptStores, &Mutex<Journal>),
    domain: DomainId,
    ask: StoreAsk,
) -> Result<StoreReply, Error> {
    let asked = ask.clone();
    let begun = ways.at_home(move |os| os.begin_store(domain, &asked))??;
    // From here on nobody else changes the store, so that what is written is in the order of the changes.
    let mut journal = hold(journal);
    let (user, asked) = (begun.user.clone(), ask.clone());
    let version = ways.at_first(move |node, _| node.check_store(&user, &asked))??;
    match &ask {
        StoreAsk::Remove { store } => {
            kept.remove(&mut journal)?;
            kept.forget(*store);
        }
        ask => kept.write(&mut journal, version, ask)?,
    }
    go_on(ways, begun, move |node, turn, user| node.ask_store(turn, user, &ask, true))
}

fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right between any two statements, or marked as broken.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
