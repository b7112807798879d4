//! The GPU itself.
#![expect(
    unsafe_code,
    reason = "warp operations and the clock are instructions that only assembly names"
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
        let votes: u32;
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe {
            asm!(
                "{{ .reg .pred %vote; setp.ne.u32 %vote, {vote}, 0;",
                "vote.sync.ballot.b32 {votes}, %vote, 0xffffffff; }}",
                vote = in(reg32) u32::from(vote), votes = out(reg32) votes,
            );
        }
        votes
    }

    #[inline(always)]
    fn shuffle(&self, value: u32, source: u32) -> u32 {
        let taken: u32;
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe {
            asm!(
                "shfl.sync.idx.b32 {taken}, {value}, {source}, 31, 0xffffffff;",
                taken = out(reg32) taken, value = in(reg32) value, source = in(reg32) source,
            );
        }
        taken
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
        unsafe { asm!("bar.warp.sync 0xffffffff;") }
    }

    #[inline(always)]
    fn sync_block(&self) {
        // SAFETY: all lanes of the block are here by the collective contract.
        unsafe { asm!("bar.sync 0;") }
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let now: u64;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u64 {now}, %globaltimer;", now = out(reg64) now) }
        now
    }

    #[inline(always)]
    fn pause(&self) {
        // SAFETY: sleeps for at most twice this many nanoseconds, touches nothing.
        unsafe { asm!("nanosleep.u32 32;") }
    }

    #[inline(always)]
    fn sum(&self, value: u32) -> u32 {
        let total: u32;
        // SAFETY: touches no memory; all lanes are here by the collective contract.
        unsafe {
            asm!(
                "redux.sync.add.u32 {total}, {value}, 0xffffffff;",
                total = out(reg32) total, value = in(reg32) value,
            );
        }
        total
    }
}

#[inline(always)]
fn thread() -> u32 {
    // SAFETY: reads a special register.
    (unsafe { nvptx::_thread_idx_x() }) as u32
}
