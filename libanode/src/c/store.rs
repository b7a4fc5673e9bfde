//! Named stores, snapshots of them and watches on them.
//!
//! Keys and values are bytes of the program's, read during the call. What comes in lists is handed to a function of the
//! program's, key by key, by the thread that calls and while nothing is locked: so the function may call too.

use super::file::domain_of;
use super::{code, object, put, spec, text};
use crate::crew::{Argument, ObjectFunction, Watch};
use crate::error::Error;
use crate::layout;
use crate::message::{
    self, Answer, Call, STORE_KEY_MAX, STORE_VALUE_MAX, StoreChange, StoreEntry, StoreKey, StoreValue,
};
use crate::objects::{self, Object, Place, Plain, PlainKind};
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

/// A store to be made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStoreSpec {
    bytes: u64,
    flags: c_uint,
}

layout::an_StoreSpec!(CStoreSpec);

/// What is known of a store.
#[repr(C)]
pub struct CStoreFacts {
    version: u64,
    keys: u64,
    bytes: u64,
    limit: u64,
}

layout::an_StoreFacts!(CStoreFacts);

const FLAGS: c_uint = layout::AN_STORE_EXCLUSIVE | layout::AN_STORE_PERSISTENT;

/// Gets the keys of a list; goes on with 0.
pub type KeyFunction = extern "C" fn(*const c_void, usize, usize, u64, *mut c_void) -> c_int;
/// Gets changes.
pub type ChangeFunction = extern "C" fn(*const c_void, usize, u64, c_int, *mut c_void);

/// Bytes of a program's.
///
/// # Safety
/// The pointer leads to so many bytes, or is NULL.
unsafe fn bytes(from: *const c_void, length: usize, most: usize) -> Result<Vec<u8>, Error> {
    if length > most || (from.is_null() && length > 0) {
        return Err(Error::Invalid);
    }
    if length == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise, and it is not NULL.
    Ok(unsafe { core::slice::from_raw_parts(from.cast::<u8>(), length) }.to_vec())
}

/// A key of a program's.
///
/// # Safety
/// As of [`bytes`].
unsafe fn key_of(from: *const c_void, length: usize) -> Result<StoreKey, Error> {
    // SAFETY: the caller's promise.
    unsafe { bytes(from, length, STORE_KEY_MAX) }.map(StoreKey)
}

fn store_of(store: *const c_void) -> Result<Arc<Plain>, Error> {
    objects::find_plain(store, PlainKind::Store)
}

/// The node's name of a snapshot, if there is one, of the same connection.
fn snapshot_of(snapshot: *const c_void, store: &Plain) -> Result<Option<u32>, Error> {
    if snapshot.is_null() {
        return Ok(None);
    }
    let found = objects::find_plain(snapshot, PlainKind::Snapshot)?;
    if Arc::ptr_eq(&found.session, &store.session) { Ok(Some(found.name)) } else { Err(Error::Denied) }
}

/// Puts a number where a program wants it, if it does.
///
/// # Safety
/// The pointer is NULL or leads to memory for it.
unsafe fn put_if<T>(to: *mut T, value: T) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    if to.is_null() { Ok(()) } else { unsafe { put(to, value) } }
}

/// Asks for a store, and makes it if there is none and it is to be made.
///
/// # Safety
/// `holder` and `name` are NULL or strings, `spec` is NULL or leads to a specification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeOpen(
    mem: *mut c_void,
    domain: *mut c_void,
    holder: *const c_char,
    name: *const c_char,
    storespec: *const CStoreSpec,
) -> *mut c_void {
    let open = || {
        let (place, domain) = (Place::of(mem)?, domain_of(domain)?);
        // SAFETY: the caller's promise.
        let holder = if holder.is_null() { None } else { Some(unsafe { text(holder) }?) };
        // SAFETY: the same.
        let name = unsafe { text(name) }?;
        let mut make = None;
        if !storespec.is_null() {
            // SAFETY: the same.
            let CStoreSpec { bytes, flags } = unsafe { spec(storespec) }?;
            if flags & !FLAGS != 0 {
                return Err(Error::Invalid);
            }
            let [exclusive, persistent] =
                [layout::AN_STORE_EXCLUSIVE, layout::AN_STORE_PERSISTENT].map(|flag| flags & flag != 0);
            make = Some(message::StoreSpec { bytes, exclusive, persistent });
        }
        let session = domain.session.clone();
        session.call_then(&Call::StoreOpen { domain: domain.name, holder, name, make }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let store = Plain { session: session.clone(), domain: domain.name, name };
            objects::add(place, Object::Store(Arc::new(store)))
        })
    };
    object(open())
}

