//! Stores against a model, and their bounds.

use super::ask::*;
use super::replay::Replayed;
use super::*;
use crate::core::domain::DomainId;
use crate::nodeos::file::{Access, Sharing};
use crate::nodeos::interface::Error;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

fn user(domain: u32, holder: &str) -> StoreUser {
    StoreUser { domain: DomainId(domain), holder: Arc::from(holder) }
}

fn open(name: &str, spec: Option<StoreSpec>) -> StoreAsk {
    StoreAsk::Open { holder: None, name: name.into(), make: spec }
}

/// A store of "a", as its domain 1 has made it.
fn made(stores: &mut Stores, bytes: u64) -> (StoreUser, StoreId) {
    let owner = user(1, "a");
    let spec = StoreSpec { bytes, ..StoreSpec::default() };
    match stores.ask(0, &owner, &open("s", Some(spec)), false).reply {
        Ok(StoreReply::Store(id, true)) => (owner, id),
        other => panic!("{other:?}"),
    }
}

fn put(store: StoreId, key: &[u8], value: &[u8], expected: Option<u64>) -> StoreAsk {
    StoreAsk::Put { store, key: key.into(), value: value.into(), expected }
}

fn register(store: StoreId, key: &[u8], value: &[u8], expected: Option<u64>) -> StoreAsk {
    StoreAsk::Register { store, key: key.into(), value: value.into(), expected }
}

fn get(store: StoreId, key: &[u8], snapshot: Option<SnapshotId>) -> StoreAsk {
    StoreAsk::Get { store, key: key.into(), snapshot }
}

fn snapshot(stores: &mut Stores, user: &StoreUser, store: StoreId) -> SnapshotId {
    match stores.ask(0, user, &StoreAsk::Snapshot { store }, false).reply {
        Ok(StoreReply::Snapshot(id, _)) => id,
        other => panic!("{other:?}"),
    }
}

