//! Domains, their threads and their events.

use super::{code, module, object, put, spec, text};
use crate::crew::{self, Argument, Event, Flow, ObjectFunction, ProcessDomain, RunFunction, THREADS_MAX};
use crate::error::Error;
use crate::layout;
use crate::message::{Answer, Call, DomainSpec, Threads, Usage};
use crate::objects::{self, Credential, Object, Place, Plain, PlainKind};
use crate::session::Session;
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Bytes of the largest stack.
const STACK_BYTES_MAX: c_uint = 64 << 20;

/// Milliseconds of the longest delay: ten years.
const DELAY_MS_MAX: u64 = 10 * 366 * 86_400_000;

/// The threads of a domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CThreadPoolSpec {
    maxthreads: c_int,
    stackbytes: c_uint,
    own: c_int,
    holdms: c_uint,
}

layout::an_ThreadPoolSpec!(CThreadPoolSpec);

impl CThreadPoolSpec {
    /// What a program wants, and whether it brings the threads itself; one thread if it says nothing.
    ///
    /// # Safety
    /// The pointer is NULL or leads to a specification.
    pub unsafe fn read(from: *const CThreadPoolSpec) -> Result<(Threads, bool), Error> {
        if from.is_null() {
            return Ok((Threads { max_threads: 1, ..Threads::default() }, false));
        }
        // SAFETY: the caller's promise.
        let given = unsafe { spec(from) }?;
        let fits = (1..=THREADS_MAX as c_int).contains(&given.maxthreads) && given.stackbytes <= STACK_BYTES_MAX;
        if !fits || !matches!(given.own, 0 | 1) {
            return Err(Error::Invalid);
        }
        let threads =
            Threads { max_threads: given.maxthreads as u16, stack_bytes: given.stackbytes, hold_ms: given.holdms };
        Ok((threads, given.own == 1))
    }
}

/// A domain to be created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CDomainSpec {
    title: *const c_char,
    pool: *const c_void,
    cred: *const c_void,
    endfunc: Option<ObjectFunction>,
    endarg: *mut c_void,
}

layout::an_DomainSpec!(CDomainSpec);

/// What a domain has used.
#[repr(C)]
pub struct CUsage {
    packets: u64,
    bytes: u64,
    forwarded: u64,
    drops: u64,
    memory_bytes: u64,
    cpu_ns: u64,
}

layout::an_Usage!(CUsage);

/// Creates a domain below another.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_domainCreate(
    mem: *mut c_void,
    parent: *mut c_void,
    threads: *const CThreadPoolSpec,
    domainspec: *const CDomainSpec,
) -> *mut c_void {
    let create = || {
        let (place, parent) = (Place::of(mem)?, objects::find::<ProcessDomain>(parent)?);
        parent.living()?;
        // SAFETY: the header asks for NULL or a specification.
        let (threads, own) = unsafe { CThreadPoolSpec::read(threads) }?;
        let plain = DomainSpec { title: "domain".into(), threads: threads.clone(), pool: None, role: None };
        let (mut spec_, mut ends) = (plain, None);
        if !domainspec.is_null() {
            // SAFETY: as above.
            let given = unsafe { spec(domainspec) }?;
            if !given.title.is_null() {
                // SAFETY: the header asks for a string.
                spec_.title = unsafe { text(given.title) }?;
            }
            if !given.pool.is_null() {
                spec_.pool = Some(pool_of(given.pool, &parent.session)?);
            }
            if !given.cred.is_null() {
                spec_.role = Some(objects::find::<Credential>(given.cred)?.role.clone());
            }
            ends = given.endfunc.map(|function| (function, Argument::of(given.endarg)));
        }
        parent.session.desk().has_room(&parent.session, threads.max_threads)?;
        open_below(place, &parent, spec_, !own, |domain| {
            domain.ends = ends;
            if module::runs() {
                let workers = parent.workers();
                let flow = Flow { workers, state: Argument(0), timers_max: 0, timer_ms: 0, leaf: false };
                domain.flow = Some(flow);
            }
        })
    };
    object(create())
}

