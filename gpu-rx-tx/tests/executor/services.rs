//! Host services beside kernels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpwire_device::Simt;
use warpwire_gpu::executor::{Error, Grid, Placement};
use warpwire_gpu::{Arena, Service};
use warpwire_ring::DeviceAddress;

use crate::scene::{ABORTED, PATIENCE, Scene, View, polite, row};

/// Answers each odd value of word 0 with the next even one: the other half of [`ping`].
pub(crate) struct Pong {
    arena: Arc<Arena>,
    word: DeviceAddress,
}

impl Pong {
    pub(crate) fn new(scene: &Scene) -> Self {
        Self {
            arena: Arc::clone(&scene.arena),
            word: scene.word_address(0),
        }
    }
}

impl Service for Pong {
    fn name(&self) -> &str {
        "pong"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        let word = self.arena.word(self.word).expect("inside");
        let value = word.load(Ordering::Acquire);
        if value.is_multiple_of(2) {
            return 0;
        }
        word.store(value + 1, Ordering::Release);
        1
    }
}

/// Makes word 0 odd, waits until it is even again.
pub(crate) fn ping<S: Simt>(simt: &S, view: View) -> u32 {
    for round in 0..view.rounds() {
        if simt.is_leader() {
            view.add(simt, 0, 1);
        }
        simt.sync_warp();
        loop {
            if simt.all(view.word(0) >= 2 * (round + 1)) {
                break;
            }
            if simt.any(view.stopped()) {
                return ABORTED;
            }
            simt.pause();
        }
        simt.give_way();
    }
    0
}

#[test]
fn kernel_and_service_play_on_one_thread_and_on_two() {
    let placements = [
        (1, Placement::Thread(0), Placement::Thread(0)),
        (2, Placement::Thread(0), Placement::Thread(1)),
        (1, Placement::Any, Placement::Own),
        (2, Placement::Own, Placement::Any),
    ];
    for (threads, kernel, service) in placements {
        let case = format!("{threads} {kernel:?} {service:?}");
        let executor = polite().threads(threads).build().expect("builds");
        let scene = Scene::new(Grid::ONE, 300);
        let pong = executor
            .add_service(Box::new(Pong::new(&scene)), service)
            .expect("added");
        let launch = executor
            .launch_on(&row!(ping), Grid::ONE, scene.parameters(), kernel)
            .expect("launches");
        launch.join(PATIENCE).expect(&case);
        assert_eq!(scene.word(0), 600, "{case}");
        assert_eq!(pong.work(), 300, "{case}");
        assert!(pong.turns() >= 300, "{case}");
        let pong = pong.stop(PATIENCE).expect("comes back");
        assert_eq!(pong.name(), "pong");
    }
}

/// Never pauses, only gives way, as a kernel under full load does.
fn busy<S: Simt>(simt: &S, view: View) -> u32 {
    while !simt.any(view.stopped()) {
        simt.give_way();
    }
    ABORTED
}

struct Count(Arc<AtomicU64>);

impl Service for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn run(&mut self, budget: u32) -> u32 {
        self.0.fetch_add(u64::from(budget), Ordering::Relaxed);
        0
    }
}

#[test]
fn a_busy_kernel_does_not_starve_a_service() {
    let executor = polite().service_budget(3).build().expect("builds");
    let scene = Scene::new(Grid::ONE, 0);
    let launch = executor
        .launch(&row!(busy), Grid::ONE, scene.parameters())
        .expect("launches");
    let count = Arc::new(AtomicU64::new(0));
    let service = executor
        .add_service(Box::new(Count(Arc::clone(&count))), Placement::Any)
        .expect("added");
    let until = Instant::now() + PATIENCE;
    while count.load(Ordering::Relaxed) < 3000 {
        assert!(Instant::now() < until, "the service gets its turns");
        std::thread::yield_now();
    }
    assert_eq!(
        count.load(Ordering::Relaxed) % 3,
        0,
        "runs come with the budget"
    );
    assert_eq!(service.work(), 0);
    launch.stop();
    launch.join(PATIENCE).expect("ends");
}

struct Broken(u32);

impl Service for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        self.0 += 1;
        assert!(self.0 < 10, "worn out");
        1
    }
}

#[test]
fn a_panic_in_a_service_ends_the_service() {
    let executor = polite().build().expect("builds");
    let service = executor
        .add_service(Box::new(Broken(0)), Placement::Any)
        .expect("added");
    let until = Instant::now() + PATIENCE;
    while service.is_running() {
        assert!(Instant::now() < until, "it ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(service.work(), 9);
    let Err(error) = service.stop(PATIENCE) else {
        panic!("must tell")
    };
    let text = error.to_string();
    assert!(
        text.contains("service `broken` panicked: worn out"),
        "{text}"
    );
}

struct Blocks(Arc<AtomicU64>);

impl Service for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        while self.0.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        0
    }
}

#[test]
fn a_service_that_blocks_is_named() {
    let executor = polite()
        .stuck_after(Duration::from_millis(20))
        .build()
        .expect("builds");
    let go = Arc::new(AtomicU64::new(0));
    let service = executor
        .add_service(Box::new(Blocks(Arc::clone(&go))), Placement::Any)
        .expect("added");
    let until = Instant::now() + PATIENCE;
    while executor.stalls().is_empty() {
        assert!(Instant::now() < until, "the watchdog sees it");
        std::thread::sleep(Duration::from_millis(1));
    }
    let Err(error) = service.stop(Duration::from_millis(10)) else {
        panic!("must tell")
    };
    assert!(matches!(error, Error::Stuck(_)));
    assert!(
        error.to_string().contains("service `blocks` is stuck"),
        "{error}"
    );
    go.store(1, Ordering::Relaxed);
}