fn watch(stores: &mut Stores, user: &StoreUser, store: StoreId, prefix: &[u8]) -> WatchId {
    match stores.ask(0, user, &StoreAsk::Watch { store, prefix: prefix.into(), argument: 7 }, false).reply {
        Ok(StoreReply::Watch(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// All keys of a list, page by page.
fn all(
    stores: &mut Stores,
    user: &StoreUser,
    store: StoreId,
    at: Option<SnapshotId>,
    prefix: &[u8],
) -> Vec<StoreEntry> {
    let (mut found, mut after) = (vec![], None);
    loop {
        let ask = StoreAsk::List { store, snapshot: at, prefix: prefix.into(), after: after.take() };
        let Ok(StoreReply::Keys(keys, next)) = stores.ask(0, user, &ask, false).reply else { panic!("a list") };
        found.extend(keys);
        if next.is_none() {
            return found;
        }
        after = next;
    }
}

#[test]
fn each_call_says_what_is_wrong() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 0);
    let stranger = user(2, "b");
    let long = vec![1; KEY_BYTES_MAX + 1];
    let gone = StoreId(77 << 16);
    let cases: &[(&StoreUser, StoreAsk, Result<StoreReply, Error>)] = &[
        (&owner, open("s", None), Ok(StoreReply::Store(store, false))),
        (&owner, open("t", None), Err(Error::Unknown)),
        (&owner, open("", None), Err(Error::Invalid)),
        (&owner, open(".s", None), Err(Error::Invalid)),
        (&owner, open("a/b", None), Err(Error::Invalid)),
        (&owner, open(&"s".repeat(NAME_BYTES_MAX + 1), None), Err(Error::Invalid)),
        (&owner, open("s", Some(StoreSpec { exclusive: true, ..StoreSpec::default() })), Err(Error::Exists)),
        (
            &owner,
            open("t", Some(StoreSpec { bytes: STORE_BYTES_MAX + 1, ..StoreSpec::default() })),
            Err(Error::Invalid),
        ),
        (&stranger, StoreAsk::Open { holder: Some("a".into()), name: "s".into(), make: None }, Err(Error::Denied)),
        (
            &stranger,
            StoreAsk::Open { holder: Some("a".into()), name: "t".into(), make: Some(StoreSpec::default()) },
            Err(Error::Unknown),
        ),
        (&stranger, StoreAsk::Open { holder: Some("..".into()), name: "s".into(), make: None }, Err(Error::Invalid)),
        (&owner, get(store, b"k", None), Err(Error::Unknown)),
        (&owner, get(store, b"", None), Err(Error::Invalid)),
        (&owner, get(store, &long, None), Err(Error::Invalid)),
        (&owner, get(gone, b"k", None), Err(Error::Stale)),
        (&owner, get(store, b"k", Some(SnapshotId(3))), Err(Error::Stale)),
        (&stranger, get(store, b"k", None), Err(Error::Denied)),
        (&owner, put(store, b"k", b"v", Some(9)), Err(Error::Changed)),
        (&owner, put(store, b"", b"v", None), Err(Error::Invalid)),
        (&owner, put(store, &long, b"v", None), Err(Error::Invalid)),
        (&owner, put(store, b"k", &vec![0; VALUE_BYTES_MAX + 1], None), Err(Error::Invalid)),
        (&owner, put(store, b"k", &vec![0; VALUE_BYTES_MAX], None), Err(Error::Limit)),
        (&owner, put(store, b"k", b"v", Some(0)), Ok(StoreReply::Version(1))),
        (&owner, put(store, b"k", b"w", Some(0)), Err(Error::Changed)),
        (&owner, put(store, b"k", b"w", Some(1)), Ok(StoreReply::Version(2))),
        (&owner, get(store, b"k", None), Ok(StoreReply::Found(2, b"w".as_slice().into()))),
        (&owner, StoreAsk::Delete { store, key: b"k".as_slice().into(), expected: Some(1) }, Err(Error::Changed)),
        (
            &owner,
            StoreAsk::Delete { store, key: b"k".as_slice().into(), expected: Some(2) },
            Ok(StoreReply::Version(3)),
        ),
        (&owner, StoreAsk::Delete { store, key: b"k".as_slice().into(), expected: None }, Err(Error::Unknown)),
        (
            &owner,
            StoreAsk::List { store, snapshot: None, prefix: long.clone().into(), after: None },
            Err(Error::Invalid),
        ),
        (&owner, StoreAsk::Watch { store, prefix: long.clone().into(), argument: 0 }, Err(Error::Invalid)),
        (&owner, StoreAsk::WatchEnd { watch: WatchId(5) }, Err(Error::Stale)),
        (&owner, StoreAsk::Changes { watch: WatchId(5) }, Err(Error::Stale)),
        (&owner, StoreAsk::SnapshotEnd { snapshot: SnapshotId(5) }, Err(Error::Stale)),
        (&owner, StoreAsk::Share { store, with: "b/c".into(), access: Access::Read }, Err(Error::Invalid)),
        (&stranger, StoreAsk::Share { store, with: "b".into(), access: Access::Write }, Err(Error::Denied)),
        (&stranger, StoreAsk::Remove { store }, Err(Error::Denied)),
    ];
    for (at, (user, ask, expected)) in cases.iter().enumerate() {
        assert_eq!(&stores.ask(0, user, ask, false).reply, expected, "{at}: {ask:?}");
    }
    assert_eq!(stores.counts().refused, 1, "one value was too large for the store");
}

#[test]
fn others_do_what_they_are_let() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 0);
    let (reader, writer) = (user(2, "reads"), user(3, "writes"));
    let share = |with: &str, access| StoreAsk::Share { store, with: with.into(), access };
    for ask in [share("reads", Access::Read), share("writes", Access::Write), put(store, b"k", b"v", None)] {
        assert!(stores.ask(0, &owner, &ask, false).reply.is_ok());
    }
    let theirs = StoreAsk::Open { holder: Some("a".into()), name: "s".into(), make: None };
    assert_eq!(stores.ask(0, &reader, &theirs, false).reply, Ok(StoreReply::Store(store, false)));
    assert!(stores.ask(0, &reader, &get(store, b"k", None), false).reply.is_ok());
    assert_eq!(stores.ask(0, &reader, &put(store, b"k", b"w", None), false).reply, Err(Error::Denied));
    assert_eq!(stores.ask(0, &writer, &put(store, b"k", b"w", None), false).reply, Ok(StoreReply::Version(2)));
    let snap = snapshot(&mut stores, &reader, store);
    assert_eq!(stores.ask(0, &writer, &get(store, b"k", Some(snap)), false).reply, Err(Error::Denied), "another's");
    // What is taken back counts from then on.
    assert!(stores.ask(0, &owner, &share("reads", Access::None), false).reply.is_ok());
    assert_eq!(stores.ask(0, &reader, &get(store, b"k", Some(snap)), false).reply, Err(Error::Denied));
    assert!(stores.ask(0, &owner, &share("*", Access::Read), false).reply.is_ok());
    assert!(stores.ask(0, &reader, &get(store, b"k", Some(snap)), false).reply.is_ok());
}

