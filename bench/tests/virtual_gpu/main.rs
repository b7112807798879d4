//! The PTX that ships, on the virtual GPU, against the same kernels on the CPU: over soft NICs in
//! virtual time, the same frames and the same counts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use warpwire::pipelines::runtime::{Generation, Measurement, Plain, Settings};
use warpwire::pipelines::{Ended, Kit, PipelineFile, Report, Runtime};
use warpwire_gpu::executor::{Backend, Placement, Time};
use warpwire_nic::Nic;
use warpwire_nic::soft::{Clock, Fabric, FabricConfig};
use warpwire_virtual::{Class, Direction, Module, Space, VirtualGpu};

fn scalar(seed: u64) -> Settings {
    Settings {
        backend: Backend::Scalar,
        time: Time::Virtual { seed },
        ..Settings::default()
    }
}

fn on(gpu: &Arc<VirtualGpu>, seed: u64) -> Settings {
    Settings {
        backend: Backend::Virtual { seed },
        program: Some(gpu.clone()),
        time: Time::Virtual { seed },
        ..Settings::default()
    }
}

/// The committed PTX. It may be older than the sources as long as parameter blocks have the same
/// layout: a kernel with another one ends at once, and the counts say so.
fn gpu() -> Arc<VirtualGpu> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/kernels/warpwire.ptx");
    let text = std::fs::read_to_string(path).expect("is committed");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(VirtualGpu::new(module))
}

/// What was sent by the one side and counted by the other.
#[derive(PartialEq, Eq, Debug)]
struct Counted {
    sent: u64,
    sent_back: u64,
    received: u64,
    malformed: u64,
    kinds: Vec<u64>,
}

/// Generates frames of three kinds, and lets a plain kernel receive them at the other end of a
/// cable.
fn generate_and_receive(settings: &Settings, kernel: Plain, frames: u64) -> Counted {
    let text = format!(
        "[nic.gen]\nopen = \"soft\"\n[[generate]]\nfrom = \"gen\"\ncount = {frames}\n\
         [[generate.frame]]\nkind = \"udp\"\nweight = 3\nflows = 7\n\
         [[generate.frame]]\nkind = \"ping\"\nflows = 3\nlength = 99\n\
         [[generate.frame]]\nkind = \"roce\"\n"
    );
    let file = PipelineFile::parse("generate.toml", &text, Kit::built_in().catalogue());
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    let executor = settings.executor().build().expect("threads can be had");
    let clock = Clock::Executor(executor.clock());
    let fabric = Fabric::new(FabricConfig::default(), clock);
    let open = |words: &str| fabric.open(&words.parse().expect("words")).expect("opens");
    let (mut one, other) = (open("soft:one"), open("soft:other"));
    fabric.cable(one.port(), other.port());
    for service in one.take_services() {
        executor.add_service(service, Placement::Any).expect("runs");
    }
    let counting = Measurement::start(&executor, kernel, &other, 0, Placement::Any);
    let counting = counting.expect("starts");
    let generator = file.generators.first().expect("one");
    let sending = Generation::start(&executor, generator, &one, Placement::Any);
    let sending = sending.expect("starts");
    for _ in 0..200 {
        executor.advance(Duration::from_millis(1)).expect("goes on");
        if sending.is_finished() && counting.counters().received >= frames {
            break;
        }
    }
    sending.finish(Duration::from_secs(5)).expect("ends");
    let counters = counting.finish(Duration::from_secs(5)).expect("ends");
    let (sent, sent_back) = (one.counters().tx_frames, other.counters().tx_frames);
    executor.shutdown(Duration::from_secs(5)).expect("ends");
    Counted {
        sent,
        sent_back,
        received: counters.received,
        malformed: counters.malformed,
        kinds: counters.kinds.to_vec(),
    }
}

#[test]
fn a_generator_and_a_receiver_do_as_on_the_cpu() {
    let gpu = gpu();
    for seed in 0..16 {
        let frames = 300 + 7 * seed;
        for kernel in [Plain::ReceiveCount, Plain::MacSwap] {
            let cpu = generate_and_receive(&scalar(seed), kernel, frames);
            assert_eq!(cpu.received, frames, "{kernel:?}, seed {seed}");
            let found = generate_and_receive(&on(&gpu, seed), kernel, frames);
            assert_eq!(found, cpu, "{kernel:?}, seed {seed}");
        }
    }
    let counts = gpu.counts();
    for (name, warps) in [
        ("transmit_mlx5", 32),
        ("receive_count_mlx5", 16),
        ("mac_swap_mlx5", 16),
    ] {
        let kernel = &counts[name];
        assert_eq!(kernel.warps, warps, "{name}");
        assert!(kernel.classes[&Class::Arithmetic].lanes > 0, "{name}");
    }
    let loads = counts["receive_count_mlx5"].traffic[&(Space::Global, Direction::Load)];
    assert!(loads.sectors > 0, "{loads:?}");
}

/// Runs a pipeline file to its end.
fn run(text: &str, settings: Settings) -> Report {
    let kit = Kit::built_in();
    let file = PipelineFile::parse("test.toml", text, kit.catalogue());
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    let mut runtime = Runtime::start_with(&file, &kit, settings).expect("starts");
    let stop = AtomicBool::new(false);
    let ended = runtime.run(Some(Duration::from_secs(20)), &stop, |_| {});
    assert_eq!(ended, Ended::Exhausted);
    runtime.finish().whole().expect("ends")
}

#[test]
fn a_pipeline_of_stages_does_as_on_the_cpu() {
    let gpu = gpu();
    for seed in 0..4 {
        let text = format!(
            "seed = {seed}\n\
             [nic.gen]\nopen = \"soft\"\npeer = \"end\"\n\
             [nic.end]\nopen = \"soft\"\npeer = \"gen\"\n\
             [[generate]]\nfrom = \"gen\"\ncount = 200\nrate = 200000\n\
             [[generate.frame]]\nkind = \"udp\"\nweight = 3\nflows = 7\n\
             [[generate.frame]]\nkind = \"ping\"\nflows = 3\nlength = 99\n\
             [[generate.frame]]\nkind = \"roce\"\n\
             [[receive]]\nfrom = \"end\"\n\
             [[receive.stage]]\ndo = \"verify\"\n\
             [[receive.stage]]\ndo = \"drop\"\n"
        );
        let cpu = run(&text, scalar(seed));
        assert_eq!(cpu.receives[0].dropped["dropped"], 200, "{cpu:?}");
        let found = run(&text, on(&gpu, seed));
        assert_eq!(
            found.receives[0].dropped, cpu.receives[0].dropped,
            "seed {seed}"
        );
    }
    assert!(gpu.counts().contains_key("pipeline_mlx5"));
}
