//! Streams as a kernel: an engine a block, run by its warp; of several warps one has the rings of
//! the block, and each other one an engine.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::Simt;
use warpwire_engine::Crew;
use warpwire_engine::streams::StreamEngine;
use warpwire_engine::streams::tables::{LAYOUT, StreamBlock};
use warpwire_ring::layout::fold;
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};

/// Terminates TCP over raw Ethernet rings.
#[derive(Clone, Copy, Debug)]
pub struct Streams<F>(PhantomData<F>);

/// The parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct StreamParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`StreamBlock`]s, one a block; where blocks have several warps, one a warp but the first of
    /// each block, and those of a block one after the other.
    pub blocks: DeviceAddress,
    /// How many.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for StreamParameters {
    const LAYOUT: u64 = {
        let parameters = warpwire_ring::layout_hash!(StreamParameters {
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

impl<F: RingFormat> Kernel for Streams<F> {
    type Parameters = StreamParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &StreamParameters) -> Result<(), Cause> {
        let number = simt.block();
        let crew = Crew::of_block(simt);
        let engines = crew.engines();
        let first = u64::from(number) * u64::from(engines);
        let sound = first + u64::from(engines) <= u64::from(parameters.block_count)
            && !parameters.blocks.is_null()
            && parameters
                .blocks
                .is_aligned(align_of::<StreamBlock>() as u64);
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        let offset = first * size_of::<StreamBlock>() as u64;
        let blocks = parameters.blocks.offset(offset).value() as *const StreamBlock;
        // SAFETY: that many blocks lie there, by the kernel's promise.
        let blocks = unsafe { core::slice::from_raw_parts(blocks, engines as usize) };
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let mut course = unsafe { Course::attach(&parameters.steering, number) };
        // SAFETY: everything that the blocks name, by the kernel's promise.
        let engine = unsafe { StreamEngine::<F::Receive, F::Transmit>::attach(blocks, crew) };
        let mut engine = engine?;
        let mut ended = Ok(());
        while engine.agree(simt, || ended.is_ok() && course.goes_on(simt)) {
            match engine.step(simt) {
                Ok(true) => simt.give_way(),
                Ok(false) => simt.pause(),
                Err(cause) => ended = Err(cause),
            }
        }
        engine.save(simt);
        ended
    }
}