#[test]
fn a_store_is_paid_for_as_a_whole_and_given_back() {
    let mut stores = Stores::default();
    let owner = user(1, "a");
    let ask = open("s", Some(StoreSpec { bytes: 1000, ..StoreSpec::default() }));
    assert_eq!(ask.charge(), Ok(1000));
    let made = stores.ask(0, &owner, &ask, false);
    let Ok(StoreReply::Store(store, true)) = made.reply else { panic!("{made:?}") };
    assert_eq!((made.used, made.back), (1000, None));
    assert_eq!(stores.ask(0, &owner, &ask, false).used, 0, "it is there");
    let watch = watch(&mut stores, &owner, store, b"");
    let ended = stores.ask(0, &owner, &StoreAsk::WatchEnd { watch }, false);
    assert_eq!(ended.back, Some((owner.domain, WATCH_BYTES)));
    // Another domain of the holder ends it; who has made it gets the bytes back.
    let removed = stores.ask(0, &user(9, "a"), &StoreAsk::Remove { store }, false);
    assert_eq!((removed.reply, removed.back), (Ok(StoreReply::Done), Some((owner.domain, 1000))));
    assert_eq!(stores.counts(), StoreCounts::default());
}

#[test]
fn a_store_is_full_at_its_limit_and_old_values_count() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 2 * (ENTRY_BYTES + 101));
    for key in [b"a", b"b"] {
        assert!(stores.ask(0, &owner, &put(store, key, &[0; 100], None), false).reply.is_ok());
    }
    let over = put(store, b"c", b"", None);
    assert_eq!(stores.ask(0, &owner, &over, false).reply, Err(Error::Limit));
    assert!(stores.ask(0, &owner, &put(store, b"a", &[1; 100], None), false).reply.is_ok(), "in its place");
    let snap = snapshot(&mut stores, &owner, store);
    let again = put(store, b"a", b"", None);
    assert_eq!(stores.ask(0, &owner, &again, false).reply, Err(Error::Limit), "the snapshot sees the old value");
    assert!(
        stores
            .ask(0, &owner, &StoreAsk::Delete { store, key: b"a".as_slice().into(), expected: None }, false)
            .reply
            .is_ok()
    );
    assert_eq!(stores.ask(0, &owner, &over, false).reply, Err(Error::Limit), "the same of one that is deleted");
    assert!(stores.ask(0, &owner, &StoreAsk::SnapshotEnd { snapshot: snap }, false).reply.is_ok());
    assert!(stores.ask(0, &owner, &over, false).reply.is_ok(), "nobody sees it any more");
    assert_eq!(stores.counts().refused, 3);
}

#[test]
fn a_million_keys_end_at_the_bounds() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, STORE_BYTES_MAX);
    let mut kept = 0u64;
    for key in 0u64..1_000_000 {
        match stores.ask(0, &owner, &put(store, &key.to_be_bytes(), b"", None), false).reply {
            Ok(_) => kept += 1,
            Err(error) => assert_eq!(error, Error::Limit),
        }
    }
    let counts = stores.counts();
    assert_eq!((counts.keys, counts.refused), (kept, 1_000_000 - kept));
    assert!(counts.bytes <= STORE_BYTES_MAX && kept == STORE_BYTES_MAX / (ENTRY_BYTES + 8), "{kept}");
    // What it leaves behind goes bit by bit.
    assert_eq!(stores.end_domains(0, &[owner.domain]), 1);
    let mut sweeps = 0;
    while !stores.is_empty() {
        stores.sweep(0);
        sweeps += 1;
    }
    assert_eq!(sweeps, kept.div_ceil(1024));
}

