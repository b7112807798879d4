use super::*;
use crate::wire::testing::{check_emit, hex};
use std::vec::Vec;

/// Every message, and the bits of its 232 bytes that are none of its own, as starts and ends.
const RESERVED: [(u16, &[(usize, usize)]); 11] = [
    (
        0x10,
        &[
            (32, 64),
            (192, 224),
            (288, 312),
            (320, 344),
            (404, 405),
            (724, 730),
            (757, 760),
            (765, 768),
            (1076, 1082),
            (1109, 1112),
            (1117, 1120),
        ],
    ),
    (0x11, &[(66, 72), (77, 80)]),
    (0x12, &[(66, 72), (79, 80)]),
    (0x13, &[(120, 160), (184, 192), (220, 224)]),
    (0x14, &[]),
    (0x15, &[(88, 96)]),
    (0x16, &[]),
    (0x17, &[(48, 64)]),
    (0x18, &[(48, 64), (88, 96)]),
    (0x19, &[]),
    (0x1a, &[(80, 96)]),
];

fn datagram(attribute: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = hex("01070203 00000000 0000000200000010 0000 0000 00000000");
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

#[test]
fn every_bit_of_every_message_comes_back_unless_it_is_reserved() {
    for (attribute, reserved) in RESERVED {
        for bit in 0..mad::DATA_LENGTH * 8 {
            let mut data = [0; mad::DATA_LENGTH];
            data[bit / 8] = 0x80 >> (bit % 8);
            let bytes = datagram(attribute, &data);
            let parsed = Datagram::parse(&bytes).unwrap();
            let mut again = vec![0; mad::LENGTH];
            parsed.emit(&mut again).unwrap();
            let is_kept = again == bytes;
            let is_reserved = reserved
                .iter()
                .any(|(start, end)| (*start..*end).contains(&bit));
            assert_eq!(is_kept, !is_reserved, "{attribute:#x} bit {bit}");
            if is_reserved {
                assert!(again[mad::Header::LENGTH..].iter().all(|byte| *byte == 0));
            }
        }
    }
}

#[test]
fn every_message_is_written_whole_and_named() {
    let names = [
        "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR",
    ];
    for ((attribute, _), name) in RESERVED.into_iter().zip(names) {
        let bytes = datagram(attribute, &[0xff; mad::DATA_LENGTH]);
        let parsed = Datagram::parse(&bytes).unwrap();
        assert_eq!(parsed.length(), 256);
        assert_eq!(parsed.transaction, 0x2_0000_0010);
        assert_eq!(parsed.message.attribute(), attribute);
        assert_eq!(parsed.message.name(), name);
        assert!(parsed.to_string().starts_with(name));
        let again = check_emit(256, |buffer| parsed.emit(buffer));
        assert_eq!(Datagram::parse(&again), Ok(parsed));
    }
}

#[test]
fn what_is_refused() {
    let good = datagram(0x14, &[0; mad::DATA_LENGTH]);
    assert!(Datagram::parse(&good).is_ok());
    for length in [0, 23, 24, 255] {
        let parsed = Datagram::parse(&good[..length]);
        assert_eq!(parsed, Err(DropReason::MadLength), "{length} bytes");
    }
    let long = [good.as_slice(), &[0]].concat();
    assert_eq!(Datagram::parse(&long), Err(DropReason::MadLength));
    // Base version, class, class version, method, attribute.
    for (at, value) in [
        (0, 2),
        (1, 6),
        (2, 1),
        (3, 0x83),
        (17, 0x0f),
        (17, 0x1b),
        (16, 1),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        let parsed = Datagram::parse(&bytes);
        assert_eq!(parsed, Err(DropReason::MadFormat), "byte {at} is {value}");
    }
}

#[test]
fn the_agreement_of_soft_roce() {
    let start = "5a4a670f adb46d10 00000000 00002d00 00000000 533b5b00 808078e0 505400fffe770002";
    let mut data = hex(start);
    data.resize(mad::DATA_LENGTH, 0);
    let Ok(Datagram {
        message: Message::Rep(rep),
        ..
    }) = Datagram::parse(&datagram(0x13, &data))
    else {
        panic!("not an agreement");
    };
    assert_eq!(rep.local_id, CommId(0x5a4a_670f));
    assert_eq!(rep.remote_id, CommId(0xadb4_6d10));
    assert_eq!(rep.local_qp.value(), 0x2d);
    assert_eq!(rep.starting_psn.value(), 0x53_3b5b);
    assert_eq!((rep.responder_resources, rep.initiator_depth), (128, 128));
    assert_eq!((rep.ack_delay.value(), rep.failover.value()), (15, 0));
    assert_eq!(
        (rep.rnr_retries.value(), rep.has_shared_receives),
        (7, false)
    );
    assert_eq!(rep.adapter.0, 0x5054_00ff_fe77_0002);
    assert_eq!(
        Message::Rep(rep).to_string(),
        "REP 5a4a670f to adb46d10 qp 0x00002d psn 0x533b5b"
    );
}

#[test]
fn reasons_speak() {
    assert_eq!(
        rej::Reason::INVALID_SERVICE_ID.to_string(),
        "invalid service id (8)"
    );
    assert_eq!(rej::Reason(99).to_string(), "reason unknown (99)");
    assert_eq!(
        sidr_rep::Status::UNSUPPORTED_SERVICE.to_string(),
        "service not supported (1)"
    );
    let known = (0..=40).filter(|value| rej::Reason(*value).explanation().is_some());
    assert_eq!(known.count(), 33);
}
