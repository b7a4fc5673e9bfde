//! Hints for the processor's caches. They change nothing but when memory is waited for.

/// Octets of a cache line.
pub const LINE: usize = 64;

/// Asks for all lines of a value, to be there when it is looked at a little later.
#[inline]
pub fn prefetch<T>(value: &T) {
    let first = core::ptr::from_ref(value).cast::<i8>();
    for at in (0..size_of::<T>()).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address is within `value`; prefetching reads nothing that a program could see.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(first.wrapping_add(at));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (first, at);
    }
}

/// The same of an entry of a list, if there is one at this place.
#[inline]
pub fn prefetch_at<T>(list: &[T], at: usize) {
    if let Some(value) = list.get(at) {
        prefetch(value);
    }
}
