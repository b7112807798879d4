//! From publishing to completion.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::{DESCRIPTOR_WORDS, TimingCounters, TimingParameters, TimingPort};
use warpwire_gpu::Arena;
use warpwire_ring::DeviceAddress;

use crate::figures::Spread;
use crate::part::{Found, Limit, Outcome};
use crate::scene::{Scene, join, words};
use crate::setting::Setting;

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let count: u32 = setting.size(50_000, 300);
    let bytes = count as usize * 8;
    let scene = Scene::new(setting, 4096, bytes as u64 + 4096)?;
    let samples = scene.cut_on_device(bytes)?;
    let counters = scene.cut_on_device(size_of::<TimingCounters>())?;
    let wire = Wire {
        descriptor: scene.cut(DESCRIPTOR_WORDS as usize * 4)?,
        doorbell: scene.cut(4)?,
        completion: scene.cut(4)?,
    };
    let ports = scene.place(TimingPort {
        samples,
        counters,
        descriptor: wire.descriptor,
        doorbell: wire.doorbell,
        completion: wire.completion,
        timeout_ns: TIMEOUT_NS,
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
    let launch = scene.launch("gauge_publish", 1, &[], block, |slices| slices)?;
    let over = AtomicBool::new(false);
    let (report, peer) = thread::scope(|scope| {
        let peer = scope.spawn(|| wire.complete(&scene.mapped, &over, !setting.on_hardware));
        let report = join(launch, limit);
        over.store(true, Ordering::Relaxed);
        (report, peer.join())
    });
    let report = report?;
    let seen = peer.map_err(|_| "the host's thread panicked")??;
    // The first ones meet cold caches and a thread that has just begun.
    let warm = scene.words_on_device(samples, count as usize)?;
    let warm = warm.into_iter().skip(count as usize / 10).collect();
    let spread = Spread::of(warm).ok_or("no samples")?;
    let us = |ns: u64| format!("{:.2} us", ns as f64 / 1000.0);
    let lines = [
        ("p50", us(spread.p50)),
        ("p90", us(spread.p90)),
        ("p99", us(spread.p99)),
        ("p99.9", us(spread.p99_9)),
        ("longest", us(spread.most)),
    ];
    let whole = seen.doorbells == u64::from(count) && seen.torn == 0;
    let failure = format!(
        "{} doorbells of {count} seen, {} descriptors not whole behind their doorbell",
        seen.doorbells, seen.torn
    );
    Ok(Found {
        values: json!({
            "ns": spread,
            "doorbells": seen.doorbells,
            "torn_descriptors": seen.torn,
            "slices": report.slices,
        }),
        lines: lines.map(|(what, much)| (what.to_owned(), much)).into(),
        failure: (!whole).then_some(failure),
    })
}

/// What the kernel and the host's thread share.
struct Wire {
    descriptor: DeviceAddress,
    doorbell: DeviceAddress,
    completion: DeviceAddress,
}

/// What the host's thread saw.
#[derive(Default)]
struct Seen {
    doorbells: u64,
    /// Descriptors that were not whole when their doorbell was seen.
    torn: u64,
}

impl Wire {
    /// Completes what is published, until it is told that all is over.
    fn complete(&self, arena: &Arena, over: &AtomicBool, yields: bool) -> Result<Seen, String> {
        let doorbell = arena.half_word(self.doorbell).map_err(words)?;
        let completion = arena.half_word(self.completion).map_err(words)?;
        let mut seen = Seen::default();
        let mut last = 0;
        let mut bytes = [0; DESCRIPTOR_WORDS as usize * 4];
        while !over.load(Ordering::Relaxed) {
            // pairs with: the kernel's release store of the doorbell.
            let number = doorbell.load(Ordering::Acquire);
            if number == last {
                match yields {
                    true => thread::yield_now(),
                    false => hint::spin_loop(),
                }
                continue;
            }
            arena.read(self.descriptor, &mut bytes).map_err(words)?;
            let (own, _) = bytes.as_chunks::<4>();
            let whole = own.iter().all(|word| u32::from_ne_bytes(*word) == number);
            seen.torn += u64::from(!whole);
            seen.doorbells += 1;
            last = number;
            // pairs with: the kernel's acquire load of the completion.
            completion.store(number, Ordering::Release);
        }
        Ok(seen)
    }
}

/// The kernel gives up after so long.
const TIMEOUT_NS: u64 = 2_000_000_000;
