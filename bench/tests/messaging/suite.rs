//! Messages between two engines over a cable of soft NICs: every operation, at sizes around the
//! packets' bounds, with contents compared.

use std::sync::Arc;
use std::time::Duration;

use warpwire::pipelines::messaging::{
    Completed, Endpoint, EndpointConfig, MemoryRegion, Pair, PairConfig, Path, Work,
};
use warpwire_gpu::executor::{Builder, IdlePolicy, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::Nic;
use warpwire_nic::soft::{Clock, Fabric, FabricConfig, Impairments};
use warpwire_protocols::rdma::{Access, Attributes, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::Location;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

/// One end.
struct Side {
    endpoint: Endpoint,
    pair: Pair,
    memory: Arc<Arena>,
    region: MemoryRegion,
}

const BYTES: u64 = 4 << 20;
/// In each end's memory: what is sent, what is received or fetched, what the peer writes.
const SOURCE: u64 = 0;
const TARGET: u64 = 1 << 20;
const WRITTEN: u64 = 2 << 20;

impl Side {
    fn gather(&self, at: u64, length: u32) -> Gather {
        Gather {
            address: self.region.address + at,
            length,
            key: self.region.key,
        }
    }

    fn bytes(&self, at: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let address = self.memory.whole().address.offset(at);
        self.memory.read(address, &mut bytes).expect("inside");
        bytes
    }

    fn fill(&self, at: u64, length: u32, seed: u8) {
        let bytes: Vec<u8> = (0..length)
            .map(|i| {
                (i as u8)
                    .wrapping_mul(7)
                    .wrapping_add(seed)
                    .wrapping_add((i >> 8) as u8)
            })
            .collect();
        let address = self.memory.whole().address.offset(at);
        self.memory.write(address, &bytes).expect("inside");
    }
}

fn ends(
    executor: &CpuExecutor,
    options: &str,
    attributes: Attributes,
    link: Impairments,
) -> (Fabric, [Side; 2]) {
    let fabric = Fabric::new(FabricConfig::default(), Clock::Executor(executor.clock()));
    let open = |words: &str| fabric.open(&words.parse().expect("words")).expect("opens");
    let mut nics = [
        open(&format!("soft:a,{options}")),
        open(&format!("soft:b,{options}")),
    ];
    let [one, other] = &mut nics;
    fabric.cable(one.port(), other.port());
    fabric.impair(one.port(), link);
    fabric.impair(other.port(), link);
    for service in one.take_services() {
        executor.add_service(service, Placement::Any).expect("runs");
    }
    let mut sides = nics.iter().zip(0u32..).map(|(nic, place)| {
        let memory = Arc::new(Arena::new(BYTES as usize, Location::Device).expect("maps"));
        let config = EndpointConfig {
            first_number: 0x1100 * (place + 1),
            ..EndpointConfig::default()
        };
        let arenas = [Arc::clone(&memory)];
        let endpoint = Endpoint::start(executor, nic, &arenas, config, Placement::Any);
        let endpoint = endpoint.expect("starts");
        let region = endpoint.register(memory.whole().address, BYTES, Access::ALL, 0x5a);
        let pair = endpoint.pair(PairConfig::default()).expect("is free");
        Side {
            endpoint,
            pair,
            memory,
            region: region.expect("fits"),
        }
    });
    let mut sides = [sides.next().expect("one"), sides.next().expect("two")];
    let numbers = [sides[0].pair.number(), sides[1].pair.number()];
    let macs = [nics[0].mac(), nics[1].mac()];
    let addresses = [0x0a00_0001, 0x0a00_0002];
    let psns = [0x00ff_fff0, 0x0000_1234].map(Psn::new);
    for (place, side) in sides.iter_mut().enumerate() {
        let peer = 1 - place;
        let path = Path {
            local: [addresses[place], 0, 0, 0],
            remote: [addresses[peer], 0, 0, 0],
            next_hop: macs[peer],
            mac: macs[place],
            source_port: 0xc123,
            ip_version: 4,
            traffic_class: 2,
            hop_limit: 64,
            ..Path::default()
        };
        let attributes = Attributes {
            remote_qp: Qpn::new(numbers[peer]),
            ..attributes
        };
        let start = Start {
            send: psns[place],
            receive: psns[peer],
        };
        side.pair
            .connect(attributes, start, path)
            .expect("connects");
    }
    std::mem::forget(nics);
    (fabric, sides)
}

fn wait(pair: &mut Pair) -> Completed {
    pair.wait(Duration::from_secs(20))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn sent(pair: &mut Pair) {
    match wait(pair) {
        Completed::Sent { .. } => {}
        other => panic!("{other:?}"),
    }
}

/// Every operation between two ends of a cable, for messages of these sizes.
pub(crate) fn run(
    executor: Builder,
    options: &str,
    attributes: Attributes,
    link: Impairments,
    sizes: &[u32],
) {
    let executor = executor.idle(IdlePolicy::POLITE).build().expect("builds");
    let (_fabric, [mut one, mut other]) = ends(&executor, options, attributes, link);
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
            other
                .pair
                .receive(&[other.gather(TARGET, 1 << 20)])
                .expect("posts");
            let order = Order {
                immediate: 0xabcd,
                ..Order::new(opcode)
            };
            let source = pieces(one.gather(SOURCE, size));
            let payload = Payload::Pieces(&source);
            one.pair.post(&[Work { order, payload }]).expect("posts");
            let Completed::Received(message) = wait(&mut other.pair) else {
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
            sent(&mut one.pair);
        }
        // WRITE, with and without immediate.
        seed += 1;
        one.fill(SOURCE, size, seed);
        let source = pieces(one.gather(SOURCE, size));
        let payload = Payload::Pieces(&source);
        one.pair
            .post(&[Work {
                order: write,
                payload,
            }])
            .expect("posts");
        sent(&mut one.pair);
        assert_eq!(
            other.bytes(WRITTEN, size),
            one.bytes(SOURCE, size),
            "write {size}"
        );
        seed += 1;
        one.fill(SOURCE, size, seed);
        other.pair.receive(&[]).expect("posts");
        one.pair
            .post(&[Work {
                order: write_imm,
                payload,
            }])
            .expect("posts");
        let Completed::Received(message) = wait(&mut other.pair) else {
            panic!("not a message");
        };
        assert!(message.is_write && message.length == size);
        assert_eq!(
            other.bytes(WRITTEN, size),
            one.bytes(SOURCE, size),
            "write {size}"
        );
        sent(&mut one.pair);
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
        one.pair
            .post(&[Work {
                order: read,
                payload,
            }])
            .expect("posts");
        sent(&mut one.pair);
        assert_eq!(
            one.bytes(TARGET, size),
            other.bytes(SOURCE, size),
            "read {size}"
        );
    }
    // Atomics, and inline data.
    other.fill(WRITTEN, 8, 9);
    let word = |side: &Side, at| u64::from_le_bytes(side.bytes(at, 8).try_into().expect("eight"));
    let before = word(&other, WRITTEN);
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
        one.pair.post(&[Work { order, payload }]).expect("posts");
        sent(&mut one.pair);
        assert_eq!((word(&one, TARGET), word(&other, WRITTEN)), (found, after));
    }
    let payload = Payload::Inline(b"inline bytes that stand in the queue itself");
    one.pair
        .post(&[Work {
            order: write,
            payload,
        }])
        .expect("posts");
    sent(&mut one.pair);
    assert_eq!(other.bytes(WRITTEN, 12), b"inline bytes");
    for side in [one, other] {
        side.endpoint.stop(Duration::from_secs(5)).expect("stops");
    }
    executor.shutdown(Duration::from_secs(5)).expect("ends");
}