/// Creates a domain below another of this process, as `shape` says.
pub(super) fn open_below(
    place: Place,
    parent: &ProcessDomain,
    spec: DomainSpec,
    starts: bool,
    shape: impl FnOnce(&mut ProcessDomain),
) -> Result<*mut c_void, Error> {
    if parent.is_leaf() {
        return Err(Error::Invalid);
    }
    let (session, threads) = (parent.session.clone(), spec.threads.clone());
    let call = Call::DomainCreate { parent: parent.name, spec };
    let (handle, opened) = session.call_then(&call, |answer| {
        let Answer::Object { name } = answer else { return Err(Error::Ended) };
        let mut domain = ProcessDomain::new(session.clone(), name, Some(parent.name), &threads, starts);
        shape(&mut domain);
        let domain = Arc::new(domain);
        let handle = objects::add(place, Object::Domain(domain.clone()))?;
        let _ = domain.handle.set(handle as usize);
        Ok((handle, session.desk().open(&domain)))
    })?;
    if let Err(error) = opened {
        // It has no threads, or has ended meanwhile: nobody ever hears of it.
        let _ = destroy(handle);
        return Err(error);
    }
    Ok(handle)
}

/// The node's name of a pool of this session.
pub fn pool_of(pool: *const c_void, session: &Arc<Session>) -> Result<u32, Error> {
    let pool: Arc<Plain> = objects::find_plain(pool, PlainKind::Pool)?;
    if Arc::ptr_eq(&pool.session, session) { Ok(pool.name) } else { Err(Error::Denied) }
}

/// Ends a domain with all below it, here and in the node, and waits until nothing of it runs, also if somebody else has ended it. Gives the
/// domains that were closed by it.
fn terminate(domain: &Arc<ProcessDomain>) -> (Vec<Arc<ProcessDomain>>, Result<(), Error>) {
    let session = &domain.session;
    let ended = domain.living().and_then(|()| session.call(&Call::DomainTerminate { domain: domain.name }).map(drop));
    if !matches!(ended, Ok(()) | Err(Error::Stale | Error::Ended)) {
        return (Vec::new(), ended);
    }
    let mut closed = session.desk().close(session, domain.name);
    session.desk().wait_for_functions(domain.name);
    if !closed.iter().any(|closed| Arc::ptr_eq(closed, domain)) {
        closed.push(domain.clone());
    }
    crew::join(&closed);
    (closed, ended)
}

/// The same, and takes the names of all that away.
fn destroy(handle: *mut c_void) -> Result<(), Error> {
    let domain = objects::remove::<ProcessDomain>(handle)?;
    let (closed, ended) = terminate(&domain);
    let names: Vec<u32> = closed.iter().map(|domain| domain.name).chain([domain.name]).collect();
    objects::remove_of(&domain.session, Some(&names));
    match ended {
        // Somebody else was faster, or the node has gone: it has ended all the same.
        Err(Error::Stale | Error::Ended) => Ok(()),
        other => other,
    }
}

/// Ends a domain and all below it; its name stays.
#[unsafe(no_mangle)]
pub extern "C" fn an_domainTerminate(domain: *mut c_void) -> c_int {
    code(objects::find::<ProcessDomain>(domain).and_then(|domain| terminate(&domain).1))
}

/// Ends a domain if it lives, and takes its name and those of its objects away.
#[unsafe(no_mangle)]
pub extern "C" fn an_domainDestroy(domain: *mut c_void) -> c_int {
    code(destroy(domain))
}

/// The domain for which the calling thread works, or the connection's first.
#[unsafe(no_mangle)]
pub extern "C" fn an_domainSelf(node: *mut c_void) -> *mut c_void {
    let find = || {
        let session = objects::find::<Session>(node)?;
        let handle = match crew::works_for(&session) {
            Some(name) => session.desk().handle_of(name),
            None => session.first(),
        };
        handle.map(|handle| handle as *mut c_void).ok_or(Error::Stale)
    };
    object(find())
}

/// What a domain has used.
///
/// # Safety
/// `usage` is NULL or leads to memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_domainUsage(domain: *mut c_void, usage: *mut CUsage) -> c_int {
    let ask = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        domain.living()?;
        let answer = domain.session.call(&Call::DomainUsage { domain: domain.name })?;
        let Answer::Used { usage: Usage { packets, bytes, forwarded, drops, memory_bytes, cpu_ns } } = answer else {
            return Err(Error::Ended);
        };
        // SAFETY: the caller's promise.
        unsafe { put(usage, CUsage { packets, bytes, forwarded, drops, memory_bytes, cpu_ns }) }
    };
    code(ask())
}

