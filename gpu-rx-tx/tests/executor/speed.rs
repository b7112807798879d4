//! What a switch costs. Printed, not asserted: the machine may be busy. See it with `--nocapture`.

use std::time::{Duration, Instant};

use warpwire_device::Simt;
use warpwire_gpu::executor::{Backend, Grid, IdlePolicy, Placement};
use warpwire_gpu::{CpuExecutor, Service};

use crate::scene::{PATIENCE, Scene, View, row};
use crate::services::{Pong, ping};

/// Pauses `rounds` times.
fn pauses<S: Simt>(simt: &S, view: View) -> u32 {
    for _ in 0..view.rounds() {
        simt.pause();
    }
    0
}

/// Reads the clock `rounds` times.
fn clock<S: Simt>(simt: &S, view: View) -> u32 {
    let mut last = 0;
    for _ in 0..view.rounds() {
        last = simt.now_ns();
    }
    u32::from(last == 0)
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
        (
            "pause, alone on its thread",
            Backend::Scalar,
            one,
            0,
            2_000_000,
        ),
        (
            "pause, beside a service",
            Backend::Scalar,
            one,
            1,
            1_000_000,
        ),
        ("pause, among 64 warps", Backend::Scalar, many, 0, 40_000),
        ("pause of one of 32 lanes", lockstep, one, 0, 2_000),
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
        let rounds = 20_000;
        let executor = CpuExecutor::builder()
            .threads(2)
            .idle(IdlePolicy::SPIN)
            .build()
            .expect("builds");
        let scene = Scene::new(one, rounds);
        executor
            .add_service(Box::new(Pong::new(&scene)), service)
            .expect("added");
        let parameters = scene.parameters();
        let launch = executor.launch_on(&row!(ping), one, parameters, Placement::Thread(0));
        let report = launch.expect("launches").join(PATIENCE).expect("ends");
        print_each(what, report.elapsed, rounds);
    }
}

/// The best of three runs: this machine has other things to do.
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
        let begin = Instant::now();
        let launch = executor.launch(kernel, grid, scene.parameters());
        launch.expect("launches").join(PATIENCE).expect("ends");
        begin.elapsed()
    };
    (0..3).map(run).min().expect("three runs")
}

fn print_each(what: &str, spent: Duration, times: u64) {
    let each = spent.as_nanos() as f64 / times as f64;
    println!("{what:<44} {each:>8.1} ns");
}
