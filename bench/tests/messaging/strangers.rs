//! Frames that no peer of ours would send: each is counted as what it is, nobody is answered who
//! may not be, and the connection goes on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use warpwire::pipelines::messaging::{Completed, Pair};
use warpwire_engine::tables::EngineCounters;
use warpwire_nic::soft::{Impairments, Uplink};
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{Host, icrc};
use warpwire_protocols::rdma::{Note, State};
use warpwire_protocols::wire::opcode::Opcode;

use crate::ends::{Mode, Plan, SOON, Side, Stage, TARGET, WRITTEN};

type Lane = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// The far end of a cable, played by the test.
struct Stranger {
    sends: Lane,
    hears: Lane,
}

impl Uplink for Stranger {
    fn name(&self) -> &str {
        "stranger"
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        self.hears.lock().expect("whole").push_back(frame.to_vec());
        true
    }

    fn receive(&mut self, into: &mut [u8], _now_ns: u64) -> Option<usize> {
        let frame = self.sends.lock().expect("whole").pop_front()?;
        into.get_mut(..frame.len())?.copy_from_slice(&frame);
        Some(frame.len())
    }
}

/// A packet before it is a frame. As it begins, a peer might send it.
#[derive(Clone)]
struct Packet {
    source: u32,
    destination: u32,
    port: u16,
    opcode: u8,
    /// Solicited, migration, pad, version.
    flags: u8,
    pkey: u16,
    qp: u32,
    psn: u32,
    /// Extended headers and payload, with the pad.
    rest: Vec<u8>,
    /// What is done to the frame's bytes when all checksums stand.
    spoil: fn(&mut Vec<u8>),
    /// The transport is cut to so many bytes before it is summed.
    cut: Option<usize>,
}