/// Forgets a store; it stays in the node.
#[unsafe(no_mangle)]
pub extern "C" fn an_storeClose(store: *mut c_void) -> c_int {
    code(objects::remove_plain(store, PlainKind::Store).map(drop))
}

/// Ends a store.
#[unsafe(no_mangle)]
pub extern "C" fn an_storeRemove(store: *mut c_void) -> c_int {
    let remove = || {
        let found = store_of(store)?;
        found.session.call(&Call::StoreRemove { domain: found.domain, store: found.name })?;
        objects::remove_plain(store, PlainKind::Store).map(drop)
    };
    code(remove())
}

/// Reads what is under a key, now or in a snapshot.
///
/// # Safety
/// `key` leads to `keybytes` bytes, `value` to `room`, the others to memory for a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeGet(
    store: *mut c_void,
    snapshot: *mut c_void,
    key: *const c_void,
    keybytes: usize,
    value: *mut c_void,
    room: usize,
    length: *mut usize,
    version: *mut u64,
) -> c_int {
    let get = || {
        let found = store_of(store)?;
        let snapshot = snapshot_of(snapshot, &found)?;
        // SAFETY: the caller's promise.
        let key = unsafe { key_of(key, keybytes) }?;
        let call = Call::StoreGet { domain: found.domain, store: found.name, snapshot, key };
        let Answer::Value { version: number, value: StoreValue(data) } = found.session.call(&call)? else {
            return Err(Error::Ended);
        };
        // SAFETY: the caller's promise.
        unsafe { put(length, data.len()) }?;
        // SAFETY: the same.
        unsafe { put_if(version, number) }?;
        if data.len() > room || (value.is_null() && !data.is_empty()) {
            return Err(Error::Invalid);
        }
        if !data.is_empty() {
            // SAFETY: the caller's promise: `room` bytes are there, and these are not more.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), value.cast::<u8>(), data.len()) };
        }
        Ok(())
    };
    code(get())
}

/// Makes a change, and puts its number where the program wants it.
///
/// # Safety
/// `expected` and `version` are NULL or lead to a number.
unsafe fn change(
    store: *mut c_void,
    expected: *const u64,
    version: *mut u64,
    call: impl FnOnce(&Plain, Option<u64>) -> Result<Call, Error>,
) -> Result<(), Error> {
    let found = store_of(store)?;
    if !version.is_aligned() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise.
    let expected = if expected.is_null() { None } else { Some(unsafe { spec(expected) }?) };
    let Answer::Number { number } = found.session.call(&call(&found, expected)?)? else { return Err(Error::Ended) };
    // SAFETY: the same.
    unsafe { put_if(version, number) }
}

/// Writes a value under a key, by a call that is made of the domain and the store, the key, the value, and the expected version.
///
/// # Safety
/// As [`an_storePut`].
unsafe fn keep(
    store: *mut c_void,
    (key, keybytes): (*const c_void, usize),
    (value, length): (*const c_void, usize),
    (expected, version): (*const u64, *mut u64),
    call: impl FnOnce((u32, u32), StoreKey, StoreValue, Option<u64>) -> Call,
) -> c_int {
    let call = |found: &Plain, expected| {
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (key_of(key, keybytes)?, StoreValue(bytes(value, length, STORE_VALUE_MAX)?)) };
        Ok(call((found.domain, found.name), key, value, expected))
    };
    // SAFETY: the same.
    code(unsafe { change(store, expected, version, call) })
}