#[test]
fn what_a_domain_has_registered_ends_with_it_unless_it_is_another_s_by_then() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 1 << 20);
    let (one, two, stranger) = (user(2, "b"), user(3, "b"), user(4, "c"));
    let share = StoreAsk::Share { store, with: "b".into(), access: Access::Write };
    assert!(stores.ask(0, &owner, &share, false).reply.is_ok());
    assert_eq!(stores.ask(0, &stranger, &register(store, b"k", b"v", None), false).reply, Err(Error::Denied));
    for (at, key) in [&b"dns"[..], b"log", b"ntp", b"web"].into_iter().enumerate() {
        let version = Ok(StoreReply::Version(at as u64 + 1));
        assert_eq!(stores.ask(0, &one, &register(store, key, b"one", Some(0)), false).reply, version);
    }
    assert_eq!(stores.ask(0, &two, &register(store, b"ntp", b"two", Some(0)), false).reply, Err(Error::Changed));
    assert!(stores.ask(0, &two, &register(store, b"ntp", b"two", Some(3)), false).reply.is_ok());
    assert!(stores.ask(0, &owner, &put(store, b"web", b"stays", None), false).reply.is_ok());
    assert_eq!(stores.counts().registered, 3);
    let domains = |stores: &mut Stores| {
        let entries = all(stores, &owner, store, None, b"").into_iter();
        entries.map(|entry| (entry.key.to_vec(), entry.domain.map(|domain| domain.0))).collect::<Vec<_>>()
    };
    let [dns, log, ntp, web] = [b"dns", b"log", b"ntp", b"web"].map(|key| key.to_vec());
    let all_four = [(dns, Some(2)), (log.clone(), Some(2)), (ntp.clone(), Some(3)), (web.clone(), None)];
    assert_eq!(domains(&mut stores), all_four);
    let (id, before) = (watch(&mut stores, &owner, store, b"d"), snapshot(&mut stores, &owner, store));
    assert_eq!(stores.end_domains(0, &[one.domain]), 0);
    assert_eq!(domains(&mut stores), [(ntp, Some(3)), (web.clone(), None)]);
    assert_eq!(stores.signals().len(), 1, "who watches is told");
    let change = StoreChange { key: b"dns".as_slice().into(), version: 7, deleted: true };
    let changes = stores.ask(0, &owner, &StoreAsk::Changes { watch: id }, false).reply;
    assert_eq!(changes, Ok(StoreReply::Changes(vec![change], 0)));
    let then = stores.ask(0, &owner, &get(store, &log, Some(before)), false).reply;
    assert_eq!(then, Ok(StoreReply::Found(2, b"one".as_slice().into())), "a snapshot sees it");
    // Of many domains that end, too.
    let many: Vec<_> = (3..2000).map(DomainId).collect();
    stores.end_domains(0, &many);
    assert_eq!((domains(&mut stores), stores.counts().registered), (vec![(web, None)], 0));
    assert!(stores.ask(0, &owner, &StoreAsk::SnapshotEnd { snapshot: before }, false).reply.is_ok());
    stores.sweep(0);
    assert_eq!(stores.counts().bytes, ENTRY_BYTES + 8, "web stays");
}

