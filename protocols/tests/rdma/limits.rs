//! Every opcode in every place of a message, at every length; and fields at their limits: what a
//! responder answers, what it counts, and where it stands after, against a model of a few lines.

use warpwire_protocols::rdma::{Attributes, Mtu, Note, Operation, Request, Service, State};
use warpwire_protocols::wire::opcode::{Class, Opcode};

use crate::end::{BASE, BYTES, End, KEY, pair};
use crate::hostile::{MTU, PSN, Packet, packet};

const ACK: u8 = 0x1f;
const INVALID: u8 = 0x61;
const ACCESS: u8 = 0x62;

fn end(service: Service, selective: bool) -> End {
    let attributes = Attributes {
        mtu: Mtu::M256,
        service,
        selective,
        ..Attributes::default()
    };
    let [mut end, _] = pair(attributes, [7, PSN]);
    for number in 0..4 {
        end.receive(0x8000 + number * 0x1000, 0x1000);
    }
    end
}

/// What is answered: opcodes, and syndromes of those that have one.
fn answers(end: &mut End) -> Vec<(u8, u8)> {
    let packets = std::iter::from_fn(|| end.poll(1));
    packets.map(|bytes| (bytes[0], bytes[12])).collect()
}

/// A message of which the first packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begun {
    Nothing,
    Send,
    Write,
}

/// Whether a packet is right in its place, by the tables of the specification: 9.7.4.1.2 for the
/// order of opcodes, 9.7.4.1.6 for lengths.
fn is_right(opcode: Opcode, begun: Begun, payload: usize, selective: bool) -> bool {
    let code = opcode.value();
    let (first, middle, last) = match begun {
        Begun::Nothing => (true, false, false),
        Begun::Send => (false, code == 0x01, [0x02, 0x03, 0x16].contains(&code)),
        Begun::Write => (false, code == 0x07, [0x08, 0x09].contains(&code)),
    };
    let begins = first && [0x00, 0x06].contains(&code) && !(selective && code == 0x06);
    let whole = [0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x17].contains(&code);
    match () {
        () if begins || middle => payload == MTU,
        () if last => (1..=MTU).contains(&payload),
        () if whole && first => payload <= MTU,
        () => false,
    }
}

/// The packet with fields that suit it.
fn suited(opcode: Opcode, payload: usize) -> Packet {
    let packet = packet(opcode, payload);
    let length = if opcode == Opcode::WRITE_FIRST {
        2 * MTU
    } else {
        payload
    } as u32;
    match opcode {
        Opcode::READ_REQUEST => packet.at(BASE, KEY, 8),
        Opcode::COMPARE_SWAP | Opcode::FETCH_ADD => packet.atomic(BASE, KEY),
        Opcode::WRITE_FIRST | Opcode::WRITE_ONLY => packet.at(BASE, KEY, length),
        Opcode::WRITE_ONLY_IMM => packet.with(&[0, BASE as u32, KEY, length, 9]),
        // The key of the whole memory may be taken away.
        Opcode::SEND_LAST_INVALIDATE | Opcode::SEND_ONLY_INVALIDATE => packet.with(&[KEY]),
        _ => packet.with(&vec![0; opcode.headers().length() / 4]),
    }
}

/// A write that was begun has as much to come as its last packet brings.
fn begin(end: &mut End, begun: Begun, opcode: Opcode, payload: usize) {
    let rest = if opcode.ends_message() {
        payload.max(1)
    } else {
        2 * MTU
    };
    let first = match begun {
        Begun::Nothing => return,
        Begun::Send => packet(Opcode::SEND_FIRST, MTU),
        Begun::Write => packet(Opcode::WRITE_FIRST, MTU).at(BASE, KEY, (MTU + rest) as u32),
    };
    assert_eq!(end.take(1, &first.psn(-1).bytes(), false).note, None);
    while end.poll(1).is_some() {}
}

#[test]
fn every_opcode_in_every_place_at_every_length() {
    let mut right = 0;
    let requests = Opcode::ALL
        .iter()
        .filter(|one| one.class() == Class::Rc && !one.is_response());
    for &opcode in requests {
        for begun in [Begun::Nothing, Begun::Send, Begun::Write] {
            for payload in [0, 1, 8, MTU - 1, MTU, MTU + 1, 4096] {
                for selective in [false, true] {
                    // No packet may have payload that has no place for it: it is dropped before.
                    let no_write = selective && begun == Begun::Write;
                    if no_write || (payload > 0 && !opcode.has_payload()) {
                        continue;
                    }
                    right += usize::from(try_one(opcode, begun, payload, selective));
                }
            }
        }
    }
    assert!(right > 60, "{right} were right");
}

