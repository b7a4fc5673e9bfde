//! All stores of a node: whose they are, who may use them, and what ends with whom.
//!
//! Every call is one step, also where several domains change the same key. It looks at a few entries, however many there
//! are. What a store leaves behind when it ends is let go a few entries with each later call and each sweep.

use super::ask::{
    KEY_BYTES_MAX, OF_DOMAIN_MAX, SNAPSHOTS_MAX, STORES_MAX, SnapshotId, StoreAsk, StoreChange, StoreFacts, StoreId,
    StoreKey, StoreReply, StoreSpec, StoreUser, StoreValue, VALUE_BYTES_MAX, WATCH_BYTES, WATCHES_MAX, WatchId,
    check_key, check_name,
};
use super::contents::Contents;
use super::watches::{Signal, Watching};
use crate::core::domain::DomainId;
use crate::core::table::Table;
use crate::nodeos::file::{Access, Sharing, check_holder};
use libanode::error::Error;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Snapshots and watches of a node.
const OBJECTS_MAX: usize = 4096;

/// Entries let go with each call: more than one call adds.
const LET_GO: usize = 64;

/// The same of one sweep.
const LET_GO_IN_SWEEP: usize = 1024;

/// A store.
#[derive(Debug)]
struct NamedStore {
    holder: Arc<str>,
    name: Arc<str>,
    /// The domain that pays, and with which it ends.
    owner: DomainId,
    limit: u64,
    sharing: Sharing,
    persistent: bool,
    contents: Contents,
    watches: Vec<WatchId>,
    snapshots: usize,
    lost: u64,
}

/// A snapshot of a store.
#[derive(Clone, Copy, Debug)]
struct Snap {
    domain: DomainId,
    store: StoreId,
    version: u64,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOutcome {
    /// The answer.
    pub reply: Result<StoreReply, Error>,
    /// Of what was taken from the domain before, so many bytes are used.
    pub used: u64,
    /// A domain gets so many bytes back.
    pub back: Option<(DomainId, u64)>,
}

/// What is counted of all stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreCounts {
    /// Stores.
    pub stores: usize,
    /// Keys in them.
    pub keys: u64,
    /// Those that end with the domain that has put them.
    pub registered: u64,
    /// Bytes that they hold.
    pub bytes: u64,
    /// Snapshots.
    pub snapshots: usize,
    /// Watches.
    pub watches: usize,
    /// Changes so far that a watch had no room for.
    pub lost: u64,
    /// Calls so far that would have gone over a bound.
    pub refused: u64,
}

/// What is known of a store, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreStatus {
    /// Whose.
    pub holder: String,
    /// Its name.
    pub name: String,
    /// The domain that pays.
    pub domain: u32,
    /// Changes so far.
    pub version: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Those that it may hold.
    pub limit: u64,
    /// Whether it outlives the node.
    pub persistent: bool,
    /// Who else may use it, and how far.
    pub shares: BTreeMap<String, Access>,
    /// Snapshots of it.
    pub snapshots: usize,
    /// Watches on it.
    pub watches: usize,
    /// Changes that a watch had no room for.
    pub lost: u64,
}

/// The stores of a node.
#[derive(Debug)]
pub struct Stores {
    stores: Table<StoreId, NamedStore>,
    names: BTreeMap<(Arc<str>, Arc<str>), StoreId>,
    snapshots: Table<SnapshotId, Snap>,
    watches: Table<WatchId, Watching>,
    /// What stores have left behind.
    left: Vec<Contents>,
    signals: Vec<Signal>,
    lost: u64,
    refused: u64,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores {
            stores: Table::new(STORES_MAX),
            names: BTreeMap::new(),
            snapshots: Table::new(OBJECTS_MAX),
            watches: Table::new(OBJECTS_MAX),
            left: Vec::new(),
            signals: Vec::new(),
            lost: 0,
            refused: 0,
        }
    }
}

impl Stores {
    /// Carries out what a domain asks. `kept`: the caller has written it where it outlives the node, if the store does.
    pub fn ask(&mut self, now: u64, user: &StoreUser, ask: &StoreAsk, kept: bool) -> StoreOutcome {
        self.let_go(LET_GO);
        let mut outcome = StoreOutcome { reply: Ok(StoreReply::Done), used: 0, back: None };
        outcome.reply = self.attempt(now, user, ask, kept, &mut outcome);
        self.refused += u64::from(matches!(outcome.reply, Err(Error::Limit | Error::Full)));
        outcome
    }

