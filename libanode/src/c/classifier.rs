//! Classifiers of a program's own: protocols that it teaches, rules over them, and which of them hold for a packet.
//!
//! It is the node's classifier (`src/classify/taught`), compiled into this library too, and works in the program's process: the node is
//! asked nothing and pays nothing, so what a program teaches concerns nobody else.

use super::{code, long_text, object, put, put_text, spec};
use crate::classify::taught::classifier::{Classifier, MatchMode};
use crate::classify::taught::pattern::NoNames;
use crate::classify::taught::pcap;
use crate::classify::taught::protocols::Protocols;
use crate::classify::taught::text::{self, Vocabulary};
use crate::classify::taught::token::Mistake;
use crate::classify::taught::trace::Trace;
use crate::crew::ProcessDomain;
use crate::error::Error;
use crate::layout;
use crate::objects::{self, Object, Place};
use crate::session::Session;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Flows that a classifier knows if the program does not say, and at most.
const FLOWS: c_uint = 4096;
const FLOWS_MAX: c_uint = 1 << 20;

/// Bytes of the longest packet that is looked at.
const PACKET_MAX: usize = 1 << 16;

/// A classifier to be created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CClassifierSpec {
    protocols: *const c_char,
    root: *const c_char,
    mode: c_uint,
    flows: c_uint,
}

layout::an_ClassifierSpec!(CClassifierSpec);

/// A classifier of a program's.
pub struct OwnClassifier {
    /// Its session.
    pub session: Arc<Session>,
    /// The domain it goes with.
    pub domain: u32,
    held: Mutex<Held>,
}

struct Held {
    classifier: Classifier<()>,
    /// Why the last call was refused.
    why: String,
}

impl OwnClassifier {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Why this thread's last classifier was not created.
    static WHY: core::cell::RefCell<String> = const { core::cell::RefCell::new(String::new()) };
}

/// A packet of a program's.
///
/// # Safety
/// `from` leads to so many bytes that stay as they are during the call, or is NULL.
unsafe fn packet<'a>(from: *const c_void, bytes: usize) -> Result<&'a [u8], Error> {
    if from.is_null() || bytes > PACKET_MAX {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's promise, and it is not NULL.
    Ok(unsafe { core::slice::from_raw_parts(from.cast(), bytes) })
}

/// Makes a classifier as a program says.
fn made(protocols: &str, root: &str, mode: MatchMode, flows: c_uint) -> Result<Classifier<()>, String> {
    let mut known = Protocols::standard();
    known.teach(protocols).map_err(|mistake| mistake.show("protocols", protocols))?;
    // Nobody who sends packets is to know where flows are.
    let secret = RandomState::new().hash_one(0u64);
    Classifier::new(known, root, mode, flows as usize, secret)
}

/// Creates a classifier of the program's own.
///
/// # Safety
/// As the header says: pointers lead to what their types say, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierCreate(
    mem: *mut c_void,
    domain: *mut c_void,
    classifierspec: *const CClassifierSpec,
) -> *mut c_void {
    let create = || {
        WHY.take();
        let (place, domain) = (Place::of(mem)?, objects::find::<ProcessDomain>(domain)?);
        domain.living()?;
        let plain = CClassifierSpec { protocols: core::ptr::null(), root: core::ptr::null(), mode: 0, flows: 0 };
        // SAFETY: the header asks for NULL or a specification.
        let given = if classifierspec.is_null() { plain } else { unsafe { spec(classifierspec) }? };
        let mode = match given.mode {
            0 => MatchMode::First,
            1 => MatchMode::All,
            2 => MatchMode::Best,
            _ => return Err(Error::Invalid),
        };
        let flows = if given.flows == 0 { FLOWS } else { given.flows };
        if flows > FLOWS_MAX {
            return Err(Error::Invalid);
        }
        // SAFETY: the header asks for strings.
        let protocols = if given.protocols.is_null() { "" } else { unsafe { long_text(given.protocols) }? };
        // SAFETY: the same.
        let root = if given.root.is_null() { "ethernet" } else { unsafe { long_text(given.root) }? };
        let classifier = made(protocols, root, mode, flows).map_err(|why| {
            WHY.set(why);
            Error::Invalid
        })?;
        let (session, held) = (domain.session.clone(), Mutex::new(Held { classifier, why: String::new() }));
        let own = OwnClassifier { session, domain: domain.name, held };
        objects::add(place, Object::Classifier(Arc::new(own)))
    };
    object(create())
}

/// Destroys a classifier.
#[unsafe(no_mangle)]
pub extern "C" fn an_classifierDestroy(classifier: *mut c_void) -> c_int {
    code(objects::remove::<OwnClassifier>(classifier).map(drop))
}

/// Changes a classifier, and keeps why it was not changed.
fn change(
    classifier: *mut c_void,
    work: impl FnOnce(&mut Classifier<()>) -> Result<(), (Error, String)>,
) -> Result<(), Error> {
    crate::heap::has_room()?;
    let found = objects::find::<OwnClassifier>(classifier)?;
    let mut held = found.lock();
    held.why.clear();
    work(&mut held.classifier).map_err(|(error, why)| {
        held.why = why;
        error
    })
}

/// Teaches all protocols of a text, or none.
///
/// # Safety
/// `protocols` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierTeach(classifier: *mut c_void, protocols: *const c_char) -> c_int {
    let teach = || {
        // SAFETY: the caller's promise.
        let text = unsafe { long_text(protocols) }?;
        let wrong = |mistake: Mistake| (Error::Invalid, mistake.show("protocols", text));
        change(classifier, |taught| taught.teach(text).map(drop).map_err(wrong))
    };
    code(teach())
}