impl Packet {
    fn frame(&self, own: &Side, peer: &Side) -> Vec<u8> {
        let mut transport = vec![self.opcode, self.flags];
        transport.extend(self.pkey.to_be_bytes());
        transport.extend(self.qp.to_be_bytes());
        transport.extend((0x8000_0000 | self.psn).to_be_bytes());
        transport.extend(&self.rest);
        transport.truncate(self.cut.unwrap_or(usize::MAX));
        let length = 20 + 8 + transport.len() as u16 + 4;
        let mut datagram = vec![0x45, 2];
        datagram.extend(length.to_be_bytes());
        datagram.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        datagram.extend(self.source.to_be_bytes());
        datagram.extend(self.destination.to_be_bytes());
        let halves = datagram.chunks_exact(2);
        let sum: u32 = halves
            .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        datagram[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
        datagram.extend(0xc123u16.to_be_bytes());
        datagram.extend(self.port.to_be_bytes());
        datagram.extend((length - 20).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(transport);
        let field = icrc::of_packet::<Host>(&datagram).unwrap_or([0; 4]);
        datagram.extend(field);
        let mut frame = Vec::from(own.mac);
        frame.extend(peer.mac);
        frame.extend([8, 0]);
        frame.extend(datagram);
        (self.spoil)(&mut frame);
        frame
    }
}

/// What shall be counted, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counted {
    Foreign,
    Drop(DropReason),
    Note(Note),
    /// It is a packet like any other.
    Nothing,
}

fn counts(counters: &EngineCounters) -> Vec<u64> {
    let mut counts = vec![counters.foreign];
    counts.extend(counters.drops);
    counts.extend(counters.notes);
    counts
}

fn place(counted: Counted, counters: &EngineCounters) -> Option<usize> {
    match counted {
        Counted::Foreign => Some(0),
        Counted::Drop(reason) => Some(1 + reason.index()),
        Counted::Note(note) => Some(1 + counters.drops.len() + note as usize),
        Counted::Nothing => None,
    }
}

fn cases(good: &Packet, other_qp: u32) -> Vec<(&'static str, Packet, Counted)> {
    let with = |change: fn(&mut Packet)| {
        let mut packet = good.clone();
        change(&mut packet);
        packet
    };
    let drop = Counted::Drop;
    let note = Counted::Note;
    let opcode = |opcode: Opcode, rest: usize| Packet {
        opcode: opcode.value(),
        rest: vec![0; rest],
        ..good.clone()
    };
    let mut cases = vec![
        ("another port", with(|p| p.port = 4792), Counted::Foreign),
        (
            "another version",
            with(|p| p.flags = 1),
            drop(DropReason::BthVersion),
        ),
        (
            "the last version",
            with(|p| p.flags = 15),
            drop(DropReason::BthVersion),
        ),
        (
            "no such opcode",
            with(|p| p.opcode = 0x15),
            drop(DropReason::BthOpcode),
        ),
        (
            "no such service",
            with(|p| p.opcode = 0xe4),
            drop(DropReason::BthOpcode),
        ),
        (
            "a checksum that is wrong",
            with(|p| p.spoil = |frame| *frame.last_mut().expect("some") ^= 1),
            drop(DropReason::Icrc),
        ),
        (
            "a byte that changed",
            with(|p| p.spoil = |frame| frame[14 + 28 + 12] ^= 0x80),
            drop(DropReason::Icrc),
        ),
        (
            "half a base header",
            with(|p| p.cut = Some(8)),
            drop(DropReason::BthLength),
        ),
        (
            "no base header",
            with(|p| p.cut = Some(0)),
            drop(DropReason::BthLength),
        ),
        (
            "a frame that ends within",
            with(|p| p.spoil = |frame| frame.truncate(14 + 20 + 8 + 10)),
            drop(DropReason::IpLengthOverFrame),
        ),
        (
            "half a RETH",
            opcode(Opcode::WRITE_ONLY, 8),
            drop(DropReason::BthLength),
        ),
        (
            "half an AtomicETH",
            opcode(Opcode::FETCH_ADD, 24),
            drop(DropReason::BthLength),
        ),
        (
            "no immediate",
            opcode(Opcode::SEND_ONLY_IMM, 0),
            drop(DropReason::BthLength),
        ),
        (
            "no AETH",
            opcode(Opcode::ACKNOWLEDGE, 0),
            drop(DropReason::BthLength),
        ),
        (
            "a read with payload",
            opcode(Opcode::READ_REQUEST, 20),
            drop(DropReason::BthLength),
        ),
        (
            "more pad than payload",
            Packet {
                flags: 0x30,
                ..opcode(Opcode::SEND_ONLY, 0)
            },
            drop(DropReason::BthLength),
        ),
        (
            "another partition",
            with(|p| p.pkey = 0x8001),
            note(Note::PartitionKey),
        ),
        (
            "no partition",
            with(|p| p.pkey = 0),
            note(Note::PartitionKey),
        ),
        (
            "another source",
            with(|p| p.source ^= 1),
            note(Note::WrongSource),
        ),
        (
            "another destination",
            with(|p| p.destination ^= 0x100),
            note(Note::WrongSource),
        ),
        (
            "queue pair 0",
            with(|p| p.qp = 0),
            note(Note::UnknownQueuePair),
        ),
        (
            "the last queue pair",
            with(|p| p.qp = 0x00ff_ffff),
            note(Note::UnknownQueuePair),
        ),
        (
            "UC",
            opcode(Opcode::UC_SEND_ONLY, 8),
            note(Note::WrongClass),
        ),
        (
            "UD",
            opcode(Opcode::UD_SEND_ONLY, 8),
            note(Note::WrongClass),
        ),
        (
            "an answer to nothing",
            opcode(Opcode::ACKNOWLEDGE, 4),
            note(Note::Unasked),
        ),
        ("a CNP", opcode(Opcode::CNP, 16), note(Note::Congestion)),
        // What rules leave open: reserved bits, the migration bit, a limited member.
        (
            "the migration bit",
            with(|p| p.flags = 0x40),
            Counted::Nothing,
        ),
        (
            "a limited member",
            with(|p| p.pkey = 0x7fff),
            Counted::Nothing,
        ),
        (
            "reserved bits",
            with(|p| p.qp |= 0x3f00_0000),
            Counted::Nothing,
        ),
    ];
    let beside = Packet {
        qp: other_qp,
        ..good.clone()
    };
    // It has no peer.
    cases.push((
        "a queue pair that is not connected",
        beside,
        note(Note::WrongSource),
    ));
    cases
}

/// Lets the engine run until something is counted or told.
fn run(own: &Side, pair: &mut Pair, before: &[u64]) -> (Vec<u64>, Option<Completed>) {
    let started = Instant::now();
    loop {
        own.endpoint.step();
        let completed = pair.poll();
        let after = counts(&own.endpoint.counters());
        if completed.is_some() || after != before {
            return (after, completed);
        }
        assert!(started.elapsed() < SOON, "nothing came of it");
        std::thread::yield_now();
    }
}

/// The opcode of the next answer.
fn hear(own: &Side, lane: &Lane) -> u8 {
    let started = Instant::now();
    loop {
        own.endpoint.step();
        if let Some(frame) = lane.lock().expect("whole").pop_front() {
            return frame[14 + 28];
        }
        assert!(started.elapsed() < SOON, "no answer");
    }
}

#[test]
fn frames_of_strangers_are_counted_and_the_connection_goes_on() {
    let stage = Stage::new(&Plan::new(Mode::Fused));
    let [mut pair, far] = stage.pairs();
    let [own, peer] = &stage.sides;
    let lanes = [(); 2].map(|()| Lane::default());
    let stranger = Stranger {
        sends: Arc::clone(&lanes[0]),
        hears: Arc::clone(&lanes[1]),
    };
    let port = stage
        .fabric
        .attach(Box::new(stranger), Impairments::default());
    stage.fabric.cable(stage.nics[0].port(), port);
    let unconnected = own.pair();
    let mut good = Packet {
        source: peer.address,
        destination: own.address,
        port: 4791,
        opcode: Opcode::SEND_ONLY.value(),
        flags: 0,
        pkey: 0xffff,
        qp: pair.number(),
        // What the connection begins with.
        psn: 0x1234,
        rest: vec![0x11; 8],
        spoil: |_| {},
        cut: None,
    };
    let guard = own.bytes(WRITTEN, 4096);
    for (name, case, counted) in cases(&good, unconnected.number()) {
        let case = Packet {
            psn: good.psn,
            ..case
        };
        pair.receive(&[own.gather(TARGET, 64)]).expect("room");
        let before = counts(&own.endpoint.counters());
        let frame = case.frame(own, peer);
        lanes[0].lock().expect("whole").push_back(frame);
        let (after, completed) = run(own, &mut pair, &before);
        let mut want = before;
        match place(counted, &own.endpoint.counters()) {
            Some(place) => {
                want[place] += 1;
                assert_eq!(completed, None, "{name}");
                let answer = lanes[1].lock().expect("whole").pop_front();
                assert_eq!(answer, None, "{name}: silence");
            }
            None => {
                assert!(matches!(completed, Some(Completed::Received(_))), "{name}");
                assert_eq!(hear(own, &lanes[1]), Opcode::ACKNOWLEDGE.value(), "{name}");
                good.psn += 1;
            }
        }
        let names = || after.iter().zip(&want).position(|(is, want)| is != want);
        assert_eq!(after, want, "{name}: {:?}", names());
        assert_eq!(pair.state(), State::ReadyToSend, "{name}");
    }
    // A packet like any other arrives, and is answered.
    lanes[0]
        .lock()
        .expect("whole")
        .push_back(good.frame(own, peer));
    let before = counts(&own.endpoint.counters());
    let (after, completed) = run(own, &mut pair, &before);
    assert!(matches!(completed, Some(Completed::Received(message)) if message.length == 8));
    assert_eq!(after, before);
    assert_eq!(hear(own, &lanes[1]), Opcode::ACKNOWLEDGE.value());
    assert_eq!(own.bytes(WRITTEN, 4096), guard);
    drop((pair, far, unconnected));
    stage.stop();
}