    /// Whether a change of a persistent store would be made; with which number, if it is one of a key.
    pub fn check(&mut self, user: &StoreUser, ask: &StoreAsk) -> Result<u64, Error> {
        let checked = match ask {
            StoreAsk::Put { store, key, value, expected } => {
                checked(key, value)?;
                let store = self.writable(user, *store, true)?;
                store.contents.may_put((key, value), *expected, store.limit, None)
            }
            StoreAsk::Delete { store, key, expected } => {
                self.writable(user, *store, true)?.contents.may_delete(key, *expected)
            }
            StoreAsk::Share { store, with, access } => {
                let store = self.own(user, *store)?;
                store.sharing.clone().share(with, *access).map(|()| store.contents.version())
            }
            StoreAsk::Remove { store } => self.own(user, *store).map(|store| store.contents.version()),
            _ => Err(Error::Invalid),
        };
        self.refused += u64::from(checked == Err(Error::Limit));
        checked
    }

    fn attempt(
        &mut self,
        now: u64,
        user: &StoreUser,
        ask: &StoreAsk,
        kept: bool,
        outcome: &mut StoreOutcome,
    ) -> Result<StoreReply, Error> {
        match ask {
            StoreAsk::Open { holder, name, make } => {
                let holder = holder.as_ref().unwrap_or(&user.holder);
                self.open(user, (holder, name), *make, kept, outcome)
            }
            StoreAsk::Remove { store } => {
                let found = self.own(user, *store)?;
                if found.persistent && !kept {
                    return Err(Error::Invalid);
                }
                outcome.back = Some((found.owner, found.limit));
                self.end(now, *store);
                Ok(StoreReply::Done)
            }
            StoreAsk::Get { store, snapshot, key } => {
                check_key(key)?;
                let at = self.time_of(user, *store, *snapshot)?;
                let found = self.readable(user, *store)?.contents.get(key, at);
                found.map(|(version, value)| StoreReply::Found(version, value.clone())).ok_or(Error::Unknown)
            }
            StoreAsk::Put { store, key, value, expected } => {
                checked(key, value)?;
                self.writable(user, *store, kept)?;
                self.put(now, *store, (key, value), *expected, None)
            }
            StoreAsk::Register { store, key, value, expected } => {
                checked(key, value)?;
                if self.writable(user, *store, true)?.persistent {
                    // What is kept for ever ends with nobody.
                    return Err(Error::Unsupported);
                }
                self.put(now, *store, (key, value), *expected, Some(user.domain))
            }
            StoreAsk::Delete { store, key, expected } => {
                let found = self.writable(user, *store, kept)?;
                found.contents.may_delete(key, *expected)?;
                let version = found.contents.delete(key);
                self.note(now, *store, StoreChange { key: key.clone(), version, deleted: true });
                Ok(StoreReply::Version(version))
            }
            StoreAsk::List { store, snapshot, prefix, after } => {
                let longest = after.as_ref().map_or(0, |after| after.len()).max(prefix.len());
                if longest > KEY_BYTES_MAX {
                    return Err(Error::Invalid);
                }
                let at = self.time_of(user, *store, *snapshot)?;
                let (keys, next) = self.readable(user, *store)?.contents.list(prefix, after.as_deref(), at);
                Ok(StoreReply::Keys(keys, next))
            }
            StoreAsk::Share { store, with, access } => {
                let found = self.own(user, *store)?;
                if found.persistent && !kept {
                    return Err(Error::Invalid);
                }
                found.sharing.share(with, *access).map(|()| StoreReply::Done)
            }
            other => self.attempt_object(user, other, outcome),
        }
    }

    fn put(
        &mut self,
        now: u64,
        store: StoreId,
        (key, value): (&StoreKey, &StoreValue),
        expected: Option<u64>,
        domain: Option<DomainId>,
    ) -> Result<StoreReply, Error> {
        let found = self.stores.get_mut(store).ok_or(Error::Stale)?;
        found.contents.may_put((key, value), expected, found.limit, domain)?;
        let version = found.contents.put(key.clone(), value.clone(), domain);
        self.note(now, store, StoreChange { key: key.clone(), version, deleted: false });
        Ok(StoreReply::Version(version))
    }

