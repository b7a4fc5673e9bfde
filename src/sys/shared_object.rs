//! Shared objects from memory: a sealed copy that nobody can change, opened by the dynamic linker.

#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared object in this process; closed when it is dropped.
#[derive(Debug)]
pub struct SharedObject {
    handle: NonNull<c_void>,
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
        let path = CString::new(path_of(copy.as_raw_fd()))?;
        // SAFETY: the path is a string that ends with NUL and lives through the call.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(SharedObject { handle }),
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

/// A path of a descriptor that no other object has had: the dynamic linker knows objects by their paths, and for one that it knows it gives
/// the object that it has, whatever is there now.
fn path_of(descriptor: RawFd) -> String {
    static OPENED: AtomicU64 = AtomicU64::new(1);
    let mut number = OPENED.fetch_add(1, Ordering::Relaxed);
    let mut path = "/proc/self/fd/".to_owned();
    // Parts of a path that mean nothing, one for each digit.
    while number > 0 {
        path.push_str(if number & 1 == 1 { "./" } else { "/" });
        number >>= 1;
    }
    path + &descriptor.to_string()
}

fn last_error() -> String {
    // SAFETY: dlerror gives NULL or a string of this thread that is valid until the next call of its family.
    let text = unsafe { NonNull::new(libc::dlerror()).map(|text| CStr::from_ptr(text.as_ptr()).to_owned()) };
    text.map_or_else(|| "the dynamic linker gives no reason".into(), |text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_objects_have_one_path() {
        let paths: BTreeSet<String> = (0..1000).map(|_| path_of(7)).collect();
        assert_eq!(paths.len(), 1000);
        let plain = |path: &str| {
            path.replace("./", "/").split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        };
        assert!(paths.iter().all(|path| plain(path) == "proc/self/fd/7"), "{paths:?}");
    }
}
