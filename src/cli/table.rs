//! What a run counted, for people.

use std::io::{self, Write};

use serde_json::Value;
use warpwire_pipelines::Report;
use warpwire_pipelines::report::{GatherReport, NicReport, ReceiveReport, StageReport};

/// How much of a run is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    /// What matters most, a line a thing.
    Short,
    /// Every counter that is not zero, but for the tails of long tables.
    Full,
}

impl Detail {
    /// Entries of a table of counters that are shown.
    fn entries(self) -> usize {
        match self {
            Self::Short => 2,
            Self::Full => 8,
        }
    }
}

/// Writes what was counted.
pub(super) fn write(out: &mut impl Write, report: &Report, detail: Detail) -> io::Result<()> {
    writeln!(
        out,
        "{}: {:.1} s on the {} executor, {} threads, {}",
        report.name, report.elapsed_s, report.executor, report.threads, report.memory
    )?;
    for generator in &report.generators {
        writeln!(out)?;
        let sent = generator.sent;
        writeln!(
            out,
            "generated at {}: {}",
            generator.nic,
            traffic(sent.frames, sent.bytes)
        )?;
        let frames = generator.frames.iter();
        let frames: Vec<String> = frames
            .map(|(name, frames)| format!("{name} {}", count(*frames)))
            .collect();
        wrapped(out, &frames)?;
    }
    for receive in &report.receives {
        writeln!(out)?;
        received(out, report, receive, detail)?;
    }
    writeln!(out)?;
    nics(out, &report.nics)?;
    for sample in &report.samples {
        writeln!(
            out,
            "samples: {} frames in {}",
            count(sample.frames),
            sample.file.display()
        )?;
    }
    for gathered in &report.gathered {
        gather(out, gathered)?;
    }
    Ok(())
}

/// Writes what a stage gathered.
fn gather(out: &mut impl Write, report: &GatherReport) -> io::Result<()> {
    let figures = &report.figures;
    writeln!(
        out,
        "{} at {}: {} rows, {} of them missing",
        report.stage,
        report.nic,
        count(figures.rows),
        count(figures.missing_rows)
    )?;
    let files = [
        ("samples", &report.rows_to),
        ("headers", &report.headers_to),
    ];
    for (what, file) in files {
        if let Some(file) = file {
            writeln!(out, "  {what} in {}", file.display())?;
        }
    }
    let dropped = figures.dropped.iter();
    let dropped: Vec<String> = dropped
        .map(|(why, records)| format!("{why} {}", count(*records)))
        .collect();
    if !dropped.is_empty() {
        writeln!(out, "  records dropped: {}", dropped.join(", "))?;
    }
    for gap in report.gap_list.iter().take(GAPS) {
        writeln!(out, "  {gap}")?;
    }
    let more = (report.gap_list.len().saturating_sub(GAPS)) as u64 + report.gaps_unlisted;
    if more > 0 {
        writeln!(out, "  and {} gaps more", count(more))?;
    }
    Ok(())
}

/// Writes how the frames of a run add up along their way.
pub(super) fn way(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "does it add up?")?;
    for balance in &report.balances {
        let verdict = if balance.adds_up { "yes" } else { "NO" };
        writeln!(
            out,
            "  kernel over {}: received {} = dropped {} + sent {}: {verdict}",
            balance.nics.join(" and "),
            count(balance.received),
            count(balance.dropped),
            count(balance.sent),
        )?;
    }
    for cable in &report.cables {
        let verdict = if cable.adds_up { "yes" } else { "NO" };
        writeln!(
            out,
            "  cable {} to {}: sent {} = received {} + lost {}: {verdict}",
            cable.from,
            cable.to,
            count(cable.sent),
            count(cable.received),
            count(cable.lost),
        )?;
    }
    Ok(())
}

fn received(
    out: &mut impl Write,
    report: &Report,
    receive: &ReceiveReport,
    detail: Detail,
) -> io::Result<()> {
    let nic = report.nics.iter().find(|nic| nic.name == receive.nic);
    let bytes = nic.map_or(0, |nic| nic.received.bytes);
    writeln!(
        out,
        "received at {}: {}",
        receive.nic,
        traffic(receive.received, bytes)
    )?;
    for stage in &receive.stages {
        row(
            out,
            &stage.name,
            stage.frames,
            &counters(stage, detail),
            detail,
        )?;
    }
    if receive.checksums_completed > 0 {
        let completed = count(receive.checksums_completed);
        writeln!(out, "  checksums completed for a local peer: {completed}")?;
    }
    let total = receive.dropped.values().sum();
    let mut dropped: Vec<_> = receive.dropped.iter().collect();
    dropped.sort_by_key(|(_, frames)| std::cmp::Reverse(**frames));
    let dropped: Vec<String> = dropped
        .iter()
        .map(|(reason, frames)| format!("{reason} {}", count(**frames)))
        .collect();
    row(out, "sent on", receive.sent, &[], detail)?;
    row(out, "dropped", total, &dropped, detail)
}

