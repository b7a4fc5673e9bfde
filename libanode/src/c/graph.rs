//! Graphs of the node that a program's role may change: texts of the program's go to the node, and what it says of them comes back.

use super::file::domain_of;
use super::{code, long_text, put, put_text, spec, text};
use crate::error::Error;
use crate::layout;
use crate::message::{self, Answer, Call, GRAPH_TEXT_MAX, GraphText};
use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_uint, c_void};

/// Changes of connections.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CGraphEdit {
    disconnect: *const c_char,
    remove: *const c_char,
    connect: *const c_char,
    base: c_uint,
}

layout::an_GraphEdit!(CGraphEdit);

/// What is known of a graph.
#[repr(C)]
pub struct CGraphFacts {
    came: u64,
    begun: u64,
    left: u64,
    used: u64,
    dropped: u64,
    held: u64,
    generation: c_uint,
    engines: c_uint,
    kernel: c_uint,
}

layout::an_GraphFacts!(CGraphFacts);

thread_local! {
    /// Why this thread's last call about a graph was refused.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A text of a program's, or none.
///
/// # Safety
/// The pointer is NULL or leads to a string that stays as it is during the call.
unsafe fn given(from: *const c_char) -> Result<GraphText, Error> {
    if from.is_null() {
        return Ok(GraphText::default());
    }
    // SAFETY: the caller's promise.
    unsafe { long_text(from) }.map(|text| GraphText(text.to_owned()))
}

/// Refuses what is no message together.
fn fits(texts: &[&GraphText]) -> Result<(), Error> {
    let bytes: usize = texts.iter().map(|text| text.0.len()).sum();
    if bytes <= GRAPH_TEXT_MAX {
        return Ok(());
    }
    WHY.set(format!("{bytes} bytes of text are more than a call has, {GRAPH_TEXT_MAX}"));
    Err(Error::Limit)
}

/// Makes a call for a domain of the program's, and keeps why it was refused.
///
/// # Safety
/// `graph` is NULL or a string.
unsafe fn ask(
    domain: *mut c_void,
    graph: *const c_char,
    call: impl FnOnce(u32, String) -> Result<Call, Error>,
) -> Result<Answer, Error> {
    WHY.take();
    let domain = domain_of(domain)?;
    // SAFETY: the caller's promise.
    let call = call(domain.name, unsafe { text(graph) }?)?;
    match domain.session.call(&call)? {
        Answer::Unchanged { error, why } => {
            WHY.set(why.0);
            Err(error)
        }
        answer => Ok(answer),
    }
}

/// The number of a generation, where a program wants it, if it does.
///
/// # Safety
/// The pointer is NULL or leads to memory for it.
unsafe fn put_generation(answer: Answer, to: *mut c_uint) -> Result<(), Error> {
    let Answer::Number { number } = answer else { return Err(Error::Ended) };
    // SAFETY: the caller's promise.
    if to.is_null() { Ok(()) } else { unsafe { put(to, number as c_uint) } }
}

/// Has a graph become that of a text.
///
/// # Safety
/// `graph` and `text` are strings, `generation` leads to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphApply(
    domain: *mut c_void,
    graph: *const c_char,
    text: *const c_char,
    base: c_uint,
    generation: *mut c_uint,
) -> c_int {
    let apply = || {
        let call = |domain, graph| {
            // SAFETY: the caller's promise.
            let text = GraphText(unsafe { long_text(text) }?.to_owned());
            fits(&[&text]).map(|()| Call::GraphApply { domain, graph, text, base })
        };
        // SAFETY: the same.
        unsafe { put_generation(ask(domain, graph, call)?, generation) }
    };
    code(apply())
}

/// Connects its engines otherwise.
///
/// # Safety
/// `graph` is a string, `edit` leads to a specification, `generation` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphEdit(
    domain: *mut c_void,
    graph: *const c_char,
    edit: *const CGraphEdit,
    generation: *mut c_uint,
) -> c_int {
    let change = || {
        let call = |domain, graph| {
            // SAFETY: the caller's promise.
            let CGraphEdit { disconnect, remove, connect, base } = unsafe { spec(edit) }?;
            // SAFETY: the same, of the texts that it leads to.
            let (disconnect, remove, connect) = unsafe { (given(disconnect)?, given(remove)?, given(connect)?) };
            fits(&[&disconnect, &remove, &connect]).map(|()| Call::GraphEdit {
                domain,
                graph,
                disconnect,
                remove,
                connect,
                base,
            })
        };
        // SAFETY: the same.
        unsafe { put_generation(ask(domain, graph, call)?, generation) }
    };
    code(change())
}

/// What an engine says of itself.
///
/// # Safety
/// `graph` and `handler` are strings, `into` leads to `room` bytes, `length` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphRead(
    domain: *mut c_void,
    graph: *const c_char,
    handler: *const c_char,
    into: *mut c_char,
    room: usize,
    length: *mut usize,
) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let call = |domain, graph| Ok(Call::GraphRead { domain, graph, handler: unsafe { text(handler) }? });
        // SAFETY: the same.
        let Answer::Said { text } = unsafe { ask(domain, graph, call) }? else { return Err(Error::Ended) };
        // SAFETY: the same.
        unsafe { put_text(&text.0, into, room, length) }
    };
    code(read())
}

/// Writes to an engine.
///
/// # Safety
/// `graph`, `handler` and `value` are strings or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphWrite(
    domain: *mut c_void,
    graph: *const c_char,
    handler: *const c_char,
    value: *const c_char,
) -> c_int {
    let write = || {
        let call = |domain, graph| {
            // SAFETY: the caller's promise.
            let (handler, value) = unsafe { (text(handler)?, given(value)?) };
            fits(&[&value]).map(|()| Call::GraphWrite { domain, graph, handler, value })
        };
        // SAFETY: the same.
        unsafe { ask(domain, graph, call) }.map(drop)
    };
    code(write())
}

/// What is known of a graph, and its text.
///
/// # Safety
/// `graph` is a string, `facts` leads to memory for them, `into` to `room` bytes, `length` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphShow(
    domain: *mut c_void,
    graph: *const c_char,
    facts: *mut CGraphFacts,
    into: *mut c_char,
    room: usize,
    length: *mut usize,
) -> c_int {
    let show = || {
        let call = |domain, graph| Ok(Call::GraphShow { domain, graph });
        // SAFETY: the caller's promise.
        let Answer::Graph { facts: known, text } = unsafe { ask(domain, graph, call) }? else {
            return Err(Error::Ended);
        };
        let message::GraphFacts { came, begun, left, used, dropped, held, generation, engines, in_kernel } = known;
        let kernel = in_kernel.into();
        let known = CGraphFacts { came, begun, left, used, dropped, held, generation, engines, kernel };
        if !facts.is_null() {
            // SAFETY: the same.
            unsafe { put(facts, known) }?;
        }
        if into.is_null() && room == 0 {
            return Ok(());
        }
        // SAFETY: the same.
        unsafe { put_text(&text.0, into, room, length) }
    };
    code(show())
}

/// Says why this thread's last call about a graph was refused.
///
/// # Safety
/// `into` leads to `room` bytes, `length` to a number; or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn an_graphWhy(into: *mut c_char, room: usize, length: *mut usize) -> c_int {
    // SAFETY: the caller's promise.
    code(WHY.with_borrow(|why| unsafe { put_text(why, into, room, length) }))
}
