//! Files of arrays, settings, and records out of streams.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{IdlePolicy, Placement};
use warpwire_nic::soft::{Dice, Impairments};
use warpwire_ring::Location;

use super::files::Arrays;
use super::npy::{Array, Element};
use super::*;
use crate::file::PipelineFile;
use crate::runtime::Kit;
use crate::streaming::scene::{By, LIMIT, Scene, Sizes};

/// An array as NumPy's format says.
pub(crate) struct Npy {
    pub(crate) kind: String,
    pub(crate) shape: [u64; 2],
    /// The elements.
    pub(crate) bytes: Vec<u8>,
}

impl Npy {
    /// Reads a file, by what NumPy says of the format and not by what we write.
    pub(crate) fn read(path: &str) -> Self {
        let bytes = std::fs::read(path).expect("is there");
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert!((10 + length).is_multiple_of(64));
        let words = std::str::from_utf8(&bytes[10..10 + length]).expect("is text");
        let words = words.strip_suffix('\n').expect("is a line").trim_end();
        let words = words.strip_prefix('{').expect("is a dictionary");
        let words = words.strip_suffix('}').expect("is one");
        let value = |key: &str| {
            let (_, rest) = words.split_once(&format!("'{key}': ")).expect("has it");
            rest
        };
        let (kind, _) = value("descr")[1..].split_once('\'').expect("is a string");
        assert!(value("fortran_order").starts_with("False,"));
        let (shape, _) = value("shape")[1..].split_once(')').expect("is a tuple");
        let shape: Vec<u64> = shape
            .split(", ")
            .map(|one| one.parse().expect("is a number"))
            .collect();
        Self {
            kind: kind.to_owned(),
            shape: shape.try_into().expect("has two"),
            bytes: bytes[10 + length..].to_vec(),
        }
    }
}

/// Bytes as floats, by their bits.
pub(crate) fn floats(bytes: &[u8]) -> Vec<u32> {
    let (floats, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    floats
        .iter()
        .map(|float| u32::from_ne_bytes(*float))
        .collect()
}

/// A folder that is gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpwire-sensor-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn arrays_are_read_back_after_every_flush() {
    let folder = Folder::new();
    let (path, bare) = (folder.file("a.npy"), folder.file("bare.bin"));
    let text = path.display().to_string();
    std::fs::write(&path, [7; 5000]).expect("is written");
    let files = Files {
        samples: Some(path),
        headers: Some(bare.clone()),
    };
    let format = Format::new(2, 0, 2, ByteOrder::Big).expect("is one");
    let records = Records {
        samples: 3,
        format,
        ..records()
    };
    let mut arrays = Arrays::create(&files, &records).expect("are made");
    let empty = Npy::read(&text);
    assert_eq!((empty.kind.as_str(), empty.shape), ("<f4", [0, 3]));
    assert!(empty.bytes.is_empty(), "what was there is gone");
    let (mut all, mut headers) = (Vec::new(), Vec::new());
    // The last ones are more than wait to be written.
    for rows in [1u32, 0, 5, 300_000] {
        let values = (0..rows * 3).map(|at| f32::from_bits(at * 977 + rows));
        let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
        let own: Vec<u8> = (0..rows).flat_map(|row| [row as u8, 3]).collect();
        arrays.append(&own, &bytes).expect("is written");
        all.extend(bytes);
        headers.extend(own);
        arrays.flush().expect("is written");
        assert_eq!(arrays.rows(), all.len() as u64 / 12);
        let found = Npy::read(&text);
        assert_eq!(found.shape, [all.len() as u64 / 12, 3]);
        assert!(found.bytes == all);
        assert!(std::fs::read(&bare).expect("is there") == headers);
    }
}

#[test]
fn files_that_cannot_be_made_are_named() {
    let folder = Folder::new();
    for (path, want) in [
        (folder.file("nowhere/a.npy"), "No such file"),
        (folder.0.clone(), "directory"),
        ("/dev/full".into(), "is a device, not a regular file"),
    ] {
        let made = Array::create(&path, Element::Byte, 1);
        let said = made.expect_err("cannot").to_string();
        let is_folder = said.contains("is a folder") && want == "directory";
        assert!(said.contains(want) || is_folder, "{said}");
        assert!(said.contains(&path.display().to_string()), "{said}");
    }
}

/// Records of 16 bytes of header and 8 samples, both as the network has them.
fn records() -> Records {
    let format = Format::new(16, 0, 8, ByteOrder::Big).expect("is one");
    let conversion = Conversion {
        scale: 0.25,
        offset: -1.0,
        order: ByteOrder::Big,
    };
    Records::new(8, format, conversion)
}

