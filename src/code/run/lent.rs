//! The scope of a run, lent to code by a place of its thread.
//!
//! The data of a wasm store, and callbacks of native code, cannot hold `&mut Scope`: they live longer than a run. So a
//! run puts a pointer to its [`Scope`] into a place of its thread, and the calls of its code borrow through that. The
//! place is empty again after a return or a panic: no call finds a scope that has ended.

#![allow(unsafe_code)]

use super::scope::Scope;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The scope of the code that runs, and its window where that is at a place of the processor's memory.
type Running = Option<(NonNull<Scope<'static>>, NonNull<[u8]>)>;

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(None) };
}

/// As long as it lives, calls on this thread have the scope, and nobody else does.
pub(super) struct Lent<'a> {
    before: Running,
    window: NonNull<[u8]>,
    /// The borrow of the scope, and of the window.
    _of: PhantomData<(&'a mut Scope<'a>, &'a mut [u8])>,
}

impl<'a> Lent<'a> {
    /// Calls on this thread reach `scope` from now on. `window` is for code that has no memory of its own; other code has it there.
    #[inline]
    pub(super) fn new<'s: 'a>(scope: &'a mut Scope<'s>, window: &'a mut [u8]) -> Lent<'a> {
        let (scope, window) = (NonNull::from(scope).cast(), NonNull::from(window));
        Lent { before: RUNNING.replace(Some((scope, window))), window, _of: PhantomData }
    }

    /// Where the window is: code writes there while its calls do not.
    pub(super) fn window(&self) -> *mut u8 {
        self.window.as_ptr().cast()
    }
}

impl Drop for Lent<'_> {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// Does `work` for the code that runs on this thread, with its scope and window; nothing if none does. While it does,
/// calls find nothing, so there is no second reference.
#[inline]
pub(super) fn with<R>(work: impl FnOnce(&mut Scope<'_>, &mut [u8]) -> R) -> Option<R> {
    let (mut scope, mut window) = RUNNING.get()?;
    let _only = Only(RUNNING.take());
    // SAFETY: both pointers were made of exclusive references by `Lent::new` on this thread. The `Lent` is alive, else
    // the place would have what was there before, and it keeps both borrowed. The place is empty until `_only` is
    // dropped, so `work` cannot get here again: these references are the only ones. The lifetime in `Scope` was erased,
    // and `work` must do with any.
    Some(unsafe { work(scope.as_mut(), window.as_mut()) })
}

/// What is put back when work for code is done, however that ends.
struct Only(Running);

impl Drop for Only {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::run::scope::tests::with_scope;

    /// Runs under Miri too (`make soak`), which sees what the compiler takes for granted of references.
    #[test]
    fn a_scope_is_reached_while_it_is_lent_and_not_before_or_after() {
        assert!(with(|_, _| ()).is_none());
        with_scope(|scope| {
            let mut window = [1, 2];
            let lent = Lent::new(scope, &mut window);
            assert_eq!(with(|scope, window| (scope.packet.bound, window.len())), Some((9, 2)));
            with(|scope, window| (scope.packet.bound, window[0]) = (8, 7));
            assert!(with(|_, _| with(|_, _| ()).is_none()) == Some(true), "a call within a call finds nothing");
            drop(lent);
            assert!(with(|_, _| ()).is_none());
            assert_eq!((scope.packet.bound, window), (8, [7, 2]));
        });
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        with_scope(|scope| {
            let run = std::panic::AssertUnwindSafe(|| {
                let _lent = Lent::new(scope, &mut []);
                with(|_, _| panic!("a call"))
            });
            assert!(std::panic::catch_unwind(run).is_err());
            assert!(with(|_, _| ()).is_none());
        });
    }

    #[test]
    fn a_run_within_a_run_gives_the_outer_one_its_scope_back() {
        with_scope(|outer| {
            outer.packet.bound = 1;
            let _outer = Lent::new(outer, &mut []);
            with_scope(|inner| {
                let _inner = Lent::new(inner, &mut []);
                assert_eq!(with(|scope, _| scope.packet.bound), Some(9));
            });
            assert_eq!(with(|scope, _| scope.packet.bound), Some(1));
        });
    }
}
