//! The bpf(2) system call, as far as this project needs it: maps, type information, programs, links.
//!
//! Attributes are C structures of the kernel's `union bpf_attr`, one for each command, as in
//! linux/bpf.h; a kernel that knows a longer one takes the rest for zero.

use super::mapping::SharedWords;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Octets of verifier log, and how many of its last lines are kept for an error.
const LOG: usize = 1 << 20;
const LOG_LINES: usize = 4;

/// What verified programs are licensed under.
const LICENSE: &core::ffi::CStr = c"Dual MIT/GPL";

/// Commands of `enum bpf_cmd`.
mod command {
    pub const MAP_CREATE: libc::c_long = 0;
    pub const MAP_LOOKUP: libc::c_long = 1;
    pub const MAP_UPDATE: libc::c_long = 2;
    pub const MAP_DELETE: libc::c_long = 3;
    pub const PROG_LOAD: libc::c_long = 5;
    pub const TEST_RUN: libc::c_long = 10;
    pub const BTF_LOAD: libc::c_long = 18;
    pub const LINK_CREATE: libc::c_long = 28;
}

/// Where a program can stand: program type and attach type of linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `BPF_PROG_TYPE_SCHED_CLS` at `BPF_TCX_INGRESS`.
    TcIngress,
    /// `BPF_PROG_TYPE_XDP` at `BPF_XDP`.
    Xdp,
}

impl Hook {
    fn numbers(self) -> (u32, u32) {
        match self {
            Hook::TcIngress => (3, 46),
            Hook::Xdp => (6, 37),
        }
    }
}

/// Kinds of maps: `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// An array.
    Array = 2,
    /// Programs, for tail calls.
    Programs = 3,
    /// An array with a copy for each CPU.
    PerCpuArray = 6,
    /// Longest prefixes.
    Prefixes = 11,
    /// Interfaces, for redirects.
    Devices = 14,
    /// AF_XDP sockets, for redirects.
    Sockets = 17,
    /// An array that can be mapped into memory ([`Map::words`]).
    SharedArray = 1 << 16 | 2,
}

impl MapKind {
    /// The kernel's number for it, and its flags.
    fn numbers(self) -> (u32, u32) {
        match self {
            MapKind::Prefixes => (self as u32, NO_PREALLOC),
            MapKind::SharedArray => (MapKind::Array as u32, MAPPABLE),
            _ => (self as u32, 0),
        }
    }
}

/// `BPF_F_NO_PREALLOC`, which maps of prefixes must have.
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

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    rest: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_size: u32,
    context_out_size: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 4],
}

/// Calls bpf(2).
///
/// # Safety
/// Every address in `attr` must be of memory that is valid for what `command` does with it, for
/// the length that `attr` says.
unsafe fn call<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes `attr` for its size; what it points to is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

fn descriptor(raw: i32) -> OwnedFd {
    // SAFETY: called only with a descriptor that the kernel has just made for us.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

fn short(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().take(15).zip(name.bytes()).for_each(|(place, octet)| *place = octet);
    short
}

/// A map of the kernel.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    /// Octets of what a look-up gives: of all CPUs, each at a multiple of 8.
    value: usize,
    /// Flags of reads and writes.
    flags: u64,
}

impl Map {
    /// Makes one.
    pub fn create(kind: MapKind, name: &str, key: usize, value: usize, entries: u32) -> io::Result<Map> {
        let (kind, flags) = kind.numbers();
        Map::make(MapCreate {
            kind,
            key: key as u32,
            value: value as u32,
            entries,
            flags,
            name: short(name),
            ..MapCreate::default()
        })
    }

    /// Makes an array whose values have a lock, as their type says; they are read and written under it.
    pub fn create_locked(name: &str, value: usize, entries: u32, types: &Types, of: [u32; 2]) -> io::Result<Map> {
        let [key_type, value_type] = of;
        let map = Map::make(MapCreate {
            kind: MapKind::Array as u32,
            key: 4,
            value: value as u32,
            entries,
            name: short(name),
            types: types.0.as_raw_fd() as u32,
            key_type,
            value_type,
            ..MapCreate::default()
        })?;
        Ok(Map { flags: UNDER_LOCK, ..map })
    }

    fn make(mut attr: MapCreate) -> io::Result<Map> {
        let (key, value) = (attr.key as usize, attr.value as usize);
        // SAFETY: the attribute holds no addresses.
        let fd = descriptor(unsafe { call(command::MAP_CREATE, &mut attr)? });
        let per_cpu = attr.kind == MapKind::PerCpuArray as u32;
        let value = if per_cpu { value.next_multiple_of(8) * possible_cpus()? } else { value };
        Ok(Map { fd, key, value, flags: 0 })
    }

    /// Octets of a value, over all CPUs.
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