#[test]
fn what_ends_with_one_domain_is_few_and_counts_its_keys_twice() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 1 << 20);
    for at in 0..REGISTERED_MAX as u32 {
        assert!(stores.ask(0, &owner, &register(store, &at.to_be_bytes(), b"", None), false).reply.is_ok());
    }
    assert_eq!(stores.counts().bytes, REGISTERED_MAX as u64 * (ENTRY_BYTES + 8));
    let more = register(store, b"more", b"", None);
    assert_eq!(stores.ask(0, &owner, &more, false).reply, Err(Error::Limit));
    assert!(stores.ask(0, &owner, &register(store, &[0; 4], b"again", None), false).reply.is_ok());
    assert!(stores.ask(0, &user(7, "a"), &more, false).reply.is_ok(), "another domain has its own");
    assert_eq!(stores.counts().refused, 1);
    let spec = StoreSpec { bytes: ENTRY_BYTES + 20, ..StoreSpec::default() };
    let Ok(StoreReply::Store(small, _)) = stores.ask(0, &owner, &open("small", Some(spec)), false).reply else {
        panic!()
    };
    let over = register(small, &[1; 10], b"v", None);
    assert_eq!(stores.ask(0, &owner, &over, false).reply, Err(Error::Limit), "a byte too much");
    assert!(stores.ask(0, &owner, &put(small, &[1; 10], b"v", None), false).reply.is_ok());
    assert!(stores.ask(0, &owner, &register(small, &[1; 10], b"", None), false).reply.is_ok());
    // A store that ends lets go what was registered in it as all else.
    stores.end_domains(0, &[owner.domain]);
    while !stores.is_empty() {
        stores.sweep(0);
    }
    assert_eq!(stores.end_domains(0, &[DomainId(7)]), 0);
}

#[test]
fn snapshots_watches_and_stores_of_one_domain_are_few() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 0);
    for _ in 0..SNAPSHOTS_MAX {
        snapshot(&mut stores, &owner, store);
    }
    let reply = |stores: &mut Stores, ask: StoreAsk| stores.ask(0, &owner, &ask, false).reply;
    assert_eq!(reply(&mut stores, StoreAsk::Snapshot { store }), Err(Error::Limit));
    for _ in 0..WATCHES_MAX {
        watch(&mut stores, &owner, store, b"");
    }
    let more = StoreAsk::Watch { store, prefix: Box::default(), argument: 0 };
    assert_eq!(reply(&mut stores, more.clone()), Err(Error::Limit));
    for at in 1..OF_DOMAIN_MAX {
        assert!(reply(&mut stores, open(&format!("s{at}"), Some(StoreSpec::default()))).is_ok());
    }
    assert_eq!(reply(&mut stores, open("more", Some(StoreSpec::default()))), Err(Error::Limit));
    // Others have room: of each store it is bounded too.
    let share = StoreAsk::Share { store, with: "*".into(), access: Access::Read };
    assert!(reply(&mut stores, share).is_ok());
    assert_eq!(stores.ask(0, &user(2, "b"), &more, false).reply, Err(Error::Limit));
    assert!(stores.ask(0, &user(2, "b"), &open("own", Some(StoreSpec::default())), false).reply.is_ok());
    stores.end_domains(0, &[owner.domain]);
    let counts = stores.counts();
    assert_eq!((counts.stores, counts.snapshots, counts.watches), (1, 0, 0));
}

#[test]
fn who_watches_is_told_once_and_of_what_is_lost() {
    let mut stores = Stores::default();
    let (owner, store) = made(&mut stores, 1 << 20);
    let id = watch(&mut stores, &owner, store, b"x");
    let signal = Signal { domain: owner.domain, watch: id, argument: 7 };
    let changes = |stores: &mut Stores| match stores.ask(0, &owner, &StoreAsk::Changes { watch: id }, false).reply {
        Ok(StoreReply::Changes(changes, lost)) => (changes.len(), lost),
        other => panic!("{other:?}"),
    };
    assert!(stores.ask(0, &owner, &put(store, b"y", b"", None), false).reply.is_ok());
    assert_eq!(stores.signals(), [], "its keys begin otherwise");
    for at in 0..CHANGES_MAX as u64 + 3 {
        let key = [b"x".as_slice(), &at.to_be_bytes()].concat();
        assert!(stores.ask(0, &owner, &put(store, &key, b"", None), false).reply.is_ok());
    }
    assert_eq!(stores.signals(), [signal]);
    stores.sweep(SECOND - 1);
    assert_eq!(stores.signals(), []);
    stores.sweep(SECOND);
    assert_eq!(stores.signals(), [signal], "it has not asked");
    assert_eq!(changes(&mut stores), (CHANGES_MAX, 3));
    assert_eq!((changes(&mut stores), stores.counts().lost), ((0, 0), 3));
    let delete =
        StoreAsk::Delete { store, key: [b"x".as_slice(), &0u64.to_be_bytes()].concat().into(), expected: None };
    assert!(stores.ask(0, &owner, &delete, false).reply.is_ok());
    assert_eq!(stores.signals(), [signal]);
    assert_eq!(changes(&mut stores), (1, 0));
    // The end of the store is told too, and what comes before it is not lost.
    assert!(stores.ask(0, &owner, &put(store, b"x", b"", None), false).reply.is_ok());
    assert!(stores.ask(0, &owner, &StoreAsk::Remove { store }, false).reply.is_ok());
    assert_eq!(changes(&mut stores), (1, 0));
    assert_eq!(stores.ask(0, &owner, &StoreAsk::Changes { watch: id }, false).reply, Err(Error::Stale));
    stores.signals();
    stores.sweep(9 * SECOND);
    assert_eq!(stores.signals(), [], "of the end once");
}

