//! Virtual time: scripted arrivals, the same seed the same run, lanes equal to one.

use std::sync::Arc;
use std::time::Duration;

use warpwire_device::Simt;
use warpwire_gpu::executor::{Backend, Builder, Clock, Error, Grid, Placement, Time, Trace};
use warpwire_gpu::{Arena, CpuExecutor, Service};
use warpwire_ring::DeviceAddress;

use crate::scene::{ABORTED, PATIENCE, Scene, View, polite, row};
use crate::services::{Pong, ping};

const SEEDS: u64 = 64;

fn world(seed: u64, backend: Backend) -> Builder {
    CpuExecutor::builder()
        .clock(Time::Virtual { seed })
        .backend(backend)
}

/// Puts a value into word `1 + n` at its time, then counts it in word 0.
struct Script {
    arena: Arc<Arena>,
    words: DeviceAddress,
    clock: Clock,
    arrivals: Vec<(u64, u64)>,
    done: usize,
}

impl Script {
    fn new(scene: &Scene, clock: Clock, arrivals: &[(u64, u64)]) -> Self {
        Self {
            arena: Arc::clone(&scene.arena),
            words: scene.word_address(0),
            clock,
            arrivals: arrivals.to_vec(),
            done: 0,
        }
    }
}

impl Service for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn run(&mut self, budget: u32) -> u32 {
        let mut work = 0;
        while let Some(&(at_ns, value)) = self.arrivals.get(self.done) {
            if at_ns > self.clock.now_ns() || work == budget {
                break;
            }
            self.done += 1;
            work += 1;
            let slot = self.words.offset(8 * self.done as u64);
            let bytes = value.to_ne_bytes();
            self.arena.write(slot, &bytes).expect("inside");
            let count = (self.done as u64).to_ne_bytes();
            self.arena.write(self.words, &count).expect("inside");
        }
        work
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.arrivals.get(self.done).map(|&(at_ns, _)| at_ns)
    }
}

/// Consumes the script's values, a lane each, and writes them back doubled at word `101 + n`.
/// Leaves after `rounds` values, or when stopped. Word 100 counts.
fn consume<S: Simt>(simt: &S, view: View) -> u32 {
    let mut head = 0;
    while head < view.rounds() {
        // One lane looks at the index: what arrives meanwhile must not split the warp.
        let tail = simt.shuffle_u64(view.word(0), 0);
        if tail == head {
            if simt.any(view.stopped()) {
                return ABORTED;
            }
            simt.pause();
            continue;
        }
        let batch = (tail - head).min(u64::from(simt.width()));
        if u64::from(simt.lane()) < batch {
            let index = head + u64::from(simt.lane());
            view.add(simt, 101 + index, 2 * view.word(1 + index));
            view.add(simt, 100, 1);
        }
        simt.sync_warp();
        head += batch;
    }
    0
}

fn arrivals(seed: u64) -> Vec<(u64, u64)> {
    // Bursts and gaps from the seed.
    let mut at_ns = 0;
    (0..80)
        .map(|index: u64| {
            let step = seed.wrapping_mul(0x9e37_79b9).wrapping_add(index * index) % 11;
            at_ns += if step < 8 { step * 40 } else { step * 50_000 };
            (at_ns, index * 1000 + seed)
        })
        .collect()
}

fn consume_in_virtual_time(seed: u64, backend: Backend) -> (Vec<u64>, Trace) {
    let executor = world(seed, backend).build().expect("builds");
    let arrivals = arrivals(seed);
    let scene = Scene::new(Grid::ONE, arrivals.len() as u64);
    let script = Script::new(&scene, executor.clock(), &arrivals);
    executor
        .add_service(Box::new(script), Placement::Any)
        .expect("added");
    let launch = executor
        .launch(&row!(consume), Grid::ONE, scene.parameters())
        .expect("launches");
    let report = launch.join(Duration::from_secs(1)).expect("ends");
    let last_ns = arrivals.last().expect("some").0;
    let elapsed_ns = report.elapsed.as_nanos() as u64;
    assert!(elapsed_ns >= last_ns, "not before the last arrival");
    assert!(
        elapsed_ns < last_ns + 100_000,
        "and soon after: {elapsed_ns} {last_ns}"
    );
    let output = (100..101 + arrivals.len() as u64).map(|word| scene.word(word));
    (output.collect(), executor.trace().expect("virtual"))
}

