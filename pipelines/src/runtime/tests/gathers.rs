//! Datagrams of a sensor, gathered into files: lost, doubled, late, short, in the wrong order.

use std::collections::BTreeSet;

use etherparse::PacketBuilder;

use super::*;
use crate::sensor::tests::{Npy, floats};

/// What a sensor sends, and what is to come of it.
struct Sensor {
    arrivals: Vec<(u64, Vec<u8>)>,
    headers: Vec<u8>,
    samples: Vec<f32>,
    /// From which row to which.
    gaps: Vec<(u64, u64)>,
    doubled: u64,
    short: u64,
}

const HEADER: usize = 20;
const SAMPLES: usize = 13;
const FIRST: u64 = 65_400;
const RECORDS: u64 = 400;

impl Sensor {
    /// Numbers of 16 bits that begin anew at 0 on the way, and samples with 3 bits behind the
    /// point; numbers are little-endian and samples too if `little`.
    fn new(seed: u64, little: bool) -> Self {
        let mut dice = Dice::new(seed);
        let mut sensor = Self {
            arrivals: Vec::new(),
            headers: Vec::new(),
            samples: Vec::new(),
            gaps: Vec::new(),
            doubled: 0,
            short: 0,
        };
        // Their turns: none is overtaken by as many as the window holds.
        let mut sent: Vec<(u64, Vec<u8>)> = Vec::new();
        let two = |value: u16| match little {
            true => value.to_le_bytes(),
            false => value.to_be_bytes(),
        };
        for row in 0..RECORDS {
            let mut record: Vec<u8> = (0..HEADER).map(|_| dice.below(256) as u8).collect();
            record[6..8].copy_from_slice(&two((FIRST + row) as u16));
            let values: Vec<i16> = (0..SAMPLES).map(|_| dice.below(1 << 16) as i16).collect();
            record.extend(values.iter().flat_map(|value| two(*value as u16)));
            // The last one comes: nobody could miss it.
            let is_lost = row + 1 < RECORDS && dice.below(12) == 0;
            if is_lost {
                match sensor.gaps.last_mut() {
                    Some((_, to)) if *to == row => *to += 1,
                    _ => sensor.gaps.push((row, row + 1)),
                }
                sensor.headers.extend([0; HEADER]);
                sensor.samples.extend([f32::NAN; SAMPLES]);
                continue;
            }
            sensor.headers.extend(&record[..HEADER]);
            sensor
                .samples
                .extend(values.iter().map(|value| f32::from(*value) / 8.0));
            if dice.below(20) == 0 {
                sensor.short += 1;
                let cut = record.len() - 1 - dice.below(10) as usize;
                sent.push((row + dice.below(5), record[..cut].to_vec()));
            }
            if dice.below(10) == 0 {
                sensor.doubled += 1;
                sent.push((row + dice.below(5), record.clone()));
            }
            sent.push((row + dice.below(5), record));
        }
        sent.sort_by_key(|(turn, _)| *turn);
        let mut now_ns = 1_000_000;
        for (_, record) in sent {
            // Slowly enough for the slots of the NIC, which the kernel looks at now and then.
            now_ns += dice.below(400_000);
            let mut frame = Vec::new();
            let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
                .ipv4([10, 0, 0, 9], [10, 0, 0, 1], 64)
                .udp(4000, 5000);
            builder.write(&mut frame, &record).expect("fits");
            sensor.arrivals.push((now_ns, frame));
        }
        sensor
    }
}

