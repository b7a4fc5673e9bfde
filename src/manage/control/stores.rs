//! Named stores, for an operator: all of them, pages of keys, single values.
//!
//! He reads all, whoever they are shared with, and changes none: a store is its domain's. The worker that has the stores
//! copies what is asked for; the thread of the connection puts it into words.

use crate::nodeos::store::Stores;
use crate::nodeos::store::ask::{StoreEntry, StoreId, StoreReply};
use model::stores::{Key, Keys, Value, shown};

fn find(stores: &Stores, holder: &str, name: &str) -> Result<StoreId, String> {
    let absent = || format!("there is no store {holder}/{name}: anode store ls lists them");
    stores.find(holder, name).ok_or_else(absent)
}

/// A page of keys.
pub(super) fn keys_of(
    stores: &Stores,
    (holder, name): (&str, &str),
    prefix: &[u8],
    after: Option<&[u8]>,
) -> Result<StoreReply, String> {
    let store = find(stores, holder, name)?;
    stores.keys(store, prefix, after).ok_or_else(|| "the store has just ended".into())
}

/// What there is under a key.
pub(super) fn value_of(stores: &Stores, (holder, name): (&str, &str), key: &[u8]) -> Result<StoreReply, String> {
    let store = find(stores, holder, name)?;
    stores.look_up(store, key).ok_or_else(|| format!("{holder}/{name} has nothing under {}", shown(key)))
}

/// A page in words.
pub(super) fn told_keys(reply: StoreReply) -> Keys {
    let StoreReply::Keys(keys, next) = reply else { return Keys { keys: Vec::new(), next: None } };
    let key = |StoreEntry { key, version, bytes, domain }: StoreEntry| Key {
        key: shown(&key),
        version,
        bytes,
        domain: domain.map(|domain| domain.0),
    };
    Keys { keys: keys.into_iter().map(key).collect(), next: next.map(|key| shown(&key)) }
}

/// A value in words.
pub(super) fn told_value(key: &[u8], reply: &StoreReply) -> Value {
    let (version, value): (u64, &[u8]) = match reply {
        StoreReply::Found(version, value) => (*version, value),
        _ => (0, &[]),
    };
    Value { key: shown(key), version, bytes: value.len() as u64, value: shown(value) }
}
