//! The requester, packet by packet, against answers that the test writes.

use warpwire_protocols::rdma::{Attributes, Mtu, Note, Operation, Request, Service, State, Status};
use warpwire_protocols::wire::opcode::Opcode;

use crate::end::{BASE, End, KEY, Sent, pair};

const FIRST: u32 = 0x00ff_ffff;
const TIMEOUT_NS: u64 = 4096 << 8;

fn attributes() -> Attributes {
    Attributes {
        mtu: Mtu::M256,
        timeout: 8,
        retries: 2,
        rnr_retries: 2,
        ..Attributes::default()
    }
}

fn end(attributes: Attributes) -> End {
    let [end, _] = pair(attributes, [FIRST, 5]);
    end
}

fn request(operation: Operation, length: u32) -> Request {
    Request {
        operation,
        length,
        address: BASE,
        key: KEY,
        ..Request::default()
    }
}

/// Opcode, sequence number relative to the first, and whether an acknowledgement is wanted, of all
/// that is sent now.
fn sent(end: &mut End, now_ns: u64) -> Vec<(u8, i32, bool)> {
    let packets = std::iter::from_fn(|| end.poll(now_ns));
    let told = packets.map(|bytes| {
        let psn = u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]);
        let ahead = (psn.wrapping_sub(FIRST) << 8) as i32 >> 8;
        (bytes[0], ahead, bytes[8] & 0x80 != 0)
    });
    told.collect()
}

/// A response from the peer.
fn respond(end: &mut End, now_ns: u64, opcode: Opcode, ahead: i32, syndrome: u8, payload: usize) {
    let psn = FIRST.wrapping_add_signed(ahead) & 0x00ff_ffff;
    let pad = (payload.wrapping_neg() & 3) as u32;
    let first = u32::from(opcode.value()) << 24 | pad << 20 | 0xffff;
    let mut bytes = Vec::new();
    for word in [first, 0x11, psn] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    if opcode != Opcode::READ_RESPONSE_MIDDLE {
        bytes.extend_from_slice(&[syndrome, 0, 0, 1]);
    }
    if opcode == Opcode::ATOMIC_ACKNOWLEDGE {
        bytes.extend_from_slice(&42u64.to_be_bytes());
    }
    bytes.resize((bytes.len() + payload).next_multiple_of(4), 0xdd);
    end.take(now_ns, &bytes, false);
}

fn acknowledge(end: &mut End, ahead: i32, syndrome: u8) {
    respond(end, 10, Opcode::ACKNOWLEDGE, ahead, syndrome, 0);
}

fn succeeded(end: &End) -> usize {
    end.sent
        .iter()
        .filter(|one| one.status == Status::Success)
        .count()
}

const ACK: u8 = 0x1f;
const SEND: [u8; 4] = [0x00, 0x01, 0x02, 0x04];

#[test]
fn messages_are_cut_and_numbered_over_the_end_of_the_numbers() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 256 * 2 + 1), 0);
    end.post(request(Operation::Write, 0), 0);
    end.post(request(Operation::Read, 256 * 3), 0x1000);
    end.post(request(Operation::FetchAdd, 8), 0x2000);
    let [first, middle, last, _] = SEND;
    let want = [
        (first, 0, false),
        (middle, 1, false),
        (last, 2, true),
        (0x0a, 3, true),
        (0x0c, 4, true),
        (0x14, 7, true),
    ];
    // The sequence number that begins a quarter of the window asks for an acknowledgement as well.
    let got = sent(&mut end, 1);
    let without =
        |list: &[(u8, i32, bool)]| list.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>();
    assert_eq!(without(&got), without(&want));
    for (got, want) in got.iter().zip(&want) {
        assert!(got.2 || !want.2, "{got:?} wants an acknowledgement");
    }
    assert_eq!(succeeded(&end), 0);
    acknowledge(&mut end, 1, ACK);
    assert_eq!(succeeded(&end), 0, "half a message");
    acknowledge(&mut end, 3, ACK);
    assert_eq!(succeeded(&end), 2);
    respond(&mut end, 10, Opcode::READ_RESPONSE_FIRST, 4, ACK, 256);
    respond(&mut end, 10, Opcode::READ_RESPONSE_MIDDLE, 5, ACK, 256);
    assert_eq!(succeeded(&end), 2);
    respond(&mut end, 10, Opcode::READ_RESPONSE_LAST, 6, ACK, 256);
    assert_eq!(succeeded(&end), 3);
    assert!(
        end.around.memory[0x1000..0x1300]
            .iter()
            .all(|byte| *byte == 0xdd)
    );
    respond(&mut end, 10, Opcode::ATOMIC_ACKNOWLEDGE, 7, ACK, 0);
    assert_eq!(succeeded(&end), 4);
    assert_eq!(end.around.memory[0x2000], 42);
    assert_eq!(end.pair.timeout_ns(10), None, "nothing is under way");
}

