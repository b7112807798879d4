//! Frames from queue to queue: whole, in order, counted.

use std::collections::VecDeque;

use warpwire_ring::Cause;

use super::frames::plain;
use super::rig::{Rig, lost, other, seeds};
use warpwire_gpu::Service;

use crate::Nic;
use crate::host_port::SendOptions;
use crate::soft::{AdapterConfig, Dice, Drop};

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn random_operations_meet_a_naive_model() {
    for seed in seeds(64) {
        let mut dice = Dice::new(seed);
        let segments = 1 << dice.below(3);
        let config = AdapterConfig {
            depth: 2 << dice.below(5),
            segments,
            slot_bytes: 512,
            max_frame_bytes: 700,
            ..AdapterConfig::default()
        };
        random_run(seed, &mut dice, &config);
    }
}

/// One direction of a cable. The naive model is a list of frames on their way and one of frames
/// that arrived.
fn random_run(seed: u64, dice: &mut Dice, config: &AdapterConfig) {
    let mut rig = Rig::pair("random_operations_meet_a_naive_model", seed, config);
    let depth = config.depth as usize;
    let (mut sent, mut arrived) = (VecDeque::new(), VecDeque::new());
    let (mut no_slot, mut too_long, mut runts, mut delivered) = (0, 0, 0, 0);
    for _ in 0..300 {
        match dice.below(4) {
            0 | 1 => {
                let length = 1 + dice.below(540) as usize;
                let parts = 1 + dice.below(4) as u32;
                let frame: Vec<u8> = (0..length).map(|_| dice.roll() as u8).collect();
                let options = SendOptions {
                    parts,
                    ..SendOptions::default()
                };
                match rig.send_with(0, &frame, options) {
                    Ok(()) if length < 14 => runts += 1,
                    Ok(()) => sent.push_back(frame),
                    Err(Cause::NoResource | Cause::FrameTooLong) => {}
                    Err(cause) => panic!("{cause}"),
                }
            }
            2 => {
                rig.run();
                for frame in sent.drain(..) {
                    if arrived.len() == depth {
                        no_slot += 1;
                    } else if frame.len() > config.slot_bytes as usize {
                        too_long += 1;
                    } else {
                        arrived.push_back(padded(frame));
                        delivered += 1;
                    }
                }
            }
            _ => {
                for _ in 0..dice.below(8) {
                    let got = rig.take(1, 0).map(|(frame, _)| frame);
                    assert_eq!(got, arrived.pop_front());
                }
            }
        }
    }
    rig.run();
    let (left, right) = (rig.counters(0), rig.counters(1));
    let waiting = sent.len() as u64;
    assert_eq!(lost(&left, Drop::Runt), runts);
    assert_eq!(left.tx_frames, right.rx_frames + right.dropped());
    assert!(right.rx_frames >= delivered && right.rx_frames <= delivered + waiting);
    assert!(lost(&right, Drop::NoReceiveSlot) >= no_slot);
    assert!(lost(&right, Drop::TooLongForSlot) >= too_long);
}

