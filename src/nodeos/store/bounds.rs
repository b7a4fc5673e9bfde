//! Bounds of stores: of what is asked of one, of what one holds, and of how many there are.
//!
//! Beyond each a call is refused, or what does not fit is counted. Numbers of bytes, unless they count something.

/// Bytes of a store's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of a key; one has at least 1.
pub const KEY_BYTES_MAX: usize = 1024;

/// Bytes of a value; it may have none.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// What each entry counts besides its key and its value, in bytes: the tree around it.
pub const ENTRY_BYTES: u64 = 128;

/// Entries of one store that end with the same domain: so many changes its end makes at once, at most.
pub const REGISTERED_MAX: usize = 1024;

/// Bytes of a store whose maker does not say how many.
pub const STORE_BYTES: u64 = 64 << 10;

/// Bytes of the largest store.
pub const STORE_BYTES_MAX: u64 = 64 << 20;

/// Stores of a node.
pub const STORES_MAX: usize = 4096;

/// Stores that one domain has made and that are there.
pub const OF_DOMAIN_MAX: usize = 64;

/// Snapshots of one store, and of one domain.
pub const SNAPSHOTS_MAX: usize = 16;

/// Watches on one store, and of one domain.
pub const WATCHES_MAX: usize = 64;

/// Changes that wait in one watch, and bytes of their keys. What comes beyond is counted as lost.
pub const CHANGES_MAX: usize = 128;
/// See [`CHANGES_MAX`].
pub const CHANGES_BYTES_MAX: usize = 16 << 10;

/// Bytes that a watch takes from its domain.
pub const WATCH_BYTES: u64 = 24 << 10;

/// Keys of one answer to a list, and their bytes.
pub const PAGE_KEYS_MAX: usize = 256;
/// See [`PAGE_KEYS_MAX`].
pub const PAGE_BYTES_MAX: usize = 32 << 10;

/// Keys that one list looks at: those that a snapshot does not have are no part of its answer.
pub const SCAN_MAX: usize = 1024;
