//! Streams over messages as a kernel: a carrier a block, run by its first warp.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use warpwire_device::Simt;
use warpwire_ring::layout::fold;
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};
use crate::carrier::StreamCarrier;
use crate::carrier::tables::CarrierBlock;
use crate::kernel::{Course, Kernel};

/// Carries streams over queue pairs in memory, whoever carries out their work queues.
#[derive(Clone, Copy, Debug)]
pub struct CarryStreams;

/// The parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct CarryParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`CarrierBlock`]s, one a block.
    pub blocks: DeviceAddress,
    /// How many.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for CarryParameters {
    const LAYOUT: u64 = {
        let parameters = warpwire_ring::layout_hash!(CarryParameters {
            steering,
            blocks,
            block_count,
        });
        fold(parameters, CarrierBlock::LAYOUT as usize)
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl Kernel for CarryStreams {
    type Parameters = CarryParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &CarryParameters) -> Result<(), Cause> {
        let number = simt.block();
        let sound = number < parameters.block_count
            && !parameters.blocks.is_null()
            && parameters
                .blocks
                .is_aligned(align_of::<CarrierBlock>() as u64);
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        if simt.warp() > 0 {
            return Ok(());
        }
        let offset = u64::from(number) * size_of::<CarrierBlock>() as u64;
        let block = parameters.blocks.offset(offset).value() as *const CarrierBlock;
        // SAFETY: that many blocks lie there, by the kernel's promise.
        let block = unsafe { &*block };
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let mut course = unsafe { Course::attach(&parameters.steering, number) };
        // SAFETY: everything that the block names, by the kernel's promise.
        let mut carrier = unsafe { StreamCarrier::attach(block) }?;
        while course.goes_on(simt) {
            match carrier.step(simt) {
                true => simt.give_way(),
                false => simt.pause(),
            }
        }
        carrier.save(simt);
        Ok(())
    }
}
