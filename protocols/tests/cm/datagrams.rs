//! Datagram services: asked for, answered, refused, lost, doubled, and broken.

use crate::end::{DATAGRAMS, End, RESPONSE_NS, gid, names, settle, told};
use warpwire_protocols::cm::{Cause, DatagramAnswer, DatagramAsk, Event, Handle, Misuse, Note};
use warpwire_protocols::cm::{Reaction, Settings};
use warpwire_protocols::wire::cm::{CommId, DATAGRAM_QKEY, Datagram, Message, sidr_rep, sidr_req};
use warpwire_protocols::wire::{Guid, Qpn};

/// Two ends, the left of which has asked, and the right been asked.
fn asked() -> (End, Handle, End, Handle) {
    let (mut left, mut right) = (End::new("fd00::1", 2), End::new("fd00::2", 2));
    let ask = left.datagram_ask(right.address);
    let asking = left.table.resolve(0, &ask).unwrap();
    settle(0, &mut left, &mut right);
    let (handle, event) = right.event();
    assert!(matches!(event, Event::AskedDatagram(_)));
    (left, asking, right, handle)
}

fn refusal(status: sidr_rep::Status) -> DatagramAnswer<'static> {
    DatagramAnswer {
        status,
        qp: Qpn::new(0),
        qkey: 0,
        private: b"no",
    }
}

fn question(datagram: &mut Datagram) -> &mut sidr_req::Repr {
    match &mut datagram.message {
        Message::SidrReq(question) => question,
        other => panic!("{other} asks for nothing"),
    }
}

fn answer(datagram: &mut Datagram) -> &mut sidr_rep::Repr {
    match &mut datagram.message {
        Message::SidrRep(answer) => answer,
        other => panic!("{other} is no answer"),
    }
}

/// The status of the answer that a datagram got at once.
fn at_once(reaction: &Reaction) -> sidr_rep::Status {
    let mut datagram = reaction.answer.expect("an answer").datagram;
    answer(&mut datagram).status
}

#[test]
fn the_queue_pair_of_a_datagram_service() {
    let (mut left, mut right) = (End::new("fd00::1", 2), End::new("fd00::2", 2));
    let ask = left.datagram_ask(right.address);
    let asking = left.table.resolve(0, &ask).unwrap();
    settle(0, &mut left, &mut right);
    let (handle, Event::AskedDatagram(asked)) = right.event() else {
        panic!("not asked");
    };
    assert_eq!(asked.service, DATAGRAMS);
    assert_eq!(asked.addresses.unwrap().source_port, 40_000);
    assert_eq!(asked.private[36..40], *b"who\0");
    right.table.tell(0, handle, &told()).unwrap();
    let answer = right.poll();
    assert_eq!(right.table.tell(0, handle, &told()), Err(Misuse::Gone));
    // The answer is lost, and asked for again.
    left.ring(RESPONSE_NS);
    settle(RESPONSE_NS, &mut left, &mut right);
    assert_eq!(right.sent, [answer[0], answer[0]]);
    let (found, Event::Resolved(resolved)) = left.event() else {
        panic!("not resolved");
    };
    assert_eq!((found, resolved.qp), (asking, Qpn::new(0x33)));
    assert_eq!(
        (resolved.qkey, &resolved.private[..3]),
        (0x0123_4567, b"me\0".as_slice())
    );
    assert_eq!(
        left.hear(0, right.address, &answer[0]).note,
        Some(Note::Unknown)
    );
}

