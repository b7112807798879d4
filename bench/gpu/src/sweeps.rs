//! Parsing and the ICRC over device memory, against copies of the same card.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::{ROW, SweepCounters, SweepParameters};
use warpwire_gpu::executor::cuda::DeviceArena;
use warpwire_pipelines::traffic::{Kind, Recipe};
use warpwire_ring::DeviceAddress;

use crate::figures::{median, short};
use crate::part::{Found, Limit, Outcome};
use crate::scene::{Scene, join, words};
use crate::setting::Setting;

/// Work over frames.
struct Work {
    name: &'static str,
    kernel: &'static str,
    kind: Kind,
    frame_bytes: u32,
    /// Bytes of a frame that are read.
    read_bytes: u32,
    frames: u32,
    laps: u32,
}

const WORKS: [Work; 4] = [
    Work {
        name: "parse_64",
        kernel: "gauge_parse",
        kind: Kind::Udp,
        frame_bytes: 64,
        read_bytes: 64,
        frames: 1 << 22,
        laps: 16,
    },
    Work {
        name: "icrc_126",
        kernel: "gauge_icrc",
        kind: Kind::Roce,
        frame_bytes: 126,
        read_bytes: 126,
        frames: 1 << 21,
        laps: 4,
    },
    Work {
        name: "icrc_510",
        kernel: "gauge_icrc",
        kind: Kind::Roce,
        frame_bytes: 510,
        read_bytes: 510,
        frames: 1 << 19,
        laps: 4,
    },
    Work {
        name: "icrc_1498",
        kernel: "gauge_icrc",
        kind: Kind::Roce,
        frame_bytes: 1498,
        read_bytes: 1498,
        frames: 1 << 18,
        laps: 4,
    },
];

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let mut sweeps = Vec::new();
    for work in &WORKS {
        limit.check()?;
        sweeps.push(Sweep::new(setting, work)?);
    }
    let copies = Copies::new(setting)?;
    let mut copied = Vec::new();
    let mut swept = vec![Vec::new(); sweeps.len()];
    for _ in 0..ROUNDS {
        limit.check()?;
        copied.push(copies.run()?);
        for (sweep, rounds) in sweeps.iter().zip(&mut swept) {
            rounds.push(sweep.run(limit)?);
        }
    }
    let mut found = Found::default();
    let mut values = serde_json::Map::new();
    let copy = median(&copied);
    found.lines.push((
        "copy on the device".to_owned(),
        format!("{} GB/s read and written", short(copy / 1e9)),
    ));
    let rounds: Vec<f64> = copied.iter().map(|one| short(one / 1e9)).collect();
    let value = json!({ "gb_per_s": short(copy / 1e9), "rounds_gb_per_s": rounds });
    values.insert("copy".to_owned(), value);
    for (sweep, rounds) in sweeps.iter().zip(&swept) {
        let (name, line, value) = sweep.sum_up(rounds, &copied);
        found.lines.push((name.to_owned(), line));
        values.insert(name.to_owned(), value);
    }
    found.values = values.into();
    Ok(found)
}

/// Frames in device memory, and the work over them.
struct Sweep<'a> {
    setting: &'a Setting,
    work: &'a Work,
    memory: Arc<DeviceArena>,
    frames: DeviceAddress,
    lengths: DeviceAddress,
    count: u32,
    stride: u32,
    laps: u32,
    blocks: u32,
}

impl<'a> Sweep<'a> {
    fn new(setting: &'a Setting, work: &'a Work) -> Result<Self, String> {
        let recipe = Recipe {
            kind: work.kind,
            length: work.frame_bytes,
            destination_port: work.kind.port(),
            ..Recipe::default()
        };
        let frame = recipe.build().bytes;
        if frame.len() as u32 > work.frame_bytes {
            return Err(format!("{}: a frame has {} bytes", work.name, frame.len()));
        }
        let stride = work.frame_bytes.next_multiple_of(16).max(64);
        let count = setting.size(work.frames, 96);
        let slots = u64::from(count) * u64::from(stride);
        let memory = setting
            .cuda
            .device_memory(slots + u64::from(count) * 4 + 4096);
        let memory = memory.map_err(words)?;
        let frames = memory.allocate(slots, 256).map_err(words)?.address;
        let lengths = memory.allocate(u64::from(count) * 4, 256).map_err(words)?;
        // In pieces: the whole would take as much of the host's memory.
        let mut slot = frame.clone();
        slot.resize(stride as usize, 0);
        let piece = slot.repeat(count.min(PIECE) as usize);
        let mut at = 0;
        while at < slots {
            let rest = (slots - at).min(piece.len() as u64);
            let bytes = piece.get(..rest as usize).unwrap_or(&piece);
            memory.write(frames.offset(at), bytes).map_err(words)?;
            at += rest;
        }
        let all = (frame.len() as u32).to_ne_bytes().repeat(count as usize);
        memory.write(lengths.address, &all).map_err(words)?;
        let most = setting.cuda.most_blocks(work.kernel, 1).map_err(words)?;
        Ok(Self {
            setting,
            work,
            memory,
            frames,
            lengths: lengths.address,
            count,
            stride,
            laps: setting.size(work.laps, 1),
            blocks: (count.div_ceil(ROW)).min(u32::try_from(most).unwrap_or(u32::MAX)),
        })
    }

