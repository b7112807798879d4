//! Congestion: marks on the way come back as notifications, and slow the sender.

use warpwire::pipelines::messaging::EndpointConfig;
use warpwire_engine::tables::EngineCounters;
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Note, Tuning};

use crate::ends::{Mode, Plan, SOURCE, Stage, WRITTEN};

/// Of the link, in kbit/s.
const LINE: u32 = 10_000_000;

fn noted(counters: &EngineCounters) -> u64 {
    counters.notes[Note::Congestion as usize]
}

/// Puts a megabyte a few times; what the sender's rate is then, and the notifications that it got.
fn put(mode: Mode, ecn_ppm: u32) -> (u32, u32, u64) {
    let plan = Plan {
        link: Impairments {
            ecn_ppm,
            ..Impairments::default()
        },
        config: EndpointConfig {
            tuning: Tuning::of_link(LINE),
            ..EndpointConfig::default()
        },
        ..Plan::timeless(mode)
    };
    let stage = Stage::new(&plan);
    let [mut one, other] = stage.pairs();
    assert_eq!(
        one.rate().kbits,
        LINE,
        "{mode:?}: it begins with the link's"
    );
    let [own, peer] = &stage.sides;
    own.fill(SOURCE, 1 << 20, 5);
    for _ in 0..4 {
        let ticket = one.put(own.gather(SOURCE, 1 << 20), peer.remote(WRITTEN));
        let ticket = ticket.expect("posts");
        let limit = std::time::Duration::from_secs(30);
        one.wait_for(ticket, limit).expect("arrives");
    }
    assert_eq!(peer.bytes(WRITTEN, 1 << 20), own.bytes(SOURCE, 1 << 20));
    let rate = one.rate();
    let noted = noted(&own.endpoint.counters());
    drop((one, other));
    stage.stop();
    (rate.kbits, rate.congestion, noted)
}

#[test]
fn marks_slow_the_sender_and_its_rate_can_be_read() {
    for mode in Mode::ALL {
        let (rate, congestion, noted) = put(mode, 200_000);
        assert!(noted > 0, "{mode:?}: no notification came");
        assert!(rate < LINE, "{mode:?}: {rate} kbit/s");
        assert!(congestion > 0, "{mode:?}");
        let (rate, _, noted) = put(mode, 0);
        assert_eq!((rate, noted), (LINE, 0), "{mode:?}");
    }
}