#[test]
fn the_window_is_kept_and_its_last_packet_wants_an_acknowledgement() {
    let mut end = end(Attributes {
        window: 8,
        ..attributes()
    });
    end.post(request(Operation::Send, 256 * 20), 0);
    let first = sent(&mut end, 1);
    assert_eq!(first.len(), 8);
    assert!(first[7].2);
    acknowledge(&mut end, 4, ACK);
    assert_eq!(sent(&mut end, 1).len(), 5);
}

#[test]
fn silence_is_met_with_repetition_and_then_failure() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 300), 0);
    end.post(request(Operation::Send, 1), 0);
    let mut now = 1;
    for round in 0..3 {
        assert_eq!(sent(&mut end, now).len(), 3, "round {round}");
        let at = end.pair.timeout_ns(now).expect("a timer runs");
        assert_eq!(at, now + TIMEOUT_NS);
        end.on_timer(at - 1);
        assert!(sent(&mut end, at - 1).is_empty());
        end.on_timer(at);
        now = at;
    }
    let failure = Sent {
        index: 0,
        status: Status::RetryExceeded,
    };
    assert_eq!(end.sent, [failure]);
    assert_eq!(end.pair.state(), State::Error);
    assert!(sent(&mut end, now).is_empty());
    assert_eq!(end.pair.timeout_ns(now), None);
}

#[test]
fn progress_begins_patience_anew() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 256 * 4), 0);
    let mut now = 1;
    for round in 0..4 {
        sent(&mut end, now);
        for _ in 0..2 {
            now = end.pair.timeout_ns(now).expect("a timer runs");
            end.on_timer(now);
            let again = sent(&mut end, now);
            assert_eq!(again[0].1, round, "from where it stopped");
        }
        respond(&mut end, now, Opcode::ACKNOWLEDGE, round, ACK, 0);
    }
    assert_eq!(succeeded(&end), 1);
}

#[test]
fn a_gap_is_filled_once() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 256 * 4), 0);
    sent(&mut end, 1);
    acknowledge(&mut end, 2, 0x60);
    let again = sent(&mut end, 11);
    assert_eq!(again.iter().map(|one| one.1).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(again[0].0, SEND[1], "goes on in the middle");
    acknowledge(&mut end, 2, 0x60);
    assert!(sent(&mut end, 12).is_empty(), "the same gap, told twice");
    acknowledge(&mut end, 3, ACK);
    assert_eq!(succeeded(&end), 1);
}

#[test]
fn a_peer_without_receives_is_waited_for() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 1), 0);
    let wait_ns = 640_000;
    let mut now = 10;
    for round in 0..3 {
        assert_eq!(sent(&mut end, now).len(), 1, "round {round}");
        respond(&mut end, now, Opcode::ACKNOWLEDGE, 0, 0x20 | 12, 0);
        if round == 2 {
            break;
        }
        assert_eq!(end.pair.timeout_ns(now), Some(now + wait_ns));
        assert!(sent(&mut end, now + wait_ns - 1).is_empty());
        now += wait_ns;
        end.on_timer(now);
    }
    assert_eq!(end.sent[0].status, Status::RnrRetryExceeded);
}

