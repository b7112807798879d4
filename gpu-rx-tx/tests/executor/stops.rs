//! Stops, deadlines, stuck kernels, panics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warpwire_device::Simt;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Backend, Error, Exit, Grid, Placement, Stall};

use crate::scene::{ABORTED, PATIENCE, Scene, View, polite, row};

const BACKENDS: [Backend; 2] = [Backend::Scalar, Backend::Lockstep { seed: 5 }];

/// Works until it is told to stop.
fn loaded<S: Simt>(simt: &S, view: View) -> u32 {
    loop {
        // One lane looks, all hear: lanes leave together.
        let stopped = simt.shuffle(u32::from(view.stopped()), 0);
        if stopped != 0 {
            return ABORTED;
        }
        if simt.is_leader() {
            view.add(simt, u64::from(simt.block()), 1);
        }
        simt.give_way();
    }
}

#[test]
fn a_stop_under_load_ends_every_warp() {
    for backend in BACKENDS {
        for threads in [1, 2] {
            let executor = polite()
                .threads(threads)
                .backend(backend)
                .build()
                .expect("builds");
            let grid = Grid {
                blocks: 4,
                warps: 2,
            };
            let scene = Scene::new(grid, 0);
            let launch = executor
                .launch(&row!(loaded), grid, scene.parameters())
                .expect("launches");
            let until = Instant::now() + PATIENCE;
            while (0..4).any(|block| scene.word(block) < 100) {
                assert!(Instant::now() < until, "every block gets its turns");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!launch.is_finished());
            launch.stop();
            let report = launch.join(PATIENCE).expect("stops");
            assert!(
                report
                    .warps
                    .iter()
                    .all(|warp| warp.exit == Exit::Returned(ABORTED))
            );
            assert_eq!(report.cause(), None, "a stop is no failure");
        }
    }
}

/// Pauses for ever and looks at nothing.
fn deaf<S: Simt>(simt: &S, _view: View) -> u32 {
    loop {
        if simt.block() == 1 && simt.warp() == 1 {
            simt.sync_block();
        }
        simt.pause();
    }
}

#[test]
fn a_kernel_that_ignores_its_stop_word_is_unwound_at_the_deadline() {
    for backend in BACKENDS {
        let executor = polite()
            .threads(2)
            .backend(backend)
            .build()
            .expect("builds");
        let grid = Grid {
            blocks: 2,
            warps: 2,
        };
        let scene = Scene::new(grid, 0);
        let launch = executor
            .launch(&row!(deaf), grid, scene.parameters())
            .expect("launches");
        let error = launch.join(Duration::from_millis(20)).expect_err("late");
        let text = error.to_string();
        assert!(
            matches!(error, Error::Deadline { running: 4, .. }),
            "{text}"
        );
        assert!(text.contains("`deaf` did not end within 20ms"), "{text}");
        assert!(text.contains("block 0 warp 0"), "{text}");
        // The thread is free again.
        let scene = Scene::new(Grid::ONE, 0);
        let launch = executor
            .launch(&row!(loaded), Grid::ONE, scene.parameters())
            .expect("launches");
        launch.stop();
        launch.join(PATIENCE).expect("ends");
    }
}

