//! What the stages' tests share: frames from an independent implementation, and a stage run on one.
#![expect(
    unsafe_code,
    reason = "names memory of the test as the memory that a kernel would be given"
)]

use std::string::String;
use std::vec::Vec;

use warpwire_device::{Area, Scalar, ScalarHost, SharedCounters};
use warpwire_ring::{DeviceAddress, Location, QueueBlock, Region};

use crate::block::{Block, Port};
use crate::context::{Context, Tables};
use crate::packet::{Packet, Rest};
use crate::program::{MAX_NICS, Op, Program};
use crate::rule::Rule;
use crate::spec::{COMMON_COUNTERS, PackedAddress, Span};
use crate::stage::{Stage, Verdict};

/// A frame of `testdata/frames.hex`.
pub(crate) fn frame(name: &str) -> Vec<u8> {
    let lines = include_str!("../testdata/frames.hex").lines();
    let found = lines
        .filter_map(|line| line.split_once(' '))
        .find(|(known, _)| *known == name);
    let (_, digits) = found.unwrap_or_else(|| panic!("no frame is called {name}"));
    let digit = |letter: char| letter.to_digit(16).expect("a digit") as u8;
    let digits: Vec<u8> = digits.chars().map(digit).collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// What surrounds a stage.
pub(crate) struct Scene {
    pub(crate) rules: Vec<Rule>,
    pub(crate) addresses: Vec<PackedAddress>,
    pub(crate) outputs: [Span; MAX_NICS],
    /// Bytes that the frame's slot has.
    pub(crate) room: usize,
}

/// What a stage made of a frame.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) verdict: Verdict,
    pub(crate) bytes: Vec<u8>,
    /// Names of the stage's counters that are not zero, with their values.
    pub(crate) counts: Vec<(String, u64)>,
}

impl Default for Scene {
    fn default() -> Self {
        let address = |version, words| PackedAddress { words, version };
        Self {
            rules: Vec::new(),
            addresses: std::vec![
                address(4, [0x0a00_0001, 0, 0, 0]),
                address(6, [0xfd00_0000, 0, 0, 1]),
            ],
            outputs: [Span::default(); MAX_NICS],
            room: 2048,
        }
    }
}

/// All of a scene's addresses.
pub(crate) const OWN: Span = Span { first: 0, count: 2 };

/// The Ethernet address of the port.
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The port that the frame came from.
pub(crate) const PORT: u32 = 3;

impl Scene {
    /// Runs a stage on a frame.
    pub(crate) fn run<T: Stage>(&self, args: &T::Args, frame: &[u8]) -> Seen {
        let mut memory = Memory::new(self.room);
        memory.write(frame);
        let mut counters = std::vec![0u64; T::SPEC.counter_entries() as usize];
        let first = DeviceAddress::new(counters.as_mut_ptr() as u64);
        let host = Host;
        let simt = Scalar::new(&host);
        let block = self.block();
        let port = port();
        let op = Op::default();
        let context = Context {
            simt: &simt,
            op: &op,
            // SAFETY: the vector lives until the end of this function.
            counters: unsafe { SharedCounters::attach(first, counters.len() as u32) },
            samples: None,
            gatherer: None,
            tables: Tables {
                ops: &[],
                rules: &self.rules,
                addresses: &self.addresses,
            },
            block: &block,
            port: &port,
            number: PORT,
        };
        let area = memory.area();
        let slot = area.piece(0, self.room as u32).expect("is there");
        let head = slot.resized(frame.len() as u32).expect("fits");
        let mut packet = Packet::parse(head, Rest::None, frame.len() as u32, 0);
        let verdict = T::run(&context, args, Some(&mut packet));
        let length = packet.length();
        Seen {
            verdict,
            bytes: memory.read(length as usize),
            counts: names::<T>(&counters),
        }
    }

    /// Checks that a stage turns one frame of the test data into another, with this verdict and
    /// count.
    pub(crate) fn check<T: Stage>(
        &self,
        args: &T::Args,
        (from, to): (&str, &str),
        verdict: Verdict,
        counts: &[(&str, u64)],
    ) {
        let seen = self.run::<T>(args, &frame(from));
        assert_eq!(seen.verdict, verdict, "{from}");
        assert_eq!(seen.bytes, frame(to), "{from} to {to}");
        let found: Vec<(&str, u64)> = seen
            .counts
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        assert_eq!(found, counts, "{from}");
    }

    fn block(&self) -> Block {
        Block {
            ports: DeviceAddress::NULL,
            counters: DeviceAddress::NULL,
            near: 0,
            far: 0,
            outputs: self.outputs,
        }
    }
}

/// The slot of a frame, aligned as a NIC's.
pub(crate) struct Memory(Vec<u128>);

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(std::vec![0xa5a5_a5a5_a5a5_a5a5_a5a5_a5a5_a5a5_a5a5; bytes.div_ceil(16)])
    }

    pub(crate) fn area(&mut self) -> Area {
        let region = Region {
            address: DeviceAddress::new(self.0.as_mut_ptr() as u64),
            length: self.0.len() as u64 * 16,
            key: 0,
            location: Location::PageableHost,
        };
        // SAFETY: the vector outlives every use in the tests, and only they touch it.
        unsafe { Area::attach(region) }
    }

    fn write(&mut self, bytes: &[u8]) {
        let area = self.area();
        let piece = area.piece(0, bytes.len() as u32).expect("fits");
        assert!(piece.copy_in(0, bytes));
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = std::vec![0; length];
        let area = self.area();
        let piece = area.piece(0, length as u32).expect("is there");
        assert_eq!(piece.copy_out(0, &mut bytes), length);
        bytes
    }
}

/// A warp with a clock that stands still.
pub(crate) struct Host;

impl ScalarHost for Host {
    fn now_ns(&self) -> u64 {
        7
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

fn port() -> Port {
    // SAFETY: a queue block is made of integers.
    let queue = unsafe { core::mem::zeroed::<QueueBlock>() };
    Port {
        receive: queue,
        transmit: queue,
        program: Program::default(),
        counters: DeviceAddress::NULL,
        mac: MAC,
        flags: 0,
        nic: 0,
        queue: 0,
    }
}

fn names<T: Stage>(counters: &[u64]) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut at = COMMON_COUNTERS as usize;
    for counter in T::SPEC.counters {
        for entry in 0..counter.entries as usize {
            let value = counters[at + entry];
            let name = match (counter.entries, counter.labels.get(entry)) {
                (1, _) => String::from(counter.name),
                (_, Some(label)) => std::format!("{}.{label}", counter.name),
                (_, None) => std::format!("{}.{entry}", counter.name),
            };
            if value != 0 {
                found.push((name, value));
            }
        }
        at += counter.entries as usize;
    }
    found
}
