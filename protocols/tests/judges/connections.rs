//! Every message of connection management that Linux Soft-RoCE sent is read, and written again as
//! it was, byte for byte.

use crate::captures;
use std::collections::BTreeMap;
use warpwire_protocols::parse::{Kind, parse_bytes};
use warpwire_protocols::wire::cm::{Datagram, Message, ip};
use warpwire_protocols::wire::{Qpn, bth, deth, udp};

#[test]
fn every_message_of_soft_roce_comes_back() {
    let mut counts = BTreeMap::new();
    for path in captures::files("rxe") {
        for frame in captures::frames(&path) {
            let headers = parse_bytes(&frame.bytes, frame.length).expect("a whole frame");
            if headers.kind != Kind::RoceV2 {
                continue;
            }
            let start = usize::from(headers.l4) + udp::Header::LENGTH;
            let bytes = &frame.bytes[start..headers.end() as usize - bth::ICRC_LENGTH];
            let (transport, rest) = bth::Header::split(bytes).unwrap();
            if transport.destination_qp() != Qpn::GSI {
                continue;
            }
            let (datagram, payload) = deth::Header::split(rest).unwrap();
            let datagram = deth::Repr::parse(datagram);
            assert_eq!(datagram.qkey, deth::QKey::GSI);
            assert_eq!(datagram.source_qp, Qpn::GSI);
            let place = path.display();
            let parsed = Datagram::parse(payload).unwrap_or_else(|why| panic!("{place}: {why}"));
            let mut again = [0xa5; 256];
            parsed.emit(&mut again).unwrap();
            assert_eq!(payload, again, "{place}: {parsed}");
            if let Message::Req(request) = parsed.message {
                let (addresses, _) = ip::Header::split(&request.private).unwrap();
                let addresses = ip::Repr::parse(addresses).unwrap();
                assert_eq!(
                    request.primary.local_gid.address(),
                    addresses.addresses.source()
                );
                let mut start = [0xa5; 36];
                addresses.emit(&mut start).unwrap();
                assert_eq!(request.private[..36], start);
            }
            *counts.entry(parsed.message.name()).or_insert(0) += 1;
        }
    }
    // The committed captures; the same again where the shared ones are there.
    let expected = [
        ("DREP", 5),
        ("DREQ", 5),
        ("REJ", 1),
        ("REP", 5),
        ("REQ", 6),
        ("RTU", 5),
        ("SIDR_REP", 1),
        ("SIDR_REQ", 1),
    ];
    for (name, count) in expected {
        let found = counts.get(name).copied().unwrap_or(0);
        assert!(found >= count, "{found} {name}, at least {count} expected");
    }
    assert_eq!(counts.len(), expected.len(), "{counts:?}");
}
