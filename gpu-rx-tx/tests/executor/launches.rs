//! Grids over threads, barriers, residency, refusals.

use std::sync::Arc;

use warpwire_device::Simt;
use warpwire_gpu::executor::{Backend, Control, Error, Exit, Grid, Placement};
use warpwire_ring::Cause;

use crate::scene::{PATIENCE, Scene, View, polite, row};

/// Each warp adds its share and pauses between.
fn share<S: Simt>(simt: &S, view: View) -> u32 {
    for _ in 0..view.rounds() {
        if simt.is_leader() {
            view.add(simt, 0, 1);
            view.add(simt, 1 + u64::from(simt.block()), 1);
        }
        simt.pause();
    }
    0
}

#[test]
fn any_grid_runs_on_any_threads() {
    let grids = [(1, 1), (1, 4), (5, 1), (3, 8), (32, 2)];
    for backend in [Backend::Scalar, Backend::Lockstep { seed: 3 }] {
        for threads in [1, 2] {
            for placement in [Placement::Any, Placement::Scattered, Placement::Thread(0)] {
                for (blocks, warps) in grids {
                    check_grid(backend, threads, placement, Grid { blocks, warps });
                }
            }
        }
    }
}

fn check_grid(backend: Backend, threads: usize, placement: Placement, grid: Grid) {
    let case = format!("{backend:?} {threads} {placement:?} {grid:?}");
    let rounds = 20;
    let executor = polite()
        .threads(threads)
        .backend(backend)
        .build()
        .expect("builds");
    let scene = Scene::new(grid, rounds);
    let launch = executor
        .launch_on(&row!(share), grid, scene.parameters(), placement)
        .expect("launches");
    let report = launch.join(PATIENCE).expect(&case);
    assert_eq!(scene.word(0), rounds * u64::from(grid.total()), "{case}");
    for block in 0..u64::from(grid.blocks) {
        let want = rounds * u64::from(grid.warps);
        assert_eq!(scene.word(1 + block), want, "{case} block {block}");
    }
    let lanes = match backend {
        Backend::Scalar => 1,
        Backend::Lockstep { .. } | Backend::Virtual { .. } => 32,
    };
    assert_eq!(report.pauses(), rounds * lanes * u64::from(grid.total()));
    assert_eq!(report.warps.len(), grid.total() as usize, "{case}");
    assert!(report.emulated, "device memory on a CPU says what it is");
    for (index, warp) in (0..).zip(&report.warps) {
        assert_eq!(warp.exit, Exit::Returned(0), "{case}");
        assert_eq!(warp.block * grid.warps + warp.warp, index, "{case}");
        let beats = scene.control.heartbeat(index).expect("one each");
        assert_eq!(u64::from(beats), rounds * lanes, "{case}");
    }
}

/// Warps of a block take turns in phases: nobody is a phase ahead.
fn phases<S: Simt>(simt: &S, view: View) -> u32 {
    let warps = u64::from(simt.warps());
    for round in 0..view.rounds() {
        if simt.is_leader() {
            view.add(simt, u64::from(simt.block()), 1);
        }
        simt.sync_block();
        if view.word(u64::from(simt.block())) != warps * (round + 1) {
            return Cause::RingCorrupted as u32;
        }
        if simt.warp() == 0 {
            simt.pause();
        }
        simt.sync_block();
    }
    0
}

#[test]
fn blocks_meet_wherever_their_warps_are() {
    for backend in [Backend::Scalar, Backend::Lockstep { seed: 11 }] {
        for threads in [1, 2] {
            for placement in [Placement::Any, Placement::Scattered] {
                let executor = polite()
                    .threads(threads)
                    .backend(backend)
                    .build()
                    .expect("builds");
                let grid = Grid {
                    blocks: 3,
                    warps: 4,
                };
                let scene = Scene::new(grid, 200);
                let launch = executor
                    .launch_on(&row!(phases), grid, scene.parameters(), placement)
                    .expect("launches");
                let report = launch.join(PATIENCE).expect("ends");
                assert_eq!(report.cause(), None, "{backend:?} {threads} {placement:?}");
            }
        }
    }
}

/// Warp 0 returns at once, the others meet without it.
fn early<S: Simt>(simt: &S, view: View) -> u32 {
    if simt.warp() == 0 {
        return 0;
    }
    for _ in 0..view.rounds() {
        simt.sync_block();
    }
    if simt.is_leader() {
        view.add(simt, 0, 1);
    }
    0
}

#[test]
fn a_block_meets_without_warps_that_returned() {
    for placement in [Placement::Any, Placement::Scattered] {
        let executor = polite().threads(2).build().expect("builds");
        let grid = Grid {
            blocks: 2,
            warps: 3,
        };
        let scene = Scene::new(grid, 50);
        let launch = executor
            .launch_on(&row!(early), grid, scene.parameters(), placement)
            .expect("launches");
        launch.join(PATIENCE).expect("ends");
        assert_eq!(scene.word(0), 4);
    }
}

