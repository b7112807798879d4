//! Where payload goes: passed on by exchange or copy, gathered into areas; and that it is counted.

use warpwire_device::{Area, Receiver, Scalar, Sender};
use warpwire_ring::{Cause, DeviceAddress, Location, Receive, Transmit};

use crate::desk::{Desk, frame};
use crate::each;
use crate::wires::{
    Client, Memif, Mlx5, Pages, STARTS, Server, Wire, Xdp, area, bytes_at, counters,
};

/// Receives what is there and sends it on.
fn forward<R: Receive, T: Transmit>(
    rx: &mut Receiver<R>,
    tx: &mut Sender<T>,
    simt: &Scalar<'_>,
) -> Result<u32, Cause> {
    let batch = rx.peek(simt, 16)?;
    let mut need = 0;
    for i in 0..batch.slots() {
        if let Some(frame) = rx.frame(&batch, i) {
            need += tx.parts_for(rx.reader(), &frame);
        }
    }
    tx.reserve(simt, need)?;
    for i in 0..batch.slots() {
        let seen = rx.frame(&batch, i);
        let parts = seen
            .as_ref()
            .map_or(0, |seen| tx.parts_for(rx.reader(), seen));
        if let (Some(claim), Some(seen)) = (tx.claim(simt, parts), seen) {
            tx.pass(rx.reader(), seen, &claim)?;
        }
    }
    let slots = tx.publish(simt)?;
    tx.ring(simt);
    rx.release(simt, batch);
    Ok(slots)
}

/// Frames of all sizes go from one port to another, for laps.
fn check_forwarding<A: Wire, B: Wire>(by_reference: bool) {
    for start in STARTS {
        let (mut from, mut to) = (A::new(32, start), B::new(32, start));
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let (mut rx, mut tx) = (from.receiver(), to.sender());
        let mut total = 0;
        for round in 0..100_u64 {
            let wanted = 60 + (round * 97) as usize % (2 * from.slot_bytes());
            let length = if from.slots_for(wanted) == 0 {
                60
            } else {
                wanted
            };
            let (one, two) = (frame(round, 60), frame(round + 1000, length));
            assert!(from.deliver(&one) && from.deliver(&two), "round {round}");
            forward(&mut rx, &mut tx, &simt).expect("forwards");
            assert_eq!(to.take(), Some(one));
            assert_eq!(to.take(), Some(two), "round {round} start {start}");
            assert_eq!(to.take(), None);
            while to.complete() {}
            total += 60 + length as u64;
        }
        let counted = counters(&to, to.tx_block());
        let (reference, copied) = if by_reference { (total, 0) } else { (0, total) };
        assert_eq!(counted.bytes_by_reference.value(), reference);
        let copies = &counted.bytes_copied_host;
        assert_eq!(copies.value() + counted.bytes_copied_device.value(), copied);
        assert_eq!(rx.lent(), 0);
    }
}

#[test]
fn frames_pass_between_pools_by_copy() {
    check_forwarding::<Memif<Client>, Xdp>(false);
    check_forwarding::<Memif<Server>, Mlx5<1>>(false);
    check_forwarding::<Mlx5<4>, Memif<Server>>(false);
    check_forwarding::<Mlx5<4>, Memif<Client>>(false);
}

mod check {
    use super::*;

