//! Frames of scapy, and what scapy reads from them: see `testdata/README.md`.

use std::path::Path;
use warpwire_protocols::checksum::{Arithmetic, ChecksumState, icrc, transport_state};
use warpwire_protocols::parse::{
    Extent, Fast, Fragment, Headers, Kind, RoceLayout, Tail, Window, parse_bytes, parse_fast_with,
};
use warpwire_protocols::wire::opcode::ExtendedHeaders;
use warpwire_protocols::wire::{
    Opcode, aeth, atomic_ack_eth, atomic_eth, bth, cnp, deth, feth, ieth, imm_dt, ipv4, reth,
};

struct Row {
    name: String,
    tags: String,
    protocol: String,
    ports: String,
    bth: String,
    frame: Vec<u8>,
}

fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scapy.txt");
    let text = std::fs::read_to_string(path).expect("golden frames");
    let rows: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect();
    assert!(rows.len() > 90);
    rows
}

fn row(line: &str) -> Row {
    let columns: Vec<_> = line.split(" | ").map(str::to_owned).collect();
    let [name, tags, protocol, ports, bth, frame] = columns.try_into().expect("six columns");
    let byte = |at| u8::from_str_radix(&frame[at..at + 2], 16).expect("hexadecimal");
    let frame = (0..frame.len()).step_by(2).map(byte).collect();
    Row {
        name,
        tags,
        protocol,
        ports,
        bth,
        frame,
    }
}

fn parsed(row: &Row) -> Headers {
    parse_bytes(&row.frame, row.frame.len() as u32)
        .unwrap_or_else(|dropped| panic!("{}: {dropped}", row.name))
}

#[test]
fn headers_are_what_scapy_reads() {
    for row in rows() {
        let headers = parsed(&row);
        let tags = match headers.tags {
            0 => "-".to_owned(),
            1 => headers.outer_tag.id().value().to_string(),
            _ => format!(
                "{},{}",
                headers.outer_tag.id().value(),
                headers.inner_tag.id().value()
            ),
        };
        assert_eq!(tags, row.tags, "{}", row.name);
        // scapy looks into tunnels and RoCEv1, where the parser stops by design.
        if matches!(headers.kind, Kind::Gre | Kind::Mpls | Kind::RoceV1) {
            continue;
        }
        let protocol = match headers.ip_version {
            0 => "-".to_owned(),
            _ => headers.protocol.0.to_string(),
        };
        assert_eq!(protocol, row.protocol, "{}", row.name);
        let ports = match headers.has_ports() {
            true => format!("{}>{}", headers.source_port(), headers.destination_port()),
            false => "-".to_owned(),
        };
        assert_eq!(ports, row.ports, "{}", row.name);
        let (qp, psn) = (headers.destination_qp.value(), headers.psn.value());
        let bth = match headers.kind {
            Kind::RoceV2 => format!("{:02x},{qp},{psn}", headers.bth_opcode),
            _ => "-".to_owned(),
        };
        assert_eq!(bth, row.bth, "{}", row.name);
    }
}

#[test]
fn checksums_hold() {
    for row in rows() {
        let headers = parsed(&row);
        if headers.ip_version == 4 {
            let header = &row.frame[usize::from(headers.l3)..usize::from(headers.l4)];
            assert!(ipv4::checksum_holds(header), "{}", row.name);
        }
        let expected = match headers.kind {
            Kind::RoceV2 => ChecksumState::Absent,
            _ if headers.fragment != Fragment::None => ChecksumState::Unverified,
            Kind::Udp | Kind::Tcp | Kind::Icmpv4 | Kind::Icmpv6 | Kind::Vxlan => {
                ChecksumState::Good
            }
            _ => ChecksumState::Unverified,
        };
        assert_eq!(
            transport_state(&row.frame, &headers),
            expected,
            "{}",
            row.name
        );
    }
}

#[test]
fn plain_frames_take_the_fast_path() {
    for row in rows() {
        let is_plain = ["udp over", "tcp ", "icmp", "roce ", "cnp", "arp"]
            .iter()
            .any(|start| row.name.starts_with(start));
        let extent = Extent::whole(row.frame.len() as u32);
        let tail = || Some(Tail::from_bytes(&row.frame));
        let fast = parse_fast_with(&Window::from_bytes(&row.frame), extent, tail);
        assert_eq!(fast != Fast::Slow, is_plain, "{}", row.name);
    }
}

