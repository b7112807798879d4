//! Receive leases.

use warpwire_device::Scalar;
use warpwire_ring::Cause;

use crate::desk::{Desk, frame};
use crate::each;
use crate::model::bytes;
use crate::wires::{Memif, STARTS, Server, Wire, Xdp, rx_cursor};

mod check {
    use super::*;

    /// Nobody gets a slot back while it is lent; what is in it stays.
    pub(crate) fn lent_slots_do_not_change<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            for number in 0..8 {
                assert!(
                    wire.has_room() && wire.deliver(&frame(number, 60)),
                    "room for depth"
                );
            }
            assert!(!wire.has_room());
            assert!(!wire.deliver(&frame(8, 60)), "no room for depth plus one");
            let first = rx.peek(&simt, 3).unwrap();
            let second = rx.peek(&simt, 64).unwrap();
            assert_eq!((first.slots(), second.slots()), (3, 5));
            assert_eq!(rx.lent(), 8);
            assert!(!wire.deliver(&frame(9, 60)), "all slots are lent");
            for (batch, base) in [(&first, 0), (&second, 3)] {
                for i in 0..batch.slots() {
                    assert_eq!(bytes(&rx, batch, i), Some(frame(base + u64::from(i), 60)));
                }
            }
            rx.release(&simt, first);
            for number in 10..13 {
                assert!(wire.deliver(&frame(number, 60)), "three slots are back");
            }
            assert!(!wire.deliver(&frame(13, 60)), "not a fourth");
            for i in 0..5 {
                let want = Some(frame(3 + u64::from(i), 60));
                assert_eq!(bytes(&rx, &second, i), want, "start {start}");
            }
            rx.release(&simt, second);
            assert_eq!(rx.lent(), 0);
            assert_eq!((rx.cursor().frames, rx.cursor().bytes), (8, 480));
            let watched = rx_cursor(&wire);
            assert_eq!(
                (watched.frames, watched.bytes),
                (8, 480),
                "the host sees it"
            );
        }
    }

    pub(crate) fn a_batch_is_a_prefix<W: Wire>() {
        let mut wire = W::new(64, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut rx = wire.receiver();
        assert!(rx.peek(&simt, 32).unwrap().is_empty());
        assert!(rx.peek(&simt, 0).unwrap().is_empty());
        for number in 0..5 {
            wire.deliver(&frame(number, 64));
        }
        let batch = rx.peek(&simt, 32).unwrap();
        assert_eq!((batch.slots(), batch.frames(), batch.first()), (5, 5, 0));
        assert!(rx.frame(&batch, 5).is_none(), "beyond the end");
        assert!(rx.peek(&simt, 32).unwrap().is_empty(), "taken once");
        rx.release(&simt, batch);
    }

    pub(crate) fn batches_out_of_order_go_back_in_order<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(4, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            for number in 0..4 {
                assert!(wire.deliver(&frame(number, 60)));
            }
            let first = rx.peek(&simt, 2).unwrap();
            let second = rx.peek(&simt, 2).unwrap();
            rx.release(&simt, second);
            assert!(rx.peek(&simt, 1).unwrap().is_empty());
            assert_eq!(rx.cursor().released, start, "the first is still out");
            assert!(!wire.deliver(&frame(4, 60)));
            rx.release(&simt, first);
            assert!(rx.peek(&simt, 1).unwrap().is_empty());
            assert_eq!(rx.cursor().released, start + 4);
            for number in 4..8 {
                assert!(wire.deliver(&frame(number, 60)));
            }
        }
    }

    pub(crate) fn leases_go_back_in_order<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            for number in 0..8 {
                assert!(wire.deliver(&frame(number, 60)));
            }
            let batch = rx.peek(&simt, 8).unwrap();
            let lent = rx.lend(&simt, batch);
            let mut leases: Vec<_> = (0..8).map(|i| lent.lease(i)).collect();
            for (i, back) in [
                (1, 0),
                (2, 0),
                (0, 3),
                (7, 3),
                (3, 4),
                (5, 4),
                (6, 4),
                (4, 8),
            ] {
                let lease = leases[i].take().expect("leased once");
                let seen = rx.reader().leased(&lease).expect("readable");
                let mut bytes = vec![0; seen.length() as usize];
                rx.copy_out(&seen, 0, &mut bytes);
                assert_eq!(bytes, frame(i as u64, 60));
                rx.reader().give_back(lease);
                rx.collect(&simt);
                assert_eq!(rx.cursor().released - start, back, "after lease {i}");
            }
            for number in 8..16 {
                assert!(wire.deliver(&frame(number, 60)));
            }
            assert_eq!(rx.peek(&simt, 64).unwrap().slots(), 8);
        }
    }

    pub(crate) fn faults_are_counted_and_given_back<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            assert!(wire.deliver(&frame(0, 60)));
            let cause = wire.deliver_bad();
            assert!(wire.deliver(&frame(1, 60)));
            let batch = rx.peek(&simt, 64).unwrap();
            assert_eq!((batch.slots(), batch.frames()), (3, 2));
            assert_eq!(bytes(&rx, &batch, 0), Some(frame(0, 60)));
            assert_eq!(bytes(&rx, &batch, 1), None);
            assert_eq!(bytes(&rx, &batch, 2), Some(frame(1, 60)));
            let cursor = rx.cursor();
            assert_eq!((cursor.frames, cursor.bytes, cursor.faults), (2, 120, 1));
            assert_eq!(Cause::from_number(cursor.last_cause), Some(cause));
            rx.release(&simt, batch);

            // The same, as leases: the bad slot goes back without one.
            wire.deliver_bad();
            assert!(wire.deliver(&frame(2, 60)));
            let batch = rx.peek(&simt, 64).unwrap();
            let lent = rx.lend(&simt, batch);
            assert!(lent.lease(0).is_none());
            let lease = lent.lease(1).expect("readable");
            rx.collect(&simt);
            assert_eq!(rx.lent(), 1, "the bad slot is back");
            rx.reader().give_back(lease);
            rx.collect(&simt);
            assert_eq!(rx.lent(), 0);
            for number in 0..8 {
                assert!(wire.deliver(&frame(number, 60)), "no slot was lost");
            }
        }
    }

    pub(crate) fn long_frames_come_whole<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(16, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            let length = wire.slot_bytes() * 3 + 17;
            let slots = wire.slots_for(length);
            if slots < 4 {
                return;
            }
            for round in 0..9 {
                assert!(wire.deliver(&frame(round, 60)));
                assert!(wire.deliver(&frame(round + 100, length)));
                assert!(wire.deliver(&frame(round + 200, 61)));
                // Two slots cut the long frame: it is not split. By itself it is longer than asked.
                let short = rx.peek(&simt, 2).unwrap();
                assert_eq!((short.slots(), short.frames()), (1, 1));
                let long = rx.peek(&simt, 2).unwrap();
                assert_eq!((long.slots(), long.frames()), (4, 1), "round {round}");
                let rest = rx.peek(&simt, 2).unwrap();
                assert_eq!((rest.slots(), rest.frames()), (1, 1));
                assert_eq!(bytes(&rx, &long, 0), Some(frame(round + 100, length)));
                assert!((1..4).all(|i| rx.frame(&long, i).is_none()));
                assert_eq!(bytes(&rx, &rest, 0), Some(frame(round + 200, 61)));
                let head = rx.frame(&long, 0).expect("readable");
                assert_eq!((head.slots(), head.is_contiguous()), (4, false));
                assert_eq!(head.available() as usize, wire.slot_bytes());
                for batch in [short, long, rest] {
                    rx.release(&simt, batch);
                }
            }
            assert_eq!(rx.cursor().frames, 27);
            assert_eq!(rx.lent(), 0);
        }
    }

    pub(crate) fn frames_that_are_too_long_are_dropped<W: Wire>() {
        let mut wire = W::new(16, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut rx = wire.receiver().limit_frames(2);
        let length = wire.slot_bytes() * 2 + 1;
        if wire.slots_for(length) != 3 {
            return;
        }
        for round in 0..20 {
            assert!(wire.deliver(&frame(0, length)));
            assert!(wire.deliver(&frame(1, 60)));
            assert!(wire.deliver(&frame(2, length)));
            assert!(wire.deliver(&frame(3, length - 1)));
            let mut got = Vec::new();
            while let batch = rx.peek(&simt, 64).unwrap()
                && !batch.is_empty()
            {
                got.extend((0..batch.slots()).filter_map(|i| bytes(&rx, &batch, i)));
                rx.release(&simt, batch);
            }
            assert_eq!(got, [frame(1, 60), frame(3, length - 1)], "round {round}");
            assert_eq!(rx.cursor().too_long, 2 * (round + 1));
            assert_eq!(rx.lent(), 0, "their slots go back");
        }
        let cause = Cause::from_number(rx.cursor().last_cause);
        assert_eq!(cause, Some(Cause::FrameTooLong));
    }

    pub(crate) fn an_impossible_index_is_told<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            assert!(wire.deliver(&frame(0, 60)));
            let batch = rx.peek(&simt, 8).unwrap();
            assert_eq!(batch.slots(), 1);
            if !wire.break_receive() {
                return;
            }
            for _ in 0..2 {
                assert_eq!(rx.peek(&simt, 8).err(), Some(Cause::RingCorrupted));
            }
            assert_eq!(bytes(&rx, &batch, 0), Some(frame(0, 60)));
            let cause = Cause::from_number(rx.cursor().last_cause);
            assert_eq!(cause, Some(Cause::RingCorrupted));
        }
    }

    pub(crate) fn an_unread_batch_can_be_put_back<W: Wire>() {
        let mut wire = W::new(8, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut rx = wire.receiver();
        for number in 0..4 {
            assert!(wire.deliver(&frame(number, 60 + number as usize)));
        }
        wire.deliver_bad();
        let first = rx.peek(&simt, 2).unwrap();
        let second = rx.peek(&simt, 8).unwrap();
        let first = rx.put_back(&simt, first).expect_err("not the last one");
        rx.put_back(&simt, second).expect("the last one");
        assert_eq!((rx.cursor().frames, rx.cursor().bytes), (2, 121));
        assert_eq!(rx.cursor().faults, 0);
        let again = rx.peek(&simt, 8).unwrap();
        assert_eq!((again.slots(), again.frames()), (3, 2));
        assert_eq!(bytes(&rx, &again, 1), Some(frame(3, 63)));
        rx.release(&simt, first);
        rx.release(&simt, again);
        assert_eq!((rx.cursor().frames, rx.cursor().faults), (4, 1));
        let empty = rx.peek(&simt, 8).unwrap();
        assert!(rx.put_back(&simt, empty).is_ok());
    }

    /// A kernel ends with slots lent; the next one goes on.
    pub(crate) fn the_next_kernel_goes_on<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut rx = wire.receiver();
            for number in 0..6 {
                assert!(wire.deliver(&frame(number, 60)));
            }
            let batch = rx.peek(&simt, 3).unwrap();
            let lent = rx.lend(&simt, batch);
            let leases: Vec<_> = (0..3).filter_map(|i| lent.lease(i)).collect();
            rx.save(&simt);
            let mut rx = wire.receiver();
            assert_eq!((rx.lent(), rx.cursor().frames), (3, 3));
            let rest = rx.peek(&simt, 8).unwrap();
            assert_eq!(bytes(&rx, &rest, 0), Some(frame(3, 60)));
            for lease in leases {
                rx.reader().give_back(lease);
            }
            rx.release(&simt, rest);
            assert!(rx.peek(&simt, 8).unwrap().is_empty());
            assert_eq!((rx.lent(), rx.cursor().frames), (0, 6));
        }
    }
}

