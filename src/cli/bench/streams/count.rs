//! Counting over a stretch of time, with the processor time of both ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::error::Error;
use super::super::row::{Beside, Percentiles, Sample};
use super::super::setting::{PATIENT_COUNTS, Setting, WARM_UP};

/// A thread, as /proc knows it.
#[derive(Clone, Debug)]
pub(super) struct Task(PathBuf);

impl Task {
    /// The calling thread.
    pub(super) fn own() -> Self {
        let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        Self(Path::new("/proc").join(link))
    }

    /// The first thread of a process.
    pub(super) fn first_of(process: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{process}/task/{process}")))
    }

    /// Nanoseconds that it has run.
    fn ran_ns(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.0.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) count: u64,
    seconds: f64,
    /// Nanoseconds that both ends ran; none if the kernel does not tell.
    ran_ns: Option<u64>,
}

/// Calls `go` again and again, and adds up what it did once it is warm. Longer than the usual time
/// if nothing was done, up to a bound.
pub(super) fn count(
    setting: &Setting,
    tasks: &[Task],
    mut go: impl FnMut() -> Result<u64, Error>,
) -> Result<Counted, Error> {
    let ran = || tasks.iter().map(Task::ran_ns).sum::<Option<u64>>();
    let warm = Instant::now() + WARM_UP;
    while Instant::now() < warm {
        setting.check()?;
        go()?;
    }
    let (start, before) = (Instant::now(), ran());
    let enough = Duration::from_secs_f64(setting.seconds);
    let mut count = 0;
    loop {
        setting.check()?;
        count += go()?;
        let elapsed = start.elapsed();
        if elapsed >= enough && count > 0 {
            break;
        }
        if elapsed >= PATIENCE.max(enough * PATIENT_COUNTS) {
            return Err(Error::Silent {
                what: "a stream",
                seconds: elapsed.as_secs_f64(),
            });
        }
    }
    Ok(Counted {
        count,
        seconds: start.elapsed().as_secs_f64(),
        ran_ns: ran().zip(before).map(|(after, before)| after - before),
    })
}

/// Gigabits a second, and time for 1,024 bytes.
pub(super) fn goodput(bytes: Counted) -> Sample {
    let kibs = bytes.count as f64 / 1024.0;
    Sample {
        value: bytes.count as f64 * 8.0 / bytes.seconds / 1e9,
        // TCP repeats what is lost.
        dropped: 0,
        offered: bytes.count,
        beside: Beside {
            ns_per_kib: bytes.ran_ns.map(|time| time as f64 / kibs),
            percentiles_us: None,
        },
    }
}

/// Thousands a second.
pub(super) fn thousands(counted: Counted) -> Sample {
    Sample {
        value: counted.count as f64 / counted.seconds / 1e3,
        dropped: 0,
        offered: counted.count,
        beside: Beside::default(),
    }
}

/// Times how long each `ask` takes: the median, and percentiles.
pub(super) fn times(
    setting: &Setting,
    mut ask: impl FnMut() -> Result<(), Error>,
) -> Result<Sample, Error> {
    let mut times = Vec::with_capacity(MOST_TIMES);
    let counted = count(setting, &[], || {
        let start = Instant::now();
        ask()?;
        let time = start.elapsed().as_nanos() as u64;
        if times.len() < MOST_TIMES {
            times.push(time);
        }
        Ok(1)
    })?;
    // Those before it was warm do not count.
    let warm = times.len().saturating_sub(counted.count as usize);
    let percentiles = Percentiles::of(times.split_off(warm));
    Ok(Sample {
        value: percentiles.p50,
        dropped: 0,
        offered: counted.count,
        beside: Beside {
            ns_per_kib: None,
            percentiles_us: Some(percentiles),
        },
    })
}

/// How long something may take to be done, where that is more than several times the usual time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Times that are kept at most; later ones are not.
const MOST_TIMES: usize = 1 << 22;
