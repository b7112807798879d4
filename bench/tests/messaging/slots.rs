//! Frames longer than the slots of a ring: packets of MTU 4096 over memif's usual 2048 bytes, in
//! several descriptors, out and in.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use warpwire::pipelines::messaging::{
    Completed, Device, DeviceConfig, EndpointConfig, Order, Pair, PairConfig, Payload, Work,
};
use warpwire_protocols::rdma::{Attributes, Mtu, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::SOON;

const HALF: u64 = 1 << 19;

struct Ends {
    devices: [Device; 2],
    pairs: [Pair; 2],
}

impl Ends {
    fn open(buffer: u32) -> Self {
        let folder = std::env::temp_dir();
        let socket = folder.join(format!("warpwire-slots-{}-{buffer}", std::process::id()));
        let config = |role: &str| DeviceConfig {
            nic: Some(format!(
                "memif:{},role={role},buffer={buffer},depth=256",
                socket.display()
            )),
            fused: true,
            bytes: 2 * HALF as usize,
            memory: Vec::new(),
            endpoint: EndpointConfig::default(),
            patience: Duration::from_secs(10),
            chance: 1,
            capture: None,
        };
        // Each waits for the other.
        let nobody = Ipv4Addr::LOCALHOST.into();
        let devices = std::thread::scope(|scope| {
            let server = scope.spawn(|| Device::open(nobody, &config("server")));
            let client = Device::open(nobody, &config("client"));
            let server = server.join().expect("no panic");
            [client.expect("opens"), server.expect("opens")]
        });
        let pairs = [0, 1].map(|place: usize| {
            let pair = devices[place].endpoint().pair(PairConfig::default());
            pair.expect("is free")
        });
        let mut ends = Self { devices, pairs };
        let numbers = [0, 1].map(|place: usize| ends.pairs[place].number());
        for (place, pair) in ends.pairs.iter_mut().enumerate() {
            let (own, peer) = (&ends.devices[place], &ends.devices[1 - place]);
            let (number, other) = (numbers[place], numbers[1 - place]);
            let attributes = Attributes {
                mtu: Mtu::M4096,
                remote_qp: Qpn::new(other),
                ..Attributes::default()
            };
            let start = Start {
                send: Psn::new(1),
                receive: Psn::new(1),
            };
            let path = own.path(&peer.gid(), number, other, 0).expect("is one");
            pair.connect(attributes, start, path).expect("connects");
        }
        ends
    }

    /// Steps both until one of them is told of something.
    fn wait(&mut self, place: usize) -> Completed {
        let started = Instant::now();
        loop {
            if let Some(completed) = self.pairs[place].poll() {
                return completed;
            }
            for device in &self.devices {
                device.endpoint().step();
            }
            assert!(started.elapsed() < SOON, "nothing completed");
        }
    }

    fn bytes(&self, place: usize, at: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        self.devices[place].read(at, &mut bytes).expect("inside");
        bytes
    }

    /// A message of each kind from one end, with its answer.
    fn exchange(&mut self, from: usize, length: u32, seed: u8) {
        let to = 1 - from;
        let bytes: Vec<u8> = (0..length)
            .map(|number| (number.wrapping_mul(7) >> (number % 3)) as u8 ^ seed)
            .collect();
        self.devices[from].write(0, &bytes).expect("inside");
        let region = *self.devices[from].region();
        let remote = *self.devices[to].region();
        let pieces = [region.gather(0, length)];
        let back = [region.gather(HALF, length)];
        let order = |opcode| Order {
            address: remote.address + HALF,
            key: remote.key,
            ..Order::new(opcode)
        };
        let into = remote.gather(HALF, HALF as u32);
        for opcode in [Opcode::SEND, Opcode::WRITE, Opcode::READ] {
            if opcode == Opcode::SEND {
                self.pairs[to].receive(&[into]).expect("room");
            }
            let payload = match opcode {
                Opcode::READ => Payload::Pieces(&back),
                _ => Payload::Pieces(&pieces),
            };
            let order = order(opcode);
            self.pairs[from]
                .post(&[Work { order, payload }])
                .expect("room");
            assert!(matches!(self.wait(from), Completed::Sent { .. }));
            if opcode == Opcode::SEND {
                let Completed::Received(message) = self.wait(to) else {
                    panic!("not a message");
                };
                assert_eq!(message.length, length);
            }
            let place = if opcode == Opcode::READ { from } else { to };
            assert!(
                self.bytes(place, HALF, length) == bytes,
                "{opcode:?} {length}"
            );
            if opcode != Opcode::WRITE {
                self.devices[place]
                    .write(HALF, &vec![0xee; length as usize])
                    .expect("inside");
            }
        }
    }
}

#[test]
fn packets_of_4096_bytes_over_slots_of_2048_both_ways() {
    for buffer in [512, 1024, 2048, 4096, 8192] {
        let mut ends = Ends::open(buffer);
        let lengths = [1, 2047, 2048, 4095, 4096, 4097, 3 * 4096 + 5, 300_001];
        for (seed, length) in (1..).zip(lengths) {
            ends.exchange(0, length, seed);
            ends.exchange(1, length, seed ^ 0x80);
        }
    }
}