/// Stuck until the second word is set: never pauses. In the end it must let the test's thread go.
fn stuck<S: Simt>(simt: &S, view: View) -> u32 {
    if simt.block() == 1 {
        while view.word(1) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    0
}

fn await_stall(executor: &CpuExecutor) {
    let until = Instant::now() + PATIENCE;
    while executor.stalls().is_empty() {
        assert!(Instant::now() < until, "the watchdog sees it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_kernel_that_never_pauses_is_named() {
    let heard: Arc<Mutex<Vec<Stall>>> = Arc::default();
    let listener = Arc::clone(&heard);
    let executor = polite()
        .threads(2)
        .stuck_after(Duration::from_millis(200))
        .on_stall(move |stall| listener.lock().expect("whole").push(stall.clone()))
        .build()
        .expect("builds");
    let grid = Grid {
        blocks: 2,
        warps: 1,
    };
    let scene = Scene::new(grid, 0);
    let memory = Arc::downgrade(&scene.arena);
    let launch = executor
        .launch(&row!(stuck), grid, scene.parameters())
        .expect("launches");
    let error = launch.join(Duration::from_millis(500)).expect_err("stuck");
    let Error::Stuck(stall) = &error else {
        panic!("{error}")
    };
    assert_eq!((stall.name.as_str(), stall.place), ("stuck", Some((1, 0))));
    assert!(stall.silent >= Duration::from_millis(200), "{error}");
    assert!(
        error
            .to_string()
            .contains("kernel `stuck`, block 1 warp 0, is stuck")
    );
    let seen = heard.lock().expect("whole").clone();
    assert_eq!(seen.len(), 1, "told once: {seen:?}");
    assert_eq!(seen[0].place, Some((1, 0)));
    assert_eq!(executor.stalls().len(), 1);
    scene.set(1, 1);
    drop(scene);
    assert!(memory.upgrade().is_some() || executor.stalls().is_empty());
    executor.shutdown(PATIENCE).expect("the thread came back");
    assert!(memory.upgrade().is_none());
}

#[test]
fn a_launch_that_cannot_end_names_who_holds_its_thread() {
    let executor = polite()
        .stuck_after(Duration::from_millis(20))
        .build()
        .expect("builds");
    let grid = Grid {
        blocks: 2,
        warps: 1,
    };
    let held = Scene::new(Grid::ONE, 0);
    let victim = executor
        .launch(&row!(loaded), Grid::ONE, held.parameters())
        .expect("launches");
    let scene = Scene::new(grid, 0);
    let holder = executor
        .launch(&row!(stuck), grid, scene.parameters())
        .expect("launches");
    await_stall(&executor);
    let text = victim.join(Duration::ZERO).expect_err("held").to_string();
    assert!(
        text.contains("kernel `stuck`, block 1 warp 0, is stuck"),
        "{text}"
    );
    scene.set(1, 1);
    holder.join(PATIENCE).expect("ends");
}

#[test]
fn a_shutdown_names_what_holds_a_thread() {
    let executor = polite()
        .stuck_after(Duration::from_millis(20))
        .build()
        .expect("builds");
    let grid = Grid {
        blocks: 2,
        warps: 1,
    };
    let scene = Scene::new(grid, 0);
    let launch = executor
        .launch_on(&row!(stuck), grid, scene.parameters(), Placement::Thread(0))
        .expect("launches");
    await_stall(&executor);
    let error = executor
        .shutdown(Duration::from_millis(100))
        .expect_err("stuck");
    assert!(error.to_string().contains("block 1 warp 0"), "{error}");
    scene.set(1, 1);
    drop(launch);
}

/// One warp panics, or lane 7 of it; the others wait for the stop word.
fn clumsy<S: Simt>(simt: &S, view: View) -> u32 {
    let mut rounds = 0;
    loop {
        if simt.block() == 1 && simt.warp() == 0 && rounds == 3 && simt.lane() == 7 % simt.width() {
            panic!("fell over after {rounds} rounds");
        }
        rounds += 1;
        if simt.any(view.stopped()) {
            return ABORTED;
        }
        simt.pause();
    }
}

#[test]
fn a_panic_ends_its_launch_and_nothing_else() {
    for backend in BACKENDS {
        let executor = polite()
            .threads(2)
            .backend(backend)
            .build()
            .expect("builds");
        let grid = Grid {
            blocks: 3,
            warps: 1,
        };
        let bystander = Scene::new(Grid::ONE, 0);
        let other = executor
            .launch(&row!(loaded), Grid::ONE, bystander.parameters())
            .expect("launches");
        let scene = Scene::new(grid, 0);
        let launch = executor
            .launch(&row!(clumsy), grid, scene.parameters())
            .expect("launches");
        launch.wait(PATIENCE).expect("real time does not stick");
        let exits: Vec<Exit> = launch.report().warps.iter().map(|warp| warp.exit).collect();
        let aborted = Exit::Returned(ABORTED);
        assert_eq!(exits, [aborted, Exit::Panicked, aborted], "{backend:?}");
        let text = launch.join(PATIENCE).expect_err("panicked").to_string();
        assert!(
            text.contains("kernel `clumsy` panicked in block 1 warp 0"),
            "{text}"
        );
        assert!(text.contains("fell over after 3 rounds"), "{text}");
        let on_lane = text.contains("lane 7");
        assert_eq!(on_lane, backend != Backend::Scalar, "{text}");
        assert!(!other.is_finished(), "the other launch goes on");
        other.stop();
        other.join(PATIENCE).expect("ends");
    }
}

/// Drops something when unwound.
fn guarded<S: Simt>(simt: &S, view: View) -> u32 {
    struct Guard<'a, S: Simt>(&'a S, View);
    impl<S: Simt> Drop for Guard<'_, S> {
        fn drop(&mut self) {
            self.1.add(self.0, 0, 1);
        }
    }
    let _guard = Guard(simt, view);
    loop {
        simt.pause();
    }
}

#[test]
fn a_dropped_launch_is_unwound_with_its_guards() {
    for backend in BACKENDS {
        let executor = polite().backend(backend).build().expect("builds");
        let scene = Scene::new(Grid::ONE, 0);
        let launch = executor
            .launch(&row!(guarded), Grid::ONE, scene.parameters())
            .expect("launches");
        let lanes = match backend {
            Backend::Scalar => 1,
            Backend::Lockstep { .. } | Backend::Virtual { .. } => 32,
        };
        let until = Instant::now() + PATIENCE;
        while launch.control().heartbeat(0) < Some(lanes) {
            assert!(Instant::now() < until, "it starts");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(launch);
        executor.shutdown(PATIENCE).expect("ends");
        assert_eq!(scene.word(0), u64::from(lanes), "{backend:?}");
    }
}

#[test]
fn dropping_the_executor_ends_everything() {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    let scene = Scene::new(Grid::ONE, 0);
    let executor = polite().threads(2).build().expect("builds");
    let launch = executor
        .launch(&row!(deaf), Grid::ONE, scene.parameters())
        .expect("launches");
    let thread = std::thread::spawn(move || {
        drop(executor);
        seen.store(true, Ordering::Relaxed);
    });
    thread.join().expect("no panic");
    assert!(ended.load(Ordering::Relaxed));
    let report = launch.join(PATIENCE).expect("over");
    assert_eq!(report.warps[0].exit, Exit::Unwound);
}