    /// What is asked of a store as a whole, of snapshots and watches.
    fn attempt_object(
        &mut self,
        user: &StoreUser,
        ask: &StoreAsk,
        outcome: &mut StoreOutcome,
    ) -> Result<StoreReply, Error> {
        match ask {
            StoreAsk::Facts { store } => Ok(StoreReply::Facts(self.readable(user, *store)?.facts())),
            StoreAsk::Snapshot { store } => {
                let of_domain = self.snapshots.iter().filter(|(_, snap)| snap.domain == user.domain).count();
                let found = self.readable(user, *store)?;
                if found.snapshots >= SNAPSHOTS_MAX || of_domain >= SNAPSHOTS_MAX {
                    return Err(Error::Limit);
                }
                let snap = Snap { domain: user.domain, store: *store, version: found.contents.version() };
                let id = self.snapshots.add(snap).map_err(|_| Error::Full)?;
                if let Some(found) = self.stores.get_mut(*store) {
                    found.snapshots += 1;
                    found.contents.snapshot();
                }
                Ok(StoreReply::Snapshot(id, snap.version))
            }
            StoreAsk::SnapshotEnd { snapshot } => {
                let snap = *self.snapshots.get(*snapshot).ok_or(Error::Stale)?;
                self.its(user, snap.domain)?;
                self.snapshots.remove(*snapshot);
                self.forget_snapshot(snap);
                Ok(StoreReply::Done)
            }
            StoreAsk::Watch { store, prefix, argument } => self.watch(user, *store, prefix, *argument, outcome),
            StoreAsk::WatchEnd { watch } => {
                self.its(user, self.watches.get(*watch).ok_or(Error::Stale)?.domain)?;
                self.end_watch(*watch);
                outcome.back = Some((user.domain, WATCH_BYTES));
                Ok(StoreReply::Done)
            }
            StoreAsk::Changes { watch } => {
                self.its(user, self.watches.get(*watch).ok_or(Error::Stale)?.domain)?;
                let taken = self.watches.get_mut(*watch).and_then(Watching::take);
                taken.map(|(changes, lost)| StoreReply::Changes(changes, lost)).ok_or(Error::Stale)
            }
            _ => Err(Error::Invalid),
        }
    }

    fn open(
        &mut self,
        user: &StoreUser,
        (holder, name): (&Arc<str>, &str),
        make: Option<StoreSpec>,
        kept: bool,
        outcome: &mut StoreOutcome,
    ) -> Result<StoreReply, Error> {
        check_name(name)?;
        check_holder(holder)?;
        let key = (holder.clone(), Arc::from(name));
        if let Some(store) = self.names.get(&key).copied() {
            self.readable(user, store)?;
            let another = |spec: StoreSpec| spec.exclusive || spec.persistent && !self.is_persistent(store);
            return if make.is_some_and(another) { Err(Error::Exists) } else { Ok(StoreReply::Store(store, false)) };
        }
        let spec = make.ok_or(Error::Unknown)?;
        if *holder != user.holder {
            return Err(Error::Unknown);
        }
        if spec.persistent && !kept {
            // Nobody would write its changes.
            return Err(Error::Invalid);
        }
        if self.stores.iter().filter(|(_, store)| store.owner == user.domain).count() >= OF_DOMAIN_MAX {
            return Err(Error::Limit);
        }
        let limit = spec.limit()?;
        let store = NamedStore {
            holder: key.0.clone(),
            name: key.1.clone(),
            owner: user.domain,
            limit,
            sharing: Sharing::default(),
            persistent: spec.persistent,
            contents: Contents::default(),
            watches: Vec::new(),
            snapshots: 0,
            lost: 0,
        };
        let id = self.stores.add(store).map_err(|_| Error::Full)?;
        self.names.insert(key, id);
        outcome.used = limit;
        Ok(StoreReply::Store(id, true))
    }

    fn is_persistent(&self, store: StoreId) -> bool {
        self.stores.get(store).is_some_and(|store| store.persistent)
    }

    /// A store that was made just now has what it was kept with.
    pub fn restore(&mut self, store: StoreId, contents: Contents, sharing: Sharing) {
        if let Some(found) = self.stores.get_mut(store) {
            (found.contents, found.sharing) = (contents, sharing);
        }
    }

    fn watch(
        &mut self,
        user: &StoreUser,
        store: StoreId,
        prefix: &[u8],
        argument: u64,
        outcome: &mut StoreOutcome,
    ) -> Result<StoreReply, Error> {
        if prefix.len() > KEY_BYTES_MAX {
            return Err(Error::Invalid);
        }
        let of_domain = self.watches.iter().filter(|(_, watch)| watch.domain == user.domain).count();
        let found = self.readable(user, store)?;
        if found.watches.len() >= WATCHES_MAX || of_domain >= WATCHES_MAX {
            return Err(Error::Limit);
        }
        let watching = Watching::new(user.domain, store, prefix.into(), argument);
        let id = self.watches.add(watching).map_err(|_| Error::Full)?;
        if let Some(found) = self.stores.get_mut(store) {
            found.watches.push(id);
        }
        outcome.used = WATCH_BYTES;
        Ok(StoreReply::Watch(id))
    }