#[test]
fn lockstep_equals_scalar_on_scripted_arrivals() {
    for seed in 0..SEEDS {
        let (scalar, _) = consume_in_virtual_time(seed, Backend::Scalar);
        let (lockstep, _) = consume_in_virtual_time(seed, Backend::Lockstep { seed });
        assert_eq!(scalar[0], 80, "seed {seed}");
        assert_eq!(scalar[1], 2 * seed, "seed {seed}");
        assert_eq!(scalar, lockstep, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for backend in [Backend::Scalar, Backend::Lockstep { seed: 9 }] {
        let traces: Vec<Trace> = (0..8)
            .map(|seed| {
                let (_, first) = consume_in_virtual_time(seed, backend);
                let (_, second) = consume_in_virtual_time(seed, backend);
                assert_eq!(first, second, "{backend:?} seed {seed}");
                assert!(first.turns > 80);
                first
            })
            .collect();
        let mut hashes: Vec<u64> = traces.iter().map(|trace| trace.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 8, "{backend:?}");
    }
}

#[test]
fn time_moves_only_when_driven() {
    let executor = world(1, Backend::Scalar).build().expect("builds");
    let clock = executor.clock();
    let scene = Scene::new(Grid::ONE, 5);
    executor
        .add_service(Box::new(Pong::new(&scene)), Placement::Any)
        .expect("added");
    let launch = executor
        .launch(&row!(ping), Grid::ONE, scene.parameters())
        .expect("launches");
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!((clock.now_ns(), scene.word(0)), (0, 0));
    executor.advance(Duration::from_nanos(500)).expect("drives");
    assert_eq!(clock.now_ns(), 500);
    let before = scene.word(0);
    assert!(before < 10, "five turns cannot play five rounds");
    assert!(launch.wait(Duration::from_millis(1)).expect("drives"));
    assert_eq!(scene.word(0), 10);
    let at_end = clock.now_ns();
    assert!(at_end < 1_000_000, "waits end with the launch");
    executor.advance(Duration::from_millis(50)).expect("drives");
    assert_eq!(clock.now_ns(), at_end + 50_000_000);
}

#[test]
fn idle_time_hurries() {
    // Long nothing, one event: a bounded number of turns, and no step past the event.
    let executor = world(2, Backend::Scalar).build().expect("builds");
    let scene = Scene::new(Grid::ONE, 1);
    let noon_ns = 400_000_000;
    let script = Script::new(&scene, executor.clock(), &[(noon_ns, 21)]);
    executor
        .add_service(Box::new(script), Placement::Any)
        .expect("added");
    let launch = executor
        .launch(&row!(consume), Grid::ONE, scene.parameters())
        .expect("launches");
    let report = launch.join(Duration::from_secs(1)).expect("ends");
    assert_eq!(scene.word(101), 42);
    let late_ns = report.elapsed.as_nanos() as u64 - noon_ns;
    assert!(late_ns < 20_000, "{late_ns} ns late");
    assert!(executor.trace().expect("virtual").turns < 100_000);
}

fn lost<S: Simt>(simt: &S, _view: View) -> u32 {
    loop {
        simt.pause();
    }
}

/// Stuck until the second word is set.
fn stuck<S: Simt>(_simt: &S, view: View) -> u32 {
    while view.word(1) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    0
}

#[test]
fn deadlines_and_stalls_are_told_in_virtual_time_too() {
    let executor = world(3, Backend::Scalar).build().expect("builds");
    let scene = Scene::new(Grid::ONE, 0);
    let launch = executor.launch(&row!(lost), Grid::ONE, scene.parameters());
    let error = launch.expect("launches").join(Duration::from_millis(1));
    assert!(matches!(error, Err(Error::Deadline { running: 1, .. })));
    assert_eq!(executor.clock().now_ns(), 1_000_000);

    let executor = world(3, Backend::Scalar)
        .stuck_after(Duration::from_millis(30))
        .build()
        .expect("builds");
    let launch = executor.launch(&row!(stuck), Grid::ONE, scene.parameters());
    let error = launch.expect("launches").join(PATIENCE).expect_err("stuck");
    assert!(
        error.to_string().contains("kernel `stuck`, block 0 warp 0"),
        "{error}"
    );
    scene.set(1, 1);
    executor.shutdown(PATIENCE).expect("the thread came back");
}

#[test]
fn a_service_is_taken_off_while_time_stands_still() {
    let executor = world(4, Backend::Scalar).build().expect("builds");
    let scene = Scene::new(Grid::ONE, 0);
    let pong = executor
        .add_service(Box::new(Pong::new(&scene)), Placement::Any)
        .expect("added");
    let service = pong.stop(PATIENCE).expect("comes back");
    assert_eq!(service.name(), "pong");
    assert_eq!(executor.clock().now_ns(), 0);
}

#[test]
fn real_time_cannot_be_driven() {
    let executor = polite().build().expect("builds");
    let error = executor.advance(Duration::from_nanos(1));
    assert!(matches!(error, Err(Error::RealTime)));
    assert!(executor.trace().is_none());
}