/// Returns what it is told to.
fn code<S: Simt>(simt: &S, view: View) -> u32 {
    view.rounds() as u32 * u32::from(simt.block() == 1)
}

#[test]
fn codes_come_back_as_causes() {
    let executor = polite().build().expect("builds");
    let grid = Grid {
        blocks: 2,
        warps: 1,
    };
    let scene = Scene::new(grid, Cause::NoResource as u64);
    let launch = executor.launch(&row!(code), grid, scene.parameters());
    let report = launch.expect("launches").join(PATIENCE).expect("ends");
    let exits: Vec<Exit> = report.warps.iter().map(|warp| warp.exit).collect();
    let code = Cause::NoResource as u32;
    assert_eq!(exits, [Exit::Returned(0), Exit::Returned(code)]);
    assert_eq!(report.cause(), Some(Cause::NoResource));
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let executor = polite().stacks(8).build().expect("builds");
    let kernel = row!(share);
    let refuse = |grid: Grid, placement| {
        let scene = Scene::new(grid, 1);
        executor
            .launch_on(&kernel, grid, scene.parameters(), placement)
            .expect_err("refused")
            .to_string()
    };
    let grid = |blocks, warps| Grid { blocks, warps };
    let cases = [
        (grid(0, 1), Placement::Any, "grid.blocks is 0"),
        (
            grid(1, 33),
            Placement::Any,
            "grid.warps is 33; it must be from 1 to 32",
        ),
        (grid(3, 3), Placement::Any, "need 9 stacks, 8 of 8 are free"),
        (
            grid(1, 1),
            Placement::Thread(1),
            "names thread 1, the executor has 1",
        ),
    ];
    for (grid, placement, want) in cases {
        let text = refuse(grid, placement);
        assert!(text.contains(want), "{text}");
    }
    let scene = Scene::new(Grid::ONE, 1);
    let parameters = scene.parameters_of_layout(1);
    let error = executor.launch(&kernel, Grid::ONE, parameters);
    assert!(matches!(error, Err(Error::Layout { given: 1, .. })));
    let wide = grid(2, 2);
    let error = executor.launch(&kernel, wide, scene.parameters());
    assert!(matches!(
        error,
        Err(Error::Control {
            have: 1,
            need: 4,
            ..
        })
    ));
    let settings = [
        polite().threads(0).build(),
        polite().stack_bytes(100).build(),
        polite().service_budget(0).build(),
        polite().stuck_after(std::time::Duration::ZERO).build(),
    ];
    for built in settings {
        assert!(matches!(built, Err(Error::Setting { .. })));
    }
    let error = polite().pin([999]).build().expect_err("no such processor");
    assert!(error.to_string().contains("processor 999"), "{error}");
}

#[test]
fn stacks_come_back_when_a_launch_is_over() {
    let executor = polite().stacks(4).build().expect("builds");
    let grid = Grid {
        blocks: 4,
        warps: 1,
    };
    for _ in 0..5 {
        let scene = Scene::new(grid, 3);
        let launch = executor.launch(&row!(share), grid, scene.parameters());
        let launch = launch.expect("the stacks of the last launch are free");
        launch.join(PATIENCE).expect("ends");
    }
}

#[test]
fn memory_goes_when_the_last_of_launch_and_warps_goes() {
    let executor = polite().build().expect("builds");
    let scene = Scene::new(Grid::ONE, 10);
    let memory = Arc::downgrade(&scene.arena);
    let launch = executor.launch(&row!(share), Grid::ONE, scene.parameters());
    drop(scene);
    let launch = launch.expect("launches");
    assert!(memory.upgrade().is_some(), "the launch holds it");
    launch.join(PATIENCE).expect("ends");
    drop(executor);
    assert!(memory.upgrade().is_none(), "nobody needs it any more");
}

#[test]
fn a_launch_without_control_makes_its_own() {
    let executor = polite().build().expect("builds");
    let scene = Scene::new(Grid::ONE, 7);
    let other = Control::allocate(&scene.arena, 1).expect("fits");
    let parameters = scene.parameters().control(other.clone());
    let launch = executor.launch(&row!(share), Grid::ONE, parameters);
    launch.expect("launches").join(PATIENCE).expect("ends");
    assert_eq!(other.heartbeat(0), Some(7));
    assert_eq!(scene.control.heartbeat(0), Some(0));
}

#[test]
fn pinned_threads_run() {
    let cpu = an_allowed_processor();
    let executor = polite().threads(2).pin([cpu]).build().expect("builds");
    let grid = Grid {
        blocks: 2,
        warps: 1,
    };
    let scene = Scene::new(grid, 10);
    let launch = executor.launch(&row!(share), grid, scene.parameters());
    launch.expect("launches").join(PATIENCE).expect("ends");
    assert_eq!(scene.word(0), 20);
}

/// The first processor of `Cpus_allowed_list: 0-1`.
fn an_allowed_processor() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let (_, list) = status
        .split_once("Cpus_allowed_list:")
        .expect("Linux has it");
    let first = list
        .trim()
        .split(['-', ',', '\n'])
        .next()
        .expect("one at least");
    first.parse().expect("a number")
}
