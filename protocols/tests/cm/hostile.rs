//! Broken and forged messages: none makes a table panic, none from elsewhere changes a connection,
//! and none is answered more than once.

use crate::end::{End, connected, gid, grant, settle, told};
use warpwire_protocols::DropReason;
use warpwire_protocols::cm::{Event, Note};
use warpwire_protocols::wire::Qpn;
use warpwire_protocols::wire::cm::{Bits, Datagram, Message};

/// What both ends said in the life of a connection, each message with its sender.
fn conversation() -> Vec<(bool, Datagram)> {
    let (mut left, active, mut right, _) = connected();
    left.table.disconnect(0, active, &[]).unwrap();
    settle(0, &mut left, &mut right);
    let mut all: Vec<(bool, Datagram)> = Vec::new();
    all.extend(left.sent.iter().map(|datagram| (true, *datagram)));
    all.extend(right.sent.iter().map(|datagram| (false, *datagram)));
    assert_eq!(all.len(), 5);
    all
}

fn bytes(datagram: &Datagram) -> [u8; 256] {
    let mut bytes = [0; 256];
    datagram.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn truncated_and_overlong_messages_are_counted() {
    let (mut left, _, right, _) = connected();
    let long = [&bytes(&right.sent[0])[..], &[0; 64]].concat();
    for length in (0..long.len()).filter(|length| *length != 256) {
        let here = left.address;
        let reaction = left
            .table
            .on_datagram(0, right.address, here, &long[..length]);
        assert_eq!(
            reaction.note,
            Some(Note::Malformed(DropReason::MadLength)),
            "{length}"
        );
        assert_eq!((reaction.event, reaction.answer), (None, None));
    }
}

#[test]
fn no_message_from_elsewhere_changes_a_connection() {
    for (is_left, datagram) in conversation() {
        let (mut left, _, mut right, _) = connected();
        let end = if is_left { &mut right } else { &mut left };
        let before = format!("{:?}", end.table);
        let reaction = end.hear(0, gid("10.0.0.66"), &datagram);
        assert_eq!(reaction.event, None, "{datagram}");
        if matches!(datagram.message, Message::Req(_)) {
            assert!(
                matches!(reaction.note, Some(Note::Refused(_))),
                "{:?}",
                reaction.note
            );
        } else {
            assert_eq!(reaction.note, Some(Note::WrongPeer), "{datagram}");
        }
        assert_eq!(format!("{:?}", end.table), before, "{datagram}");
        // Nor one for another address of ours.
        let from = if is_left {
            gid("10.0.0.1")
        } else {
            gid("10.0.0.2")
        };
        let reaction = end
            .table
            .on_datagram(0, from, gid("10.0.0.77"), &bytes(&datagram));
        assert_eq!(reaction.event, None, "{datagram}");
    }
}

#[test]
fn an_end_of_another_queue_pair_and_an_answer_about_another_service() {
    let (mut left, active, mut right, _) = connected();
    left.table.disconnect(0, active, &[]).unwrap();
    let mut datagram = left.poll()[0];
    let Message::Dreq(leave) = &mut datagram.message else {
        panic!("no request for the end");
    };
    leave.remote_qp = Qpn::new(leave.remote_qp.value() + 1);
    let reaction = right.hear(0, left.address, &datagram);
    assert_eq!(reaction.note, Some(Note::WrongPeer));
    assert_eq!((reaction.event, reaction.answer), (None, None));

    let (mut left, mut right) = (End::new("10.0.0.1", 2), End::new("10.0.0.2", 2));
    let ask = left.datagram_ask(right.address);
    left.table.resolve(0, &ask).unwrap();
    settle(0, &mut left, &mut right);
    let (handle, _) = right.event();
    right.table.tell(0, handle, &told()).unwrap();
    let good = right.poll()[0];
    let mut datagram = good;
    let Message::SidrRep(answer) = &mut datagram.message else {
        panic!("no answer");
    };
    answer.service.0 += 1;
    let reaction = left.hear(0, right.address, &datagram);
    assert_eq!(
        (reaction.note, reaction.event),
        (Some(Note::Unexpected), None)
    );
    left.hear(0, right.address, &good);
    assert!(matches!(left.event().1, Event::Resolved(_)));
}

/// Every bit of every message is turned, in every state of its receiver: the receiver stays whole,
/// answers once at most, and afterwards time ends all but what stands.
#[test]
fn every_bit_turned_in_every_state() {
    let messages = conversation();
    let mut told = 0;
    for state in 0..5 {
        for (is_left, datagram) in &messages {
            let good = bytes(datagram);
            for bit in 0..256 * 8 {
                let mut bad = good;
                bad[bit / 8] ^= 0x80 >> (bit % 8);
                let (mut left, mut right) = in_state(state);
                let (end, from) = match is_left {
                    true => (&mut right, left.address),
                    false => (&mut left, right.address),
                };
                let here = end.address;
                let reaction = end.table.on_datagram(0, from, here, &bad);
                told += usize::from(reaction.event.is_some());
                let spoke = usize::from(reaction.answer.is_some()) + end.poll().len();
                // One that forgot a connection also asks for the old one's end.
                assert!(spoke <= 2, "{datagram} bit {bit} in state {state}");
                assert!(end.table.count() <= 2);
            }
        }
    }
    assert!(
        told > 1000,
        "{told} events: the messages do not reach their receivers"
    );
}

/// Two ends at one point of a connection's life: nothing, asked, granted, stands, leaving.
fn in_state(state: usize) -> (End, End) {
    let (mut left, mut right) = (End::new("10.0.0.1", 2), End::new("10.0.0.2", 2));
    if state == 0 {
        return (left, right);
    }
    let active = left.table.connect(0, &left.ask(right.address)).unwrap();
    settle(0, &mut left, &mut right);
    let (passive, _) = right.event();
    if state == 1 {
        return (left, right);
    }
    right.table.accept(0, passive, &grant()).unwrap();
    if state == 2 {
        right.poll();
        return (left, right);
    }
    settle(0, &mut left, &mut right);
    left.event();
    left.table.ready(active, &[]).unwrap();
    settle(0, &mut left, &mut right);
    right.event();
    if state == 4 {
        left.table.disconnect(0, active, &[]).unwrap();
        right.table.disconnect(0, passive, &[]).unwrap();
        left.poll();
        right.poll();
    }
    (left, right)
}

/// Fields at their limits in what a table agrees to: the peer's wishes bound ours, and no time
/// overflows.
#[test]
fn every_field_at_its_limits() {
    for byte in [0x00, 0xff] {
        let (mut left, mut right) = (End::new("10.0.0.1", 2), End::new("10.0.0.2", 2));
        left.table
            .connect(u64::MAX - 1, &left.ask(right.address))
            .unwrap();
        let mut datagram = left.poll()[0];
        let Message::Req(request) = &mut datagram.message else {
            panic!("no request");
        };
        request.responder_resources = byte;
        request.initiator_depth = byte;
        request.local_timeout = Bits::saturating(byte);
        request.remote_timeout = Bits::saturating(byte);
        request.retries = Bits::saturating(byte);
        request.rnr_retries = Bits::saturating(byte);
        request.max_cm_retries = Bits::saturating(byte);
        request.primary.ack_timeout = Bits::saturating(byte);
        right.hear(u64::MAX - 1, left.address, &datagram);
        let (passive, Event::Asked(asked)) = right.event() else {
            panic!("not asked");
        };
        assert_eq!((asked.terms.reads, asked.terms.reads_served), (byte, byte));
        let terms = right.table.accept(u64::MAX - 1, passive, &grant()).unwrap();
        assert_eq!(
            (terms.reads, terms.reads_served),
            (byte.min(2), byte.min(16))
        );
        right.poll();
        // It ends: at once if the peer wants no repetition, else after those.
        for _ in 0..17 {
            right.ring(u64::MAX);
        }
        assert_eq!(right.events.len(), 1, "{byte:#x}");
    }
}
