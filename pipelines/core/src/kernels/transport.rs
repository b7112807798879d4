//! The transport of messages as a kernel: an engine a block, run by all of its warps.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::Simt;
use warpwire_engine::tables::{EngineBlock, EngineCounters, Mail, PairBlock};
use warpwire_engine::{Board, Crew, Engine};
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};

/// Carries out the work queues of messages over raw Ethernet rings.
#[derive(Clone, Copy, Debug)]
pub struct Transport<F>(PhantomData<F>);

/// The parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TransportParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`EngineBlock`]s, one a block.
    pub blocks: DeviceAddress,
    /// How many.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for TransportParameters {
    const LAYOUT: u64 = {
        use warpwire_ring::layout::fold;
        let parameters = warpwire_ring::layout_hash!(TransportParameters {
            steering,
            blocks,
            block_count,
        });
        let block = warpwire_ring::layout_hash!(EngineBlock {
            receive,
            transmit,
            pairs,
            regions,
            counters,
            mirror,
            board,
            groups,
            pair_count,
            region_count,
            tuning,
            share,
        });
        let pair = warpwire_ring::layout_hash!(PairBlock {
            pair,
            path,
            send,
            mail,
            receives,
            send_completions,
            receive_completions,
            fetches,
            fetch_slots,
            number,
            told,
            head,
            obeyed,
            group,
            failed,
        });
        let mail = warpwire_ring::layout_hash!(Mail {
            command,
            answer,
            state,
            fault,
            refused,
            rate,
            target_rate,
            congestion,
            wanted,
        });
        let hash = fold(fold(parameters, block as usize), pair as usize);
        let hash = fold(fold(hash, mail as usize), size_of::<EngineCounters>());
        fold(hash, size_of::<Board>())
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

/// What sums bytes: the processor's own way where it has one.
#[cfg(all(feature = "host", not(target_arch = "nvptx64")))]
pub type Sum = warpwire_protocols::checksum::Host;
/// What sums bytes: arithmetic alone.
#[cfg(not(all(feature = "host", not(target_arch = "nvptx64"))))]
pub type Sum = warpwire_protocols::checksum::Arithmetic;

impl<F: RingFormat> Kernel for Transport<F> {
    type Parameters = TransportParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &TransportParameters) -> Result<(), Cause> {
        let number = simt.block();
        let sound = number < parameters.block_count
            && !parameters.blocks.is_null()
            && parameters
                .blocks
                .is_aligned(align_of::<EngineBlock>() as u64);
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        let offset = u64::from(number) * size_of::<EngineBlock>() as u64;
        let block = parameters.blocks.offset(offset).value() as *const EngineBlock;
        // SAFETY: that many blocks lie there, by the kernel's promise.
        let block = unsafe { &*block };
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let mut course = unsafe { Course::attach(&parameters.steering, number) };
        let crew = Crew::of_block(simt);
        // SAFETY: everything that the block names, by the kernel's promise.
        let engine = unsafe { Engine::<F::Receive, F::Transmit, Sum>::attach(block, crew) };
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