#[test]
fn a_peer_without_receives_is_waited_for_for_ever_if_so_agreed() {
    let mut end = end(Attributes {
        rnr_retries: 7,
        ..attributes()
    });
    end.post(request(Operation::Send, 1), 0);
    let mut now = 10;
    for _ in 0..100 {
        assert_eq!(sent(&mut end, now).len(), 1);
        respond(&mut end, now, Opcode::ACKNOWLEDGE, 0, 0x20 | 1, 0);
        now += 10_000;
    }
    assert_eq!(sent(&mut end, now).len(), 1);
    acknowledge(&mut end, 0, ACK);
    assert_eq!(succeeded(&end), 1);
}

#[test]
fn refusals_are_told_in_the_words_of_verbs() {
    let cases = [
        (0x61, Status::RemoteInvalidRequest),
        (0x62, Status::RemoteAccess),
        (0x63, Status::RemoteOperation),
    ];
    for (syndrome, status) in cases {
        let mut end = end(attributes());
        for _ in 0..3 {
            end.post(request(Operation::Write, 4), 0);
        }
        sent(&mut end, 1);
        acknowledge(&mut end, 1, syndrome);
        let good = Sent {
            index: 0,
            status: Status::Success,
        };
        assert_eq!(end.sent, [good, Sent { index: 1, status }]);
        assert_eq!(end.pair.state(), State::Error);
    }
}

#[test]
fn lost_responses_are_asked_for_again_from_where_they_stopped() {
    let mut end = end(attributes());
    end.post(request(Operation::Read, 256 * 3 + 5), 0x1000);
    end.post(request(Operation::Send, 1), 0);
    assert_eq!(sent(&mut end, 1).len(), 2);
    respond(&mut end, 10, Opcode::READ_RESPONSE_FIRST, 0, ACK, 256);
    // The second is lost; the third shows it.
    respond(&mut end, 10, Opcode::READ_RESPONSE_MIDDLE, 2, ACK, 256);
    assert_eq!(end.note(Note::LostResponse), 1);
    let bytes = end.poll(11).expect("asks again");
    assert_eq!(bytes[0], Opcode::READ_REQUEST.value());
    let address = u64::from_be_bytes(bytes[12..20].try_into().expect("eight"));
    let length = u32::from_be_bytes(bytes[24..28].try_into().expect("four"));
    assert_eq!((address, length), (BASE + 256, 256 * 2 + 5));
    assert_eq!(sent(&mut end, 11).len(), 1, "and repeats what came behind");
    // The rest of the first answer changes nothing more.
    respond(&mut end, 12, Opcode::READ_RESPONSE_LAST, 3, ACK, 5);
    acknowledge(&mut end, 4, ACK);
    assert!(sent(&mut end, 12).is_empty());
    respond(&mut end, 13, Opcode::READ_RESPONSE_FIRST, 1, ACK, 256);
    respond(&mut end, 13, Opcode::READ_RESPONSE_MIDDLE, 2, ACK, 256);
    respond(&mut end, 13, Opcode::READ_RESPONSE_LAST, 3, ACK, 5);
    acknowledge(&mut end, 4, ACK);
    assert_eq!(succeeded(&end), 2);
}

