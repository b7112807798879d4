//! Packets that break the rules, one at a time: the refusal or the silence that the specification
//! wants, a count, and no byte of memory that is not the peer's to touch.

use warpwire_protocols::rdma::{Access, Attributes, Mtu, Note, Region, State, Status};
use warpwire_protocols::wire::opcode::Opcode;

use crate::end::{BASE, BYTES, End, KEY, pair};

pub(crate) const MTU: usize = 256;
pub(crate) const PSN: u32 = 0x00ff_fffe;

/// A packet as a peer would make it.
#[derive(Clone)]
pub(crate) struct Packet {
    opcode: Opcode,
    psn: u32,
    acknowledge: bool,
    words: Vec<u32>,
    payload: usize,
}

pub(crate) fn packet(opcode: Opcode, payload: usize) -> Packet {
    Packet {
        opcode,
        psn: PSN,
        acknowledge: true,
        words: vec![],
        payload,
    }
}

impl Packet {
    pub(crate) fn with(self, words: &[u32]) -> Self {
        Self {
            words: words.to_vec(),
            ..self
        }
    }

    /// With a RETH.
    pub(crate) fn at(self, address: u64, key: u32, length: u32) -> Self {
        let words = [(address >> 32) as u32, address as u32, key, length];
        self.with(&words)
    }

    pub(crate) fn atomic(self, address: u64, key: u32) -> Self {
        let words = [(address >> 32) as u32, address as u32, key, 0, 1, 0, 0];
        self.with(&words)
    }

    pub(crate) fn psn(self, ahead: i32) -> Self {
        let psn = PSN.wrapping_add_signed(ahead) & 0x00ff_ffff;
        Self { psn, ..self }
    }

    pub(crate) const fn set_psn(&mut self, psn: u32) {
        self.psn = psn;
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let pad = self.payload.wrapping_neg() & 3;
        let first = u32::from(self.opcode.value()) << 24 | (pad as u32) << 20 | 0xffff;
        let third = u32::from(self.acknowledge) << 31 | self.psn;
        let words = [first, 0x22, third]
            .into_iter()
            .chain(self.words.iter().copied());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        bytes.resize(bytes.len() + self.payload, 0xee);
        bytes.resize(bytes.len() + pad, 0);
        bytes
    }
}

/// What a responder answered, by syndrome and sequence number relative to the first.
type Answer = Option<(u8, i32)>;

const ACK: u8 = 0x1f;
const RNR: u8 = 0x20 | 12;
const NAK_SEQUENCE: u8 = 0x60;
const NAK_INVALID: u8 = 0x61;
const NAK_ACCESS: u8 = 0x62;

fn end() -> End {
    let attributes = Attributes {
        mtu: Mtu::M256,
        reads_served: 2,
        ..Attributes::default()
    };
    let [mut end, _] = pair(attributes, [7, PSN]);
    end.around.regions.push(Region {
        address: BASE + 0x1000,
        length: 0x100,
        key: 0x0509,
        domain: 0,
        access: Access::LOCAL_WRITE,
        may_invalidate: 0,
    });
    end.around.regions.push(Region {
        address: BASE,
        length: BYTES as u64,
        key: 0x0609,
        domain: 1,
        access: Access::ALL,
        may_invalidate: 0,
    });
    end
}

fn answer(end: &mut End) -> Answer {
    let bytes = end.poll(1)?;
    assert_eq!(bytes[0], Opcode::ACKNOWLEDGE.value(), "{bytes:02x?}");
    let psn = u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]);
    let ahead = (psn.wrapping_sub(PSN) << 8) as i32 >> 8;
    Some((bytes[12], ahead))
}

struct Case {
    name: &'static str,
    receives: usize,
    packets: Vec<Packet>,
    /// The answer to the last of them.
    want: Answer,
    note: Option<Note>,
    state: State,
}

/// A row: the queue pair goes on.
fn goes_on(name: &'static str, packets: Vec<Packet>, want: Answer, note: Note) -> Case {
    Case {
        name,
        receives: 1,
        packets,
        want,
        note: Some(note),
        state: State::ReadyToSend,
    }
}

/// A row: the peer is refused, and the queue pair fails.
fn fails(name: &'static str, packets: Vec<Packet>, nak: u8, ahead: i32, note: Note) -> Case {
    Case {
        name,
        receives: 1,
        packets,
        want: Some((nak, ahead)),
        note: Some(note),
        state: State::Error,
    }
}

