//! What is asked of stores and answered: names, keys, bounds.
//!
//! Example: put `10.0.0.7` under `dns`, if nothing is there. A request is a plain value, so that it can go to the worker
//! that has the stores.

pub use super::bounds::*;
use crate::core::domain::DomainId;
use crate::nodeos::file::Access;
use crate::object_name;
use libanode::error::Error;
use std::sync::Arc;

object_name! {
    /// Names a store.
    StoreId
}
object_name! {
    /// Names a snapshot of one.
    SnapshotId
}
object_name! {
    /// Names a watch on one.
    WatchId
}

/// A key.
pub type StoreKey = Box<[u8]>;

/// A value. Whoever reads one has it, whatever becomes of the store.
pub type StoreValue = Arc<[u8]>;

/// A store to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSpec {
    /// Bytes that it may hold, old values of snapshots among them; 0: [`STORE_BYTES`].
    pub bytes: u64,
    /// Refused if there is one of this name.
    pub exclusive: bool,
    /// Whether it outlives its domain and the node.
    pub persistent: bool,
}

impl StoreSpec {
    /// The bytes that it may hold.
    pub fn limit(&self) -> Result<u64, Error> {
        match self.bytes {
            0 => Ok(STORE_BYTES),
            bytes if bytes <= STORE_BYTES_MAX => Ok(bytes),
            _ => Err(Error::Invalid),
        }
    }
}

/// Who asks: a domain, and the holder whose stores are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUser {
    /// The domain, which pays for what is made, and with which that ends.
    pub domain: DomainId,
    /// By its environment's name.
    pub holder: Arc<str>,
}

/// What a domain asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAsk {
    /// The store of this name; makes it if it is the asker's own and not there.
    Open {
        /// Whose; the asker's own if nobody's is said.
        holder: Option<Arc<str>>,
        /// Its name.
        name: String,
        /// As what it is made; only found if there is nothing.
        make: Option<StoreSpec>,
    },
    /// Ends a store of the asker's own.
    Remove {
        /// Which.
        store: StoreId,
    },
    /// What there is under a key.
    Get {
        /// In which.
        store: StoreId,
        /// As it was then.
        snapshot: Option<SnapshotId>,
        /// The key.
        key: StoreKey,
    },
    /// Keeps a value.
    Put {
        /// In which.
        store: StoreId,
        /// Under this key.
        key: StoreKey,
        /// What.
        value: StoreValue,
        /// Only if this is the version there; 0: nothing.
        expected: Option<u64>,
    },
    /// Keeps a value until the asking domain ends, or somebody changes it.
    Register {
        /// In which.
        store: StoreId,
        /// Under this key.
        key: StoreKey,
        /// What.
        value: StoreValue,
        /// Only if this is the version there; 0: nothing.
        expected: Option<u64>,
    },
    /// Takes away what there is under a key.
    Delete {
        /// In which.
        store: StoreId,
        /// The key.
        key: StoreKey,
        /// Only if this is the version there.
        expected: Option<u64>,
    },
    /// The keys with a beginning, in their order.
    List {
        /// In which.
        store: StoreId,
        /// As it was then.
        snapshot: Option<SnapshotId>,
        /// How they begin.
        prefix: Box<[u8]>,
        /// Behind this one.
        after: Option<StoreKey>,
    },
    /// Lets another holder use a store of the asker's own.
    Share {
        /// Which.
        store: StoreId,
        /// Who; `*` is everybody.
        with: String,
        /// How far.
        access: Access,
    },
    /// Has a store be readable as it is now.
    Snapshot {
        /// Which.
        store: StoreId,
    },
    /// Ends that.
    SnapshotEnd {
        /// Which.
        snapshot: SnapshotId,
    },
    /// Has the domain be told of changes to keys with a beginning.
    Watch {
        /// In which.
        store: StoreId,
        /// How they begin.
        prefix: Box<[u8]>,
        /// Comes with the upcall.
        argument: u64,
    },
    /// Ends that.
    WatchEnd {
        /// Which.
        watch: WatchId,
    },
    /// What has changed since it was asked last.
    Changes {
        /// For which watch.
        watch: WatchId,
    },
    /// What is known of a store.
    Facts {
        /// Which.
        store: StoreId,
    },
}

impl StoreAsk {
    /// Bytes that have to be taken from the asking domain before; it gets back what was not used.
    pub fn charge(&self) -> Result<u64, Error> {
        match self {
            StoreAsk::Open { make: Some(spec), .. } => spec.limit(),
            StoreAsk::Watch { .. } => Ok(WATCH_BYTES),
            _ => Ok(0),
        }
    }

    /// Whether there is something then that ends with the asking domain.
    pub fn leaves(&self) -> bool {
        matches!(
            self,
            StoreAsk::Open { .. } | StoreAsk::Watch { .. } | StoreAsk::Snapshot { .. } | StoreAsk::Register { .. }
        )
    }
}

/// A key in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// The key.
    pub key: StoreKey,
    /// The number of the change that has made it what it is.
    pub version: u64,
    /// Bytes of its value.
    pub bytes: u32,
    /// The domain with which it ends, if it does.
    pub domain: Option<DomainId>,
}

/// A change that a watch tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreChange {
    /// Of this key.
    pub key: StoreKey,
    /// The change's number.
    pub version: u64,
    /// Whether nothing is there any more.
    pub deleted: bool,
}

/// What is known of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// Changes so far.
    pub version: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Those that it may hold.
    pub limit: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReply {
    /// It is done.
    Done,
    /// A store; whether it was made just now.
    Store(StoreId, bool),
    /// A snapshot, and how many changes it has seen.
    Snapshot(SnapshotId, u64),
    /// A watch.
    Watch(WatchId),
    /// What there is.
    Found(u64, StoreValue),
    /// The number of the change.
    Version(u64),
    /// Keys, and behind which the list goes on.
    Keys(Vec<StoreEntry>, Option<StoreKey>),
    /// Changes in their order, and how many more there were for which there was no room: then what was read before
    /// tells nothing of the rest.
    Changes(Vec<StoreChange>, u64),
    /// What is known.
    Facts(StoreFacts),
}

/// Whether this may be the name of a store: 1 to 64 letters, digits, '-', '_' or '.', and does not begin with '.'.
pub fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.chars().all(plain);
    if good { Ok(()) } else { Err(Error::Invalid) }
}

/// Whether this may be a key.
pub fn check_key(key: &[u8]) -> Result<(), Error> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) { Ok(()) } else { Err(Error::Invalid) }
}
