//! Slices against a launch a batch.

use std::time::Duration;

use serde_json::json;
use warpwire_gpu::executor::cuda::Slices;
use warpwire_ring::Direction;

use crate::figures::short;
use crate::part::{Found, Limit, Outcome};
use crate::rates::Traffic;
use crate::setting::Setting;
use crate::{clock, rates};

/// A way to launch again and again.
struct Way {
    name: &'static str,
    words: &'static str,
    adjust: fn(Slices) -> Slices,
}

const WAYS: [Way; 3] = [
    Way {
        name: "slices",
        words: "slices of 4 ms, looked at every 50 us",
        adjust: |slices| slices,
    },
    Way {
        name: "launch_a_batch",
        words: "launches of 2 turns, looked at every 50 us",
        adjust: |slices| slices.first_turns(2).slice(Duration::ZERO),
    },
    Way {
        name: "launch_a_batch_busily",
        words: "launches of 2 turns, looked at all the time",
        adjust: |slices| {
            let slices = slices.first_turns(2).slice(Duration::ZERO);
            slices.pause(Duration::ZERO)
        },
    },
];

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let mut found = Found::default();
    let mut values = serde_json::Map::new();
    for way in &WAYS {
        limit.check()?;
        // Of slices few pass in a second, of launches many.
        let samples = match way.name {
            "slices" => setting.size(1_000_000, 2_000),
            _ => setting.size(20_000, 100),
        };
        let taken = clock::take(setting, samples, limit, way.adjust)?;
        let slices = taken.report.slices.max(1);
        let elapsed = taken.report.elapsed.as_nanos() as f64;
        let outside_us = (elapsed - taken.kernel_ns as f64) / slices as f64 / 1000.0;
        let window = setting.size(Duration::from_secs(1), Duration::from_millis(100));
        let passed = rates::run(setting, TRAFFIC, window, way.adjust)?;
        let mpps = passed.frames as f64 / passed.window.as_secs_f64() / 1e6;
        found.lines.push((
            way.words.to_owned(),
            format!(
                "{} us a launch outside of the kernel, {} Mpps received",
                short(outside_us),
                short(mpps)
            ),
        ));
        let value = json!({
            "way": way.words,
            "outside_us_a_launch": short(outside_us),
            "launches": slices,
            "received_mpps": short(mpps),
            "longest_slice_us": short(passed.report.longest_slice.as_secs_f64() * 1e6),
        });
        values.insert(way.name.to_owned(), value);
    }
    found.values = values.into();
    Ok(found)
}

/// What is received meanwhile.
const TRAFFIC: Traffic = Traffic {
    direction: Direction::Receive,
    frame_bytes: 64,
    blocks: 1,
    counts_on_device: false,
};
