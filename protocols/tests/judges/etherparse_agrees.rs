//! etherparse reads the same captures; where both understand a frame, they agree.

use crate::captures;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::collections::BTreeMap;
use warpwire_protocols::parse::{Fragment, Headers, Kind, parse_bytes};

#[test]
fn where_both_understand_a_frame_they_agree() {
    let (mut compared, mut one_sided) = (0, BTreeMap::new());
    for folder in ["tcpdump", "rxe"] {
        for path in captures::files(folder) {
            for (index, frame) in captures::frames(&path).iter().enumerate() {
                let place = format!("{} frame {}", path.display(), index + 1);
                let ours = parse_bytes(&frame.bytes, frame.length);
                match (ours, SlicedPacket::from_ethernet(&frame.bytes)) {
                    (Ok(headers), Ok(theirs)) => {
                        compare(&place, &frame.bytes, &headers, &theirs);
                        compared += 1;
                    }
                    (Err(dropped), Ok(_)) => {
                        one_sided.entry(dropped.reason.name()).or_insert(place);
                    }
                    // A capture that kept the headers only is enough for us, not for etherparse.
                    (Ok(_), Err(_)) | (Err(_), Err(_)) => {}
                }
            }
        }
    }
    assert!(compared > 200, "{compared} frames");
    for (reason, place) in one_sided {
        // Each of these is a rule that etherparse leaves to its user.
        let known = [
            "arp_format",
            "bth_length",
            "fragment_range",
            "ip_length_below_header",
            "jumbogram",
            "truncated_l2",
            "udp_length",
        ];
        assert!(known.contains(&reason), "{reason}: {place}");
    }
}

fn compare(place: &str, frame: &[u8], ours: &Headers, theirs: &SlicedPacket) {
    // etherparse follows MACsec and three tags.
    let ids: Vec<u16> = theirs.vlan_ids().iter().map(|id| id.value()).collect();
    let own = [ours.outer_tag, ours.inner_tag].map(|tag| tag.id().value());
    if ours.tags > 0 && ours.tags <= 2 {
        assert_eq!(ids, own[..usize::from(ours.tags)], "{place}");
    }
    let offset = |slice: &[u8]| slice.as_ptr() as usize - frame.as_ptr() as usize;
    match &theirs.net {
        Some(NetSlice::Ipv4(ip)) if ours.ip_version == 4 => {
            assert_eq!(offset(ip.header().slice()), usize::from(ours.l3), "{place}");
            assert_eq!(ip.header().ttl(), ours.ttl, "{place}");
            assert_eq!(ip.header().protocol().0, ours.protocol.0, "{place}");
            let is_fragment = ours.fragment != Fragment::None;
            assert_eq!(ip.is_payload_fragmented(), is_fragment, "{place}");
        }
        Some(NetSlice::Ipv6(ip)) if ours.ip_version == 6 => {
            assert_eq!(offset(ip.header().slice()), usize::from(ours.l3), "{place}");
            assert_eq!(ip.header().hop_limit(), ours.ttl, "{place}");
            // etherparse goes on behind headers of authentication and mobility.
            if ours.has_ports() {
                assert_eq!(ip.payload().ip_number.0, ours.protocol.0, "{place}");
            }
        }
        Some(NetSlice::Arp(_)) => assert_eq!(ours.kind, Kind::Arp, "{place}"),
        _ => {}
    }
    match &theirs.transport {
        Some(TransportSlice::Udp(udp)) if ours.has_ports() => {
            assert_eq!(udp.source_port(), ours.source_port(), "{place}");
            assert_eq!(udp.destination_port(), ours.destination_port(), "{place}");
            assert_eq!(offset(udp.slice()), usize::from(ours.l4), "{place}");
        }
        Some(TransportSlice::Tcp(tcp)) => {
            assert_eq!(ours.kind, Kind::Tcp, "{place}");
            assert_eq!(tcp.source_port(), ours.source_port(), "{place}");
            assert_eq!(tcp.destination_port(), ours.destination_port(), "{place}");
            assert_eq!(offset(tcp.slice()), usize::from(ours.l4), "{place}");
            assert_eq!(tcp.payload().len(), ours.payload_length as usize, "{place}");
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            assert_eq!(ours.kind, Kind::Icmpv4, "{place}");
            assert_eq!(icmp.type_u8(), ours.icmp_type(), "{place}");
            assert_eq!(icmp.code_u8(), ours.icmp_code(), "{place}");
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            assert_eq!(ours.kind, Kind::Icmpv6, "{place}");
            assert_eq!(icmp.type_u8(), ours.icmp_type(), "{place}");
            assert_eq!(icmp.code_u8(), ours.icmp_code(), "{place}");
        }
        _ => {}
    }
}
