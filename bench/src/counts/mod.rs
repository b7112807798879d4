//! Counts: what kernels do a packet, counted on the virtual GPU. Never a measurement.
//!
//! Each kernel runs in launches of few and of many turns, over warm queues, with a batch of
//! [`BATCH`] frames every turn and a NIC that is done with everything in between. What the launches
//! of many turns did more, divided by the packets that they did more, is the work a packet in
//! steady state: what a launch costs by itself cancels out.

mod messages;
mod program;
mod runs;
pub mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use warpwire_virtual::{Class, Direction, KernelCounts, Space, VirtualGpu};

use crate::machine::Machine;

/// What the figures mean, in sentences.
pub const DEFINITIONS: [(&str, &str); 7] = [
    (
        "lane_instructions",
        "PTX instructions that lanes executed, divided by packets: \"instructions per \
         lane-packet\". A lane whose predicate is false executes nothing",
    ),
    (
        "warp_instructions",
        "PTX instructions that warps issued, divided by packets: one for all lanes that stand at \
         it together, whatever their number",
    ),
    (
        "sectors",
        "32-byte sectors of global memory (loads, stores and atomics; constant tables of the \
         module too) that accesses of warps touched, divided by packets: each once an access, \
         whatever the number of lanes in it; nothing is cached between accesses",
    ),
    (
        "local_sectors",
        "the same for local memory, four bytes of all lanes side by side; spills of registers are \
         the assembler's and not among them",
    ),
    (
        "packet",
        "a frame that was received, or sent where nothing is received; its length is that in \
         memory, without the FCS",
    ),
    (
        "message",
        "what a packet is in rows of transport kernels, whose bytes are the message's: a WRITE of \
         one packet, 64 of them every turn. The end that asks reads the request, writes the packet \
         and its CRC, and tells of its completion; the one that is asked checks the packet, places \
         its payload, and acknowledges once a turn. Both receive what the other sends",
    ),
    (
        "steady state",
        "launches of 6 turns less launches of 2 turns over warm queues, 32 frames every turn, the \
         NIC done with everything between launches",
    ),
];

/// Frames of a batch, and of a turn.
pub const BATCH: u32 = 32;
/// Messages of a turn of the transport's kernels.
pub const MESSAGE_BATCH: u32 = 64;
/// Bytes of the messages that those are counted for.
pub const MESSAGES: [u32; 2] = [8, 4096];
/// Lengths of frames.
pub const LENGTHS: [u32; 3] = [64, 512, 1500];
/// The kernel that has a target, its frames, and at most how many lane-instructions and sectors it
/// may take a packet.
pub const TARGET: (&str, u32, [f64; 2]) = ("receive_count_mlx5", 64, [250.0, 6.0]);

/// What a kernel did a packet.
#[derive(Clone, Debug)]
pub struct Row {
    /// The entry point.
    pub kernel: &'static str,
    /// What it ran over.
    pub over: &'static str,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Packets that the figures were divided by.
    pub packets: u64,
    /// Of which kind, lane-instructions.
    pub classes: BTreeMap<Class, f64>,
    /// All lane-instructions.
    pub lanes: f64,
    /// All warp-instructions.
    pub warps: f64,
    /// Sectors by space and direction.
    pub sectors: BTreeMap<(Space, Direction), f64>,
    /// Bytes that lanes asked for, by space and direction.
    pub bytes: BTreeMap<(Space, Direction), f64>,
    /// By line of the PTX: function, instruction, and figures.
    pub lines: Vec<Line>,
}

/// One line of the PTX, a packet.
#[derive(Clone, Debug)]
pub struct Line {
    /// The line, from 1.
    pub line: u32,
    /// The function that it belongs to.
    pub function: String,
    /// Lane-instructions.
    pub lanes: f64,
    /// Warp-instructions.
    pub warps: f64,
    /// Sectors of global memory and tables.
    pub sectors: f64,
    /// Sectors of local memory.
    pub local_sectors: f64,
}

