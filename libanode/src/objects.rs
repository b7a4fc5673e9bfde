//! The names under which a program knows its objects.
//!
//! To a program an object is a pointer to a structure it never sees. The pointers given out are numbers that mean no address, each
//! used once, or the memory that the program has passed (the explicit model); either is looked up here and never followed. So any
//! pointer may be passed to any call: what is not a living object of the kind asked for is refused.

use crate::c::OwnClassifier;
use crate::crew::{Channel, Event, ProcessDomain, Watch};
use crate::error::Error;
use crate::heap::Heap;
use crate::numbers::Numbers;
use crate::session::Session;
use core::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Bytes of the memory that stands for an object in the explicit model, and their alignment. Only its address is used.
pub const OBJECT_BYTES: usize = 16;

/// Objects of a process at the same time.
const OBJECTS_MAX: usize = 1 << 20;

/// The bit that no address has which a program can use.
const TAG: u64 = 1 << 63;

/// The names that a module's objects can have: its pointers have four bytes.
pub(crate) const NARROW: u64 = (1 << 30) - 1;

/// Where names of objects begin: packets are named below (see [`packet_name`]).
pub(crate) const OBJECTS: u64 = TAG | 1 << 62;

/// A channel that sends.
pub struct OutChan {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The node's name of it.
    pub name: u32,
}

/// What the node names and the library only passes on.
pub struct Plain {
    /// Its session.
    pub session: Arc<Session>,
    /// The domain it goes with.
    pub domain: u32,
    /// The node's name of it.
    pub name: u32,
}

/// A TCP stream, by the socket that the node has given for it.
pub struct Socket {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The node's name of it.
    pub name: u32,
    /// The socket.
    pub fd: OwnedFd,
}

/// A channel that TCP streams come by.
pub struct StreamChan(pub Socket);

/// A channel that packets go through.
pub struct CutChan {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The node's name of it.
    pub name: u32,
    /// The channels that were created with it and go with it.
    pub ends: Option<(u32, u32)>,
}

/// What a domain may use.
pub struct Credential {
    /// The role it speaks of.
    pub role: String,
}

/// An object of a program's.
#[derive(Clone)]
pub enum Object {
    /// A connection to a node.
    Node(Arc<Session>),
    /// A domain.
    Domain(Arc<ProcessDomain>),
    /// A memory pool.
    Pool(Arc<Plain>),
    /// An incoming channel.
    In(Arc<Channel>),
    /// An outgoing channel.
    Out(Arc<OutChan>),
    /// A cut-through channel.
    Cut(Arc<CutChan>),
    /// An event to come.
    Event(Arc<Event>),
    /// A credential.
    Credential(Arc<Credential>),
    /// An open file.
    File(Arc<Plain>),
    /// A store.
    Store(Arc<Plain>),
    /// A snapshot of a store.
    Snapshot(Arc<Plain>),
    /// A watch on a store.
    Watch(Arc<Watch>),
    /// A heap.
    Heap(Arc<Heap>),
    /// A classifier.
    Classifier(Arc<OwnClassifier>),
    /// A TCP stream.
    Stream(Arc<Socket>),
    /// A channel for some.
    StreamChan(Arc<StreamChan>),
}

impl Object {
    /// The session and domain that it goes with, if it goes with one.
    fn belongs(&self) -> Option<(&Arc<Session>, u32)> {
        match self {
            Object::Node(_) | Object::Credential(_) => None,
            Object::Domain(domain) => Some((&domain.session, domain.name)),
            Object::In(channel) => Some((&channel.session, channel.domain)),
            Object::Out(channel) => Some((&channel.session, channel.domain)),
            Object::Event(event) => Some((&event.session, event.domain)),
            Object::Cut(channel) => Some((&channel.session, channel.domain)),
            Object::Pool(plain) | Object::File(plain) | Object::Store(plain) | Object::Snapshot(plain) => {
                Some((&plain.session, plain.domain))
            }
            Object::Watch(watch) => Some((&watch.session, watch.domain)),
            Object::Classifier(own) => Some((&own.session, own.domain)),
            Object::Stream(stream) => Some((&stream.session, stream.domain)),
            Object::StreamChan(chan) => Some((&chan.0.session, chan.0.domain)),
            Object::Heap(heap) => Some((heap.session(), heap.domain())),
        }
    }
}

