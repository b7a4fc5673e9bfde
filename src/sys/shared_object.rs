//! Shared objects from memory: a sealed copy that nobody can change, opened by the dynamic linker.

#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

/// A shared object in this process; closed when it is dropped.
#[derive(Debug)]
pub struct SharedObject {
    handle: NonNull<c_void>,
    /// Open as long as the object is: the dynamic linker knows objects by their paths, and gives the one that it has for a path that
    /// it has seen, whatever is there now.
    _copy: File,
}

// SAFETY: the dynamic linker's functions may be called from any thread, and a handle is only a name to them.
unsafe impl Send for SharedObject {}
// SAFETY: as above; nothing here changes through a shared reference.
unsafe impl Sync for SharedObject {}

impl SharedObject {
    /// Opens the object with these bytes; its symbols serve nobody else. Runs its initialisers, if it has any: the caller
    /// trusts whoever made it.
    pub fn open(bytes: &[u8]) -> io::Result<SharedObject> {
        let copy = memfd_create("anode-native", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut copy = File::from(copy);
        copy.write_all(bytes)?;
        fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let path = CString::new(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
        // SAFETY: the path is a string that ends with NUL and lives through the call.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(SharedObject { handle, _copy: copy }),
            None => Err(io::Error::other(last_error())),
        }
    }

    /// The address of a symbol that it exports.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open as long as `self` lives, and the name ends with NUL.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is closed once, here.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

fn last_error() -> String {
    // SAFETY: dlerror gives NULL or a string of this thread that is valid until the next call of its family.
    let text = unsafe { NonNull::new(libc::dlerror()).map(|text| CStr::from_ptr(text.as_ptr()).to_owned()) };
    text.map_or_else(|| "the dynamic linker gives no reason".into(), |text| text.to_string_lossy().into_owned())
}