fn order() -> Vec<Case> {
    let only = || packet(Opcode::SEND_ONLY, 4);
    let first = || packet(Opcode::SEND_FIRST, MTU);
    let write = |opcode, payload| packet(opcode, payload).at(BASE, KEY, 2 * MTU as u32);
    vec![
        fails(
            "a middle without a first",
            vec![packet(Opcode::SEND_MIDDLE, MTU)],
            NAK_INVALID,
            0,
            Note::Order,
        ),
        fails(
            "a last without a first",
            vec![packet(Opcode::WRITE_LAST, 4)],
            NAK_INVALID,
            0,
            Note::Order,
        ),
        fails(
            "a first within a message",
            vec![first(), first().psn(1)],
            NAK_INVALID,
            1,
            Note::Order,
        ),
        fails(
            "a read within a message",
            vec![
                first(),
                packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 4).psn(1),
            ],
            NAK_INVALID,
            1,
            Note::Order,
        ),
        fails(
            "a write's middle within a send",
            vec![first(), packet(Opcode::WRITE_MIDDLE, MTU).psn(1)],
            NAK_INVALID,
            1,
            Note::Order,
        ),
        fails(
            "a send's last within a write",
            vec![
                write(Opcode::WRITE_FIRST, MTU),
                packet(Opcode::SEND_LAST, 4).psn(1),
            ],
            NAK_INVALID,
            1,
            Note::Order,
        ),
        goes_on(
            "one packet is missing",
            vec![only().psn(1)],
            Some((NAK_SEQUENCE, 0)),
            Note::Ahead,
        ),
        goes_on(
            "the second after a gap is silent",
            vec![only().psn(1), only().psn(2)],
            None,
            Note::Ahead,
        ),
        goes_on(
            "before the first",
            vec![only().psn(-1)],
            Some((ACK, -1)),
            Note::Duplicate,
        ),
        goes_on(
            "a read before the first",
            vec![packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 4).psn(-3)],
            None,
            Note::DuplicateGone,
        ),
        goes_on(
            "an atomic before the first",
            vec![packet(Opcode::FETCH_ADD, 0).atomic(BASE, KEY).psn(-1)],
            None,
            Note::DuplicateGone,
        ),
        goes_on(
            "twice the same",
            vec![only(), only()],
            Some((ACK, 0)),
            Note::Duplicate,
        ),
        goes_on(
            "half of the numbers away",
            vec![only().psn(1 << 23)],
            Some((ACK, -1)),
            Note::Duplicate,
        ),
    ]
}

