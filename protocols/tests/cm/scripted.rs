//! Connection management, message by message.

use crate::end::{
    DATAGRAMS, End, RESPONSE_NS, SERVICE, connected, gid, grant, names, reason, settle, told,
};
use warpwire_protocols::cm::{Cause, Event, Handle, Misuse, Note, Settings};
use warpwire_protocols::wire::cm::rej::Reason;
use warpwire_protocols::wire::cm::{Bits, CommId, Datagram, Message, lap, mra};
use warpwire_protocols::wire::{Guid, Qpn};

fn pair() -> (End, End) {
    (End::new("10.0.0.1", 4), End::new("fd00::2", 4))
}

/// Two ends of one family, the left of which has asked, and the right been asked.
fn asked() -> (End, Handle, End, Handle) {
    let (mut left, mut right) = (End::new("fd00::1", 4), End::new("fd00::2", 4));
    let active = left.table.connect(0, &left.ask(right.address)).unwrap();
    settle(0, &mut left, &mut right);
    let (passive, event) = right.event();
    assert!(matches!(event, Event::Asked(_)));
    (left, active, right, passive)
}

fn is_rejected(event: &Event, wanted: Reason) -> bool {
    matches!(event, Event::Ended(Cause::Rejected { reason, .. }) if *reason == wanted)
}

#[test]
fn both_ends_agree_on_the_same() {
    let (mut left, active, mut right, passive) = asked();
    let terms = right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    let (_, Event::Agreed(agreed)) = left.event() else {
        panic!("not agreed");
    };
    assert_eq!(agreed.private[..8], *b"welcome\0");
    let mine = agreed.terms;
    assert_eq!(
        (mine.send_psn, mine.receive_psn),
        (terms.receive_psn, terms.send_psn)
    );
    assert_eq!((mine.here, mine.there), (terms.there, terms.here));
    assert_eq!(
        (mine.remote_qp, terms.remote_qp),
        (Qpn::new(0x22), Qpn::new(0x11))
    );
    // Who asks answers 4 and has 8 under way; who is asked answers 16 and has 2 under way.
    assert_eq!((mine.reads, mine.reads_served), (8, 2));
    assert_eq!((terms.reads, terms.reads_served), (2, 8));
    assert_eq!(
        (mine.rnr_retries.value(), terms.rnr_retries.value()),
        (3, 7)
    );
    assert_eq!((mine.mtu, mine.flow_label), (terms.mtu, terms.flow_label));
    assert_eq!(
        (mine.traffic_class, mine.hop_limit),
        (terms.traffic_class, 64)
    );
    left.table.ready(active, b"go").unwrap();
    settle(0, &mut left, &mut right);
    let (_, Event::Established(private)) = right.event() else {
        panic!("not established");
    };
    assert_eq!(private[..3], *b"go\0");
    assert_eq!(names(&left.sent), ["REQ", "RTU"]);
    assert_eq!(names(&right.sent), ["REP"]);
    assert_eq!(
        (left.table.timeout_ns(), right.table.timeout_ns()),
        (None, None)
    );
}

