//! Memory for a guest that lives for one call.
//!
//! The standard allocator of this target never uses the memory that a module starts with: its first allocation grows
//! linear memory, which costs the host two changes of page protection in every cell, and puts the heap where no cell's
//! pages are kept resident. So the first 16 KiB come from the module's own memory, handed out front to back; whatever
//! does not fit goes to the standard allocator. Only the block that was handed out last can grow in place or be given
//! back: for a call that is enough, and a guest that allocates forever loses those 16 KiB and nothing else. More would
//! push plugins with some data of their own past the two pages that a pool keeps.
//!
//! A plugin with an allocator of its own depends on this crate without its feature `allocator`.

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::{Cell, UnsafeCell},
    ptr,
};
use std::alloc::System;

const BYTES: usize = 16 << 10;

#[repr(align(16))]
struct Memory(UnsafeCell<[u8; BYTES]>);

/// First the module's own memory, then the standard allocator.
pub(crate) struct Allocator {
    memory: Memory,
    used: Cell<usize>,
}

// SAFETY: without atomics this target has one thread. Nowhere else is this type shared, nor can it be.
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
unsafe impl Sync for Allocator {}

#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

impl Allocator {
    pub(crate) const fn new() -> Self {
        Self { memory: Memory(UnsafeCell::new([0; BYTES])), used: Cell::new(0) }
    }

    fn start(&self) -> *mut u8 {
        self.memory.0.get().cast()
    }

    /// Returns the offset at which a block begins in the memory, if it is in there.
    fn offset(&self, block: *mut u8) -> Option<usize> {
        let offset = block.addr().wrapping_sub(self.start().addr());
        (offset < BYTES).then_some(offset)
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.start();
        let at = start.addr().checked_add(self.used.get())?.checked_next_multiple_of(layout.align())? - start.addr();
        let end = at.checked_add(layout.size())?;
        (end <= BYTES).then(|| {
            self.used.set(end);
            start.wrapping_add(at)
        })
    }
}

// SAFETY: blocks in the memory never overlap, because `used` only passes over what was handed out, and goes back only
// over the block that was handed out last, when that is given back or shrunk; every other block is the standard
// allocator's own.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are passed on.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.offset(block) {
            Some(at) if at + layout.size() == self.used.get() => self.used.set(at),
            Some(_) => {}
            // SAFETY: it is not in the memory, so the standard allocator handed it out.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(at) = self.offset(block) else {
            // SAFETY: as in `dealloc`.
            return unsafe { System.realloc(block, layout, size) };
        };
        let is_last = at + layout.size() == self.used.get();
        if size <= layout.size() || (is_last && size <= BYTES - at) {
            if is_last {
                self.used.set(at + size);
            }
            return block;
        }
        // SAFETY: the alignment is a valid one, and the caller promises that `size` fits with it; the two blocks do not
        // overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size());
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
#[allow(clippy::undocumented_unsafe_blocks, reason = "tests allocate and free what they allocated")]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn blocks_are_aligned_and_do_not_overlap() {
        let allocator = Allocator::new();
        let (first, second) = unsafe { (allocator.alloc(layout(3)), allocator.alloc(layout(5))) };
        assert_eq!((first.addr() % 8, second.addr() % 8), (0, 0));
        assert!(second.addr() >= first.addr() + 3);
    }

    #[test]
    fn the_last_block_grows_in_place_and_another_moves_with_its_content() {
        let allocator = Allocator::new();
        unsafe {
            let first = allocator.alloc(layout(8));
            first.write_bytes(7, 8);
            assert_eq!(allocator.realloc(first, layout(8), 16), first);
            let last = allocator.alloc(layout(8));
            let moved = allocator.realloc(first, layout(16), 32);
            assert!(moved.addr() > last.addr());
            assert_eq!(core::slice::from_raw_parts(moved, 8), [7; 8]);
            allocator.dealloc(moved, layout(32));
            assert_eq!(allocator.alloc(layout(32)), moved);
        }
    }

    #[test]
    fn what_does_not_fit_comes_from_the_standard_allocator_and_goes_back_to_it() {
        let allocator = Allocator::new();
        unsafe {
            let small = allocator.alloc(layout(16));
            small.write_bytes(9, 16);
            let large = allocator.realloc(small, layout(16), BYTES + 1);
            assert!(allocator.offset(large).is_none());
            assert_eq!(core::slice::from_raw_parts(large, 16), [9; 16]);
            let larger = allocator.realloc(large, layout(BYTES + 1), 2 * BYTES);
            allocator.dealloc(larger, layout(2 * BYTES));
            let rest = allocator.alloc(layout(BYTES));
            assert_eq!(allocator.offset(rest), Some(0), "the small block was the last one and is free again");
        }
    }

    #[test]
    fn a_block_that_was_shrunk_ends_where_it_says() {
        let allocator = Allocator::new();
        unsafe {
            let first = allocator.alloc(layout(64));
            assert_eq!(allocator.realloc(first, layout(64), 8), first);
            let second = allocator.alloc(layout(8));
            assert_eq!(second.addr(), first.addr() + 8, "what the last block gives up is used again");
            assert_eq!(allocator.realloc(first, layout(8), 4), first);
            let third = allocator.alloc(layout(8));
            assert!(third.addr() >= second.addr() + 8, "what another block gives up is not");
        }
    }

    #[test]
    fn memory_that_is_used_again_is_zeroed_when_that_is_asked_for() {
        let allocator = Allocator::new();
        unsafe {
            let first = allocator.alloc(layout(32));
            first.write_bytes(5, 32);
            allocator.dealloc(first, layout(32));
            let second = allocator.alloc_zeroed(layout(32));
            assert_eq!((second, core::slice::from_raw_parts(second, 32)), (first, &[0; 32][..]));
        }
    }

    #[test]
    fn the_memory_can_be_filled_to_its_last_byte_and_not_further() {
        let allocator = Allocator::new();
        unsafe {
            let all = allocator.alloc(layout(BYTES));
            assert_eq!(allocator.offset(all), Some(0));
            let other = allocator.alloc(layout(1));
            assert!(allocator.offset(other).is_none());
            allocator.dealloc(other, layout(1));
        }
    }

    #[test]
    fn alignments_larger_than_the_memory_s_own_are_kept() {
        let allocator = Allocator::new();
        let block = unsafe { allocator.alloc(Layout::from_size_align(8, 256).unwrap()) };
        assert_eq!(block.addr() % 256, 0);
    }
}