#[test]
fn responses_that_do_not_fit_are_an_error() {
    let cases = [
        (Opcode::READ_RESPONSE_FIRST, 256 - 4),
        (Opcode::READ_RESPONSE_LAST, 256),
        (Opcode::READ_RESPONSE_ONLY, 4),
        (Opcode::ATOMIC_ACKNOWLEDGE, 0),
    ];
    for (opcode, payload) in cases {
        let mut end = end(attributes());
        end.post(request(Operation::Read, 257), 0x1000);
        sent(&mut end, 1);
        respond(&mut end, 10, opcode, 0, ACK, payload);
        assert_eq!(end.sent[0].status, Status::BadResponse, "{opcode}");
        assert!(
            end.around.memory[0x1000..0x1200]
                .iter()
                .all(|byte| *byte == 0)
        );
    }
}

#[test]
fn fences_and_the_number_of_reads_are_kept() {
    let mut end = end(Attributes {
        reads: 2,
        ..attributes()
    });
    for _ in 0..3 {
        end.post(request(Operation::Read, 4), 0x1000);
    }
    let fenced = Request {
        fence: true,
        ..request(Operation::Send, 4)
    };
    end.post(fenced, 0);
    assert_eq!(sent(&mut end, 1).len(), 2, "as many as agreed");
    respond(&mut end, 10, Opcode::READ_RESPONSE_ONLY, 0, ACK, 4);
    assert_eq!(sent(&mut end, 10).len(), 1, "the third; the fence holds");
    respond(&mut end, 10, Opcode::READ_RESPONSE_ONLY, 1, ACK, 4);
    assert!(sent(&mut end, 10).is_empty());
    respond(&mut end, 10, Opcode::READ_RESPONSE_ONLY, 2, ACK, 4);
    assert_eq!(sent(&mut end, 10).len(), 1, "past the fence");
}

#[test]
fn requests_that_cannot_be_are_refused_when_those_before_them_are_done() {
    let long = request(Operation::Send, 257);
    let cases = [
        (
            Service::Rc,
            request(Operation::FetchAdd, 4),
            Status::LocalLength,
        ),
        (
            Service::Rc,
            request(Operation::Write, 5000),
            Status::LocalLength,
        ),
        (
            Service::Uc,
            request(Operation::Read, 4),
            Status::LocalQpOperation,
        ),
        (
            Service::Uc,
            request(Operation::SendInvalidate, 4),
            Status::LocalQpOperation,
        ),
        (
            Service::Ud,
            request(Operation::Write, 4),
            Status::LocalQpOperation,
        ),
        (Service::Ud, long, Status::LocalLength),
    ];
    for (service, bad, status) in cases {
        let mut end = end(Attributes {
            service,
            max_message: 4096,
            ..attributes()
        });
        end.post(request(Operation::Send, 4), 0);
        end.post(bad, 0);
        assert_eq!(sent(&mut end, 1).len(), 1, "{service:?} {bad:?}");
        if service == Service::Rc {
            assert_eq!(end.pair.fault(), None, "not before its turn");
            acknowledge(&mut end, 0, ACK);
            sent(&mut end, 11);
        }
        assert_eq!(end.pair.fault(), Some(status), "{service:?} {bad:?}");
        assert_eq!(succeeded(&end), 1);
        let want = match service {
            Service::Rc => State::Error,
            _ => State::SendError,
        };
        assert_eq!(end.pair.state(), want);
    }
}

#[test]
fn draining_ends_what_was_begun_and_begins_nothing() {
    let mut end = end(Attributes {
        window: 2,
        ..attributes()
    });
    end.post(request(Operation::Send, 256 * 3), 0);
    end.post(request(Operation::Send, 4), 0);
    assert_eq!(sent(&mut end, 1).len(), 2);
    end.pair.become_state(State::Draining).expect("is legal");
    assert!(!end.pair.is_idle());
    acknowledge(&mut end, 1, ACK);
    assert_eq!(sent(&mut end, 11).len(), 1, "the rest of the message");
    acknowledge(&mut end, 2, ACK);
    assert!(sent(&mut end, 12).is_empty());
    assert!(end.pair.is_idle(), "drained");
    end.pair.become_state(State::ReadyToSend).expect("is legal");
    assert_eq!(sent(&mut end, 13).len(), 1);
}

