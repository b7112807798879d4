//! The device's half: the same script carried out by kernels of one lane and of 32, with the engine
//! in a kernel of its own and in the application's, comes to the same.

use std::time::Duration;

use warpwire::pipelines::messaging::{Step, Verb};
use warpwire_gpu::executor::{Backend, Placement};
use warpwire_ring::Cause;

use crate::ends::{Mode, Plan, SIGNALS, SOON, Stage};
use crate::script::carry_out;

#[test]
fn one_lane_and_32_beside_the_engine_and_with_it_do_the_same() {
    let wanted = carry_out(Mode::Sliced, Backend::Scalar);
    let seed = 11;
    for (mode, backend) in [
        (Mode::Fused, Backend::Scalar),
        (Mode::Sliced, Backend::Lockstep { seed }),
        (Mode::Fused, Backend::Lockstep { seed }),
        (Mode::Crew, Backend::Scalar),
        (Mode::Crew, Backend::Lockstep { seed }),
    ] {
        let started = std::time::Instant::now();
        let trace = carry_out(mode, backend);
        assert!(trace == wanted, "{mode:?} {backend:?} differ");
        println!("{mode:?} {backend:?}: {:?}", started.elapsed());
    }
}

#[test]
fn a_script_ends_at_its_first_failure_deadline_or_stop() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::new(mode));
        let [one, _other] = stage.pairs();
        let own = &stage.sides[0];
        let waited = own.gather(SIGNALS, 8);
        let never = |timeout_ns| Step {
            local: waited,
            stride: 8,
            value: 1,
            timeout_ns,
            ..Step::new(Verb::All)
        };
        let steps = [never(1_000_000), Step::new(Verb::Quiet)];
        let perform = |pair, steps: &[Step]| {
            let performance = own
                .endpoint
                .perform(&stage.executor, pair, steps, Placement::Any);
            performance.expect("starts")
        };
        let (one, steps) = perform(one, &steps).finish(SOON).expect("ends");
        assert_eq!(steps[0].cause(), Some(Cause::DeadlineExceeded));
        assert_eq!(steps[1].outcome, 0, "it was not begun");
        let performance = perform(one, &[never(u64::MAX / 2)]);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!performance.is_over());
        performance.stop();
        let (_one, steps) = performance.finish(SOON).expect("ends");
        assert_eq!(steps[0].cause(), Some(Cause::Aborted));
        drop((_one, _other));
        stage.stop();
    }
}
