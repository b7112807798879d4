//! Records of a sensor out of streams: a gatherer, a carrier that the test plays, and peers who
//! send records out of order, twice, not at all, of other lengths and without sense.

use std::mem::offset_of;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{GatherParameters, entries};
use warpwire_core::sensor::{
    Gap, IntakeBlock, IntakeCounters, SensorBlock, SensorCounters, SensorState, SensorWords,
};
use warpwire_core::streaming::TableBlock;
use warpwire_device::KernelRow;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    AcceptBlock, CLOSED, CONNECTED, PEER_CLOSED, RELEASE, StreamWords,
};
use warpwire_nic::soft::Dice;
use warpwire_protocols::stream::ByteOrder;
use warpwire_protocols::stream::framing::Framing;
use warpwire_protocols::stream::samples::{Conversion, Format};
use warpwire_ring::DeviceAddress;

use super::blocks::{Wrong, refuse};
use super::plain::Outcome;
use super::seen::Seen;
use super::{Case, Machine};
use crate::machine::Ready;
use crate::stage::Stage;

/// The comparisons of an entry point, if it is this kernel.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::gatherers().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    vec![Case::new(row.name, "streams", move |machine, seed| {
        let cpu = Scene::run(row, &Machine::SCALAR, seed);
        let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
        let found = Scene::run(row, machine, seed)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames.min(found.frames))
    })]
}

/// A gatherer, the carrier of its streams, and the host that reads rows.
struct Scene {
    stage: Stage,
    row: &'static KernelRow,
    sensor: SensorBlock,
    intake: IntakeBlock,
    /// That, and others that are refused.
    blocks: DeviceAddress,
    table: TableBlock,
    /// What is still to come, by place.
    peers: Vec<Vec<u8>>,
    rows: Vec<u8>,
    dice: Dice,
}

impl Scene {
    fn run(row: &'static KernelRow, machine: &Machine, seed: u64) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let mut scene = Self::new(row, seed);
        let valid = scene.parameters(1, Steering::default());
        refuse(
            &ready,
            row,
            &scene.stage,
            valid,
            |block| &mut block.header,
            WRONG,
        )?;
        for _ in 0..MOST_ROUNDS {
            let turns = 1 + scene.dice.below(4);
            scene.turn(&ready, turns)?;
            scene.read();
            let mut over = true;
            for place in 0..scene.peers.len() {
                over &= scene.bring(place);
            }
            if over {
                return Ok(scene.end());
            }
        }
        Err(format!("nothing comes of it: {:?}", scene.counters()))
    }

    fn new(row: &'static KernelRow, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let stage = Stage::of(512 << 10, Vec::new());
        let samples = 1 + dice.below(40) as u32;
        let sensor = sensor(&stage, &mut dice, samples);
        let count = 1 + dice.below(4) as usize;
        let framing = match dice.below(2) {
            0 => Framing::fixed(sensor.record_bytes()),
            _ => Framing::delimited(2, ByteOrder::Big, false, 500),
        };
        let framing = framing.expect("is legal");
        let peers = (0..count).map(|_| Vec::new()).collect();
        let table = table(&stage, &mut dice, count);
        let intake = IntakeBlock {
            table: stage.place(table),
            sensor: stage.place(sensor),
            seats: stage.cut(PLACES as usize * 4),
            counters: stage.cut(size_of::<IntakeCounters>()),
            framing,
            share: 1 + dice.below(6) as u32,
            most: 1 + dice.below(5) as u32,
        };
        let null = DeviceAddress::NULL;
        let unsound = SensorBlock { rows: 3, ..sensor };
        // Behind the right one are those that are refused.
        let blocks = [
            intake,
            IntakeBlock { share: 0, ..intake },
            IntakeBlock { most: 0, ..intake },
            IntakeBlock {
                table: null,
                ..intake
            },
            IntakeBlock {
                sensor: null,
                ..intake
            },
            IntakeBlock {
                sensor: sensor.words,
                ..intake
            },
            IntakeBlock {
                sensor: stage.place(unsound),
                ..intake
            },
            IntakeBlock {
                seats: null,
                ..intake
            },
            IntakeBlock {
                counters: null,
                ..intake
            },
        ];
        let mut scene = Self {
            blocks: stage.place_all(&blocks),
            stage,
            row,
            sensor,
            intake,
            table,
            peers,
            rows: Vec::new(),
            dice,
        };
        scene.write();
        scene
    }