/// Forgets a protocol.
///
/// # Safety
/// `protocol` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierUnteach(classifier: *mut c_void, protocol: *const c_char) -> c_int {
    let unteach = || {
        // SAFETY: the caller's promise.
        let name = unsafe { long_text(protocol) }?;
        change(classifier, |taught| {
            let is_known = taught.protocols().id(name).is_some();
            let error = if is_known { Error::Exists } else { Error::Unknown };
            taught.unteach(name).map_err(|why| (error, why))
        })
    };
    code(unteach())
}

/// Adds a rule.
///
/// # Safety
/// `rule` is NULL or a string, `number` leads to a number or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierAdd(
    classifier: *mut c_void,
    rule: *const c_char,
    order: c_uint,
    number: *mut c_uint,
) -> c_int {
    let add = || {
        // SAFETY: the caller's promise.
        let written = unsafe { long_text(rule) }?;
        // SAFETY: the same.
        unsafe { put(number, 0) }?;
        change(classifier, |taught| {
            let (protocols, root) = (taught.protocols(), taught.root());
            let mut known = Vocabulary { protocols, root, names: &mut NoNames };
            let is_rule = written.trim_start().starts_with('[');
            let read = if is_rule { text::rule(written, &mut known) } else { pcap::filter(written, &mut known) };
            let wanted = read.map_err(|mistake| (Error::Invalid, mistake.show("rule", written)))?;
            let added = taught.add(&wanted, order, ()).map_err(|why| (Error::Full, why))?;
            // SAFETY: the same.
            unsafe { put(number, added) }.map_err(|error| (error, String::new()))
        })
    };
    code(add())
}

/// Takes a rule out.
#[unsafe(no_mangle)]
pub extern "C" fn an_classifierRemove(classifier: *mut c_void, number: c_uint) -> c_int {
    let gone = || (Error::Unknown, format!("there is no rule {number}"));
    code(change(classifier, |taught| taught.remove(number).ok_or_else(gone)))
}

/// Makes look-ups of many rules fast.
#[unsafe(no_mangle)]
pub extern "C" fn an_classifierSettle(classifier: *mut c_void) -> c_int {
    code(change(classifier, |taught| {
        taught.settle();
        Ok(())
    }))
}

/// The rules that hold for a packet.
///
/// # Safety
/// `bytes` leads to `length` bytes, `rules` to room for `room` numbers, `count` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierMatch(
    classifier: *mut c_void,
    bytes: *const c_void,
    length: usize,
    rules: *mut c_uint,
    room: usize,
    count: *mut usize,
) -> c_int {
    let find = || {
        let found = objects::find::<OwnClassifier>(classifier)?;
        // SAFETY: the caller's promise.
        let packet = unsafe { packet(bytes, length) }?;
        let mut held = found.lock();
        let answer = held.classifier.find(packet);
        // SAFETY: the same.
        unsafe { put(count, answer.len()) }?;
        if answer.len() > room || (!answer.is_empty() && (rules.is_null() || !rules.is_aligned())) {
            return Err(Error::Invalid);
        }
        if !answer.is_empty() {
            // SAFETY: the same: there is room for so many, and it is neither NULL nor misaligned.
            unsafe { core::ptr::copy_nonoverlapping(answer.as_ptr(), rules, answer.len()) };
        }
        Ok(())
    };
    code(find())
}

/// What a packet is, in lines.
fn told(trace: &Trace) -> String {
    let mut lines = String::new();
    for header in &trace.headers {
        let fields: Vec<_> = header.fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let (name, start, inner) = (&header.name, header.start, header.inner);
        let _ = writeln!(lines, "{name}, bytes {start} to {inner}: {}", fields.join(", "));
    }
    let _ = writeln!(lines, "no more headers: {}", trace.stop);
    for rule in &trace.rules {
        let holds = if rule.holds { "holds" } else { "does not hold" };
        let _ = writeln!(lines, "rule {} {holds}, {}", rule.number, rule.why);
    }
    let answer: Vec<_> = trace.answer.iter().map(ToString::to_string).collect();
    let _ = writeln!(lines, "answer: {}", if answer.is_empty() { "none".into() } else { answer.join(" ") });
    lines
}

/// Says what a packet is, and why each rule holds or not.
///
/// # Safety
/// `bytes` leads to `length` bytes, `into` to `room`, `textbytes` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierExplain(
    classifier: *mut c_void,
    bytes: *const c_void,
    length: usize,
    into: *mut c_char,
    room: usize,
    textbytes: *mut usize,
) -> c_int {
    let explain = || {
        crate::heap::has_room()?;
        let found = objects::find::<OwnClassifier>(classifier)?;
        // SAFETY: the caller's promise.
        let packet = unsafe { packet(bytes, length) }?;
        let trace = found.lock().classifier.explain(packet);
        // SAFETY: the same.
        unsafe { put_text(&told(&trace), into, room, textbytes) }
    };
    code(explain())
}

/// Says why the last change of a classifier was refused.
///
/// # Safety
/// `into` leads to `room` bytes, `textbytes` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_classifierWhy(
    classifier: *mut c_void,
    into: *mut c_char,
    room: usize,
    textbytes: *mut usize,
) -> c_int {
    let say = || {
        let why = match classifier.is_null() {
            true => WHY.with_borrow(String::clone),
            false => objects::find::<OwnClassifier>(classifier)?.lock().why.clone(),
        };
        // SAFETY: the caller's promise.
        unsafe { put_text(&why, into, room, textbytes) }
    };
    code(say())
}
