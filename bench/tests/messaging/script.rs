//! A script of every verb over one connection, with what it must leave compared by hand.

use std::time::Duration;

use warpwire::pipelines::messaging::{DONE, EndpointConfig, Gather, Signal, Step, Update, Verb};
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Backend, Builder, Placement};
use warpwire_protocols::rdma::Attributes;

use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Stage, TARGET, WRITTEN};

/// What a script leaves behind: its finds, and memory of both ends.
#[derive(PartialEq, Debug)]
pub(crate) struct Trace {
    steps: Vec<(u32, u64, u32)>,
    written: Vec<u8>,
    signals: Vec<u8>,
    fetched: Vec<u8>,
}

fn script(stage: &Stage) -> Vec<Step> {
    let [own, peer] = &stage.sides;
    let step = |verb, times, local: Gather| Step {
        times,
        local,
        stride: 64,
        remote: peer.remote(WRITTEN),
        signal: peer.remote(SIGNALS),
        ..Step::new(verb)
    };
    let small = own.gather(SOURCE, 60);
    let word = |number: u64| own.gather(TARGET + 0x8000 + number * 8, 8);
    let waited = own.gather(SIGNALS, 8);
    let at = |step: Step, offset| Step {
        remote: step.remote.offset(offset),
        ..step
    };
    let value = |step: Step, value| Step { value, ..step };
    vec![
        // More than a warp, and more than the queue.
        step(Verb::Put, 90, small),
        at(
            value(step(Verb::PutInline, 3, small), 0x1234_5678),
            0x1_0000,
        ),
        at(value(step(Verb::PutSet, 40, small), 100), 0x2_0000),
        at(value(step(Verb::PutAdd, 40, small), 2), 0x3_0000),
        value(step(Verb::Add, 5, small), 1000),
        step(Verb::Quiet, 1, small),
        Step {
            remote: peer.remote(SOURCE),
            stride: 1500,
            ..step(Verb::Get, 6, own.gather(TARGET, 1500))
        },
        step(Verb::Fence, 1, small),
        Step {
            remote: peer.remote(SIGNALS + 8),
            value: 3,
            ..step(Verb::FetchAdd, 1, word(0))
        },
        Step {
            remote: peer.remote(SIGNALS + 8),
            compare: 3,
            value: 55,
            ..step(Verb::CompareSwap, 1, word(1))
        },
        step(Verb::Quiet, 1, small),
        // What the peer had sent and signalled before.
        step(Verb::Any, 3, waited),
        value(step(Verb::Some, 3, waited), 2),
        value(step(Verb::All, 3, waited), 1),
        value(step(Verb::SendImmediate, 9, small), 40),
        step(Verb::Quiet, 1, small),
        step(Verb::Arrivals, 2, small),
    ]
}

/// Carries out the script where a mode says.
pub(crate) fn carry_out(mode: Mode, backend: Backend) -> Trace {
    carry_out_on(mode, CpuExecutor::builder().backend(backend))
}

/// [`carry_out`], on an executor of one's own.
pub(crate) fn carry_out_on(mode: Mode, builder: Builder) -> Trace {
    let plan = Plan {
        attributes: Attributes {
            // Warps of 32 lanes are slow.
            timeout: 19,
            ..Attributes::default()
        },
        config: EndpointConfig {
            pairs: 2,
            log_send: 6,
            ..EndpointConfig::default()
        },
        ..Plan::new(mode)
    };
    let stage = Stage::on(&plan, builder);
    let [mut one, mut other] = stage.pairs();
    let [own, peer] = &stage.sides;
    own.fill(SOURCE, 64 * 1024, 1);
    peer.fill(SOURCE, 64 * 1024, 2);
    for number in 0..12 {
        let at = TARGET + number * 64;
        other.receive(&[peer.gather(at, 64)]).expect("posts");
    }
    for number in 0..2 {
        let at = TARGET + 0x9000 + number * 64;
        one.receive(&[own.gather(at, 64)]).expect("posts");
        other
            .send(peer.gather(SOURCE, 20 + number as u32), Some(9))
            .expect("posts");
    }
    for number in 0..3 {
        let signal = Signal {
            at: own.remote(SIGNALS + number * 64),
            update: Update::Add(1 + number),
        };
        other.signal(signal).expect("posts");
    }
    other.quiet(SOON).expect("completes");
    let steps = script(&stage);
    let performance = own
        .endpoint
        .perform(&stage.executor, one, &steps, Placement::Any)
        .expect("starts");
    let (mut one, steps) = performance.finish(Duration::from_secs(60)).expect("ends");
    for (number, step) in steps.iter().enumerate() {
        assert_eq!(step.outcome, DONE, "step {number}: {:?}", step.cause());
    }
    for number in 0..9 {
        let message = other.wait_message(SOON).expect("comes");
        assert_eq!((message.length, message.immediate), (60, Some(40 + number)));
    }
    // The host goes on where the kernel stood.
    one.put_inline(b"behind", peer.remote(WRITTEN + 0x4_0000))
        .expect("posts");
    one.quiet(SOON).expect("completes");
    let trace = Trace {
        steps: steps
            .iter()
            .map(|step| (step.outcome, step.found, step.word))
            .collect(),
        written: peer.bytes(WRITTEN, 0x5_0000),
        signals: peer.bytes(SIGNALS, 64),
        fetched: own.bytes(TARGET, 0x1_0000),
    };
    // By hand: 90 puts and what followed.
    for (offset, count) in [(0, 90), (0x2_0000, 40), (0x3_0000, 40)] {
        for number in 0..count {
            let at = number * 64;
            let sent = own.bytes(SOURCE + at, 60);
            assert_eq!(
                peer.bytes(WRITTEN + offset + at, 60),
                sent,
                "{offset:#x} {number}"
            );
        }
    }
    assert_eq!(peer.word(SIGNALS), 139 + 40 * 2 + 5 * 1000);
    assert_eq!(peer.word(SIGNALS + 8), 55);
    assert_eq!(own.bytes(TARGET, 9000), peer.bytes(SOURCE, 9000));
    assert_eq!(own.word(TARGET + 0x8000), 0);
    assert_eq!(own.word(TARGET + 0x8008), 3);
    let found = |number: usize| (steps[number].found, steps[number].word);
    assert_eq!([found(11), found(12), found(13)], [(1, 0), (6, 0), (7, 0)]);
    assert_eq!(found(16), (41, 9));
    drop((one, other));
    stage.stop();
    trace
}
