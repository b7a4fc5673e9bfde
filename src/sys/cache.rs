//! Hints for the processor's caches. They change the time of waits for memory, and nothing else.

use rustix::mm::{Advice, madvise};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Bytes of a small page, and of a huge one.
const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

/// Has a list hold so many entries, twice as many as it could at least. Of a large list the memory is in huge pages, where the system has
/// them: thousands of entries in no order need one translation of an address for each small page.
pub fn make_room<T>(list: &mut Vec<T>, needed: usize) {
    if needed <= list.capacity() {
        return;
    }
    let count = needed.max(list.capacity() * 2);
    if count * size_of::<T>() < HUGE {
        return list.reserve_exact(count - list.len());
    }
    let mut roomy = Vec::with_capacity(count);
    want_huge_pages(&roomy);
    roomy.append(list);
    *list = roomy;
}

/// Has the memory of an empty list be in huge pages.
fn want_huge_pages<T>(list: &Vec<T>) {
    let (start, length) = (list.as_ptr().addr(), list.capacity() * size_of::<T>());
    let (first, end) = (start.next_multiple_of(PAGE), (start + length) / PAGE * PAGE);
    if let Some(length) = end.checked_sub(first) {
        let at = list.as_ptr().cast::<core::ffi::c_void>().with_addr(first).cast_mut();
        // SAFETY: the pages are all within the list's memory, and the advice changes what backs them but not what they hold.
        // Where it is not taken, small pages do as well.
        let _ = unsafe { madvise(at, length, Advice::LinuxHugepage) };
    }
}

/// Asks for all lines of a value, to be there when it is looked at a little later.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_first(value, size_of::<T>());
}

/// Asks for the lines of the first bytes of a value.
#[inline]
pub fn prefetch_first<T>(value: &T, bytes: usize) {
    let first = core::ptr::from_ref(value).cast::<i8>();
    for at in (0..size_of::<T>().min(bytes)).step_by(LINE) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_what_they_hold_when_they_get_room() {
        let mut list = Vec::new();
        for at in 0..3 * HUGE / size_of::<u64>() as usize {
            make_room(&mut list, at + 1);
            list.push(at as u64);
        }
        assert!(list.iter().enumerate().all(|(at, value)| at as u64 == *value));
        let before = list.capacity();
        make_room(&mut list, before);
        assert_eq!(list.capacity(), before);
        prefetch_at(&list, usize::MAX);
        prefetch_at(&list, 0);
    }
}
