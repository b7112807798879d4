//! Carrying out scripts of messages as a kernel: what an application looks like that moves data.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::{SharedWord, Simt, Wait};
use warpwire_engine::tables::EngineBlock;
use warpwire_engine::{Crew, Engine};
use warpwire_ring::layout::fold;
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};
use crate::kernels::Sum;
use crate::messaging::{
    Channel, ChannelBlock, DONE, Elsewhere, FAILED, Progress, Step, Stepping, perform,
};

/// Carries out a script over one channel, then, with an engine of its own, goes on serving its peer
/// until it is stopped.
#[derive(Clone, Copy, Debug)]
pub struct Perform<M>(PhantomData<M>);

/// The parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct ScriptParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// The [`ChannelBlock`].
    pub channel: DeviceAddress,
    /// [`Step`]s.
    pub steps: DeviceAddress,
    /// An [`EngineBlock`] that nobody else drives, or null if the engine runs elsewhere.
    pub engine: DeviceAddress,
    /// How many steps.
    pub step_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for ScriptParameters {
    const LAYOUT: u64 = {
        let parameters = warpwire_ring::layout_hash!(ScriptParameters {
            steering,
            channel,
            steps,
            engine,
            step_count,
        });
        let step = warpwire_ring::layout_hash!(Step {
            verb,
            times,
            stride,
            local,
            remote,
            signal,
            value,
            compare,
            timeout_ns,
            found,
            word,
            outcome,
        });
        let hash = fold(
            fold(parameters, step as usize),
            ChannelBlock::LAYOUT as usize,
        );
        fold(hash, super::TransportParameters::LAYOUT as usize)
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

/// Where the engine of an application runs.
pub trait Party {
    /// What its waits do.
    type Progress: Progress;

    /// Joins the engine whose block the application was given.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if there is one where none may be, or none where one must be; what
    /// attaching to it says.
    ///
    /// # Safety
    /// *The engine's promise*, see [`Engine::attach`], for the block if the address is not null.
    unsafe fn join(engine: DeviceAddress) -> Result<Self::Progress, Cause>;

    /// *Collective.* Leaves it where it stands.
    fn leave<S: Simt>(progress: &mut Self::Progress, simt: &S);

    /// Whether the peer depends on this warp.
    const SERVES: bool;
}

/// The engine runs elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Apart;

impl Party for Apart {
    type Progress = Elsewhere;

    unsafe fn join(engine: DeviceAddress) -> Result<Elsewhere, Cause> {
        match engine.is_null() {
            true => Ok(Elsewhere),
            false => Err(Cause::LayoutMismatch),
        }
    }

    fn leave<S: Simt>(_progress: &mut Elsewhere, _simt: &S) {}

    const SERVES: bool = false;
}

/// Application and engine are one warp.
#[derive(Clone, Copy, Debug)]
pub struct Together<F>(PhantomData<F>);

impl<F: RingFormat> Party for Together<F>
where
    F::Receive: 'static,
    F::Transmit: 'static,
{
    type Progress = Stepping<'static, F::Receive, F::Transmit, Sum>;

    unsafe fn join(engine: DeviceAddress) -> Result<Self::Progress, Cause> {
        if engine.is_null() || !engine.is_aligned(align_of::<EngineBlock>() as u64) {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: such a block by the caller's promise, for as long as the kernel runs.
        let block = unsafe { &*(engine.value() as *const EngineBlock) };
        // SAFETY: passed on.
        let engine = unsafe { Engine::attach(block, Crew::ALONE) };
        engine.map(Stepping)
    }

    fn leave<S: Simt>(progress: &mut Self::Progress, simt: &S) {
        progress.0.save(simt);
    }

    const SERVES: bool = true;
}

impl<M: Party> Kernel for Perform<M> {
    type Parameters = ScriptParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &ScriptParameters) -> Result<(), Cause> {
        let sound = simt.blocks() == 1
            && simt.warps() == 1
            && !parameters.steps.is_null()
            && parameters.steps.is_aligned(align_of::<Step>() as u64);
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let mut course = unsafe { Course::attach(&parameters.steering, 0) };
        // SAFETY: the channel, by the kernel's promise.
        let mut channel = unsafe { Channel::attach(parameters.channel) }?;
        // SAFETY: the engine, by the kernel's promise.
        let mut progress = unsafe { M::join(parameters.engine) }?;
        let mut ended = Ok(());
        for number in 0..parameters.step_count {
            // SAFETY: that many steps lie there, by the kernel's promise.
            let done = unsafe { step(simt, parameters, number, &mut channel, &mut progress) };
            if !done {
                break;
            }
        }
        while M::SERVES && course.goes_on(simt) {
            match progress.progress(simt) {
                Ok(true) => simt.give_way(),
                Ok(false) => simt.pause(),
                Err(cause) => {
                    ended = Err(cause);
                    break;
                }
            }
        }
        channel.save(simt);
        M::leave(&mut progress, simt);
        ended
    }
}

/// *Collective.* Carries out a step and leaves its outcome. Says whether it was done.
///
/// # Safety
/// *The kernel's promise*: there are that many steps.
unsafe fn step<S: Simt, P: Progress>(
    simt: &S,
    parameters: &ScriptParameters,
    number: u32,
    channel: &mut Channel,
    progress: &mut P,
) -> bool {
    let offset = u64::from(number) * size_of::<Step>() as u64;
    let at = parameters.steps.offset(offset);
    // SAFETY: a step lies there; nobody but this warp writes it, and that below.
    let step = unsafe { *(at.value() as *const Step) };
    let mut wait = Wait::within(simt, step.timeout_ns);
    if !parameters.steering.stop.is_null() {
        // SAFETY: the stop word, by the kernel's promise.
        wait.abort = Some(unsafe { SharedWord::attach(parameters.steering.stop) });
    }
    // SAFETY: the words that it waits for, by the kernel's promise.
    let outcome = unsafe { perform(simt, channel, &step, &wait, progress) };
    let (found, word, code) = match outcome {
        Ok((found, word)) => (found, word, DONE),
        Err(cause) => (0, 0, FAILED | cause as u32),
    };
    if code != DONE || number + 1 == parameters.step_count {
        // Before the host is told.
        channel.save(simt);
    }
    if simt.is_leader() {
        let field = |offset: usize| at.offset(offset as u64);
        let places = [
            (core::mem::offset_of!(Step, found), found),
            (
                core::mem::offset_of!(Step, word),
                u64::from(word) | u64::from(code) << 32,
            ),
        ];
        for (offset, value) in places {
            // SAFETY: two aligned words of the step. pairs with: the host's load of the outcome.
            unsafe { warpwire_ring::memory::store_release_u64(field(offset), value) };
        }
    }
    code == DONE
}

const _: () = assert!(core::mem::offset_of!(Step, word).is_multiple_of(8));
const _: () =
    assert!(core::mem::offset_of!(Step, outcome) == core::mem::offset_of!(Step, word) + 4);
