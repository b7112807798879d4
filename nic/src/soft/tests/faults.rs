//! Every fault of the device, seen from the driver.

use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_ring::{Cause, Location};

use super::frames::plain;
use super::rig::{Rig, lost, other, seeds};
use crate::soft::{AdapterConfig, Drop, ErrorCompletion, Faults, Schedule};

fn frame(number: u8) -> Vec<u8> {
    plain([2; 6], [4; 6], &[number; 50])
}

fn numbers(taken: &[(Vec<u8>, warpwire_ring::Meta)]) -> Vec<u8> {
    taken.iter().map(|(frame, _)| frame[20]).collect()
}

fn syndromes() -> impl Iterator<Item = Cause> {
    Cause::ALL
        .iter()
        .copied()
        .filter(|cause| cause.syndrome().is_some())
}

#[test]
fn send_errors_of_each_syndrome_reach_the_driver() {
    for (cause, flush) in syndromes().flat_map(|cause| [(cause, 0), (cause, 2)]) {
        let mut rig = Rig::pair(
            "send_errors_of_each_syndrome_reach_the_driver",
            1,
            &AdapterConfig::default(),
        );
        let when = Schedule::At(3);
        let send_error = ErrorCompletion { when, cause, flush };
        rig.nics[0].disturb(Faults {
            send_error,
            ..Faults::default()
        });
        let mut causes = Vec::new();
        for number in 0..10 {
            rig.hosts[0][0]
                .send(&frame(number), Default::default())
                .expect("room");
            causes.extend(rig.hosts[0][0].kick().err());
            rig.run();
        }
        causes.extend(rig.hosts[0][0].kick().err());
        let mut want = vec![cause];
        want.extend(vec![Cause::Flushed; flush as usize]);
        assert_eq!(causes, want, "{cause} flush {flush}");
        let arrived: Vec<u8> = (0..10)
            .filter(|n| !(3..4 + flush as u8).contains(n))
            .collect();
        assert_eq!(numbers(&rig.take_all(1)), arrived, "{cause} flush {flush}");
        let counters = rig.counters(0);
        assert_eq!(lost(&counters, Drop::SendFault), 1);
        assert_eq!(lost(&counters, Drop::Flushed), u64::from(flush));
        assert_eq!(other(&counters, "error completions"), u64::from(flush) + 1);
    }
}

#[test]
fn receive_errors_of_each_syndrome_reach_the_driver() {
    for (cause, flush) in syndromes().flat_map(|cause| [(cause, 0), (cause, 3)]) {
        let mut rig = Rig::pair(
            "receive_errors_of_each_syndrome_reach_the_driver",
            1,
            &AdapterConfig::default(),
        );
        let when = Schedule::At(2);
        let receive_error = ErrorCompletion { when, cause, flush };
        rig.nics[1].disturb(Faults {
            receive_error,
            ..Faults::default()
        });
        for number in 0..10 {
            rig.send(0, &frame(number)).expect("sends");
        }
        rig.run();
        let arrived: Vec<u8> = (0..10)
            .filter(|n| !(2..3 + flush as u8).contains(n))
            .collect();
        assert_eq!(numbers(&rig.take_all(1)), arrived, "{cause} flush {flush}");
        let (faults, last) = rig.hosts[1][0].receive_faults();
        assert_eq!(faults, u64::from(flush) + 1);
        assert_eq!(last, Some(if flush > 0 { Cause::Flushed } else { cause }));
        let counters = rig.counters(1);
        assert_eq!(counters.dropped(), u64::from(flush) + 1);
        assert_eq!(counters.rx_frames, arrived.len() as u64);
    }
}

#[test]
fn payload_may_come_after_its_completion() {
    let mut rig = Rig::pair(
        "payload_may_come_after_its_completion",
        1,
        &AdapterConfig::default(),
    );
    let late = Faults {
        payload_late: Schedule::Every(2),
        payload_late_ns: 100,
        ..Faults::default()
    };
    rig.nics[1].disturb(late);
    for number in 1..5 {
        rig.send(0, &frame(number)).expect("sends");
    }
    rig.run();
    assert_eq!(
        numbers(&rig.take_all(1)),
        [1, 0, 3, 0],
        "two are read too early"
    );
    assert_eq!(rig.fabric.next_event_ns(), Some(100));
    assert_eq!(other(&rig.counters(1), "payloads late"), 2);
    rig.send(0, &frame(9)).expect("sends");
    rig.run();
    assert_eq!(numbers(&rig.take_all(1)), [9]);
    rig.send(0, &frame(10)).expect("sends");
    rig.run();
    rig.run_out();
    assert_eq!(
        numbers(&rig.take_all(1)),
        [10],
        "after its time the payload is there"
    );
}

