//! Selective repetition: what a responder takes before its turn and what it tells, what a requester
//! repeats and what it does not, and that signals come after their data in any weather.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpwire_protocols::rdma::{
    Attributes, Landing, Mtu, Note, Operation, Request, SELECTIVE_WINDOW, State, Status,
};
use warpwire_protocols::wire::opcode::Opcode;

use crate::end::{BASE, End, KEY, pair};
use crate::fabric::{Dice, Fabric, Weather};
use crate::hostile::{MTU, PSN, Packet, packet};

fn attributes() -> Attributes {
    Attributes {
        mtu: Mtu::M256,
        timeout: 8,
        retries: 2,
        selective: true,
        ..Attributes::default()
    }
}

/// An end that expects [`PSN`], and sends from it on.
fn end() -> End {
    let [mut end, _] = pair(attributes(), [PSN, PSN]);
    for place in 0..4 {
        end.receive(0x8000 + place * 0x1000, 0x1000);
    }
    end
}

fn ahead(psn: u32) -> i32 {
    (psn.wrapping_sub(PSN) << 8) as i32 >> 8
}

/// An answer: its syndrome, its sequence number, and the number or report behind the syndrome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answer {
    syndrome: u8,
    ahead: i32,
    rest: u32,
}

fn answers(end: &mut End) -> Vec<Answer> {
    let bytes = std::iter::from_fn(|| end.poll(1));
    let read = |bytes: Vec<u8>| {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        assert_eq!(bytes[0], Opcode::ACKNOWLEDGE.value(), "{bytes:02x?}");
        Answer {
            syndrome: bytes[12],
            ahead: ahead(word(8) & 0x00ff_ffff),
            rest: word(12) & 0x00ff_ffff,
        }
    };
    bytes.map(read).collect()
}

fn acknowledged(ahead: i32, messages: u32) -> Answer {
    Answer {
        syndrome: 0x1f,
        ahead,
        rest: messages,
    }
}

/// The report of packets so far ahead, which lie in one block, and of one that came.
fn reported(missing: i32, came: u32, taken: &[u32]) -> Answer {
    let place = |ahead: u32| (PSN + ahead) & 0x7f;
    let bits: u32 = taken.iter().map(|ahead| 1 << (place(*ahead) % 16)).sum();
    Answer {
        syndrome: 0x60,
        ahead: missing,
        rest: (place(came) / 16) << 20 | (place(came) % 16) << 16 | bits,
    }
}

fn write(ahead: i32, length: usize) -> Packet {
    let place = BASE + 0x100 * u64::from(ahead as u8);
    let packet = packet(Opcode::WRITE_ONLY, length).at(place, KEY, length as u32);
    packet.psn(ahead)
}

#[test]
fn a_gap_is_told_until_it_is_filled_and_then_all_is_done() {
    let mut end = end();
    let mut take = |ahead| {
        let delivery = end.take(1, &write(ahead, MTU).bytes(), false);
        (delivery.note, delivery.landing.is_some(), answers(&mut end))
    };
    let early = Some(Note::Early);
    assert_eq!(take(0), (None, true, vec![acknowledged(0, 1)]));
    assert_eq!(take(2), (early, true, vec![reported(1, 2, &[2])]));
    assert_eq!(take(4), (early, true, vec![reported(1, 4, &[2, 4])]));
    assert_eq!(take(3), (early, true, vec![reported(1, 3, &[2, 3, 4])]));
    let again = vec![reported(1, 2, &[2, 3, 4])];
    assert_eq!(take(2), (Some(Note::Duplicate), false, again));
    // In the next block of 16.
    assert_eq!(take(20), (early, true, vec![reported(1, 20, &[20])]));
    // A repetition of what was done tells everything.
    let all = vec![reported(1, 4, &[2, 3, 4]), reported(1, 20, &[20])];
    assert_eq!(take(0), (Some(Note::Duplicate), false, all));
    assert_eq!(take(1), (None, true, vec![acknowledged(4, 5)]));
    assert_eq!(end.pair_expected(), (PSN + 5) & 0x00ff_ffff);
}