fn try_one(opcode: Opcode, begun: Begun, payload: usize, selective: bool) -> bool {
    let name = format!("{opcode} of {payload} in {begun:?}, selective {selective}");
    let begins = if begun == Begun::Nothing {
        PSN
    } else {
        PSN.wrapping_sub(1)
    };
    let attributes = *end(Service::Rc, selective).pair.attributes();
    let [mut end, _] = pair(attributes, [7, begins]);
    for number in 0..4 {
        end.receive(0x8000 + number * 0x1000, 0x2000);
    }
    begin(&mut end, begun, opcode, payload);
    let delivery = end.take(1, &suited(opcode, payload).bytes(), false);
    let answers = answers(&mut end);
    let is_right = is_right(opcode, begun, payload, selective);
    let answer = match (is_right, opcode) {
        (false, _) => (Opcode::ACKNOWLEDGE.value(), INVALID),
        (true, Opcode::READ_REQUEST) => (Opcode::READ_RESPONSE_ONLY.value(), ACK),
        (true, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD) => {
            (Opcode::ATOMIC_ACKNOWLEDGE.value(), ACK)
        }
        (true, _) => (Opcode::ACKNOWLEDGE.value(), ACK),
    };
    assert_eq!(answers, [answer], "{name}");
    assert_eq!(delivery.note.is_some(), !is_right, "{name}: {delivery:?}");
    let state = if is_right {
        State::ReadyToSend
    } else {
        State::Error
    };
    assert_eq!(end.pair.state(), state, "{name}");
    assert!(is_right || delivery.landing.is_none(), "{name}");
    is_right
}

#[test]
fn fields_at_their_limits() {
    let top = BASE + BYTES as u64;
    let write = |address, key, length: u32, payload| {
        packet(Opcode::WRITE_ONLY, payload).at(address, key, length)
    };
    let read = |address, key, length| packet(Opcode::READ_REQUEST, 0).at(address, key, length);
    let add = |address, key| packet(Opcode::FETCH_ADD, 0).atomic(address, key);
    let long = |length| packet(Opcode::WRITE_FIRST, MTU).at(BASE, KEY, length);
    let (ack, acknowledge) = (Ok(()), Opcode::ACKNOWLEDGE);
    let response = Opcode::READ_RESPONSE_ONLY;
    let atomic = Opcode::ATOMIC_ACKNOWLEDGE;
    let cases = [
        // Where nothing is moved, nothing is asked.
        ("no bytes, no key", write(0, 0, 0, 0), acknowledge, ack),
        (
            "no bytes at the end",
            write(u64::MAX, u32::MAX, 0, 0),
            acknowledge,
            ack,
        ),
        ("no bytes to read", read(u64::MAX, 0, 0), response, ack),
        ("the first byte", write(BASE, KEY, 1, 1), acknowledge, ack),
        ("the last byte", write(top - 1, KEY, 1, 1), acknowledge, ack),
        (
            "the byte behind",
            write(top, KEY, 1, 1),
            acknowledge,
            Err(ACCESS),
        ),
        ("address 0", write(0, KEY, 1, 1), acknowledge, Err(ACCESS)),
        (
            "the last address",
            write(u64::MAX, KEY, 1, 1),
            acknowledge,
            Err(ACCESS),
        ),
        (
            "the last key",
            write(BASE, u32::MAX, 1, 1),
            acknowledge,
            Err(ACCESS),
        ),
        ("key 0", read(BASE, 0, 1), acknowledge, Err(ACCESS)),
        (
            "2^31 bytes to read",
            read(BASE, KEY, 1 << 31),
            acknowledge,
            Err(ACCESS),
        ),
        (
            "one more",
            read(BASE, KEY, (1 << 31) + 1),
            acknowledge,
            Err(INVALID),
        ),
        (
            "2^32 - 1",
            read(BASE, KEY, u32::MAX),
            acknowledge,
            Err(INVALID),
        ),
        (
            "2^31 bytes to write",
            long(1 << 31),
            acknowledge,
            Err(ACCESS),
        ),
        (
            "one more to write",
            long((1 << 31) + 1),
            acknowledge,
            Err(INVALID),
        ),
        ("all of it to write", long(BYTES as u32), acknowledge, ack),
        (
            "one more than there is",
            long(BYTES as u32 + 1),
            acknowledge,
            Err(ACCESS),
        ),
        ("an atomic at the end", add(top - 8, KEY), atomic, ack),
        (
            "an atomic behind it",
            add(top, KEY),
            acknowledge,
            Err(ACCESS),
        ),
        (
            "an atomic at the last word",
            add(u64::MAX - 7, KEY),
            acknowledge,
            Err(ACCESS),
        ),
        (
            "an atomic at the last byte",
            add(u64::MAX, KEY),
            acknowledge,
            Err(INVALID),
        ),
        (
            "an atomic off by one",
            add(BASE + 1, KEY),
            acknowledge,
            Err(INVALID),
        ),
    ];
    for selective in [false, true] {
        for (name, packet, opcode, want) in cases.clone() {
            if selective && name.contains("to write") || name.contains("than there is") {
                continue;
            }
            let mut end = end(Service::Rc, selective);
            let delivery = end.take(1, &packet.bytes(), false);
            let syndrome = want.err().unwrap_or(ACK);
            assert_eq!(answers(&mut end), [(opcode.value(), syndrome)], "{name}");
            assert_eq!(delivery.note.is_some(), want.is_err(), "{name}");
            let state = if want.is_ok() {
                State::ReadyToSend
            } else {
                State::Error
            };
            assert_eq!(end.pair.state(), state, "{name}");
        }
    }
}

