//! Errors of calls: the numbers and names of `enum an_error` in `sdk/anode/nodeos.h`, for the library and for the node
//! alike.

use crate::layout;
use core::ffi::CStr;
use core::fmt;

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:ident, $help:literal;)+) => {
        /// Why a call was refused. The numbers are those of `sdk/anode/nodeos.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Error { $($(#[doc = $doc])+ $variant = layout::$name as u8,)+ }

        impl Error {
            /// All of them.
            pub const ALL: &'static [Error] = &[$(Error::$variant,)+];

            /// The one with this number.
            pub fn of_code(code: u8) -> Option<Error> {
                Error::ALL.iter().copied().find(|error| *error as u8 == code)
            }

            /// Its name in C.
            pub fn name(self) -> &'static str {
                match self { $(Error::$variant => stringify!($name),)+ }
            }

            /// What it means.
            pub fn help(self) -> &'static str {
                match self { $(Error::$variant => $help,)+ }
            }

            /// Its name and what it means, in one line for C.
            pub fn text(self) -> &'static CStr {
                match self { $(Error::$variant => text(concat!(stringify!($name), ": ", $help, "\0")),)+ }
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
    Invalid = AN_EINVAL, "an argument is outside what the call takes";
    /// The object does not exist any more, or never has.
    Stale = AN_ESTALE, "the object has been destroyed, or its domain has ended";
    /// The object is another domain's.
    Denied = AN_EACCES, "the object belongs to a domain outside the caller's subtree, or the role lacks the right";
    /// The domain has used up what it was granted.
    Limit = AN_ELIMIT, "the domain has all it was granted of this";
    /// Another has it already.
    Exists = AN_EEXIST, "another channel has this address and key, or a file of this name exists";
    /// There is nothing by that name.
    Unknown = AN_ENOENT, "no interface, route or file of this name";
    /// The node has no more of it, whoever asks.
    Full = AN_ENOSPC, "the node itself has no more of this";
    /// A packet does not fit.
    TooBig = AN_EMSGSIZE, "the packet is larger than the link carries";
    /// Too much at once; later it may go.
    Again = AN_EAGAIN, "the channel's bandwidth or queue is used up for now";
    /// Not offered here.
    Unsupported = AN_ENOSYS, "this node, or this protocol, does not offer it";
    /// The node is gone, or has ended the domain.
    Ended = AN_ESHUTDOWN, "the connection to the node has ended, and all objects with it";
    /// The system below failed.
    Io = AN_EIO, "the file system below failed";
    /// The program's process has no more memory, or no more threads.
    Memory = AN_ENOMEM, "the process has no memory left for this, or the system no thread";
    /// Somebody else was first.
    Changed = AN_ECHANGED, "what is kept is not what was expected";
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.help())
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_go_by_number_and_name() {
        for error in Error::ALL {
            assert_eq!(Error::of_code(*error as u8), Some(*error));
            assert!(error.name().starts_with("AN_E") && error.text().to_string_lossy().starts_with(error.name()));
        }
        assert_eq!(Error::of_code(0), None, "AN_OK");
    }
}
