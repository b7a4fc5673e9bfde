//! Named stores of a node: what there is, for people and programs.
//!
//! Keys and values are any bytes. Here they are *shown*: as they are, if they are text without control characters, or
//! else as `0x` and hexadecimal digits. Where one is asked for it is written the same way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Store {
    /// Whose: the environment's name.
    pub holder: String,
    /// Its name among those of its holder.
    pub name: String,
    /// The domain that pays, and with which it ends.
    pub domain: u32,
    /// Changes so far.
    pub version: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes that it holds, those that snapshots alone see among them.
    pub bytes: u64,
    /// Those that it may hold, which are its domain's.
    pub limit: u64,
    /// Whether it outlives its domain and the node.
    pub persistent: bool,
    /// Who else may use it, and how far: `read` or `write`; `*` is everybody.
    pub shares: BTreeMap<String, String>,
    /// Snapshots of it.
    pub snapshots: u64,
    /// Watches on it.
    pub watches: u64,
    /// Changes that a watch had no room for.
    pub lost: u64,
}

/// A key of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// It, as it is shown.
    pub key: String,
    /// The number of the change that has made it.
    pub version: u64,
    /// Bytes of its value.
    pub bytes: u32,
    /// The domain with which it ends, if it does: one that has registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
}

/// Some keys of a store in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Keys {
    /// They.
    pub keys: Vec<Key>,
    /// Behind which the list goes on, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What there is under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// The key, as it is shown.
    pub key: String,
    /// The number of the change that has put it.
    pub version: u64,
    /// Its bytes.
    pub bytes: u64,
    /// It, as it is shown.
    pub value: String,
}

/// What is counted of all stores of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stores {
    /// Stores.
    pub stores: u64,
    /// Keys in them.
    pub keys: u64,
    /// Those that end with the domain that has put them.
    pub registered: u64,
    /// Bytes that they hold.
    pub bytes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Watches.
    pub watches: u64,
    /// Changes that a watch had no room for.
    pub lost: u64,
    /// Calls that would have gone over a bound.
    pub refused: u64,
}

/// Bytes as they are shown.
pub fn shown(bytes: &[u8]) -> String {
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("0x") && !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.iter().fold("0x".to_owned(), |all, byte| all + &format!("{byte:02x}")),
    }
}

/// Bytes that are shown so.
pub fn meant(shown: &str) -> Result<Vec<u8>, String> {
    let Some(digits) = shown.strip_prefix("0x") else { return Ok(shown.as_bytes().to_vec()) };
    let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    let even = digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bytes: Option<Vec<u8>> = even.then(|| digits.as_bytes().chunks(2).map(pair).collect()).flatten();
    bytes.ok_or_else(|| format!("{shown}: behind 0x stand pairs of hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_means_the_same_bytes() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"dns", "dns"),
            (b"a b", "a b"),
            ("ä".as_bytes(), "ä"),
            (b"0x", "0x3078"),
            (b"a\n", "0x610a"),
            (b"\xff", "0xff"),
            (b"\0", "0x00"),
        ] {
            assert_eq!((shown(bytes).as_str(), meant(text).as_deref()), (text, Ok(bytes)));
        }
        for bad in ["0x1", "0xg0", "0x+1"] {
            assert!(meant(bad).is_err(), "{bad}");
        }
    }
}