#[test]
fn what_outlives_the_node_is_changed_by_who_keeps_it() {
    let mut stores = Stores::default();
    let owner = user(1, "a");
    let spec = StoreSpec { persistent: true, ..StoreSpec::default() };
    assert_eq!(stores.ask(0, &owner, &open("s", Some(spec)), false).reply, Err(Error::Invalid), "nobody keeps it");
    let Ok(StoreReply::Store(store, _)) = stores.ask(0, &owner, &open("s", Some(spec)), true).reply else { panic!() };
    let ask = put(store, b"k", b"v", None);
    let share = StoreAsk::Share { store, with: "b".into(), access: Access::Read };
    for ask in [&ask, &share, &StoreAsk::Remove { store }] {
        assert_eq!(stores.ask(0, &owner, ask, false).reply, Err(Error::Invalid), "{ask:?}");
        assert!(stores.check(&owner, ask).is_ok(), "{ask:?}");
    }
    let registered = stores.ask(0, &owner, &register(store, b"k", b"v", None), false).reply;
    assert_eq!(registered, Err(Error::Unsupported), "it would outlive its domain");
    assert_eq!(stores.check(&owner, &ask), Ok(1));
    assert_eq!(stores.check(&user(2, "b"), &ask), Err(Error::Denied));
    assert_eq!(stores.ask(0, &owner, &ask, true).reply, Ok(StoreReply::Version(1)));
    let entries = BTreeMap::from([(StoreKey::from(b"k".as_slice()), (3, StoreValue::from(b"w".as_slice())))]);
    assert!(Contents::restore(9, entries.clone(), ENTRY_BYTES + 1).is_none(), "a byte too much");
    stores.restore(store, Contents::restore(9, entries, ENTRY_BYTES + 2).unwrap(), Sharing::default());
    assert_eq!(
        stores.ask(0, &owner, &get(store, b"k", None), false).reply,
        Ok(StoreReply::Found(3, b"w".as_slice().into()))
    );
    assert_eq!(stores.ask(0, &owner, &ask, true).reply, Ok(StoreReply::Version(10)), "numbers go on");
    // One of the same name that does not outlive the node is another thing.
    assert_eq!(
        stores.ask(0, &owner, &open("s", Some(StoreSpec::default())), false).reply,
        Ok(StoreReply::Store(store, false))
    );
    assert!(stores.ask(0, &owner, &open("t", Some(StoreSpec::default())), false).reply.is_ok());
    assert_eq!(stores.ask(0, &owner, &open("t", Some(spec)), false).reply, Err(Error::Exists));
}

