//! What a switch costs. Printed, not asserted: the machine may be busy. See it with `--nocapture`.

use std::time::Duration;

use warpwire_device::Simt;
use warpwire_gpu::executor::{Backend, Grid, IdlePolicy, Placement};
use warpwire_gpu::{CpuExecutor, Service};

use crate::scene::{PATIENCE, Scene, View, row};
use crate::services::{Pong, ping};

/// Pauses `rounds` times; word 0 is the time that its thread spent on it, from the first warp's
/// start to its end.
fn pauses<S: Simt>(simt: &S, view: View) -> u32 {
    timed(simt, view, || {
        for _ in 0..view.rounds() {
            simt.pause();
        }
    })
}

/// Reads the clock `rounds` times.
fn clock<S: Simt>(simt: &S, view: View) -> u32 {
    timed(simt, view, || {
        for _ in 0..view.rounds() {
            std::hint::black_box(simt.now_ns());
        }
    })
}

fn timed<S: Simt>(simt: &S, view: View, body: impl FnOnce()) -> u32 {
    let first = simt.block() == 0 && simt.is_leader();
    let begin_ns = if first { thread_time_ns() } else { 0 };
    body();
    if first {
        view.add(simt, 0, thread_time_ns() - begin_ns);
    }
    0
}

/// Time that this thread ran, without what the rest of the machine took; to a few milliseconds.
fn thread_time_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or(0)
}

struct Nothing;

impl Service for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        1
    }
}

#[test]
fn switches_are_measured() {
    let one = Grid::ONE;
    let many = Grid {
        blocks: 64,
        warps: 1,
    };
    let lockstep = Backend::Lockstep { seed: 1 };
    let rows = [
        ("pause, alone", Backend::Scalar, one, 0, 2_000_000),
        ("pause, beside a service", Backend::Scalar, one, 1, 500_000),
        ("pause, among 64 warps", Backend::Scalar, many, 0, 8_000),
        ("pause of one of 32 lanes", lockstep, one, 0, 8_000),
    ];
    for (what, backend, grid, services, rounds) in rows {
        let spent = best(backend, &row!(pauses), grid, services, rounds);
        let lanes = if backend == Backend::Scalar { 1 } else { 32 };
        print_each(what, spent, rounds * lanes * u64::from(grid.total()));
    }
    let spent = best(Backend::Scalar, &row!(clock), one, 0, 500_000);
    print_each("reading the clock", spent, 500_000);
    for (what, service) in [
        (
            "round trip to a service on the same thread",
            Placement::Thread(0),
        ),
        (
            "round trip to a service on another thread",
            Placement::Thread(1),
        ),
    ] {
        let rounds = 2_000;
        let executor = CpuExecutor::builder()
            .threads(2)
            .idle(IdlePolicy::SPIN)
            .build()
            .expect("builds");
        let run = |_| {
            let scene = Scene::new(one, rounds);
            let pong = executor
                .add_service(Box::new(Pong::new(&scene)), service)
                .expect("added");
            let parameters = scene.parameters();
            let launch = executor.launch_on(&row!(ping), one, parameters, Placement::Thread(0));
            let report = launch.expect("launches").join(PATIENCE).expect("ends");
            pong.stop(PATIENCE).expect("comes back");
            report.elapsed
        };
        let spent = (0..RUNS).map(run).min().expect("some runs");
        print_each(what, spent, rounds);
    }
}

/// The best of a few runs: this machine has other things to do.
fn best(
    backend: Backend,
    kernel: &warpwire_device::KernelRow,
    grid: Grid,
    services: usize,
    rounds: u64,
) -> Duration {
    let run = |_| {
        let executor = CpuExecutor::builder()
            .backend(backend)
            .idle(IdlePolicy::SPIN)
            .build()
            .expect("builds");
        for _ in 0..services {
            executor
                .add_service(Box::new(Nothing), Placement::Any)
                .expect("added");
        }
        let scene = Scene::new(grid, rounds);
        let launch = executor.launch(kernel, grid, scene.parameters());
        launch.expect("launches").join(PATIENCE).expect("ends");
        Duration::from_nanos(scene.word(0))
    };
    (0..RUNS).map(run).min().expect("some runs")
}

fn print_each(what: &str, spent: Duration, times: u64) {
    let each = spent.as_nanos() as f64 / times as f64;
    println!("{what:<44} {each:>8.1} ns");
}

const RUNS: u32 = 3;