#[test]
fn many_packets_between_two_answers_are_all_told() {
    let mut end = end();
    let came = [1, 2, 3, 9, 18, 19, 40, 111];
    for ahead in came {
        end.take(1, &write(ahead as i32, MTU).bytes(), false);
    }
    let mut told = answers(&mut end);
    // The block of the last one first, then each of the others once.
    assert_eq!(told.remove(0), reported(0, 111, &[111]));
    let mut blocks = [0; 8];
    for answer in told {
        let block = &mut blocks[(answer.rest >> 20) as usize];
        assert_eq!(*block, 0, "once");
        *block = answer.rest & 0xffff;
    }
    let mut want = [0; 8];
    for ahead in &came[..came.len() - 1] {
        let place = (PSN + ahead) as usize & 0x7f;
        want[place / 16] |= 1 << (place % 16);
    }
    assert_eq!(blocks, want);
}

#[test]
fn what_comes_in_turn_is_not_taken_early() {
    let cases = [
        ("a signal", write(2, 8)),
        ("an empty write", write(2, 0)),
        (
            "a write with immediate",
            packet(Opcode::WRITE_ONLY_IMM, 16).with(&[0, BASE as u32, KEY, 16, 1]),
        ),
        ("a send", packet(Opcode::SEND_ONLY, 16)),
        ("the first of a send", packet(Opcode::SEND_FIRST, MTU)),
        ("a read", packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 16)),
        ("an atomic", packet(Opcode::FETCH_ADD, 0).atomic(BASE, KEY)),
        (
            "a key that is none",
            packet(Opcode::WRITE_ONLY, 16).at(BASE, 0x0901, 16),
        ),
        (
            "beyond the region",
            packet(Opcode::WRITE_ONLY, 16).at(BASE - 1, KEY, 16),
        ),
        (
            "a length that is not the payload's",
            packet(Opcode::WRITE_ONLY, 16).at(BASE, KEY, 17),
        ),
        (
            "beyond the MTU",
            packet(Opcode::WRITE_ONLY, MTU + 4).at(BASE, KEY, MTU as u32 + 4),
        ),
        (
            "the first of a write",
            packet(Opcode::WRITE_FIRST, MTU).at(BASE, KEY, 1000),
        ),
    ];
    for (name, early) in cases {
        let mut end = end();
        let before = end.around.memory.clone();
        let delivery = end.take(1, &early.psn(2).bytes(), false);
        assert_eq!(delivery.note, Some(Note::Ahead), "{name}");
        assert_eq!(
            (delivery.landing, delivery.received),
            (None, None),
            "{name}"
        );
        assert_eq!(answers(&mut end), [reported(0, 2, &[])], "{name}");
        assert!(end.around.memory == before, "{name}");
        assert_eq!(end.pair.state(), State::ReadyToSend, "{name}");
    }
}

#[test]
fn the_window_has_an_end() {
    let mut end = end();
    let last = SELECTIVE_WINDOW as i32 - 1;
    for ahead in [last + 1, 1 << 22, -(1 << 23)] {
        let delivery = end.take(1, &write(ahead, MTU).bytes(), false);
        assert_eq!(delivery.landing, None, "{ahead}");
        let silent = answers(&mut end).iter().all(|one| one.syndrome == 0x1f);
        assert!(silent, "{ahead}");
    }
    let delivery = end.take(1, &write(last, MTU).bytes(), false);
    assert_eq!(delivery.note, Some(Note::Early));
}

#[test]
fn a_write_of_several_packets_is_refused_where_each_is_whole() {
    for opcode in [
        Opcode::WRITE_FIRST,
        Opcode::WRITE_MIDDLE,
        Opcode::WRITE_LAST,
    ] {
        let mut end = end();
        let delivery = end.take(1, &packet(opcode, MTU).at(BASE, KEY, 1000).bytes(), false);
        assert_eq!(
            (delivery.landing, delivery.note),
            (None, Some(Note::Order)),
            "{opcode}"
        );
        assert_eq!(answers(&mut end)[0].syndrome, 0x61, "{opcode}");
        assert_eq!(end.pair.state(), State::Error, "{opcode}");
    }
}

