//! The account of each code's spending, shared by the two halves: `struct account` of `bpf/contract.h`.

use super::layout::ACCOUNTS;
use super::maps::Maps;
use crate::contract::{PROGRAMS, account};
use crate::core::share::{SharedAccount, Spent};
use crate::core::wish::{WishWord, WishWords};
use crate::sys::mapping::SharedWords;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of an account, and where they stand: first those that the kernel half writes, then the node's.
const WORDS: usize = account::SIZE / 8;
const PACKETS: usize = account::PACKETS.word();
const TIME: usize = account::TIME.word();
const REFUSED: usize = account::REFUSED.word();
const USER_PACKETS: usize = account::USER_PACKETS.word();
const USER_TIME: usize = account::USER_TIME.word();

/// The accounts of all slots.
#[derive(Clone, Debug)]
pub struct Accounts(Arc<SharedWords>);

/// The account of one.
#[derive(Debug)]
pub struct Account {
    words: Arc<SharedWords>,
    at: usize,
}

impl Accounts {
    /// Those in the map.
    pub(super) fn of(maps: &Maps) -> io::Result<Accounts> {
        Ok(Accounts(Arc::new(maps.of(ACCOUNTS)?.words(PROGRAMS)?)))
    }

    /// That of a slot.
    pub(super) fn slot(&self, slot: u32) -> Account {
        Account::at(self.0.clone(), slot)
    }
}

impl Account {
    /// That at a place in memory that is a map of accounts.
    pub(super) fn at(words: Arc<SharedWords>, place: u32) -> Account {
        Account { words, at: place as usize * WORDS }
    }

    /// What the user half has spent: packets and steps.
    pub(super) fn user(&self) -> [u64; 2] {
        [USER_PACKETS, USER_TIME].map(|word| self.words.load(self.at + word))
    }

    /// Another code has the slot, or another process has the code, for which nobody has wished for anything.
    pub(super) fn forget_wishes(&self) {
        self.tell(0, 0);
        // What is taken was the wish of a code, or for an edit, that has gone.
        let _ = (self.take(), self.take_counts());
    }

    fn add(&self, word: usize, more: u64) {
        // Several workers may run the code.
        self.words.at(self.at + word).fetch_add(more, Ordering::Release);
    }
}

impl SharedAccount for Account {
    #[inline]
    fn spent(&self) -> Spent {
        let [packets, steps, refused] = [PACKETS, TIME, REFUSED].map(|word| self.words.load(self.at + word));
        Spent { packets, steps, refused }
    }

    #[inline]
    fn spend(&self, packets: u64, steps: u64) {
        if packets > 0 {
            self.add(USER_PACKETS, packets);
        }
        if steps > 0 {
            self.add(USER_TIME, steps);
        }
    }

    fn wishes(&self) -> Option<&dyn WishWords> {
        Some(self)
    }
}

impl WishWords for Account {
    fn word(&self, which: WishWord) -> &AtomicU64 {
        let word = match which {
            WishWord::Edits => account::EDITS.word(),
            WishWord::Open => account::OPEN.word(),
            WishWord::Wished => account::WISHED.word(),
            WishWord::Refused => account::WISHES_REFUSED.word(),
            WishWord::Later => account::WISHES_LATER.word(),
        };
        self.words.at(self.at + word)
    }
}