#[test]
fn a_user_refuses() {
    let (mut left, _, mut right, passive) = asked();
    right
        .table
        .reject(0, passive, Reason::CONSUMER, b"full")
        .unwrap();
    settle(0, &mut left, &mut right);
    let (_, Event::Ended(Cause::Rejected { reason, private })) = left.event() else {
        panic!("not rejected");
    };
    assert_eq!(
        (reason, &private[..5]),
        (Reason::CONSUMER, b"full\0".as_slice())
    );
    assert_eq!(right.events, []);
    // The request comes again, as if the refusal had been lost.
    let request = left.sent[0];
    let reaction = right.hear(1, left.address, &request);
    assert_eq!(reaction.note, Some(Note::Duplicate));
    let again = right.poll();
    assert_eq!(
        (names(&again), reason.0),
        (vec!["REJ"], self::reason(&again[0]))
    );
    // Who asked may refuse the agreement, too.
    let (mut left, active, mut right, passive) = asked();
    right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    left.event();
    left.table.reject(0, active, Reason::CONSUMER, &[]).unwrap();
    settle(0, &mut left, &mut right);
    assert!(is_rejected(&right.event().1, Reason::CONSUMER));
    assert_eq!(left.table.ready(active, &[]), Err(Misuse::Gone));
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let check = |change: fn(&mut warpwire_protocols::wire::cm::req::Repr), wanted: Reason| {
        let (mut left, mut right) = (End::new("10.0.0.1", 4), End::new("10.0.0.2", 4));
        left.table.connect(0, &left.ask(right.address)).unwrap();
        let mut datagram = left.poll()[0];
        let Message::Req(request) = &mut datagram.message else {
            panic!("no request");
        };
        change(request);
        let reaction = right.hear(0, left.address, &datagram);
        assert_eq!(reaction.note, Some(Note::Refused(wanted)));
        assert_eq!((right.table.count(), right.events.len()), (0, 0));
        let answer = reaction.answer.unwrap();
        assert_eq!(answer.there, left.address);
        left.hear(0, right.address, &answer.datagram);
        assert!(is_rejected(&left.event().1, wanted), "{wanted}");
    };
    check(|it| it.service.0 += 1, Reason::INVALID_SERVICE_ID);
    // The same port, of datagrams.
    check(|it| it.service = DATAGRAMS, Reason::INVALID_SERVICE_ID);
    check(|it| it.transport = DATAGRAM, Reason::INVALID_TRANSPORT);
    check(
        |it| it.primary.remote_gid = gid("10.0.0.3"),
        Reason::INVALID_GID,
    );
    check(
        |it| it.primary.local_gid = gid("10.0.0.3"),
        Reason::UNSUPPORTED_REQUEST,
    );
    check(|it| it.primary.hop_limit = 0, Reason::INVALID_HOP_LIMIT);
    check(|it| it.mtu = Bits::new(0).unwrap(), Reason::INVALID_MTU);
    check(|it| it.mtu = Bits::new(6).unwrap(), Reason::INVALID_MTU);
    check(|it| it.pkey.0 = 0x8001, Reason::UNSUPPORTED_REQUEST);
    check(|it| it.local_qp = Qpn::GSI, Reason::UNSUPPORTED_REQUEST);
}

const DATAGRAM: warpwire_protocols::wire::cm::req::Transport =
    warpwire_protocols::wire::cm::req::Transport::Datagram;

#[test]
fn a_request_is_repeated_and_given_up() {
    let (mut left, right) = (End::new("10.0.0.1", 1), gid("10.0.0.2"));
    let active = left.table.connect(0, &left.ask(right)).unwrap();
    let mut now_ns = 0;
    for number in 0..16 {
        assert_eq!(names(&left.poll()), ["REQ"], "try {number}");
        assert_eq!(left.events, []);
        now_ns += RESPONSE_NS;
        assert_eq!(left.table.timeout_ns(), Some(now_ns));
        left.ring(now_ns - 1);
        assert_eq!(left.poll(), [], "early");
        left.ring(now_ns);
    }
    assert_eq!(left.event(), (active, Event::Ended(Cause::NoAnswer)));
    // It tells the peer, should it hear that.
    let last = left.poll();
    assert_eq!(
        (names(&last), reason(&last[0])),
        (vec!["REJ"], Reason::TIMEOUT.0)
    );
    left.ring(now_ns + 10_000_000_000);
    assert_eq!((left.table.count(), left.table.timeout_ns()), (0, None));
}

#[test]
fn who_gave_up_asking_is_understood() {
    let (mut left, _, mut right, passive) = asked();
    let mut now_ns = 0;
    while left.events.is_empty() {
        now_ns += RESPONSE_NS;
        left.ring(now_ns);
        settle(now_ns, &mut left, &mut right);
    }
    assert_eq!(left.event().1, Event::Ended(Cause::NoAnswer));
    let (handle, event) = right.event();
    assert_eq!(handle, passive);
    assert!(is_rejected(&event, Reason::TIMEOUT));
    assert_eq!(
        right.table.accept(now_ns, passive, &grant()),
        Err(Misuse::Gone)
    );
}

#[test]
fn an_agreement_is_repeated_and_given_up() {
    let (_, _, mut right, passive) = asked();
    right.table.accept(0, passive, &grant()).unwrap();
    for number in 1..=16 {
        assert_eq!(names(&right.poll()), ["REP"], "try {number}");
        right.ring(number * RESPONSE_NS);
    }
    assert_eq!(right.event(), (passive, Event::Ended(Cause::NoAnswer)));
    assert_eq!(names(&right.poll()), ["REJ"]);
}