    /// Within one port: by exchange where receive and transmit buffers are of one pool.
    pub(crate) fn frames_pass_within_a_port<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(16, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let (mut rx, mut tx) = (wire.receiver(), wire.sender());
            let mut total = 0;
            for round in 0..150_u64 {
                let wanted = 60 + (round * 89) as usize % (3 * wire.slot_bytes());
                let length = if wire.slots_for(wanted) == 0 {
                    61
                } else {
                    wanted
                };
                let (one, two) = (frame(round, length), frame(round + 1000, 60));
                assert!(
                    wire.deliver(&one) && wire.deliver(&two),
                    "no buffer is lost"
                );
                forward(&mut rx, &mut tx, &simt).expect("forwards");
                assert_eq!(wire.take(), Some(one), "round {round} start {start}");
                assert_eq!(wire.take(), Some(two));
                while wire.complete() {}
                total += length as u64 + 60;
            }
            let counted = counters(&wire, wire.tx_block());
            let pooled = wire.shares_a_pool();
            let copied = counted.bytes_copied_host.value() + counted.bytes_copied_device.value();
            let moved = if pooled { (total, 0) } else { (0, total) };
            assert_eq!((counted.bytes_by_reference.value(), copied), moved);
            assert_eq!(tx.cursor().bytes, total);
        }
    }

    /// A NIC that is slow to send while frames go on arriving: no buffer is in two places.
    pub(crate) fn passed_frames_do_not_change<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(16, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let (mut rx, mut tx) = (wire.receiver(), wire.sender());
            for lap in 0..12_u64 {
                let numbers = lap * 24..lap * 24 + 24;
                let mut arriving = numbers.clone();
                for _ in 0..2 {
                    for number in arriving.by_ref().take(6) {
                        assert!(wire.deliver(&frame(number, 60 + lap as usize)));
                    }
                    assert_eq!(forward(&mut rx, &mut tx, &simt), Ok(6));
                }
                // Twelve wait to be sent, and twelve more arrive over them.
                for number in arriving {
                    assert!(wire.deliver(&frame(number, 60 + lap as usize)));
                }
                for number in numbers.clone().take(12) {
                    let want = Some(frame(number, 60 + lap as usize));
                    assert_eq!(wire.take(), want, "{number} start {start}");
                }
                while wire.complete() {}
                assert_eq!(forward(&mut rx, &mut tx, &simt), Ok(12));
                for number in numbers.skip(12) {
                    assert_eq!(wire.take(), Some(frame(number, 60 + lap as usize)));
                }
                while wire.complete() {}
            }
        }
    }

    pub(crate) fn payload_is_gathered<W: Wire>() {
        let mut wire = W::new(8, 0);
        let mut pages = Pages::new(64 << 10);
        let base = pages.cut(32 << 10, 4096);
        let area: Area = area(base, 32 << 10, Location::Device);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut rx = wire.receiver();
        let mut total = 0;
        for round in 0..60_u64 {
            let wanted = 1 + (round * 131) as usize % (3 * wire.slot_bytes());
            let length = if wire.slots_for(wanted) == 0 {
                200
            } else {
                wanted
            };
            let sent = frame(round, length);
            assert!(wire.deliver(&sent));
            let batch = rx.peek(&simt, 1).unwrap();
            let seen = rx.frame(&batch, 0).expect("readable");
            let (skip, offset) = (round as u32 * 11 % 70, round * 3);
            let want = sent.get(skip as usize..).unwrap_or(&[]);
            let got = rx.gather(&simt, &seen, skip, &area, offset);
            assert_eq!(got, Ok(want.len() as u32));
            assert_eq!(bytes_at(base.offset(offset), want.len() as u32), want);
            let tight = (32 << 10) + 1 - want.len() as u64;
            let past = rx.gather(&simt, &seen, skip, &area, tight);
            assert_eq!(past, Err(Cause::LocalLength), "one byte too few");
            total += want.len() as u64;
            rx.release(&simt, batch);
        }
        let counted = counters(&wire, wire.rx_block());
        let (device, host) = (&counted.bytes_copied_device, &counted.bytes_copied_host);
        let inside = wire.rx_block().location() == Location::Device;
        let moved = if inside { (total, 0) } else { (0, total) };
        assert_eq!((device.value(), host.value()), moved);
    }

    pub(crate) fn calls_and_triggers_are_counted<W: Wire>() {
        let mut wire = W::new(8, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let (mut rx, mut tx) = (wire.receiver(), wire.sender());
        for round in 0..4 {
            assert!(wire.deliver(&frame(round, 60)) && wire.deliver(&frame(round, 60)));
            // peek, reserve, publish, ring, release.
            forward(&mut rx, &mut tx, &simt).expect("forwards");
            tx.count_headers(1);
            tx.ring(&simt);
            while wire.take().is_some() {}
            while wire.complete() {}
        }
        assert_eq!(tx.publish(&simt), Ok(0));
        rx.save(&simt);
        tx.save(&simt);
        let received = counters(&wire, wire.rx_block());
        let sent = counters(&wire, wire.tx_block());
        assert_eq!(received.device_calls.value(), 4 * 2);
        assert_eq!(sent.device_calls.value(), 4 * 4 + 1);
        assert_eq!(sent.descriptors_built.value(), 8);
        assert_eq!(sent.headers_built.value(), 4);
        let triggers = |block: &warpwire_ring::Provenance| -> u64 {
            block.triggers.iter().map(|count| count.value()).sum()
        };
        assert_eq!(triggers(received), 4, "one release a batch");
        assert_eq!(triggers(sent), 4, "nothing new, no doorbell");
    }
}

each! {
    frames_pass_within_a_port,
    passed_frames_do_not_change,
    payload_is_gathered,
    calls_and_triggers_are_counted,
}

/// Every alignment of source and destination against every other, as one lane of one and of 32.
#[test]
fn pieces_are_copied_at_any_alignment() {
    let mut pages = Pages::new(16 << 10);
    let base = pages.cut(8 << 10, 4096);
    let area = area(base, 8 << 10, Location::Device);
    let source = frame(77, 200);
    for from in 0..18 {
        for to in 0..18 {
            for length in [0, 1, 15, 16, 17, 40, 199] {
                let piece = area.piece(from, length).expect("within");
                assert!(
                    area.piece(0, 4096)
                        .is_some_and(|all| all.copy_in(0, &[0; 4096]))
                );
                assert!(piece.copy_in(0, &source[..length as usize]));
                let target = area.piece(1024 + to, length).expect("within");
                assert_eq!(piece.copy_to(&target), length);
                let got = bytes_at(target.address(), length);
                assert_eq!(got, source[..length as usize], "{from} {to} {length}");
                let around = [
                    target.address().offset(u64::from(length)),
                    before(target.address()),
                ];
                assert!(around.iter().all(|at| bytes_at(*at, 1) == [0]));
            }
        }
    }
}

/// Words from every alignment on, of pieces of every length, and zeros behind them.
#[test]
fn words_are_taken_at_any_alignment() {
    let mut pages = Pages::new(16 << 10);
    let base = pages.cut(4 << 10, 4096);
    let area = area(base, 4 << 10, Location::Device);
    let source = frame(77, 60);
    for from in 0..8 {
        for length in 0..=40 {
            let piece = area.piece(64 + from, length).expect("within");
            assert!(piece.copy_in(0, &source[..length as usize]));
            for skip in 0..=length {
                let whole = source[skip as usize..length as usize].chunks_exact(4);
                let wanted = whole.map(|word| u32::from_le_bytes(word.try_into().expect("four")));
                let mut words = piece.words(skip);
                for word in wanted.chain([0, 0]) {
                    assert_eq!(words.take(), word, "{from} {length} {skip}");
                }
            }
        }
    }
}

fn before(address: DeviceAddress) -> DeviceAddress {
    DeviceAddress::new(address.value() - 1)
}