#[test]
fn roce_packets_divide_and_their_crc_holds() {
    let mut seen = Vec::new();
    for row in rows() {
        let headers = parsed(&row);
        if headers.kind != Kind::RoceV2 {
            continue;
        }
        let datagram = &row.frame[usize::from(headers.l3)..headers.end() as usize];
        assert_eq!(icrc::verify::<Arithmetic>(datagram), Ok(()), "{}", row.name);
        let layout = RoceLayout::new(&headers).unwrap_or_else(|_| panic!("{}", row.name));
        let behind = &row.frame[usize::from(headers.payload)..];
        check_extended(
            &row.name,
            layout,
            &behind[..layout.extended_length as usize],
        );
        seen.push(layout.opcode);
        let payload = &behind[layout.extended_length as usize..][..layout.payload_length as usize];
        if layout.opcode == Opcode::CNP {
            let start = usize::from(headers.payload) - bth::Header::LENGTH;
            let (header, _) = cnp::Header::split(&row.frame[start..]).unwrap();
            assert_eq!(
                cnp::Repr::parse(header).unwrap().destination_qp.value(),
                280
            );
        } else if layout.opcode == Opcode::ATOMIC_WRITE {
            assert_eq!(payload, b"12345678");
        } else if layout.opcode.has_payload() && row.name.starts_with("roce") {
            assert_eq!(payload, b"hello", "{}", row.name);
        }
    }
    for opcode in Opcode::ALL {
        assert!(seen.contains(opcode), "{opcode} is not among the frames");
    }
}

/// Reads the extended headers in their order and compares with what the generator put in.
fn check_extended(name: &str, layout: RoceLayout, mut bytes: &[u8]) {
    let has = |header| layout.extended.contains(header);
    if has(ExtendedHeaders::DETH) {
        let (header, rest) = deth::Header::split(bytes).unwrap();
        let repr = deth::Repr::parse(header);
        assert_eq!(
            (repr.qkey.0, repr.source_qp.value()),
            (0x1111_1111, 0x22),
            "{name}"
        );
        bytes = rest;
    }
    if has(ExtendedHeaders::FETH) {
        let (header, rest) = feth::Header::split(bytes).unwrap();
        assert!(
            feth::Repr::parse(header).unwrap().global_visibility,
            "{name}"
        );
        bytes = rest;
    }
    if has(ExtendedHeaders::RETH) {
        let (header, rest) = reth::Header::split(bytes).unwrap();
        let expected = reth::Repr {
            address: 0x1000,
            remote_key: 0x1234,
            message_length: 5,
        };
        assert_eq!(reth::Repr::parse(header), expected, "{name}");
        bytes = rest;
    }
    if has(ExtendedHeaders::ATOMIC_ETH) {
        let (header, rest) = atomic_eth::Header::split(bytes).unwrap();
        let repr = atomic_eth::Repr::parse(header);
        assert_eq!((repr.address, repr.remote_key), (0x1000, 0x1234), "{name}");
        assert_eq!((repr.swap_or_add, repr.compare), (1, 2), "{name}");
        bytes = rest;
    }
    if has(ExtendedHeaders::AETH) {
        let (header, rest) = aeth::Header::split(bytes).unwrap();
        let repr = aeth::Repr::parse(header).unwrap();
        assert_eq!(
            repr.syndrome,
            aeth::Syndrome::Ack(aeth::Credits::UNLIMITED),
            "{name}"
        );
        assert_eq!(repr.msn.value(), 1, "{name}");
        bytes = rest;
    }
    if has(ExtendedHeaders::ATOMIC_ACK_ETH) {
        let (header, rest) = atomic_ack_eth::Header::split(bytes).unwrap();
        let original = atomic_ack_eth::Repr::parse(header).original;
        assert_eq!(original, 0x0102_0304_0506_0708, "{name}");
        bytes = rest;
    }
    if has(ExtendedHeaders::IMM_DT) {
        let (header, rest) = imm_dt::Header::split(bytes).unwrap();
        assert_eq!(imm_dt::Repr::parse(header).immediate, 0xaabb_ccdd, "{name}");
        bytes = rest;
    }
    if has(ExtendedHeaders::IETH) {
        let (header, rest) = ieth::Header::split(bytes).unwrap();
        assert_eq!(ieth::Repr::parse(header).remote_key, 0x1eea, "{name}");
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{name}");
}
