//! Serving streams as a kernel: an application beside whatever carries them.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use warpwire_device::Simt;
use warpwire_ring::layout::fold;
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};
use crate::kernel::{Course, Kernel};
use crate::serving::{LAYOUT, ServeBlock, Server};

/// Serves the streams of a table a block, by its first warp.
#[derive(Clone, Copy, Debug)]
pub struct Serve;

/// The parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct ServeParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`ServeBlock`]s, one a block.
    pub blocks: DeviceAddress,
    /// How many.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for ServeParameters {
    const LAYOUT: u64 = {
        let parameters = warpwire_ring::layout_hash!(ServeParameters {
            steering,
            blocks,
            block_count,
        });
        fold(parameters, LAYOUT as usize)
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl Kernel for Serve {
    type Parameters = ServeParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &ServeParameters) -> Result<(), Cause> {
        let number = simt.block();
        let blocks = parameters.blocks;
        let sound = number < parameters.block_count
            && !blocks.is_null()
            && blocks.is_aligned(align_of::<ServeBlock>() as u64);
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        if simt.warp() > 0 {
            return Ok(());
        }
        let offset = u64::from(number) * size_of::<ServeBlock>() as u64;
        let block = blocks.offset(offset).value() as *const ServeBlock;
        // SAFETY: that many blocks lie there, by the kernel's promise.
        let block = unsafe { &*block };
        // SAFETY: everything that the block names, by the kernel's promise.
        let mut server = unsafe { Server::attach(block) }?;
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let mut course = unsafe { Course::attach(&parameters.steering, number) };
        while course.goes_on(simt) {
            match server.turn(simt) {
                true => simt.give_way(),
                false => simt.pause(),
            }
        }
        server.leave(simt);
        Ok(())
    }
}
