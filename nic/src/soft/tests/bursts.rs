//! Many frames at once: order, and errors in the middle.

use warpwire_ring::mlx5::{Rx, Tx};
use warpwire_ring::{Cause, DeviceAddress, Post, PostFlags, Receive, Transmit};

use super::frames::{Build, packet};
use super::rig::{Rig, lost};
use crate::Nic;
use crate::soft::{AdapterConfig, Drop};

#[test]
fn bursts_keep_their_order_in_each_queue() {
    let config = AdapterConfig {
        queues: 4,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("bursts_keep_their_order_in_each_queue", 1, &config);
    let mut sent = Vec::new();
    for number in 0..300u16 {
        let build = Build {
            ports: (number % 7, 4791),
            payload: [20, 40, 300, 1, 200][usize::from(number) % 5],
            tcp: number % 3 == 0,
            ..Build::default()
        };
        let mut frame = packet(build).bytes;
        // Recognisable, in what nothing depends on: the IPv4 identification.
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        frame.resize(frame.len().max(60), 0);
        rig.hosts[0][0]
            .send(&frame, Default::default())
            .expect("room");
        sent.push(frame);
    }
    rig.hosts[0][0].kick().expect("rings");
    rig.run();
    let mut arrived = Vec::new();
    for queue in 0..4 {
        let mut last = 0;
        while let Some((frame, meta)) = rig.take(1, queue) {
            let number = u16::from_be_bytes([frame[18], frame[19]]);
            assert!(last <= number, "queue {queue}: {number} after {last}");
            assert_eq!(frame, sent[usize::from(number)], "{meta:?}");
            last = number;
            arrived.push(number);
        }
    }
    arrived.sort_unstable();
    assert_eq!(arrived, (0..300).collect::<Vec<_>>());
}

const FRAMES: u64 = 8;

/// Posts eight frames at once by the verbs themselves, with one WQE's key spoiled.
fn spoiled(name: &str, spoil_send: Option<u64>, spoil_receive: Option<u64>) -> (Rig, Tx, Rx) {
    let rig = Rig::pair(name, 1, &AdapterConfig::default());
    let (left, right) = (&rig.nics[0].queues()[0], &rig.nics[1].queues()[0]);
    // SAFETY: the rig's own hosts leave these queues alone in this test.
    let tx = unsafe { Tx::attach(&left.transmit) }.expect("attaches");
    // SAFETY: as above.
    let rx = unsafe { Rx::attach(&right.receive) }.expect("attaches");
    for index in 0..FRAMES {
        let address = tx.buffer(index).address;
        left.memory[1]
            .write(address, &[index as u8; 60])
            .expect("buffer");
        let last = index + 1 == FRAMES;
        let flags = if last {
            PostFlags::SIGNAL
        } else {
            PostFlags::empty()
        };
        let post = Post {
            address,
            length: 60,
            parts: 1,
            flags,
            ..Post::default()
        };
        tx.write(index, &post).expect("posts");
    }
    // The first word of a body is its ring; the key stands 4 bytes into a data segment.
    let ring = |block: &warpwire_ring::QueueBlock| DeviceAddress::new(block.body[0]);
    if let Some(index) = spoil_send {
        let key = ring(&left.transmit).offset(index * 64 + 36);
        left.memory[0].write(key, &[0; 4]).expect("ring");
    }
    if let Some(index) = spoil_receive {
        let key = ring(&right.receive).offset(index * 16 + 4);
        right.memory[0].write(key, &[0; 4]).expect("ring");
    }
    tx.publish(FRAMES);
    tx.ring(FRAMES);
    (rig, tx, rx)
}

fn first_byte(rig: &Rig, rx: &Rx, index: u64) -> Result<u8, Cause> {
    assert!(rx.owned(index).is_ready, "slot {index}");
    rx.observe();
    let segment = rx.segment(index, 0);
    if segment.fault() {
        return Err(rx.fault(index));
    }
    let mut byte = [0];
    let memory = &rig.nics[1].queues()[0].memory;
    memory[1].read(segment.address, &mut byte).expect("buffer");
    Ok(byte[0])
}

#[test]
fn a_send_that_is_refused_keeps_its_place_in_the_burst() {
    let (mut rig, tx, rx) = spoiled("a_send_that_is_refused_keeps_its_place", Some(3), None);
    rig.run();
    let arrived: Vec<u8> = (0..7)
        .filter_map(|slot| first_byte(&rig, &rx, slot).ok())
        .collect();
    assert_eq!(arrived, [0, 1, 2, 4, 5, 6, 7]);
    assert!(!rx.owned(7).is_ready);
    let error = tx.completion(0, 0).expect("the error");
    assert_eq!((error.upto, error.fault), (4, Some(Cause::LocalProtection)));
    let last = tx.completion(1, 4).expect("the last");
    assert_eq!((last.upto, last.fault), (FRAMES, None));
    let counters = rig.counters(0);
    assert_eq!(
        (counters.tx_frames, lost(&counters, Drop::SendDenied)),
        (7, 1)
    );
}

#[test]
fn a_receive_that_is_refused_keeps_its_place_in_the_burst() {
    let (mut rig, _, rx) = spoiled("a_receive_that_is_refused_keeps_its_place", None, Some(2));
    rig.run();
    let arrived: Vec<_> = (0..FRAMES)
        .map(|slot| first_byte(&rig, &rx, slot))
        .collect();
    let mut want: Vec<_> = (0..8).map(Ok).collect();
    want[2] = Err(Cause::LocalProtection);
    assert_eq!(arrived, want);
    let counters = rig.counters(1);
    assert_eq!(
        (counters.rx_frames, lost(&counters, Drop::ReceiveDenied)),
        (7, 1)
    );
}
