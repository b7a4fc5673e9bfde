//! Why a call fails: the numbers and names of `enum an_error` in `sdk/anode/nodeos.h`.
//!
//! The node's own enumeration (`nodeos::interface::Error`) has the same; a test of the node compares the two and the header.

use core::ffi::CStr;

macro_rules! errors {
    ($($variant:ident = $code:literal, $name:literal, $help:literal;)+) => {
        /// Why a call was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Error { $($variant = $code,)+ }

        impl Error {
            /// All of them.
            pub const ALL: &'static [Error] = &[$(Error::$variant,)+];

            /// The one with this number.
            pub fn of_code(code: u8) -> Option<Error> {
                match code { $($code => Some(Error::$variant),)+ _ => None }
            }

            /// Its name and what it means, in one line.
            pub fn text(self) -> &'static CStr {
                match self { $(Error::$variant => text(concat!($name, ": ", $help, "\0")),)+ }
            }
        }
    };
}

const fn text(line: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(line.as_bytes()) {
        Ok(line) => line,
        Err(_) => panic!("a line without NUL but at its end"),
    }
}

errors! {
    Invalid = 1, "AN_EINVAL", "an argument is outside what the call takes";
    Stale = 2, "AN_ESTALE", "the object has been destroyed, or its domain has ended";
    Denied = 3, "AN_EACCES", "the object belongs to a domain outside the caller's subtree, or the role lacks the right";
    Limit = 4, "AN_ELIMIT", "the domain has all it was granted of this";
    Exists = 5, "AN_EEXIST", "another channel has this address and key, or a file of this name exists";
    Unknown = 6, "AN_ENOENT", "no interface, route or file of this name";
    Full = 7, "AN_ENOSPC", "the node itself has no more of this";
    TooBig = 8, "AN_EMSGSIZE", "the packet is larger than the link carries";
    Again = 9, "AN_EAGAIN", "the channel's bandwidth or queue is used up for now";
    Unsupported = 10, "AN_ENOSYS", "this node, or this protocol, does not offer it";
    Ended = 11, "AN_ESHUTDOWN", "the connection to the node has ended, and all objects with it";
    Io = 12, "AN_EIO", "the file system below failed";
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text().to_string_lossy())
    }
}

impl core::error::Error for Error {}