/// What can be asked for by kind.
pub trait Kind: Sized {
    /// The object if it is of this kind.
    fn of(object: &Object) -> Option<Arc<Self>>;
}

macro_rules! kinds {
    ($($type:ty = $variant:ident)+) => {$(
        impl Kind for $type {
            fn of(object: &Object) -> Option<Arc<$type>> {
                match object { Object::$variant(found) => Some(found.clone()), _ => None }
            }
        }
    )+};
}

kinds! { Session = Node ProcessDomain = Domain Channel = In OutChan = Out CutChan = Cut Event = Event Credential = Credential Heap = Heap
Watch = Watch OwnClassifier = Classifier Socket = Stream StreamChan = StreamChan }

/// A memory pool, a file, a store or a snapshot: the same to the library, but not to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainKind {
    /// A memory pool.
    Pool,
    /// A file.
    File,
    /// A store.
    Store,
    /// A snapshot of one.
    Snapshot,
}

#[derive(Default)]
struct Registry {
    objects: Numbers<u64, Object>,
    /// The names of the objects of each domain, by the slot of its session and its own number.
    of: Numbers<u64, Numbers<u64, ()>>,
    serial: u64,
}

/// The key of a domain's names.
fn owner(session: &Session, domain: u32) -> u64 {
    u64::from(session.slot()) << 32 | u64::from(domain)
}

impl Registry {
    /// A name that was not given before. Those of a module's objects begin anew after a thousand million.
    fn fresh(&mut self) -> u64 {
        let mask = if crate::c::module::runs() { NARROW } else { u64::MAX };
        loop {
            self.serial += 1;
            let name = OBJECTS | (self.serial & mask);
            if !self.objects.contains_key(&name) {
                return name;
            }
        }
    }

    /// Takes an object out.
    fn take(&mut self, name: u64) -> Option<Object> {
        let object = self.objects.remove(&name)?;
        if let Some(owner) = object.belongs().map(|(session, domain)| owner(session, domain))
            && let Some(names) = self.of.get_mut(&owner)
        {
            names.remove(&name);
            if names.is_empty() {
                self.of.remove(&owner);
            }
        }
        Some(object)
    }
}

fn registry() -> &'static RwLock<Registry> {
    static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(RwLock::default)
}

/// Where an object's name is written in the explicit model.
#[derive(Clone, Copy, Debug)]
pub struct Place(Option<u64>);

impl Place {
    /// The place a program names: no memory, or some that is aligned and holds no living object.
    pub fn of(mem: *mut c_void) -> Result<Place, Error> {
        crate::heap::has_room()?;
        let address = mem as u64;
        if mem.is_null() {
            return Ok(Place(None));
        }
        let taken = registry().read().unwrap_or_else(PoisonError::into_inner).objects.contains_key(&address);
        let fits = address.is_multiple_of(OBJECT_BYTES as u64) && address & TAG == 0;
        if fits && !taken { Ok(Place(Some(address))) } else { Err(Error::Invalid) }
    }
}

/// Gives an object its name.
pub fn add(place: Place, object: Object) -> Result<*mut c_void, Error> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    if registry.objects.len() >= OBJECTS_MAX {
        return Err(Error::Full);
    }
    let name = place.0.unwrap_or_else(|| registry.fresh());
    if registry.objects.contains_key(&name) {
        return Err(Error::Invalid);
    }
    if let Some((session, domain)) = object.belongs() {
        let owner = owner(session, domain);
        registry.of.entry(owner).or_default().insert(name, ());
    }
    registry.objects.insert(name, object);
    Ok(name as *mut c_void)
}