#[test]
fn datagram_services_that_are_not_there() {
    let check = |right: &mut End, status: sidr_rep::Status| {
        let mut left = End::new("fd00::1", 2);
        let ask = left.datagram_ask(right.address);
        left.table.resolve(0, &ask).unwrap();
        settle(0, &mut left, right);
        assert_eq!(left.event().1, Event::Ended(Cause::Refused(status)));
    };
    let mut right = End::new("fd00::2", 2);
    right.table.close(DATAGRAMS);
    check(&mut right, sidr_rep::Status::UNSUPPORTED_SERVICE);
    let mut right = End::new("fd00::2", 0);
    check(&mut right, sidr_rep::Status::NO_QUEUE_PAIR);
    // Nobody answers at all.
    let mut left = End::new("fd00::1", 2);
    let ask = left.datagram_ask(gid("fd00::9"));
    let asking = left.table.resolve(0, &ask).unwrap();
    for number in 1..=16 {
        assert_eq!(names(&left.poll()), ["SIDR_REQ"]);
        left.ring(number * RESPONSE_NS);
    }
    assert_eq!(left.event(), (asking, Event::Ended(Cause::NoAnswer)));
}

#[test]
fn messages_lie_as_the_specification_says() {
    // Offsets behind the 24 bytes of the header: SIDR_REQ has the request at 0, the partition at 4,
    // the service at 8 and private data at 16; SIDR_REP has the request at 0, the status at 4, the
    // queue pair at 8, the service at 12, the key at 20 and private data at 96.
    let mut left = End::new("10.77.0.3", 1);
    let mut ask = left.datagram_ask(gid("10.77.0.2"));
    ask.transaction = 0x2_7fab_3887;
    left.table.resolve(0, &ask).unwrap();
    let mut bytes = [0; 256];
    let sent = left.poll()[0];
    sent.emit(&mut bytes).unwrap();
    let check = |bytes: &[u8; 256], at: usize, wanted: &[u8]| {
        let found = &bytes[24 + at..24 + at + wanted.len()];
        assert_eq!(found, wanted, "at {at}");
    };
    assert_eq!(bytes[..4], [1, 7, 2, 3]);
    assert_eq!(bytes[8..16], 0x2_7fab_3887u64.to_be_bytes());
    assert_eq!(bytes[16..18], [0, 0x17]);
    check(&bytes, 4, &[0xff, 0xff, 0, 0]);
    check(&bytes, 8, &[0, 0, 0, 0, 1, 0x11, 0x1c, 6]);
    // Version, IP version, source port, and IPv4 addresses in the last 4 of 16 bytes.
    check(&bytes, 16, &[0, 0x40, 0x9c, 0x40, 0, 0, 0, 0]);
    check(&bytes, 16 + 16, &[10, 77, 0, 3]);
    check(&bytes, 16 + 32, &[10, 77, 0, 2]);
    check(&bytes, 16 + 36, b"who\0");

    let mut right = End::new("10.77.0.2", 1);
    right.hear(0, left.address, &sent);
    let (handle, _) = right.event();
    right.table.tell(0, handle, &told()).unwrap();
    right.poll()[0].emit(&mut bytes).unwrap();
    assert_eq!(bytes[8..18], [0, 0, 0, 2, 0x7f, 0xab, 0x38, 0x87, 0, 0x18]);
    let mut sent = sent;
    check(&bytes, 0, &question(&mut sent).request.0.to_be_bytes());
    check(&bytes, 4, &[0, 0, 0, 0, 0, 0, 0x33, 0]);
    check(&bytes, 12, &[0, 0, 0, 0, 1, 0x11, 0x1c, 6]);
    check(&bytes, 20, &DATAGRAM_QKEY.to_be_bytes());
    check(&bytes, 24, &[0; 72]);
    check(&bytes, 96, b"me\0");
}

