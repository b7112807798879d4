//! The step of the GPU's clock.

use serde_json::json;
use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::{TimingCounters, TimingParameters, TimingPort};
use warpwire_gpu::executor::cuda::{Report, Slices};
use warpwire_ring::DeviceAddress;

use crate::figures::{Spread, short};
use crate::part::{Found, Limit, Outcome};
use crate::scene::{Scene, join};
use crate::setting::Setting;

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let taken = take(setting, setting.size(20_000, 200), limit, |slices| slices)?;
    let still = taken.samples.iter().filter(|sample| **sample == 0).count();
    let moved: Vec<u64> = taken.samples.into_iter().filter(|one| *one > 0).collect();
    let spread = Spread::of(moved).ok_or("the clock never moves")?;
    let gigahertz = short(taken.cycles as f64 / taken.kernel_ns.max(1) as f64);
    let lines = [
        ("least step", format!("{} ns", spread.least)),
        ("median step", format!("{} ns", spread.p50)),
        ("cycles a nanosecond", gigahertz.to_string()),
    ];
    Ok(Found {
        values: json!({
            "step_ns": spread,
            "without_a_step": still,
            "cycles_per_ns": gigahertz,
        }),
        lines: lines.map(|(what, much)| (what.to_owned(), much)).into(),
        failure: (still > 0).then(|| format!("{still} times the clock did not move")),
    })
}

/// What a run of the kernel left.
pub(crate) struct Taken {
    pub(crate) samples: Vec<u64>,
    pub(crate) cycles: u64,
    /// In the kernel, by the GPU's clock.
    pub(crate) kernel_ns: u64,
    pub(crate) report: Report,
}

/// Takes so many samples with one block.
pub(crate) fn take(
    setting: &Setting,
    count: u32,
    limit: Limit,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Taken, String> {
    let bytes = count as usize * 8;
    let scene = Scene::new(setting, 0, bytes as u64 + 4096)?;
    let samples = scene.cut_on_device(bytes)?;
    let counters = scene.cut_on_device(size_of::<TimingCounters>())?;
    let ports = scene.place(TimingPort {
        samples,
        counters,
        descriptor: DeviceAddress::NULL,
        doorbell: DeviceAddress::NULL,
        completion: DeviceAddress::NULL,
        timeout_ns: 0,
        sample_count: count,
        reserved: 0,
    })?;
    let block = |steering| TimingParameters {
        header: TimingParameters::HEADER,
        steering,
        ports,
        port_count: 1,
        reserved: 0,
    };
    let launch = scene.launch("gauge_clock", 1, &[], block, adjust)?;
    let report = join(launch, limit)?;
    let at = |offset: usize| {
        let words = scene.words_on_device(counters.offset(offset as u64), 1);
        words.map(|words| words.first().copied().unwrap_or(0))
    };
    Ok(Taken {
        samples: scene.words_on_device(samples, count as usize)?,
        cycles: at(std::mem::offset_of!(TimingCounters, elapsed_cycles))?,
        kernel_ns: at(std::mem::offset_of!(TimingCounters, elapsed_ns))?,
        report,
    })
}