/// Waits until a domain has ended.
#[unsafe(no_mangle)]
pub extern "C" fn an_domainWait(domain: *mut c_void) -> c_int {
    let wait = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        if crew::is_of_a_crew() {
            return Err(Error::Invalid);
        }
        domain.session.desk().wait_for_end(&domain);
        Ok(())
    };
    code(wait())
}

/// Has a thread of a domain run a function.
#[unsafe(no_mangle)]
pub extern "C" fn an_threadCreate(domain: *mut c_void, function: Option<RunFunction>, argument: *mut c_void) -> c_int {
    let create = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        domain.living()?;
        let function = function.ok_or(Error::Invalid)?;
        domain.session.desk().run(&domain, function, Argument::of(argument))
    };
    code(create())
}

/// Lends the calling thread to a domain.
#[unsafe(no_mangle)]
pub extern "C" fn an_threadEnter(domain: *mut c_void, milliseconds: i64) -> c_int {
    let enter = || {
        let domain = objects::find::<ProcessDomain>(domain)?;
        if crew::is_of_a_crew() || milliseconds < -1 || domain.flow.is_some() {
            return Err(Error::Invalid);
        }
        if domain.starts && domain.session.link().is_here() {
            // The node's own thread is as many as there can be.
            return domain.living().and(Err(Error::Limit));
        }
        let time = u64::try_from(milliseconds).ok().map(|time| Duration::from_millis(time.min(DELAY_MS_MAX)));
        domain.session.desk().serve(&domain, time.map(|time| Instant::now() + time))
    };
    code(enter())
}

/// The calling thread's name, if it works for a domain.
#[unsafe(no_mangle)]
pub extern "C" fn an_threadSelf() -> *mut c_void {
    object(crew::thread_self().map(objects::thread_name).ok_or(Error::Invalid))
}

/// Has the calling thread leave its domain when the function that it runs has returned.
#[unsafe(no_mangle)]
pub extern "C" fn an_threadExit() -> c_int {
    code(if crew::leave() { Ok(()) } else { Err(Error::Invalid) })
}

/// Lets other threads go first.
#[unsafe(no_mangle)]
pub extern "C" fn an_threadYield() {
    std::thread::yield_now();
}

/// Has an event come to a domain.
#[unsafe(no_mangle)]
pub extern "C" fn an_eventSchedule(
    mem: *mut c_void,
    domain: *mut c_void,
    delay_ms: u64,
    function: Option<ObjectFunction>,
    argument: *mut c_void,
) -> *mut c_void {
    let schedule = || {
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        let function = function.ok_or(Error::Invalid)?;
        if delay_ms > DELAY_MS_MAX {
            return Err(Error::Invalid);
        }
        let session = domain.session.clone();
        let delay_ms = domain.flow.as_ref().map_or(delay_ms, |flow| flow.delay_ms(session.now(), delay_ms));
        let number = session.number();
        let event = Arc::new(Event {
            session: session.clone(),
            domain: domain.name,
            number,
            name: OnceLock::new(),
            handle: OnceLock::new(),
            function,
            argument: Argument::of(argument),
        });
        // It may come before the answer: so it is known before the call.
        let handle = objects::add(place, Object::Event(event.clone()))?;
        let _ = event.handle.set(handle as usize);
        let known = session.desk().add_event(&event);
        known.inspect_err(|_| drop(objects::remove::<Event>(handle)))?;
        let call = Call::EventSchedule { domain: domain.name, delay_ms, argument: number };
        let scheduled = session.call_then(&call, |answer| {
            let Answer::Event { event: name } = answer else { return Err(Error::Ended) };
            let _ = event.name.set(name);
            Ok(handle)
        });
        scheduled.inspect_err(|_| {
            session.desk().remove_event(&event);
            let _ = objects::remove::<Event>(handle);
        })
    };
    object(schedule())
}

/// Takes an event back.
#[unsafe(no_mangle)]
pub extern "C" fn an_eventCancel(event: *mut c_void) -> c_int {
    let cancel = || {
        let event = objects::remove::<Event>(event)?;
        let session = &event.session;
        if !session.desk().remove_event(&event) {
            return Err(if session.has_ended() { Error::Ended } else { Error::Stale });
        }
        // If the node has sent it already it is thrown away here.
        if let Some(name) = event.name.get() {
            let _ = session.call(&Call::EventCancel { event: *name });
        }
        Ok(())
    };
    code(cancel())
}