fn lengths() -> Vec<Case> {
    let write = |opcode, payload, length| packet(opcode, payload).at(BASE, KEY, length);
    vec![
        fails(
            "a first that is not full",
            vec![packet(Opcode::SEND_FIRST, MTU - 4)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "an only beyond the MTU",
            vec![packet(Opcode::SEND_ONLY, MTU + 4)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a last without bytes",
            vec![
                packet(Opcode::SEND_FIRST, MTU),
                packet(Opcode::SEND_LAST, 0).psn(1),
            ],
            NAK_INVALID,
            1,
            Note::Length,
        ),
        fails(
            "a write shorter than it said",
            vec![write(Opcode::WRITE_ONLY, 8, 12)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a write longer than it said",
            vec![write(Opcode::WRITE_ONLY, 12, 8)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a write whose first packet is its whole length",
            vec![write(Opcode::WRITE_FIRST, MTU, MTU as u32)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a write whose last packet is too short",
            vec![
                write(Opcode::WRITE_FIRST, MTU, MTU as u32 + 9),
                packet(Opcode::WRITE_LAST, 8).psn(1),
            ],
            NAK_INVALID,
            1,
            Note::Length,
        ),
        fails(
            "a write beyond 2^31",
            vec![write(Opcode::WRITE_FIRST, MTU, u32::MAX)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a read beyond 2^31",
            vec![packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, u32::MAX)],
            NAK_INVALID,
            0,
            Note::Length,
        ),
        fails(
            "a send longer than the receive",
            vec![
                packet(Opcode::SEND_FIRST, MTU),
                packet(Opcode::SEND_LAST, 100).psn(1),
            ],
            NAK_INVALID,
            1,
            Note::TooLong,
        ),
        Case {
            receives: 0,
            ..goes_on(
                "no receive",
                vec![packet(Opcode::SEND_ONLY, 4)],
                Some((RNR, 0)),
                Note::NoReceive,
            )
        },
        Case {
            receives: 0,
            ..goes_on(
                "what follows it is silent",
                vec![
                    packet(Opcode::SEND_ONLY, 4),
                    packet(Opcode::SEND_ONLY, 4).psn(1),
                ],
                None,
                Note::Ahead,
            )
        },
        Case {
            receives: 0,
            ..goes_on(
                "an immediate without a receive",
                vec![packet(Opcode::WRITE_ONLY_IMM, 4).with(&[0, BASE as u32, KEY, 4, 1])],
                Some((RNR, 0)),
                Note::NoReceive,
            )
        },
    ]
}

fn access() -> Vec<Case> {
    let end = BASE + BYTES as u64;
    let write = |address, key, length: u32| {
        packet(Opcode::WRITE_ONLY, length as usize).at(address, key, length)
    };
    let read = |address, key, length| packet(Opcode::READ_REQUEST, 0).at(address, key, length);
    let add = |address, key| packet(Opcode::FETCH_ADD, 0).atomic(address, key);
    let refused = |name, packet| fails(name, vec![packet], NAK_ACCESS, 0, Note::Access);
    vec![
        refused("a key that is none", write(BASE, 0, 4)),
        refused("a key of another generation", write(BASE, KEY + 1, 4)),
        refused("a key of another place", write(BASE, 0x0901, 4)),
        refused("a key of another domain", write(BASE, 0x0609, 4)),
        refused("a key without the right", write(BASE + 0x1000, 0x0509, 4)),
        refused("below the region", write(BASE - 1, KEY, 4)),
        refused("beyond the region", write(end - 3, KEY, 4)),
        refused("around the address space", write(u64::MAX - 1, KEY, 4)),
        refused("a read beyond the region", read(end - 3, KEY, 4)),
        refused("a read without the right", read(BASE + 0x1000, 0x0509, 4)),
        refused("an atomic beyond the region", add(end, KEY)),
        refused("an atomic without the right", add(BASE + 0x1000, 0x0509)),
        refused(
            "a write that would end beyond the region",
            packet(Opcode::WRITE_FIRST, MTU).at(end - MTU as u64, KEY, MTU as u32 + 1),
        ),
        fails(
            "an atomic off its alignment",
            vec![add(BASE + 4, KEY)],
            NAK_INVALID,
            0,
            Note::Misaligned,
        ),
        fails(
            "an operation that is not supported",
            vec![packet(Opcode::FLUSH, 0).with(&[0, 0, 0, 0, 0])],
            NAK_INVALID,
            0,
            Note::Unsupported,
        ),
    ]
}

fn others() -> Vec<Case> {
    let silent = |name, packet, note| goes_on(name, vec![packet], None, note);
    vec![
        silent(
            "an acknowledgement of nothing",
            packet(Opcode::ACKNOWLEDGE, 0).with(&[0x1f00_0000]).psn(9),
            Note::Unasked,
        ),
        silent(
            "a response to nothing",
            packet(Opcode::READ_RESPONSE_ONLY, 4)
                .with(&[0x1f00_0000])
                .psn(9),
            Note::Unasked,
        ),
        silent(
            "another service",
            packet(Opcode::UC_SEND_ONLY, 4),
            Note::WrongClass,
        ),
        silent(
            "a datagram",
            packet(Opcode::UD_SEND_ONLY, 4).with(&[0, 0]),
            Note::WrongClass,
        ),
        silent(
            "a notification of congestion",
            packet(Opcode::CNP, 16),
            Note::Congestion,
        ),
    ]
}

#[test]
fn each_broken_rule_is_refused_or_dropped_and_counted() {
    let cases = [order(), lengths(), access(), others()];
    for case in cases.into_iter().flatten() {
        let mut end = end();
        for number in 0..case.receives {
            end.receive(0x8000 + number * 0x1000, 300);
        }
        let before = end.around.memory.clone();
        let last = case.packets.len() - 1;
        for (number, packet) in case.packets.iter().enumerate() {
            let delivery = end.take(1, &packet.bytes(), false);
            if number == last {
                assert_eq!(delivery.note, case.note, "{}", case.name);
                assert_eq!(delivery.landing, None, "{}", case.name);
                assert_eq!(answer(&mut end), case.want, "{}", case.name);
            } else {
                while end.poll(1).is_some() {}
            }
        }
        assert_eq!(end.pair.state(), case.state, "{}", case.name);
        assert_eq!(answer(&mut end), None, "{}: one answer", case.name);
        if case.packets.len() == 1 {
            assert_eq!(end.around.memory, before, "{}: memory", case.name);
        }
        if case.state == State::Error {
            let after = end.take(2, &packet(Opcode::SEND_ONLY, 4).bytes(), false);
            assert_eq!(after.note, Some(Note::WrongState), "{}", case.name);
            assert_eq!(answer(&mut end), None, "{}: silence", case.name);
            assert_eq!(end.pair.fault(), Some(Status::Flushed), "{}", case.name);
        }
    }
}

/// A message that is too long completes its receive with the error that verbs' users know.
#[test]
fn a_message_longer_than_its_receive_fails_the_receive() {
    let mut end = end();
    end.receive(0x8000, 100);
    end.take(1, &packet(Opcode::SEND_ONLY, 101).bytes(), false);
    let (received, _) = end.received.first().expect("completed");
    assert_eq!(received.status, Status::LocalLength);
    assert_eq!(answer(&mut end), Some((NAK_INVALID, 0)));
}

/// A receive over memory that is not the queue pair's fails with the queue pair, on both sides.
#[test]
fn a_receive_that_may_not_be_used_fails() {
    let mut end = end();
    end.may_receive = false;
    end.receive(0x8000, 100);
    end.take(1, &packet(Opcode::SEND_ONLY, 4).bytes(), false);
    let (received, _) = end.received.first().expect("completed");
    assert_eq!(received.status, Status::LocalProtection);
    assert_eq!(answer(&mut end), Some((0x63, 0)));
    assert_eq!(end.pair.state(), State::Error);
}

/// The memory of a receive goes while a message fills it: nothing more is written there.
#[test]
fn a_receive_may_go_at_any_time() {
    let mut end = end();
    end.receive(0x8000, 3 * MTU as u32);
    let first = packet(Opcode::SEND_FIRST, MTU);
    assert!(end.take(1, &first.bytes(), false).landing.is_some());
    while end.poll(1).is_some() {}
    end.around.released = true;
    let last = packet(Opcode::SEND_LAST, 4).psn(1);
    let delivery = end.take(1, &last.bytes(), false);
    assert_eq!(
        (delivery.landing, delivery.note),
        (None, Some(Note::BadReceive))
    );
    let (received, _) = end.received.first().expect("completed");
    assert_eq!(received.status, Status::LocalProtection);
    assert_eq!(answer(&mut end), Some((0x63, 1)));
    assert_eq!(end.pair.state(), State::Error);
}

/// More reads than agreed are refused; as many as agreed are answered.
#[test]
fn reads_are_bounded() {
    let mut end = end();
    let read = |ahead| packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 4).psn(ahead);
    for ahead in 0..2 {
        end.take(1, &read(ahead).bytes(), false);
    }
    let delivery = end.take(1, &read(2).bytes(), false);
    assert_eq!(delivery.note, Some(Note::TooManyReads));
    for _ in 0..2 {
        let bytes = end.poll(1).expect("is answered");
        assert_eq!(bytes[0], Opcode::READ_RESPONSE_ONLY.value());
    }
    assert_eq!(answer(&mut end), Some((NAK_INVALID, 2)));
    assert_eq!(end.pair.state(), State::Error);
}

/// What was asked for again does not count: the peer has it, or does not want it any more.
#[test]
fn repeated_reads_do_not_count() {
    let mut end = end();
    let read = |ahead| packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 4).psn(ahead);
    for ahead in 0..40 {
        let delivery = end.take(1, &read(ahead).bytes(), false);
        assert_eq!(delivery.note, None, "{ahead}");
        // Until the peer has it; then it asks for the last ones again, and does not wait.
        let psn = (PSN.wrapping_add_signed(ahead)) as u8;
        while end.poll(1).expect("is answered")[11] != psn {}
        for back in 0..=ahead.min(2) {
            let delivery = end.take(1, &read(ahead - back).bytes(), false);
            assert_eq!(delivery.note, Some(Note::Duplicate), "{ahead}");
        }
    }
    assert_eq!(end.pair.state(), State::ReadyToSend);
}

/// A region that goes while a read or a write is under way ends it.
#[test]
fn a_region_may_go_at_any_time() {
    let mut end = end();
    let read = packet(Opcode::READ_REQUEST, 0).at(BASE, KEY, 3 * MTU as u32);
    end.take(1, &read.bytes(), false);
    assert!(end.poll(1).is_some(), "the first packet of three");
    end.around.regions.retain(|region| region.key != KEY);
    assert_eq!(answer(&mut end), Some((NAK_ACCESS, 1)));
    assert_eq!(end.pair.state(), State::Error);

    let mut end = self::end();
    let write = packet(Opcode::WRITE_FIRST, MTU).at(BASE, KEY, 2 * MTU as u32);
    assert!(end.take(1, &write.bytes(), false).landing.is_some());
    end.around.regions.retain(|region| region.key != KEY);
    while end.poll(1).is_some() {}
    let last = packet(Opcode::WRITE_LAST, MTU).psn(1);
    let delivery = end.take(1, &last.bytes(), false);
    assert_eq!(
        (delivery.landing, delivery.note),
        (None, Some(Note::Access))
    );
    assert_eq!(answer(&mut end), Some((NAK_ACCESS, 1)));
}
