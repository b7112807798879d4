//! Receive and transmit rates by blocks and frame size.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::{
    MeasureCounters, MeasureParameters, MeasurePort, TEMPLATE_BYTES, Template, TransmitCounters,
    TransmitParameters, TransmitPort,
};
use warpwire_gpu::executor::cuda::{Launch, Report, Slices};
use warpwire_pipelines::traffic::{Frame, Recipe};
use warpwire_ring::{DeviceAddress, Direction, QueueBlock};

use crate::figures::short;
use crate::machine::processors;
use crate::part::{Found, Limit, Outcome};
use crate::rings::Rings;
use crate::scene::{Scene, stop, words};
use crate::setting::Setting;

/// What passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) direction: Direction,
    pub(crate) frame_bytes: u32,
    pub(crate) blocks: u32,
    /// Where blocks count: on the device, or where the host can look while they run.
    pub(crate) counts_on_device: bool,
}

/// One measured rate.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rate {
    direction: &'static str,
    frame_bytes: u32,
    blocks: u32,
    counters: &'static str,
    /// Millions of frames a second.
    mpps: f64,
    /// Of frame bytes, without preamble and gap.
    gbit_per_s: f64,
    slices: u64,
}

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let mut rates: Vec<Rate> = Vec::new();
    let mut failure = None;
    let window = setting.size(WINDOW, QUICK_WINDOW);
    for traffic in plan(setting)? {
        let passed = limit.check();
        let passed = passed.and_then(|()| run(setting, traffic, window, |slices| slices));
        match passed {
            Ok(passed) => rates.push(rate(traffic, &passed)),
            Err(why) => {
                failure = Some(format!("{traffic:?}: {why}"));
                break;
            }
        }
    }
    Ok(Found {
        lines: lines(&rates),
        values: json!({ "rates": rates, "peers": peers(u32::MAX) }),
        failure,
    })
}

/// Everything that is to be measured, as far as the device can run it.
fn plan(setting: &Setting) -> Result<Vec<Traffic>, String> {
    let mut plan = Vec::new();
    for direction in [Direction::Receive, Direction::Transmit] {
        let most = setting.cuda.most_blocks(kernel(direction), 1);
        let most = most.map_err(words)?;
        for (frame_bytes, counts_on_device) in
            [(64, false), (64, true), (512, false), (1500, false)]
        {
            let blocks = setting.size(BLOCKS, QUICK_BLOCKS).iter();
            let blocks = blocks.filter(|blocks| u64::from(**blocks) <= most);
            plan.extend(blocks.map(|&blocks| Traffic {
                direction,
                frame_bytes,
                blocks,
                counts_on_device,
            }));
        }
    }
    Ok(plan)
}

fn kernel(direction: Direction) -> &'static str {
    match direction {
        Direction::Receive => "receive_count_memif_server",
        Direction::Transmit => "transmit_memif_client",
    }
}

fn rate(traffic: Traffic, passed: &Passed) -> Rate {
    let mpps = passed.frames as f64 / passed.window.as_secs_f64() / 1e6;
    Rate {
        direction: match traffic.direction {
            Direction::Receive => "receive",
            Direction::Transmit => "transmit",
        },
        frame_bytes: traffic.frame_bytes,
        blocks: traffic.blocks,
        counters: match traffic.counts_on_device {
            true => "device",
            false => "mapped",
        },
        mpps: short(mpps),
        gbit_per_s: short(mpps * f64::from(traffic.frame_bytes) * 8.0 / 1000.0),
        slices: passed.report.slices,
    }
}

/// One line for each direction, size and place of counters: the rate of one block, and the best.
fn lines(rates: &[Rate]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let kind = |rate: &Rate| (rate.direction, rate.frame_bytes, rate.counters);
    for group in rates.chunk_by(|a, b| kind(a) == kind(b)) {
        let best = group.iter().max_by(|a, b| a.mpps.total_cmp(&b.mpps));
        if let (Some(first), Some(best)) = (group.first(), best) {
            let place = match first.counters {
                "device" => ", counters on the device",
                _ => "",
            };
            lines.push((
                format!("{}, {} bytes{place}", first.direction, first.frame_bytes),
                format!(
                    "{} Mpps with {} block, at most {} Mpps ({} Gbit/s) with {}",
                    first.mpps, first.blocks, best.mpps, best.gbit_per_s, best.blocks
                ),
            ));
        }
    }
    lines
}

