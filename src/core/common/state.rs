//! Soft state of codes that several workers run: one table in parts, each with a lock of its own.
//!
//! Example: worker 0 adds 1 under a key and worker 1 adds 1 under it: 2 are there. A part is a [`StateStore`] with a
//! 64th of the entries, and the key says which. Its lock is held for one access by a worker, never by control, and
//! never while anything is waited for.
//!
//! When the kernel half takes a code over, its entries move into the kernel's map while packets pass. From then on a
//! worker that finds its key still here moves it first, under the lock of its part: so no change is lost.

use super::sync::{Acquire, AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, OnceLock, PARTS, Relaxed, Release};
use crate::core::domain::DomainId;
use crate::core::kept::{Allowance, Books, Change, Held, Page, Refused, SharedState, Value};
use crate::core::state_store::StateStore;
use crate::trust::limits::Limits;
use std::sync::{Arc, PoisonError};

/// Bits of a place within its part, in the names of places that a look goes on at.
const PLACE: u32 = 40;

/// What is known of an owner of entries.
#[derive(Debug)]
struct Book {
    owner: DomainId,
    most: u32,
    keep_ms_max: u32,
    held: AtomicU32,
    refused: AtomicU64,
    displaced: AtomicU64,
}

/// The owners that a part knows, by their places.
#[derive(Default)]
struct Known(Vec<Option<Arc<Book>>>);

impl Known {
    fn of(&self, owner: DomainId) -> Option<&Book> {
        self.0.get(owner.index())?.as_deref().filter(|book| book.owner == owner)
    }
}

impl Books for Known {
    fn quota(&mut self, owner: DomainId) -> Option<Allowance> {
        let book = self.of(owner)?;
        Some(Allowance { is_used_up: book.held.load(Relaxed) >= book.most, keep_ms_max: book.keep_ms_max })
    }

    fn note(&mut self, owner: DomainId, what: Held) {
        let Some(book) = self.of(owner) else { return };
        match what {
            Held::Taken => drop(book.held.fetch_add(1, Relaxed)),
            Held::Released => drop(book.held.fetch_sub(1, Relaxed)),
            Held::Refused => drop(book.refused.fetch_add(1, Relaxed)),
            Held::Displaced => drop(book.displaced.fetch_add(1, Relaxed)),
        }
    }
}

struct Part {
    store: StateStore,
    known: Known,
}

/// The table of all codes.
pub struct CommonStore {
    parts: Box<[Mutex<Part>]>,
}

impl core::fmt::Debug for CommonStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CommonStore({} parts)", self.parts.len())
    }
}

impl CommonStore {
    /// A table of at least so many entries.
    pub fn new(entries: usize) -> CommonStore {
        let store = || StateStore::new(entries.div_ceil(PARTS));
        CommonStore {
            parts: (0..PARTS).map(|_| Mutex::new(Part { store: store(), known: Known::default() })).collect(),
        }
    }

    fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, Part>> {
        // Nothing in it is left half done by a panic: the entries are plain values.
        self.parts.iter().map(|part| part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    fn part(&self, key: u64) -> MutexGuard<'_, Part> {
        // Other bits than those that choose the set within the part.
        let at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PARTS;
        self.parts[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, book: &Arc<Book>, group: u64) {
        for mut part in self.parts() {
            let at = book.owner.index();
            if part.known.0.len() <= at {
                part.known.0.resize(at + 1, None);
            }
            part.known.0[at] = Some(book.clone());
            part.store.join(book.owner, group);
        }
    }

    /// A domain has ended, with all that it kept.
    pub fn forget(&self, owner: DomainId) {
        for mut part in self.parts() {
            let Part { store, known } = &mut *part;
            store.forget(known, owner);
            if known.of(owner).is_some() {
                known.0[owner.index()] = None;
            }
        }
    }

    /// Frees entries whose time is over, looking at so many of each part.
    pub fn sweep(&self, now: u64, share: usize) {
        for mut part in self.parts() {
            let Part { store, known } = &mut *part;
            store.sweep(known, now, share);
        }
    }

    /// Entries of each part.
    pub fn part_capacity(&self) -> usize {
        self.parts().next().map_or(0, |part| part.store.capacity())
    }
}

/// The soft state of one code.
#[derive(Debug)]
pub struct CommonState {
    store: Arc<CommonStore>,
    book: Arc<Book>,
    /// Who keeps it from now on, and whether all has moved there.
    moved: OnceLock<Arc<dyn SharedState>>,
    empty: AtomicBool,
}

/// What a domain's soft state has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Entries it holds.
    pub held: u32,
    /// Entries it was refused.
    pub refused: u64,
    /// Entries that gave way to others'.
    pub displaced: u64,
}

impl CommonState {
    /// The soft state of the code that this domain of the first worker pays for, in a group.
    pub(super) fn new(store: Arc<CommonStore>, owner: DomainId, group: u64, limits: &Limits) -> CommonState {
        let Limits { state_entries: most, keep_ms_max, .. } = *limits;
        let (held, refused, displaced) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let book = Arc::new(Book { owner, most, keep_ms_max, held, refused, displaced });
        store.open(&book, group);
        CommonState { store, book, moved: OnceLock::new(), empty: AtomicBool::new(false) }
    }

