//! Every RoCEv2 packet that Linux Soft-RoCE sent has an invariant CRC that holds, and no flipped
//! bit that it covers goes unnoticed.

use crate::captures;
use std::path::Path;
use warpwire_protocols::checksum::{Arithmetic, Crc32, Engine, icrc};
use warpwire_protocols::parse::{Headers, Kind, RoceLayout, Tail, Window, parse_bytes};

/// An independent CRC, and a fast one: flips are many.
struct Reference;

impl Engine for Reference {
    fn update(crc: Crc32, bytes: &[u8]) -> Crc32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(crc.finish());
        hasher.update(bytes);
        Crc32::resume(hasher.finalize())
    }
}

/// Calls `check` for the datagram (IP header to invariant CRC) of every RoCEv2 packet; returns how
/// many there were.
fn for_each_packet(mut check: impl FnMut(&Path, &Headers, &[u8])) -> usize {
    let mut count = 0;
    for path in captures::files("rxe") {
        for frame in captures::frames(&path) {
            let headers = parse_bytes(&frame.bytes, frame.length)
                .unwrap_or_else(|dropped| panic!("{}: {dropped}", path.display()));
            if headers.kind == Kind::RoceV2 {
                count += 1;
                check(&path, &headers, &frame.bytes);
            }
        }
    }
    count
}

fn datagram<'a>(frame: &'a [u8], headers: &Headers) -> &'a [u8] {
    &frame[usize::from(headers.l3)..headers.end() as usize]
}

#[test]
fn every_packet_of_soft_roce_verifies() {
    let count = for_each_packet(|path, headers, frame| {
        let datagram = datagram(frame, headers);
        assert_eq!(
            icrc::verify::<Arithmetic>(datagram),
            Ok(()),
            "{}",
            path.display()
        );
        assert_eq!(
            icrc::verify::<Reference>(datagram),
            Ok(()),
            "{}",
            path.display()
        );
        let layout = RoceLayout::new(headers);
        assert!(layout.is_ok(), "{}: {layout:?}", path.display());

        // The way of device code: headers from registers, then the rest.
        let (covered, field) = datagram.split_last_chunk::<4>().unwrap();
        let window = Window::from_bytes(frame);
        let begun = match headers.ip_version {
            4 => icrc::begin_ipv4(&window),
            _ => icrc::begin_ipv6(&window, &Tail::from_bytes(frame)),
        };
        let rest = &covered[usize::from(headers.payload - headers.l3)..];
        assert_eq!(
            icrc::field(begun.update(rest)),
            *field,
            "{}",
            path.display()
        );
    });
    assert!(count > 70, "{count} packets");
}

/// Whether the invariant CRC covers this bit (0 is the lowest) of a datagram, by the list of the
/// specification.
fn is_covered(version: u8, byte: usize, bit: usize) -> bool {
    let (network, masked): (_, &[(usize, u8)]) = match version {
        4 => (20, &[(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)]),
        _ => (40, &[(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff), (7, 0xff)]),
    };
    let transport = [
        (network + 6, 0xff),
        (network + 7, 0xff),
        (network + 8 + 4, 0xff),
    ];
    let mut all = masked.iter().chain(&transport);
    !all.any(|(at, mask)| *at == byte && mask >> bit & 1 != 0)
}

#[test]
fn every_covered_bit_is_guarded() {
    let (mut flips, mut free) = (0_u64, 0_u64);
    for_each_packet(|path, headers, frame| {
        let mut packet = datagram(frame, headers).to_vec();
        for byte in 0..packet.len() {
            for bit in 0..8 {
                packet[byte] ^= 1 << bit;
                let holds = icrc::verify::<Reference>(&packet).is_ok();
                let covered = is_covered(headers.ip_version, byte, bit);
                assert_eq!(holds, !covered, "{}: byte {byte} bit {bit}", path.display());
                packet[byte] ^= 1 << bit;
                flips += 1;
                free += u64::from(!covered);
            }
        }
    });
    assert!(
        flips > 100_000 && free > 1000,
        "{flips} flips, {free} of them free"
    );
}
