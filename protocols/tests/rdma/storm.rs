//! Both ends send everything that there is, over bad weather: each message arrives once and in
//! order, each atomic is carried out once, reads bring what is there, and it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpwire_protocols::rdma::{
    Attributes, Mtu, Note, Operation, Request, Service, Status, Tuning,
};

use crate::end::{BASE, End, KEY, pair};
use crate::fabric::{Dice, Fabric, Weather};

/// Where things lie in each end's memory.
const COUNTER: usize = 0;
const SOURCE: usize = 0x1000;
const SOURCE_BYTES: usize = 0x8000;
/// Each request has a place of its own: for what it fetches, and in the peer for what it writes.
const OWN: usize = 0x1_0000;
const WRITTEN: usize = 0x8_0000;
const RECEIVED: usize = 0xc_0000;
const PLACE: usize = 0x2000;

const REQUESTS: usize = 32;

/// What one end asked for.
struct Asked {
    request: Request,
    place: usize,
}

fn ask(dice: &mut Dice, number: usize, mtu: Mtu) -> Asked {
    let operations = [
        Operation::Send,
        Operation::SendImmediate,
        Operation::Write,
        Operation::WriteImmediate,
        Operation::Read,
        Operation::FetchAdd,
        Operation::CompareSwap,
    ];
    let operation = operations[dice.below(7) as usize];
    let bytes = u64::from(mtu.bytes());
    let sizes = [
        0,
        1,
        3,
        8,
        9,
        bytes - 1,
        bytes,
        bytes + 1,
        4 * bytes + 5,
        PLACE as u64,
    ];
    let length = (sizes[dice.below(10) as usize] as usize).min(PLACE) as u32;
    let own = OWN + number * PLACE;
    let (place, address, length) = match operation {
        Operation::Read => (own, SOURCE, length),
        Operation::FetchAdd | Operation::CompareSwap => (own, COUNTER, 8),
        _ => {
            let slack = (SOURCE_BYTES - length as usize) as u64;
            let place = SOURCE + dice.below(slack) as usize;
            (place, WRITTEN + number * PLACE, length)
        }
    };
    let request = Request {
        operation,
        fence: dice.happens(1500),
        solicited: false,
        length,
        address: BASE + address as u64,
        key: KEY,
        immediate: number as u32,
        // A comparison that never holds: the counter grows by additions alone.
        value: 1,
        compare: u64::MAX,
        ..Request::default()
    };
    Asked { request, place }
}

fn takes_receive(request: &Request) -> bool {
    matches!(
        request.operation,
        Operation::Send | Operation::SendImmediate | Operation::WriteImmediate
    )
}

/// What a storm is like, beside the weather.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// Receives are posted one at a time, some time after the last was used.
    late_receives: bool,
    /// Congestion is told and heeded.
    controlled: bool,
    /// Only what was lost is repeated.
    selective: bool,
}

fn storm(seed: u64, weather: Weather, kind: Kind) -> Vec<u64> {
    let mut dice = Dice::new(seed.wrapping_mul(77));
    let mtu = Mtu::ALL[dice.below(3) as usize];
    let attributes = Attributes {
        mtu,
        timeout: 8,
        window: [8, 32, 128][dice.below(3) as usize],
        reads: 1 + dice.below(4) as u8,
        reads_served: 4,
        // With bad luck in a row nothing else is tested.
        retries: 7,
        selective: kind.selective,
        ..Attributes::default()
    };
    let psns = [dice.next() as u32, 0x00ff_fff0];
    let mut ends = pair(attributes, psns);
    let mut asked: [Vec<Asked>; 2] = [Vec::new(), Vec::new()];
    for (end, asked) in ends.iter_mut().zip(&mut asked) {
        for byte in &mut end.around.memory[SOURCE..SOURCE + SOURCE_BYTES] {
            *byte = dice.next() as u8;
        }
        if kind.controlled {
            end.tuning = Tuning::of_link(1_000_000);
            end.pair.tune(&end.tuning);
        }
        for number in 0..REQUESTS {
            let one = ask(&mut dice, number, mtu);
            end.post(one.request, one.place);
            asked.push(one);
        }
    }
    let mut fabric = Fabric::new(seed, weather);
    let mut posted = [0; 2];
    fabric.run(&mut ends, 2_000_000, |ends| {
        for side in 0..2 {
            let wanted = asked[1 - side].iter();
            let wanted = wanted.filter(|one| takes_receive(&one.request)).count();
            let most = match kind.late_receives {
                true if dice.happens(300) => ends[side].received.len() + 1,
                true => posted[side],
                false => wanted,
            };
            while posted[side] < most.min(wanted) {
                let place = RECEIVED + posted[side] % 16 * PLACE;
                ends[side].receive(place, PLACE as u32);
                posted[side] += 1;
            }
        }
        ends.iter()
            .all(|end| end.sent.len() >= REQUESTS || end.pair.fault().is_some())
    });
    check(&ends, &asked);
    let [one, other] = ends.map(|end| end.notes);
    one.iter().zip(&other).map(|(a, b)| a + b).collect()
}

