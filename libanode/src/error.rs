//! Why a call fails: the numbers and names of `enum an_error` in `sdk/anode/nodeos.h`, for the library and for the node alike.

use core::ffi::CStr;
use core::fmt;

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $name:literal, $help:literal;)+) => {
        /// Why a call was refused. The numbers are those of `sdk/anode/nodeos.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Error { $($(#[doc = $doc])+ $variant = $code,)+ }

        impl Error {
            /// All of them.
            pub const ALL: &'static [Error] = &[$(Error::$variant,)+];

            /// The one with this number.
            pub fn of_code(code: u8) -> Option<Error> {
                match code { $($code => Some(Error::$variant),)+ _ => None }
            }

            /// Its name in C.
            pub fn name(self) -> &'static str {
                match self { $(Error::$variant => $name,)+ }
            }

            /// What it means.
            pub fn help(self) -> &'static str {
                match self { $(Error::$variant => $help,)+ }
            }

            /// Its name and what it means, in one line for C.
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
    /// An argument has no meaning.
    Invalid = 1, "AN_EINVAL", "an argument is outside what the call takes";
    /// The object does not exist any more, or never has.
    Stale = 2, "AN_ESTALE", "the object has been destroyed, or its domain has ended";
    /// The object is another domain's.
    Denied = 3, "AN_EACCES", "the object belongs to a domain outside the caller's subtree, or the role lacks the right";
    /// The domain has used up what it was granted.
    Limit = 4, "AN_ELIMIT", "the domain has all it was granted of this";
    /// Another has it already.
    Exists = 5, "AN_EEXIST", "another channel has this address and key, or a file of this name exists";
    /// There is nothing by that name.
    Unknown = 6, "AN_ENOENT", "no interface, route or file of this name";
    /// The node has no more of it, whoever asks.
    Full = 7, "AN_ENOSPC", "the node itself has no more of this";
    /// A packet does not fit.
    TooBig = 8, "AN_EMSGSIZE", "the packet is larger than the link carries";
    /// Too much at once; later it may go.
    Again = 9, "AN_EAGAIN", "the channel's bandwidth or queue is used up for now";
    /// Not offered here.
    Unsupported = 10, "AN_ENOSYS", "this node, or this protocol, does not offer it";
    /// The node is gone, or has ended the domain.
    Ended = 11, "AN_ESHUTDOWN", "the connection to the node has ended, and all objects with it";
    /// The system below failed.
    Io = 12, "AN_EIO", "the file system below failed";
    /// The program's process has no more memory, or no more threads.
    Memory = 13, "AN_ENOMEM", "the process has no memory left for this, or the system no thread";
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.help())
    }
}

impl core::error::Error for Error {}