#[test]
fn the_end_of_a_write_with_immediate_speaks_of_the_whole() {
    let bytes = BASE as u32;
    let cases = [
        (0, 256, true),
        (256, 256, true),
        (16, 1000, true),
        (16, 15, false),
        (0, 0, true),
    ];
    for (payload, length, fits) in cases {
        let mut end = end();
        let packet = packet(Opcode::WRITE_ONLY_IMM, payload).with(&[0, bytes, KEY, length, 7]);
        let delivery = end.take(1, &packet.bytes(), false);
        if !fits {
            assert_eq!(delivery.note, Some(Note::Length));
            continue;
        }
        let received = delivery.received.expect("completes a receive");
        assert_eq!((received.length, received.immediate), (length, Some(7)));
        let landing = (payload > 0).then_some(Landing::Memory {
            address: BASE + u64::from(length) - payload as u64,
            length: payload as u32,
        });
        assert_eq!(delivery.landing, landing);
    }
    // All of it must lie in the region, not the end alone.
    let mut end = end();
    let packet = packet(Opcode::WRITE_ONLY_IMM, 16).with(&[0, bytes - 1, KEY, 17, 7]);
    assert_eq!(end.take(1, &packet.bytes(), false).note, Some(Note::Access));
}

/// The opcode and place of every packet that is sent now.
fn sent(end: &mut End, now_ns: u64) -> Vec<(u8, i32)> {
    let packets = std::iter::from_fn(|| end.poll(now_ns));
    let told = packets.map(|bytes| {
        let psn = u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]);
        (bytes[0], ahead(psn))
    });
    told.collect()
}

fn places(end: &mut End, now_ns: u64) -> Vec<i32> {
    sent(end, now_ns).into_iter().map(|one| one.1).collect()
}

/// A peer that answers.
fn respond(end: &mut End, now_ns: u64, answer: Answer) {
    let words = [u32::from(answer.syndrome) << 24 | answer.rest];
    let packet = packet(Opcode::ACKNOWLEDGE, 0)
        .with(&words)
        .psn(answer.ahead);
    end.take(now_ns, &packet.bytes(), false);
}

fn asks(end: &mut End, operation: Operation, length: u32) {
    let request = Request {
        operation,
        length,
        address: BASE + 0x1000,
        key: KEY,
        immediate: 5,
        ..Request::default()
    };
    end.post(request, 0);
}

#[test]
fn writes_leave_as_packets_that_are_whole() {
    let mut end = end();
    asks(&mut end, Operation::WriteImmediate, 600);
    let packets: Vec<_> = std::iter::from_fn(|| end.poll(1)).collect();
    let whole = [
        (Opcode::WRITE_ONLY, 0, 256),
        (Opcode::WRITE_ONLY, 256, 256),
        // The last one speaks of the message.
        (Opcode::WRITE_ONLY_IMM, 0, 600),
    ];
    for (bytes, (opcode, offset, length)) in packets.iter().zip(whole) {
        let address = u64::from_be_bytes(bytes[12..20].try_into().expect("eight"));
        let told = u32::from_be_bytes(bytes[24..28].try_into().expect("four"));
        assert_eq!(bytes[0], opcode.value());
        assert_eq!(
            (address, told),
            (BASE + 0x1000 + offset, length),
            "{opcode}"
        );
    }
    assert_eq!(packets.len(), 3);
}

#[test]
fn holes_are_filled_once_and_again_when_a_repetition_was_overtaken() {
    let mut end = end();
    asks(&mut end, Operation::Write, 256 * 20);
    assert_eq!(sent(&mut end, 1).len(), 20);
    respond(&mut end, 10, acknowledged(1, 2));
    // 2 and 4 are missing; of what lies behind 6 nothing is known.
    respond(&mut end, 11, reported(2, 6, &[3, 5, 6]));
    assert_eq!(places(&mut end, 11), [2, 4]);
    respond(&mut end, 12, reported(2, 7, &[3, 5, 6, 7]));
    assert_eq!(places(&mut end, 12), [0; 0], "nothing new");
    respond(&mut end, 13, reported(2, 9, &[3, 5, 6, 7, 9]));
    assert_eq!(places(&mut end, 13), [8], "a new hole");
    asks(&mut end, Operation::Write, 256 * 2);
    assert_eq!(places(&mut end, 14), [20, 21]);
    // 20 was sent behind the repetition of 2, and came before it.
    respond(&mut end, 15, reported(2, 20, &[20]));
    let again = places(&mut end, 15);
    assert_eq!(again[..3], [2, 4, 8], "{again:?}");
    respond(&mut end, 16, acknowledged(21, 22));
    let done = end.sent.iter().filter(|one| one.status == Status::Success);
    assert_eq!(done.count(), 2);
    assert_eq!(end.pair.timeout_ns(16), None);
}

