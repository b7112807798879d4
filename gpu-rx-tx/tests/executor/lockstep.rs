//! 32 lanes: collectives give what a GPU gives, and disagreements are found.

use warpwire_device::Simt;
use warpwire_gpu::executor::{Backend, Collective, Divergence, Error, Exit, Grid};
use warpwire_gpu::executor::{LaneSet, Launch};
use warpwire_ring::Cause;

use crate::scene::{PATIENCE, Scene, View, polite, row};

const WRONG: u32 = Cause::RingCorrupted as u32;

/// Every collective, against what it must give.
fn collectives<S: Simt>(simt: &S, view: View) -> u32 {
    let (lane, width) = (simt.lane(), simt.width());
    let mask = u32::MAX >> (32 - width);
    for round in 0..view.rounds() as u32 {
        let mut right =
            simt.ballot((lane + round).is_multiple_of(3)) == expected_ballot(round) & mask;
        right &= simt.shuffle(lane * 7, lane + round) == (lane + round) % width * 7;
        let long = u64::from(lane) << 33 | 5;
        right &= simt.shuffle_u64(long, 31) == u64::from(31 % width) << 33 | 5;
        right &= simt.sum(lane) == width * (width - 1) / 2;
        right &= simt.exclusive_sum(1) == (lane, width);
        right &= simt.all(lane < width) && !simt.any(lane >= width);
        if (lane ^ round) & 1 == 0 {
            simt.pause();
        }
        simt.sync_warp();
        if !right {
            return WRONG;
        }
    }
    view.add(simt, u64::from(lane), 1);
    0
}

fn expected_ballot(round: u32) -> u32 {
    (0..32)
        .filter(|lane| (lane + round).is_multiple_of(3))
        .fold(0, |mask, lane| mask | 1 << lane)
}

fn start(seed: u64, row: warpwire_device::KernelRow, grid: Grid, rounds: u64) -> (Launch, Scene) {
    let executor = polite()
        .backend(Backend::Lockstep { seed })
        .build()
        .expect("builds");
    let scene = Scene::new(grid, rounds);
    let launch = executor
        .launch(&row, grid, scene.parameters())
        .expect("launches");
    launch.wait(PATIENCE).expect("real time does not stick");
    (launch, scene)
}

#[test]
fn collectives_give_what_a_warp_gives() {
    for seed in 0..16 {
        let (launch, scene) = start(seed, row!(collectives), Grid::ONE, 40);
        let report = launch.join(PATIENCE).expect("ends");
        assert_eq!(report.warps[0].exit, Exit::Returned(0), "seed {seed}");
        assert!((0..32).all(|lane| scene.word(lane) == 1));
    }
}

/// Lane 5 calls something else.
fn stray<S: Simt>(simt: &S, _view: View) -> u32 {
    simt.sync_warp();
    if simt.lane() == 5 {
        simt.shuffle(1, 0)
    } else {
        simt.ballot(true)
    }
}

/// Lanes 8 to 31 leave, the others take values from them.
fn leavers<S: Simt>(simt: &S, _view: View) -> u32 {
    if simt.lane() >= 8 {
        return 0;
    }
    simt.shuffle(simt.lane(), simt.lane() + 2)
}

#[test]
fn disagreements_are_found_and_named() {
    for seed in 0..16 {
        let (launch, _scene) = start(seed, row!(stray), Grid::ONE, 0);
        assert_eq!(launch.report().warps[0].exit, Exit::Diverged);
        let error = launch.join(PATIENCE).expect_err("diverged");
        let Error::Diverged { divergence, .. } = &error else {
            panic!("{error}")
        };
        let Divergence::Mismatch {
            waiting,
            at,
            lane,
            called,
            meeting: 1,
        } = divergence
        else {
            panic!("{error}")
        };
        // Whoever comes first waits: lane 5 in its shuffle, or others in the ballot.
        if *lane == 5 {
            assert_eq!((*at, *called), (Collective::Ballot, Collective::Shuffle));
            assert_eq!(waiting.0 & 1 << 5, 0, "{error}");
        } else {
            assert_eq!((*at, *called), (Collective::Shuffle, Collective::Ballot));
            assert_eq!(*waiting, LaneSet(1 << 5), "{error}");
        }
        assert!(
            error
                .to_string()
                .contains("kernel `stray`, block 0 warp 0: lanes ")
        );
    }
}

#[test]
fn a_shuffle_from_lanes_that_left_is_named() {
    for seed in 0..8 {
        let (launch, _scene) = start(seed, row!(leavers), Grid::ONE, 0);
        let error = launch.join(PATIENCE).expect_err("diverged");
        assert!(
            error
                .to_string()
                .contains("lane 6 shuffles from lane 8, which has returned"),
            "{error}"
        );
    }
}

/// Lanes 0 to 3 wait in a ballot for lanes that pause for ever.
fn waiting<S: Simt>(simt: &S, _view: View) -> u32 {
    if simt.lane() < 4 {
        return simt.ballot(true);
    }
    loop {
        simt.pause();
    }
}

#[test]
fn a_deadline_says_where_the_lanes_stood() {
    let executor = polite()
        .backend(Backend::Lockstep { seed: 1 })
        .build()
        .expect("builds");
    let scene = Scene::new(Grid::ONE, 0);
    let launch = executor
        .launch(&row!(waiting), Grid::ONE, scene.parameters())
        .expect("launches");
    let error = launch
        .join(std::time::Duration::from_millis(30))
        .expect_err("late");
    let text = error.to_string();
    assert!(
        text.contains("lanes 0-3 wait at ballot; lanes 4-31 pause"),
        "{text}"
    );
}

/// Lanes note the order in which they come: word 0 counts, word 1 + n holds who came nth.
fn order<S: Simt>(simt: &S, view: View) -> u32 {
    let nth = view.word(0);
    view.add(simt, 0, 1);
    view.add(simt, 1 + nth, u64::from(simt.lane()));
    0
}

#[test]
fn the_seed_decides_the_order_of_lanes() {
    let run = |seed| -> Vec<u64> {
        let (launch, scene) = start(seed, row!(order), Grid::ONE, 0);
        launch.join(PATIENCE).expect("ends");
        (1..33).map(|word| scene.word(word)).collect()
    };
    let straight: Vec<u64> = (0..32).collect();
    for seed in 0..4 {
        let got = run(seed);
        let mut sorted = got.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, straight, "each lane once");
        assert_ne!(got, straight, "seed {seed} shuffles");
        assert_eq!(got, run(seed), "seed {seed} repeats");
    }
    assert_ne!(run(0), run(1));
}