    fn readable(&mut self, user: &StoreUser, store: StoreId) -> Result<&mut NamedStore, Error> {
        self.within(user, store, Access::Read)
    }

    /// A store that its user may change; a persistent one only if the change is kept elsewhere too.
    fn writable(&mut self, user: &StoreUser, store: StoreId, kept: bool) -> Result<&mut NamedStore, Error> {
        let found = self.within(user, store, Access::Write)?;
        if found.persistent && !kept { Err(Error::Invalid) } else { Ok(found) }
    }

    fn within(&mut self, user: &StoreUser, store: StoreId, access: Access) -> Result<&mut NamedStore, Error> {
        let found = self.stores.get_mut(store).ok_or(Error::Stale)?;
        if found.sharing.access(&found.holder, &user.holder) < access { Err(Error::Denied) } else { Ok(found) }
    }

    fn own(&mut self, user: &StoreUser, store: StoreId) -> Result<&mut NamedStore, Error> {
        let found = self.stores.get_mut(store).ok_or(Error::Stale)?;
        if found.holder == user.holder { Ok(found) } else { Err(Error::Denied) }
    }

    fn its(&self, user: &StoreUser, domain: DomainId) -> Result<(), Error> {
        if user.domain == domain { Ok(()) } else { Err(Error::Denied) }
    }

    /// The number of changes that a snapshot has seen.
    fn time_of(&self, user: &StoreUser, store: StoreId, snapshot: Option<SnapshotId>) -> Result<Option<u64>, Error> {
        let Some(snapshot) = snapshot else { return Ok(None) };
        let snap = self.snapshots.get(snapshot).ok_or(Error::Stale)?;
        self.its(user, snap.domain)?;
        if snap.store == store { Ok(Some(snap.version)) } else { Err(Error::Invalid) }
    }

    /// Something has changed: whoever watches it has that in store, and is told.
    fn note(&mut self, now: u64, store: StoreId, change: StoreChange) {
        let Some(found) = self.stores.get_mut(store) else { return };
        for id in &found.watches {
            let Some(watch) = self.watches.get_mut(*id).filter(|watch| change.key.starts_with(&watch.prefix)) else {
                continue;
            };
            if !watch.note(change.clone()) {
                found.lost += 1;
                self.lost += 1;
            }
            if watch.tells(now) {
                self.signals.push(Signal { domain: watch.domain, watch: *id, argument: watch.argument });
            }
        }
    }

    fn forget_snapshot(&mut self, snap: Snap) {
        if let Some(store) = self.stores.get_mut(snap.store) {
            store.snapshots -= 1;
            store.contents.end_snapshot(snap.version);
        }
    }

    fn end_watch(&mut self, id: WatchId) {
        let Some(watch) = self.watches.remove(id) else { return };
        if let Some(store) = self.stores.get_mut(watch.store) {
            store.watches.retain(|other| *other != id);
        }
    }

    /// A store ends; whoever watches it is told.
    fn end(&mut self, now: u64, store: StoreId) {
        let Some(gone) = self.stores.remove(store) else { return };
        self.names.remove(&(gone.holder, gone.name));
        self.left.push(gone.contents);
        for id in gone.watches {
            let Some(watch) = self.watches.get_mut(id) else { continue };
            watch.ended = true;
            if watch.tells(now) {
                self.signals.push(Signal { domain: watch.domain, watch: id, argument: watch.argument });
            }
        }
    }

    /// Domains have ended: so have their stores, snapshots and watches, and what they have registered in others' stores. Their memory is
    /// theirs no more. How many stores there were.
    pub fn end_domains(&mut self, now: u64, domains: &[DomainId]) -> usize {
        let domains: HashSet<_> = domains.iter().copied().collect();
        let watches: Vec<_> = of(&self.watches, |watch| domains.contains(&watch.domain));
        watches.into_iter().for_each(|id| self.end_watch(id));
        let snapshots: Vec<_> = of(&self.snapshots, |snap| domains.contains(&snap.domain));
        for id in snapshots {
            if let Some(snap) = self.snapshots.remove(id) {
                self.forget_snapshot(snap);
            }
        }
        let stores: Vec<_> = of(&self.stores, |store| domains.contains(&store.owner));
        stores.iter().for_each(|id| self.end(now, *id));
        for id in of(&self.stores, |store| store.contents.registered() > 0) {
            let gone = self.stores.get_mut(id).map(|store| store.contents.end_domains(&domains));
            for (key, version) in gone.into_iter().flatten() {
                self.note(now, id, StoreChange { key, version, deleted: true });
            }
        }
        stores.len()
    }