/// Keeps a value under a key.
///
/// # Safety
/// `key` leads to `keybytes` bytes, `value` to `length`, the others to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storePut(
    store: *mut c_void,
    key: *const c_void,
    keybytes: usize,
    value: *const c_void,
    length: usize,
    expected: *const u64,
    version: *mut u64,
) -> c_int {
    let call = |(domain, store), key, value, expected| Call::StorePut { domain, store, key, value, expected };
    // SAFETY: the caller's promise.
    unsafe { keep(store, (key, keybytes), (value, length), (expected, version), call) }
}

/// Keeps a value under a key until the domain ends for which the store was opened.
///
/// # Safety
/// As [`an_storePut`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeRegister(
    store: *mut c_void,
    key: *const c_void,
    keybytes: usize,
    value: *const c_void,
    length: usize,
    expected: *const u64,
    version: *mut u64,
) -> c_int {
    let call = |(domain, store), key, value, expected| Call::StoreRegister { domain, store, key, value, expected };
    // SAFETY: the caller's promise.
    unsafe { keep(store, (key, keybytes), (value, length), (expected, version), call) }
}

/// Takes a key away.
///
/// # Safety
/// `key` leads to `keybytes` bytes, the others to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeDelete(
    store: *mut c_void,
    key: *const c_void,
    keybytes: usize,
    expected: *const u64,
    version: *mut u64,
) -> c_int {
    let call = |found: &Plain, expected| {
        // SAFETY: the caller's promise.
        let key = unsafe { key_of(key, keybytes) }?;
        Ok(Call::StoreDelete { domain: found.domain, store: found.name, key, expected })
    };
    // SAFETY: the same.
    code(unsafe { change(store, expected, version, call) })
}

/// Hands all keys with a beginning to a function, in their order, until it gives something else than 0.
///
/// # Safety
/// `prefix` leads to `prefixbytes` bytes or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeList(
    store: *mut c_void,
    snapshot: *mut c_void,
    prefix: *const c_void,
    prefixbytes: usize,
    function: Option<KeyFunction>,
    argument: *mut c_void,
) -> c_int {
    let list = || {
        let found = store_of(store)?;
        let snapshot = snapshot_of(snapshot, &found)?;
        // SAFETY: the caller's promise.
        let prefix = unsafe { key_of(prefix, prefixbytes) }?;
        let function = function.ok_or(Error::Invalid)?;
        let mut after = None;
        loop {
            let (domain, store, prefix) = (found.domain, found.name, prefix.clone());
            let call = Call::StoreList { domain, store, snapshot, prefix, after };
            let Answer::Keys { keys, next } = found.session.call(&call)? else { return Err(Error::Ended) };
            for StoreEntry { key: StoreKey(key), version, bytes } in keys {
                if function(key.as_ptr().cast(), key.len(), bytes as usize, version, argument) != 0 {
                    return Ok(());
                }
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
    };
    code(list())
}

/// Lets another holder use a store.
///
/// # Safety
/// `with` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeShare(store: *mut c_void, with: *const c_char, access: c_int) -> c_int {
    let share = || {
        let found = store_of(store)?;
        // SAFETY: the caller's promise.
        let with = unsafe { text(with) }?;
        let access = u8::try_from(access).map_err(|_| Error::Invalid)?;
        let call = Call::StoreShare { domain: found.domain, store: found.name, with, access };
        found.session.call(&call).map(drop)
    };
    code(share())
}

/// What is known of a store.
///
/// # Safety
/// `facts` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_storeFacts(store: *mut c_void, facts: *mut CStoreFacts) -> c_int {
    let ask = || {
        let found = store_of(store)?;
        let call = Call::StoreFacts { domain: found.domain, store: found.name };
        let Answer::Facts { facts: message::StoreFacts { version, keys, bytes, limit } } = found.session.call(&call)?
        else {
            return Err(Error::Ended);
        };
        // SAFETY: the caller's promise.
        unsafe { put(facts, CStoreFacts { version, keys, bytes, limit }) }
    };
    code(ask())
}

/// Waits until a store's changes so far are on the disk.
#[unsafe(no_mangle)]
pub extern "C" fn an_storeSync(store: *mut c_void) -> c_int {
    let sync = || {
        let found = store_of(store)?;
        found.session.call(&Call::StoreSync { domain: found.domain, store: found.name }).map(drop)
    };
    code(sync())
}

