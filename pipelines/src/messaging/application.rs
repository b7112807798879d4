//! Kernels that use queue pairs: applications on the executor, beside their engine or in one warp
//! with it.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpwire_core::block::Parameters as Block;
use warpwire_device::KernelRow;
use warpwire_gpu::executor::{Control, Grid, Launch, Parameters, Placement, Report};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::{DeviceAddress, Location};

use super::endpoint::Endpoint;
use super::pair::Pair;
use crate::messaging::Error;

/// What an application is given, for its parameter block.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// A [`ChannelBlock`](warpwire_core::messaging::ChannelBlock): the queue pair, to attach to
    /// and, at the end, to save.
    pub channel: DeviceAddress,
    /// An [`EngineBlock`](warpwire_engine::tables::EngineBlock) that the application is to drive;
    /// null if the engine runs elsewhere.
    pub engine: DeviceAddress,
    /// The stop word: what ends waits.
    pub stop: DeviceAddress,
}

/// A kernel that has a queue pair, of an endpoint that may have no other engine. Dropped, it is
/// stopped, and the queue pair is lost.
pub struct Application<'a> {
    endpoint: &'a Endpoint,
    launch: Launch,
    pair: Pair,
    /// The kernel has the endpoint's engine.
    has_engine: bool,
}

impl Endpoint {
    /// Gives a queue pair to a kernel of one warp. If the endpoint's engine has no kernel of its
    /// own, this one drives it, and serves peers with it until [`Application::finish`].
    ///
    /// `block` makes the parameters; what they point to lies in the arena of `bytes` bytes that it
    /// is given, or in memory of the endpoint.
    ///
    /// # Errors
    /// Memory that cannot be had, what `block` says, an executor that refuses.
    ///
    /// # Safety
    /// *The kernel's promise*, see [`KernelRow`], for what `block` makes; the kernel saves channel
    /// and engine before it ends.
    pub unsafe fn launch<T: Block>(
        &self,
        (executor, placement): (&CpuExecutor, Placement),
        row: &KernelRow,
        mut pair: Pair,
        bytes: usize,
        block: impl FnOnce(&Arena, &Lent) -> Result<T, Error>,
    ) -> Result<(Application<'_>, Arc<Arena>), Error> {
        let bytes = bytes + size_of::<T>() + 8192;
        let arena = Arc::new(Arena::new(bytes, Location::PinnedHost)?);
        let control = Control::allocate(&arena, 1)?;
        let fused = self.fused();
        let lent = Lent {
            channel: pair.lend()?,
            engine: fused.map_or(DeviceAddress::NULL, |_| self.table.block),
            stop: control.stop_address(),
        };
        let parameters = block(&arena, &lent).and_then(|block| Ok(arena.place(block)?.address));
        let mut arenas = self.arenas.clone();
        arenas.push(Arc::clone(&arena));
        let mut has_engine = false;
        let launched = parameters.and_then(|parameters| {
            // SAFETY: passed on; nobody else uses channel and engine before the kernel ended.
            let parameters = unsafe { Parameters::new(parameters, T::LAYOUT, arenas) };
            let parameters = parameters.control(control);
            has_engine = fused.is_some_and(|fused| fused.leave());
            Ok(executor.launch_on(row, Grid::ONE, parameters, placement)?)
        });
        match launched {
            Ok(launch) => {
                let application = Application {
                    endpoint: self,
                    launch,
                    pair,
                    has_engine,
                };
                Ok((application, arena))
            }
            Err(error) => {
                pair.take_back();
                self.take_back(has_engine)?;
                Err(error)
            }
        }
    }

    /// Takes the engine back from a kernel that ended, if it had it.
    fn take_back(&self, has_engine: bool) -> Result<(), Error> {
        let (true, Some(fused)) = (has_engine, self.fused()) else {
            return Ok(());
        };
        let (clock, block) = (&self.host.clock, self.table.block);
        // SAFETY: as when it was first taken; the kernel that had it ended.
        let taken = unsafe { fused.take_back(self.format, block, clock) };
        taken.map_err(|cause| Error::Ended { cause })
    }
}

impl Application<'_> {
    /// Asks the kernel to end: a wait that it is in ends with
    /// [`Cause::Aborted`](warpwire_ring::Cause::Aborted).
    pub fn stop(&self) {
        self.launch.stop();
    }

    /// Whether the kernel ended by itself.
    pub fn is_finished(&self) -> bool {
        self.launch.is_finished()
    }

    /// Waits until `is_over` says so, as who waits for the endpoint does.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub fn wait_until(&self, is_over: impl Fn() -> bool, longest: Duration) -> Result<(), Error> {
        let started = Instant::now();
        while !is_over() && !self.is_finished() {
            if started.elapsed() >= longest {
                return Err(Error::Deadline {
                    number: self.pair.number(),
                    what: "the application did not come to its end",
                    waited: longest,
                });
            }
            (self.endpoint.host.idle)();
        }
        Ok(())
    }

    /// Ends the kernel, and takes queue pair and engine back.
    ///
    /// # Errors
    /// [`Error::Executor`] if it does not end; [`Error::Ended`] if the engine cannot be taken back.
    pub fn finish(mut self) -> Result<(Pair, Report), Error> {
        self.launch.stop();
        let report = self.launch.join(END)?;
        self.pair.take_back();
        self.endpoint.take_back(self.has_engine)?;
        Ok((self.pair, report))
    }
}

/// How long a kernel may take to end that was asked to.
const END: Duration = Duration::from_secs(5);