each! {
    lent_slots_do_not_change,
    a_batch_is_a_prefix,
    batches_out_of_order_go_back_in_order,
    leases_go_back_in_order,
    faults_are_counted_and_given_back,
    long_frames_come_whole,
    frames_that_are_too_long_are_dropped,
    an_impossible_index_is_told,
    an_unread_batch_can_be_put_back,
    the_next_kernel_goes_on,
}

/// A peer that publishes the pieces of a frame one by one.
#[test]
fn a_frame_is_seen_when_its_last_piece_is_there() {
    let mut wire = Memif::<Server>::new(16, (1 << 16) - 5);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut rx = wire.receiver();
    for round in 0..10 {
        let whole = frame(round, 256 * 2 + 9);
        let pieces: Vec<&[u8]> = whole.chunks(256).collect();
        assert!(wire.deliver(&frame(99, 60)));
        assert!(wire.deliver_part(&pieces[..1], false));
        let batch = rx.peek(&simt, 64).unwrap();
        assert_eq!(batch.slots(), 1, "only what is whole");
        rx.release(&simt, batch);
        assert!(wire.deliver_part(&pieces[1..2], false));
        assert!(rx.peek(&simt, 64).unwrap().is_empty());
        assert!(wire.deliver_part(&pieces[2..], true));
        let batch = rx.peek(&simt, 64).unwrap();
        assert_eq!((batch.slots(), batch.frames()), (3, 1));
        assert_eq!(bytes(&rx, &batch, 0), Some(whole.clone()));
        rx.release(&simt, batch);
    }
}