    fn element(&self, command: libc::c_long, key: &[u8], value: u64, flags: u64) -> io::Result<()> {
        let map = self.fd.as_raw_fd() as u32;
        let mut attr = MapElement { map, key: key.as_ptr() as u64, value, flags, ..MapElement::default() };
        // SAFETY: `key` and `value` are as long as the map's keys and values, which the callers checked, and
        // outlive the call.
        unsafe { call(command, &mut attr) }.map(drop)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// CPUs that may ever run here: per-CPU values have one part for each.
fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other("the number of possible CPUs cannot be read"))
}

/// Type information (BTF) that the kernel has taken.
#[derive(Debug)]
pub struct Types(OwnedFd);

impl Types {
    /// Loads type information.
    pub fn load(bytes: &[u8]) -> io::Result<Types> {
        with_log(|log| {
            let mut attr = BtfLoad {
                types: bytes.as_ptr() as u64,
                size: bytes.len() as u32,
                log: log.as_mut_ptr() as u64,
                log_size: log.len() as u32,
                log_level: 1,
                ..BtfLoad::default()
            };
            // SAFETY: `bytes` and `log` outlive the call and have the lengths given.
            unsafe { call(command::BTF_LOAD, &mut attr) }
        })
        .map(|fd| Types(descriptor(fd)))
    }
}

/// What the verifier is told of a program beside its instructions.
pub struct Functions<'a> {
    /// Where the types are.
    pub types: &'a Types,
    /// First instruction and type of every function, in the order of the instructions.
    pub list: &'a [[u32; 2]],
}

/// A program the kernel has verified.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// An attached program; it is detached when this goes.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// In which way an XDP program stands at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the stack, on copies.
    Generic,
}

impl Program {
    /// Loads a program for a hook. An error carries the verifier's log.
    pub fn load(hook: Hook, name: &str, code: &[u8], functions: Option<Functions<'_>>) -> io::Result<Program> {
        let (kind, attach_type) = hook.numbers();
        let (types, list) = functions.map_or((0, &[][..]), |told| (told.types.0.as_raw_fd(), told.list));
        let mut attr = ProgLoad {
            kind,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            name: short(name),
            attach_type,
            types: types as u32,
            function_size: if list.is_empty() { 0 } else { 8 },
            functions: if list.is_empty() { 0 } else { list.as_ptr() as u64 },
            function_count: list.len() as u32,
            ..ProgLoad::default()
        };
        // SAFETY: the attribute's addresses are of `code`, a C string and `list`, which outlive the call and have
        // the lengths given beside them.
        let loaded = unsafe { call(command::PROG_LOAD, &mut attr) }.or_else(|_| {
            // Once more for the reason.
            with_log(|log| {
                attr.log = log.as_mut_ptr() as u64;
                attr.log_size = log.len() as u32;
                attr.log_level = 1;
                // SAFETY: as before, and `log` outlives the call too.
                unsafe { call(command::PROG_LOAD, &mut attr) }
            })
        })?;
        Ok(Program(descriptor(loaded)))
    }

    /// Attaches a tc program to what comes in by an interface, behind programs already there.
    pub fn attach_ingress(&self, interface: u32) -> io::Result<Link> {
        self.attach(interface, Hook::TcIngress.numbers().1, 0)
    }

    /// Attaches an XDP program to an interface; an error if another one is there.
    pub fn attach_xdp(&self, interface: u32, mode: XdpMode) -> io::Result<Link> {
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        self.attach(interface, Hook::Xdp.numbers().1, flags)
    }

    fn attach(&self, interface: u32, attach_type: u32, flags: u32) -> io::Result<Link> {
        let program = self.0.as_raw_fd() as u32;
        let mut attr = LinkCreate { program, target: interface, attach_type, flags, ..LinkCreate::default() };
        // SAFETY: the attribute holds no addresses.
        let fd = unsafe { call(command::LINK_CREATE, &mut attr)? };
        Ok(Link { _fd: descriptor(fd) })
    }

    /// Runs an XDP program on a packet that came in by `interface`; gives what it returned and left
    /// of the packet.
    pub fn test_run(&self, packet: &[u8], interface: u32) -> io::Result<(u32, Vec<u8>)> {
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let context = [0, packet.len() as u32, 0, interface, 0, 0];
        let mut out = vec![0u8; packet.len() + 512];
        let mut attr = TestRun {
            program: self.0.as_raw_fd() as u32,
            size_in: packet.len() as u32,
            size_out: out.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            context_in_size: size_of_val(&context) as u32,
            context_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        // SAFETY: the addresses are of `packet`, `out` and `context`, which outlive the call and have the
        // lengths given.
        unsafe { call(command::TEST_RUN, &mut attr)? };
        out.truncate(attr.size_out as usize);
        Ok((attr.returned, out))
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives `load` room for a log, and puts its last lines, which say why, into the error.
fn with_log(load: impl FnOnce(&mut [u8]) -> io::Result<i32>) -> io::Result<i32> {
    let mut log = vec![0u8; LOG];
    load(&mut log).map_err(|error| {
        let end = log.iter().position(|octet| *octet == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed")).collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        io::Error::new(error.kind(), format!("{error}{}{last}", if last.is_empty() { "" } else { ":\n" }))
    })
}