#[test]
fn frames_larger_than_a_segment_span_several() {
    let config = AdapterConfig {
        segments: 4,
        slot_bytes: 2048,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("frames_larger_than_a_segment_span_several", 1, &config);
    for length in [60, 512, 513, 1024, 1025, 1518] {
        let frame: Vec<u8> = (0..length).map(|n| (n * 3) as u8).collect();
        rig.send(0, &frame).expect("sends");
        rig.run();
        let (got, _) = rig.take(1, 0).expect("arrives");
        assert_eq!(got, frame, "{length} bytes");
    }
}

#[test]
fn a_frame_longer_than_the_port_passes_is_counted() {
    let config = AdapterConfig {
        max_frame_bytes: 100,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("a_frame_longer_than_the_port_passes_is_counted", 1, &config);
    for length in [100, 101] {
        rig.send(0, &vec![7; length]).expect("sends");
    }
    rig.run();
    assert_eq!(rig.take_all(1).len(), 1);
    let counters = rig.counters(0);
    assert_eq!(
        (counters.tx_frames, lost(&counters, Drop::TooLongForPort)),
        (1, 1)
    );
}

#[test]
fn the_switch_floods_learns_and_never_sends_back() {
    let config = AdapterConfig::default();
    let mut rig = Rig::new(
        "the_switch_floods_learns_and_never_sends_back",
        1,
        &[config.clone(), config.clone(), config],
    );
    let mac: Vec<[u8; 6]> = rig.nics.iter().map(Nic::mac).collect();
    let stranger = [2, 9, 9, 9, 9, 9];
    let cases: [(&str, usize, [u8; 6], [usize; 3]); 5] = [
        ("broadcast", 0, [0xff; 6], [0, 1, 1]),
        ("known", 0, mac[2], [0, 0, 1]),
        ("unknown", 1, stranger, [1, 0, 1]),
        ("itself", 1, mac[1], [0, 0, 0]),
        ("group", 2, [0x33, 0x33, 0, 0, 0, 1], [1, 1, 0]),
    ];
    for (name, from, to, want) in cases {
        rig.send(from, &plain(to, mac[from], &[1; 50]))
            .expect("sends");
        rig.run();
        let got: Vec<usize> = (0..3).map(|nic| rig.take_all(nic).len()).collect();
        assert_eq!(got, want, "{name}");
    }
    // The stranger speaks from behind port 2: from now on it is there.
    rig.send(2, &plain(mac[0], stranger, &[1; 50]))
        .expect("sends");
    rig.send(1, &plain(stranger, mac[1], &[1; 50]))
        .expect("sends");
    rig.run();
    let got: Vec<usize> = (0..3).map(|nic| rig.take_all(nic).len()).collect();
    assert_eq!(got, [1, 0, 1], "learned");
    assert_eq!(lost(&rig.counters(1), Drop::NoPort), 1, "to itself");
}

#[test]
fn a_loop_returns_frames_and_a_lonely_port_counts_them() {
    let mut rig = Rig::new(
        "a_loop_returns_frames_and_a_lonely_port_counts_them",
        1,
        &[AdapterConfig::default()],
    );
    let frame = plain([0xff; 6], [2; 6], &[3; 50]);
    rig.send(0, &frame).expect("sends");
    rig.run();
    assert_eq!(lost(&rig.counters(0), Drop::NoPort), 1);
    let port = rig.nics[0].port();
    rig.fabric.cable(port, port);
    rig.send(0, &frame).expect("sends");
    rig.run();
    assert_eq!(rig.take(0, 0).map(|(got, _)| got), Some(frame));
}

#[test]
fn a_closed_nic_leaves_nothing_behind() {
    let config = AdapterConfig::default();
    let mut rig = Rig::new(
        "a_closed_nic_leaves_nothing_behind",
        1,
        &[config.clone(), config],
    );
    let mac = rig.nics[1].mac();
    rig.hosts.pop();
    let gone = rig.nics.pop().expect("two");
    Box::new(gone).close().expect("closes");
    rig.send(0, &plain(mac, [2; 6], &[1; 50])).expect("sends");
    rig.run();
    assert_eq!(
        lost(&rig.counters(0), Drop::NoPort),
        1,
        "nobody is left to flood to"
    );
}

#[test]
fn words_open_nics_and_wrong_ones_name_the_cure() {
    let open = |words: &str| crate::soft::open(&words.parse().expect("words"));
    let nic = open("soft:left,queues=2,depth=256,slot=4096,segments=2,mtu=3000,peer=loop,seed=9");
    let nic = nic.expect("opens");
    assert_eq!((nic.caps().queues, nic.caps().max_frame_bytes), (2, 3018));
    assert_eq!(nic.queues().len(), 2);
    let cases = [
        ("soft,depth=100", "depth=128"),
        ("soft,slot=100", "slot=128"),
        ("soft,mtu=9000", "slot=9024"),
        ("soft,peer=eth0", "peer=loop"),
        ("soft,colour=red", "colour"),
        ("soft,loss_ppm=1000001", "0 to 1000000"),
    ];
    for (words, cure) in cases {
        let error = open(words).err().expect(words).to_string();
        assert!(error.contains(cure), "{words}: {error}");
    }
}

#[test]
fn services_are_given_out_once_a_fabric() {
    let config = AdapterConfig::default();
    let mut rig = Rig::new(
        "services_are_given_out_once_a_fabric",
        1,
        &[config.clone(), config],
    );
    let counts: Vec<usize> = rig
        .nics
        .iter_mut()
        .map(|nic| nic.take_services().len())
        .collect();
    assert_eq!(counts, [1, 0]);
    assert_eq!(rig.nics[0].take_services().len(), 0);
    assert_eq!(other(&rig.counters(0), "doorbells"), 0);
}

/// Real concurrency: what the driver reads behind a completion is what was sent.
#[test]
fn a_model_on_its_own_thread_changes_no_frame() {
    const FRAMES: u64 = 20_000;
    let config = AdapterConfig {
        depth: 64,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("a_model_on_its_own_thread_changes_no_frame", 1, &config);
    let mut service = rig.fabric.service();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let frame = |number: u64| {
        // Short and long, by the short way and by the long one.
        let words = 8 + (number * 7919) % 60;
        let word = |at: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at).to_be_bytes();
        (0..words).flat_map(word).collect::<Vec<u8>>()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if service.run(32) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let _ends = StopOnDrop(&stop);
        let (mut sent, mut taken) = (0, 0);
        while taken < FRAMES {
            if sent < FRAMES && sent - taken < 48 && rig.send(0, &frame(sent)).is_ok() {
                sent += 1;
            }
            match rig.take(1, 0) {
                Some((got, _)) => {
                    assert_eq!(got, frame(taken), "frame {taken}");
                    taken += 1;
                }
                None => std::thread::yield_now(),
            }
        }
    });
    assert_eq!(rig.counters(1).rx_frames, FRAMES);
}

/// Also a failed assertion ends the other thread.
struct StopOnDrop<'a>(&'a std::sync::atomic::AtomicBool);

impl std::ops::Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