fn journal(changes: &[(u64, journal::JournalEntry<'_>)]) -> Vec<u8> {
    let mut bytes = vec![];
    journal::write(0, journal::JournalEntry::Begins, &mut bytes);
    changes.iter().for_each(|(version, kept)| journal::write(*version, *kept, &mut bytes));
    bytes
}

#[test]
fn a_journal_comes_to_its_changes_and_a_torn_end_is_cut_off() {
    use journal::JournalEntry::*;
    let all = journal(&[(1, Put(b"a", b"1")), (2, Put(b"b", b"2")), (3, Shared("x", 1)), (4, Deleted(b"a"))]);
    let whole = Replayed::of(&all).unwrap();
    assert_eq!((whole.version, whole.entries.len(), whole.whole), (4, 1, all.len()));
    assert_eq!(whole.sharing.access("o", "x"), Access::Read);
    let again = Replayed::of(&whole.rewritten()).unwrap();
    assert_eq!((again.version, &again.entries, &again.sharing), (4, &whole.entries, &whole.sharing));
    let mut before = 0;
    for cut in 0..all.len() {
        let part = Replayed::of(&all[..cut]).unwrap();
        assert!(part.whole <= cut && part.whole >= before, "cut to {cut}");
        before = part.whole;
        let zeros = [&all[..part.whole], &[0; 100]].concat();
        assert_eq!(Replayed::of(&zeros), Ok(part), "a host that has ended leaves zeros");
    }
    // The number of the last change is kept, whatever it has left.
    for changes in [&[(7, Deleted(b"a"))][..], &[(1, Put(b"a", b"")), (7, Deleted(b"b"))], &[]] {
        let replayed = Replayed::of(&journal(changes)).unwrap();
        assert_eq!(Replayed::of(&replayed.rewritten()).unwrap().version, replayed.version, "{changes:?}");
    }
}

#[test]
fn every_damaged_byte_of_a_journal_is_noticed() {
    use journal::JournalEntry::*;
    let all = journal(&[(1, Put(b"key", b"value")), (2, Deleted(b"key")), (3, Put(b"k", b""))]);
    for at in 0..all.len() {
        for bit in 0..8 {
            let mut damaged = all.clone();
            damaged[at] ^= 1 << bit;
            assert!(Replayed::of(&damaged).is_err(), "byte {at}, bit {bit}");
        }
    }
    // What is right by itself and not in its place.
    let wrong = |changes: &[(u64, journal::JournalEntry<'_>)]| {
        let mut bytes = vec![];
        changes.iter().for_each(|(version, kept)| journal::write(*version, *kept, &mut bytes));
        Replayed::of(&bytes).unwrap_err().what
    };
    assert_eq!(wrong(&[(1, Put(b"a", b""))]), "it does not begin as a store does");
    assert_eq!(wrong(&[(0, Begins), (0, Begins)]), "it does not begin as a store does");
    assert_eq!(wrong(&[(0, Begins), (2, Put(b"a", b"")), (1, Deleted(b"a"))]), "a change comes before an earlier one");
    assert_eq!(wrong(&[(0, Begins), (1, Put(b"", b""))]), "a record means nothing");
    assert_eq!(wrong(&[(0, Begins), (1, Shared("a/b", 1))]), "it is shared with nobody");
}

/// What is done in a random order.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<u8>, bool),
    Register(u8, Vec<u8>),
    EndOther,
    Delete(u8),
    Snapshot,
    End(usize),
    Read(usize),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..12, prop::collection::vec(any::<u8>(), 0..40), any::<bool>()).prop_map(|(k, v, e)| Step::Put(k, v, e)),
        3 => (0u8..12, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(k, v)| Step::Register(k, v)),
        1 => Just(Step::EndOther),
        2 => (0u8..12).prop_map(Step::Delete),
        1 => Just(Step::Snapshot),
        1 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::Read),
        1 => Just(Step::Sweep),
    ]
}

type Model = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

fn key_of(number: u8) -> Vec<u8> {
    // Some begin alike.
    if number < 6 { vec![number] } else { vec![3, number] }
}

fn same(stores: &mut Stores, user: &StoreUser, store: StoreId, at: Option<SnapshotId>, model: &Model) {
    for prefix in [&b""[..], &[3]] {
        let listed: Vec<_> =
            all(stores, user, store, at, prefix).into_iter().map(|e| (e.key.to_vec(), e.version, e.bytes)).collect();
        let known = model.iter().filter(|(key, _)| key.starts_with(prefix));
        let known: Vec<_> = known.map(|(key, (version, value))| (key.clone(), *version, value.len() as u32)).collect();
        assert_eq!(listed, known);
    }
    for number in 0..12 {
        let key = key_of(number);
        let found = match stores.ask(0, user, &get(store, &key, at), false).reply {
            Ok(StoreReply::Found(version, value)) => Some((version, value.to_vec())),
            Err(Error::Unknown) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found.as_ref(), model.get(&key));
    }
}

