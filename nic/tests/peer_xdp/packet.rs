//! UDP over IPv4 over Ethernet, written by hand.

use std::net::Ipv4Addr;

use crate::topology::{FAR_MAC, NEAR, NEAR_MAC, OURS};

/// How the UDP checksum is filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sum {
    Full,
    /// The pseudo-header's alone, for somebody else to complete.
    Partial,
}

pub(crate) const UDP_AT: usize = 34;

/// A frame from our address to the near host.
pub(crate) fn udp_to_near(port: u16, payload: &[u8], sum: Sum) -> Vec<u8> {
    let total = (28 + payload.len()) as u16;
    let length = (8 + payload.len()) as u16;
    let (from, to): (Ipv4Addr, Ipv4Addr) = (OURS.parse().unwrap(), NEAR.parse().unwrap());
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    let check = !fold(add(0, &ip));
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let mut udp = 5000_u16.to_be_bytes().to_vec();
    udp.extend(port.to_be_bytes());
    udp.extend(length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let pseudo = add(17 + u32::from(length), &ip[12..20]);
    let check = match sum {
        Sum::Full => !fold(add(pseudo, &udp)),
        Sum::Partial => fold(pseudo),
    };
    udp[6..8].copy_from_slice(&check.to_be_bytes());
    let mut frame = NEAR_MAC.to_vec();
    frame.extend(FAR_MAC);
    frame.extend([8, 0]);
    frame.extend(ip);
    frame.extend(udp);
    frame
}

/// The payload of a UDP frame to `port`.
pub(crate) fn payload_to(frame: &[u8], port: u16) -> Option<&[u8]> {
    let is_udp = frame.get(12..14)? == [8, 0] && *frame.get(23)? == 17;
    let here = frame.get(36..38)? == port.to_be_bytes();
    let total = u16::from_be_bytes(frame.get(16..18)?.try_into().ok()?);
    (is_udp && here).then(|| frame.get(42..14 + usize::from(total)))?
}

/// Where the checksum of a TCP or UDP packet over IPv4 starts and lies, if its field holds the
/// pseudo-header's sum alone.
pub(crate) fn partial_sum(head: &[u8]) -> Option<(u16, u16)> {
    let offset = match (head.get(12..15)?, head.get(23)?) {
        ([8, 0, 0x45], 6) => 16,
        ([8, 0, 0x45], 17) => 6,
        _ => return None,
    };
    let total = u16::from_be_bytes(head.get(16..18)?.try_into().ok()?);
    let length = u32::from(total) - 20;
    let at = UDP_AT + offset;
    let field = u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?);
    let pseudo = fold(add(u32::from(head[23]) + length, &head[26..34]));
    (field == pseudo).then_some((UDP_AT as u16, offset as u16))
}

fn add(sum: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(sum, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        let word = u32::from(pair[0]) << 8 | u32::from(low);
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The folded sum of the pseudo-header of a UDP frame of `length` bytes, header included.
pub(crate) fn pseudo_sum(frame: &[u8], length: usize) -> u16 {
    fold(add(17 + length as u32, &frame[26..34]))
}
