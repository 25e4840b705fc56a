//! An allocator that counts, for tests that say how much memory something takes.
#![expect(unsafe_code, reason = "an allocator that counts has to be one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread.
struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as i64));
        // SAFETY: as the caller promises for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get() - layout.size() as i64));
        // SAFETY: as the caller promises for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Times this thread has taken memory; growing a list counts too.
pub(crate) fn allocations() -> u64 {
    memory().0
}

/// Times this thread has taken memory, and the bytes that it has taken and not given back.
pub(crate) fn memory() -> (u64, i64) {
    (ALLOCATIONS.with(Cell::get), BYTES.with(Cell::get))
}
