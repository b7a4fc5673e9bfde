//! BPF maps: creation, reading, writing, iteration.

use super::call::{Types, call, command, descriptor, info, short, word};
use crate::sys::mapping::SharedWords;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Kinds of maps: `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// An array.
    Hash = 1,
    /// By index.
    Array = 2,
    /// Programs, for tail calls.
    Programs = 3,
    /// An array with a copy for each CPU.
    PerCpuArray = 6,
    /// Longest prefixes.
    Prefixes = 11,
    /// Maps of numbers of 64 bits, by key.
    Sets = 13,
    /// Interfaces, for redirects.
    Devices = 14,
    /// AF_XDP sockets, for redirects.
    Sockets = 17,
    /// A ring buffer of so many bytes.
    Ring = 27,
    /// An array that can be mapped into memory ([`Map::words`]).
    SharedArray = 1 << 16 | 2,
}

impl MapKind {
    /// The kind of this number.
    pub fn of(number: u32) -> Option<MapKind> {
        use MapKind::{Array, Devices, Hash, PerCpuArray, Prefixes, Programs, Ring, Sets, SharedArray, Sockets};
        let all = [Hash, Array, Programs, PerCpuArray, Prefixes, Sets, Devices, Sockets, Ring, SharedArray];
        all.into_iter().find(|kind| *kind as u32 == number)
    }

    /// The kernel's number for it, and its flags.
    fn numbers(self) -> (u32, u32) {
        match self {
            MapKind::Prefixes | MapKind::Hash => (self as u32, NO_PREALLOC),
            MapKind::SharedArray => (MapKind::Array as u32, MAPPABLE),
            _ => (self as u32, 0),
        }
    }
}

/// `BPF_F_NO_PREALLOC`, which maps of prefixes must have; hash maps are large and mostly empty.
const NO_PREALLOC: u32 = 1;

/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;

/// `BPF_F_LOCK`: under the lock in the value.
const UNDER_LOCK: u64 = 4;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    numa: u32,
    name: [u8; 16],
    interface: u32,
    types: u32,
    key_type: u32,
    value_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl MapShape {
    fn attributes(self) -> MapCreate {
        let (kind, flags) = self.kind.numbers();
        let (key, value, entries) = (self.key as u32, self.value as u32, self.entries);
        MapCreate { kind, key, value, entries, flags, ..MapCreate::default() }
    }
}

/// A map of the kernel.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    /// Bytes of what a look-up gives: of all CPUs, each at a multiple of 8.
    value: usize,
    /// Flags of reads and writes.
    flags: u64,
}

/// What a map is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Its kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: usize,
    /// Bytes of a value (for each CPU, if it is of such a kind).
    pub value: usize,
    /// Entries.
    pub entries: u32,
}

impl Map {
    /// Makes one.
    pub fn create(name: &str, shape: MapShape) -> io::Result<Map> {
        Map::make(MapCreate { name: short(name), ..shape.attributes() }, shape)
    }

    /// Makes one whose values are maps like `inner`.
    pub fn create_outer(name: &str, shape: MapShape, inner: &Map) -> io::Result<Map> {
        let inner = inner.fd.as_raw_fd() as u32;
        Map::make(MapCreate { name: short(name), inner, ..shape.attributes() }, shape)
    }

    /// Makes an array whose values have a lock, as their type says; they are read and written under it.
    pub fn create_locked(name: &str, shape: MapShape, types: &Types, of: [u32; 2]) -> io::Result<Map> {
        let [key_type, value_type] = of;
        let types = types.0.as_raw_fd() as u32;
        let map = Map::make(MapCreate { name: short(name), types, key_type, value_type, ..shape.attributes() }, shape)?;
        Ok(map.locked())
    }

    /// Takes one that is there already, if it is of this shape.
    pub fn adopt(fd: OwnedFd, shape: MapShape) -> io::Result<Map> {
        let info: [u8; 24] = info(&fd)?;
        let found = [0, 8, 12, 16].map(|at| word(&info, at));
        if found != [shape.kind.numbers().0, shape.key as u32, shape.value as u32, shape.entries] {
            return Err(io::Error::other("a map of another shape"));
        }
        Map::of(fd, shape)
    }

    /// The same map once more.
    pub fn try_clone(&self) -> io::Result<Map> {
        Ok(Map { fd: self.fd.try_clone()?, ..*self })
    }

    /// The same, its values read and written under the lock in them.
    pub fn locked(self) -> Map {
        Map { flags: UNDER_LOCK, ..self }
    }

    fn make(mut attr: MapCreate, shape: MapShape) -> io::Result<Map> {
        // SAFETY: the attribute holds no addresses.
        Map::of(descriptor(unsafe { call(command::MAP_CREATE, &mut attr)? }), shape)
    }

    fn of(fd: OwnedFd, shape: MapShape) -> io::Result<Map> {
        let per_cpu = shape.kind == MapKind::PerCpuArray;
        let value = if per_cpu { shape.value.next_multiple_of(8) * possible_cpus()? } else { shape.value };
        Ok(Map { fd, key: shape.key, value, flags: 0 })
    }

    /// The kernel's number for it.
    pub fn id(&self) -> io::Result<u32> {
        info::<24>(&self.fd).map(|info| word(&info, 4))
    }

    /// Bytes of a value, over all CPUs.
    pub fn value_size(&self) -> usize {
        self.value
    }

    /// Reads the value under `key` into `value`.
    pub fn get(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        assert!(key.len() == self.key && value.len() == self.value, "sizes of the map");
        self.element(command::MAP_LOOKUP, key, value.as_mut_ptr() as u64, self.flags)
    }

    /// Writes the value under `key`.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key && value.len() == self.value, "sizes of the map");
        self.element(command::MAP_UPDATE, key, value.as_ptr() as u64, self.flags)
    }

    /// The memory of a [`MapKind::SharedArray`] of so many entries, as words.
    pub fn words(&self, entries: u32) -> io::Result<SharedWords> {
        SharedWords::map(self.fd.as_fd(), self.value * entries as usize)
    }

    /// Takes out what is under `key`.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key, "size of the map's key");
        self.element(command::MAP_DELETE, key, 0, 0)
    }

    /// The key behind `key`, or the first; nothing: there is none.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        assert!(key.is_none_or(|key| key.len() == self.key), "size of the map's key");
        let mut next = vec![0; self.key];
        let mut attr = MapElement {
            map: self.fd.as_raw_fd() as u32,
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value: next.as_mut_ptr() as u64,
            ..MapElement::default()
        };
        // SAFETY: `key`, if there is one, and `next` are as long as the map's keys and outlive the call.
        match unsafe { call(command::MAP_NEXT_KEY, &mut attr) } {
            Ok(_) => Ok(Some(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn element(&self, command: libc::c_long, key: &[u8], value: u64, flags: u64) -> io::Result<()> {
        let map = self.fd.as_raw_fd() as u32;
        let mut attr = MapElement { map, key: key.as_ptr() as u64, value, flags, ..MapElement::default() };
        // SAFETY: `key` and `value` are as long as the map's keys and values, which the callers checked, and
        // outlive the call.
        unsafe { call(command, &mut attr) }.map(drop)
    }
}

impl From<Map> for OwnedFd {
    fn from(map: Map) -> OwnedFd {
        map.fd
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// CPUs that may ever run here: per-CPU values have one part for each.
/// CPUs that there can be.
pub fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other("the number of possible CPUs cannot be read"))
}