#[test]
fn sequence_numbers_at_their_limits() {
    // Ahead and behind by the most, and the number opposite, which is behind.
    let cases = [
        (1, Note::Ahead),
        ((1 << 23) - 1, Note::Ahead),
        (-(1 << 23), Note::Duplicate),
        (-1, Note::Duplicate),
    ];
    for selective in [false, true] {
        for (ahead, note) in cases {
            let mut end = end(Service::Rc, selective);
            let send = packet(Opcode::SEND_ONLY, 4).psn(ahead);
            let delivery = end.take(1, &send.bytes(), false);
            assert_eq!(
                (delivery.note, delivery.received),
                (Some(note), None),
                "{ahead}"
            );
            assert_eq!(end.pair_expected(), PSN, "{ahead}");
        }
    }
}

#[test]
fn answers_at_their_limits() {
    // Every syndrome there is: with one message under way, nothing else may come of it.
    for syndrome in 0..=u8::MAX {
        let mut end = end(Service::Rc, false);
        let request = Request {
            operation: Operation::Send,
            length: 4,
            ..Request::default()
        };
        end.post(request, 0);
        let sent = end.poll(1).expect("is sent");
        let psn = u32::from_be_bytes([0, sent[9], sent[10], sent[11]]);
        let mut answer =
            packet(Opcode::ACKNOWLEDGE, 0).with(&[u32::from(syndrome) << 24 | 0xff_ffff]);
        answer.set_psn(psn);
        let delivery = end.take(2, &answer.bytes(), false);
        let (state, note) = match syndrome {
            0x00..=0x3f | 0x60 => (State::ReadyToSend, None),
            0x61..=0x64 => (State::Error, None),
            _ => (State::ReadyToSend, Some(Note::BadResponse)),
        };
        assert_eq!(
            (end.pair.state(), delivery.note),
            (state, note),
            "{syndrome:#04x}"
        );
        let done = usize::from(syndrome < 0x20 || state == State::Error);
        assert_eq!(end.sent.len(), done, "{syndrome:#04x}");
    }
}

#[test]
fn unreliable_connections_drop_in_silence_and_go_on_with_the_next_message() {
    let uc = |opcode: Opcode| Opcode::new(opcode.value() | 0x20).expect("is one");
    let write = |opcode, payload, length| packet(uc(opcode), payload).at(BASE, KEY, length);
    let size = MTU as u32;
    let cases: [(&str, Packet, Note); 8] = [
        (
            "a middle",
            packet(uc(Opcode::SEND_MIDDLE), MTU),
            Note::Order,
        ),
        ("a last", packet(uc(Opcode::WRITE_LAST), 4), Note::Order),
        (
            "a short first",
            packet(uc(Opcode::SEND_FIRST), 4),
            Note::Length,
        ),
        (
            "a long only",
            packet(uc(Opcode::SEND_ONLY), MTU + 1),
            Note::Length,
        ),
        (
            "a key that is none",
            write(Opcode::WRITE_ONLY, 4, 4).at(BASE, 0, 4),
            Note::Access,
        ),
        (
            "beyond the region",
            write(Opcode::WRITE_ONLY, 4, 4).at(BASE - 1, KEY, 4),
            Note::Access,
        ),
        (
            "a length that is wrong",
            write(Opcode::WRITE_ONLY, 4, 5),
            Note::Length,
        ),
        (
            "a first that is all",
            write(Opcode::WRITE_FIRST, MTU, size),
            Note::Length,
        ),
    ];
    for (name, bad, note) in cases {
        let mut end = end(Service::Uc, false);
        let delivery = end.take(1, &bad.bytes(), false);
        assert_eq!(
            (delivery.landing, delivery.note),
            (None, Some(note)),
            "{name}"
        );
        assert_eq!(answers(&mut end), [], "{name}");
        let next = packet(uc(Opcode::SEND_ONLY), 8).psn(1);
        let delivery = end.take(2, &next.bytes(), false);
        assert_eq!(delivery.received.map(|one| one.length), Some(8), "{name}");
        assert_eq!(end.pair.state(), State::ReadyToSend, "{name}");
    }
}