    /// A tenth of a second is over: what nobody sees any more is let go.
    pub fn sweep(&mut self, now: u64) {
        if self.is_empty() {
            return;
        }
        self.let_go(LET_GO_IN_SWEEP);
        for id in of(&self.stores, |store| store.contents.looks()) {
            if let Some(store) = self.stores.get_mut(id) {
                store.contents.look(LET_GO_IN_SWEEP);
            }
        }
        for id in of(&self.watches, |_| true) {
            let Some(watch) = self.watches.get_mut(id) else { continue };
            if watch.tells(now) {
                self.signals.push(Signal { domain: watch.domain, watch: id, argument: watch.argument });
            }
        }
    }

    fn let_go(&mut self, mut entries: usize) {
        while entries > 0
            && let Some(last) = self.left.last_mut()
        {
            entries -= last.shrink(entries);
            if last.is_empty() {
                self.left.pop();
            }
        }
    }

    /// Whether there is nothing to be looked after.
    pub fn is_empty(&self) -> bool {
        self.stores.is_empty() && self.watches.is_empty() && self.left.is_empty()
    }

    /// Domains to be told of changes since this was asked last.
    pub fn signals(&mut self) -> Vec<Signal> {
        core::mem::take(&mut self.signals)
    }

    /// What is counted.
    pub fn counts(&self) -> StoreCounts {
        let sum = |of: fn(&NamedStore) -> u64| self.stores.iter().map(|(_, store)| of(store)).sum();
        StoreCounts {
            stores: self.stores.len(),
            keys: sum(|store| store.contents.keys() as u64),
            registered: sum(|store| store.contents.registered() as u64),
            bytes: sum(|store| store.contents.bytes()),
            snapshots: self.snapshots.len(),
            watches: self.watches.len(),
            lost: self.lost,
            refused: self.refused,
        }
    }

    /// All stores, by their holders and names.
    pub fn list(&self) -> Vec<StoreStatus> {
        self.names.values().filter_map(|id| self.stores.get(*id)).map(NamedStore::status).collect()
    }

    /// A store by its holder and name, for an operator, who may read all.
    pub fn find(&self, holder: &str, name: &str) -> Option<StoreId> {
        self.names.get(&(holder.into(), name.into())).copied()
    }

    /// What there is under a key, for an operator.
    pub fn look_up(&self, store: StoreId, key: &[u8]) -> Option<StoreReply> {
        let (version, value) = self.stores.get(store)?.contents.get(key, None)?;
        Some(StoreReply::Found(version, value.clone()))
    }

    /// Keys of a store, for an operator.
    pub fn keys(&self, store: StoreId, prefix: &[u8], after: Option<&[u8]>) -> Option<StoreReply> {
        let (keys, next) = self.stores.get(store)?.contents.list(prefix, after, None);
        Some(StoreReply::Keys(keys, next))
    }
}

impl NamedStore {
    fn facts(&self) -> StoreFacts {
        let contents = &self.contents;
        let (version, keys, bytes) = (contents.version(), contents.keys() as u64, contents.bytes());
        StoreFacts { version, keys, bytes, limit: self.limit }
    }

    fn status(&self) -> StoreStatus {
        let StoreFacts { version, keys, bytes, limit } = self.facts();
        StoreStatus {
            holder: self.holder.to_string(),
            name: self.name.to_string(),
            domain: self.owner.0,
            version,
            keys,
            bytes,
            limit,
            persistent: self.persistent,
            shares: self.sharing.iter().map(|(with, access)| (with.clone(), *access)).collect(),
            snapshots: self.snapshots,
            watches: self.watches.len(),
            lost: self.lost,
        }
    }
}

fn checked(key: &StoreKey, value: &[u8]) -> Result<(), Error> {
    check_key(key)?;
    if value.len() <= VALUE_BYTES_MAX { Ok(()) } else { Err(Error::Invalid) }
}

/// The names of entries of a kind.
fn of<K: crate::core::table::Name, V>(table: &Table<K, V>, is: impl Fn(&V) -> bool) -> Vec<K> {
    table.iter().filter(|(_, value)| is(value)).map(|(id, _)| id).collect()
}