#[test]
fn a_stage_gathers_rows_tells_gaps_and_counts_what_it_drops() {
    for seed in 1..=12 {
        let little = seed % 2 == 0;
        let sensor = Sensor::new(seed, little);
        for settings in [scalar(seed), lockstep(seed)] {
            let folder = Folder::new();
            let [rows, headers] = ["rows.npy", "headers.npy"].map(|name| folder.file(name));
            let stages = format!(
                "[[receive.stage]]\ndo = \"gather\"\nwhen = {{ destination_port = 5000 }}\n\
                 rows_to = \"{rows}\"\nheaders_to = \"{headers}\"\nsamples = {SAMPLES}\n\
                 header = {HEADER}\nnumber_at = 6\nnumber_bytes = 2\nfraction_bits = 3\n\
                 window = 8\nrows = 512\nfirst = {FIRST}\nlittle = {little}\n"
            );
            let report = run(&stages, &sensor.arrivals, settings).report;
            let [gathered] = report.gathered.as_slice() else {
                panic!("{report:?}");
            };
            let figures = &gathered.figures;
            let told: Vec<(u64, u64)> = gathered
                .gap_list
                .iter()
                .map(|gap| (gap.from_row, gap.to_row))
                .collect();
            assert_eq!(joined(&told), sensor.gaps, "seed {seed}: {figures:?}");
            for gap in &gathered.gap_list {
                assert_eq!(gap.first_number, FIRST + gap.from_row);
                assert_eq!(gap.records, gap.to_row - gap.from_row);
            }
            let missing: u64 = sensor.gaps.iter().map(|(from, to)| to - from).sum();
            assert_eq!(figures.rows, RECORDS, "seed {seed}");
            assert_eq!(figures.missing_rows, missing);
            assert_eq!(figures.missing_records, missing);
            assert_eq!(figures.placed, RECORDS - missing);
            let dropped = |why: &str| figures.dropped.get(why).copied().unwrap_or(0);
            assert_eq!(dropped("doubled") + dropped("late"), sensor.doubled);
            assert_eq!(dropped("length"), sensor.short);
            let known = BTreeSet::from(["doubled", "late", "length"]);
            assert!(
                figures.dropped.keys().all(|why| known.contains(why)),
                "{figures:?}"
            );
            // The stage counts the same.
            let stage = &report.receives[0].stages[0];
            assert_eq!(stage.counters["placed"], figures.placed);
            let found = Npy::read(&rows);
            assert_eq!(
                (found.kind.as_str(), found.shape),
                ("<f4", [RECORDS, SAMPLES as u64])
            );
            assert!(floats(&found.bytes) == bits(&sensor.samples), "seed {seed}");
            let found = Npy::read(&headers);
            assert_eq!(
                (found.kind.as_str(), found.shape),
                ("|u1", [RECORDS, HEADER as u64])
            );
            assert!(found.bytes == sensor.headers, "seed {seed}");
        }
    }
}

/// Gaps that follow each other as one: a window tells what it settles in parts.
fn joined(gaps: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in gaps {
        match joined.last_mut() {
            Some((_, last)) if last == from => *last = *to,
            _ => joined.push((*from, *to)),
        }
    }
    joined
}

fn bits(values: &[f32]) -> Vec<u32> {
    // Any NaN is one.
    let one = |value: &f32| if value.is_nan() { f32::NAN } else { *value };
    values.iter().map(|value| one(value).to_bits()).collect()
}

#[test]
fn a_run_ends_with_as_many_rows_as_there_shall_be() {
    let sensor = Sensor::new(3, false);
    let folder = Folder::new();
    let rows = folder.file("rows");
    let stages = format!(
        "[[receive.stage]]\ndo = \"gather\"\nrows_to = \"{rows}\"\nsamples = {SAMPLES}\n\
         header = {HEADER}\nnumber_at = 6\nnumber_bytes = 2\nfraction_bits = 3\nwindow = 8\n\
         rows = 512\nfirst = {FIRST}\n"
    );
    let settings = Settings {
        rows: Some(250),
        ..scalar(3)
    };
    let report = run(&stages, &sensor.arrivals, settings).report;
    let gathered = &report.gathered[0];
    assert_eq!(gathered.figures.rows, 250);
    let inside = sensor.gaps.iter().filter(|(from, _)| *from < 250);
    let missing: u64 = inside.map(|(from, to)| to.min(&250) - from).sum();
    assert_eq!(gathered.figures.missing_rows, missing);
    // A file of another name has the bare rows.
    let found = std::fs::read(&rows).expect("is there");
    assert!(floats(&found) == bits(&sensor.samples[..250 * SAMPLES]));
}

#[test]
fn files_that_cannot_be_written_end_a_run_before_it_begins() {
    let folder = Folder::new();
    let [play, rows] = ["play.pcap", "nowhere/rows.npy"].map(|name| folder.file(name));
    write(&play, &[]);
    let text = format!(
        "[nic.a]\nopen = \"pcap:{play}\"\n[[receive]]\nfrom = \"a\"\n\
         [[receive.stage]]\ndo = \"gather\"\nrows_to = \"{rows}\"\nsamples = 4\n"
    );
    let kit = Kit::built_in();
    let file = PipelineFile::parse("test.toml", &text, kit.catalogue()).expect("is sound");
    let started = Runtime::start_with(&file, &kit, scalar(1));
    let said = started.err().expect("cannot").to_string();
    assert!(
        said.contains("nowhere/rows.npy") && said.contains("that can be written"),
        "{said}"
    );
}
