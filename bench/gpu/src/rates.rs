//! Receive and transmit rates by blocks and frame size.

use std::mem::offset_of;
use std::sync::Arc;
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
use warpwire_gpu::Arena;
use warpwire_gpu::executor::cuda::{Launch, Report, Slices};
use warpwire_pipelines::traffic::Recipe;
use warpwire_ring::{DeviceAddress, Direction};

use crate::figures::short;
use crate::machine::processors;
use crate::part::{Found, Limit, Outcome};
use crate::rings::Rings;
use crate::scene::{Scene, stop, words};
use crate::setting::Setting;

/// One measured rate.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rate {
    direction: &'static str,
    frame_bytes: u32,
    blocks: u32,
    /// Millions of frames a second.
    mpps: f64,
    /// Of frame bytes, without preamble and gap.
    gbit_per_s: f64,
    slices: u64,
}

pub(crate) fn measure(setting: &Setting, limit: Limit) -> Outcome {
    let mut rates: Vec<Rate> = Vec::new();
    let mut failure = None;
    'all: for (direction, kernel) in [
        (Direction::Receive, "receive_count_memif_server"),
        (Direction::Transmit, "transmit_memif_client"),
    ] {
        let most = setting.cuda.most_blocks(kernel, 1).map_err(words)?;
        for frame_bytes in [64, 512, 1500] {
            for &blocks in setting.size(BLOCKS, QUICK_BLOCKS) {
                if u64::from(blocks) > most {
                    break;
                }
                let found = limit.check().and_then(|()| {
                    let window = setting.size(WINDOW, QUICK_WINDOW);
                    run(setting, direction, frame_bytes, blocks, window, |slices| {
                        slices
                    })
                });
                match found {
                    Ok(found) => rates.push(rate(direction, frame_bytes, blocks, &found)),
                    Err(why) => {
                        let what = format!("{kernel}, {frame_bytes} bytes, {blocks} blocks: {why}");
                        failure = Some(what);
                        break 'all;
                    }
                }
            }
        }
    }
    Ok(Found {
        lines: lines(&rates),
        values: json!({ "rates": rates, "peers": peers(u32::MAX) }),
        failure,
    })
}

fn rate(direction: Direction, frame_bytes: u32, blocks: u32, found: &Passed) -> Rate {
    let mpps = found.frames as f64 / found.window.as_secs_f64() / 1e6;
    Rate {
        direction: match direction {
            Direction::Receive => "receive",
            Direction::Transmit => "transmit",
        },
        frame_bytes,
        blocks,
        mpps: short(mpps),
        gbit_per_s: short(mpps * f64::from(frame_bytes) * 8.0 / 1000.0),
        slices: found.report.slices,
    }
}

