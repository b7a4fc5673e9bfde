//! The system call itself, its commands, and what several of them need: logs, names, facts of objects.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of verifier log, and how many of its last lines are kept for an error.
const LOG: usize = 1 << 20;
const LOG_LINES: usize = 4;

/// Commands of `enum bpf_cmd`.
pub(super) mod command {
    pub const MAP_CREATE: libc::c_long = 0;
    pub const MAP_LOOKUP: libc::c_long = 1;
    pub const MAP_UPDATE: libc::c_long = 2;
    pub const MAP_DELETE: libc::c_long = 3;
    pub const MAP_NEXT_KEY: libc::c_long = 4;
    pub const PROG_LOAD: libc::c_long = 5;
    pub const PIN: libc::c_long = 6;
    pub const OPEN: libc::c_long = 7;
    pub const TEST_RUN: libc::c_long = 10;
    pub const PROG_BY_ID: libc::c_long = 13;
    pub const INFO: libc::c_long = 15;
    pub const TRACEPOINT_OPEN: libc::c_long = 17;
    pub const BTF_LOAD: libc::c_long = 18;
    pub const LINK_CREATE: libc::c_long = 28;
    pub const LINK_DETACH: libc::c_long = 34;
    pub const LINK_UPDATE: libc::c_long = 29;
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
struct Info {
    object: u32,
    length: u32,
    info: u64,
}

/// Calls bpf(2).
///
/// # Safety
/// Every address in `attr` must be of memory that is valid for what `command` does with it, for
/// the length that `attr` says.
pub(super) unsafe fn call<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes `attr` for its size; what it points to is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

pub(super) fn descriptor(raw: i32) -> OwnedFd {
    // SAFETY: called only with a descriptor that the kernel has just made for us.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

pub(super) fn short(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().take(15).zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    short
}

/// The first `LENGTH` bytes of what the kernel says of an object; of what it does not say, zeroes.
pub(super) fn info<const LENGTH: usize>(object: &OwnedFd) -> io::Result<[u8; LENGTH]> {
    let mut info = [0; LENGTH];
    let object = object.as_raw_fd() as u32;
    let mut attr = Info { object, length: LENGTH as u32, info: info.as_mut_ptr() as u64 };
    // SAFETY: `info` outlives the call and has the length given.
    unsafe { call(command::INFO, &mut attr)? };
    Ok(info)
}

/// The 32-bit word at `at`, in the order of this machine.
pub(super) fn word(info: &[u8], at: usize) -> u32 {
    info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Type information (BTF) that the kernel has taken.
#[derive(Debug)]
pub struct Types(pub(super) OwnedFd);

impl Types {
    /// Loads type information.
    pub fn load(bytes: &[u8]) -> io::Result<Types> {
        let mut attr = BtfLoad { types: bytes.as_ptr() as u64, size: bytes.len() as u32, ..BtfLoad::default() };
        // SAFETY: `bytes` outlives the call and has the length given.
        let loaded = unsafe { call(command::BTF_LOAD, &mut attr) }.or_else(|_| {
            // Once more for the reason.
            with_log(|log| {
                attr.log = log.as_mut_ptr() as u64;
                attr.log_size = log.len() as u32;
                attr.log_level = 1;
                // SAFETY: as before, and `log` outlives the call too.
                unsafe { call(command::BTF_LOAD, &mut attr) }
            })
        })?;
        Ok(Types(descriptor(loaded)))
    }
}

/// Gives `load` room for a log, and puts its last lines, which say why, into the error.
pub(super) fn with_log(load: impl FnOnce(&mut [u8]) -> io::Result<i32>) -> io::Result<i32> {
    let mut log = vec![0u8; LOG];
    load(&mut log).map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed")).collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        io::Error::new(error.kind(), format!("{error}{}{last}", if last.is_empty() { "" } else { ":\n" }))
    })
}
