//! Launches: memory of one, and how it is started and joined.
#![expect(
    unsafe_code,
    reason = "parameters carry the promise of memory that the scene owns"
)]

use std::sync::Arc;
use std::time::Duration;

use warpwire_core::block::{Parameters as Block, Steering};
use warpwire_gpu::Arena;
use warpwire_gpu::executor::cuda::{DeviceArena, Launch, Report, Slices};
use warpwire_gpu::executor::{Control, Grid, Parameters};
use warpwire_ring::DeviceAddress;

use crate::part::Limit;
use crate::setting::{Setting, row};

/// The memory of one launch: mapped host memory, and device memory for what the host only reads
/// when all is over.
pub(crate) struct Scene<'a> {
    setting: &'a Setting,
    /// Within the reach of both.
    pub(crate) mapped: Arc<Arena>,
    /// On the device.
    pub(crate) device: Arc<DeviceArena>,
}

/// Any error, as a sentence.
pub(crate) fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> Scene<'a> {
    /// So many bytes of each, besides what every launch needs.
    pub(crate) fn new(setting: &'a Setting, mapped: u64, device: u64) -> Result<Self, String> {
        let mapped = mapped + EVERY;
        Ok(Self {
            setting,
            mapped: setting.cuda.pinned(mapped as usize).map_err(words)?,
            device: setting.cuda.device_memory(device.max(8)).map_err(words)?,
        })
    }

    /// Puts a value into mapped memory.
    pub(crate) fn place<T: Copy>(&self, value: T) -> Result<DeviceAddress, String> {
        let region = self.mapped.place(value).map_err(words)?;
        Ok(region.address)
    }

    /// Puts values into device memory, as tables of the product are.
    pub(crate) fn table<T: Copy>(&self, values: &[T]) -> Result<DeviceAddress, String> {
        let here = self.mapped.place_all(values).map_err(words)?;
        let mut bytes = vec![0; size_of_val(values)];
        self.mapped.read(here.address, &mut bytes).map_err(words)?;
        let there = self.cut_on_device(bytes.len())?;
        self.device.write(there, &bytes).map_err(words)?;
        Ok(there)
    }

    /// Cuts mapped memory.
    pub(crate) fn cut(&self, bytes: usize) -> Result<DeviceAddress, String> {
        let region = self.mapped.allocate(bytes as u64, 128).map_err(words)?;
        Ok(region.address)
    }

    /// Cuts device memory.
    pub(crate) fn cut_on_device(&self, bytes: usize) -> Result<DeviceAddress, String> {
        let region = self.device.allocate(bytes as u64, 128).map_err(words)?;
        Ok(region.address)
    }

    /// 64-bit words of device memory.
    pub(crate) fn words_on_device(
        &self,
        first: DeviceAddress,
        count: usize,
    ) -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; count * 8];
        self.device.read(first, &mut bytes).map_err(words)?;
        let (chunks, _) = bytes.as_chunks::<8>();
        Ok(chunks.iter().map(|one| u64::from_ne_bytes(*one)).collect())
    }

    /// Starts `kernel` with the block that `block` makes of its steering; `keep` is more mapped
    /// memory that it names, and `adjust` says how it is sliced.
    pub(crate) fn launch<P: Block>(
        &self,
        kernel: &str,
        blocks: u32,
        keep: &[Arc<Arena>],
        block: impl FnOnce(Steering) -> P,
        adjust: impl FnOnce(Slices) -> Slices,
    ) -> Result<Launch, String> {
        let control = Control::allocate(&self.mapped, blocks).map_err(words)?;
        let heartbeats = control.heartbeat_address(0);
        let block = block(Steering {
            stop: control.stop_address(),
            heartbeats: heartbeats.unwrap_or(DeviceAddress::NULL),
            turns: 0,
        });
        let steering = (&raw const *block.steering()).addr() - (&raw const block).addr();
        let turns = steering + std::mem::offset_of!(Steering, turns);
        let address = self.place(block)?;
        let mut memory = vec![Arc::clone(&self.mapped)];
        memory.extend(keep.iter().cloned());
        // SAFETY: the block was made for this kernel, all that it names lies in this memory or in
        // the device's, which the slices keep, and nobody else drives its queues.
        let parameters = unsafe { Parameters::new(address, P::LAYOUT, memory) };
        let parameters = parameters.control(control);
        let slices = Slices::new(address.offset(turns as u64));
        let slices = adjust(slices.device_memory(Arc::clone(&self.device)));
        let grid = Grid { blocks, warps: 1 };
        let launched = self
            .setting
            .cuda
            .launch(row(kernel)?, grid, parameters, slices);
        launched.map_err(words)
    }
}

/// Waits for a kernel that ends by itself.
pub(crate) fn join(launch: Launch, limit: Limit) -> Result<Report, String> {
    let ended = launch.wait(limit.left());
    if !ended {
        launch.stop();
    }
    let report = launch.join(GRACE).map_err(words)?;
    match (ended, report.cause()) {
        (true, None) => Ok(report),
        (true, Some(cause)) => Err(format!("{} ended with {cause:?}", report.kernel)),
        (false, _) => Err(format!("{} was not done in time", report.kernel)),
    }
}

/// Stops a kernel that has no end.
pub(crate) fn stop(launch: Launch) -> Result<Report, String> {
    launch.stop();
    let report = launch.join(GRACE).map_err(words)?;
    match report.cause() {
        None => Ok(report),
        Some(cause) => Err(format!("{} ended with {cause:?}", report.kernel)),
    }
}

/// Bytes for stop word, heartbeats and parameter blocks.
const EVERY: u64 = 2 << 20;

/// How long a kernel that was told to stop may take.
const GRACE: Duration = Duration::from_secs(10);