/// The object of this kind and name.
pub fn find<K: Kind>(name: *const c_void) -> Result<Arc<K>, Error> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    let object = registry.objects.get(&(name as u64)).ok_or(gone(name))?;
    K::of(object).ok_or(Error::Invalid)
}

/// Takes the name of an object away; of two that try, one fails.
pub fn remove<K: Kind>(name: *const c_void) -> Result<Arc<K>, Error> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    let object = registry.objects.get(&(name as u64)).ok_or(gone(name))?;
    let found = K::of(object).ok_or(Error::Invalid)?;
    registry.take(name as u64);
    Ok(found)
}

fn plain(object: &Object, kind: PlainKind) -> Option<Arc<Plain>> {
    match (object, kind) {
        (Object::Pool(plain), PlainKind::Pool)
        | (Object::File(plain), PlainKind::File)
        | (Object::Store(plain), PlainKind::Store)
        | (Object::Snapshot(plain), PlainKind::Snapshot) => Some(plain.clone()),
        _ => None,
    }
}

/// The object of this name and kind.
pub fn find_plain(name: *const c_void, kind: PlainKind) -> Result<Arc<Plain>, Error> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    plain(registry.objects.get(&(name as u64)).ok_or(gone(name))?, kind).ok_or(Error::Invalid)
}

/// Takes its name away.
pub fn remove_plain(name: *const c_void, kind: PlainKind) -> Result<Arc<Plain>, Error> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    let found = plain(registry.objects.get(&(name as u64)).ok_or(gone(name))?, kind).ok_or(Error::Invalid)?;
    registry.take(name as u64);
    Ok(found)
}

/// Takes the names of all objects of a session's domains away, or of all its domains.
pub fn remove_of(session: &Arc<Session>, domains: Option<&[u32]>) {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    let goes = |object: &Object| object.belongs().is_some_and(|(of, _)| Arc::ptr_eq(of, session));
    let gone: Vec<u64> = match domains {
        Some(domains) => {
            let owned = domains.iter().filter_map(|domain| registry.of.get(&owner(session, *domain)));
            owned.flat_map(|names| names.keys().copied()).collect()
        }
        None => registry.objects.iter().filter(|(_, object)| goes(object)).map(|(name, _)| *name).collect(),
    };
    let gone: Vec<_> = gone.into_iter().filter_map(|name| registry.take(name)).collect();
    // Behind the lock: what they hold may look for others when it goes.
    drop(registry);
    drop(gone);
}

fn gone(name: *const c_void) -> Error {
    if name.is_null() { Error::Invalid } else { Error::Stale }
}

/// The name of a packet: of which session (by its slot), in which buffer, for which time.
pub fn packet_name(slot: u8, packet: crate::buffers::Packet) -> *mut c_void {
    (TAG | u64::from(slot) << 48 | u64::from(packet.generation) << 16 | u64::from(packet.buffer)) as *mut c_void
}

/// The name of a thread, which is no object and only to be compared.
pub fn thread_name(number: u64) -> *mut c_void {
    (OBJECTS | 1 << 61 | number) as *mut c_void
}

/// The slot and the packet that a name speaks of.
pub fn packet_of(name: *const c_void) -> Result<(u8, crate::buffers::Packet), Error> {
    let name = name as u64;
    if name >> 56 != TAG >> 56 {
        let is_object =
            name != 0 && registry().read().unwrap_or_else(PoisonError::into_inner).objects.contains_key(&name);
        return Err(if is_object || name == 0 { Error::Invalid } else { Error::Stale });
    }
    let generation = (name >> 16) as u32;
    Ok(((name >> 48) as u8, crate::buffers::Packet { buffer: name as u16, generation }))
}
