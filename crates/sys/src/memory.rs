//! Large tables whose memory is allocated only when it is touched; and memory that is not needed any more.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::AtomicU64;

// Its functions have the names of the C library's (feature `override`), so that all of the program uses it, C code too.
#[cfg(feature = "mimalloc")]
use libmimalloc_sys as _;

/// `len` zeros. The system allocates large zeroed memory page by page, so a table that is never used costs nothing but
/// addresses. `None` if there is not even room for those.
pub fn zeroed_atomics(len: usize) -> Option<Box<[AtomicU64]>> {
    if len == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<AtomicU64>(len).ok()?;
    // SAFETY: the layout's size is not 0. Zero bytes are a valid AtomicU64. The pointer comes from the global allocator with
    // the layout of a boxed slice of that length, which is what the box frees it with.
    unsafe {
        let start = alloc_zeroed(layout).cast::<AtomicU64>();
        (!start.is_null()).then(|| Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, len)))
    }
}

/// Gives memory that was freed back to the system (`mi_collect`, or `malloc_trim(3)`).
///
/// An allocator keeps what was freed for the next allocations. After work that has allocated much and kept little, that is a
/// large part of a process. With the C library's allocator, other threads that allocate or free meanwhile may wait for this,
/// which takes milliseconds, so it is for processes or times without loops.
pub fn give_back() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: the function has no preconditions: it looks at what belongs to this thread and to threads that have ended.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(all(not(feature = "mimalloc"), target_env = "gnu"))]
    // SAFETY: the function has no preconditions; the number is how many bytes may stay at the end of the heap.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives memory that this thread has freed back to the system (`mi_collect`), and what the program's threads that have
/// ended have left. It looks at each page of the thread's heap, and what it gives back has to be got again when it is
/// needed. So it is for a thread that has nothing else to do.
///
/// With the C library's allocator it does nothing: other threads would wait.
pub fn give_back_own() {
    #[cfg(feature = "mimalloc")]
    give_back();
}

// What `give_back` does is tested in `tests/memory.rs`, in a process without other tests, which would take memory meanwhile.
#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn tables_are_zero_and_can_be_too_large() {
        let table = zeroed_atomics(100_000).unwrap();
        assert_eq!(table.len(), 100_000);
        assert!(table.iter().all(|word| word.load(Relaxed) == 0));
        table[99_999].store(1, Relaxed);
        assert_eq!(zeroed_atomics(0).unwrap().len(), 0);
        assert!(zeroed_atomics(usize::MAX / 8).is_none());
        assert!(zeroed_atomics(usize::MAX).is_none());
    }
}