    /// What peers will send.
    fn write(&mut self) {
        let first = u64::from(u16::MAX) - self.dice.below(60);
        for step in 0..100 + self.dice.below(100) {
            let dice = &mut self.dice;
            let ahead = match dice.below(60) {
                0 => 1000,
                _ => dice.below(6),
            };
            let number = first.wrapping_add(step + ahead) as u16;
            let length = match dice.below(40) {
                0 if self.intake.framing != fixed(&self.sensor) => dice.below(300) as u32,
                _ => self.sensor.record_bytes(),
            };
            let mut record: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
            if let Some(field) = record.get_mut(4..6) {
                field.copy_from_slice(&number.to_be_bytes());
            }
            let place = dice.below(self.peers.len() as u64) as usize;
            let header = self.intake.framing.header(length).expect("is a length");
            let peer = &mut self.peers[place];
            peer.extend(header.bytes());
            peer.extend(record);
        }
        // One ends within a record; one has no sense if records have lengths.
        let place = self.dice.below(self.peers.len() as u64) as usize;
        let peer = &mut self.peers[place];
        match self.dice.below(4) {
            0 => peer.truncate(peer.len().saturating_sub(3)),
            1 => peer.extend([0xff; 40]),
            _ => {}
        }
        for peer in &mut self.peers {
            peer.reverse();
        }
    }

    fn parameters(&self, turns: u64, steering: Steering) -> GatherParameters {
        GatherParameters {
            header: GatherParameters::HEADER,
            steering: Steering { turns, ..steering },
            blocks: self.blocks,
            block_count: 1,
            reserved: 0,
        }
    }

    fn turn(&mut self, ready: &Ready, turns: u64) -> Result<(), String> {
        let steering = Steering {
            heartbeats: self.stage.heartbeat,
            ..Steering::default()
        };
        let block = self.stage.place(self.parameters(turns, steering));
        ready.run(self.stage.job::<GatherParameters>(self.row, block))?;
        match self.stage.take_cause() {
            0 => Ok(()),
            cause => Err(format!("ended by cause {cause}")),
        }
    }

    /// A peer sends some more, and ends; whether its stream was given back.
    fn bring(&mut self, place: usize) -> bool {
        let at = self
            .table
            .words
            .offset((place * size_of::<StreamWords>()) as u64);
        let words: StreamWords = self.stage.read_value(at);
        if words.wishes & RELEASE != 0 {
            return true;
        }
        let room = RING_BYTES - words.readable.wrapping_sub(words.consumed);
        let count = (self.dice.below(600) as u32).min(room);
        let mut readable = words.readable;
        let peer = &mut self.peers[place];
        for _ in 0..count {
            let Some(byte) = peer.pop() else { break };
            let to = words
                .receive_ring
                .offset(u64::from(readable & (RING_BYTES - 1)));
            self.stage.write_value(to, byte);
            readable = readable.wrapping_add(1);
        }
        let is_last = self.peers[place].is_empty();
        let flags = match is_last {
            true => words.flags | PEER_CLOSED | if self.dice.below(4) == 0 { CLOSED } else { 0 },
            false => words.flags,
        };
        let store = |offset: usize, value: u32| {
            self.stage.write_value(at.offset(offset as u64), value);
        };
        store(offset_of!(StreamWords, cause), 1);
        store(offset_of!(StreamWords, readable), readable);
        store(offset_of!(StreamWords, flags), flags);
        self.stage
            .bits(self.table.told, PLACES + 1)
            .set(place as u32);
        false
    }

    /// The host reads rows and gaps, now and then.
    fn read(&mut self) {
        if self.dice.below(3) == 0 {
            return;
        }
        let at = self.sensor.words;
        let words: SensorWords = self.stage.read_value(at);
        for position in words.consumed..words.whole {
            let row = position & u64::from(self.sensor.rows - 1);
            let header = u64::from(self.sensor.header_bytes);
            let values = u64::from(self.sensor.samples) * 4;
            for (tensor, bytes) in [(self.sensor.headers, header), (self.sensor.values, values)] {
                let mut found = vec![0; bytes as usize];
                let from = tensor.offset(row * bytes);
                self.stage.arena.read(from, &mut found).expect("inside");
                self.rows.extend(found);
            }
        }
        let store = |offset: usize, value: u64| {
            self.stage.write_value(at.offset(offset as u64), value);
        };
        store(offset_of!(SensorWords, consumed), words.whole);
        store(offset_of!(SensorWords, gaps_read), words.gaps_written);
    }

    fn counters(&self) -> (IntakeCounters, SensorCounters) {
        (
            self.stage.read_value(self.intake.counters),
            self.stage.read_value(self.sensor.counters),
        )
    }