/// What passed in a window of time.
pub(crate) struct Passed {
    pub(crate) frames: u64,
    pub(crate) window: Duration,
    pub(crate) report: Report,
}

/// Lets frames pass for a while.
pub(crate) fn run(
    setting: &Setting,
    traffic: Traffic,
    window: Duration,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Passed, String> {
    let recipe = Recipe {
        length: traffic.frame_bytes,
        ..Recipe::default()
    };
    let (frame, blocks) = (recipe.build(), traffic.blocks);
    let bytes = u64::from(blocks) * A_BLOCK + 2 * size_of::<Template>() as u64;
    let scene = Scene::new(setting, bytes, bytes)?;
    let (rings, running) = match traffic.direction {
        Direction::Receive => {
            let rings = Rings::to_receive(setting, blocks, &frame.bytes)?;
            let running = receive(&scene, &rings, traffic, adjust)?;
            (rings, running)
        }
        Direction::Transmit => {
            let rings = Rings::to_send(setting, blocks, traffic.frame_bytes)?;
            let running = send(&scene, &rings, traffic, &frame, adjust)?;
            (rings, running)
        }
    };
    let over = AtomicBool::new(false);
    let peers = peers(blocks);
    let counts = running.counts;
    let (passed, report) = thread::scope(|scope| {
        for peer in 0..peers {
            let (rings, over) = (&rings, &over);
            scope.spawn(move || rings.serve(peer, peers, over, !setting.on_hardware));
        }
        let passed = watch(&scene, &counts, window);
        let report = stop(running.launch);
        over.store(true, Ordering::Relaxed);
        (passed, report)
    });
    let (report, (frames, window)) = (report?, passed?);
    let counted = counts.total(&scene, counts.frames)?;
    let refused = match counts.refused {
        Some(offset) => counts.total(&scene, offset)?,
        None => 0,
    };
    let passed = rings.frames()?;
    if passed != counted || refused > 0 {
        return Err(format!(
            "{passed} frames passed the queues, {counted} were counted, {refused} refused"
        ));
    }
    match frames {
        0 => Err("no frame passed".to_owned()),
        _ => Ok(Passed {
            frames,
            window,
            report,
        }),
    }
}

/// A kernel that runs, and where its blocks count.
struct Running {
    launch: Launch,
    counts: Counts,
}

/// Counters of blocks, one behind the other.
#[derive(Clone, Copy)]
struct Counts {
    first: DeviceAddress,
    /// Bytes of a block's.
    stride: usize,
    blocks: u32,
    on_device: bool,
    /// Where the counter of frames lies in a block's; and that of frames that the parser refused.
    frames: usize,
    refused: Option<usize>,
}

impl Counts {
    fn cut(
        scene: &Scene<'_>,
        traffic: Traffic,
        stride: usize,
        frames: usize,
    ) -> Result<Self, String> {
        let bytes = stride * traffic.blocks as usize;
        Ok(Self {
            first: match traffic.counts_on_device {
                true => scene.cut_on_device(bytes)?,
                false => scene.cut(bytes)?,
            },
            stride,
            blocks: traffic.blocks,
            on_device: traffic.counts_on_device,
            frames,
            refused: None,
        })
    }

    /// A block's.
    fn of(&self, block: u32) -> DeviceAddress {
        self.first.offset(u64::from(block) * self.stride as u64)
    }

    /// One counter of all blocks together.
    fn total(&self, scene: &Scene<'_>, offset: usize) -> Result<u64, String> {
        if self.on_device {
            let count = self.stride / 8 * self.blocks as usize;
            let words = scene.words_on_device(self.first, count)?;
            let own = words.iter().skip(offset / 8).step_by(self.stride / 8);
            return Ok(own.sum());
        }
        let mut total = 0;
        for block in 0..self.blocks {
            let word = scene.mapped.word(self.of(block).offset(offset as u64));
            total += word.map_err(words)?.load(Ordering::Relaxed);
        }
        Ok(total)
    }
}

fn receive(
    scene: &Scene<'_>,
    rings: &Rings,
    traffic: Traffic,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Running, String> {
    let received = offset_of!(MeasureCounters, received);
    let counts = Counts {
        refused: Some(offset_of!(MeasureCounters, malformed)),
        ..Counts::cut(scene, traffic, size_of::<MeasureCounters>(), received)?
    };
    let port = |(queue, block): (&QueueBlock, u32)| MeasurePort {
        receive: *queue,
        transmit: *queue,
        counters: counts.of(block),
    };
    let ports: Vec<_> = rings.queues().iter().zip(0..).map(port).collect();
    let ports = scene.table(&ports)?;
    let block = |steering| MeasureParameters {
        header: MeasureParameters::HEADER,
        steering,
        ports,
        port_count: traffic.blocks,
        batch: 0,
    };
    let name = kernel(traffic.direction);
    let launch = scene.launch(name, traffic.blocks, &rings.memory(), block, adjust)?;
    Ok(Running { launch, counts })
}

fn send(
    scene: &Scene<'_>,
    rings: &Rings,
    traffic: Traffic,
    frame: &Frame,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Running, String> {
    let sent = offset_of!(TransmitCounters, sent);
    let counts = Counts::cut(scene, traffic, size_of::<TransmitCounters>(), sent)?;
    let port = |(queue, block): (&QueueBlock, u32)| TransmitPort {
        transmit: *queue,
        counters: counts.of(block),
    };
    let ports: Vec<_> = rings.queues().iter().zip(0..).map(port).collect();
    let mut bytes = [0; TEMPLATE_BYTES];
    for (to, from) in bytes.iter_mut().zip(&frame.bytes) {
        *to = *from;
    }
    let template = Template {
        length: frame.bytes.len() as u32,
        flows: 16,
        vary_at: frame.vary_at,
        checksum_at: frame.checksum_at,
        reserved: [0; 28],
        bytes,
    };
    let (templates, ports) = (scene.table(&[template])?, scene.table(&ports)?);
    let block = |steering| TransmitParameters {
        header: TransmitParameters::HEADER,
        steering,
        ports,
        port_count: traffic.blocks,
        template_count: 1,
        templates,
        frames: 0,
        rate: 0,
        batch: 64,
        reserved: 0,
    };
    let name = kernel(traffic.direction);
    let launch = scene.launch(name, traffic.blocks, &rings.memory(), block, adjust)?;
    Ok(Running { launch, counts })
}

/// Frames of all blocks in the window, after a while to get going.
fn watch(scene: &Scene<'_>, counts: &Counts, window: Duration) -> Result<(u64, Duration), String> {
    let total = || counts.total(scene, counts.frames);
    let begun = Instant::now();
    while total()? == 0 && begun.elapsed() < START {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(window / 4);
    let (before, since) = (total()?, Instant::now());
    loop {
        thread::sleep(window);
        let (after, window) = (total()?, since.elapsed());
        // A device that is that slow has a longer window.
        if after > before || window > START {
            return Ok((after - before, window));
        }
    }
}

/// Host threads that play the peer, for so many rings.
fn peers(rings: u32) -> usize {
    // One processor is for the thread that launches slices.
    let free = processors().saturating_sub(1).clamp(1, MOST_PEERS);
    free.min(rings as usize)
}

const BLOCKS: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128];
const QUICK_BLOCKS: &[u32] = &[1, 2];
const WINDOW: Duration = Duration::from_millis(250);
const QUICK_WINDOW: Duration = Duration::from_millis(60);
/// How long the first frame may take.
const START: Duration = Duration::from_secs(5);
const MOST_PEERS: usize = 4;
/// Bytes of a block: its port and its counters, each on lines of its own.
const A_BLOCK: u64 = 2048;
