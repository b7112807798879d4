//! The GPU itself.
//!
//! Warp operations are the compiler's own intrinsics, not assembly: the compiler takes assembly for
//! an ordinary computation that it may copy into both arms of a branch, and lanes of different arms
//! would never meet. Intrinsics are marked *convergent*, and LLVM leaves them where they are;
//! rustc's own optimiser does not, so kernels are built without the pass that copies them (see
//! `warpwire-ptx`).
#![expect(
    unsafe_code,
    reason = "warp operations and the clock are instructions that only intrinsics name"
)]

use core::arch::asm;
use core::arch::nvptx;

use crate::simt::{Place, Simt};

/// The GPU backend. Kernels are launched with one-dimensional grids and blocks, a multiple of 32
/// threads a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ptx;

impl Simt for Ptx {
    const WIDTH: u32 = 32;

    #[inline(always)]
    fn lane(&self) -> u32 {
        thread() % Self::WIDTH
    }

    #[inline(always)]
    fn place(&self) -> Place {
        Place {
            warp: thread() / Self::WIDTH,
            // SAFETY: reads a special register.
            warps: (unsafe { nvptx::_block_dim_x() } as u32) / Self::WIDTH,
            // SAFETY: reads a special register.
            block: unsafe { nvptx::_block_idx_x() } as u32,
            // SAFETY: reads a special register.
            blocks: unsafe { nvptx::_grid_dim_x() } as u32,
        }
    }

    #[inline(always)]
    fn ballot(&self, vote: bool) -> u32 {
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe { vote_ballot_sync(ALL, vote) }
    }

    #[inline(always)]
    fn shuffle(&self, value: u32, source: u32) -> u32 {
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe { shfl_sync_idx(ALL, value, source, Self::WIDTH - 1) }
    }

    #[inline(always)]
    fn shuffle_u64(&self, value: u64, source: u32) -> u64 {
        let low = self.shuffle(value as u32, source);
        let high = self.shuffle((value >> 32) as u32, source);
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline(always)]
    fn sync_warp(&self) {
        // SAFETY: all lanes are here by the collective contract.
        unsafe { bar_warp_sync(ALL) }
    }

    #[inline(always)]
    fn sync_block(&self) {
        // SAFETY: all lanes of the block are here by the collective contract.
        unsafe { nvptx::_syncthreads() }
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let now: u64;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u64 {now}, %globaltimer;", now = out(reg64) now) }
        now
    }

    #[inline(always)]
    fn cycles(&self) -> u64 {
        let cycles: u64;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u64 {cycles}, %clock64;", cycles = out(reg64) cycles) }
        cycles
    }

    #[inline(always)]
    fn pause(&self) {
        // SAFETY: sleeps for at most twice this many nanoseconds, touches nothing.
        unsafe { asm!("nanosleep.u32 32;") }
    }

    #[inline(always)]
    fn sum(&self, value: u32) -> u32 {
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe { redux_sync_add(value, ALL) }
    }
}

/// Every lane takes part.
const ALL: u32 = u32::MAX;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot_sync(mask: u32, vote: bool) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_sync_idx(mask: u32, value: u32, source: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_sync_add(value: u32, mask: u32) -> u32;
}

#[inline(always)]
fn thread() -> u32 {
    // SAFETY: reads a special register.
    (unsafe { nvptx::_thread_idx_x() }) as u32
}
