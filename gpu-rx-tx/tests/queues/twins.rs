//! A kernel at width 1 and at width 32, against the same NIC: same frames, same cursors, same
//! counts.

use warpwire_gpu::executor::Backend;
use warpwire_ring::{Cause, RxCursor, TxCursor};

use crate::kernels::{Forward, Gather, Kernel, Lend, Send, row};
use crate::stage::Stage;
use crate::wires::{
    Client, Memif, Mlx5, STARTS, Server, Wire, Xdp, counters, rx_cursor, tx_cursor,
};

/// Everything that can be seen of a run.
#[derive(PartialEq, Debug)]
struct Seen {
    sent: Vec<Vec<u8>>,
    accepted: Vec<bool>,
    codes: Vec<u32>,
    received: RxCursor,
    transmitted: TxCursor,
    counted: Vec<u64>,
    sums: Vec<u64>,
    gathered: Vec<u8>,
}

/// A small generator; a failing case prints its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const DEPTH: u32 = 64;
const SEEDS: u64 = 64;

fn run<W: Wire, K: Kernel<W::Rx, W::Tx>>(backend: Backend, seed: u64) -> Seen {
    let mut dice = Dice(seed);
    let start = STARTS[dice.roll(4) as usize];
    let mut wire = W::new(DEPTH, start);
    let stage = Stage::new(backend);
    let row = row::<K, W::Rx, W::Tx>();
    let (mut sent, mut accepted, mut codes) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..6 {
        for number in 0..dice.roll(50) {
            let most = if dice.roll(4) == 0 {
                3 * wire.slot_bytes()
            } else {
                200
            };
            let length = 20 + dice.roll(most as u64 - 20) as usize;
            let frame: Vec<u8> = (0..length as u64)
                .map(|at| (number * 17 + step * 5 + at) as u8)
                .collect();
            let fits = wire.slots_for(length) > 0 && wire.deliver(&frame);
            accepted.push(fits);
            if dice.roll(20) == 0 && wire.has_room() {
                wire.deliver_bad();
            }
        }
        let work = (1 + dice.roll(3), 1 + dice.roll(64), dice.roll(1 << 20));
        let blocks = (wire.rx_block(), wire.tx_block());
        codes.push(stage.run(&row, blocks, work));
        for _ in 0..dice.roll(60) {
            sent.extend(wire.take());
        }
        for _ in 0..dice.roll(60) {
            wire.complete();
        }
    }
    while let Some(frame) = wire.take() {
        sent.push(frame);
    }
    let mut counted = Vec::new();
    for block in [wire.rx_block(), wire.tx_block()] {
        let counters = counters(&wire, block);
        counted.extend([
            counters.device_calls.value(),
            counters.descriptors_built.value(),
            counters.headers_built.value(),
            counters.bytes_copied_device.value(),
            counters.bytes_copied_host.value(),
            counters.bytes_by_reference.value(),
        ]);
        counted.extend(counters.triggers.iter().map(|count| count.value()));
    }
    Seen {
        sent,
        accepted,
        codes,
        received: rx_cursor(&wire),
        transmitted: tx_cursor(&wire),
        counted,
        sums: stage.sums(),
        gathered: stage.gathered(64 << 10),
    }
}

/// What the lanes behind a cut did differs with the width; what was sent does not.
fn forget_what_was_cut(seen: &mut Seen) {
    seen.counted.clear();
    seen.transmitted.no_resource = 0;
}

fn check<W: Wire, K: Kernel<W::Rx, W::Tx>>(name: &str, seeds: u64, cuts: bool) {
    for seed in 0..seeds {
        let mut scalar = run::<W, K>(Backend::Scalar, seed);
        let mut lockstep = run::<W, K>(Backend::Lockstep { seed }, seed);
        if cuts {
            forget_what_was_cut(&mut scalar);
            forget_what_was_cut(&mut lockstep);
        }
        let busy = scalar.received.frames + scalar.transmitted.frames;
        assert!(busy > 20, "{name} seed {seed} did next to nothing");
        let Seen { sent, .. } = &scalar;
        for (at, (one, many)) in sent.iter().zip(&lockstep.sent).enumerate() {
            assert_eq!(one, many, "{name} seed {seed} frame {at}");
        }
        assert_eq!(scalar, lockstep, "{name} seed {seed}");
        let fine = |code: &u32| *code == 0 || *code == Cause::NoResource as u32;
        assert!(scalar.codes.iter().all(fine), "{name}: {:?}", scalar.codes);
    }
}

fn check_all<W: Wire>(name: &str) {
    check::<W, Forward>(name, SEEDS, false);
    check::<W, Lend>(name, SEEDS, false);
    check::<W, Send>(name, SEEDS, true);
    check::<W, Gather>(name, SEEDS, false);
}

#[test]
fn memif_client_at_both_widths() {
    check_all::<Memif<Client>>("memif client");
}

#[test]
fn memif_server_at_both_widths() {
    check_all::<Memif<Server>>("memif server");
}

#[test]
fn xdp_at_both_widths() {
    check_all::<Xdp>("xdp");
}

#[test]
fn mlx5_at_both_widths() {
    check_all::<Mlx5<1>>("mlx5");
}

#[test]
fn mlx5_scattered_at_both_widths() {
    check_all::<Mlx5<4>>("mlx5 scattered");
}
