//! Messages between the node and the loader; descriptors travel beside them.

use crate::code::bundle::{REPRESENTATION_MAX, WINDOW_MAX};
use crate::code::link::Constants;
use std::os::fd::BorrowedFd;

/// Bytes before the code in a message.
const HEAD: usize = 20;

/// Bytes of the longest message.
pub(super) const MESSAGE: usize = HEAD + REPRESENTATION_MAX;

/// Bytes of the words of a refusal.
pub const WORDS: usize = 4 << 10;

/// Mobile code to be linked and loaded.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// The code, as it travels.
    pub code: Vec<u8>,
    /// What says which code it is.
    pub constants: Constants,
    /// The maps that it and what it is linked with refer to, in the order in which the linker lists them.
    pub maps: Vec<BorrowedFd<'a>>,
}

impl Wanted<'_> {
    /// The constants, then the code.
    pub fn encode(&self) -> Vec<u8> {
        let Constants { slot, window, sets, keep_ms, children } = self.constants;
        let words = [slot, window, sets, keep_ms, children].map(u32::to_ne_bytes);
        [words.as_flattened(), &self.code].concat()
    }

    /// Reads a message of the node's. The verifier takes the window's size from it, so that is bounded here too.
    pub fn decode(message: &[u8]) -> Option<Wanted<'static>> {
        let (words, code) = message.split_at_checked(HEAD).filter(|_| message.len() <= MESSAGE)?;
        let mut words = words.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
        let mut next = || words.next();
        let (slot, window, sets, keep_ms, children) = (next()?, next()?, next()?, next()?, next()?);
        if window > WINDOW_MAX || !sets.is_power_of_two() {
            return None;
        }
        let constants = Constants { slot, window, sets, keep_ms, children };
        Some(Wanted { code: code.to_vec(), constants, maps: Vec::new() })
    }
}

/// The words of a refusal, as many as go into an answer.
pub fn words(why: &str) -> &[u8] {
    &why.as_bytes()[..why.floor_char_boundary(WORDS)]
}

/// Reads the words of a refusal.
pub fn read_words(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSTANTS: Constants = Constants { slot: 1, window: 16, sets: 4, keep_ms: 1000, children: 2 };

    fn passed(constants: Constants, code: Vec<u8>) -> Option<(Constants, Vec<u8>)> {
        let wanted = Wanted { code, constants, maps: Vec::new() };
        Wanted::decode(&wanted.encode()).map(|there| (there.constants, there.code))
    }

    #[test]
    fn what_is_wanted_survives_the_way() {
        assert_eq!(passed(CONSTANTS, vec![1; 16]), Some((CONSTANTS, vec![1; 16])));
        let message = Wanted { constants: CONSTANTS, ..Wanted::default() }.encode();
        assert!((0..HEAD).all(|end| Wanted::decode(&message[..end]).is_none()));
    }

    #[test]
    fn what_no_node_wants_is_refused() {
        let window = |window| passed(Constants { window, ..CONSTANTS }, Vec::new());
        assert!(window(WINDOW_MAX).is_some() && window(WINDOW_MAX + 1).is_none() && window(u32::MAX).is_none());
        let sets = |sets| passed(Constants { sets, ..CONSTANTS }, Vec::new());
        assert!(sets(1).is_some() && sets(1 << 31).is_some() && sets(0).is_none() && sets(3).is_none());
        assert!(passed(CONSTANTS, vec![0; REPRESENTATION_MAX]).is_some());
        assert!(passed(CONSTANTS, vec![0; REPRESENTATION_MAX + 1]).is_none());
    }

    #[test]
    fn long_words_are_cut_between_letters() {
        let long = "x".to_owned() + &"\u{e9}".repeat(WORDS);
        assert_eq!(read_words(words(&long)), long[..WORDS - 1]);
        assert_eq!(read_words(words("why")), "why");
    }
}
