//! The messages of a session's socket: one call, one answer with its number, in the order of the calls.
//!
//! All numbers are big endian; a text or list has its length in 16 bits before it (file contents: 32), an option a byte 0 or 1.
//! A message has exactly one form: what decodes is encoded again to the same bytes, and nothing may follow. The decoder is total.

use crate::error::Error;
use crate::memory::Geometry;

/// The version of these messages and of the shared memory.
pub const VERSION: u16 = 1;

/// Bytes of the longest message: a value of a store with its key.
pub const MESSAGE_MAX: usize = 72 << 10;

/// Bytes of a file that one message carries.
pub const FILE_BYTES_MAX: usize = 32 << 10;

/// Bytes of the longest text: a name, a path, a protocol.
pub const TEXT_MAX: usize = 1024;

/// Comparisons of a demultiplexing key.
pub const KEY_MAX: usize = 16;

/// What is written into messages and read from them.
trait Field: Sized {
    fn put(&self, into: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Field for $number {
            fn put(&self, into: &mut Vec<u8>) {
                into.extend(self.to_be_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<$number> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_be_bytes(*bytes))
            }
        }
    )+};
}

numbers!(u8 u16 u32 u64 i64);

impl Field for bool {
    fn put(&self, into: &mut Vec<u8>) {
        into.push((*self).into());
    }

    fn take(from: &mut &[u8]) -> Option<bool> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, into: &mut Vec<u8>) {
        self.is_some().put(into);
        self.iter().for_each(|value| value.put(into));
    }

    fn take(from: &mut &[u8]) -> Option<Option<T>> {
        Some(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl Field for String {
    fn put(&self, into: &mut Vec<u8>) {
        (self.len() as u16).put(into);
        into.extend(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<String> {
        let length = usize::from(u16::take(from)?);
        let (text, rest) = from.split_at_checked(length).filter(|_| length <= TEXT_MAX)?;
        *from = rest;
        Some(core::str::from_utf8(text).ok()?.to_owned())
    }
}

/// The contents of a file, or a part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(pub Vec<u8>);

impl Field for Contents {
    fn put(&self, into: &mut Vec<u8>) {
        (self.0.len() as u32).put(into);
        into.extend(&self.0);
    }

    fn take(from: &mut &[u8]) -> Option<Contents> {
        let length = u32::take(from)? as usize;
        let (bytes, rest) = from.split_at_checked(length).filter(|_| length <= FILE_BYTES_MAX)?;
        *from = rest;
        Some(Contents(bytes.to_vec()))
    }
}

/// Bytes of a value of soft state.
pub const STATE_VALUE: usize = 64;

impl Field for [u8; STATE_VALUE] {
    fn put(&self, into: &mut Vec<u8>) {
        into.extend(self);
    }

    fn take(from: &mut &[u8]) -> Option<[u8; STATE_VALUE]> {
        let (bytes, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(*bytes)
    }
}

/// Bytes of the longest key of a store.
pub const STORE_KEY_MAX: usize = 1024;

/// Bytes of the longest value of a store.
pub const STORE_VALUE_MAX: usize = 64 << 10;

/// A key of a store, or the beginning of some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreKey(pub Vec<u8>);

impl Field for StoreKey {
    fn put(&self, into: &mut Vec<u8>) {
        (self.0.len() as u16).put(into);
        into.extend(&self.0);
    }

    fn take(from: &mut &[u8]) -> Option<StoreKey> {
        let length = usize::from(u16::take(from)?);
        let (bytes, rest) = from.split_at_checked(length).filter(|_| length <= STORE_KEY_MAX)?;
        *from = rest;
        Some(StoreKey(bytes.to_vec()))
    }
}

/// A value of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreValue(pub Vec<u8>);

impl Field for StoreValue {
    fn put(&self, into: &mut Vec<u8>) {
        (self.0.len() as u32).put(into);
        into.extend(&self.0);
    }

    fn take(from: &mut &[u8]) -> Option<StoreValue> {
        let length = u32::take(from)? as usize;
        let (bytes, rest) = from.split_at_checked(length).filter(|_| length <= STORE_VALUE_MAX)?;
        *from = rest;
        Some(StoreValue(bytes.to_vec()))
    }
}

/// Bytes of the longest text of a graph, and of what is said of one: together they are at most so many in one message.
pub const GRAPH_TEXT_MAX: usize = 64 << 10;

/// A text of a graph, of its changes, or about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphText(pub String);

impl Field for GraphText {
    fn put(&self, into: &mut Vec<u8>) {
        (self.0.len() as u32).put(into);
        into.extend(self.0.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<GraphText> {
        let length = u32::take(from)? as usize;
        let (text, rest) = from.split_at_checked(length).filter(|_| length <= GRAPH_TEXT_MAX)?;
        *from = rest;
        Some(GraphText(core::str::from_utf8(text).ok()?.to_owned()))
    }
}

macro_rules! lists {
    ($($item:ty, $most:expr;)+) => {$(
        impl Field for Vec<$item> {
            fn put(&self, into: &mut Vec<u8>) {
                (self.len() as u16).put(into);
                self.iter().for_each(|item| item.put(into));
            }

            fn take(from: &mut &[u8]) -> Option<Vec<$item>> {
                let count = usize::from(u16::take(from)?);
                (count <= $most).then(|| (0..count).map(|_| <$item>::take(from)).collect())?
            }
        }
    )+};
}

lists! {
    KeyTuple, KEY_MAX;
    StoreEntry, STORE_LIST_MAX;
    StoreChange, STORE_LIST_MAX;
}

/// Keys or changes of one answer.
pub const STORE_LIST_MAX: usize = 256;

impl Field for Error {
    fn put(&self, into: &mut Vec<u8>) {
        (*self as u8).put(into);
    }

    fn take(from: &mut &[u8]) -> Option<Error> {
        Error::of_code(u8::take(from)?)
    }
}

macro_rules! record {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $field_doc])+ pub $field: $type,)+ }

        impl Field for $name {
            fn put(&self, into: &mut Vec<u8>) {
                $(self.$field.put(into);)+
            }

            fn take(from: &mut &[u8]) -> Option<$name> {
                Some($name { $($field: <$type as Field>::take(from)?,)+ })
            }
        }
    };
}

macro_rules! messages {
    ($(#[doc = $doc:literal])+ $name:ident {
        $($(#[doc = $variant_doc:literal])+ $code:literal $variant:ident { $($(#[doc = $field_doc:literal])* $field:ident: $type:ty),* }
    )+}) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $variant_doc])+ $variant { $($(#[doc = $field_doc])* $field: $type,)* },)+
        }

        impl $name {
            /// Writes the message with its number behind what is in `into`.
            pub fn encode(&self, number: u32, into: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        (($code) as u8).put(into);
                        number.put(into);
                        $($field.put(into);)*
                    })+
                }
            }

            /// Reads a message and its number, if the bytes are one.
            pub fn decode(mut bytes: &[u8]) -> Option<(u32, $name)> {
                let from = &mut bytes;
                let (code, number) = (u8::take(from)?, u32::take(from)?);
                let message = match code {
                    $($code => $name::$variant { $($field: <$type as Field>::take(from)?,)* },)+
                    _ => return None,
                };
                from.is_empty().then_some((number, message))
            }
        }
    };
}

