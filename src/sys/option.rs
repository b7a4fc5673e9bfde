//! Options of sockets that take C values. Example: the number of slots of a ring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option whose value the kernel takes as a C value of this very type.
pub(super) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads the value, whose length is given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks for an option whose value is a number.
pub(super) fn option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the value, which is that long.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