#[test]
fn a_user_may_take_time_and_not_too_much() {
    let (mut left, _, mut right, passive) = asked();
    // 4.096 us times 2 to 22 are 17 s: the other end asks no more until they are over.
    right
        .table
        .delay(0, passive, Bits::new(22).unwrap())
        .unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(names(&right.sent), ["MRA"]);
    let wanted = (4096 << 22) + RESPONSE_NS;
    assert_eq!(left.table.timeout_ns(), Some(wanted));
    // A request that was under way meanwhile is answered again.
    let request = left.sent[0];
    right.hear(1, left.address, &request);
    assert_eq!(names(&right.poll()), ["MRA"]);
    assert_eq!(right.table.timeout_ns(), Some(4096 << 22));
    right.ring(4096 << 22);
    assert_eq!(right.event(), (passive, Event::Ended(Cause::Patience)));
    settle(4096 << 22, &mut left, &mut right);
    assert!(is_rejected(&left.event().1, Reason::TIMEOUT));
    // Without a word, patience has an end as well.
    let (_, _, mut right, passive) = asked();
    let deadline_ns = right.table.timeout_ns().unwrap();
    assert_eq!(deadline_ns, 60_000_000_000);
    right.ring(deadline_ns);
    assert_eq!(right.event(), (passive, Event::Ended(Cause::Patience)));
}

#[test]
fn the_other_user_may_take_time() {
    let (mut left, active, mut right, passive) = asked();
    right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    left.event();
    left.table.delay(0, active, Bits::new(22).unwrap()).unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(right.table.timeout_ns(), Some((4096 << 22) + RESPONSE_NS));
    // An acknowledgement of another message delays nothing.
    let datagram = *left.sent.last().unwrap();
    let Message::Mra(wait) = datagram.message else {
        panic!("no acknowledgement");
    };
    for (message, timeout) in [(0, 30), (2, 30)] {
        let wait = mra::Repr {
            message: Bits::new(message).unwrap(),
            timeout: Bits::new(timeout).unwrap(),
            ..wait
        };
        let datagram = Datagram {
            message: Message::Mra(wait),
            ..datagram
        };
        let reaction = right.hear(0, left.address, &datagram);
        assert_eq!(reaction.note, Some(Note::Unexpected));
    }
    assert_eq!(right.table.timeout_ns(), Some((4096 << 22) + RESPONSE_NS));
    left.table.ready(active, &[]).unwrap();
    settle(1, &mut left, &mut right);
    assert!(matches!(right.event().1, Event::Established(_)));
}

#[test]
fn what_comes_twice_is_answered_twice_and_told_once() {
    let (mut left, active, mut right, passive) = connected();
    let (request, ready, reply) = (left.sent[0], left.sent[1], right.sent[0]);
    // An agreement again: readiness was lost.
    assert_eq!(
        left.hear(0, right.address, &reply).note,
        Some(Note::Duplicate)
    );
    assert_eq!(left.poll(), [ready]);
    assert_eq!(
        right.hear(0, left.address, &ready).note,
        Some(Note::Duplicate)
    );
    assert_eq!(
        right.hear(0, left.address, &request).note,
        Some(Note::Duplicate)
    );
    assert_eq!(
        (right.poll(), left.events.len(), right.events.len()),
        (vec![], 0, 0)
    );
    left.table.disconnect(0, active, b"bye").unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(
        left.event(),
        (active, Event::Ended(Cause::Left { is_heard: true }))
    );
    assert_eq!(right.event(), (passive, Event::Ended(Cause::PeerLeft)));
    let (leave, left_too) = (*left.sent.last().unwrap(), *right.sent.last().unwrap());
    assert_eq!(names(&[leave, left_too]), ["DREQ", "DREP"]);
    for now_ns in [0, 20_000_000_000] {
        // Also when the connection is forgotten.
        right.ring(now_ns);
        left.ring(now_ns);
        let reaction = right.hear(now_ns, left.address, &leave);
        assert_eq!(reaction.answer.unwrap().datagram, left_too);
        assert_eq!(reaction.event, None);
        assert_eq!(left.hear(now_ns, right.address, &left_too).event, None);
    }
    assert_eq!((left.table.count(), right.table.count()), (0, 0));
    // Late messages of a connection that was: a refusal, or nothing.
    let reaction = left.hear(0, right.address, &reply);
    assert_eq!(
        reason(&reaction.answer.unwrap().datagram),
        Reason::INVALID_COMM_ID.0
    );
    assert_eq!(
        right.hear(0, left.address, &ready).note,
        Some(Note::Unknown)
    );
}

#[test]
fn a_request_that_comes_again_while_the_agreement_is_under_way_brings_it_again() {
    let (left, _, mut right, passive) = asked();
    right.table.accept(0, passive, &grant()).unwrap();
    let reply = right.poll();
    let reaction = right.hear(0, left.address, &left.sent[0]);
    assert_eq!(
        (reaction.note, reaction.answer),
        (Some(Note::Duplicate), None)
    );
    assert_eq!(right.poll(), reply);
}