    fn end(self) -> Outcome {
        let mut seen = Seen::default();
        let (intake, sensor) = self.counters();
        seen.fact("intake", intake);
        seen.fact("sensor", sensor);
        let words: SensorWords = self.stage.read_value(self.sensor.words);
        seen.fact("words", words);
        let gaps = GAPS as usize * size_of::<Gap>();
        seen.counts("gaps", self.stage.words(self.sensor.gaps, gaps));
        seen.sent("rows", vec![self.rows]);
        Outcome {
            seen,
            frames: intake.records,
        }
    }
}

fn sensor(stage: &Stage, dice: &mut Dice, samples: u32) -> SensorBlock {
    let rows = 16 << dice.below(2);
    let state = SensorState::new(16, 8 + dice.below(9) as u32, None);
    SensorBlock {
        reserved: 0,
        layout: SensorBlock::LAYOUT,
        headers: stage.cut((rows * HEADER_BYTES) as usize),
        values: stage.cut((rows * samples * 4) as usize),
        gaps: stage.cut(GAPS as usize * size_of::<Gap>()),
        words: stage.place(SensorWords::default()),
        state: stage.place(state.expect("is legal")),
        counters: stage.cut(size_of::<SensorCounters>()),
        // Clocks of machines differ: time passes at once, or never.
        patience_ns: [0, u64::MAX][dice.below(2) as usize],
        format: Format::new(HEADER_BYTES, 4, 2, ByteOrder::Big).expect("is legal"),
        conversion: Conversion {
            scale: 0.37,
            offset: -3.1,
            order: [ByteOrder::Big, ByteOrder::Little][dice.below(2) as usize],
        },
        header_bytes: HEADER_BYTES,
        samples,
        rows,
        gap_count: GAPS,
        far_limit: 2,
        late_limit: 5,
        reserved_end: [0; 20],
    }
}

/// Streams that wait to be accepted.
fn table(stage: &Stage, dice: &mut Dice, count: usize) -> TableBlock {
    let bits = |count| stage.cut(Bits::bytes(count) as usize);
    let entries: Vec<u64> = (0..u64::from(PLACES))
        .map(|place| 1 << 32 | place)
        .collect();
    let accepts = stage.place(AcceptBlock {
        written: count as u32,
        depth: PLACES,
        entries: stage.place_all(&entries),
        reserved: [0; 28],
        read: 0,
        reserved_read: [0; 31],
    });
    let table = TableBlock {
        header: TableBlock::HEADER,
        words: stage.cut(PLACES as usize * size_of::<StreamWords>()),
        asked: bits(PLACES),
        told: bits(PLACES + 1),
        accepts: stage.place_all(&[accepts]),
        heartbeat: DeviceAddress::NULL,
        stale_ns: 0,
        place_count: PLACES,
        listener_count: 1,
    };
    for place in 0..count {
        let at = table
            .words
            .offset((place * size_of::<StreamWords>()) as u64);
        let before: StreamWords = stage.read_value(at);
        let position = 0u32.wrapping_sub(dice.below(3000) as u32);
        stage.write_value(
            at,
            StreamWords {
                written: position,
                consumed: position,
                readable: position,
                freed: position,
                flags: CONNECTED,
                generation: 1,
                receive_ring: stage.cut(RING_BYTES as usize),
                send_ring: stage.cut(RING_BYTES as usize),
                receive_bytes: RING_BYTES,
                send_bytes: RING_BYTES,
                ..before
            },
        );
    }
    stage.bits(table.told, PLACES + 1).set(PLACES);
    table
}

fn fixed(sensor: &SensorBlock) -> Framing {
    Framing::fixed(sensor.record_bytes()).expect("is legal")
}

const WRONG: &[Wrong<GatherParameters>] = &[
    ("no blocks", |block| block.blocks = DeviceAddress::NULL),
    ("blocks off their alignment", |block| {
        block.blocks = block.blocks.offset(8);
    }),
    ("too few blocks", |block| block.block_count = 0),
    ("no share", |block| block.blocks = nth(block, 1)),
    ("no most", |block| block.blocks = nth(block, 2)),
    ("no table", |block| block.blocks = nth(block, 3)),
    ("no sensor", |block| block.blocks = nth(block, 4)),
    ("another sensor", |block| block.blocks = nth(block, 5)),
    ("a sensor without sense", |block| {
        block.blocks = nth(block, 6)
    }),
    ("no seats", |block| block.blocks = nth(block, 7)),
    ("no counters", |block| block.blocks = nth(block, 8)),
];

fn nth(block: &GatherParameters, number: u64) -> DeviceAddress {
    block
        .blocks
        .offset(number * size_of::<IntakeBlock>() as u64)
}

const PLACES: u32 = 8;
const RING_BYTES: u32 = 1024;
const HEADER_BYTES: u32 = 12;
const GAPS: u32 = 8;
const MOST_ROUNDS: u32 = 3000;