#[test]
fn late_payload_never_overwrites_a_newer_frame() {
    let config = AdapterConfig {
        depth: 2,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("late_payload_never_overwrites_a_newer_frame", 1, &config);
    let late = Faults {
        payload_late: Schedule::At(0),
        payload_late_ns: 1000,
        ..Faults::default()
    };
    rig.nics[1].disturb(late);
    for (number, seen) in [(1, 0), (2, 2)] {
        rig.send(0, &frame(number)).expect("sends");
        rig.run();
        assert_eq!(numbers(&rig.take_all(1)), [seen], "frame {number}");
    }
    // The third frame is in the first one's buffer when that one's payload is due.
    rig.send(0, &frame(3)).expect("sends");
    rig.run();
    rig.turn_to(2_000);
    rig.run();
    assert_eq!(numbers(&rig.take_all(1)), [3]);
}

#[test]
fn a_lost_doorbell_is_made_good_by_the_next() {
    let mut rig = Rig::pair(
        "a_lost_doorbell_is_made_good_by_the_next",
        1,
        &AdapterConfig::default(),
    );
    rig.nics[0].disturb(Faults {
        doorbell_lost: Schedule::At(1),
        ..Faults::default()
    });
    let mut arrived = Vec::new();
    for number in 0..4 {
        rig.send(0, &frame(number)).expect("sends");
        rig.run();
        arrived.push(rig.take_all(1).len());
    }
    assert_eq!(arrived, [1, 0, 2, 1]);
    assert_eq!(other(&rig.counters(0), "doorbells lost"), 1);
}

#[test]
fn a_stall_ends_at_its_time() {
    let mut rig = Rig::pair("a_stall_ends_at_its_time", 1, &AdapterConfig::default());
    let stall = Faults {
        stall: Schedule::At(0),
        stall_ns: 5_000,
        ..Faults::default()
    };
    rig.nics[0].disturb(stall);
    rig.send(0, &frame(1)).expect("sends");
    rig.run();
    assert_eq!(rig.take_all(1).len(), 0);
    rig.turn_to(4_999);
    rig.run();
    assert_eq!(rig.take_all(1).len(), 0);
    assert_eq!(rig.fabric.next_event_ns(), Some(5_000));
    rig.turn_to(5_000);
    rig.run();
    assert_eq!(rig.take_all(1).len(), 1);
}

#[test]
fn memory_that_was_taken_back_is_refused() {
    let mut rig = Rig::pair(
        "memory_that_was_taken_back_is_refused",
        1,
        &AdapterConfig::default(),
    );
    let arena = Arc::new(Arena::new(4096, Location::Device).expect("maps"));
    let region = rig.fabric.register(&arena, false);
    assert!(rig.fabric.revoke(region.key) && !rig.fabric.revoke(region.key));
    // The second key of the first NIC opens its buffers.
    let keys: Vec<u32> = {
        let mut core = rig.fabric.lock();
        let adapter = core.adapter_at(rig.nics[0].port()).expect("there");
        adapter.keys.clone()
    };
    assert!(rig.fabric.revoke(keys[1]));
    rig.hosts[0][0]
        .send(&frame(1), Default::default())
        .expect("room");
    rig.hosts[0][0].kick().expect("nothing yet");
    rig.run();
    assert_eq!(rig.hosts[0][0].kick(), Err(Cause::LocalProtection));
    assert_eq!(lost(&rig.counters(0), Drop::SendDenied), 1);
    // And without its rings the queue stands still: no access, no end.
    assert!(rig.fabric.revoke(keys[0]));
    rig.hosts[0][0]
        .send(&frame(2), Default::default())
        .expect("room");
    rig.hosts[0][0].kick().expect("nothing");
    rig.run();
    assert_eq!(other(&rig.counters(0), "queues broken"), 1);
    rig.send(1, &frame(3)).expect("sends");
    rig.run();
    assert_eq!(lost(&rig.counters(0), Drop::ReceiveQueueBroken), 1);
}

#[test]
fn faults_together_lose_nothing_uncounted() {
    for seed in seeds(64) {
        let config = AdapterConfig {
            depth: 64,
            ..AdapterConfig::default()
        };
        let mut rig = Rig::pair("faults_together_lose_nothing_uncounted", seed, &config);
        let errors = |cause, flush| ErrorCompletion {
            when: Schedule::Chance(50_000),
            cause,
            flush,
        };
        let faults = Faults {
            send_error: errors(Cause::LocalLength, 2),
            receive_error: errors(Cause::LocalAccess, 1),
            payload_late: Schedule::Chance(100_000),
            payload_late_ns: 50,
            doorbell_lost: Schedule::Chance(100_000),
            stall: Schedule::Chance(50_000),
            stall_ns: 200,
        };
        rig.nics.iter().for_each(|nic| nic.disturb(faults));
        let (mut sent, mut taken) = (0, 0);
        for number in 0..400u64 {
            rig.turn_to(number * 10);
            let host = &mut rig.hosts[0][0];
            sent += u64::from(host.send(&frame(number as u8), Default::default()).is_ok());
            let _ = host.kick();
            rig.run();
            taken += rig.take_all(1).len() as u64;
        }
        rig.nics
            .iter()
            .for_each(|nic| nic.disturb(Faults::default()));
        // One more doorbell makes up for a last one that was lost.
        while rig.hosts[0][0].send(&frame(0), Default::default()).is_err() {
            rig.run_out();
        }
        sent += 1;
        let _ = rig.hosts[0][0].kick();
        rig.run_out();
        taken += rig.take_all(1).len() as u64;
        let lost = rig.counters(0).dropped() + rig.counters(1).dropped();
        assert!(taken > 200 && lost > 10, "taken {taken} lost {lost}");
        assert_eq!(sent, taken + lost);
    }
}