record! {
    /// Threads of a domain.
    Threads {
        /// How many.
        max_threads: u16,
        /// Bytes of a stack; 0 for the default.
        stack_bytes: u32,
        /// Milliseconds that one may work at a time; 0: what the role grants.
        hold_ms: u32,
    }
}

record! {
    /// A domain to be created.
    DomainSpec {
        /// For people.
        title: String,
        /// Its threads.
        threads: Threads,
        /// Its memory pool, or one of its own.
        pool: Option<u32>,
        /// The role whose limits it gets, or the creator's.
        role: Option<String>,
    }
}

record! {
    /// A memory pool to be created.
    PoolSpec {
        /// The pool that it is part of.
        parent: Option<u32>,
        /// Bytes that may be held.
        limit_bytes: u64,
        /// How long domains may stay over the limit, in milliseconds.
        deadline_ms: u32,
    }
}

record! {
    /// One comparison of a demultiplexing key.
    KeyTuple {
        /// Where, in bytes from the payload's start.
        offset: u16,
        /// How many bytes.
        length: u8,
        /// What must stand there.
        value: u64,
        /// The bits that matter.
        mask: u64,
    }
}

record! {
    /// A channel to be created.
    ChanSpec {
        /// Its protocols.
        protocol: String,
        /// The addresses of the last of them.
        address: String,
        /// What else must be in a packet.
        key: Vec<KeyTuple>,
        /// Packets worked on at the same time.
        max_threads: u16,
        /// Bytes a second.
        bandwidth: u64,
        /// Packets that may wait.
        buffers: u16,
    }
}

record! {
    /// What a domain has used.
    Usage {
        /// Packets that came to it.
        packets: u64,
        /// Bytes of those.
        bytes: u64,
        /// Packets it sent.
        forwarded: u64,
        /// Its packets that were dropped.
        drops: u64,
        /// Bytes of memory that it holds.
        memory_bytes: u64,
        /// Nanoseconds of the processor that it took in the node.
        cpu_ns: u64,
    }
}

