//! Files.

use super::{code, object, put, text};
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::layout;
use crate::message::{Answer, Call, Contents, FILE_BYTES_MAX};
use crate::objects::{self, Object, Place, Plain, PlainKind};
use crate::session::Session;
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::sync::Arc;

/// All flags there are.
const FLAGS: c_uint = layout::AN_FILE_READ
    | layout::AN_FILE_WRITE
    | layout::AN_FILE_CREATE
    | layout::AN_FILE_EXCLUSIVE
    | layout::AN_FILE_TRUNCATE
    | layout::AN_FILE_APPEND;

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
/// `into` leads to `bytes` bytes, `done` to memory for a number; or they are NULL.
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
            let Answer::Read { contents: Contents(data) } = answer else { return Err(Error::Ended) };
            if data.is_empty() || data.len() > bytes - got {
                break;
            }
            // SAFETY: the caller's promise: `bytes` bytes are there, and these lie within them.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), into.cast::<u8>().add(got), data.len()) };
            got += data.len();
        }
        // SAFETY: the caller's promise.
        unsafe { put(done, got) }
    };
    code(read())
}

/// Writes to a file.
///
/// # Safety
/// `from` leads to `bytes` bytes, `done` to memory for a number; or they are NULL.
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
            // SAFETY: the caller's promise: `bytes` bytes are there, and these lie within them.
            let data = unsafe { core::slice::from_raw_parts(from.cast::<u8>().add(put_), length) };
            let call = Call::FileWrite { file: file.name, offset, contents: Contents(data.to_vec()) };
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

/// What is known of a file.
#[repr(C)]
pub struct CFileStat {
    size: u64,
    modified_ns: u64,
    directory: c_int,
}

layout::an_FileStat!(CFileStat);

/// Asks about a file, and puts the answer where the program wants it.
///
/// # Safety
/// `into` is NULL or leads to memory for it; `name` to as many bytes as `bytes` says, or there are none.
unsafe fn ask_about(
    session: &Session,
    call: &Call,
    into: *mut CFileStat,
    name: Option<(*mut c_char, usize)>,
) -> Result<(), Error> {
    let Answer::Found { name: found, size, modified_ns, directory } = session.call(call)? else {
        return Err(Error::Ended);
    };
    if let Some((to, bytes)) = name {
        let data = CString::new(found).map_err(|_| Error::Io)?.into_bytes_with_nul();
        if to.is_null() || data.len() > bytes {
            return Err(Error::Invalid);
        }
        // SAFETY: the caller's promise: `bytes` bytes are there, and these are not more.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), data.len()) };
    }
    if into.is_null() && name.is_some() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { put(into, CFileStat { size, modified_ns, directory: directory.into() }) }
}

/// A domain that lives, by its name in the program.
pub(super) fn domain_of(domain: *mut c_void) -> Result<Arc<ProcessDomain>, Error> {
    let domain = objects::find::<ProcessDomain>(domain)?;
    domain.living().map(|()| domain)
}

/// Makes a file longer, with zeros, or shorter.
#[unsafe(no_mangle)]
pub extern "C" fn an_fileTruncate(file: *mut c_void, size: u64) -> c_int {
    let truncate = || {
        let file = objects::find_plain(file, PlainKind::File)?;
        file.session.call(&Call::FileTruncate { file: file.name, size }).map(drop)
    };
    code(truncate())
}

/// Waits until what was written to a file is on the disk.
#[unsafe(no_mangle)]
pub extern "C" fn an_fileSync(file: *mut c_void) -> c_int {
    let sync = || {
        let file = objects::find_plain(file, PlainKind::File)?;
        file.session.call(&Call::FileSync { file: file.name }).map(drop)
    };
    code(sync())
}

/// What is known of an open file.
///
/// # Safety
/// `stat` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileStat(file: *mut c_void, stat: *mut CFileStat) -> c_int {
    let ask = || {
        let file = objects::find_plain(file, PlainKind::File)?;
        // SAFETY: the caller's promise.
        unsafe { ask_about(&file.session, &Call::FileStat { file: file.name }, stat, None) }
    };
    code(ask())
}

/// What there is by a path.
///
/// # Safety
/// `space` and `path` are NULL or strings, `stat` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileStatPath(
    domain: *mut c_void,
    space: *const c_char,
    path: *const c_char,
    stat: *mut CFileStat,
) -> c_int {
    let ask = || {
        let domain = domain_of(domain)?;
        // SAFETY: the caller's promise.
        let (space, path) = unsafe { (space_of(space)?, text(path)?) };
        // SAFETY: as above.
        unsafe { ask_about(&domain.session, &Call::FileStatPath { domain: domain.name, space, path }, stat, None) }
    };
    code(ask())
}

/// Makes a directory.
///
/// # Safety
/// `space` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileMakeDirectory(domain: *mut c_void, space: *const c_char, path: *const c_char) -> c_int {
    let make = || {
        let domain = domain_of(domain)?;
        // SAFETY: the caller's promise.
        let (space, path) = unsafe { (space_of(space)?, text(path)?) };
        domain.session.call(&Call::FileMakeDirectory { domain: domain.name, space, path }).map(drop)
    };
    code(make())
}

/// Gives a file another name.
///
/// # Safety
/// `space`, `from` and `to` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileRename(
    domain: *mut c_void,
    space: *const c_char,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    let rename = || {
        let domain = domain_of(domain)?;
        // SAFETY: the caller's promise.
        let (space, from, to) = unsafe { (space_of(space)?, text(from)?, text(to)?) };
        domain.session.call(&Call::FileRename { domain: domain.name, space, from, to }).map(drop)
    };
    code(rename())
}

/// The name in a directory that comes behind another.
///
/// # Safety
/// `space`, `path` and `after` are NULL or strings; `name` leads to `bytes` bytes; `stat` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileNext(
    domain: *mut c_void,
    space: *const c_char,
    path: *const c_char,
    after: *const c_char,
    name: *mut c_char,
    bytes: usize,
    stat: *mut CFileStat,
) -> c_int {
    let next = || {
        let domain = domain_of(domain)?;
        // SAFETY: the caller's promise.
        let (space, path) = unsafe { (space_of(space)?, space_of(path)?) };
        // SAFETY: as above.
        let after = if after.is_null() { String::new() } else { unsafe { text(after) }? };
        let call = Call::FileNext { domain: domain.name, space, path, after };
        // SAFETY: as above.
        unsafe { ask_about(&domain.session, &call, stat, Some((name, bytes))) }
    };
    code(next())
}

/// Lets another holder use the domain's name space.
///
/// # Safety
/// `with` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_fileShare(domain: *mut c_void, with: *const c_char, access: c_int) -> c_int {
    let share = || {
        let domain = domain_of(domain)?;
        // SAFETY: the caller's promise.
        let with = unsafe { text(with) }?;
        // In messages they are the same numbers.
        const { assert!(matches!([layout::AN_ACCESS_NONE, layout::AN_ACCESS_READ, layout::AN_ACCESS_WRITE], [0, 1, 2])) }
        let access = u8::try_from(access).map_err(|_| Error::Invalid)?;
        domain.session.call(&Call::FileShare { domain: domain.name, with, access }).map(drop)
    };
    code(share())
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