/// A peer that never ends its frame: nothing is delivered, everything goes back, nobody hangs.
#[test]
fn an_endless_frame_is_one_that_is_too_long() {
    let mut wire = Memif::<Server>::new(8, 0);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut rx = wire.receiver();
    let mut sent = 0;
    for _ in 0..50 {
        while wire.deliver_part(&[&[7; 64]], false) {
            sent += 1;
        }
        assert!(rx.peek(&simt, 64).unwrap().is_empty());
    }
    assert!(sent > 200, "slots go back: {sent}");
    assert_eq!((rx.cursor().too_long, rx.cursor().frames), (1, 0));
    assert!(wire.deliver_part(&[&[7; 64]], true));
    assert!(wire.deliver(&frame(1, 60)));
    let batch = rx.peek(&simt, 64).unwrap();
    assert_eq!(bytes(&rx, &batch, 0), Some(frame(1, 60)));
}

/// One bad piece makes the whole frame unreadable, and only that frame.
#[test]
fn a_fault_within_a_long_frame_takes_the_frame() {
    let mut wire = Memif::<Server>::new(16, 0);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut rx = wire.receiver();
    assert!(wire.deliver(&frame(0, 60)));
    assert!(wire.deliver_part(&[&[1; 256]], false));
    wire.deliver_bad();
    assert!(wire.deliver(&frame(2, 60)));
    let batch = rx.peek(&simt, 64).unwrap();
    assert_eq!((batch.slots(), batch.frames()), (4, 2));
    let seen: Vec<bool> = (0..4).map(|i| rx.frame(&batch, i).is_some()).collect();
    assert_eq!(seen, [true, false, false, true]);
    let cursor = rx.cursor();
    assert_eq!((cursor.frames, cursor.bytes, cursor.faults), (2, 120, 1));
    rx.release(&simt, batch);
    assert_eq!(rx.lent(), 0);
}