#[test]
fn records_that_make_no_sense_are_named() {
    let usual = records();
    usual.check().expect("are sound");
    let short = Format::new(1, 0, 1, ByteOrder::Big).expect("is one");
    for (field, wrong) in [
        (
            "samples",
            Records {
                samples: 0,
                ..usual
            },
        ),
        (
            "samples",
            Records {
                samples: 1 << 21,
                ..usual
            },
        ),
        ("window", Records { window: 0, ..usual }),
        (
            "window",
            Records {
                window: 5000,
                rows: 8192,
                ..usual
            },
        ),
        (
            "window",
            Records {
                format: short,
                ..usual
            },
        ),
        (
            "rows",
            Records {
                rows: 1000,
                ..usual
            },
        ),
        ("rows", Records { rows: 128, ..usual }),
        (
            "rows",
            Records {
                samples: 1 << 20,
                rows: 1 << 20,
                ..usual
            },
        ),
        (
            "patience_us",
            Records {
                patience: Duration::from_secs(1 << 20),
                ..usual
            },
        ),
        (
            "first",
            Records {
                format: short,
                window: 4,
                first: Some(256),
                ..usual
            },
        ),
    ] {
        let said = wrong.check().expect_err("makes none").to_string();
        assert!(said.starts_with(&format!("{field}: ")), "{field}: {said}");
    }
}

#[test]
fn settings_of_a_stage_are_checked_with_the_file() {
    let text = |blocks: u32, fields: &str| {
        format!(
            "blocks = {blocks}\n[nic.a]\nopen = \"soft\"\npeer = \"loop\"\nqueues = 2\n\
             [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"gather\"\n{fields}"
        )
    };
    let kit = Kit::built_in();
    let parse = |text: &str| PipelineFile::parse("test.toml", text, kit.catalogue());
    let files = "rows_to = \"a.npy\"\nheaders_to = \"b.npy\"\n";
    for (blocks, fields, want) in [
        (1, "samples = 8\n", "rows_to: is missing"),
        (1, "rows_to = \"a.npy\"\n", "samples: is missing"),
        (
            1,
            &format!("{files}samples = 0\n"),
            "samples: 0 is out of range",
        ),
        (
            1,
            &format!("{files}samples = 8\nnumber_bytes = 3\n"),
            "number_bytes: no number",
        ),
        (
            1,
            &format!("{files}samples = 8\nheader = 8\nnumber_at = 4\n"),
            "number_at: the number",
        ),
        (
            1,
            &format!("{files}samples = 8\nnumber_bytes = 2\nfirst = 65536\n"),
            "first: is 65536",
        ),
        (
            1,
            &format!("{files}samples = 32768\nrows = 1048576\n"),
            "rows: 1048576 rows take",
        ),
        (
            1,
            &format!("{files}samples = 8\nwindows = 3\n"),
            "did you mean `window`?",
        ),
        (2, &format!("{files}samples = 8\n"), "blocks: 2 blocks"),
    ] {
        let problems = parse(&text(blocks, fields))
            .expect_err("is wrong")
            .to_string();
        assert!(problems.contains(want), "{fields}: {problems}");
    }
    let mut file = parse(&text(1, &format!("{files}samples = 8\n"))).expect("is sound");
    file.place_files_in("there".as_ref());
    let gather = file.receives[0].stages[0].gather.as_ref().expect("gathers");
    assert_eq!(gather.files.samples, Some("there/a.npy".into()));
    assert_eq!(gather.files.headers, Some("there/b.npy".into()));
    assert_eq!(gather.records.rows, 1024);
    // Rows of two kinds cannot share a file.
    let same = "rows_to = \"a.npy\"\nheaders_to = \"a.npy\"\nsamples = 8\n";
    let file = parse(&text(1, same)).expect("is sound");
    let refused = crate::files::check("test.toml", &file, &[]).expect_err("is refused");
    assert!(refused.to_string().contains("headers_to"), "{refused}");
}