/// One line for each direction and size: the rate of one block, and the best.
fn lines(rates: &[Rate]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let groups =
        rates.chunk_by(|a, b| (a.direction, a.frame_bytes) == (b.direction, b.frame_bytes));
    for group in groups {
        let best = group.iter().max_by(|a, b| a.mpps.total_cmp(&b.mpps));
        if let (Some(first), Some(best)) = (group.first(), best) {
            lines.push((
                format!("{}, {} bytes", first.direction, first.frame_bytes),
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
    direction: Direction,
    frame_bytes: u32,
    blocks: u32,
    window: Duration,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Passed, String> {
    let recipe = Recipe {
        length: frame_bytes,
        ..Recipe::default()
    };
    let frame = recipe.build();
    let scene = Scene::new(setting, u64::from(blocks) * 2048, 0)?;
    let rings = match direction {
        Direction::Receive => Rings::to_receive(setting, blocks, &frame.bytes)?,
        Direction::Transmit => Rings::to_send(setting, blocks, frame_bytes)?,
    };
    let launch = match direction {
        Direction::Receive => receive(&scene, &rings, adjust)?,
        Direction::Transmit => send(&scene, &rings, &frame, adjust)?,
    };
    let over = AtomicBool::new(false);
    let peers = peers(blocks);
    let counters = launch.counters;
    let (passed, report) = thread::scope(|scope| {
        for peer in 0..peers {
            let (rings, over) = (&rings, &over);
            scope.spawn(move || rings.serve(peer, peers, over, !setting.on_hardware));
        }
        let passed = watch(&scene.mapped, &counters, window);
        let report = stop(launch.launch);
        over.store(true, Ordering::Relaxed);
        (passed, report)
    });
    let (report, (frames, window)) = (report?, passed?);
    let counted = total(&scene.mapped, &counters)?;
    let passed = rings.frames()?;
    let refused = refused(&scene.mapped, direction, &counters)?;
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

/// A kernel that runs, and where each block counts its frames.
struct Running {
    launch: Launch,
    counters: Vec<DeviceAddress>,
}

fn receive(
    scene: &Scene<'_>,
    rings: &Rings,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Running, String> {
    let (mut ports, mut counters) = (Vec::new(), Vec::new());
    for queue in rings.queues() {
        let own = scene.cut(size_of::<MeasureCounters>())?;
        counters.push(own.offset(offset_of!(MeasureCounters, received) as u64));
        ports.push(MeasurePort {
            receive: *queue,
            transmit: *queue,
            counters: own,
        });
    }
    let blocks = ports.len() as u32;
    let ports = scene.place_all(&ports)?;
    let block = |steering| MeasureParameters {
        header: MeasureParameters::HEADER,
        steering,
        ports,
        port_count: blocks,
        batch: 0,
    };
    let kernel = "receive_count_memif_server";
    let launch = scene.launch(kernel, blocks, &rings.memory(), block, adjust)?;
    Ok(Running { launch, counters })
}

fn send(
    scene: &Scene<'_>,
    rings: &Rings,
    frame: &warpwire_pipelines::traffic::Frame,
    adjust: impl FnOnce(Slices) -> Slices,
) -> Result<Running, String> {
    let (mut ports, mut counters) = (Vec::new(), Vec::new());
    for queue in rings.queues() {
        let own = scene.cut(size_of::<TransmitCounters>())?;
        counters.push(own.offset(offset_of!(TransmitCounters, sent) as u64));
        ports.push(TransmitPort {
            transmit: *queue,
            counters: own,
        });
    }
    let mut bytes = [0; TEMPLATE_BYTES];
    for (to, from) in bytes.iter_mut().zip(&frame.bytes) {
        *to = *from;
    }
    let templates = scene.place(Template {
        length: frame.bytes.len() as u32,
        flows: 16,
        vary_at: frame.vary_at,
        checksum_at: frame.checksum_at,
        reserved: [0; 28],
        bytes,
    })?;
    let blocks = ports.len() as u32;
    let ports = scene.place_all(&ports)?;
    let block = |steering| TransmitParameters {
        header: TransmitParameters::HEADER,
        steering,
        ports,
        port_count: blocks,
        template_count: 1,
        templates,
        frames: 0,
        rate: 0,
        batch: 64,
        reserved: 0,
    };
    let kernel = "transmit_memif_client";
    let launch = scene.launch(kernel, blocks, &rings.memory(), block, adjust)?;
    Ok(Running { launch, counters })
}

/// Frames of all blocks in the window, after a while to get going.
fn watch(
    arena: &Arc<Arena>,
    counters: &[DeviceAddress],
    window: Duration,
) -> Result<(u64, Duration), String> {
    let begun = Instant::now();
    while total(arena, counters)? == 0 && begun.elapsed() < START {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(window / 4);
    let (before, since) = (total(arena, counters)?, Instant::now());
    loop {
        thread::sleep(window);
        let (after, window) = (total(arena, counters)?, since.elapsed());
        // A device that is that slow has a longer window.
        if after > before || window > START {
            return Ok((after - before, window));
        }
    }
}

fn total(arena: &Arena, counters: &[DeviceAddress]) -> Result<u64, String> {
    let mut total = 0;
    for &counter in counters {
        let word = arena.word(counter).map_err(words)?;
        total += word.load(Ordering::Relaxed);
    }
    Ok(total)
}

/// Frames that the parser refused.
fn refused(arena: &Arena, direction: Direction, counters: &[DeviceAddress]) -> Result<u64, String> {
    let from = offset_of!(MeasureCounters, received) as u64;
    let to = offset_of!(MeasureCounters, malformed) as u64;
    match direction {
        Direction::Transmit => Ok(0),
        Direction::Receive => {
            let malformed = counters.iter().map(|one| one.offset(to - from));
            total(arena, &malformed.collect::<Vec<_>>())
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
