//! Pins: names in a BPF file system, which keep objects when the process that made them is gone.

use super::call::{call, command, descriptor};
use rustix::fs::statfs;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `BPF_FS_MAGIC` of linux/magic.h.
const MAGIC: u32 = 0xcafe_4a11;

#[repr(C)]
#[derive(Default)]
struct Named {
    path: u64,
    object: u32,
    flags: u32,
    directory: u32,
    padding: u32,
}

/// Whether a directory is in a BPF file system.
pub fn is_mounted(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| found.f_type as u32 == MAGIC)
}

/// Mounts a BPF file system at a directory, for its owner only.
pub fn mount(directory: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("anode", directory, "bpf", flags, Some(c"mode=0700"))?)
}

/// Takes the file system at a directory away, with all its pins, when its last user is gone.
pub fn unmount(directory: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(directory, UnmountFlags::DETACH)?)
}

/// Pins an object.
pub fn pin(object: &impl AsFd, path: &Path) -> io::Result<()> {
    named(command::PIN, path, object.as_fd().as_raw_fd() as u32).map(drop)
}

/// The object under a name.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    named(command::OPEN, path, 0).map(descriptor)
}

fn named(command: libc::c_long, path: &Path, object: u32) -> io::Result<i32> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = Named { path: path.as_ptr() as u64, object, ..Named::default() };
    // SAFETY: the attribute's address is of a C string, which outlives the call.
    unsafe { call(command, &mut attr) }
}