fn check(ends: &[End; 2], asked: &[Vec<Asked>; 2]) {
    for side in 0..2 {
        let (end, peer, asked) = (&ends[side], &ends[1 - side], &asked[side]);
        assert_eq!(end.pair.fault(), None);
        let orders = end.sent.iter().zip(0..);
        for (sent, index) in orders {
            assert_eq!((sent.index, sent.status), (index, Status::Success));
        }
        assert_eq!(end.sent.len(), REQUESTS);
        let bytes = |place: usize, length: u32| &end.around.memory[place..][..length as usize];
        let theirs = |place: usize, length: u32| &peer.around.memory[place..][..length as usize];
        let mut arrivals = peer.received.iter();
        let mut added = 0u64;
        for (number, Asked { request, place }) in asked.iter().enumerate() {
            let length = request.length;
            let own = || u64::from_le_bytes(bytes(*place, 8).try_into().expect("eight"));
            match request.operation {
                Operation::Read => {
                    assert_eq!(
                        bytes(*place, length),
                        theirs(SOURCE, length),
                        "read {number}"
                    );
                }
                Operation::FetchAdd => {
                    assert_eq!(own(), added, "atomics are carried out once, in order");
                    added += 1;
                }
                Operation::CompareSwap => assert_eq!(own(), added),
                Operation::Write | Operation::WriteImmediate => {
                    let there = theirs(WRITTEN + number * PLACE, length);
                    assert_eq!(there, bytes(*place, length), "write {number}");
                }
                _ => {}
            }
            if takes_receive(request) {
                let (received, payload) = arrivals.next().expect("arrived");
                assert_eq!(
                    (received.status, received.length),
                    (Status::Success, length)
                );
                let immediate = request.operation != Operation::Send;
                assert_eq!(received.immediate, immediate.then_some(request.immediate));
                if request.operation != Operation::WriteImmediate {
                    assert_eq!(payload, bytes(*place, length), "send {number}");
                }
            }
        }
        assert!(arrivals.next().is_none(), "nothing arrives twice");
        let counter = theirs(COUNTER, 8).try_into().expect("eight");
        assert_eq!(u64::from_le_bytes(counter), added);
    }
}

/// Every seed, going back and repeating selectively; a failure says which. What the weather is for
/// must have happened.
fn storms(weather: Weather, kind: Kind, seen: &[Note]) {
    for selective in [false, true] {
        let kind = Kind { selective, ..kind };
        let mut notes = [0; Note::COUNT];
        for seed in 0..64 {
            match catch_unwind(AssertUnwindSafe(|| storm(seed, weather, kind))) {
                Ok(more) => notes
                    .iter_mut()
                    .zip(more)
                    .for_each(|(sum, more)| *sum += more),
                Err(panic) => {
                    eprintln!("seed {seed} in {weather:?}, {kind:?}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
        let early: &[Note] = match selective && seen.contains(&Note::Ahead) {
            true => &[Note::Early],
            false => &[],
        };
        for note in Note::ALL {
            let count = notes[*note as usize];
            println!("{kind:?} {}: {count}", note.name());
            let wanted = seen.contains(note) || early.contains(note);
            assert!(count > 20 || !wanted, "{} was {count}", note.name());
        }
    }
}

#[test]
fn fine_weather() {
    storms(Weather::FINE, Kind::default(), &[]);
}

#[test]
fn losses() {
    let weather = Weather {
        loss: 300,
        ..Weather::FINE
    };
    let seen = [Note::Ahead, Note::Duplicate, Note::LostResponse];
    storms(weather, Kind::default(), &seen);
}

#[test]
fn everything_at_once() {
    let weather = Weather {
        loss: 200,
        doubling: 300,
        delay: 500,
        marks: 0,
    };
    let seen = [Note::Ahead, Note::Duplicate, Note::StaleResponse];
    storms(weather, Kind::default(), &seen);
}

#[test]
fn receives_that_come_late() {
    let weather = Weather {
        loss: 100,
        doubling: 100,
        ..Weather::FINE
    };
    let kind = Kind {
        late_receives: true,
        ..Kind::default()
    };
    storms(weather, kind, &[Note::NoReceive, Note::Ahead]);
}

#[test]
fn congestion_slows_and_loses_nothing() {
    let weather = Weather {
        loss: 50,
        marks: 500,
        ..Weather::FINE
    };
    let kind = Kind {
        controlled: true,
        ..Kind::default()
    };
    storms(weather, kind, &[Note::Congestion]);
}

#[test]
fn unreliable_connections_deliver_whole_messages_or_none() {
    for seed in 0..64 {
        let mut dice = Dice::new(seed);
        let attributes = Attributes {
            service: Service::Uc,
            mtu: Mtu::M256,
            ..Attributes::default()
        };
        let mut ends = pair(attributes, [5, 9]);
        for byte in &mut ends[0].around.memory[SOURCE..SOURCE + SOURCE_BYTES] {
            *byte = dice.next() as u8;
        }
        let mut lengths = Vec::new();
        for number in 0..64 {
            let length = dice.below(1500) as u32;
            lengths.push(length);
            let request = Request {
                operation: Operation::SendImmediate,
                length,
                immediate: number,
                ..Request::default()
            };
            ends[0].post(request, SOURCE + number as usize * 64);
            ends[1].receive(RECEIVED + number as usize * 2048, 2048);
        }
        let weather = Weather {
            loss: 500,
            doubling: 100,
            ..Weather::FINE
        };
        let mut fabric = Fabric::new(seed, weather);
        while fabric.step(&mut ends) {}
        assert_eq!(ends[0].sent.len(), 64, "sent is done");
        let mut last = None;
        for (received, payload) in &ends[1].received {
            let number = received.immediate.expect("each has one");
            assert!(last.is_none_or(|last| last <= number), "in order");
            last = Some(number);
            let place = SOURCE + number as usize * 64;
            let length = lengths[number as usize] as usize;
            assert_eq!(payload, &ends[0].around.memory[place..place + length]);
        }
        assert!(ends[1].received.len() > 20, "most arrive");
    }
}
