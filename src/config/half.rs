//! `kernel` of a port: whether capsules that come in by it run in the kernel when they may. Example: `kernel = "auto"`.
//!
//! With `"auto"` link and traffic decide while the node runs. A configuration whose routes are its own has no kernel half
//! then, since that obeys the kernel's.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// What a port says of the kernel half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelWish {
    /// It does not stand there.
    #[default]
    No,
    /// It stands there.
    Yes,
    /// Link and traffic decide.
    Auto,
}

impl KernelWish {
    /// Whether it may stand there at some time.
    pub fn may(self) -> bool {
        self != KernelWish::No
    }
}

impl Serialize for KernelWish {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            KernelWish::Auto => to.serialize_str("auto"),
            written => to.serialize_bool(*written == KernelWish::Yes),
        }
    }
}

impl<'de> Deserialize<'de> for KernelWish {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KernelWish, D::Error> {
        from.deserialize_any(Wishes)
    }
}

struct Wishes;

impl Visitor<'_> for Wishes {
    type Value = KernelWish;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: Error>(self, wanted: bool) -> Result<KernelWish, E> {
        Ok(if wanted { KernelWish::Yes } else { KernelWish::No })
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<KernelWish, E> {
        match word {
            "auto" => Ok(KernelWish::Auto),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
        }
    }
}