#[test]
fn every_refusal_says_why() {
    for (status, words) in [
        (
            sidr_rep::Status::UNSUPPORTED_SERVICE,
            "service not supported (1)",
        ),
        (sidr_rep::Status::REJECTED, "rejected by the user (2)"),
        (
            sidr_rep::Status::NO_QUEUE_PAIR,
            "no queue pair available (3)",
        ),
        (sidr_rep::Status::REDIRECT, "somebody else has it (4)"),
        (
            sidr_rep::Status::UNSUPPORTED_VERSION,
            "version not supported (5)",
        ),
        (sidr_rep::Status(77), "status unknown (77)"),
    ] {
        let (mut left, asking, mut right, handle) = asked();
        right.table.tell(0, handle, &refusal(status)).unwrap();
        settle(0, &mut left, &mut right);
        let (ended, Event::Ended(cause)) = left.event() else {
            panic!("{status}: not ended");
        };
        assert_eq!((ended, cause), (asking, Cause::Refused(status)));
        assert_eq!(cause.to_string(), format!("the peer refused: {words}"));
        assert_eq!((left.table.count(), left.table.timeout_ns()), (0, None));
    }
}

#[test]
fn a_question_that_comes_twice_is_told_once_and_answered_alike() {
    let (left, _, mut right, handle) = asked();
    let asked = left.sent[0];
    let again = |right: &mut End, datagram: &Datagram| {
        let reaction = right.hear(1, left.address, datagram);
        assert_eq!((reaction.event, reaction.answer), (None, None));
        (reaction.note, right.poll())
    };
    assert_eq!(again(&mut right, &asked), (Some(Note::Duplicate), vec![]));
    right.table.tell(0, handle, &told()).unwrap();
    let answered = right.poll();
    for _ in 0..3 {
        assert_eq!(
            again(&mut right, &asked),
            (Some(Note::Duplicate), answered.clone())
        );
    }
    // What is kept for repetition goes with time; then the question is a new one.
    let over_ns = right.table.timeout_ns().unwrap();
    right.ring(over_ns);
    assert_eq!((right.table.count(), right.poll().len()), (0, 0));
    right.hear(over_ns, left.address, &asked);
    assert!(matches!(right.event().1, Event::AskedDatagram(_)));
}

#[test]
fn a_name_that_is_used_again_is_another_question() {
    let changes: [fn(&mut Datagram); 2] =
        [|it| it.transaction += 1, |it| question(it).service.0 += 1];
    for change in changes {
        let (left, _, mut right, handle) = asked();
        let mut other = left.sent[0];
        change(&mut other);
        right.table.listen(question(&mut other).service).unwrap();
        // While our user has not answered the first, it is in the way.
        let reaction = right.hear(1, left.address, &other);
        assert_eq!(
            (reaction.note, reaction.event),
            (Some(Note::Unexpected), None)
        );
        right.table.tell(0, handle, &told()).unwrap();
        right.poll();
        right.hear(1, left.address, &other);
        let (handle, Event::AskedDatagram(asked)) = right.event() else {
            panic!("not asked");
        };
        assert_eq!(asked.service, question(&mut other).service);
        assert_eq!((asked.here, asked.there), (right.address, left.address));
        right.table.tell(1, handle, &told()).unwrap();
        let said = right.poll();
        assert_eq!((said.len(), said[0].transaction), (1, other.transaction));
        assert_eq!(right.table.count(), 1);
    }
}

#[test]
fn a_user_who_does_not_answer_has_refused() {
    let (mut left, _, mut right, handle) = asked();
    right.ring(60_000_000_000);
    assert_eq!(right.event(), (handle, Event::Ended(Cause::Patience)));
    assert_eq!(right.table.tell(0, handle, &told()), Err(Misuse::Gone));
    settle(60_000_000_000, &mut left, &mut right);
    let cause = Cause::Refused(sidr_rep::Status::REJECTED);
    assert_eq!(left.event().1, Event::Ended(cause));
    right.ring(70_000_000_000);
    assert_eq!((right.table.count(), right.table.timeout_ns()), (0, None));
}