#[test]
fn bytes_are_reached_in_place() {
    let mut wire = Xdp::new(4, 0);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut rx = wire.receiver();
    let sent = frame(3, 62);
    assert!(wire.deliver(&sent));
    let batch = rx.peek(&simt, 1).unwrap();
    let seen = rx.frame(&batch, 0).expect("readable");
    let window = seen.window().expect("aligned, and the chunk goes on");
    for (i, byte) in sent.iter().enumerate() {
        assert_eq!((window[i / 4] >> (i % 4 * 8)) as u8, *byte);
        assert_eq!(seen.head().byte(i as u32), Some(*byte));
    }
    let head = seen.head();
    assert_eq!(head.byte(62), None);
    let word = |i: usize| u16::from_be_bytes([sent[i], sent[i + 1]]);
    for i in 0..61 {
        assert_eq!(head.be16(i), Some(word(i as usize)));
    }
    assert_eq!(head.be16(61), None);
    let double = |i: usize| u32::from(word(i)) << 16 | u32::from(word(i + 2));
    for i in 0..59 {
        assert_eq!(head.be32(i), Some(double(i as usize)));
    }
    assert_eq!((head.be32(59), head.be32(u32::MAX)), (None, None));
    for offset in [0, 1, 2, 3, 57, 58] {
        assert!(head.set_be32(offset, 0xdead_beef) && head.be32(offset) == Some(0xdead_beef));
        assert!(head.set_be16(offset + 1, 0x1234) && head.be16(offset + 1) == Some(0x1234));
        assert!(head.set_byte(offset, 9) && head.byte(offset) == Some(9));
    }
    assert!(!head.set_be32(59, 1) && !head.set_be16(61, 1) && !head.set_byte(62, 1));
    for offset in [0, 1, 2, 3, 50] {
        let (words, mut found) = ([0x0102_0304, 0x0506_0708, 0x090a_0b0c], [0; 3]);
        assert!(head.set_be_words(offset, &words) && head.be_words(offset, &mut found));
        assert_eq!(found, words);
        assert_eq!(head.be32(offset + 8), Some(words[2]));
    }
    let mut found = [7; 3];
    assert!(!head.set_be_words(51, &[0; 3]) && !head.be_words(51, &mut found));
    assert_eq!((found, head.be32(58)), ([7; 3], Some(0x090a_0b0c)));
    let quad = head.quad(0).expect("aligned");
    assert!(
        head.set_quad(2, quad) && !head.set_quad(3, quad),
        "not beyond the end"
    );
    assert_eq!(head.be32(32), head.be32(0));
    let part = head.part(2, 60).expect("within");
    assert!(part.window().is_none(), "not aligned");
    assert!(head.part(2, 61).is_none() && head.part(63, 0).is_none());
    assert!(head.copy_in(60, &[5, 6]) && !head.copy_in(61, &[5, 6]));
    assert_eq!(head.be16(60), Some(0x0506));
    rx.release(&simt, batch);
}