#[test]
fn data_may_come_before_readiness() {
    let (mut left, active, mut right, passive) = asked();
    right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    left.event();
    assert_eq!(right.table.heard(passive), Ok(()));
    assert_eq!(right.table.timeout_ns(), None);
    left.table.ready(active, &[]).unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(right.events, []);
    assert_eq!(right.table.disconnect(0, passive, &[]), Ok(()));
    settle(0, &mut left, &mut right);
    assert_eq!(left.event().1, Event::Ended(Cause::PeerLeft));
    assert_eq!(
        right.event().1,
        Event::Ended(Cause::Left { is_heard: true })
    );
}

#[test]
fn both_leave_at_once() {
    let (mut left, active, mut right, passive) = connected();
    left.table.disconnect(0, active, &[]).unwrap();
    right.table.disconnect(0, passive, &[]).unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(left.event().1, Event::Ended(Cause::Left { is_heard: true }));
    assert_eq!(
        right.event().1,
        Event::Ended(Cause::Left { is_heard: true })
    );
}

#[test]
fn leaving_ends_without_an_answer_too() {
    let (mut left, active, _, _) = connected();
    left.table.disconnect(0, active, &[]).unwrap();
    let mut now_ns = 0;
    let mut tries = 0;
    while left.events.is_empty() {
        tries += left.poll().len();
        now_ns += RESPONSE_NS;
        left.ring(now_ns);
    }
    assert_eq!(
        left.event(),
        (active, Event::Ended(Cause::Left { is_heard: false }))
    );
    assert_eq!((tries, left.poll().len()), (16, 0));
}

#[test]
fn a_peer_that_has_forgotten_the_connection() {
    let (_, _, mut right, passive) = connected();
    // Another life of the same adapter: the same queue pair under another name.
    let address = gid("10.0.0.1");
    let adapter = Guid(u64::from_be_bytes(*address.0.last_chunk().unwrap()));
    let mut again = End::with(address, 4, Settings::new(adapter, 99));
    let ask = again.ask(right.address);
    again.table.connect(0, &ask).unwrap();
    settle(0, &mut again, &mut right);
    assert_eq!(right.event(), (passive, Event::Ended(Cause::Stale)));
    assert!(is_rejected(&again.event().1, Reason::STALE_CONNECTION));
    assert_eq!(names(&right.sent[1..]), ["REJ", "DREQ"]);
    // It asks again, and now there is nothing in the way.
    again.table.connect(1, &ask).unwrap();
    settle(1, &mut again, &mut right);
    assert!(matches!(right.event().1, Event::Asked(_)));
}

#[test]
fn an_agreement_with_a_queue_pair_that_is_taken() {
    let (mut left, _, mut right, _) = connected();
    let mut ask = left.ask(right.address);
    ask.local_qp = Qpn::new(0x12);
    left.table.connect(0, &ask).unwrap();
    settle(0, &mut left, &mut right);
    let (passive, Event::Asked(_)) = right.event() else {
        panic!("not asked");
    };
    // The peer's user offers the queue pair of the connection that stands.
    right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    assert_eq!(left.event().1, Event::Ended(Cause::Stale));
    assert!(is_rejected(&right.event().1, Reason::STALE_CONNECTION));
}

#[test]
fn slots_are_bounded_and_used_again() {
    let mut settings = Settings::new(Guid(2), 5);
    settings.backlog = 2;
    let mut right = End::with(gid("10.0.0.2"), 3, settings);
    let mut left = End::new("10.0.0.1", 8);
    let mut ask = left.ask(right.address);
    for number in 0..4 {
        ask.local_qp = Qpn::new(0x20 + number);
        left.table.connect(0, &ask).unwrap();
    }
    settle(0, &mut left, &mut right);
    // Two wait; two are refused.
    assert_eq!((right.events.len(), left.events.len()), (2, 2));
    for (_, event) in left.events.drain(..) {
        assert!(is_rejected(&event, Reason::NO_RESOURCES));
    }
    for (handle, _) in right.events.clone() {
        right
            .table
            .reject(0, handle, Reason::CONSUMER, &[])
            .unwrap();
    }
    settle(0, &mut left, &mut right);
    right.events.clear();
    left.events.clear();
    // Connections that are over give their slots away before they need not.
    for round in 0..1000 {
        ask.local_qp = Qpn::new(0x100 + round);
        let active = left.table.connect(0, &ask).unwrap();
        settle(0, &mut left, &mut right);
        let (passive, Event::Asked(_)) = right.event() else {
            panic!("not asked");
        };
        right.table.accept(0, passive, &grant()).unwrap();
        settle(0, &mut left, &mut right);
        left.event();
        left.table.ready(active, &[]).unwrap();
        settle(0, &mut left, &mut right);
        right.event();
        left.table.disconnect(0, active, &[]).unwrap();
        settle(0, &mut left, &mut right);
        assert_eq!(
            right.event().1,
            Event::Ended(Cause::PeerLeft),
            "round {round}"
        );
        left.event();
        assert!(right.table.count() <= 3);
        left.sent.clear();
        right.sent.clear();
    }
}