/// Has a store be readable as it is now.
#[unsafe(no_mangle)]
pub extern "C" fn an_snapshotCreate(mem: *mut c_void, store: *mut c_void) -> *mut c_void {
    let create = || {
        let (place, found) = (Place::of(mem)?, store_of(store)?);
        let session = found.session.clone();
        session.call_then(&Call::SnapshotCreate { domain: found.domain, store: found.name }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let snapshot = Plain { session: session.clone(), domain: found.domain, name };
            objects::add(place, Object::Snapshot(Arc::new(snapshot)))
        })
    };
    object(create())
}

/// Ends that.
#[unsafe(no_mangle)]
pub extern "C" fn an_snapshotDestroy(snapshot: *mut c_void) -> c_int {
    let destroy = || {
        let found = objects::remove_plain(snapshot, PlainKind::Snapshot)?;
        found.session.call(&Call::SnapshotDestroy { domain: found.domain, snapshot: found.name }).map(drop)
    };
    code(destroy())
}

/// Has a function be called when something has changed.
///
/// # Safety
/// `prefix` leads to `prefixbytes` bytes or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_watchCreate(
    mem: *mut c_void,
    store: *mut c_void,
    prefix: *const c_void,
    prefixbytes: usize,
    function: Option<ObjectFunction>,
    argument: *mut c_void,
) -> *mut c_void {
    let create = || {
        let (place, found) = (Place::of(mem)?, store_of(store)?);
        // SAFETY: the caller's promise.
        let prefix = unsafe { key_of(prefix, prefixbytes) }?;
        let session = found.session.clone();
        let watch = Arc::new(Watch {
            session: session.clone(),
            domain: found.domain,
            name: OnceLock::new(),
            handle: OnceLock::new(),
            function: function.ok_or(Error::Invalid)?,
            argument: Argument::of(argument),
        });
        // A change may come before the answer: so it is known before the call.
        let handle = objects::add(place, Object::Watch(watch.clone()))?;
        let _ = watch.handle.set(handle as usize);
        let number = session.number();
        session.desk().add_watch(number, &watch);
        let call = Call::WatchCreate { domain: found.domain, store: found.name, prefix, argument: number };
        let created = session.call_then(&call, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let _ = watch.name.set(name);
            Ok(handle)
        });
        created.inspect_err(|_| {
            session.desk().remove_watch(&watch);
            let _ = objects::remove::<Watch>(handle);
        })
    };
    object(create())
}

/// The node's name of a watch: it has one as soon as the call that creates it has returned.
fn name_of(watch: &Watch) -> Result<u32, Error> {
    watch.session.let_calls_finish();
    watch.name.get().copied().ok_or(Error::Stale)
}

/// Ends that.
#[unsafe(no_mangle)]
pub extern "C" fn an_watchDestroy(watch: *mut c_void) -> c_int {
    let destroy = || {
        let watch = objects::remove::<Watch>(watch)?;
        watch.session.desk().remove_watch(&watch);
        let call = Call::WatchDestroy { domain: watch.domain, watch: name_of(&watch)? };
        watch.session.call(&call).map(drop)
    };
    code(destroy())
}

/// Hands what has changed to a function, and says how many more changes there were.
///
/// # Safety
/// `lost` is NULL or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_watchRead(
    watch: *mut c_void,
    function: Option<ChangeFunction>,
    argument: *mut c_void,
    lost: *mut u64,
) -> c_int {
    let read = || {
        let watch = objects::find::<Watch>(watch)?;
        let function = function.ok_or(Error::Invalid)?;
        // SAFETY: the caller's promise.
        unsafe { put(lost, 0) }?;
        let call = Call::WatchRead { domain: watch.domain, watch: name_of(&watch)? };
        let Answer::Changes { changes, lost: more } = watch.session.call(&call)? else { return Err(Error::Ended) };
        // SAFETY: the same.
        unsafe { put(lost, more) }?;
        for StoreChange { key: StoreKey(key), version, deleted } in changes {
            function(key.as_ptr().cast(), key.len(), version, deleted.into(), argument);
        }
        Ok(())
    };
    code(read())
}