#[test]
fn what_comes_in_turn_is_repeated_with_the_hole_before_it() {
    let mut end = end();
    asks(&mut end, Operation::Write, 256 * 2);
    asks(&mut end, Operation::Write, 8);
    asks(&mut end, Operation::FetchAdd, 8);
    asks(&mut end, Operation::Write, 256);
    assert_eq!(places(&mut end, 1), [0, 1, 2, 3, 4]);
    // The first is missing: signal and atomic behind it were not taken. The last one may be on its
    // way.
    respond(&mut end, 10, reported(0, 1, &[1]));
    assert_eq!(places(&mut end, 10), [0, 2, 3]);
    respond(&mut end, 11, reported(0, 4, &[1, 4]));
    assert_eq!(places(&mut end, 11), [0; 0]);
}

#[test]
fn a_lost_end_is_found_by_a_probe_long_before_the_timer() {
    let timer_ns = 4096 << 8;
    let mut end = end();
    // The way there and back is 20 us.
    asks(&mut end, Operation::Write, 256);
    sent(&mut end, 1);
    respond(&mut end, 20_001, acknowledged(0, 1));
    asks(&mut end, Operation::Write, 256 * 3);
    let begun = 100_000;
    assert_eq!(places(&mut end, begun), [1, 2, 3]);
    let probe = end.pair.timeout_ns(begun).expect("a timer runs");
    let after = probe - begun;
    assert!((40_000..200_000).contains(&after), "{after} ns");
    end.on_timer(probe);
    assert_eq!(places(&mut end, probe), [1], "the oldest alone");
    let next = end.pair.timeout_ns(probe).expect("a timer runs") - begun;
    assert_eq!(next, 2 * after, "more and more patient");
    // Its answer says that the others did not come.
    respond(&mut end, probe + 20_000, acknowledged(1, 2));
    assert_eq!(places(&mut end, probe + 20_000), [2, 3]);
    respond(&mut end, probe + 40_000, acknowledged(3, 4));
    assert_eq!(end.sent.len(), 2);
    // Probes are no repetitions: the peer that never answers is given up by the timer alone.
    asks(&mut end, Operation::Write, 256);
    let (mut now, mut first) = (1 << 30, None);
    sent(&mut end, now);
    while let Some(at) = end.pair.timeout_ns(now) {
        now = at;
        end.on_timer(now);
        sent(&mut end, now);
        first = first.or(Some(now));
    }
    assert_eq!(end.sent.last().expect("told").status, Status::RetryExceeded);
    assert_eq!(now, (1 << 30) + 3 * timer_ns);
    assert!(first.is_some_and(|at| at < now));
}

#[test]
fn reports_of_what_was_not_sent_change_nothing() {
    let mut end = end();
    asks(&mut end, Operation::Write, 256 * 4);
    sent(&mut end, 1);
    respond(&mut end, 10, reported(0, 4, &[4]));
    assert_eq!(end.note(Note::Unasked), 1);
    respond(&mut end, 10, reported(4, 5, &[5]));
    assert_eq!(end.note(Note::Unasked), 2);
    respond(&mut end, 10, reported(-1, 1, &[1]));
    assert_eq!(end.note(Note::StaleResponse), 1);
    assert_eq!(places(&mut end, 10), [0; 0]);
}

/// The acknowledgement of what was placed early can be lost as any other.
#[test]
fn what_arrived_is_done_when_all_before_it_is() {
    let mut end = end();
    asks(&mut end, Operation::FetchAdd, 8);
    asks(&mut end, Operation::Write, 256 * 3);
    asks(&mut end, Operation::Write, 256);
    assert_eq!(places(&mut end, 1), [0, 1, 2, 3, 4]);
    respond(&mut end, 10, reported(0, 1, &[1]));
    respond(&mut end, 10, reported(0, 3, &[2, 3]));
    assert_eq!(places(&mut end, 10), [0]);
    let words = [0x1f00_0001, 0, 42];
    let packet = packet(Opcode::ATOMIC_ACKNOWLEDGE, 0).with(&words).psn(0);
    end.take(20, &packet.bytes(), false);
    assert_eq!(end.sent.len(), 2, "the atomic, and what had arrived");
    respond(&mut end, 30, acknowledged(4, 3));
    assert_eq!(end.sent.len(), 3);
}

