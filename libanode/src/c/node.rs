//! The connection to a node, its time, and the threads of a program's own.

use super::domain::CThreadPoolSpec;
use super::{code, module, object, put, spec, text};
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::here;
use crate::layout;
use crate::message::{Call, DomainSpec, VERSION};
use crate::objects::{self, Credential, Object, Place};
use crate::session::Session;
use crate::wire::Place as Node;
use core::ffi::{c_char, c_int, c_uint, c_void};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How to connect to a node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CNodeSpec {
    path: *const c_char,
    title: *const c_char,
    cred: *const c_void,
    threads: *const CThreadPoolSpec,
    busypoll_us: c_uint,
}

layout::an_NodeSpec!(CNodeSpec);

/// Microseconds of the longest busy polling.
const BUSY_POLL_US_MAX: c_uint = 1_000_000;

/// Where the node is that has started this process: the number of the descriptor that it has given it, or the path of its socket.
const DESCRIPTOR: &str = "ANODE_NODEOS_FD";
/// See [`DESCRIPTOR`].
const PATH: &str = "ANODE_NODEOS";

/// Where the node is.
///
/// # Safety
/// `path` is NULL or a string.
unsafe fn place_of(path: *const c_char) -> Result<Node, Error> {
    if !path.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { text(path) }.map(|path| Node::Path(path.into()));
    }
    match (std::env::var(DESCRIPTOR), std::env::var_os(PATH)) {
        (Ok(number), _) => number.parse().map(Node::Descriptor).map_err(|_| Error::Invalid),
        (Err(_), Some(path)) => Ok(Node::Path(path.into())),
        (Err(_), None) => Err(Error::Unknown),
    }
}

/// Connects to a node.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_nodeConnect(mem: *mut c_void, nodespec: *const CNodeSpec) -> *mut c_void {
    let connect = || {
        let place = Place::of(mem)?;
        let none = CNodeSpec {
            path: core::ptr::null(),
            title: core::ptr::null(),
            cred: core::ptr::null(),
            threads: core::ptr::null(),
            busypoll_us: 0,
        };
        // SAFETY: the header asks for NULL or a specification.
        let given = if nodespec.is_null() { none } else { unsafe { spec(nodespec) }? };
        // SAFETY: the header asks for NULL or a string.
        let title = if given.title.is_null() { "process".into() } else { unsafe { text(given.title) }? };
        let role = match given.cred.is_null() {
            true => None,
            false => Some(objects::find::<Credential>(given.cred)?.role.clone()),
        };
        // SAFETY: the header asks for NULL or a specification.
        let (threads, own) = unsafe { CThreadPoolSpec::read(given.threads) }?;
        if given.busypoll_us > BUSY_POLL_US_MAX {
            return Err(Error::Invalid);
        }
        let domain = DomainSpec { title, threads: threads.clone(), pool: None, role };
        // Who names a socket means that.
        let session = match here::host().filter(|_| given.path.is_null()) {
            Some(host) => {
                let (domain, link) = host.connect(&domain)?;
                Session::begin(domain, link)?
            }
            None => {
                let busy_poll = Duration::from_micros(given.busypoll_us.into());
                // SAFETY: the caller's promise.
                let node = unsafe { place_of(given.path) }?;
                Session::connect(&node, &Call::Hello { version: VERSION, domain }, busy_poll)?
            }
        };
        let begin = || {
            let starts = !own && !module::runs();
            let domain = ProcessDomain::new(session.clone(), session.domain(), None, &threads, starts);
            let domain = Arc::new(domain);
            let handle = objects::add(Place::of(core::ptr::null_mut())?, Object::Domain(domain.clone()))?;
            let _ = domain.handle.set(handle as usize);
            session.set_first(handle as usize);
            session.desk().open(&domain)?;
            objects::add(place, Object::Node(session.clone()))
        };
        begin().inspect_err(|_| session.disconnect())
    };
    object(connect())
}

/// Disconnects from a node: all objects of the connection end.
#[unsafe(no_mangle)]
pub extern "C" fn an_nodeDisconnect(node: *mut c_void) -> c_int {
    code(objects::remove::<Session>(node).map(|session| session.disconnect()))
}

/// Nanoseconds of the node's clock.
///
/// # Safety
/// `now` is NULL or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_timeNow(node: *mut c_void, now: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    code(objects::find::<Session>(node).and_then(|session| unsafe { put(now, session.now()) }))
}

/// Says a line.
///
/// # Safety
/// `line` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_say(line: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { text(line) }.and_then(|line| {
        let mut said = line.into_bytes();
        said.push(b'\n');
        std::io::stderr().write_all(&said).map_err(|_| Error::Io)
    }))
}

/// A credential: the name of a role.
///
/// # Safety
/// `role` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_credCreate(mem: *mut c_void, role: *const c_char) -> *mut c_void {
    let create = || {
        // SAFETY: the caller's promise.
        let role = unsafe { text(role) }?;
        if role.is_empty() {
            return Err(Error::Invalid);
        }
        objects::add(Place::of(mem)?, Object::Credential(Arc::new(Credential { role })))
    };
    object(create())
}

/// Destroys a credential.
#[unsafe(no_mangle)]
pub extern "C" fn an_credDestroy(credential: *mut c_void) -> c_int {
    code(objects::remove::<Credential>(credential).map(drop))
}