record! {
    /// A store to be made.
    StoreSpec {
        /// Bytes that it may hold; 0: the default.
        bytes: u64,
        /// Refused if there is one.
        exclusive: bool,
        /// Whether it outlives the node.
        persistent: bool,
    }
}

record! {
    /// A key in a list.
    StoreEntry {
        /// The key.
        key: StoreKey,
        /// The number of the change that has made it.
        version: u64,
        /// Bytes of its value.
        bytes: u32,
    }
}

record! {
    /// A change in a store.
    StoreChange {
        /// Of this key.
        key: StoreKey,
        /// Its number.
        version: u64,
        /// Whether nothing is there any more.
        deleted: bool,
    }
}

record! {
    /// What is known of a store.
    StoreFacts {
        /// Changes so far.
        version: u64,
        /// Keys.
        keys: u64,
        /// Bytes that it holds.
        bytes: u64,
        /// Those that it may hold.
        limit: u64,
    }
}

record! {
    /// What is known of a graph.
    GraphFacts {
        /// Packets that came in.
        came: u64,
        /// Packets that began in it.
        begun: u64,
        /// Packets that left by a port.
        left: u64,
        /// Packets that engines have used up.
        used: u64,
        /// Packets that were dropped.
        dropped: u64,
        /// Packets that its engines hold.
        held: u64,
        /// The number of its generation.
        generation: u32,
        /// Its engines.
        engines: u32,
        /// Whether it runs in the kernel.
        in_kernel: bool,
    }
}

impl Field for Geometry {
    fn put(&self, into: &mut Vec<u8>) {
        let all = [self.up, self.down, self.buffers_node, self.buffers_process, self.buffer_bytes, self.threads];
        all.iter().for_each(|number| number.put(into));
    }

    fn take(from: &mut &[u8]) -> Option<Geometry> {
        let mut next = || u32::take(from);
        let geometry = Geometry {
            up: next()?,
            down: next()?,
            buffers_node: next()?,
            buffers_process: next()?,
            buffer_bytes: next()?,
            threads: next()?,
        };
        geometry.checked()
    }
}

