//! Memory pools and heaps.

use super::domain::pool_of;
use super::{code, object, spec};
use crate::crew::{Argument, Overrun, OverrunFunction, ProcessDomain};
use crate::error::Error;
use crate::heap::Heap;
use crate::layout;
use crate::message::{Answer, Call, PoolSpec};
use crate::objects::{self, Object, Place, Plain, PlainKind};
use core::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

/// A memory pool to be created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CMemPoolSpec {
    parent: *const c_void,
    limit: u64,
    deadline_ms: c_uint,
    overrunfunc: Option<OverrunFunction>,
    overrunarg: *mut c_void,
}

layout::an_MemPoolSpec!(CMemPoolSpec);

/// Creates a memory pool.
///
/// # Safety
/// `poolspec` is NULL or leads to a specification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_mempoolCreate(
    mem: *mut c_void,
    domain: *mut c_void,
    poolspec: *const CMemPoolSpec,
) -> *mut c_void {
    let create = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        // SAFETY: the caller's promise.
        let given = unsafe { spec(poolspec) }?;
        let session = domain.session.clone();
        let parent = if given.parent.is_null() { None } else { Some(pool_of(given.parent, &session)?) };
        let spec = PoolSpec { parent, limit_bytes: given.limit, deadline_ms: given.deadline_ms };
        session.call_then(&Call::PoolCreate { spec }, |answer| {
            let Answer::Object { name } = answer else { return Err(Error::Ended) };
            let pool = Plain { session: session.clone(), domain: domain.name, name };
            let handle = objects::add(place, Object::Pool(Arc::new(pool)))?;
            if let Some(function) = given.overrunfunc {
                let argument = Argument::of(given.overrunarg);
                session.desk().add_pool(name, Overrun { handle: handle as usize, function, argument });
            }
            Ok(handle)
        })
    };
    object(create())
}

/// Destroys a memory pool; it stays if it is in use.
#[unsafe(no_mangle)]
pub extern "C" fn an_mempoolDestroy(pool: *mut c_void) -> c_int {
    let destroy = || {
        let found = objects::find_plain(pool, PlainKind::Pool)?;
        found.session.call(&Call::PoolDestroy { pool: found.name })?;
        found.session.desk().remove_pool(found.name);
        objects::remove_plain(pool, PlainKind::Pool).map(drop)
    };
    code(destroy())
}

/// Charges memory to a pool, or gives it back.
#[unsafe(no_mangle)]
pub extern "C" fn an_mempoolCharge(pool: *mut c_void, bytes: i64) -> c_int {
    let charge = || {
        let pool = objects::find_plain(pool, PlainKind::Pool)?;
        pool.session.call(&Call::PoolCharge { pool: pool.name, bytes }).map(drop)
    };
    code(charge())
}

/// Creates a heap whose memory is charged to a pool.
#[unsafe(no_mangle)]
pub extern "C" fn an_heapCreate(mem: *mut c_void, pool: *mut c_void, limit: u64) -> *mut c_void {
    let create = || {
        let (place, pool) = (Place::of(mem)?, objects::find_plain(pool, PlainKind::Pool)?);
        let heap = Heap::new(pool.session.clone(), pool.domain, pool.name, limit);
        objects::add(place, Object::Heap(Arc::new(heap)))
    };
    object(create())
}

/// Allocates zeroed memory from a heap.
#[unsafe(no_mangle)]
pub extern "C" fn an_heapAlloc(heap: *mut c_void, bytes: usize) -> *mut c_void {
    object(objects::find::<Heap>(heap).and_then(|heap| heap.alloc(bytes)))
}

/// Frees memory of a heap.
#[unsafe(no_mangle)]
pub extern "C" fn an_heapFree(heap: *mut c_void, block: *mut c_void) -> c_int {
    code(objects::find::<Heap>(heap).and_then(|heap| heap.free(block)))
}

/// Destroys a heap with all that is in it.
#[unsafe(no_mangle)]
pub extern "C" fn an_heapDestroy(heap: *mut c_void) -> c_int {
    code(objects::remove::<Heap>(heap).map(drop))
}
