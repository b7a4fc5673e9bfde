//! Files.

use super::{code, object, put, text};
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::message::{Answer, Call, Contents, FILE_BYTES_MAX};
use crate::objects::{self, Object, Place, Plain, PlainKind};
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// All flags there are.
const FLAGS: c_uint = 63;

/// The name of a name space, or nothing for the domain's own.
///
/// # Safety
/// The pointer is NULL or a string.
unsafe fn space_of(space: *const c_char) -> Result<Option<String>, Error> {
    // SAFETY: the caller's promise.
    if space.is_null() { Ok(None) } else { unsafe { text(space) }.map(Some) }
}

/// Opens a file.
///
/// # Safety
/// `space` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileOpen(
    mem: *mut c_void,
    domain: *mut c_void,
    space: *const c_char,
    path: *const c_char,
    flags: c_uint,
) -> *mut c_void {
    let open = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        // SAFETY: the caller's promise.
        let (space, path) = unsafe { (space_of(space)?, text(path)?) };
        if flags == 0 || flags & !FLAGS != 0 {
            return Err(Error::Invalid);
        }
        let session = domain.session.clone();
        session.call_then(&Call::FileOpen { domain: domain.name, space, path, flags }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let file = Plain { session: session.clone(), domain: domain.name, name };
            objects::add(place, Object::File(Arc::new(file)))
        })
    };
    object(open())
}

/// Reads of a file.
///
/// # Safety
/// `into` leads to `bytes` octets, `done` to memory for a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileRead(
    file: *mut c_void,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
    done: *mut usize,
) -> c_int {
    let read = || {
        let file = objects::find_plain(file, PlainKind::File)?;
        if into.is_null() || done.is_null() {
            return Err(Error::Invalid);
        }
        let mut got = 0;
        while got < bytes {
            let length = (bytes - got).min(FILE_BYTES_MAX) as u32;
            let offset = offset.checked_add(got as u64).ok_or(Error::Invalid)?;
            let answer = file.session.call(&Call::FileRead { file: file.name, offset, length })?;
            let Answer::Read { contents: Contents(octets) } = answer else { return Err(Error::Ended) };
            if octets.is_empty() || octets.len() > bytes - got {
                break;
            }
            // SAFETY: the caller's promise: `bytes` octets are there, and these lie within them.
            unsafe { core::ptr::copy_nonoverlapping(octets.as_ptr(), into.cast::<u8>().add(got), octets.len()) };
            got += octets.len();
        }
        // SAFETY: the caller's promise.
        unsafe { put(done, got) }
    };
    code(read())
}

/// Writes to a file.
///
/// # Safety
/// `from` leads to `bytes` octets, `done` to memory for a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileWrite(
    file: *mut c_void,
    offset: u64,
    from: *const c_void,
    bytes: usize,
    done: *mut usize,
) -> c_int {
    let write = || {
        let file = objects::find_plain(file, PlainKind::File)?;
        if from.is_null() || done.is_null() {
            return Err(Error::Invalid);
        }
        let mut put_ = 0;
        while put_ < bytes {
            let length = (bytes - put_).min(FILE_BYTES_MAX);
            let offset = offset.checked_add(put_ as u64).ok_or(Error::Invalid)?;
            // SAFETY: the caller's promise: `bytes` octets are there, and these lie within them.
            let octets = unsafe { core::slice::from_raw_parts(from.cast::<u8>().add(put_), length) };
            let call = Call::FileWrite { file: file.name, offset, contents: Contents(octets.to_vec()) };
            let Answer::Written { bytes: written } = file.session.call(&call)? else { return Err(Error::Ended) };
            if written == 0 {
                break;
            }
            put_ += (written as usize).min(length);
        }
        // SAFETY: the caller's promise.
        unsafe { put(done, put_) }
    };
    code(write())
}

/// Closes a file.
#[unsafe(no_mangle)]
pub extern "C" fn an_fileClose(file: *mut c_void) -> c_int {
    let close = || {
        let file = objects::remove_plain(file, PlainKind::File)?;
        file.session.call(&Call::FileClose { file: file.name }).map(drop)
    };
    code(close())
}

/// Takes the name of a file away.
///
/// # Safety
/// `space` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileUnlink(domain: *mut c_void, space: *const c_char, path: *const c_char) -> c_int {
    let unlink = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        domain.living()?;
        // SAFETY: the caller's promise.
        let (space, path) = unsafe { (space_of(space)?, text(path)?) };
        domain.session.call(&Call::FileUnlink { domain: domain.name, space, path }).map(drop)
    };
    code(unlink())
}