messages! {
    /// What a process asks of the node.
    Call {
        /// Begins the session: its first message.
        1 Hello { /** The version spoken. */ version: u16, /** The session's domain. */ domain: DomainSpec }
        /// Creates a domain.
        2 DomainCreate { /** Below which. */ parent: u32, /** What. */ spec: DomainSpec }
        /// Ends a domain and all below it.
        3 DomainTerminate { /** Which. */ domain: u32 }
        /// Asks what a domain has used.
        4 DomainUsage { /** Which. */ domain: u32 }
        /// Creates a memory pool.
        5 PoolCreate { /** What. */ spec: PoolSpec }
        /// Destroys one.
        6 PoolDestroy { /** Which. */ pool: u32 }
        /// Charges memory that the process holds, or gives it back.
        7 PoolCharge { /** To which. */ pool: u32, /** How many. */ bytes: i64 }
        /// Creates an incoming channel.
        8 InChanCreate { /** Of which. */ domain: u32, /** What. */ spec: ChanSpec }
        /// Destroys one.
        9 InChanDestroy { /** Which. */ channel: u32 }
        /// Creates an outgoing channel.
        10 OutChanCreate { /** Of which. */ domain: u32, /** What. */ spec: ChanSpec }
        /// Destroys one.
        11 OutChanDestroy { /** Which. */ channel: u32 }
        /// Joins two channels.
        12 CutChanCreate { /** Incoming. */ from: u32, /** Outgoing. */ to: u32 }
        /// Parts them.
        13 CutChanDestroy { /** Which. */ channel: u32 }
        /// Schedules an event.
        14 EventSchedule { /** Whose. */ domain: u32, /** In milliseconds. */ delay_ms: u64, /** For the upcall. */ argument: u64 }
        /// Takes one back.
        15 EventCancel { /** Which. */ event: u64 }
        /// Opens a file.
        16 FileOpen {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** Its name. */ path: String, /** How. */ flags: u32
        }
        /// Reads of one.
        17 FileRead { /** Which. */ file: u32, /** From where. */ offset: u64, /** Bytes at most. */ length: u32 }
        /// Writes to one.
        18 FileWrite { /** Which. */ file: u32, /** Where to. */ offset: u64, /** What. */ contents: Contents }
        /// Closes one.
        19 FileClose { /** Which. */ file: u32 }
        /// Takes a name away.
        20 FileUnlink {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** Its name. */ path: String
        }
        /// Makes a file longer or shorter.
        21 FileTruncate { /** Which. */ file: u32, /** Its bytes from now on. */ size: u64 }
        /// Waits until what was written to one is on the disk.
        22 FileSync { /** Which. */ file: u32 }
        /// Asks what is known of one.
        23 FileStat { /** Which. */ file: u32 }
        /// Asks what there is by a path.
        24 FileStatPath {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** Its name. */ path: String
        }
        /// Makes a directory.
        25 FileMakeDirectory {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** Its name. */ path: String
        }
        /// Gives a file another name.
        26 FileRename {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** Its name. */ from: String, /** The other. */ to: String
        }
        /// Asks for the name in a directory that comes behind another.
        27 FileNext {
            /** Whose. */ domain: u32, /** In whose name space, if not its own. */ space: Option<String>,
            /** The directory, if not the uppermost. */ path: Option<String>, /** Behind which. */ after: String
        }
        /// Lets another holder use the name space.
        28 FileShare { /** Whose. */ domain: u32, /** Who. */ with: String, /** 0 not, 1 read, 2 write. */ access: u8 }
        /// Asks for a connection, over the descriptor that an environment has from its birth; its first message is a hello.
        29 Connect { }
        /// Asks what soft state has under a key.
        30 StateGet { /** Whose. */ domain: u32, /** The key. */ key: u64 }
        /// Replaces it.
        31 StatePut {
            /** Whose. */ domain: u32, /** The key. */ key: u64, /** By what. */ value: [u8; STATE_VALUE],
            /** For so many milliseconds. */ keep_ms: u32
        }
        /// Adds to the number in it.
        32 StateAdd {
            /** Whose. */ domain: u32, /** The key. */ key: u64, /** How much. */ delta: u64,
            /** For so many milliseconds. */ keep_ms: u32
        }
        /// Raises the number in it.
        33 StateMax {
            /** Whose. */ domain: u32, /** The key. */ key: u64, /** To this at least. */ least: u64,
            /** For so many milliseconds. */ keep_ms: u32
        }
        /// Replaces it if the number in it is what was expected.
        34 StateExchange {
            /** Whose. */ domain: u32, /** The key. */ key: u64, /** What. */ expected: u64,
            /** By what. */ value: [u8; STATE_VALUE], /** For so many milliseconds. */ keep_ms: u32
        }
        /// Asks for the store of a name.
        35 StoreOpen {
            /** For which. */ domain: u32, /** Whose, if not its own. */ holder: Option<String>,
            /** Its name. */ name: String, /** As what it is made, if there is none. */ make: Option<StoreSpec>
        }
        /// Ends one.
        36 StoreRemove { /** For which. */ domain: u32, /** The store. */ store: u32 }
        /// Asks what is under a key.
        37 StoreGet {
            /** For which. */ domain: u32, /** The store. */ store: u32, /** As it was then. */ snapshot: Option<u32>,
            /** The key. */ key: StoreKey
        }
        /// Keeps a value under a key.
        38 StorePut {
            /** For which. */ domain: u32, /** The store. */ store: u32, /** The key. */ key: StoreKey,
            /** What. */ value: StoreValue, /** Only if this is there. */ expected: Option<u64>
        }
        /// Takes a key away.
        39 StoreDelete {
            /** For which. */ domain: u32, /** The store. */ store: u32, /** The key. */ key: StoreKey,
            /** Only if this is there. */ expected: Option<u64>
        }
        /// Asks for keys in their order.
        40 StoreList {
            /** For which. */ domain: u32, /** The store. */ store: u32, /** As it was then. */ snapshot: Option<u32>,
            /** How they begin. */ prefix: StoreKey, /** Behind this one. */ after: Option<StoreKey>
        }
        /// Lets another holder use a store.
        41 StoreShare {
            /** For which. */ domain: u32, /** The store. */ store: u32, /** Who. */ with: String,
            /** 0 not, 1 read, 2 write. */ access: u8
        }
        /// Asks what is known of a store.
        42 StoreFacts { /** For which. */ domain: u32, /** The store. */ store: u32 }
        /// Waits until a store's changes so far are on the disk.
        43 StoreSync { /** For which. */ domain: u32, /** The store. */ store: u32 }
        /// Has a store be readable as it is now.
        44 SnapshotCreate { /** For which. */ domain: u32, /** The store. */ store: u32 }
        /// Ends that.
        45 SnapshotDestroy { /** For which. */ domain: u32, /** Which. */ snapshot: u32 }
        /// Has a domain be told of changes.
        46 WatchCreate {
            /** Which. */ domain: u32, /** The store. */ store: u32, /** How their keys begin. */ prefix: StoreKey,
            /** For the upcall. */ argument: u64
        }
        /// Ends that.
        47 WatchDestroy { /** For which. */ domain: u32, /** Which. */ watch: u32 }
        /// Asks what has changed.
        48 WatchRead { /** For which. */ domain: u32, /** Which. */ watch: u32 }
        /// Has streams be listened for: the answer comes with a socket, over which they come.
        50 StreamListen { /** For which. */ domain: u32, /** Where. */ address: String }
        /// Begins a stream: the answer comes with its socket.
        51 StreamConnect { /** For which. */ domain: u32, /** Whereto. */ address: String }
        /// Asks why a stream has ended.
        52 StreamWhy { /** Which. */ stream: u32 }
        /// Keeps a value under a key until the domain ends.
        49 StoreRegister {
            /** With which it ends. */ domain: u32, /** The store. */ store: u32, /** The key. */ key: StoreKey,
            /** What. */ value: StoreValue, /** Only if this is there. */ expected: Option<u64>
        }
        /// Has a graph become another one.
        53 GraphApply {
            /** For which. */ domain: u32, /** The graph. */ graph: String, /** Its text. */ text: GraphText,
            /** Only if it has this generation; 0: any. */ base: u32
        }
        /// Connects engines of a graph otherwise, in one step.
        54 GraphEdit {
            /** For which. */ domain: u32, /** The graph. */ graph: String, /** Chains that go. */ disconnect: GraphText,
            /** Engines that go. */ remove: GraphText, /** Statements that come. */ connect: GraphText,
            /** Only if it has this generation; 0: any. */ base: u32
        }
        /// Asks what an engine says of itself.
        55 GraphRead { /** For which. */ domain: u32, /** The graph. */ graph: String, /** Whose, and what. */ handler: String }
        /// Writes to one.
        56 GraphWrite {
            /** For which. */ domain: u32, /** The graph. */ graph: String, /** Whose, and what. */ handler: String,
            /** What. */ value: GraphText
        }
        /// Asks what is known of a graph.
        57 GraphShow { /** For which. */ domain: u32, /** The graph. */ graph: String }
    }
}

