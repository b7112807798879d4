//! Every operation over one connection, with contents compared.

use warpwire::pipelines::messaging::{Completed, Gather, Order, Payload, Work};
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::Builder;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Plan, SOURCE, Stage, TARGET, WRITTEN, sent, wait};

/// All operations at the sizes given, over one connection.
pub(crate) fn run(plan: &Plan, sizes: &[u32]) {
    run_on(plan, CpuExecutor::builder().backend(plan.backend), sizes);
}

/// [`run`], on an executor of one's own.
pub(crate) fn run_on(plan: &Plan, builder: Builder, sizes: &[u32]) {
    let stage = Stage::on(plan, builder);
    let [mut first, mut second] = stage.pairs();
    let [one, other] = &stage.sides;
    let peer = |order: Order| Order {
        address: other.region.address + WRITTEN,
        key: other.region.key,
        ..order
    };
    let (write, write_imm) = (
        peer(Order::new(Opcode::WRITE)),
        peer(Order::new(Opcode::WRITE_IMM)),
    );
    let read = Order {
        address: other.region.address + SOURCE,
        ..peer(Order::new(Opcode::READ))
    };
    let mut seed = 1;
    for &size in sizes {
        let pieces = |gather: Gather| match size {
            0 => vec![],
            _ => vec![gather],
        };
        // SEND, with and without immediate.
        for opcode in [Opcode::SEND, Opcode::SEND_IMM] {
            seed += 1;
            one.fill(SOURCE, size, seed);
            second
                .receive(&[other.gather(TARGET, 1 << 20)])
                .expect("posts");
            let order = Order {
                immediate: 0xabcd,
                ..Order::new(opcode)
            };
            let source = pieces(one.gather(SOURCE, size));
            let payload = Payload::Pieces(&source);
            first.post(&[Work { order, payload }]).expect("posts");
            let Completed::Received(message) = wait(&mut second) else {
                panic!("not a message");
            };
            assert_eq!(message.length, size);
            let immediate = (opcode == Opcode::SEND_IMM).then_some(0xabcd);
            assert_eq!(message.immediate, immediate);
            assert_eq!(
                other.bytes(TARGET, size),
                one.bytes(SOURCE, size),
                "send {size}"
            );
            sent(&mut first);
        }
        // WRITE, with and without immediate.
        seed += 1;
        one.fill(SOURCE, size, seed);
        let source = pieces(one.gather(SOURCE, size));
        let payload = Payload::Pieces(&source);
        first
            .post(&[Work {
                order: write,
                payload,
            }])
            .expect("posts");
        sent(&mut first);
        assert_eq!(
            other.bytes(WRITTEN, size),
            one.bytes(SOURCE, size),
            "write {size}"
        );
        seed += 1;
        one.fill(SOURCE, size, seed);
        second.receive(&[]).expect("posts");
        first
            .post(&[Work {
                order: write_imm,
                payload,
            }])
            .expect("posts");
        let Completed::Received(message) = wait(&mut second) else {
            panic!("not a message");
        };
        assert!(message.is_write && message.length == size);
        assert_eq!(
            other.bytes(WRITTEN, size),
            one.bytes(SOURCE, size),
            "write {size}"
        );
        sent(&mut first);
        // READ, into two pieces.
        seed += 1;
        other.fill(SOURCE, size, seed);
        let split = size / 3;
        let target = match split {
            0 => pieces(one.gather(TARGET, size)),
            _ => vec![
                one.gather(TARGET, split),
                one.gather(TARGET + u64::from(split), size - split),
            ],
        };
        let payload = Payload::Pieces(&target);
        first
            .post(&[Work {
                order: read,
                payload,
            }])
            .expect("posts");
        sent(&mut first);
        assert_eq!(
            one.bytes(TARGET, size),
            other.bytes(SOURCE, size),
            "read {size}"
        );
    }
    // Atomics, and inline data.
    other.fill(WRITTEN, 8, 9);
    let before = other.word(WRITTEN);
    let atomics = [
        (Opcode::FETCH_ADD, 5, 0, before, before.wrapping_add(5)),
        (
            Opcode::COMPARE_SWAP,
            77,
            before,
            before.wrapping_add(5),
            before.wrapping_add(5),
        ),
        (
            Opcode::COMPARE_SWAP,
            77,
            before.wrapping_add(5),
            before.wrapping_add(5),
            77,
        ),
    ];
    for (opcode, value, compare, found, after) in atomics {
        let order = Order {
            value,
            compare,
            opcode,
            ..write
        };
        let target = [one.gather(TARGET, 8)];
        let payload = Payload::Pieces(&target);
        first.post(&[Work { order, payload }]).expect("posts");
        sent(&mut first);
        assert_eq!((one.word(TARGET), other.word(WRITTEN)), (found, after));
    }
    let payload = Payload::Inline(b"inline bytes that stand in the queue itself");
    first
        .post(&[Work {
            order: write,
            payload,
        }])
        .expect("posts");
    sent(&mut first);
    assert_eq!(other.bytes(WRITTEN, 12), b"inline bytes");
    drop((first, second));
    stage.stop();
}