#[test]
fn who_stops_asking_hears_nothing() {
    let (mut left, asking, mut right, handle) = asked();
    right.table.tell(0, handle, &told()).unwrap();
    left.table.stop_asking(asking).unwrap();
    assert_eq!(left.table.stop_asking(asking), Err(Misuse::Gone));
    assert_eq!((left.table.count(), left.table.timeout_ns()), (0, None));
    let late = right.poll()[0];
    let reaction = left.hear(0, right.address, &late);
    assert_eq!((reaction.note, reaction.event), (Some(Note::Unknown), None));
    // Nor is what was not sent yet.
    let ask = left.datagram_ask(right.address);
    let asking = left.table.resolve(0, &ask).unwrap();
    left.table.stop_asking(asking).unwrap();
    assert_eq!(left.poll(), []);
    let ask = left.ask(right.address);
    let other = left.table.connect(0, &ask).unwrap();
    assert_eq!(left.table.stop_asking(other), Err(Misuse::WrongState));
}

#[test]
fn questions_that_are_broken_get_a_refusal_and_no_slot() {
    let check = |change: fn(&mut sidr_req::Repr), wanted: sidr_rep::Status| {
        let (mut left, mut right) = (End::new("10.0.0.1", 1), End::new("10.0.0.2", 1));
        let ask = left.datagram_ask(right.address);
        left.table.resolve(0, &ask).unwrap();
        let mut datagram = left.poll()[0];
        change(question(&mut datagram));
        let reaction = right.hear(0, left.address, &datagram);
        assert_eq!((at_once(&reaction), reaction.event), (wanted, None));
        assert_eq!((right.table.count(), right.poll().len()), (0, 0));
        assert!(matches!(reaction.note, Some(Note::Refused(_))));
    };
    // The version of the IP addresses, and the IP version.
    check(|it| it.private[0] = 1, sidr_rep::Status::REJECTED);
    check(|it| it.private[1] = 0x50, sidr_rep::Status::REJECTED);
    check(|it| it.private[1] = 0x00, sidr_rep::Status::REJECTED);
    let none = sidr_rep::Status::UNSUPPORTED_SERVICE;
    check(|it| it.pkey.0 = 0x8001, none);
    check(|it| it.service.0 += 1, none);
    // The same port, of connections.
    check(|it| it.service.0 ^= 0x0017_0000, none);
}

#[test]
fn answers_that_are_broken_are_counted_and_asked_for_again() {
    let check = |from: &str, change: fn(&mut Datagram), wanted: Note| {
        let (mut left, asking, mut right, handle) = asked();
        right.table.tell(0, handle, &told()).unwrap();
        let good = right.poll()[0];
        let mut bad = good;
        change(&mut bad);
        let reaction = left.hear(0, gid(from), &bad);
        assert_eq!((reaction.note, reaction.event), (Some(wanted), None));
        assert_eq!(reaction.answer, None);
        left.ring(RESPONSE_NS);
        assert_eq!(names(&left.poll()), ["SIDR_REQ"]);
        left.hear(RESPONSE_NS, right.address, &good);
        assert!(matches!(left.event(), (handle, Event::Resolved(_)) if handle == asking));
    };
    check("fd00::9", |_| (), Note::WrongPeer);
    let peer = "fd00::2";
    check(peer, |it| answer(it).service.0 += 1, Note::Unexpected);
    check(peer, |it| answer(it).qp = Qpn::new(0), Note::Unexpected);
    check(peer, |it| answer(it).qp = Qpn::GSI, Note::Unexpected);
    check(peer, |it| answer(it).request = CommId(0), Note::Unknown);
    // Of the name, the half that counts how often the slot was used.
    check(peer, |it| answer(it).request.0 ^= 1 << 31, Note::Unknown);
}

