//! The pipeline kernels, over the programs and frames that fuzzing found.

use std::fs;
use std::path::{Path, PathBuf};

use warpwire_core::block::{
    Block, BlockCounters, Parameters as _, PipelineParameters, Port, Steering,
};
use warpwire_core::kernels::entries;
use warpwire_core::program::{MAX_NICS, MAX_PORTS};
use warpwire_core::spec::Span;
use warpwire_core::stage::StageSet;
use warpwire_core::stages::BuiltIn;
use warpwire_device::KernelRow;
use warpwire_fuzz::queues::stages::{self, WIRES};
use warpwire_ring::DeviceAddress;

use super::blocks::{Wrong, refuse};
use super::seen::Seen;
use super::{Case, Machine};
use crate::stage::Stage;
use crate::wires::{Client, Memif, Mlx5, Server, Wire, Xdp};

/// The comparisons of an entry point, if it is a pipeline kernel.
pub(super) fn cases(name: &str, corpus: &Path) -> Vec<Case> {
    let Some(row) = entries::pipelines().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    let wires = WIRES.iter().filter(|(kernel, _)| *kernel == row.name);
    let case = |&(kernel, special): &(&'static str, &'static str)| {
        let over = match (kernel, special) {
            ("pipeline_memif_client", _) => "memif client",
            ("pipeline_memif_server", _) => "memif server",
            ("pipeline_xdp", _) => "xdp",
            (_, "scattered") => "mlx5 scattered",
            _ => "mlx5",
        };
        let corpus = corpus.to_owned();
        Case::new(kernel, over, move |machine, seed| {
            check(row, (kernel, special), &corpus, machine, seed)
        })
    };
    wires.map(case).collect()
}

/// Every program has one seed of [`SEEDS`].
fn check(
    row: &KernelRow,
    wire: (&str, &str),
    corpus: &Path,
    machine: &Machine,
    seed: u64,
) -> Result<u64, String> {
    match wire.0 {
        "pipeline_memif_client" => wrong_blocks::<Memif<Client>>(row, machine, seed)?,
        "pipeline_memif_server" => wrong_blocks::<Memif<Server>>(row, machine, seed)?,
        "pipeline_xdp" => wrong_blocks::<Xdp>(row, machine, seed)?,
        _ => wrong_blocks::<Mlx5<1>>(row, machine, seed)?,
    }
    let (cpu, other) = (Machine::SCALAR.ready(seed)?, machine.ready(seed)?);
    let mut frames = 0;
    for file in programs(corpus)?
        .iter()
        .skip((seed % SEEDS) as usize)
        .step_by(SEEDS as usize)
    {
        let data = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let one = stages::outcome(wire, &data, &|job| cpu.run(job));
        let many = stages::outcome(wire, &data, &|job| other.run(job));
        let (Some(one), Some(many)) = (one, many) else {
            continue;
        };
        frames += one.received.frames;
        let name = file.file_name().unwrap_or_default().display();
        let compared = seen(many).compare(&seen(one));
        compared.map_err(|what| format!("program {name}: {what}"))?;
    }
    Ok(frames)
}

fn seen(outcome: stages::Seen) -> Seen {
    let mut seen = Seen::default();
    seen.sent("sent", outcome.sent);
    seen.fact("receive cursor", outcome.received);
    seen.fact("transmit cursor", outcome.transmitted);
    seen.counts("stage counter", outcome.counters);
    seen.counts("counter", outcome.counted);
    seen.fact("samples", outcome.samples);
    if outcome.transmitted.faults == 0 {
        seen.memory(&[&outcome.queues]);
    }
    seen
}

fn programs(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(wrong)?;
    let files: Result<Vec<_>, _> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut files = files.map_err(wrong)?;
    files.sort();
    Ok(files)
}

fn wrong_blocks<W: Wire>(row: &KernelRow, machine: &Machine, seed: u64) -> Result<(), String> {
    let wire = W::new(32, 0);
    let stage = Stage::beside(&wire);
    let block = Block {
        ports: stage.cut(size_of::<Port>()),
        counters: stage.cut(size_of::<BlockCounters>()),
        near: 1,
        far: 0,
        outputs: [Span::default(); MAX_NICS],
    };
    let no_ports = Block {
        ports: DeviceAddress::NULL,
        ..block
    };
    let many_ports = Block {
        near: MAX_PORTS as u32 + 1,
        ..block
    };
    let block = PipelineParameters {
        header: PipelineParameters::HEADER,
        steering: Steering::default(),
        stages: BuiltIn::LAYOUT,
        blocks: stage.place([block, no_ports, many_ports]),
        block_count: 1,
        reserved: 0,
    };
    let ready = machine.ready(seed)?;
    refuse(&ready, row, &stage, block, |block| &mut block.header, WRONG)
}

const WRONG: &[Wrong<PipelineParameters>] = &[
    ("other stages", |block| block.stages ^= 1),
    ("a count of no blocks", |block| block.block_count = 0),
    ("a block without ports", |block| {
        block.blocks = nth(block, 1)
    }),
    ("a block of many ports", |block| {
        block.blocks = nth(block, 2)
    }),
];

fn nth(parameters: &PipelineParameters, place: u64) -> DeviceAddress {
    parameters.blocks.offset(place * size_of::<Block>() as u64)
}

const SEEDS: u64 = 16;
