//! The host: what it is, and what time it is.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The host that the GPU sits in.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            processors: processors(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The version of NVIDIA's kernel module, if it says so.
pub(crate) fn driver() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        parts.clone().count() >= 2 && parts.all(|part| part.parse::<u32>().is_ok())
    };
    let word = text.lines().next()?.split_whitespace().find(is_version)?;
    Some(word.to_owned())
}

/// The time in words, UTC.
pub(crate) fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    words(now.map_or(0, |time| time.as_secs()))
}

/// Seconds since 1970 as a date of the Gregorian calendar.
fn words(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end; 1970-01-01 is 719468 days after the
    // first day of such a year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, late) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = era * 400 + year + late;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(words(seconds), want);
        }
    }
}