/// Every bit of both messages is turned: the receiver answers once at most, and time ends it all.
#[test]
fn every_bit_turned() {
    for is_answer in [false, true] {
        for bit in 0..256 * 8 {
            let (mut left, _, mut right, handle) = asked();
            let (datagram, end, from) = match is_answer {
                false => (left.sent[0], &mut right, left.address),
                true => {
                    right.table.tell(0, handle, &told()).unwrap();
                    (right.poll()[0], &mut left, right.address)
                }
            };
            let mut bytes = [0; 256];
            datagram.emit(&mut bytes).unwrap();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let here = end.address;
            let reaction = end.table.on_datagram(1, from, here, &bytes);
            let spoke = usize::from(reaction.answer.is_some()) + end.poll().len();
            assert!(spoke <= 1, "bit {bit}: {spoke} answers");
            assert!(end.table.count() <= 2, "bit {bit}");
            for step in 1..40 {
                end.ring(step * RESPONSE_NS);
                end.poll();
            }
            assert_eq!(end.table.count(), 0, "bit {bit}");
        }
    }
}

#[test]
fn questions_are_bounded_and_slots_used_again() {
    let mut settings = Settings::new(Guid(2), 5);
    settings.backlog = 2;
    let mut right = End::with(gid("10.0.0.2"), 3, settings);
    let mut left = End::new("10.0.0.1", 8);
    let ask = left.datagram_ask(right.address);
    for _ in 0..4 {
        left.table.resolve(0, &ask).unwrap();
    }
    settle(0, &mut left, &mut right);
    // Two wait; two are refused.
    assert_eq!((right.events.len(), left.events.len()), (2, 2));
    let cause = Cause::Refused(sidr_rep::Status::NO_QUEUE_PAIR);
    assert!(
        left.events
            .iter()
            .all(|(_, event)| *event == Event::Ended(cause))
    );
    for (handle, _) in std::mem::take(&mut right.events) {
        right.table.tell(0, handle, &told()).unwrap();
    }
    settle(0, &mut left, &mut right);
    left.events.clear();
    // Answers that are kept for repetition give their slots away before they need not.
    for round in 0..1000 {
        left.table.resolve(0, &ask).unwrap();
        settle(0, &mut left, &mut right);
        let (handle, _) = right.event();
        right.table.tell(0, handle, &told()).unwrap();
        settle(0, &mut left, &mut right);
        assert!(
            matches!(left.event().1, Event::Resolved(_)),
            "round {round}"
        );
        assert!(right.table.count() <= 3);
        assert_eq!(left.table.count(), 0);
    }
}

#[test]
fn misuse_is_named() {
    let there = gid("10.0.0.2");
    let long = [1; 217];
    for (bytes, source_port, is_fine) in [
        (&long[..180], Some(1), true),
        (&long[..181], Some(1), false),
        (&long[..216], None, true),
        (&long[..217], None, false),
    ] {
        let mut left = End::new("10.0.0.1", 1);
        let mut ask = left.datagram_ask(there);
        (ask.private, ask.source_port) = (bytes, source_port);
        let outcome = left.table.resolve(0, &ask);
        assert_eq!(outcome.is_ok(), is_fine, "{} bytes", bytes.len());
    }
    let check = |change: fn(&mut DatagramAsk<'_>), field: &'static str| {
        let mut left = End::new("10.0.0.1", 1);
        let mut ask = left.datagram_ask(there);
        change(&mut ask);
        assert_eq!(left.table.resolve(0, &ask), Err(Misuse::Field(field)));
        assert_eq!(left.table.count(), 0);
    };
    check(|ask| ask.hop_limit = 0, "hop limit");
    check(|ask| ask.here = gid("0.0.0.0"), "own address");
    check(|ask| ask.there = gid("224.0.0.1"), "peer's address");
    let (_, _, mut right, handle) = asked();
    let mut answer = told();
    for number in 0..2 {
        answer.qp = Qpn::new(number);
        let said = right.table.tell(0, handle, &answer);
        assert_eq!(said, Err(Misuse::Field("queue pair")));
    }
    answer = told();
    answer.private = &long[..137];
    assert_eq!(
        right.table.tell(0, handle, &answer),
        Err(Misuse::PrivateData)
    );
    answer.private = &long[..136];
    assert_eq!(right.table.tell(0, handle, &answer), Ok(()));
}
