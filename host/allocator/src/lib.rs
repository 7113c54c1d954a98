//! The allocator of Opcell's programs: mimalloc, asked for aligned memory only where its ordinary memory is not aligned
//! enough.
//!
//! The `mimalloc` crate asks for every block with its alignment. Where the next free block of a page is not at hand,
//! mimalloc then takes a larger block, so that an aligned one fits in, and marks the page, whose blocks are from then
//! on freed the long way. Ordinary blocks are aligned to 16 bytes, and to 8 where they are smaller than that, as C's
//! `malloc` has to: all that nearly every type needs.

use libmimalloc_sys as mi;
use std::alloc::{GlobalAlloc, Layout};

/// mimalloc without huge pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

/// Returns `true` if an ordinary block of this size is aligned enough.
const fn is_ordinary(size: usize, align: usize) -> bool {
    align <= 8 || (align <= 16 && size >= 16)
}

// SAFETY: mimalloc's functions do what `GlobalAlloc` asks for: blocks of at least the size, distinct until they are
// freed, null where there is no memory; they neither unwind nor look at other blocks. `is_ordinary` holds for what
// mimalloc promises of `mi_malloc` (MI_MAX_ALIGN_SIZE is 16), and `mi_free` takes what any of its functions gave.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if is_ordinary(size, align) {
            // SAFETY: any size may be asked for.
            unsafe { mi::mi_malloc(size) }.cast()
        } else {
            // SAFETY: a layout's alignment is a power of two.
            unsafe { mi::mi_malloc_aligned(size, align) }.cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if is_ordinary(size, align) {
            // SAFETY: any size may be asked for.
            unsafe { mi::mi_zalloc(size) }.cast()
        } else {
            // SAFETY: a layout's alignment is a power of two.
            unsafe { mi::mi_zalloc_aligned(size, align) }.cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller gives a block of this allocator.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        if is_ordinary(size, align) {
            // SAFETY: the caller gives a block of this allocator.
            unsafe { mi::mi_realloc(block.cast(), size) }.cast()
        } else {
            // SAFETY: the same, and a layout's alignment is a power of two.
            unsafe { mi::mi_realloc_aligned(block.cast(), size, align) }.cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_aligned_and_keeps_its_bytes_when_it_grows() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            let mut blocks = Vec::new();
            for size in (1..200).chain([1_000, 4_096, 70_000, 1 << 20]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not 0.
                let (block, zeroed) = unsafe { (Allocator.alloc(layout), Allocator.alloc_zeroed(layout)) };
                for block in [block, zeroed] {
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} bytes at {block:?}");
                }
                // SAFETY: the block has `size` bytes.
                unsafe {
                    assert!((0..size).all(|at| *zeroed.add(at) == 0));
                    block.write_bytes(7, size);
                }
                blocks.push((block, layout));
                blocks.push((zeroed, layout));
            }
            for (at, (block, layout)) in blocks.into_iter().enumerate() {
                let size = layout.size() * 2 + 1;
                // SAFETY: the block is one of the allocator's, and freed once, with the layout that it has then.
                unsafe {
                    let grown = Allocator.realloc(block, layout, size);
                    assert!(grown.addr().is_multiple_of(align));
                    assert!((0..layout.size()).all(|byte| *grown.add(byte) == if at % 2 == 0 { 7 } else { 0 }));
                    Allocator.dealloc(grown, Layout::from_size_align(size, align).unwrap());
                }
            }
        }
    }
}