#[test]
fn unreliable_services_send_again_behind_a_failure() {
    for service in [Service::Uc, Service::Ud] {
        let mut end = end(Attributes {
            service,
            ..attributes()
        });
        assert!(end.pair.resume(0).is_err(), "nothing failed");
        end.post(request(Operation::Send, 4), 0);
        end.post(request(Operation::Read, 4), 0);
        end.post(request(Operation::Send, 4), 0);
        assert_eq!(sent(&mut end, 1).len(), 1);
        assert_eq!(end.pair.state(), State::SendError);
        // Two were flushed.
        end.pair.resume(end.posted()).expect("is legal");
        assert_eq!(
            (end.pair.state(), end.pair.fault()),
            (State::ReadyToSend, None)
        );
        assert!(sent(&mut end, 2).is_empty());
        end.post(request(Operation::Send, 4), 0);
        let packets = sent(&mut end, 3);
        let ahead: Vec<i32> = packets.iter().map(|(_, ahead, _)| *ahead).collect();
        assert_eq!(ahead, [1], "numbers go on");
        assert_eq!(end.pair.completed(), end.posted());
    }
}

#[test]
fn a_queue_pair_can_be_used_again() {
    let mut end = end(attributes());
    end.post(request(Operation::Send, 4), 0);
    sent(&mut end, 1);
    acknowledge(&mut end, 0, 0x62);
    assert_eq!(end.pair.state(), State::Error);
    assert!(end.pair.become_state(State::Init).is_err());
    end.pair.become_state(State::Reset).expect("is legal");
    let [fresh, _] = pair(attributes(), [FIRST, 5]);
    let first = end.posted();
    let attributes = *fresh.pair.attributes();
    let start = warpwire_protocols::rdma::Start {
        send: warpwire_protocols::wire::bth::Psn::new(FIRST),
        ..Default::default()
    };
    for state in [State::Init, State::ReadyToReceive] {
        end.pair.become_state(state).expect("is legal");
    }
    end.pair.connect(attributes, start, first);
    end.pair.become_state(State::ReadyToSend).expect("is legal");
    end.post(request(Operation::Send, 4), 0);
    assert_eq!(sent(&mut end, 20).len(), 1);
    acknowledge(&mut end, 0, ACK);
    assert_eq!((end.pair.completed(), end.pair.fault()), (first + 1, None));
}

#[test]
fn datagrams_carry_their_key_and_end_at_once() {
    let mut end = end(Attributes {
        service: Service::Ud,
        qkey: 0x1111_1111,
        ..attributes()
    });
    let datagram = Request {
        destination_qp: 0x33,
        qkey: 0x1111_1111,
        immediate: 9,
        ..request(Operation::SendImmediate, 5)
    };
    end.post(datagram, 0);
    let bytes = end.poll(1).expect("is sent");
    assert_eq!(bytes[0], Opcode::UD_SEND_ONLY_IMM.value());
    assert_eq!(bytes[12..16], [0x11; 4]);
    assert_eq!(bytes.len(), 12 + 8 + 4 + 8);
    assert_eq!(succeeded(&end), 1);
    // Its own datagrams would find these receives.
    end.receive(0x1000, 40 + 5);
    let looped = bytes.clone();
    end.take(2, &looped, false);
    let (received, payload) = end.received.first().expect("arrived");
    assert_eq!((received.length, received.immediate), (45, Some(9)));
    assert_eq!(payload.len(), 5);
    end.take(2, &looped, false);
    assert_eq!(end.note(Note::NoReceive), 1);
    end.receive(0x1000, 44);
    end.take(2, &looped, false);
    assert_eq!(end.note(Note::TooLong), 1);
    let mut foreign = looped;
    foreign[12] = 0;
    end.take(2, &foreign, false);
    assert_eq!(end.note(Note::DatagramKey), 1);
}
