//! The engines, one file each, and their table.
//!
//! A new engine is one file here and one row of the table: nothing else in the node knows an engine's name. `tests.rs`
//! has one more.
//!
//! ```text
//! checksum       payload · CRC-32 (IEEE 802.3) of it (32)                     wrong ones are dropped
//! compress       0 (8) · payload, or 1 (8) · length (16) · LZ4 block         whichever is shorter
//! fragment(N)    number (16) · index (8) · count (8) · at most N bytes       put together within a second
//! xor(K)         group (16) · index (8) · K (8) · length (16) · payload      after K packets one that is the sum of them (XOR),
//!                                                                           from which one of the K that is lost is found again
//! ```
//!
//! Numbers are big endian.

use super::class::EngineClass;
use super::engine::Engine;
use crate::nodeos::interface::Error;

/// Makes the modules and the table of them.
macro_rules! engines {
    ($($(#[$when:meta])? $file:ident,)+) => {
        $($(#[$when])? mod $file;)+

        /// All there are.
        pub const CLASSES: &[&EngineClass] = &[$($(#[$when])? &$file::CLASS,)+];
    };
}

engines! {
    checksum,
    compress,
    fragment,
    xor,
    #[cfg(test)] tests,
}

/// Makes the engine that a word names, as `xor(3)`.
pub fn make(word: &str) -> Result<(&'static EngineClass, Box<dyn Engine>), Error> {
    let (name, argument) = match word.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').and_then(|digits| digits.parse().ok()))),
        None => (word, None),
    };
    let class = CLASSES.iter().find(|class| class.name == name).ok_or(Error::Unsupported)?;
    let argument = match (&class.argument, argument) {
        (None, None) => 0,
        (Some(possible), Some(Some(number))) if possible.contains(&number) => number,
        _ => return Err(Error::Invalid),
    };
    Ok((class, (class.make)(argument)))
}