/// Writes frames and what was counted of them: in one line, or in as many as it takes.
fn row(
    out: &mut impl Write,
    name: &str,
    frames: u64,
    words: &[String],
    detail: Detail,
) -> io::Result<()> {
    write!(out, "  {name:<14} {:>12} frames", count(frames))?;
    if detail == Detail::Full {
        writeln!(out)?;
        return wrapped(out, words);
    }
    let mut line = String::new();
    for (place, word) in words.iter().enumerate() {
        if line.len() + word.len() + 2 > ROOM {
            let more = words.len() - place;
            line.push_str(&format!("  and {more} more"));
            break;
        }
        line.push_str("  ");
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

/// A stage's counters that are not zero, the largest entries of tables first.
fn counters(stage: &StageReport, detail: Detail) -> Vec<String> {
    let most = detail.entries();
    let mut words = Vec::new();
    for (name, value) in &stage.counters {
        match value {
            Value::Number(number) => {
                let number = number.as_u64().unwrap_or(0);
                if number > 0 {
                    words.push(format!("{name} {}", count(number)));
                }
            }
            Value::Object(entries) => {
                let mut entries: Vec<(&String, u64)> = entries
                    .iter()
                    .map(|(entry, value)| (entry, value.as_u64().unwrap_or(0)))
                    .collect();
                entries.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
                let shown = entries.iter().take(most);
                words.extend(
                    shown.map(|(entry, value)| format!("{name} {entry}: {}", count(*value))),
                );
                if entries.len() > most {
                    words.push(format!("{name}: {} more", entries.len() - most));
                }
            }
            _ => {}
        }
    }
    words
}

fn nics(out: &mut impl Write, nics: &[NicReport]) -> io::Result<()> {
    for nic in nics {
        writeln!(
            out,
            "{}: {}; received {}, sent {}",
            nic.name,
            nic.open,
            traffic(nic.received.frames, nic.received.bytes),
            traffic(nic.sent.frames, nic.sent.bytes)
        )?;
        let (receive, transmit) = (nic.receive_provenance, nic.transmit_provenance);
        let triggers = [
            (transmit.triggers_mmio, "doorbells"),
            (transmit.triggers_polled_index, "indices published"),
            (transmit.triggers_system_call, "system calls asked for"),
        ];
        let mut by_kernels = vec![
            format!("{} receive calls", count(receive.device_calls)),
            format!("{} frames posted", count(transmit.descriptors_built)),
        ];
        let triggers = triggers.iter().filter(|(number, _)| *number > 0);
        by_kernels.extend(triggers.map(|(number, word)| format!("{} {word}", count(*number))));
        writeln!(out, "  by kernels: {}", by_kernels.join(", "))?;
        for (reason, frames) in &nic.lost {
            writeln!(
                out,
                "  lost           {:>12} frames  {reason}",
                count(*frames)
            )?;
        }
        for cause in &nic.causes {
            writeln!(out, "  unusable: {cause}")?;
        }
        for warning in &nic.warnings {
            writeln!(out, "  warning: {warning}")?;
        }
    }
    Ok(())
}

/// Writes words one behind the other, in indented lines.
fn wrapped(out: &mut impl Write, words: &[String]) -> io::Result<()> {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() && line.len() + word.len() + 2 > LINE {
            writeln!(out, "      {line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        writeln!(out, "      {line}")?;
    }
    Ok(())
}

fn traffic(frames: u64, bytes: u64) -> String {
    format!("{} frames, {} bytes", count(frames), count(bytes))
}

/// A number with its thousands apart: `1 234 567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A rate in few letters: `1.2 M`.
pub(super) fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.1} M", number / 1e6),
        number if number >= 1e3 => format!("{:.0} k", number / 1e3),
        number => format!("{number:.0}"),
    }
}

/// Gaps that are shown.
const GAPS: usize = 20;

/// Letters of a line of counters.
const LINE: usize = 90;

/// Letters of the counters beside a stage, where each has one line.
const ROOM: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_set_apart() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1 000"),
            (12_345_678, "12 345 678"),
        ];
        for (number, want) in cases {
            assert_eq!(count(number), want);
        }
        assert_eq!(short(1_234_567.0), "1.2 M");
        assert_eq!(short(12_345.0), "12 k");
        assert_eq!(short(12.3), "12");
    }
}