/// Where signals lie; before each of them its data.
const SIGNALS: usize = 0x8000;
const DATA: usize = 0x1_0000;
const PUTS: usize = 24;

/// Puts, each with a signal of one of four kinds behind it: a word that is written, an addition, an
/// immediate, a message. Whenever a signal is seen, all data that was sent before it is there.
fn signals(seed: u64, weather: Weather) -> u64 {
    let mut dice = Dice::new(seed ^ 0x51);
    let attributes = Attributes {
        mtu: [Mtu::M256, Mtu::M512][dice.below(2) as usize],
        timeout: 8,
        retries: 7,
        window: [16, 64, 128][dice.below(3) as usize],
        selective: true,
        ..Attributes::default()
    };
    let mut ends = pair(attributes, [dice.next() as u32, 9]);
    for byte in &mut ends[0].around.memory[DATA..] {
        *byte = dice.next() as u8 | 1;
    }
    let lengths: Vec<u32> = (0..PUTS).map(|_| 9 + dice.below(5000) as u32).collect();
    let kinds: Vec<u64> = (0..PUTS).map(|_| dice.below(4)).collect();
    for (number, (length, kind)) in lengths.iter().zip(&kinds).enumerate() {
        let put = |operation, length, at: usize| Request {
            operation,
            length,
            address: BASE + at as u64,
            key: KEY,
            value: 1,
            immediate: number as u32,
            ..Request::default()
        };
        let (data, signal) = (DATA + number * 0x2000, SIGNALS + number * 8);
        let operation = match kind {
            2 => Operation::WriteImmediate,
            _ => Operation::Write,
        };
        ends[0].post(put(operation, *length, data), data);
        match kind {
            0 => _ = ends[0].post(put(Operation::Write, 8, signal), data),
            1 => _ = ends[0].post(put(Operation::FetchAdd, 8, signal), 0),
            3 => _ = ends[0].post(put(Operation::Send, 9, 0), data),
            _ => {}
        }
        ends[1].receive(0x2000, 64);
    }
    let total = ends[0].posted() as usize;
    let mut fabric = Fabric::new(seed, weather);
    fabric.run(&mut ends, 400_000, |ends| {
        let [one, other] = ends;
        let (mut seen, mut messages) = (0, 0);
        for (number, kind) in kinds.iter().enumerate() {
            let at = SIGNALS + number * 8;
            messages += usize::from(*kind >= 2);
            let is_there = match kind {
                0 | 1 => other.around.memory[at..at + 8] != [0; 8],
                _ => other.received.len() >= messages,
            };
            if is_there {
                seen = number + 1;
            }
        }
        for (number, length) in lengths[..seen].iter().enumerate() {
            let data = DATA + number * 0x2000..DATA + number * 0x2000 + *length as usize;
            let there = &other.around.memory[data.clone()];
            assert!(
                there == &one.around.memory[data],
                "signal {seen} without data {number}"
            );
        }
        one.sent.len() >= total || one.pair.fault().is_some()
    });
    assert_eq!((ends[0].sent.len(), ends[0].pair.fault()), (total, None));
    for (number, kind) in kinds.iter().enumerate() {
        let at = SIGNALS + number * 8;
        let word = u64::from_le_bytes(ends[1].around.memory[at..at + 8].try_into().expect("eight"));
        assert!(*kind != 1 || word == 1, "added once");
    }
    let guard = DATA + PUTS * 0x2000;
    assert!(ends[1].around.memory[guard..].iter().all(|byte| *byte == 0));
    ends[1].note(Note::Early)
}

#[test]
fn signals_come_after_their_data_in_any_weather() {
    let weather = Weather {
        loss: 300,
        doubling: 300,
        delay: 500,
        marks: 0,
    };
    let mut early = 0;
    for seed in 0..64 {
        match catch_unwind(AssertUnwindSafe(|| signals(seed, weather))) {
            Ok(more) => early += more,
            Err(panic) => {
                eprintln!("seed {seed} in {weather:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(early > 1000, "{early} packets came early");
}