messages! {
    /// What the node answers.
    Answer {
        /// It is done.
        128 Done { }
        /// An object was created.
        129 Object { /** Its name. */ name: u32 }
        /// An event was scheduled.
        130 Event { /** Its name. */ event: u64 }
        /// What a domain has used.
        131 Used { /** What. */ usage: Usage }
        /// What a file has there; nothing at its end.
        132 Read { /** The bytes. */ contents: Contents }
        /// So many bytes were written.
        133 Written { /** How many. */ bytes: u32 }
        /// What there is by a name: its bytes, when it was written last (nanoseconds after 1970 began), whether it is
        /// a directory; in a list its name.
        135 Found {
            /** Its name. */ name: String, /** Bytes. */ size: u64, /** When. */ modified_ns: u64,
            /** Whether it is one. */ directory: bool
        }
        /// The session has begun. With it come the memory and the descriptor that wakes the node.
        134 Welcome {
            /** The session's domain. */ domain: u32, /** The memory's layout. */ geometry: Geometry,
            /** When the node's clock began, on the system's monotonic clock. */ origin: i64
        }
        /// A connection: its descriptor comes along.
        136 Connection { }
        /// What soft state has there.
        137 Kept { /** All of it. */ value: [u8; STATE_VALUE] }
        /// The number in what is kept now.
        138 Number { /** It. */ number: u64 }
        /// What is under a key of a store.
        139 Value { /** The number of the change. */ version: u64, /** It. */ value: StoreValue }
        /// Keys of a store, and behind which the list goes on.
        140 Keys { /** They. */ keys: Vec<StoreEntry>, /** Which. */ next: Option<StoreKey> }
        /// Changes of a store, and how many are lost.
        141 Changes { /** They. */ changes: Vec<StoreChange>, /** How many. */ lost: u64 }
        /// What is known of a store.
        142 Facts { /** What. */ facts: StoreFacts }
        /// A graph.
        144 Graph { /** What is known. */ facts: GraphFacts, /** Its text. */ text: GraphText }
        /// What an engine says.
        145 Said { /** It. */ text: GraphText }
        /// A graph is as it was.
        146 Unchanged { /** Why. */ error: Error, /** In words. */ why: GraphText }
        /// The call was refused.
        143 Refused { /** Why. */ error: Error }
    }
}

#[cfg(test)]
mod tests;