#[test]
fn nobody_takes_another_path() {
    let (mut left, _, right, _) = connected();
    let Message::Rep(reply) = right.sent[0].message else {
        panic!("no agreement");
    };
    let proposal = lap::Repr {
        local_id: reply.local_id,
        remote_id: reply.remote_id,
        private: [0; lap::PRIVATE],
    };
    let datagram = Datagram {
        transaction: 9,
        message: Message::Lap(proposal),
    };
    let answer = left
        .hear(0, right.address, &datagram)
        .answer
        .unwrap()
        .datagram;
    let Message::Apr(answer) = answer.message else {
        panic!("{answer} is no answer");
    };
    assert_eq!((answer.status, answer.remote_id), (2, reply.local_id));
}

#[test]
fn misuse_is_named() {
    let (mut left, right) = pair();
    let ask = left.ask(right.address);
    assert_eq!(left.table.connect(0, &ask), Err(Misuse::PrivateData));
    let there = gid("10.0.0.2");
    let good = left.ask(there);
    let long = [1; 93];
    for (bytes, source_port, is_fine) in [
        (&long[..56], Some(1), true),
        (&long[..57], Some(1), false),
        (&long[..92], None, true),
        (&long[..93], None, false),
    ] {
        let mut ask = good;
        (ask.private, ask.source_port) = (bytes, source_port);
        let outcome = left.table.connect(0, &ask);
        assert_eq!(outcome.is_ok(), is_fine, "{} bytes", bytes.len());
    }
    let check = |change: fn(&mut warpwire_protocols::cm::Ask<'_>), field: &'static str| {
        let mut left = End::new("10.0.0.1", 2);
        let mut ask = left.ask(gid("10.0.0.2"));
        change(&mut ask);
        let error = left.table.connect(0, &ask).unwrap_err();
        assert_eq!(error, Misuse::Field(field));
        assert_eq!(error.to_string(), format!("peers would refuse the {field}"));
    };
    check(|ask| ask.mtu = Bits::new(6).unwrap(), "path MTU");
    check(|ask| ask.hop_limit = 0, "hop limit");
    check(|ask| ask.local_qp = Qpn::GSI, "queue pair");
    check(|ask| ask.here = gid("0.0.0.0"), "own address");
    check(|ask| ask.there = gid("224.0.0.1"), "peer's address");
    check(|ask| ask.transport = DATAGRAM, "service");
    let mut left = End::new("10.0.0.1", 1);
    let handle = left.table.connect(0, &left.ask(there)).unwrap();
    assert_eq!(left.table.connect(0, &left.ask(there)), Err(Misuse::Full));
    assert_eq!(left.table.ready(handle, &[]), Err(Misuse::WrongState));
    assert_eq!(
        left.table.accept(0, handle, &grant()),
        Err(Misuse::WrongState)
    );
    assert_eq!(
        left.table.disconnect(0, handle, &[]),
        Err(Misuse::WrongState)
    );
    assert_eq!(left.table.tell(0, handle, &told()), Err(Misuse::WrongState));
    for port in 0..2 {
        let service = warpwire_protocols::wire::cm::ServiceId(port);
        assert_eq!(left.table.listen(service), Ok(()));
    }
    assert_eq!(left.table.listen(SERVICE), Ok(()));
    let one_more = warpwire_protocols::wire::cm::ServiceId(9);
    assert_eq!(left.table.listen(one_more), Err(Misuse::Full));
}

#[test]
fn names_are_hidden_and_never_none() {
    // The secret that would make the first name 0.
    let settings = Settings::new(Guid(1), 0x1_0000);
    let mut left = End::with(gid("10.0.0.1"), 1, settings);
    left.table.connect(0, &left.ask(gid("10.0.0.2"))).unwrap();
    let Message::Req(request) = left.poll()[0].message else {
        panic!("no request");
    };
    assert_eq!(request.local_id, CommId(0x3_0000));
}
