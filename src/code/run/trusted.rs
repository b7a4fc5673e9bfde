//! Trusted environments: programs of `sdk/anode/nodeos.h` built as shared objects, in the node's process.
//!
//! The object is loaded from a sealed copy, as native code is. Its main function runs on a thread of its own, as that
//! of a process would. Its open calls are the functions of the C library in this program. The worker's thread calls its
//! functions for packets and lends them the node meanwhile; so a packet and its descendants take no lock and wait for
//! nobody. Nothing bounds it: the role alone decides whether it runs. `docs/nodeos.md`.

#![allow(unsafe_code)]

use crate::nodeos::interface::NodeOs;
use crate::sys::shared_object::SharedObject;
use core::cell::Cell;
use core::ffi::{c_char, c_int};
use core::ptr::NonNull;
use std::ffi::CString;

// SAFETY of a call: there are as many strings as is said and NULL behind them, and the object that it belongs to is loaded.
type Main = unsafe extern "C" fn(c_int, *const *const c_char) -> c_int;

/// A program that was loaded.
pub struct TrustedProgram {
    main: Main,
    /// The code of `main`.
    _object: SharedObject,
}

impl TrustedProgram {
    /// Loads a shared object, whose author is trusted with the node.
    pub fn load(bytes: &[u8]) -> Result<TrustedProgram, String> {
        let object = SharedObject::open(bytes).map_err(|error| format!("it cannot be loaded: {error}"))?;
        let main = object.symbol(c"main").ok_or("it has no main function; build it with: cc -shared -fPIC")?;
        // SAFETY: a function of this name is of this type, whose third argument need not be taken; the object's author is trusted to
        // have it so.
        let main = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Main>(main.as_ptr()) };
        Ok(TrustedProgram { main, _object: object })
    }

    /// Runs its main function with these words, and gives its status.
    pub fn run(&self, words: &[String]) -> i32 {
        // A word of the configuration has no NUL.
        let words: Vec<CString> = words.iter().filter_map(|word| CString::new(word.as_str()).ok()).collect();
        let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(core::ptr::null());
        // SAFETY: `pointers` are the words and NULL, and live as long as the call; the object is held by `self`.
        unsafe { (self.main)(words.len() as c_int, pointers.as_ptr()) }
    }
}

/// The node, as it is lent to what this thread calls.
type Lent = Option<NonNull<dyn NodeOs>>;

thread_local! {
    static LENT: Cell<Lent> = const { Cell::new(None) };
    static BARRED: Cell<bool> = const { Cell::new(false) };
}

/// Has a place of this thread be what it was, also if what was called meanwhile panics.
struct Back<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy> Drop for Back<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Lends nothing to what `work` calls on this thread, which is the node's: whatever it asks is refused.
pub fn bar<R>(work: impl FnOnce() -> R) -> R {
    let _back = Back(&BARRED, BARRED.replace(true));
    work()
}

/// Whether this thread is the node's and has nothing to lend.
pub fn is_barred() -> bool {
    BARRED.get() && LENT.get().is_none()
}

/// Lends the node to what `work` calls on this thread.
pub fn lend<R>(os: &mut dyn NodeOs, work: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime is left out; `LENT` has the address until `work` has ended, and `os` is borrowed until then.
    let os = unsafe { core::mem::transmute::<&mut (dyn NodeOs + '_), &mut (dyn NodeOs + 'static)>(os) };
    let _back = Back(&LENT, LENT.replace(Some(NonNull::from(os))));
    work()
}

/// Whether the node is lent to this thread.
pub fn is_lent() -> bool {
    LENT.get().is_some()
}

/// Does something with the node that is lent to this thread; gives `work` back if none is.
pub fn with_lent<W, R>(work: W) -> Result<R, W>
where
    W: FnOnce(&mut dyn NodeOs) -> R,
{
    // As long as `work` runs nobody else has it: it is lent to one at a time.
    let Some(mut os) = LENT.take() else { return Err(work) };
    // SAFETY: `lend` has put the address there and waits on this very thread; whoever took it has put it back, and we have taken it.
    let result = work(unsafe { os.as_mut() });
    LENT.set(Some(os));
    Ok(result)
}