    /// What it has come to.
    pub fn counts(&self) -> StateCounts {
        let Book { held, refused, displaced, .. } = &*self.book;
        StateCounts { held: held.load(Relaxed), refused: refused.load(Relaxed), displaced: displaced.load(Relaxed) }
    }

    /// The code is no more: nothing of it is kept.
    pub fn forget(&self) {
        self.store.forget(self.book.owner);
    }

    /// Moves all into another keeper, who has it from now on.
    pub fn move_to(&self, keeper: &Arc<dyn SharedState>, now: u64) {
        if self.moved.set(keeper.clone()).is_err() {
            return;
        }
        for mut part in self.store.parts() {
            let Part { store, known } = &mut *part;
            store.hand_over(known, self.book.owner, now, |key, value, keep_ms| {
                self.put(keeper, key, value, keep_ms, now)
            });
        }
        self.empty.store(true, Release);
    }

    fn put(&self, keeper: &Arc<dyn SharedState>, key: u64, value: &Value, keep_ms: u32, now: u64) {
        // What finds no place there vanishes early, as soft state may.
        if keeper.change(key, Change::Put(value), keep_ms, now).is_err() {
            self.book.refused.fetch_add(1, Relaxed);
        }
    }

    /// Who keeps what is under a key, if that is somebody else by now; then it is there.
    #[inline]
    fn keeper(&self, part: &mut Part, key: u64, now: u64) -> Option<&Arc<dyn SharedState>> {
        let keeper = self.moved.get()?;
        if let Some((value, keep_ms)) = part.store.take_out(&mut part.known, self.book.owner, key, now) {
            self.put(keeper, key, &value, keep_ms, now);
        }
        Some(keeper)
    }

    #[inline]
    fn elsewhere(&self) -> Option<&Arc<dyn SharedState>> {
        self.moved.get().filter(|_| self.empty.load(Acquire))
    }
}

impl SharedState for CommonState {
    fn value(&self, key: u64, now: u64) -> Result<Option<Value>, Refused> {
        if let Some(keeper) = self.elsewhere() {
            return keeper.value(key, now);
        }
        let mut part = self.store.part(key);
        if let Some(keeper) = self.keeper(&mut part, key, now) {
            return keeper.value(key, now);
        }
        Ok(part.store.value(self.book.owner, key, now).copied())
    }

    fn change(&self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused> {
        if let Some(keeper) = self.elsewhere() {
            return keeper.change(key, change, keep_ms, now);
        }
        let mut part = self.store.part(key);
        if let Some(keeper) = self.keeper(&mut part, key, now) {
            return keeper.change(key, change, keep_ms, now);
        }
        let Part { store, known } = &mut *part;
        store.change(known, self.book.owner, key, change, keep_ms, now)
    }

    fn page(&self, from: u64, now: u64) -> Result<Page, Refused> {
        if let Some(keeper) = self.elsewhere() {
            return keeper.page(from, now);
        }
        let (at, place) = ((from >> PLACE) as usize, from & ((1 << PLACE) - 1));
        let Some(part) = self.store.parts.get(at) else { return Ok(Page::default()) };
        let part = part.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = part.store.page(self.book.owner, place, now);
        let next = ((at + 1) as u64) << PLACE;
        page.next = match page.next {
            Some(place) => Some((at as u64) << PLACE | place),
            None => (at + 1 < PARTS).then_some(next),
        };
        Ok(page)
    }

    fn is_of_workers(&self) -> bool {
        self.elsewhere().is_none()
    }
}