    /// Frames a second, of one round.
    fn run(&self, limit: Limit) -> Result<f64, String> {
        let row = size_of::<SweepCounters>();
        let bytes = row * self.blocks as usize;
        let scene = Scene::new(
            self.setting,
            u64::from(self.blocks) * 256,
            bytes as u64 + 256,
        )?;
        let counters = scene.cut_on_device(bytes)?;
        let block = |steering| SweepParameters {
            header: SweepParameters::HEADER,
            steering,
            frames: self.frames,
            lengths: self.lengths,
            counters,
            frame_count: self.count,
            stride: self.stride,
            rows: ROWS,
            laps: self.laps,
            block_count: self.blocks,
            reserved: 0,
        };
        let keep = Arc::clone(&self.memory);
        // One slice does it all.
        let adjust = |slices: warpwire_gpu::executor::cuda::Slices| {
            slices.first_turns(1 << 30).device_memory(keep)
        };
        let launch = scene.launch(self.work.kernel, self.blocks, &[], block, adjust)?;
        join(launch, limit)?;
        let found = scene.words_on_device(counters, bytes / 8)?;
        let column = |offset: usize| {
            let rows = found.chunks(row / 8);
            rows.map(move |row| row.get(offset / 8).copied().unwrap_or(0))
        };
        let good: u64 = column(std::mem::offset_of!(SweepCounters, good)).sum();
        let want = u64::from(self.count) * u64::from(self.laps);
        if good != want {
            return Err(format!(
                "{}: {good} frames are good, not {want}",
                self.work.name
            ));
        }
        let started = column(std::mem::offset_of!(SweepCounters, started_ns)).min();
        let ended = column(std::mem::offset_of!(SweepCounters, ended_ns)).max();
        let took = ended.unwrap_or(0).saturating_sub(started.unwrap_or(0));
        Ok(want as f64 * 1e9 / took.max(1) as f64)
    }

    /// Medians, and the ratio to the copies of the same round.
    fn sum_up(&self, rounds: &[f64], copied: &[f64]) -> (&'static str, String, Value) {
        let bytes = f64::from(self.work.read_bytes);
        let ratios: Vec<f64> = rounds
            .iter()
            .zip(copied)
            .map(|(frames, copy)| frames * bytes / copy)
            .collect();
        let (frames, ratio) = (median(rounds), median(&ratios));
        let line = format!(
            "{} M frames/s, {} GB/s of frames: {} of what a copy moves",
            short(frames / 1e6),
            short(frames * bytes / 1e9),
            short(ratio)
        );
        let in_short = |values: &[f64], unit: f64| -> Vec<f64> {
            values.iter().map(|value| short(value / unit)).collect()
        };
        let value = json!({
            "kernel": self.work.kernel,
            "frame_bytes": self.work.frame_bytes,
            "frames": self.count,
            "laps": self.laps,
            "blocks": self.blocks,
            "mpps": short(frames / 1e6),
            "gb_per_s": short(frames * bytes / 1e9),
            "ratio_to_copy": short(ratio),
            "rounds_mpps": in_short(rounds, 1e6),
            "rounds_ratio": in_short(&ratios, 1.0),
        });
        (self.work.name, line, value)
    }
}

/// Copies on the device.
struct Copies {
    from: Arc<DeviceArena>,
    to: Arc<DeviceArena>,
    times: u32,
}

impl Copies {
    fn new(setting: &Setting) -> Result<Self, String> {
        let bytes = setting.size(256 << 20, 64 << 10);
        let copies = Self {
            from: setting.cuda.device_memory(bytes).map_err(words)?,
            to: setting.cuda.device_memory(bytes).map_err(words)?,
            times: setting.size(20, 2),
        };
        // The first one wakes things up.
        copies.run()?;
        Ok(copies)
    }

    /// Bytes a second that are read and written.
    fn run(&self) -> Result<f64, String> {
        let took = self.from.copy_to(&self.to, self.times).map_err(words)?;
        let bytes = self.from.whole().length as f64 * 2.0 * f64::from(self.times);
        Ok(bytes / took.max(Duration::from_nanos(1)).as_secs_f64())
    }
}

const ROUNDS: usize = 5;
/// Rows of a turn: a look at the stop word, which lies in host memory, once in 8192 frames.
const ROWS: u32 = 256;
/// Frames that are written at a time.
const PIECE: u32 = 1 << 14;
