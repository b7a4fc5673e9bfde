//! Named stores of one node: who pays for them, who is told, and what ends with a domain.

use crate::bed::Bed;
use anode::node::hosts::InProcess;
use anode::node::{Node, Turn};
use anode::nodeos::file::Access;
use anode::nodeos::interface::{DomainId, DomainSpec, Error, NodeOs, Upcall};
use anode::nodeos::store::ask::{STORE_BYTES, StoreAsk, StoreId, StoreReply, StoreSpec, WATCH_BYTES, WatchId};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use std::sync::{Arc, Mutex};

/// Notes what it is told, and asks for the changes of the watches that it is told of.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<Vec<Result<StoreReply, Error>>>>);

impl InProcess for Reader {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Changed { watch, argument } = upcall {
            assert_eq!(argument, 5);
            self.0.lock().unwrap().push(os.store(domain, &StoreAsk::Changes { watch }));
        }
    }
}

fn role(memory_bytes: u64) -> Role {
    let grants = Grants { domains: 4, memory_bytes, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

fn attach(bed: &mut Bed, title: &str, reader: &Reader) -> DomainId {
    bed.turn(|node, _| node.attach(title, &role(1 << 20), Box::new(reader.clone()))).unwrap().1
}

fn ask(bed: &mut Bed, domain: DomainId, ask: StoreAsk) -> Result<StoreReply, Error> {
    bed.turn(|node, turn| node.with_os(turn, domain, |os| os.store(domain, &ask)))
}

fn open(bed: &mut Bed, domain: DomainId, holder: Option<&str>, make: Option<StoreSpec>) -> Result<StoreId, Error> {
    let open = StoreAsk::Open { holder: holder.map(Into::into), name: "s".into(), make };
    ask(bed, domain, open).map(|reply| match reply {
        StoreReply::Store(store, _) => store,
        other => panic!("{other:?}"),
    })
}

fn watch(bed: &mut Bed, domain: DomainId, store: StoreId) -> WatchId {
    match ask(bed, domain, StoreAsk::Watch { store, prefix: Box::default(), argument: 5 }) {
        Ok(StoreReply::Watch(watch)) => watch,
        other => panic!("{other:?}"),
    }
}

fn put(store: StoreId, key: &[u8]) -> StoreAsk {
    StoreAsk::Put { store, key: key.into(), value: Arc::from(b"v".as_slice()), expected: None }
}

fn held(bed: &mut Bed, domain: DomainId) -> u64 {
    bed.turn(|node: &mut Node, turn: &mut Turn<'_>| node.with_os(turn, domain, |os| os.domain_usage(domain))).unwrap().1
}

#[test]
fn the_domain_that_makes_a_store_pays_for_all_of_it_until_it_ends() {
    let mut bed = Bed::new(Policy::Fifo);
    let before = bed.driver.node.resources();
    let domain = attach(&mut bed, "ee", &Reader::default());
    let store = open(&mut bed, domain, None, Some(StoreSpec::default())).unwrap();
    assert_eq!(held(&mut bed, domain), STORE_BYTES);
    assert_eq!(
        open(&mut bed, domain, None, Some(StoreSpec::default())),
        Ok(store),
        "it is there, and is not paid again"
    );
    assert_eq!(held(&mut bed, domain), STORE_BYTES);
    let id = watch(&mut bed, domain, store);
    assert_eq!(held(&mut bed, domain), STORE_BYTES + WATCH_BYTES);
    assert_eq!(ask(&mut bed, domain, StoreAsk::WatchEnd { watch: id }), Ok(StoreReply::Done));
    assert_eq!(ask(&mut bed, domain, StoreAsk::Remove { store }), Ok(StoreReply::Done));
    assert_eq!(held(&mut bed, domain), 0);
    let much = StoreSpec { bytes: 2 << 20, ..StoreSpec::default() };
    assert_eq!(open(&mut bed, domain, None, Some(much)), Err(Error::Limit), "more than its memory");
    assert_eq!((held(&mut bed, domain), ask(&mut bed, domain, put(store, b"k"))), (0, Err(Error::Stale)));
    let store = open(&mut bed, domain, None, Some(StoreSpec::default())).unwrap();
    watch(&mut bed, domain, store);
    assert!(ask(&mut bed, domain, StoreAsk::Snapshot { store }).is_ok());
    assert_eq!(bed.driver.node.resources().stores, 3);
    bed.turn(|node, turn| node.end_domain(turn, domain, true));
    assert_eq!(bed.driver.node.resources(), before);
}

#[test]
fn domains_below_share_their_environment_s_stores_and_no_other_does() {
    let mut bed = Bed::new(Policy::Fifo);
    let (one, two) = (attach(&mut bed, "one", &Reader::default()), attach(&mut bed, "two", &Reader::default()));
    let spec = DomainSpec { title: "flow".into(), ..DomainSpec::default() };
    let below = bed.turn(|node, turn| node.with_os(turn, one, |os| os.domain_create(one, &spec))).unwrap();
    let store = open(&mut bed, one, None, Some(StoreSpec::default())).unwrap();
    assert_eq!(open(&mut bed, below, None, None), Ok(store));
    assert_eq!(open(&mut bed, two, None, None), Err(Error::Unknown), "its own has no such name");
    assert_eq!(open(&mut bed, two, Some("one"), None), Err(Error::Denied));
    let share = StoreAsk::Share { store, with: "two".into(), access: Access::Read };
    assert_eq!(ask(&mut bed, below, share), Ok(StoreReply::Done));
    assert_eq!(open(&mut bed, two, Some("one"), None), Ok(store));
    assert_eq!(ask(&mut bed, two, put(store, b"k")), Err(Error::Denied));
    // Nobody asks in the name of a domain that is not below.
    let foreign = bed.turn(|node, turn| node.with_os(turn, two, |os| os.store(one, &put(store, b"k"))));
    assert_eq!(foreign, Err(Error::Denied));
    let root = bed.driver.node.root_domain();
    assert_eq!(ask(&mut bed, root, put(store, b"k")), Err(Error::Denied), "the node's own domains have none");
    // The store goes with the domain that has made it, not with one below that uses it.
    bed.turn(|node, turn| node.end_domain(turn, below, true));
    assert!(ask(&mut bed, one, put(store, b"k")).is_ok());
}

#[test]
fn a_watcher_is_called_when_the_call_that_changes_has_returned() {
    let mut bed = Bed::new(Policy::Fifo);
    let reader = Reader::default();
    let (one, two) = (attach(&mut bed, "one", &Reader::default()), attach(&mut bed, "two", &reader));
    let store = open(&mut bed, one, None, Some(StoreSpec::default())).unwrap();
    let share = StoreAsk::Share { store, with: "two".into(), access: Access::Read };
    assert!(ask(&mut bed, one, share).is_ok());
    watch(&mut bed, two, store);
    for key in [b"a", b"b"] {
        assert!(ask(&mut bed, one, put(store, key)).is_ok());
    }
    bed.turn(|node, turn| node.end_domain(turn, one, true));
    let told = std::mem::take(&mut *reader.0.lock().unwrap());
    let keys = |reply: &Result<StoreReply, Error>| match reply {
        Ok(StoreReply::Changes(changes, 0)) => changes.iter().map(|change| change.key.to_vec()).collect(),
        other => vec![format!("{other:?}").into_bytes()],
    };
    assert_eq!(told.iter().map(keys).collect::<Vec<_>>(), [[b"a".to_vec()], [b"b".to_vec()], [b"Err(Stale)".to_vec()]]);
    // One that has ended is told nothing.
    let store = open(&mut bed, two, None, Some(StoreSpec::default())).unwrap();
    watch(&mut bed, two, store);
    bed.turn(|node, turn| node.end_domain(turn, two, true));
    assert!(reader.0.lock().unwrap().is_empty());
}

#[test]
fn what_a_flow_registers_in_another_s_store_ends_with_the_flow_and_who_watches_is_told() {
    let mut bed = Bed::new(Policy::Fifo);
    let reader = Reader::default();
    let (one, two) = (attach(&mut bed, "one", &reader), attach(&mut bed, "two", &Reader::default()));
    let spec = DomainSpec { title: "flow".into(), ..DomainSpec::default() };
    let flow = bed.turn(|node, turn| node.with_os(turn, two, |os| os.domain_create(two, &spec))).unwrap();
    let store = open(&mut bed, one, None, Some(StoreSpec::default())).unwrap();
    let register = |key: &[u8]| match put(store, key) {
        StoreAsk::Put { store, key, value, expected } => StoreAsk::Register { store, key, value, expected },
        other => other,
    };
    assert_eq!(ask(&mut bed, flow, register(b"f")), Err(Error::Denied));
    let before = bed.driver.node.resources();
    let share = StoreAsk::Share { store, with: "two".into(), access: Access::Write };
    assert_eq!(ask(&mut bed, one, share), Ok(StoreReply::Done));
    // It has opened nothing; what it knows is the store's number.
    assert_eq!(ask(&mut bed, flow, register(b"f")), Ok(StoreReply::Version(1)));
    assert_eq!(ask(&mut bed, two, register(b"t")), Ok(StoreReply::Version(2)));
    assert_eq!((held(&mut bed, one), held(&mut bed, two)), (STORE_BYTES, 0), "who has made it pays");
    watch(&mut bed, one, store);
    bed.turn(|node, turn| node.end_domain(turn, flow, true));
    let told = std::mem::take(&mut *reader.0.lock().unwrap());
    let [Ok(StoreReply::Changes(changes, 0))] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(changes.iter().map(|change| (&*change.key, change.deleted)).collect::<Vec<_>>(), [(&b"f"[..], true)]);
    let get = |key: &[u8]| StoreAsk::Get { store, snapshot: None, key: key.into() };
    assert_eq!(ask(&mut bed, one, get(b"f")), Err(Error::Unknown));
    assert!(ask(&mut bed, one, get(b"t")).is_ok());
    bed.turn(|node, turn| node.end_domain(turn, two, true));
    assert_eq!(ask(&mut bed, one, get(b"t")), Err(Error::Unknown));
    assert_eq!(bed.driver.node.resources().stores, before.stores + 1, "the watch");
}