/// Whether a value was kept, with the next number; otherwise there was no room.
fn kept(reply: Result<StoreReply, Error>, changes: &mut u64) -> bool {
    let kept = reply.is_ok();
    *changes += u64::from(kept);
    assert_eq!(reply, if kept { Ok(StoreReply::Version(*changes)) } else { Err(Error::Limit) });
    kept
}

proptest! {
    /// A store and its snapshots hold what a model holds, and bytes are counted for what is held alone.
    #[test]
    fn stores_and_snapshots_are_as_the_model(steps in prop::collection::vec(step(), 0..120)) {
        let mut stores = Stores::default();
        let (owner, store) = made(&mut stores, 2500);
        let (mut model, mut snapshots, mut changes) = (Model::new(), Vec::<(SnapshotId, Model)>::new(), 0);
        let (other, mut registered) = (user(2, "a"), BTreeSet::new());
        for step in steps {
            match step {
                Step::Put(number, value, expect) => {
                    let key = key_of(number);
                    let there = model.get(&key).map_or(0, |(version, _)| *version);
                    let ask = put(store, &key, &value, expect.then_some(there));
                    if kept(stores.ask(0, &owner, &ask, false).reply, &mut changes) {
                        registered.remove(&key);
                        model.insert(key, (changes, value));
                    }
                }
                Step::Register(number, value) => {
                    let key = key_of(number);
                    if kept(stores.ask(0, &other, &register(store, &key, &value, None), false).reply, &mut changes) {
                        registered.insert(key.clone());
                        model.insert(key, (changes, value));
                    }
                }
                Step::EndOther => {
                    changes += registered.len() as u64;
                    stores.end_domains(0, &[other.domain]);
                    std::mem::take(&mut registered).iter().for_each(|key| drop(model.remove(key)));
                }
                Step::Delete(number) => {
                    let key = key_of(number);
                    let ask = StoreAsk::Delete { store, key: key.clone().into(), expected: None };
                    let deleted = stores.ask(0, &owner, &ask, false).reply;
                    registered.remove(&key);
                    match model.remove(&key) {
                        Some(_) => {
                            changes += 1;
                            prop_assert_eq!(deleted, Ok(StoreReply::Version(changes)));
                        }
                        None => prop_assert_eq!(deleted, Err(Error::Unknown)),
                    }
                }
                Step::Snapshot if snapshots.len() < SNAPSHOTS_MAX => {
                    snapshots.push((snapshot(&mut stores, &owner, store), model.clone()));
                }
                Step::End(at) if !snapshots.is_empty() => {
                    let (id, _) = snapshots.remove(at % snapshots.len());
                    let ended = stores.ask(0, &owner, &StoreAsk::SnapshotEnd { snapshot: id }, false).reply;
                    prop_assert_eq!(ended, Ok(StoreReply::Done));
                }
                Step::Read(at) if !snapshots.is_empty() => {
                    let (id, then) = &snapshots[at % snapshots.len()];
                    same(&mut stores, &owner, store, Some(*id), then);
                }
                Step::Sweep => stores.sweep(0),
                _ => {}
            }
        }
        same(&mut stores, &owner, store, None, &model);
        for (id, then) in &snapshots {
            same(&mut stores, &owner, store, Some(*id), then);
        }
        prop_assert!(stores.counts().bytes <= 2500);
        for (id, _) in snapshots {
            stores.ask(0, &owner, &StoreAsk::SnapshotEnd { snapshot: id }, false);
        }
        stores.sweep(0);
        let held: u64 = model.iter().map(|(key, (_, value))| ENTRY_BYTES + (key.len() + value.len()) as u64).sum();
        let twice: u64 = registered.iter().map(|key| key.len() as u64).sum();
        prop_assert_eq!((stores.counts().bytes, stores.counts().registered), (held + twice, registered.len() as u64));
    }
}
