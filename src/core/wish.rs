//! Wishes of mobile code that graphs of the node become others (`an_graph_wish(3)`), in words that both halves and all workers see.
//!
//! ```text
//! has its role an edit 3? ──no──▶ refused, counted
//!   │ yes
//!   ▼ is it wished for already? ──yes──▶ 0: it is done once for both
//!   │ no
//!   ▼ has the role changes left? ──no──▶ later, counted
//!   └─▶ 0: bit 3 of the word of wishes, until the node takes it (src/node/wishing.rs)
//! ```
//!
//! Nothing waits here and nothing is queued: a million wishes are one bit. The node says in two more words which edits there are and which
//! may be wished for now; the rules for that are the node's alone. The kernel half has the same steps in `bpf/environment.h`.

use crate::abi::CallError;
use crate::trust::edits::EDIT_NUMBERS;
use core::fmt::Debug;
use core::sync::atomic::{AtomicU64, Ordering};

const _: () = assert!(EDIT_NUMBERS == u64::BITS, "a bit of a word for each");

/// The words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishWord {
    /// The edits that the code's role has, as bits.
    Edits,
    /// Of these, the ones that may be wished for now.
    Open,
    /// Those that are wished for.
    Wished,
    /// Wishes for edits that the role does not have.
    Refused,
    /// Wishes beyond the changes that it has.
    Later,
}

/// The words of one code in one half.
pub trait WishWords: Send + Sync + Debug {
    /// One of them.
    fn word(&self, which: WishWord) -> &AtomicU64;

    /// The code wishes for an edit.
    fn wish(&self, number: u32) -> Result<(), CallError> {
        let load = |which| self.word(which).load(Ordering::Acquire);
        let (edits, bit) = (load(WishWord::Edits), 1u64.checked_shl(number).unwrap_or(0));
        if edits & bit == 0 {
            self.word(WishWord::Refused).fetch_add(1, Ordering::Relaxed);
            return Err(if edits == 0 { CallError::Denied } else { CallError::Absent });
        }
        if load(WishWord::Wished) & bit != 0 {
            return Ok(());
        }
        if load(WishWord::Open) & bit == 0 {
            self.word(WishWord::Later).fetch_add(1, Ordering::Relaxed);
            return Err(CallError::Full);
        }
        self.word(WishWord::Wished).fetch_or(bit, Ordering::AcqRel);
        Ok(())
    }

    /// Takes the edits that are wished for, as bits.
    fn take(&self) -> u64 {
        self.taken(WishWord::Wished)
    }

    /// Takes what was counted: refused as the role does not have the edit, and beyond the changes that it has.
    fn take_counts(&self) -> [u64; 2] {
        [WishWord::Refused, WishWord::Later].map(|which| self.taken(which))
    }

    /// What is in a word, which has nothing then.
    fn taken(&self, which: WishWord) -> u64 {
        let word = self.word(which);
        // Most have nothing: then their line stays whose it is.
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::AcqRel) }
    }

    /// Says which edits there are, and which of these may be wished for from now on.
    fn tell(&self, edits: u64, open: u64) {
        for (which, value) in [(WishWord::Edits, edits), (WishWord::Open, open)] {
            let word = self.word(which);
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Release);
            }
        }
    }
}

/// The words of a code that all workers have in common.
#[derive(Debug, Default)]
pub struct WishBoard([AtomicU64; 5]);

impl WishWords for WishBoard {
    fn word(&self, which: WishWord) -> &AtomicU64 {
        let [edits, open, wished, refused, later] = &self.0;
        match which {
            WishWord::Edits => edits,
            WishWord::Open => open,
            WishWord::Wished => wished,
            WishWord::Refused => refused,
            WishWord::Later => later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_edits_is_denied_and_who_has_some_has_no_others() {
        let board = WishBoard::default();
        assert_eq!(board.wish(0), Err(CallError::Denied));
        board.tell(0b101, 0b101);
        assert_eq!([1, 63, 64, u32::MAX].map(|number| board.wish(number)), [Err(CallError::Absent); 4]);
        assert_eq!((board.wish(0), board.wish(2)), (Ok(()), Ok(())));
        assert_eq!((board.take(), board.take_counts()), (0b101, [5, 0]));
        assert_eq!((board.take(), board.take_counts()), (0, [0, 0]));
    }

    #[test]
    fn a_million_wishes_are_one_and_those_beyond_the_rate_come_later() {
        let board = WishBoard::default();
        board.tell(0b11, 0b01);
        assert!((0..1_000_000).all(|_| board.wish(0) == Ok(())));
        assert_eq!(board.wish(1), Err(CallError::Full));
        board.tell(0b11, 0);
        assert_eq!(board.wish(0), Ok(()), "what is wished for already is still to come");
        assert_eq!((board.take(), board.take_counts()), (0b01, [0, 1]));
        assert_eq!(board.wish(0), Err(CallError::Full), "that one has been taken");
        assert_eq!(board.take_counts(), [0, 1]);
    }

    #[test]
    fn the_last_number_is_one() {
        let board = WishBoard::default();
        board.tell(1 << 63, 1 << 63);
        assert_eq!((board.wish(EDIT_NUMBERS - 1), board.take()), (Ok(()), 1 << 63));
    }
}