#[test]
fn records_come_out_of_streams_whatever_carries_them() {
    let sent: Vec<Vec<u8>> = {
        let mut dice = Dice::new(7);
        let record = |number: u64| {
            let random = (0..8 + 16).map(|_| dice.below(256) as u8);
            let random: Vec<u8> = random.collect();
            [&number.to_be_bytes()[..], &random].concat()
        };
        (0..5000).map(record).collect()
    };
    for by in [By::Tcp, By::Nic] {
        let scene = Scene::of(by, Impairments::default(), &Sizes::default());
        let listener = scene.listen();
        let to = listener.address();
        let folder = Folder::new();
        let files = Files {
            samples: Some(folder.file("s.npy")),
            headers: Some(folder.file("h.npy")),
        };
        let mut records = records();
        records.first = Some(10);
        let end = &scene.ends[1];
        let gathering = Gathering::new(&records, &files, None, Location::Device);
        let gathering = gathering.expect("begins");
        let executor = CpuExecutor::builder().threads(1).idle(IdlePolicy::POLITE);
        let executor = executor.build().expect("builds");
        let framing = Framing::fixed(records.record_bytes()).expect("is one");
        let placed = (&executor, Placement::Any);
        let mut intake = Intake::start(placed, end, gathering, framing).expect("starts");
        scene.run(
            |end| {
                // Two connections have every other record, but for some that are not sent.
                let mut streams = [0, 1].map(|_| end.connect(to, LIMIT).expect("connects"));
                for (number, record) in sent.iter().enumerate() {
                    if (40..43).contains(&number) {
                        continue;
                    }
                    let mut rest = &record[..];
                    while !rest.is_empty() {
                        let stream = &mut streams[number % 2];
                        rest = &rest[stream.write(rest).expect("is open")..];
                        end.step();
                    }
                }
                for mut stream in streams {
                    stream.finish(LIMIT).expect("ends");
                }
            },
            |end| {
                let until = Instant::now() + LIMIT;
                while intake.counters().ended < 2 {
                    assert!(Instant::now() < until, "{:?}", intake.counters());
                    end.step();
                    intake.gathering().drain();
                }
            },
        );
        let (mut gathering, counters) = intake.finish().expect("ends");
        gathering.finish().expect("is written");
        assert_eq!((counters.accepted, counters.broken), (2, 0), "{by:?}");
        assert_eq!(counters.records, 4997, "{by:?}");
        // One connection may be ahead of the other by more than the window holds.
        let figures = gathering.figures();
        let late: u64 = figures.dropped.values().sum();
        assert_eq!(figures.placed + late, 4997, "{by:?}: {figures:?}");
        assert_eq!(figures.rows, 4990, "{by:?}: {figures:?}");
        assert_eq!(figures.missing_rows, 4990 - figures.placed, "{by:?}");
        let missing = |row: u64| {
            let gaps = gathering.gaps().iter();
            gaps.into_iter()
                .any(|gap| (gap.from_row..gap.to_row).contains(&row))
        };
        let found = Npy::read(&files.samples.expect("is one").display().to_string());
        let headers = Npy::read(&files.headers.expect("is one").display().to_string());
        assert_eq!((found.shape, headers.shape), ([4990, 8], [4990, 16]));
        let samples = floats(&found.bytes);
        for (row, record) in (0..4990).zip(&sent[10..]) {
            let own = &samples[row * 8..row * 8 + 8];
            let header = &headers.bytes[row * 16..row * 16 + 16];
            let is_missing = missing(row as u64);
            assert!(is_missing || !(30..33).contains(&row), "{by:?}: row {row}");
            for (index, bits) in own.iter().enumerate() {
                let at = 16 + index * 2;
                let sample = i16::from_be_bytes([record[at], record[at + 1]]);
                let want = f32::from(sample) * 0.25 - 1.0;
                let want = if is_missing { f32::NAN } else { want };
                assert_eq!(*bits, want.to_bits(), "{by:?}: row {row}");
            }
            let want = if is_missing { &[0; 16] } else { &record[..16] };
            assert_eq!(header, want, "{by:?}: row {row}");
        }
        drop(listener);
    }
}

#[test]
fn a_stream_behind_another_is_no_sensor_that_counts_anew() {
    let scene = Scene::of(By::Tcp, Impairments::default(), &Sizes::default());
    let listener = scene.listen();
    let to = listener.address();
    let records = records();
    let gathering = Gathering::new(&records, &Files::default(), None, Location::Device);
    let executor = CpuExecutor::builder().threads(1).idle(IdlePolicy::POLITE);
    let executor = executor.build().expect("builds");
    let framing = Framing::fixed(records.record_bytes()).expect("is one");
    let placed = (&executor, Placement::Any);
    let gathering = gathering.expect("begins");
    let intake = Intake::start(placed, &scene.ends[1], gathering, framing);
    let mut intake = intake.expect("starts");
    let ahead_is_gathered = AtomicU32::new(0);
    scene.run(
        |end| {
            // The second has what the window has passed, and more of it than a sensor that sends
            // datagrams can have late.
            for numbers in [1000..1500_u64, 0..500] {
                let mut stream = end.connect(to, LIMIT).expect("connects");
                let record = |number: u64| [&number.to_be_bytes()[..], &[0; 24]].concat();
                let sent: Vec<u8> = numbers.flat_map(record).collect();
                let mut rest = &sent[..];
                while !rest.is_empty() {
                    rest = &rest[stream.write(rest).expect("is open")..];
                    end.step();
                }
                stream.finish(LIMIT).expect("ends");
                let until = Instant::now() + LIMIT;
                while ahead_is_gathered.load(Ordering::Relaxed) == 0 {
                    assert!(Instant::now() < until);
                    end.step();
                }
            }
        },
        |end| {
            let until = Instant::now() + LIMIT;
            while intake.counters().ended < 2 {
                assert!(Instant::now() < until, "{:?}", intake.counters());
                end.step();
                intake.gathering().drain();
                let is_gathered = intake.gathering().figures().placed >= 500;
                ahead_is_gathered.fetch_or(is_gathered.into(), Ordering::Relaxed);
            }
        },
    );
    let (gathering, counters) = intake.finish().expect("ends");
    assert_eq!((counters.records, counters.broken), (1000, 0));
    let figures = gathering.figures();
    assert_eq!((figures.placed, figures.restarts), (500, 0), "{figures:?}");
    assert_eq!(figures.dropped.values().sum::<u64>(), 500, "{figures:?}");
    drop(listener);
}