impl Row {
    fn of(subject: &runs::Subject, frame_bytes: u32, spans: &Spans) -> Self {
        let packets = spans.packets as f64;
        let share = |many: u64, few: u64| (many as f64 - few as f64) / packets;
        let Spans { few, many, .. } = spans;
        let class = |class: &Class| {
            let of = |counts: &KernelCounts| counts.classes.get(class).map_or(0, |one| one.lanes);
            (*class, share(of(many), of(few)))
        };
        let traffic = |of: fn(&warpwire_virtual::Traffic) -> u64| {
            let figure = |counts: &KernelCounts, kind| counts.traffic.get(kind).map_or(0, of);
            let kinds = many.traffic.keys();
            let shares = kinds.map(|kind| (*kind, share(figure(many, kind), figure(few, kind))));
            shares.filter(|(_, value)| *value > 0.0).collect()
        };
        let line = |(place, many): (&(u32, u32), &warpwire_virtual::LineCount)| {
            let few = few.lines.get(place);
            let of = |value: fn(&warpwire_virtual::LineCount) -> u64| {
                share(value(many), few.map_or(0, value))
            };
            Line {
                line: place.0,
                function: many.function.clone(),
                lanes: of(|line| line.count.lanes),
                warps: of(|line| line.count.warps),
                sectors: of(|line| line.sectors),
                local_sectors: of(|line| line.local_sectors),
            }
        };
        Self {
            kernel: subject.kernel,
            over: subject.over,
            frame_bytes,
            packets: spans.packets,
            classes: Class::ALL.iter().map(class).collect(),
            lanes: share(many.total().lanes, few.total().lanes),
            warps: share(many.total().warps, few.total().warps),
            sectors: traffic(|traffic| traffic.sectors),
            bytes: traffic(|traffic| traffic.bytes),
            lines: many.lines.iter().map(line).collect(),
        }
    }

    /// Sectors of global memory and of the module's tables, both ways.
    pub fn global_sectors(&self) -> f64 {
        let sectors = self.sectors.iter();
        let global = sectors.filter(|((space, _), _)| *space != Space::Local);
        global.map(|(_, value)| value).sum()
    }

    /// Sectors of local memory, both ways.
    pub fn local_sectors(&self) -> f64 {
        let sectors = self.sectors.iter();
        let local = sectors.filter(|((space, _), _)| *space == Space::Local);
        // An empty sum of floats is -0.
        local.map(|(_, value)| value).sum::<f64>() + 0.0
    }
}

/// What two rows of launches did, and how many packets more the second did.
struct Spans {
    few: KernelCounts,
    many: KernelCounts,
    packets: u64,
}

/// Counts every kernel over every format, for every length.
///
/// # Errors
/// What kept a kernel from its steady state.
pub fn all(gpu: &Arc<VirtualGpu>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (subjects, lengths) in [
        (runs::subjects(), &LENGTHS[..]),
        (messages::subjects(), &MESSAGES),
    ] {
        for subject in subjects {
            for length in lengths {
                rows.push(one(gpu, &subject, *length)?);
            }
        }
    }
    Ok(rows)
}

/// Counts the kernels over the queues of a NIC for the shortest frames: those whose parts are told.
///
/// # Errors
/// As [`all`].
pub fn for_parts(gpu: &Arc<VirtualGpu>) -> Result<Vec<Row>, String> {
    let subjects = runs::subjects();
    let chosen = subjects.iter().filter(|subject| subject.over == "mlx5");
    chosen
        .map(|subject| one(gpu, subject, LENGTHS[0]))
        .collect()
}

/// Counts one kernel over one kind of queues, for one length of frames.
///
/// # Errors
/// As [`all`]; and if there is no such kernel over such queues.
pub fn of(gpu: &Arc<VirtualGpu>, kernel: &str, over: &str, length: u32) -> Result<Row, String> {
    let mut subjects = runs::subjects();
    subjects.extend(messages::subjects());
    let mut subjects = subjects.iter();
    let found = subjects.find(|subject| (subject.kernel, subject.over) == (kernel, over));
    let subject = found.ok_or_else(|| format!("{kernel} over {over} is not counted"))?;
    one(gpu, subject, length)
}

fn one(gpu: &Arc<VirtualGpu>, subject: &runs::Subject, length: u32) -> Result<Row, String> {
    let machine = Machine::on(Arc::clone(gpu) as Arc<_>);
    let counts = || {
        let all = gpu.counts();
        all.get(subject.kernel).cloned().unwrap_or_default()
    };
    let spans = (subject.run)(subject.kernel, &machine, length, &counts);
    let spans = spans.map_err(|error| {
        format!(
            "{} over {}, {length} bytes: {error}",
            subject.kernel, subject.over
        )
    })?;
    Ok(Row::of(subject, length, &spans))
}
